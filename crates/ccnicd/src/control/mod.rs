//! Control: the socket and the clients, configuration, and which worker polls which queue. One thread decides all of it; none of it is
//! done while a burst moves. What may block on account of a program (receiving, mapping, unmapping, closing) is done by the thread of
//! that program's connection (`ccnic_control`).
//!
//! [`DaemonOptions`] is the configuration. [`Daemon`] binds the socket, starts the workers and runs the control thread. What programs ask for
//! goes to the control plane (`plane.rs`; `plane/answer.rs` for what it replies), which deals their queues to workers (`assign.rs`), makes what a worker polls
//! (`attach.rs`) and says which queue packets go to (`flows.rs`). [`placement`] puts the daemon's threads on CPUs and says what is in the way of its polling cores.

mod assign;
mod attach;
mod captures;
mod early;
mod flows;
mod members;
mod options;
pub mod placement;
mod plane;
mod reload;
pub mod users;

use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ccnic_control::messages::Change;
use ccnic_control::{Listener, Observer};

pub use ccnic_control::default_socket;
pub use early::Prepared;
pub use options::{DaemonOptions, Said};
pub(crate) use plane::FIRST_OUTSIDE;

use crate::config::{Config, Running};
use plane::ControlPlane;

/// How often the control thread looks for programs whose region has gone missing, and whether a new configuration is to be read.
const LOOK: Duration = Duration::from_secs(1);

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The NIC daemon.
pub struct Daemon {
    listener: Listener,
    plane: ControlPlane,
}

impl Daemon {
    /// Binds the socket and starts the workers. The configuration cannot change.
    ///
    /// # Errors
    /// When a daemon already runs at the socket, or the system refuses a socket, a port or a thread.
    pub fn new(options: DaemonOptions) -> anyhow::Result<Daemon> {
        Daemon::prepare(options, None)?.start(None)
    }

    /// As [`new`](Daemon::new), of a configuration that may change: `options` are what it comes to ([`Config::settle`]).
    ///
    /// # Errors
    /// As [`new`](Daemon::new).
    pub fn with_config(options: DaemonOptions, running: Running) -> anyhow::Result<Daemon> {
        Daemon::prepare(options, Some(running))?.start(None)
    }

    /// Does what takes more rights than the daemon keeps: binds the socket, makes TAP interfaces. Starts no thread. `running` is the
    /// configuration, if it may change; `options` are what it comes to.
    ///
    /// # Errors
    /// When a daemon already runs at the socket, or the system refuses a socket or an interface.
    pub fn prepare(options: DaemonOptions, running: Option<Running>) -> anyhow::Result<Prepared> {
        Prepared::new(options, running)
    }

    /// Reads its state from other threads, as soon as it [runs](Daemon::run).
    pub fn observer(&self) -> Observer {
        self.listener.observer()
    }

    /// Runs the control thread until something can be read from `stop`. Then serves what programs have sent, and ends.
    ///
    /// Does not wait for the threads of connections, which may have to close what programs made so that closing it takes long: the
    /// process is to exit now, and then the kernel closes it without waiting.
    pub fn run(self, stop: &UnixStream) {
        self.run_reloading(stop, None);
    }

    /// As [`run`](Daemon::run). Whenever the flag becomes true, has the configuration be as the file says, or logs why it does not.
    pub fn run_reloading(mut self, stop: &UnixStream, reload: Option<(&AtomicBool, &Path)>) {
        while !self.listener.poll(&mut self.plane, Some(stop.as_fd()), Some(LOOK)) {
            self.plane.hang_up_on_lost();
            self.plane.end_captures();
            if let Some((asked, file)) = reload
                && asked.swap(false, Ordering::Relaxed)
            {
                if let Err(e) = self.reload(file) {
                    tracing::error!("the configuration stays as it was: {e:#}");
                }
                if let Err(e) = self.listener.quotas().read_subordinates() {
                    tracing::error!("whose uids are subordinate stays as it was: {e}");
                }
            }
        }
        tracing::info!("stopping: serving what has been sent");
        let Daemon { listener, plane } = self;
        listener.stop_accepting();
        drop(plane); // the workers end; until then programs see a NIC
        std::mem::forget(listener); // dropping it would wait a while for connections
    }

    fn reload(&mut self, file: &Path) -> anyhow::Result<()> {
        let text = Config::text_of(file)?;
        let change = Change::File { name: file.display().to_string(), text, check: false };
        self.plane.reconfigure(&change).map(drop)
    }
}

impl std::fmt::Debug for Daemon {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Daemon").field("options", self.plane.options()).finish_non_exhaustive()
    }
}
