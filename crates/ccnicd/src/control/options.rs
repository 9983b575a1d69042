//! The daemon's configuration.

use std::path::PathBuf;
use std::time::Duration;

use ccnic_control::{Limits, SocketAccess};

use crate::dataplane::DataplaneKind;
use crate::flow::ConfiguredFlows;
use crate::ports::PortOptions;
use crate::switch::policy::Policies;
use crate::switch::{MAX_WORKERS, Reserved};
use crate::tune::Tuned;

/// How a daemon is set up.
#[derive(Debug, Clone)]
pub struct DaemonOptions {
    /// The control socket, where programs connect.
    pub socket: PathBuf,
    /// Who may connect there.
    pub access: SocketAccess,
    /// CPUs that poll, a worker on each; at least one.
    pub cores: Vec<usize>,
    /// What programs are connected to.
    pub dataplane: DataplaneKind,
    /// What becomes, on a switch, of frames that are for the next bridge.
    pub reserved: Reserved,
    /// Ports of the switch that are no programs.
    pub ports: Vec<PortOptions>,
    /// What ports and programs may do. (Without a switch: anything.)
    pub policies: Policies,
    /// Flow rules of programs.
    pub flows: ConfiguredFlows,
    /// What programs may take.
    pub limits: Limits,
    /// True when programs have other CPUs to run on. Otherwise a worker that has nothing to do gives its CPU away.
    pub dedicated_cores: bool,
    /// A worker sleeps when no packet has come for so long; `None`: it polls all the time.
    pub sleep_after: Option<Duration>,
    /// How the machine is used. Programs are told.
    pub tuning: Tuned,
    /// How the operator has said some of it.
    pub said: Said,
}

/// How the operator has said what a start may fail for: by which flag, or in which line of a file.
#[derive(Debug, Clone, Default)]
pub struct Said {
    /// The socket.
    pub socket: String,
    /// Each of the ports.
    pub ports: Vec<String>,
}

impl DaemonOptions {
    /// As long as a hundred wake-ups take: what is saved by sleeping sooner is lost by waking.
    pub const SLEEP_AFTER: Duration = Duration::from_millis(1);

    /// The least that has to be said; all else has its default: programs need the polling CPUs, too, the switch has no other ports and no
    /// policies, workers sleep, and nothing is known of the machine.
    pub fn new(
        socket: PathBuf,
        cores: Vec<usize>,
        dataplane: DataplaneKind,
        limits: Limits,
    ) -> DaemonOptions {
        DaemonOptions {
            socket,
            access: SocketAccess::default(),
            cores,
            dataplane,
            reserved: Reserved::default(),
            ports: Vec::new(),
            policies: Policies::default(),
            flows: ConfiguredFlows::default(),
            limits,
            dedicated_cores: false,
            sleep_after: Some(DaemonOptions::SLEEP_AFTER),
            tuning: Tuned::default(),
            said: Said { socket: "socket".to_owned(), ports: Vec::new() },
        }
    }

    /// Whether so many CPUs can poll for this dataplane.
    ///
    /// # Errors
    /// What does not go together, and what to do.
    pub fn check_cores(dataplane: DataplaneKind, cores: usize) -> anyhow::Result<()> {
        anyhow::ensure!(
            cores <= MAX_WORKERS || !matches!(dataplane, DataplaneKind::Switch(_)),
            "a switch polls on {MAX_WORKERS} CPUs at most, and {cores} are named: name fewer (a second switch is another ccnicd with a \
             socket and CPUs of its own)"
        );
        Ok(())
    }

    /// How the operator has said the port at this place.
    pub(crate) fn said_port(&self, at: usize) -> String {
        let name = || self.ports.get(at).map_or_else(String::new, PortOptions::name);
        self.said.ports.get(at).cloned().unwrap_or_else(|| format!("port {}", name()))
    }

    /// True when programs are joined: packets of one go to others.
    pub fn joins(&self) -> bool {
        matches!(self.dataplane, DataplaneKind::Switch(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::switch::TableLimits;

    #[test]
    fn a_switch_polls_on_so_many_cores_at_most() {
        let switch = DataplaneKind::Switch(TableLimits::default());
        let check = DaemonOptions::check_cores;
        assert!(
            check(switch, MAX_WORKERS).is_ok() && check(DataplaneKind::Loopback, MAX_WORKERS + 1).is_ok()
        );
        let why = check(switch, MAX_WORKERS + 1).unwrap_err().to_string();
        assert!(why.contains("64 CPUs at most, and 65 are named") && why.contains("name fewer"), "{why}");
    }
}
