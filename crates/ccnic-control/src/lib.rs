//! The control socket between programs and a NIC: its messages, the connection, and the NIC's listener.
//!
//! Reading order: [`messages`] (what is asked and answered), [`Connection`] (either end of a control connection),
//! [`Listener`] (the NIC's end: accepts programs, maps and checks their regions), [`Notifier`] (how the NIC notifies a
//! program that waits).

mod connection;
mod error;
mod listener;
pub mod messages;
mod notifier;
pub mod rss;
mod socket;

pub use connection::Connection;
pub use error::Error;
pub use listener::{AttachRequest, ClientId, Limits, Listener, Memory, Nic};
pub use notifier::Notifier;
