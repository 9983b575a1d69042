// Two hosts on the switch of a NIC that runs on a thread: for examples in the documentation, which include this file.

use std::os::unix::net::UnixStream;
use std::thread::JoinHandle;
use std::time::Duration;

use ccnic_client::Pages;
use ccnic_control::{Connection, Limits};
use ccnic_tcp::{Options, Stack};
use ccnicd::dataplane::DataplaneKind;
use ccnicd::switch::TableLimits;
use ccnicd::{Daemon, DaemonOptions};
use rustix::thread::{CpuSet, sched_getaffinity};

/// Ends the NIC when it is dropped, after the hosts.
pub struct Nic {
    stop: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
    _directory: tempfile::TempDir,
}

impl Drop for Nic {
    fn drop(&mut self) {
        drop(self.stop.take());
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(ended.is_some_and(|ended| ended.is_ok()), "the NIC has failed");
    }
}

/// A server with the address 10.9.0.2, a client with 10.9.0.3, and their NIC.
pub fn hosts() -> (Stack, Stack, Nic) {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("nic.sock");
    let allowed = sched_getaffinity(None).unwrap();
    let cores = (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).last().into_iter().collect();
    let switch = DataplaneKind::Switch(TableLimits::default());
    let limits = Limits::new(1 << 30, 4 << 30);
    let daemon = Daemon::new(DaemonOptions::new(socket.clone(), cores, switch, limits)).unwrap();
    let (stop, held) = UnixStream::pair().unwrap();
    let thread = std::thread::spawn(move || {
        daemon.run(&held);
    });
    let nic = Nic { stop: Some(stop), thread: Some(thread), _directory: directory };
    while !Connection::open(&socket).is_ok_and(|nic| nic.status().is_ok()) {
        std::thread::sleep(Duration::from_millis(1));
    }
    let host = |address: &str| {
        let options = Options { pages: Pages::Small, ..Options::new(address.parse().unwrap()) };
        Stack::open(&socket, &options).unwrap()
    };
    (host("10.9.0.2/24"), host("10.9.0.3/24"), nic)
}
