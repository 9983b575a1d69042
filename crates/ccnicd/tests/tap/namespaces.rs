//! TAP interfaces and network namespaces: the columns "TAP" of the table in docs/ports.md.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use ccnic_control::Connection;
use ccnic_control::messages::{PortAdd, PortSet, Request};
use rustix::process::Signal;

use super::common::{Daemon, until};
use super::net::{Namespace, Nic, Pinger, in_namespace, ip};
use super::stack::{MAC, Stack};

pub const PROGRAM: &str = "10.9.0.2";

/// A frame of no protocol, from the program to all.
const BROADCAST: [u8; 64] = {
    let mut frame = [0xff; 64];
    let mut at = 0;
    while at < 6 {
        frame[6 + at] = MAC[at];
        at += 1;
    }
    (frame[12], frame[13]) = (0x88, 0xb5);
    frame
};

/// The kernel there pings the program, and is answered.
#[track_caller]
pub fn pings(pod: Option<&Namespace>, stack: &mut Stack) {
    let open = || Pinger::new(PROGRAM.parse().unwrap());
    let mut pinger = pod.map_or_else(open, |pod| pod.run(open).join().unwrap());
    until("an answer of the program", || {
        pinger.send(56);
        (0..10_000).any(|_| {
            stack.poll();
            pinger.answered()
        })
    });
}

/// The kernel there gets an address at the interface, which is set up.
pub fn configure(pod: Option<&Namespace>, interface: &str) {
    for words in [format!("addr replace 10.9.0.1/24 dev {interface}"), format!("link set {interface} up")] {
        _ = pod.map_or_else(|| ip(&words), |pod| pod.ip(&words));
    }
}

pub fn has(pod: Option<&Namespace>, interface: &str) -> bool {
    pod.map_or_else(|| ip("link show"), |pod| pod.ip("link show")).contains(&format!(" {interface}: "))
}

/// A daemon with this port, and a program there.
fn start(socket: &Path, port: &str) -> (Daemon, Stack) {
    let mut daemon = Daemon::start_with(socket, &["--wire", "switch", "--port", port]);
    daemon.status();
    let stack = Stack::open(socket, &[PROGRAM], 1500, false);
    (daemon, stack)
}

/// Moves an interface to another namespace, where it gets its address again.
fn moves(interface: &str, from: Option<&Namespace>, to: Option<&Namespace>) {
    let words =
        format!("link set {interface} netns {}", to.map_or(std::process::id().to_string(), Namespace::id));
    _ = from.map_or_else(|| ip(&words), |from| from.ip(&words));
    configure(to, interface);
}

/// The interface of a port works wherever it is and whatever it is called, until it is deleted. `home`: where the port was opened.
fn works_everywhere(home: Option<&Namespace>, port: &str) {
    let mut nic = Nic::start(&[port]);
    let mut stack = Stack::open(&nic.socket, &[PROGRAM], 1500, false);
    let pod = Namespace::new();
    let there = Some(&pod);
    moves("tap0", home, there);
    pings(there, &mut stack);
    for words in ["link set tap0 down", "link set tap0 name eth0", "link set eth0 up"] {
        pod.ip(words);
    }
    pings(there, &mut stack);
    moves("eth0", there, home);
    pings(home, &mut stack);
    moves("eth0", home, there);
    pings(there, &mut stack);
    drop(pod); // and what is in it
    until("the drop to be counted", || {
        assert!(stack.port.send(&BROADCAST, 0));
        nic.counters("tap:tap0").drop_port_down > 0
    });
}

#[test]
fn moved_renamed_and_deleted() {
    in_namespace("namespaces::moved_renamed_and_deleted_inside");
}

/// Made by the daemon, made before, and of a port with `netns=`.
#[test]
#[ignore = "for moved_renamed_and_deleted"]
fn moved_renamed_and_deleted_inside() {
    works_everywhere(None, "tap:tap0");
    ip("tuntap add dev tap0 mode tap");
    works_everywhere(None, "tap:tap0");
    let home = Namespace::new();
    works_everywhere(Some(&home), &format!("tap:tap0,netns={}", home.path().display()));
}

#[test]
fn made_by_the_daemon() {
    in_namespace("namespaces::made_by_the_daemon_inside");
}

/// It goes with the daemon, wherever it is; the successor makes another one.
#[test]
#[ignore = "for made_by_the_daemon"]
fn made_by_the_daemon_inside() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("nic.sock");
    let pod = Namespace::new();
    for signal in [Signal::TERM, Signal::KILL] {
        let (mut daemon, _) = start(&socket, "tap:tap1");
        pod.take("tap1");
        daemon.signal(signal);
        until("its end", || !has(Some(&pod), "tap1"));
    }
    let (_daemon, mut stack) = start(&socket, "tap:tap1");
    configure(None, "tap1");
    pings(None, &mut stack);
}

#[test]
fn made_before() {
    in_namespace("namespaces::made_before_inside");
}

/// A persistent interface stays when the daemon goes, and is taken over by its successor where that looks; elsewhere it is found, and named.
#[test]
#[ignore = "for made_before"]
fn made_before_inside() {
    ip("tuntap add dev tap0 mode tap");
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("nic.sock");
    for signal in [Signal::TERM, Signal::KILL] {
        let (mut daemon, mut stack) = start(&socket, "tap:tap0");
        configure(None, "tap0");
        pings(None, &mut stack);
        daemon.signal(signal);
        assert!(has(None, "tap0"));
    }
    let pod = Namespace::new();
    let (mut daemon, mut stack) = start(&socket, "tap:tap0");
    pod.take("tap0");
    configure(Some(&pod), "tap0");
    pings(Some(&pod), &mut stack);
    daemon.signal(Signal::KILL);

    let (mut daemon, _) = start(&socket, "tap:tap0");
    let there = format!("say netns={};", pod.path().display());
    let said = daemon.log();
    assert!(said.contains("made a new interface") && said.contains(&there), "{said}");
    daemon.signal(Signal::TERM);
    let port = format!("tap:tap0,netns={}", pod.path().display());
    for signal in [Signal::TERM, Signal::KILL] {
        let (mut daemon, mut stack) = start(&socket, &port);
        pings(Some(&pod), &mut stack); // with the address that it had
        assert!(!has(None, "tap0"));
        daemon.signal(signal);
    }
    pod.give("tap0");
    let (_daemon, mut stack) = start(&socket, "tap:tap0");
    configure(None, "tap0");
    pings(None, &mut stack);
}

#[test]
fn made_in_another_namespace() {
    in_namespace("namespaces::made_in_another_namespace_inside");
}

/// `netns=`: there, and there again when the daemon is started again.
#[test]
#[ignore = "for made_in_another_namespace"]
fn made_in_another_namespace_inside() {
    let pod = Namespace::new();
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("nic.sock");
    let port = format!("tap:tap0,address=10.9.0.1/24,netns={}", pod.path().display());
    for signal in [Signal::TERM, Signal::KILL] {
        let (mut daemon, mut stack) = start(&socket, &port);
        assert!(has(Some(&pod), "tap0") && !has(None, "tap0"));
        pings(Some(&pod), &mut stack);
        daemon.signal(signal);
        until("its end", || !has(Some(&pod), "tap0"));
    }
    let (mut daemon, mut stack) = start(&socket, &port);
    pings(Some(&pod), &mut stack);
    drop(pod); // the namespace stays, for its device is open
    let received = |daemon: &mut Daemon| daemon.program("tap:tap0").unwrap().queues[0];
    let before = received(&mut daemon);
    assert!(stack.port.send(&BROADCAST, 0));
    until("the frame to be taken", || received(&mut daemon).rx_packets > before.rx_packets);
    assert_eq!(received(&mut daemon).drop_port_down, 0);
}

/// A namespace with a name, as `ip netns` has it.
struct Named(String);

impl Named {
    /// `None` where none can be made.
    fn of(pod: &Namespace) -> Option<Named> {
        let name = format!("ccnic-test-{}", std::process::id());
        let done = Command::new("ip").args(["netns", "attach", &name, &pod.id()]).output().unwrap();
        done.status.success().then_some(Named(name))
    }

    fn path(&self) -> PathBuf {
        Path::new("/run/netns").join(&self.0)
    }
}

impl Drop for Named {
    fn drop(&mut self) {
        ip(&format!("netns del {}", self.0));
    }
}

#[test]
fn added_later_in_another_namespace() {
    in_namespace("namespaces::added_later_in_another_namespace_inside");
}

/// What that takes is kept if it was asked for; the MTU can be changed there, too.
#[test]
#[ignore = "for added_later_in_another_namespace"]
fn added_later_in_another_namespace_inside() {
    let pod = Namespace::new();
    let Some(named) = Named::of(&pod) else {
        return println!("skipped: no namespace can be given a name here (ip netns attach)");
    };
    let port = format!("tap:tap0,address=10.9.0.1/24,netns={}", named.path().display());
    let add = Request::PortAdd(PortAdd { port, ..PortAdd::default() });
    let change = |nic: &Nic, request: &Request| {
        Connection::open(&nic.socket).unwrap().change(request).map_err(|e| e.to_string())
    };
    let without = Nic::start_with(&[], &["--later-ports", "tap"]);
    let why = change(&without, &add).unwrap_err();
    assert!(why.contains("--later-ports netns"), "{why}");
    drop(without);

    let nic = Nic::start_with(&[], &["--later-ports", "netns"]);
    change(&nic, &add).unwrap();
    let mut stack = Stack::open(&nic.socket, &[PROGRAM], 1500, false);
    pings(Some(&pod), &mut stack);
    let set = BTreeMap::from([("mtu".to_owned(), 1400.into())]);
    change(&nic, &Request::PortSet(PortSet { name: "tap:tap0".into(), set, check: false })).unwrap();
    assert!(pod.ip("link show tap0").contains("mtu 1400"));
}
