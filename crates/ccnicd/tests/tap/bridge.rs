//! Two kernels with nothing but the switch between them: two TAP interfaces in two namespaces.

use std::net::SocketAddr;

use super::common::until;
use super::net::{Namespace, Nic, Pinger, accept, connect, exchange, in_namespace, ip};

#[test]
fn two_namespaces() {
    in_namespace("bridge::two_namespaces_inside");
}

#[test]
#[ignore = "for two_namespaces"]
fn two_namespaces_inside() {
    let mut nic = Nic::start(&["tap:left,address=10.9.0.1/24,address=fd09::1/64", "tap:right,queues=2"]);
    let there = Namespace::new();
    there.take("right");
    for words in ["addr add 10.9.0.2/24 dev right", "addr add fd09::2/64 dev right", "link set right up"] {
        there.ip(words);
    }
    const LEN: usize = 64 << 20;
    for to in ["10.9.0.2:7", "[fd09::2]:7"] {
        let to: SocketAddr = to.parse().unwrap();
        let server = there.run(move || exchange(accept(to).accept().unwrap().0, [2, 1], LEN));
        exchange(connect(to), [1, 2], LEN);
        server.join().unwrap();
    }
    for port in ["tap:left", "tap:right"] {
        let c = nic.counters(port);
        assert!(c.tx_bytes / c.tx_packets > 1514, "super-packets cross whole: {c:?}");
        assert_eq!(
            [c.drop_bad_offload, c.drop_port_refused, c.drop_over_mtu, c.drop_too_long],
            [0; 4],
            "{c:?}"
        );
    }
    nic.accounts_for_all();
}

#[test]
fn two_namespaces_without_offloads() {
    in_namespace("bridge::two_namespaces_without_offloads_inside");
}

/// Each segment is a packet of its own, until the port hands it to the other kernel together with those behind it.
#[test]
#[ignore = "for two_namespaces_without_offloads"]
fn two_namespaces_without_offloads_inside() {
    let mut nic =
        Nic::start(&["tap:left,offload=off,address=10.9.0.1/24,address=fd09::1/64", "tap:right,offload=off"]);
    let there = Namespace::new();
    there.take("right");
    for words in ["addr add 10.9.0.2/24 dev right", "addr add fd09::2/64 dev right", "link set right up"] {
        there.ip(words);
    }
    const LEN: usize = 32 << 20;
    for to in ["10.9.0.2:7", "[fd09::2]:7"] {
        let to: SocketAddr = to.parse().unwrap();
        let server = there.run(move || exchange(accept(to).accept().unwrap().0, [2, 1], LEN));
        exchange(connect(to), [1, 2], LEN);
        server.join().unwrap();
    }
    let c = nic.counters("tap:left");
    assert!(c.tx_bytes / c.tx_packets <= 1514, "{c:?}");
    assert_eq!([c.drop_bad_offload, c.drop_port_refused, c.drop_over_mtu, c.drop_too_long], [0; 4], "{c:?}");
    let devices = std::fs::read_to_string("/proc/self/net/dev").unwrap();
    let left = devices.lines().find(|line| line.trim().starts_with("left:")).unwrap();
    let came: u64 = left.split_whitespace().nth(2).unwrap().parse().unwrap();
    assert!(came < c.rx_packets, "{} segments came as {came} packets", c.rx_packets);
    nic.accounts_for_all();
}

#[test]
fn fragments_and_jumbo_frames() {
    in_namespace("bridge::fragments_and_jumbo_frames_inside");
}

/// Packets of IP that the kernel fragments, in frames of both sizes; each is answered by as many fragments.
#[test]
#[ignore = "for fragments_and_jumbo_frames"]
fn fragments_and_jumbo_frames_inside() {
    for mtu in [1500, 9000] {
        let ports = ["left", "right"].map(|name| format!("tap:{name},mtu={mtu}"));
        let mut nic = Nic::start(&[&ports[0], &ports[1]]);
        let there = Namespace::new();
        there.take("right");
        ip("addr add 10.9.0.1/24 dev left");
        ip("addr add fd09::1/64 dev left nodad");
        for words in
            ["addr add 10.9.0.2/24 dev right", "addr add fd09::2/64 dev right nodad", "link set right up"]
        {
            there.ip(words);
        }
        for to in ["10.9.0.2", "fd09::2"] {
            for len in [1400, 8000, 20_000, 60_000] {
                let mut pinger = Pinger::new(to.parse().unwrap());
                until("an answer in fragments", || {
                    pinger.send(len);
                    std::thread::sleep(std::time::Duration::from_millis(20));
                    pinger.answered()
                });
            }
        }
        let c = nic.counters("tap:left");
        assert_eq!([c.drop_bad_offload, c.drop_port_refused, c.drop_over_mtu], [0; 3], "{c:?}");
        nic.accounts_for_all();
    }
}
