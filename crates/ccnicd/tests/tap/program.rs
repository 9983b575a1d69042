//! A program and the kernel: ping, IPv6 neighbours, TCP with and without offloads, jumbo frames.

use std::net::IpAddr;
use std::net::SocketAddr;
use std::time::Instant;

use super::common::{PATIENCE, until};
use super::net::{Nic, Pinger, connect, drops, exchange, in_namespace, ip, packets_of_kernel};
use super::stack::Stack;

const KERNEL: &str = "10.9.0.1";
const PROGRAM: &str = "10.9.0.2";
const KERNEL6: &str = "fd09::1";
const PROGRAM6: &str = "fd09::2";

/// Both kinds of addresses, and what else there is to say.
fn port(rest: &str) -> String {
    format!("tap:tap0,address={KERNEL}/24,address={KERNEL6}/64{rest}")
}

/// The kernel pings the program.
#[track_caller]
fn ping(stack: &mut Stack, to: &str, len: usize) {
    let mut pinger = Pinger::new(to.parse::<IpAddr>().unwrap());
    until("an answer of the program", || {
        pinger.send(len);
        let mut answered = false;
        for _ in 0..10_000 {
            stack.poll();
            answered = pinger.answered();
            if answered {
                break;
            }
        }
        answered
    });
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

/// TCP both ways at once between the kernel and the program.
#[track_caller]
fn transfer(nic: &mut Nic, stack: &mut Stack, to: &str, len: usize) {
    // While its address is tentative the kernel may send the SYN from its link-local one, to which the program has no route.
    until("the end of duplicate address detection", || !ip("-6 addr show dev tap0").contains("tentative"));
    let mut connection = stack.listen(7);
    let to = SocketAddr::new(to.parse().unwrap(), 7);
    let kernel = std::thread::spawn(move || exchange(connect(to), [1, 2], len));
    let (mut moved, mut last) = (0, Instant::now());
    while !kernel.is_finished() {
        stack.exchange(&mut connection, [2, 1], len);
        if connection.moved() > moved {
            (moved, last) = (connection.moved(), Instant::now());
            continue;
        }
        assert!(last.elapsed() < PATIENCE, "nothing moves after {moved} of {} bytes", 2 * len);
        std::thread::yield_now();
    }
    kernel.join().unwrap();
    let port = nic.counters("tap:tap0");
    let bad = [port.drop_bad_offload, port.drop_port_refused, port.drop_over_mtu, port.drop_too_long];
    assert_eq!(bad, [0; 4], "{port:?}");
    nic.accounts_for_all();
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
        transfer(&mut nic, &mut stack, to, 12 << 20);
    }
    let (cut, sent) = (nic.counters("tap:tap0").tx_packets, packets_of_kernel("tap0"));
    assert!(cut > 2 * sent, "{sent} packets of the kernel became {cut}");
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
    transfer(&mut nic, &mut stack, PROGRAM, 12 << 20);
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
        transfer(&mut nic, &mut stack, to, 1 << 20);
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
    transfer(&mut nic, &mut stack, PROGRAM, 12 << 20);
    assert_eq!(nic.port("tap:tap0").queues.len(), 3);
    assert_eq!(drops(&nic.counters("stack")), 0);
}
