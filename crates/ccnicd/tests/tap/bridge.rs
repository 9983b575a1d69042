//! Two kernels with nothing but the switch between them: two TAP interfaces in two namespaces.

use std::net::SocketAddr;

use super::net::{Namespace, Nic, accept, connect, exchange, in_namespace};

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
