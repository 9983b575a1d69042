//! The NIC daemon: attaches programs over a control socket and polls their queue pairs on its own cores.
//!
//! One control thread, a thread for each connection, and one polling thread (a *worker*) per core. Reading order, which is also the order of dependence:
//!
//! 1. [`ports`]: what packets come from and go to. A port gives bursts and takes bursts.
//! 2. [`switch`]: joins ports; learns addresses.
//! 3. [`poll`]: workers, the scheduling of clients on a worker, and the hand-off of packets between workers.
//! 4. [`dataplane`]: what is done with a burst of a client that is not joined to others: loopback, receive-side scaling.
//! 5. [`flow`]: flow rules, which say for some packets of a program what becomes of them, before receive-side scaling does.
//! 6. [`control`]: the control socket, clients, configuration; which worker polls which queue.
//!
//! [`config`] is what an operator says of all this, in a file and by flags. Beside it are [`log`](mod@log), which events are logged,
//! [`metrics`], what Prometheus reads, [`notify`], what a service manager is told, [`start`], what a start and a check of a configuration look through, [`oom`], what the kernel is told of the daemon's memory, [`sandbox`], what the daemon may do once
//! it is set up, and [`tune`], what this machine decides of the interface.
//!
//! A worker owns its ports outright; the control thread talks to it by messages. No lock is taken and nothing is allocated while
//! packets move. `docs/architecture/daemon.md` has the picture.

pub mod command;
pub mod config;
pub mod control;
pub mod dataplane;
pub mod flow;
pub mod log;
mod memory;
pub mod metrics;
pub mod notify;
pub mod oom;
pub mod poll;
pub mod ports;
pub mod sandbox;
pub mod start;
pub mod switch;
#[cfg(test)]
mod testing;
pub mod tune;

pub use control::{Daemon, DaemonOptions, default_socket};
