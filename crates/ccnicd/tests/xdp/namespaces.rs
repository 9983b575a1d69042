//! Interfaces of AF_XDP ports and network namespaces: the column "XDP" of the table in docs/ports.md.

use std::path::Path;

use rustix::process::Signal;

use super::common::{Daemon, refused_port, until};
use super::failures::PROGRAM;
use super::helper::Helper;
use super::neighbour::ping;
use super::net::{Namespace, Nic, Pinger, ip};
use super::stack::Stack;
use super::veth::{addresses, has_program, veth, with_xdp};

/// Where the interface goes, and its kernel's address there.
const POD: &str = "10.9.0.7";

/// The kernel there has the interface, without a program, and gets what is sent to it.
#[track_caller]
fn is_theirs(pod: &Namespace) {
    let link = || pod.ip("-d link show dev near");
    until("the program to be gone", || !link().contains("prog/xdp"));
    assert!(link().contains("promiscuity 0"), "{}", link());
    pod.ip(&format!("addr replace {POD}/24 dev near"));
    pod.ip("link set near up");
    let mut pinger = Pinger::new(POD.parse().unwrap());
    let mut tries = 0;
    until("an answer", || {
        tries += 1;
        if tries % 1000 == 1 {
            pinger.send(56);
        }
        pinger.answered()
    });
}

/// It is moved and returns, at once or later, a few times; the port has it again each time.
#[track_caller]
fn moves(log: &dyn Fn() -> String, stack: &mut Stack) {
    let pod = Namespace::new();
    for n in 0..4 {
        pod.take("near");
        if n % 2 == 0 {
            is_theirs(&pod);
        }
        pod.give("near");
        let taken = |log: String| log.matches("took the interface's queues").count();
        until("the port to have it again", || taken(log()) == n + 2);
        assert!(has_program("near"));
        ping(stack, PROGRAM, 56);
    }
}

#[test]
fn moved_and_returned() {
    with_xdp("namespaces::moved_and_returned_inside");
}

#[test]
#[ignore = "for moved_and_returned"]
fn moved_and_returned_inside() {
    veth("");
    addresses(&["10.9.0.1/24"]);
    let mut nic = Nic::start_with(&["xdp:near"], &["--log", "info"]);
    let mut stack = Stack::open(&nic.socket, &[PROGRAM], 1500, false);
    ping(&mut stack, PROGRAM, 56);
    let held = nic.daemon.settled();
    let daemon = &nic.daemon;
    moves(&|| daemon.log(), &mut stack);
    until("what was bound to be closed", || nic.daemon.settled() == held);
    let pod = Namespace::new();
    pod.take("near");
    drop(pod); // and both ends of the veth
    until("their end", || !ip("link show").contains(" far@"));
    veth("");
    addresses(&["10.9.0.1/24"]);
    until("its program to be there again", || has_program("near"));
    ping(&mut stack, PROGRAM, 56);
    nic.accounts_for_all();
}

#[test]
fn moved_and_returned_to_a_helper() {
    with_xdp("namespaces::moved_and_returned_to_a_helper_inside");
}

#[test]
#[ignore = "for moved_and_returned_to_a_helper"]
fn moved_and_returned_to_a_helper_inside() {
    veth("");
    addresses(&["10.9.0.1/24"]);
    let helper = Helper::start(&["near,ring=256"]);
    let daemon = helper.serves("near");
    let mut stack = Stack::open(&helper.nic(), &[PROGRAM], 1500, false);
    ping(&mut stack, PROGRAM, 56);
    moves(&|| helper.log(), &mut stack);
    assert!(daemon.log().contains("the interface has gone"), "{}", daemon.log());
}

#[test]
fn renamed() {
    with_xdp("namespaces::renamed_inside");
}

/// It stays the port's under another name, until it goes; it is not found by the old one when the daemon is started again.
#[test]
#[ignore = "for renamed"]
fn renamed_inside() {
    veth("");
    addresses(&["10.9.0.1/24"]);
    let mut nic = Nic::start(&["xdp:near"]);
    let mut stack = Stack::open(&nic.socket, &[PROGRAM], 1500, false);
    for words in ["link set near down", "link set near name other", "link set other up"] {
        ip(words);
    }
    ping(&mut stack, PROGRAM, 56);
    assert!(has_program("other"));
    ip("link del other");
    veth("");
    addresses(&["10.9.0.1/24"]);
    until("the port to have the next one of its name", || has_program("near"));
    ping(&mut stack, PROGRAM, 56);
    for words in ["link set near down", "link set near name other"] {
        ip(words);
    }
    assert!(nic.daemon.signal(Signal::TERM).success());
    assert!(refused_port("xdp:near").contains("there is no interface near in this network namespace"));
}

/// Starts a daemon, ends it by a signal, and starts another one, while the interface is here; then while it is not.
#[track_caller]
fn restarted(socket: &Path, signal: Signal) {
    let start = || Daemon::start_with(socket, &["--wire", "switch", "--port", "xdp:near"]);
    let mut daemon = start();
    daemon.signal(signal);
    let daemon = start();
    let mut stack = Stack::open(socket, &[PROGRAM], 1500, false);
    ping(&mut stack, PROGRAM, 56);
    drop(daemon);
    let pod = Namespace::new();
    pod.take("near");
    assert!(refused_port("xdp:near").contains("there is no interface near in this network namespace"));
    pod.give("near");
}

#[test]
fn daemon_restarted_and_killed() {
    with_xdp("namespaces::daemon_restarted_and_killed_inside");
}

#[test]
#[ignore = "for daemon_restarted_and_killed"]
fn daemon_restarted_and_killed_inside() {
    veth("");
    addresses(&["10.9.0.1/24"]);
    let directory = tempfile::tempdir().unwrap();
    for signal in [Signal::TERM, Signal::KILL] {
        restarted(&directory.path().join("nic.sock"), signal);
    }
}
