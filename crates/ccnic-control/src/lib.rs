//! The control socket between programs and a NIC: its messages, the connection, and the NIC's listener.
//!
//! Reading order: [`messages`] (requests and replies), [`flow`] and [`rss`] (what they say of queues), [`counters`] (what a queue counts), [`latency`] (how long packets take), [`Connection`] (either end of a control
//! connection), [`Listener`] (the NIC's end: accepts programs, maps and checks their regions) and the [`Handler`] that it calls,
//! [`Notifier`] (how the NIC notifies a program that waits); [`call`] (channels for calls, which have a socket of their own).

mod account;
pub mod call;
pub mod capture;
mod cgroup;
mod connection;
pub mod counters;
mod default;
mod error;
pub mod files;
pub mod flow;
mod inbox;
pub mod latency;
mod limits;
mod listener;
mod log_limit;
mod memory;
pub mod messages;
mod notifier;
pub mod offloads;
mod pages;
mod requests;
pub mod rss;
mod socket;
mod subordinates;
mod teardown;
mod text;

pub use account::{MemoryLease, Quotas, UserMemory};
pub use cgroup::unified_groups;
pub use connection::{Connection, DESCRIPTORS_MAX, Peer};
pub use default::default_socket;
pub use error::{Error, unreachable};
pub use limits::{Limits, Quota, UserLimits};
pub use listener::{AttachRequest, Bound, ClientId, Handler, Listener, Observer};
pub use notifier::Notifier;
pub use pages::Page;
pub use socket::SocketAccess;
pub use teardown::Teardown;
pub use text::{printable, printable_lines};
