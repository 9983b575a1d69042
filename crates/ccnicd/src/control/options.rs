//! The daemon's configuration.

use std::path::PathBuf;

use ccnic_control::Limits;

use crate::dataplane::DataplaneKind;
use crate::tune::Tuned;

/// How a daemon is set up.
#[derive(Debug, Clone)]
pub struct DaemonOptions {
    /// The control socket, where programs connect.
    pub socket: PathBuf,
    /// CPUs that poll, a worker on each; at least one.
    pub cores: Vec<usize>,
    /// What programs are connected to.
    pub dataplane: DataplaneKind,
    /// What programs may take.
    pub limits: Limits,
    /// True when programs have other CPUs to run on. Otherwise a worker that has nothing to do gives its CPU away.
    pub dedicated_cores: bool,
    /// How the machine is used. Programs are told.
    pub tuning: Tuned,
}

impl DaemonOptions {
    /// Whether so many CPUs can poll for this dataplane.
    ///
    /// # Errors
    /// What does not go together, and what to do.
    pub fn check_cores(dataplane: DataplaneKind, cores: usize) -> anyhow::Result<()> {
        anyhow::ensure!(
            cores == 1 || !matches!(dataplane, DataplaneKind::Switch(_)),
            "--wire switch polls on one CPU and --cores names {cores}: name one (a second switch is another ccnicd with its own --socket \
             and CPU)"
        );
        Ok(())
    }

    /// True when programs are joined: packets of one go to others.
    pub fn joins(&self) -> bool {
        matches!(self.dataplane, DataplaneKind::Switch(_))
    }
}

/// The control socket's default path: `ccnic.sock` in `/run` for root, otherwise in `$XDG_RUNTIME_DIR`, or in the directory for
/// temporary files where that is not set.
pub fn default_socket() -> PathBuf {
    let directory = if rustix::process::geteuid().is_root() {
        PathBuf::from("/run")
    } else {
        std::env::var_os("XDG_RUNTIME_DIR").map_or_else(std::env::temp_dir, PathBuf::from)
    };
    directory.join("ccnic.sock")
}
