//! The NIC side of a queue pair: what a polling core of a NIC calls.
//!
//! The NIC trusts nothing that it reads in a region. Descriptors are copied out once and checked against the pool before
//! any byte that they name is touched; bytes are only ever copied, never borrowed; the work of a call is bounded by
//! [`FETCH`]. A program can harm only its own packets.
//!
//! | file | contents |
//! |---|---|
//! | `queue.rs` | [`NicQueue`]: opening, publishing, buffers, notification |
//! | `fetch.rs`, `fetched.rs` | fetching and checking the program's packets |
//! | `deliver.rs` | copies of packets into buffers of the program |
//! | `reflect.rs` | packets that go back without a copy, and completion |
//! | `own.rs` | for a NIC with packets and buffers of its own |
//! | `fill.rs` | posted receive buffers, with the host-managed pool |
//! | `loopback.rs`, `spread.rs` | a loopback, without and with receive-side scaling |
//! | `counters.rs` | [`NicCounters`] |

mod counters;
mod deliver;
mod fetch;
mod fetched;
mod fill;
mod loopback;
mod own;
mod queue;
mod reflect;
mod spread;

pub use crate::notify::Armed;
pub use counters::NicCounters;
pub use fetched::Fetched;
pub use loopback::{Pipeline, loopback};
pub use own::BadPacket;
pub use queue::NicQueue;
pub use spread::spread;

/// The most descriptors fetched at once.
pub const FETCH: usize = 32;
