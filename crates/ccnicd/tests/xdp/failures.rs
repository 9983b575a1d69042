//! What goes wrong, and that others do not notice.

use std::path::Path;

use rustix::process::Signal;

use super::common::{Daemon, refused_port, until, without_lock};
use super::neighbour::ping;
use super::net::{Nic, ip};
use super::stack::{MAC, Port, Stack};
use super::veth::{addresses, has_program, veth, with_xdp};

pub const PROGRAM: &str = "10.9.0.2";
const BROADCAST: [u8; 6] = [0xff; 6];

/// A frame of no protocol.
fn frame(to: [u8; 6], from: [u8; 6]) -> Vec<u8> {
    let mut frame = [&to[..], &from, &[0x88, 0xb5]].concat();
    frame.resize(100, 1);
    frame
}

/// Two programs beside the port.
pub struct Neighbours([Port; 2]);

impl Neighbours {
    pub fn open(nic: &Path) -> Neighbours {
        Neighbours(["left", "right"].map(|name| Port::open(nic, name, 1500, false)))
    }

    /// A packet goes from one to the other and back.
    #[track_caller]
    pub fn exchange(&mut self) {
        let address = |n: usize| [2, 0, 0, 0, 3, n as u8];
        for (from, to) in [(0, 1), (1, 0)] {
            let sent = frame(address(to), address(from));
            assert!(self.0[from].send(&sent, 0));
            until("a neighbour's packet", || self.0[to].next().is_some_and(|frame| frame == sent));
        }
    }
}

#[test]
fn an_interface_goes_down_is_deleted_and_returns() {
    with_xdp("failures::an_interface_goes_down_is_deleted_and_returns_inside");
}

#[test]
#[ignore = "for an_interface_goes_down_is_deleted_and_returns"]
fn an_interface_goes_down_is_deleted_and_returns_inside() {
    veth("");
    let mut nic = Nic::start(&["xdp:near"]);
    addresses(&["10.9.0.1/24"]);
    let mut stack = Stack::open(&nic.socket, &[PROGRAM], 1500, false);
    let mut neighbours = Neighbours::open(&nic.socket);
    ping(&mut stack, PROGRAM, 56);

    ip("link set near down");
    let before = nic.counters("xdp:near");
    assert!(stack.port.send(&frame(BROADCAST, MAC), 0));
    until("the drop to be counted", || nic.counters("xdp:near").drop_port_down > before.drop_port_down);
    neighbours.exchange();
    ip("link set near up");
    ping(&mut stack, PROGRAM, 56);

    // The other end is down: the carrier is lost.
    ip("link set far down");
    let before = nic.counters("xdp:near");
    assert!(stack.port.send(&frame(BROADCAST, MAC), 0));
    until("the drop to be counted", || nic.counters("xdp:near").drop_port_refused > before.drop_port_refused);
    ip("link set far up");
    ping(&mut stack, PROGRAM, 56);

    nic.daemon.falls_asleep();
    ip("link del near");
    until("its loss to be noticed", || nic.daemon.log().contains("the interface has gone"));
    let before = nic.counters("xdp:near");
    assert!(stack.port.send(&frame(BROADCAST, MAC), 0));
    until("the drop to be counted", || nic.counters("xdp:near").drop_port_down > before.drop_port_down);
    neighbours.exchange();

    nic.daemon.falls_asleep();
    veth("");
    until("its program to be there again", || has_program("near"));
    addresses(&["10.9.0.1/24"]);
    ping(&mut stack, PROGRAM, 56);
    let (fds, maps) = nic.daemon.settled();
    for _ in 0..3 {
        ip("link del near");
        veth("");
        until("its program to be there again", || has_program("near"));
        addresses(&["10.9.0.1/24"]);
        ping(&mut stack, PROGRAM, 56);
    }
    until("what was bound to be closed", || nic.daemon.settled() == (fds, maps));
    nic.accounts_for_all();
}

#[test]
fn a_daemon_that_is_killed_leaves_no_program() {
    with_xdp("failures::a_daemon_that_is_killed_leaves_no_program_inside");
}

#[test]
#[ignore = "for a_daemon_that_is_killed_leaves_no_program"]
fn a_daemon_that_is_killed_leaves_no_program_inside() {
    veth("");
    addresses(&["10.9.0.1/24"]);
    for _ in 0..3 {
        let mut nic = Nic::start(&["xdp:near"]);
        let mut stack = Stack::open(&nic.socket, &[PROGRAM], 1500, false);
        ping(&mut stack, PROGRAM, 56);
        assert!(has_program("near"));
        assert!(!nic.daemon.signal(Signal::KILL).success());
        until("the program to be gone", || !has_program("near"));
        assert!(ip("-d link show dev near").contains("promiscuity 0"));
    }
}

#[test]
fn interfaces_that_cannot_be_had() {
    with_xdp("failures::interfaces_that_cannot_be_had_inside");
}

#[test]
#[ignore = "for interfaces_that_cannot_be_had"]
fn interfaces_that_cannot_be_had_inside() {
    veth("");
    let mut nic = Nic::start(&["xdp:near"]);
    for (port, expected) in [
        ("xdp:near", "it has another one; end the program that has attached it"),
        ("xdp:none", "there is no interface none in this network namespace"),
        ("xdp:far,queues=5", "queues=5: far has 4"),
        ("xdp:far,zero-copy=on", "its driver offers no zero-copy"),
        ("xdp:lo,mode=native", "its driver has no native mode"),
    ] {
        let said = refused_port(port);
        let name = port.split(',').next().unwrap();
        assert!(said.contains(&format!("--port {name}: ")) && said.contains(expected), "{said}");
    }
    assert!(!has_program("far"), "what was attached has been taken off");
    assert!(nic.daemon.signal(Signal::TERM).success());
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("other.sock");
    drop(Daemon::start_with(&socket, &["--wire", "switch", "--port", "xdp:near"])); // which is free again
}

#[test]
fn without_capabilities() {
    with_xdp("failures::without_capabilities_inside");
}

/// Each capability that is missing is named.
#[test]
#[ignore = "for without_capabilities"]
fn without_capabilities_inside() {
    veth("");
    ip("link set near up");
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("nic.sock");
    for (dropped, expected) in
        [("-net_raw", "that takes CAP_NET_RAW"), ("-bpf,-sys_admin", "that takes CAP_BPF")]
    {
        let output = std::process::Command::new("setpriv")
            .args([&format!("--bounding-set={dropped}")[..], "--inh-caps", dropped])
            .arg(env!("CARGO_BIN_EXE_ccnicd"))
            .args(["--wire", "switch", "--tuning", "default", "--port", "xdp:near", "--socket"])
            .arg(&socket)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(expected), "{said}");
    }
}

#[test]
fn another_user_binds_an_interface_that_returns() {
    with_xdp("failures::another_user_binds_an_interface_that_returns_inside");
}

/// With the capabilities that are kept for it, and no others.
#[test]
#[ignore = "for another_user_binds_an_interface_that_returns"]
fn another_user_binds_an_interface_that_returns_inside() {
    let users = std::fs::read_to_string("/proc/self/uid_map").unwrap();
    if users.split_whitespace().nth(2).is_none_or(|count| count == "1") {
        return println!("skipped: there is no other user in this namespace");
    }
    veth("");
    addresses(&["10.9.0.1/24"]);
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("nic.sock");
    let args = ["--wire", "switch", "--port", "xdp:near", "--user", "4242:4343"];
    let mut daemon = Daemon::start_with(&socket, &args);
    let sandbox = daemon.status().sandbox.unwrap();
    assert_eq!(
        (sandbox.uid, without_lock(&sandbox)),
        (4242, vec!["cap_net_admin", "cap_net_raw", "cap_bpf"])
    );
    let mut stack = Stack::open(&socket, &[PROGRAM], 1500, false);
    ping(&mut stack, PROGRAM, 56);
    ip("link del near");
    until("its loss to be noticed", || daemon.log().contains("the interface has gone"));
    veth("");
    until("its program to be there again", || has_program("near"));
    addresses(&["10.9.0.1/24"]);
    ping(&mut stack, PROGRAM, 56);
}
