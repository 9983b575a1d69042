//! What a program uses to exchange packets with a NIC: attach, queue pairs, waiting.

mod error;
mod program;
mod waiter;

pub use error::Error;
pub use program::Program;
pub use waiter::{Waiter, Woken};
