//! A program and the kernel: ping, IPv6 neighbours, TCP with and without offloads, jumbo frames.

use super::common::{two_cores, until};
use super::neighbour::{ping, transfer};
use super::net::{Nic, drops, in_namespace, ip, packets_of_kernel};
use super::stack::{Port, Stack};

/// The port, and the kernel's interface.
const TAP: [&str; 2] = ["tap:tap0", "tap0"];

const KERNEL: &str = "10.9.0.1";
const PROGRAM: &str = "10.9.0.2";
const KERNEL6: &str = "fd09::1";
const PROGRAM6: &str = "fd09::2";

/// Both kinds of addresses, and what else there is to say.
fn port(rest: &str) -> String {
    format!("tap:tap0,address={KERNEL}/24,address={KERNEL6}/64{rest}")
}

#[test]
fn ping_both_ways() {
    in_namespace("program::ping_both_ways_inside");
}

#[test]
#[ignore = "for ping_both_ways"]
fn ping_both_ways_inside() {
    let mut nic = Nic::start(&[&port(",mac=02:00:00:00:02:fe")]);
    let mut stack = Stack::open(&nic.socket, &[PROGRAM, PROGRAM6], 1500, false);
    ping(&mut stack, PROGRAM, 56);
    stack.ping(KERNEL);
    ping(&mut stack, PROGRAM6, 56);
    let neighbours = ip("-6 neigh show dev tap0");
    assert!(neighbours.contains(&format!("{PROGRAM6} lladdr 02:00:00:00:02:01")), "{neighbours}");
    let port = nic.port("tap:tap0");
    assert_eq!((port.design.as_str(), port.queues.len()), ("tap", 1));
    let table = ccnic_control::Connection::open(&nic.socket).unwrap().mac_table().unwrap();
    let at = |mac: [u8; 6]| table.iter().find(|known| known.mac == mac).map(|known| known.program);
    let program = nic.port("stack").id;
    assert_eq!((at([2, 0, 0, 0, 2, 0xfe]), at(super::stack::MAC)), (Some(port.id), Some(program)));
    nic.accounts_for_all();
}

#[test]
fn tcp_over_two_cores() {
    in_namespace("program::tcp_over_two_cores_inside");
}

/// One core polls the interface, the other the program: super-packets are cut where they leave for one that cannot take them.
#[test]
#[ignore = "for tcp_over_two_cores"]
fn tcp_over_two_cores_inside() {
    let cores = two_cores();
    for offload in [false, true] {
        let mut nic = Nic::start_with(&[&port("")], &["--cores", &cores]);
        let mut stack = Stack::open(&nic.socket, &[PROGRAM, PROGRAM6], 1500, offload);
        let [tap, program] = ["tap:tap0", "stack"].map(|name| nic.port(name).queues[0].core);
        assert_eq!(tap != program, cores.contains(','), "on different cores where there are two");
        // No more than the program's ring holds: with the CPUs shared it may not be polled for long, and what has no room is lost.
        transfer(&mut nic, &mut stack, TAP, PROGRAM, 256 << 10);
        ping(&mut stack, PROGRAM6, 56);
        nic.daemon.falls_asleep();
        ping(&mut stack, PROGRAM, 56);
        nic.accounts_for_all();
    }
}

#[test]
fn tcp_with_offloads() {
    in_namespace("program::tcp_with_offloads_inside");
}

#[test]
#[ignore = "for tcp_with_offloads"]
fn tcp_with_offloads_inside() {
    let mut nic = Nic::start(&[&port("")]);
    let mut stack = Stack::open(&nic.socket, &[PROGRAM, PROGRAM6], 1500, false);
    for to in [PROGRAM, PROGRAM6] {
        transfer(&mut nic, &mut stack, TAP, to, 12 << 20);
    }
    let (cut, sent) = (nic.counters("tap:tap0").tx_packets, packets_of_kernel("tap0"));
    assert!(cut > 2 * sent, "{sent} packets of the kernel became {cut}");
}

#[test]
fn super_packets_of_the_kernel() {
    in_namespace("program::super_packets_of_the_kernel_inside");
}

/// A program that takes them gets super-packets as long as its region has packets, without checksums; every byte is compared.
#[test]
#[ignore = "for super_packets_of_the_kernel"]
fn super_packets_of_the_kernel_inside() {
    for cores in [String::new(), two_cores()] {
        let cores: &[&str] = if cores.is_empty() { &[] } else { &["--cores", &cores] };
        let mut nic = Nic::start_with(&[&port("")], cores);
        let mut port = Port::open(&nic.socket, "stack", 1500, true);
        port.take_all();
        let mut stack = Stack::over(port, &[PROGRAM, PROGRAM6]);
        for to in [PROGRAM, PROGRAM6] {
            transfer(&mut nic, &mut stack, TAP, to, 512 << 10);
        }
        assert!(stack.port.supers > 0, "super-packets have come as they were");
        assert_eq!(stack.port.complete, 0, "what is left to the program is not done by anybody else");
        ping(&mut stack, PROGRAM, 56);
        nic.accounts_for_all();
    }
}

#[test]
fn tcp_without_offloads() {
    in_namespace("program::tcp_without_offloads_inside");
}

#[test]
#[ignore = "for tcp_without_offloads"]
fn tcp_without_offloads_inside() {
    let mut nic = Nic::start(&[&port(",offload=off")]);
    let mut stack = Stack::open(&nic.socket, &[PROGRAM], 1500, false);
    transfer(&mut nic, &mut stack, TAP, PROGRAM, 12 << 20);
    until("the last packets", || nic.counters("tap:tap0").tx_packets == packets_of_kernel("tap0"));
}

#[test]
fn a_program_requests_checksums() {
    in_namespace("program::a_program_requests_checksums_inside");
}

/// The kernel drops TCP segments with wrong checksums, so what has arrived has been completed by it.
#[test]
#[ignore = "for a_program_requests_checksums"]
fn a_program_requests_checksums_inside() {
    let mut nic = Nic::start(&[&port("")]);
    let mut stack = Stack::open(&nic.socket, &[PROGRAM, PROGRAM6], 1500, true);
    for to in [PROGRAM, PROGRAM6] {
        transfer(&mut nic, &mut stack, TAP, to, 1 << 20);
    }
}

#[test]
fn jumbo_frames_and_several_queues() {
    in_namespace("program::jumbo_frames_and_several_queues_inside");
}

#[test]
#[ignore = "for jumbo_frames_and_several_queues"]
fn jumbo_frames_and_several_queues_inside() {
    let mut nic = Nic::start(&[&port(",mtu=9000,queues=3")]);
    let mut stack = Stack::open(&nic.socket, &[PROGRAM], 9000, false);
    ping(&mut stack, PROGRAM, 8972 - 8);
    transfer(&mut nic, &mut stack, TAP, PROGRAM, 12 << 20);
    assert_eq!(nic.port("tap:tap0").queues.len(), 3);
    assert_eq!(drops(&nic.counters("stack")), 0);
}
