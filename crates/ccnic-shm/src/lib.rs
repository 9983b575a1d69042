//! Real shared memory for ccnic: regions, their pages and homes, the control socket, the native [`SharedMemory`](ccnic::SharedMemory).
//!
//! All `unsafe` of the project but what C calls for (`ccnic-capi`) lives in this crate, each block with its reason.

mod clock;
pub mod control;
mod error;
mod holes;
mod mapping;
mod memory;
pub mod nic;
mod nontemporal;
pub mod numa;
mod program;
mod region;
pub mod rss;
mod waiter;

pub use clock::wait_for_loads;
pub use error::Error;
pub use holes::survive as survive_holes;
pub use memory::NativeMemory;
pub use nontemporal::wait_for_stores;
pub use program::Program;
pub use region::{HUGE_PAGE, Pages, Region};
pub use waiter::{Waiter, Woken};
