//! What goes wrong, and that others do not notice.

use std::net::{SocketAddr, UdpSocket};

use ccnic_frame::{Checksum, Meta, Segmentation};

use super::common::{Daemon, refused_port, until};
use super::net::{Namespace, Nic, Pinger, dropped_by_kernel, in_namespace, ip};
use super::stack::{MAC, Port, Stack};

/// A frame of no protocol from the program to the address.
fn frame(to: [u8; 6], len: usize) -> Vec<u8> {
    let mut frame = [&to[..], &MAC, &[0x88, 0xb5]].concat();
    frame.resize(len, 1);
    frame
}

const PORT: &str = "tap:tap0,mtu=1500,address=10.9.0.1/24,mac=02:00:00:00:02:fe";
const KERNEL: [u8; 6] = [2, 0, 0, 0, 2, 0xfe];

/// Two programs beside the port: what one sends to the other arrives.
struct Neighbours {
    ports: [Port; 2],
    exchanged: u64,
}

impl Neighbours {
    fn open(nic: &Nic) -> Neighbours {
        let ports = ["left", "right"].map(|name| Port::open(&nic.socket, name, 1500, false));
        Neighbours { ports, exchanged: 0 }
    }

    /// A packet goes there and one comes back. What the kernel and the other program send to all is passed over.
    #[track_caller]
    fn exchange(&mut self) {
        self.exchanged += 1;
        for (from, to) in [(0, 1), (1, 0)] {
            let address = |n: usize| [2, 0, 0, 0, 3, n as u8];
            let mut sent = [&address(to)[..], &address(from), &[0x88, 0xb5]].concat();
            sent.extend(self.exchanged.to_be_bytes().repeat(20));
            until("room to send", || self.ports[from].send(&sent, 0));
            until("a neighbour's packet", || self.ports[to].next().is_some_and(|frame| frame == sent));
        }
    }
}

#[test]
fn an_interface_goes_down_and_comes_back() {
    in_namespace("failures::an_interface_goes_down_and_comes_back_inside");
}

#[test]
#[ignore = "for an_interface_goes_down_and_comes_back"]
fn an_interface_goes_down_and_comes_back_inside() {
    let mut nic = Nic::start(&[PORT]);
    let mut stack = Stack::open(&nic.socket, &["10.9.0.2"], 1500, false);
    let mut neighbours = Neighbours::open(&nic);
    stack.ping("10.9.0.1");
    ip("link set tap0 down");
    let before = nic.counters("tap:tap0");
    assert!(stack.port.send(&frame(KERNEL, 100), 0));
    until("the drop to be counted", || nic.counters("tap:tap0").drop_port_down > before.drop_port_down);
    neighbours.exchange();
    ip("link set tap0 up");
    stack.ping("10.9.0.1");
    let mut pinger = Pinger::new("10.9.0.2".parse().unwrap());
    pinger.send(10);
    until("an answer", || {
        stack.poll();
        pinger.answered()
    });
    let dropped = nic.counters("tap:tap0").drop_port_down;
    ip("link del tap0");
    assert!(stack.port.send(&frame(KERNEL, 100), 0));
    until("the drop to be counted", || nic.counters("tap:tap0").drop_port_down > dropped);
    neighbours.exchange();
    nic.accounts_for_all();
}

#[test]
fn a_program_that_does_not_read() {
    in_namespace("failures::a_program_that_does_not_read_inside");
}

/// More than the program's ring has: dropped at the program, under its reason. Its neighbours' packets arrive meanwhile.
#[test]
#[ignore = "for a_program_that_does_not_read"]
fn a_program_that_does_not_read_inside() {
    let mut nic = Nic::start(&[PORT]);
    let mut stack = Stack::open(&nic.socket, &["10.9.0.2"], 1500, false);
    let mut neighbours = Neighbours::open(&nic);
    stack.ping("10.9.0.1");
    // The kernel does not ask again for a program that answers nothing.
    ip("neigh replace 10.9.0.2 lladdr 02:00:00:00:02:01 dev tap0 nud permanent");
    let socket = UdpSocket::bind("10.9.0.1:0").unwrap();
    // The kernel drops some itself when the daemon has no CPU for long.
    until("the program's drops", || {
        for _ in 0..20 {
            let _ = socket.send_to(&[7; 1000], SocketAddr::from(([10, 9, 0, 2], 9)));
        }
        neighbours.exchange();
        let c = nic.counters("stack");
        c.drop_ring_full + c.drop_no_buffer > 1000
    });
    let port = nic.counters("tap:tap0");
    assert_eq!(super::net::drops(&port), port.drop_no_destination, "not at the port: {port:?}");
    nic.accounts_for_all();
}

#[test]
fn packets_that_the_interface_cannot_take() {
    in_namespace("failures::packets_that_the_interface_cannot_take_inside");
}

#[test]
#[ignore = "for packets_that_the_interface_cannot_take"]
fn packets_that_the_interface_cannot_take_inside() {
    let mut nic = Nic::start(&[PORT]);
    let mut stack = Stack::open(&nic.socket, &["10.9.0.2"], 1500, false);
    stack.ping("10.9.0.1");
    let before = nic.counters("tap:tap0");
    // One more byte than an Ethernet header, a tag and the MTU; then as many, which the kernel takes.
    assert!(stack.port.send(&frame(KERNEL, 1519), 0) && stack.port.send(&frame(KERNEL, 1518), 0));
    let checksum = Meta::default().with_l4_checksum(Checksum::Requested).word();
    let cut = Meta::default().with_segmentation(Segmentation::tcp_ipv4(1000)).word();
    for meta in [checksum, cut, u64::MAX] {
        assert!(stack.port.send(&frame(KERNEL, 200), meta));
    }
    until("five packets to be counted", || {
        let now = nic.counters("tap:tap0");
        let counted = [now.drop_over_mtu, now.drop_bad_offload];
        now.rx_packets > before.rx_packets && counted == [1, 3]
    });
    nic.accounts_for_all();
}

#[test]
fn packets_that_the_kernel_drops_are_counted() {
    in_namespace("failures::packets_that_the_kernel_drops_are_counted_inside");
}

/// More packets to the interface than the kernel keeps for a port that nobody polls.
fn flood(interface: &str) {
    let socket = UdpSocket::bind("10.9.0.1:0").unwrap();
    socket.set_nonblocking(true).unwrap();
    let before = dropped_by_kernel(interface);
    (0..2000).for_each(|_| _ = socket.send_to(&[7; 100], "10.9.0.9:9"));
    assert!(dropped_by_kernel(interface) > before, "the kernel keeps 2000 packets");
}

/// Also when the interface has another name, in another namespace, and when it is deleted.
#[test]
#[ignore = "for packets_that_the_kernel_drops_are_counted"]
fn packets_that_the_kernel_drops_are_counted_inside() {
    let mut nic = Nic::start(&[PORT]);
    if nic.daemon.log().contains("not counted (missed)") {
        return println!("skipped: {}", nic.daemon.log());
    }
    let peer = "neigh add 10.9.0.9 lladdr 02:00:00:00:00:09 dev";
    ip(&format!("{peer} tap0"));
    nic.daemon.stop();
    flood("tap0");
    nic.daemon.go_on();
    // The kernel may have packets of its own to send meanwhile.
    until("what the kernel has counted", || nic.counters("tap:tap0").missed == dropped_by_kernel("tap0"));

    let there = Namespace::new();
    there.take("tap0");
    for words in ["link set tap0 name eth0", "addr add 10.9.0.1/24 dev eth0", "link set eth0 up"] {
        there.ip(words);
    }
    there.ip(&format!("{peer} eth0"));
    nic.daemon.stop();
    there.run(|| flood("eth0")).join().unwrap();
    nic.daemon.go_on();
    let mut last = 0;
    until("what the kernel has counted there", || {
        last = nic.counters("tap:tap0").missed;
        last == there.run(|| dropped_by_kernel("eth0")).join().unwrap()
    });
    there.ip("link del eth0");
    assert_eq!(nic.counters("tap:tap0").missed, last);
}

#[test]
fn names_that_are_taken() {
    in_namespace("failures::names_that_are_taken_inside");
}

#[test]
#[ignore = "for names_that_are_taken"]
fn names_that_are_taken_inside() {
    let mut nic = Nic::start(&["tap:tap0", "tap:many,queues=2"]);
    for (port, expected) in [
        ("tap:tap0", "another process uses it"),
        ("tap:lo", "is no TAP interface of one queue"),
        ("tap:many", "is no TAP interface of one queue"),
    ] {
        let said = refused_port(port);
        assert!(said.contains(&format!("--port {port}: ")) && said.contains(expected), "{said}");
    }
    let table = nic.port("tap:many");
    assert_eq!(table.queues.len(), 2);
    assert!(nic.daemon.signal(rustix::process::Signal::TERM).success());
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("other.sock");
    drop(Daemon::start_with(&socket, &["--wire", "switch", "--port", "tap:tap0"])); // which is free again
}
