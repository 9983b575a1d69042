//! A program and a kernel at the other end of a veth: ping, IPv6 neighbours, TCP, jumbo frames, several queues.

use super::neighbour::{ping, transfer};
use super::net::{Nic, ip};
use super::stack::Stack;
use super::veth::{addresses, has_program, veth, with_xdp};

const KERNEL: &str = "10.9.0.1";
const PROGRAM: &str = "10.9.0.2";
const PROGRAM6: &str = "fd09::2";

/// The port, and the kernel's interface.
const XDP: [&str; 2] = ["xdp:near", "far"];

/// A daemon with a port of these options, whose peer has addresses.
fn start(more: &str, options: &str) -> Nic {
    veth(more);
    let nic = Nic::start(&[&format!("xdp:near{options}")]);
    addresses(&["10.9.0.1/24", "fd09::1/64"]);
    nic
}

#[track_caller]
fn ping_both_ways(options: &str, design: &str) {
    let mut nic = start("", options);
    assert!(has_program("near"));
    assert!(ip("-d link show dev near").contains("promiscuity 1"), "an uplink of a switch takes all packets");
    let mut stack = Stack::open(&nic.socket, &[PROGRAM, PROGRAM6], 1500, false);
    ping(&mut stack, PROGRAM, 56);
    stack.ping(KERNEL);
    ping(&mut stack, PROGRAM6, 56);
    let neighbours = ip("-6 neigh show dev far");
    assert!(neighbours.contains(&format!("{PROGRAM6} lladdr 02:00:00:00:02:01")), "{neighbours}");
    let port = nic.port("xdp:near");
    assert_eq!((port.design.as_str(), port.queues.len()), (design, 4));
    // The kernel wakes the port, and the program does.
    for _ in 0..3 {
        nic.daemon.falls_asleep();
        ping(&mut stack, PROGRAM, 56);
        nic.daemon.falls_asleep();
        stack.ping(KERNEL);
    }
    nic.accounts_for_all();
    assert!(nic.daemon.signal(rustix::process::Signal::TERM).success());
    assert!(!has_program("near"));
}

#[test]
fn ping_native() {
    with_xdp("program::ping_native_inside");
}

#[test]
#[ignore = "for ping_native"]
fn ping_native_inside() {
    ping_both_ways("", "xdp-native");
}

#[test]
fn ping_generic() {
    with_xdp("program::ping_generic_inside");
}

#[test]
#[ignore = "for ping_generic"]
fn ping_generic_inside() {
    ping_both_ways(",mode=generic", "xdp-generic");
}

#[test]
fn tcp_from_a_kernel_that_leaves_checksums_to_the_nic() {
    with_xdp("program::tcp_inside");
}

/// The kernel's checksums are missing, as a veth's are, and are filled in; it checks all that it gets.
#[test]
#[ignore = "for tcp_from_a_kernel_that_leaves_checksums_to_the_nic"]
fn tcp_inside() {
    let mut nic = start("", "");
    let mut stack = Stack::open(&nic.socket, &[PROGRAM, PROGRAM6], 1500, false);
    for to in [PROGRAM, PROGRAM6] {
        transfer(&mut nic, &mut stack, XDP, to, 12 << 20);
    }
}

#[test]
fn a_program_requests_checksums() {
    with_xdp("program::a_program_requests_checksums_inside");
}

/// The kernel drops TCP segments with wrong checksums, so what has arrived has been completed by the port.
#[test]
#[ignore = "for a_program_requests_checksums"]
fn a_program_requests_checksums_inside() {
    let mut nic = start("", "");
    let mut stack = Stack::open(&nic.socket, &[PROGRAM, PROGRAM6], 1500, true);
    for to in [PROGRAM, PROGRAM6] {
        transfer(&mut nic, &mut stack, XDP, to, 1 << 20);
    }
}

#[test]
fn jumbo_frames_native() {
    with_xdp("program::jumbo_frames_native_inside");
}

/// Frames of three buffers.
#[test]
#[ignore = "for jumbo_frames_native"]
fn jumbo_frames_native_inside() {
    jumbo_frames("", true);
}

#[test]
fn jumbo_frames_generic() {
    with_xdp("program::jumbo_frames_generic_inside");
}

#[test]
#[ignore = "for jumbo_frames_generic"]
fn jumbo_frames_generic_inside() {
    jumbo_frames(",mode=generic", false);
}

/// With or without checksums that the program requests, which lie across frames then.
#[track_caller]
fn jumbo_frames(options: &str, requests: bool) {
    // A generic program sees super-packets of the veth's other end: one segment each, that is none.
    let mut nic = start("mtu 9000 gso_max_segs 1", options);
    let mut stack = Stack::open(&nic.socket, &[PROGRAM], 9000, requests);
    ping(&mut stack, PROGRAM, 8972 - 8);
    transfer(&mut nic, &mut stack, XDP, PROGRAM, 12 << 20);
    let port = nic.counters("xdp:near");
    assert!(port.tx_bytes / port.tx_packets > 4096 && port.rx_bytes / port.rx_packets > 4096, "{port:?}");
}
