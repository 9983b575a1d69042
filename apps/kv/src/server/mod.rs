//! The server: threads that read requests from sockets and write replies.
//!
//! | file | contents |
//! |---|---|
//! | `options.rs` | the command line |
//! | `listen.rs` | sockets that clients connect to |
//! | `poller.rs` | epoll and the numbers that it gives back |
//! | `worker.rs` | a server thread |
//! | `chores.rs` | what a thread does once a second |
//! | `client.rs` | one client with a connection |
//! | `datagrams.rs` | sockets that take requests in datagrams |
//! | `nic.rs`, `nic_datagrams.rs` | a server thread on a queue pair of a ccnic NIC |
//! | `spent.rs` | where such a thread spends its time |
//! | `process.rs` | user, daemon, locked memory, pid file |
//! | `snapshots.rs` | snapshots while it runs |
//! | `run.rs` | from start to end: threads, new clients, signals |

mod chores;
mod client;
mod datagrams;
mod listen;
mod nic;
mod nic_datagrams;
mod options;
mod poller;
mod process;
mod run;
mod snapshots;
mod spent;
mod worker;

pub use options::Options;
pub use run::run;
pub use spent::Spent;

use std::time::{SystemTime, UNIX_EPOCH};

fn say(options: &Options, what: &str) {
    if options.verbose > 0 {
        eprintln!("ccnic-kv: {what}");
    }
}

/// The Unix time in seconds.
pub fn unix_time() -> u32 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as u32)
}
