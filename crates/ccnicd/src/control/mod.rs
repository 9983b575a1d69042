//! Control: the socket and the clients, configuration, and which worker polls which queue. One thread decides all of it; none of it is
//! done while a burst moves. What may block on account of a program (receiving, mapping, unmapping, closing) is done by the thread of
//! that program's connection (`ccnic_control`).
//!
//! [`DaemonOptions`] is the configuration. [`Daemon`] binds the socket, starts the workers and runs the control thread. What programs ask for
//! goes to the control plane (`plane.rs`), which deals their queues to workers (`assign.rs`), makes what a worker polls
//! (`attach.rs`) and says which queue packets go to (`flows.rs`). [`placement`] puts the daemon's threads on CPUs and says what is in the way of its polling cores.

mod assign;
mod attach;
mod flows;
mod options;
pub mod placement;
mod plane;
mod reload;
pub mod users;

use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ccnic_control::{Listener, Observer};

pub use options::{DaemonOptions, default_socket};
pub(crate) use plane::FIRST_OUTSIDE;
pub use reload::Reload;

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
    /// Binds the socket and starts the workers.
    ///
    /// # Errors
    /// When a daemon already runs at the socket, or the system refuses a socket or a thread.
    pub fn new(options: DaemonOptions) -> anyhow::Result<Daemon> {
        let listener = Listener::new(&options.socket, options.limits.clone())?;
        let plane = ControlPlane::new(options)?;
        let options = plane.options();
        tracing::info!(
            socket = %options.socket.display(), cores = ?options.cores, wire = options.dataplane.name(), "ccnicd {VERSION} is ready"
        );
        Ok(Daemon { listener, plane })
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
        self.run_reloading(stop, &AtomicBool::new(false), || anyhow::bail!("there is no configuration file"));
    }

    /// As [`run`](Daemon::run). When `asked` becomes true, applies what `read` gives, or logs why it does not.
    pub fn run_reloading(
        mut self,
        stop: &UnixStream,
        asked: &AtomicBool,
        mut read: impl FnMut() -> anyhow::Result<Reload>,
    ) {
        while !self.listener.poll(&mut self.plane, Some(stop.as_fd()), Some(LOOK)) {
            self.plane.hang_up_on_lost();
            if asked.swap(false, Ordering::Relaxed) {
                match read().and_then(|new| self.plane.reload(new)) {
                    Ok(changes) => tracing::info!(?changes, "the configuration has been applied"),
                    Err(e) => tracing::error!("the configuration stays as it was: {e:#}"),
                }
            }
        }
        tracing::info!("stopping: serving what has been sent");
        let Daemon { listener, plane } = self;
        listener.stop_accepting();
        drop(plane); // the workers end; until then programs see a NIC
        std::mem::forget(listener); // dropping it would wait a while for connections
    }
}

impl std::fmt::Debug for Daemon {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Daemon").field("options", self.plane.options()).finish_non_exhaustive()
    }
}
