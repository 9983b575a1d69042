//! Real shared memory for ccnic: regions, their pages and homes, the control socket, the native [`Port`](ccnic::Port).
//!
//! All `unsafe` of the project lives in this crate, each block with its reason.

mod error;
mod mapping;
mod port;
mod region;

pub use error::Error;
pub use port::NativePort;
pub use region::{HUGE_PAGE, Pages, Region};
