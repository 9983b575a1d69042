//! What the tests share: a NIC with a switch in a process of its own, which is this binary again.

#![allow(dead_code, reason = "each test uses its part")]

pub mod transfer;

use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ccnic_client::Pages;
use ccnic_control::Connection;
use ccnic_tcp::{Options, Peer, Stack};
#[allow(unused_imports, reason = "each test uses its part")]
pub use ccnic_testing::alone;
use ccnicd::dataplane::DataplaneKind;
use ccnicd::{Daemon, DaemonOptions};
use rustix::thread::{CpuSet, sched_getaffinity};

/// Longer than any machine needs; only a hang gets here.
pub const PATIENCE: Duration = Duration::from_secs(120);

const SOCKET: &str = "CCNIC_TCP_TEST_SOCKET";
const PORTS: &str = "CCNIC_TCP_TEST_PORTS";

/// Does `step` until it returns true; `what` says what did not come.
#[track_caller]
pub fn until(what: &str, mut step: impl FnMut() -> bool) {
    let start = Instant::now();
    while !step() {
        assert!(start.elapsed() < PATIENCE, "timed out waiting for {what}");
    }
}

/// A NIC with a switch. Dropping it ends it.
pub struct Nic {
    child: Child,
    pub socket: PathBuf,
    _directory: tempfile::TempDir,
}

impl Nic {
    /// Starts one with these ports, and waits until it answers.
    #[track_caller]
    pub fn start(ports: &[&str]) -> Nic {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("nic.sock");
        let child = Nic::spawn(&socket, ports);
        let mut this = Nic { child, socket, _directory: directory };
        this.answers();
        this
    }

    fn spawn(socket: &Path, ports: &[&str]) -> Child {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "common::daemon", "--ignored", "--nocapture"])
            .env(SOCKET, socket)
            .env(PORTS, ports.join(" "))
            .stdout(Stdio::null())
            .spawn()
            .unwrap()
    }

    #[track_caller]
    fn answers(&mut self) {
        until("the NIC", || {
            std::thread::sleep(Duration::from_millis(5));
            assert!(self.child.try_wait().unwrap().is_none(), "the NIC has ended");
            Connection::open(&self.socket).is_ok_and(|nic| nic.status().is_ok())
        });
    }

    /// Kills it (SIGKILL), which it cannot prepare for.
    #[track_caller]
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts another one at the same socket.
    #[track_caller]
    pub fn start_again(&mut self, ports: &[&str]) {
        self.child = Nic::spawn(&self.socket, ports);
        self.answers();
    }

    /// A host on the switch, with these addresses.
    #[track_caller]
    pub fn host(&self, ipv4: &str, ipv6: &str) -> Stack {
        Stack::open(&self.socket, &options(ipv4, ipv6)).unwrap()
    }
}

/// Addresses, and small pages.
pub fn options(ipv4: &str, ipv6: &str) -> Options {
    let mut options = Options::new(ipv4.parse().unwrap());
    options.ipv6 = Some(ipv6.parse().unwrap());
    options.pages = Pages::Small;
    options
}

/// The peer at an address, once `server`, which has it, has told `client` its Ethernet address.
#[track_caller]
pub fn peer(server: &mut Stack, client: &mut Stack, at: SocketAddr) -> Peer {
    let mut peer = None;
    until("the peer's address", || {
        server.poll();
        client.poll();
        peer = client.peer(at).unwrap();
        peer.is_some()
    });
    peer.unwrap()
}

impl Drop for Nic {
    fn drop(&mut self) {
        let _ = self.child.kill(); // it may have ended already
        let _ = self.child.wait();
    }
}

#[test]
#[ignore = "a NIC for the other tests"]
fn daemon() {
    let Some(socket) = std::env::var_os(SOCKET) else { return };
    let ports = std::env::var(PORTS).unwrap_or_default();
    let allowed = sched_getaffinity(None).unwrap();
    let usable: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).collect();
    let cores = usable.last().copied().into_iter().collect();
    let limits = ccnic_control::Limits::new(1 << 30, 4 << 30);
    let switch = DataplaneKind::Switch(ccnicd::switch::TableLimits::default());
    let options = DaemonOptions {
        dedicated_cores: usable.len() > 1,
        ports: ports.split_whitespace().map(|port| port.parse().unwrap()).collect(),
        ..DaemonOptions::new(socket.into(), cores, switch, limits)
    };
    let (stop, _held) = UnixStream::pair().unwrap();
    Daemon::new(options).unwrap().run(&stop);
}

/// The byte at a place of what is sent in a direction.
pub fn byte(direction: u8, at: usize) -> u8 {
    ((at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8 ^ direction
}
