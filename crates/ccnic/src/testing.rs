//! Parts of the interface that only its own tests reach into: not covered by any promise.

pub use crate::notify::{NotifyState, arm, disarm};
pub use crate::pool::{Allocator, Class};
