//! Sockets that `ccnicd-xdp` passes in: a daemon without any capability, in another network namespace, serves an interface.

use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use super::common::{Daemon, refused_port, until};
use super::failures::{Neighbours, PROGRAM};
use super::neighbour::ping;
use super::net::ip;
use super::stack::Stack;
use super::veth::{addresses, has_program, veth, with_xdp};

/// A helper, for as long as this lives.
pub struct Helper {
    child: Child,
    socket: PathBuf,
    directory: tempfile::TempDir,
}

impl Helper {
    /// One that has these interfaces.
    pub fn start(interfaces: &[&str]) -> Helper {
        let directory = tempfile::tempdir().unwrap();
        let (socket, log) = (directory.path().join("helper.sock"), directory.path().join("log"));
        let mut command = Command::new(env!("CARGO_BIN_EXE_ccnicd-xdp"));
        command.arg("--socket").arg(&socket).args(["--socket-mode", "0600"]);
        for interface in interfaces {
            command.args(["--interface", interface]);
        }
        let child = command.stdin(Stdio::null()).stderr(File::create(log).unwrap()).spawn().unwrap();
        let this = Helper { child, socket, directory };
        until("the helper", || this.log().contains("is ready"));
        this
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.directory.path().join("log")).unwrap()
    }

    /// What a daemon says to have its port of an interface.
    fn port(&self, interface: &str) -> String {
        format!("xdp:{interface},helper={}", self.socket.display())
    }

    /// A daemon with such a port, without capabilities and in a network namespace that has no such interface.
    pub fn serves(&self, interface: &str) -> Daemon {
        let command = [
            "unshare",
            "--net",
            "setpriv",
            "--bounding-set=-all",
            "--inh-caps=-all",
            env!("CARGO_BIN_EXE_ccnicd"),
        ];
        let socket = self.nic();
        let port = self.port(interface);
        let mut daemon = Daemon::start_by(&command, &socket, &["--wire", "switch", "--port", &port]);
        let sandbox = daemon.status().sandbox.unwrap();
        assert!(sandbox.kept.is_empty() && sandbox.seccomp == "on", "{sandbox:?}");
        daemon
    }

    /// Where its daemon listens.
    pub fn nic(&self) -> PathBuf {
        self.directory.path().join("nic.sock")
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        let _ = self.child.kill(); // it may have ended already
        let _ = self.child.wait();
    }
}

#[test]
fn a_daemon_without_capabilities_serves_an_interface() {
    with_xdp("helper::a_daemon_without_capabilities_serves_an_interface_inside");
}

/// Also after the interface has gone and returned; what was handed over is taken back when the daemon dies.
#[test]
#[ignore = "for a_daemon_without_capabilities_serves_an_interface"]
fn a_daemon_without_capabilities_serves_an_interface_inside() {
    veth("");
    let helper = Helper::start(&["near,queues=4,ring=256"]);
    for _ in 0..2 {
        addresses(&["10.9.0.1/24"]);
        let mut daemon = helper.serves("near");
        let port = daemon.program("xdp:near").unwrap();
        assert_eq!((port.queues.len(), &*port.design), (4, "xdp-native"));
        let mut stack = Stack::open(&helper.nic(), &[PROGRAM], 1500, false);
        for len in [56, 1400] {
            ping(&mut stack, PROGRAM, len);
        }
        daemon.falls_asleep();
        for _ in 0..2 {
            ip("link del near");
            veth("");
            until("its program to be there again", || has_program("near"));
            addresses(&["10.9.0.1/24"]);
            ping(&mut stack, PROGRAM, 56);
        }
        assert!(!daemon.signal(Signal::KILL).success());
        until("the program to be gone", || !has_program("near"));
        assert!(ip("-d link show dev near").contains("promiscuity 0"));
        ip("link del near");
        veth("");
    }
}

#[test]
fn what_a_helper_refuses_and_its_end() {
    with_xdp("helper::what_a_helper_refuses_and_its_end_inside");
}

#[test]
#[ignore = "for what_a_helper_refuses_and_its_end"]
fn what_a_helper_refuses_and_its_end_inside() {
    veth("");
    let mut helper = Helper::start(&["near", "missing,queues=1"]);
    let mut daemon = helper.serves("near");
    for (interface, expected) in [
        ("far", "this helper has near, missing and not \"far\""),
        ("missing", "there is no interface missing in this network namespace"),
        ("near", "another daemon has near: end that one"),
    ] {
        let said = refused_port(&helper.port(interface));
        assert!(said.contains("its helper refuses: ") && said.contains(expected), "{said}");
    }
    assert!(!has_program("far"));

    // It dies: nothing comes any more, and other ports do not notice.
    let mut neighbours = Neighbours::open(&helper.nic());
    neighbours.exchange();
    helper.signal(Signal::KILL);
    helper.child.wait().unwrap();
    until("the program to be gone", || !has_program("near"));
    until("its end to be noticed", || daemon.log().contains("its helper hands over nothing more"));
    neighbours.exchange();
    daemon.falls_asleep();
    assert!(daemon.signal(Signal::TERM).success());
}
