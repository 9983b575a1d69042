//! The control socket between programs and a NIC: its messages, the connection, and the NIC's listener.
//!
//! Reading order: [`messages`] (requests and replies), [`Connection`] (either end of a control connection), [`Listener`] (the
//! NIC's end: accepts programs, maps and checks their regions) and the [`Handler`] that it calls, [`Notifier`] (how the NIC notifies a
//! program that waits).

mod cgroup;
mod connection;
mod error;
mod limits;
mod listener;
pub mod messages;
mod notifier;
pub mod rss;
mod socket;

pub use connection::Connection;
pub use error::Error;
pub use limits::{Limits, MemoryLease};
pub use listener::{AttachRequest, ClientId, Handler, Listener};
pub use notifier::Notifier;
