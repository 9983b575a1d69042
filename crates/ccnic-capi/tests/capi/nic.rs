//! A NIC daemon in a process of its own: this test binary again.

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ccnic_control::Connection;
pub(crate) use ccnic_testing::alone;
use ccnicd::dataplane::DataplaneKind;
use ccnicd::switch::TableLimits;
use ccnicd::{Daemon, DaemonOptions};
use rustix::thread::{CpuSet, sched_getaffinity};

use crate::build::{ALL, program, run};

/// A timeout that only a hang reaches.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
const SOCKET: &str = "CCNIC_TEST_SOCKET";
const WIRE: &str = "CCNIC_TEST_WIRE";

/// A running daemon. Dropping it kills it.
pub(crate) struct Nic {
    child: Child,
    pub(crate) socket: PathBuf,
}

impl Nic {
    #[track_caller]
    pub(crate) fn start(directory: &Path) -> Nic {
        Nic::start_as(directory, "loopback")
    }

    #[track_caller]
    pub(crate) fn start_as(directory: &Path, wire: &str) -> Nic {
        let socket = directory.join("nic.sock");
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", "nic::daemon", "--ignored"])
            .env(SOCKET, &socket)
            .env(WIRE, wire)
            .stdout(Stdio::null());
        let mut this = Nic { child: command.spawn().unwrap(), socket };
        let start = Instant::now();
        while Connection::open(&this.socket).is_err() {
            assert_eq!(this.child.try_wait().unwrap(), None, "the daemon has ended");
            assert!(start.elapsed() < PATIENCE, "the daemon does not answer");
            std::thread::sleep(Duration::from_millis(2));
        }
        this
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) fn alive(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }
}

/// Builds a program in C in every way and runs it beside a daemon, with what `prepare` adds to its environment. It must say that it has
/// tried the five designs.
#[track_caller]
pub(crate) fn in_every_design(source: &str, prepare: impl Fn(&mut Command)) {
    let _alone = alone();
    for how in ALL {
        let directory = tempfile::tempdir().unwrap();
        let Some(mut command) = program(source, how, directory.path()) else { continue };
        let mut nic = Nic::start(directory.path());
        prepare(&mut command);
        let output = run(command.arg(&nic.socket));
        assert_eq!(String::from_utf8_lossy(&output.stdout), "5 designs\n", "{how:?}");
        assert!(nic.alive(), "{how:?}: the daemon has ended");
    }
}

impl Drop for Nic {
    fn drop(&mut self) {
        let _ = self.child.kill(); // it may have ended already
        let _ = self.child.wait();
    }
}

#[test]
#[ignore = "a daemon for the other tests"]
fn daemon() {
    let Some(socket) = std::env::var_os(SOCKET) else { return };
    let allowed = sched_getaffinity(None).unwrap();
    let usable: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).collect();
    let cores = usable.last().copied().into_iter().collect();
    let wire = match std::env::var(WIRE).as_deref() {
        Ok("switch") => DataplaneKind::Switch(TableLimits::default()),
        _ => DataplaneKind::Loopback,
    };
    let limits = ccnic_control::Limits::new(1 << 30, 4 << 30);
    let options = DaemonOptions {
        dedicated_cores: usable.len() > 1,
        ..DaemonOptions::new(socket.into(), cores, wire, limits)
    };
    let (stop, _held) = UnixStream::pair().unwrap();
    Daemon::new(options).unwrap().run(&stop);
}
