//! Kernels with nothing but the switch between them, and frames as they are on the wire.

use std::net::{SocketAddr, UdpSocket};

use ccnic_frame::{Headers, checksum};

use super::common::until;
use super::net::{Namespace, Nic, accept, connect, exchange, ip};
use super::offload_table::{check, table};
use super::stack::{MAC, Port};
use super::veth::{addresses, elsewhere, veth, with_xdp};

const LEN: usize = 32 << 20;

/// TCP both ways at once between two namespaces.
#[track_caller]
fn tcp(ours: &Namespace, there: &Namespace, to: &str) {
    let to: SocketAddr = to.parse().unwrap();
    let server = there.run(move || exchange(accept(to).accept().unwrap().0, [2, 1], LEN));
    ours.run(move || exchange(connect(to), [1, 2], LEN)).join().unwrap();
    server.join().unwrap();
}

#[test]
fn two_veths() {
    with_xdp("wire::two_veths_inside");
}

#[test]
#[ignore = "for two_veths"]
fn two_veths_inside() {
    veth("");
    ip("link add near2 type veth peer name far2");
    let mut nic = Nic::start(&["xdp:near", "xdp:near2"]);
    let (ours, there) = (Namespace::new(), Namespace::new());
    elsewhere(&ours, "far", &["10.9.0.1/24", "fd09::1/64"]);
    elsewhere(&there, "far2", &["10.9.0.2/24", "fd09::2/64"]);
    for to in ["10.9.0.2:7", "[fd09::2]:7"] {
        tcp(&ours, &there, to);
    }
    nic.accounts_for_all();
}

#[test]
fn a_veth_and_a_tap() {
    with_xdp("wire::a_veth_and_a_tap_inside");
}

/// The TAP port passes super-packets on as they are, and the other port cuts them.
#[test]
#[ignore = "for a_veth_and_a_tap"]
fn a_veth_and_a_tap_inside() {
    veth("");
    let mut nic = Nic::start(&["xdp:near", "tap:tap0"]);
    let (ours, there) = (Namespace::new(), Namespace::new());
    elsewhere(&ours, "far", &["10.9.0.1/24", "fd09::1/64"]);
    elsewhere(&there, "tap0", &["10.9.0.2/24", "fd09::2/64"]);
    for to in ["10.9.0.2:7", "[fd09::2]:7"] {
        tcp(&ours, &there, to);
    }
    let port = nic.counters("tap:tap0");
    assert!(port.tx_bytes / port.tx_packets > 1514, "super-packets cross whole: {port:?}");
    let c = nic.counters("xdp:near");
    assert_eq!([c.drop_bad_offload, c.drop_over_mtu, c.drop_bad_descriptor], [0; 3], "{c:?}");
    nic.accounts_for_all();
}

#[test]
fn checksums_are_filled_in_or_kept() {
    with_xdp("wire::checksums_inside");
}

/// A datagram of a kernel whose NIC is to compute its checksum: complete, unless the port is to keep what is there.
#[test]
#[ignore = "for checksums_are_filled_in_or_kept"]
fn checksums_inside() {
    veth("");
    ip("link set near up");
    addresses(&["10.9.0.1/24"]);
    let [a, b, c, d, e, f] = MAC;
    ip(&format!("neigh add 10.9.0.2 lladdr {a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x} dev far"));
    for (port, good) in
        [("xdp:near", true), ("xdp:near,checksum=keep", false), ("xdp:near,checksum=fill", true)]
    {
        let nic = Nic::start(&[port]);
        let mut program = Port::open(&nic.socket, "program", 1500, false);
        let socket = UdpSocket::bind("10.9.0.1:0").unwrap();
        let mut found = None;
        until("a datagram", || {
            socket.send_to(&[7; 1000], "10.9.0.2:9").unwrap();
            found = std::iter::from_fn(|| program.next()).find(|frame| frame.len() == 14 + 28 + 1000);
            found.is_some()
        });
        let frame = found.unwrap();
        let headers = Headers::parse(&frame, frame.len());
        assert_eq!(checksum::verify_l4(&frame, &headers, []), Ok(good), "{port}");
        assert_eq!(checksum::is_pseudo(&frame, &headers), !good);
        assert!(frame[42..].iter().all(|byte| *byte == 7));
    }
}

#[test]
fn what_a_program_requests_is_done() {
    with_xdp("wire::requests_inside");
}

/// Every offload, as it is at the far end of the wire: there is another switch.
#[test]
#[ignore = "for what_a_program_requests_is_done"]
fn requests_inside() {
    veth("");
    ip("link set far addrgenmode none");
    let [near, far] = ["xdp:near", "xdp:far"].map(|port| Nic::start(&[port]));
    let mut sender = Port::open(&near.socket, "sender", 1500, true);
    let mut receiver = Port::open(&far.socket, "receiver", 1500, false);
    let hello = [&[2, 0, 0, 0, 0, 8, 2, 0, 0, 0, 0, 1, 0x88, 0xb5][..], &[0; 46]].concat();
    until("the wire", || {
        sender.send(&hello, 0);
        receiver.next().is_some_and(|frame| frame == hello)
    });
    for (frame, meta, number) in table() {
        until("room to send", || sender.send(&frame, meta.word()));
        let mut packets = Vec::new();
        until(&format!("{number} packets: {meta:?}"), || {
            let came = std::iter::from_fn(|| receiver.next());
            packets.extend(came.filter(|packet| packet[..12] == frame[..12]));
            packets.len() >= number
        });
        check(&frame, meta, &packets);
    }
}
