//! Regions of real shared memory: memfds, their pages and NUMA homes, and the native
//! [`SharedMemory`](ccnic::SharedMemory).
//!
//! Nearly all `unsafe` of the project is in this crate and in `ccnic-capi` (the C interface), each block with
//! its reason. What is left to others is [`Region::agent`]: access to a region, whose offsets are not checked.
//! Programs need neither: `ccnic-client` and `ccnic-nic` hand out types that keep its contract.

mod barrier;
mod clock;
mod copy;
mod error;
mod extents;
mod freeze;
mod holes;
mod inherited;
mod mapping;
mod memory;
mod nontemporal;
pub mod numa;
mod offered;
pub mod outgoing;
mod prefetch;
mod region;
mod renew;
pub mod tun;
mod vectors;
pub mod xdp;

pub use barrier::{heavy_barrier, take_part_in_barriers};
pub use clock::{thread_time, timestamp, wait_for_loads};
pub use error::Error;
pub use extents::collapse;
pub use holes::survive as survive_holes;
pub use inherited::inherited;
pub use memory::{Adopt, NativeMemory};
pub use nontemporal::wait_for_stores;
pub use offered::{OfferedRegion, Sealing};
pub use prefetch::prefetch;
pub use region::{HUGE_PAGE, Pages, Region};
pub use vectors::Vectors;
