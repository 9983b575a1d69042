//! The NIC side of a queue pair: what a polling core of a NIC calls.
//!
//! The NIC trusts nothing that it reads in a region. Descriptors are copied out once and checked against the
//! pool before any byte that they name is touched; bytes are only ever copied, never borrowed; the work of a
//! call is bounded by [`FETCH`]. A program can harm only its own packets.
//!
//! | file | contents |
//! |---|---|
//! | `queue.rs` | [`NicQueue`]: opening, publishing, buffers, notification |
//! | `fetch.rs`, `fetched.rs` | fetching and checking the program's packets |
//! | `deliver.rs` | copies of packets into buffers of the program |
//! | `inline.rs`, `taken.rs` | copies into the areas beside the ring's units; when units are handed back |
//! | `kept.rs` | segments in buffers that the program keeps |
//! | `reflect.rs` | packets that go back without a copy, and completion |
//! | `own.rs` | for a NIC with packets and buffers of its own |
//! | `bytes.rs` | whole bursts between its own memory and the program |
//! | `fill.rs` | posted receive buffers, with the host-managed pool |
//! | `burst.rs` | [`BurstQueue`]: what a dataplane needs of any queue |
//! | `loopback.rs` | a loopback |
//! | `spread.rs`, `spread_across.rs` | a loopback with receive-side scaling, on one core and over several |
//! | `forward.rs` | packets of one program go to others |
//! | `counters.rs` | [`NicCounters`] |

mod burst;
mod bytes;
mod counters;
mod deliver;
mod fetch;
mod fetched;
mod fill;
mod forward;
mod inline;
#[cfg(test)]
mod inline_tests;
mod kept;
mod loopback;
mod own;
mod queue;
mod reflect;
mod spread;
mod spread_across;
mod taken;

pub use crate::notify::Armed;
pub use burst::BurstQueue;
pub use counters::NicCounters;
pub use fetched::Fetched;
pub use forward::{Dealt, Loss, Origin, spread_copies};
pub use loopback::{Pipeline, loopback};
pub use own::BadPacket;
pub use queue::NicQueue;
pub use spread::{Receivers, Steered, gather, spread};
pub use spread_across::{OtherCores, deliver_handed, spread_across};

/// The most descriptors fetched at once.
pub const FETCH: usize = 32;
