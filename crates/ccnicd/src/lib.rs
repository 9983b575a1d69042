//! The NIC daemon: takes programs over a control socket and serves their queue pairs from polling cores.
//!
//! One control thread ([`Daemon`]) accepts programs, maps and checks their regions, and deals their queue pairs to the
//! polling threads ([`worker`]). A polling thread owns its queues outright; the control thread talks to it by messages.

mod daemon;
mod served;
mod tenant;
pub mod wire;
pub mod worker;

pub use daemon::{Daemon, Options, default_socket};
