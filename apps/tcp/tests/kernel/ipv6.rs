//! The link-local address, and a gateway for each version of IP: what the kernel and its programs make of them.

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6, TcpListener, UdpSocket};
use std::process::Command;
use std::time::Duration;

use ccnic_tcp::Stack;
use ccnic_testing::in_namespace;
use rustix::net::netdevice::name_to_index;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType, bind, ipproto, recvfrom, sendto, socket};

use crate::common::{self, Nic, PATIENCE, until};
use crate::host::{Manner, Server, connect, echo, nic, runs};

/// The kernel's, on the port, which has another one of its own beside it.
const KERNEL: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 9);
const KERNEL_GLOBAL: Ipv6Addr = Ipv6Addr::new(0xfd09, 0, 0, 0, 0, 0, 0, 9);
const GLOBAL: Ipv6Addr = Ipv6Addr::new(0xfd09, 0, 0, 0, 0, 0, 0, 1);
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

/// A NIC whose TAP port has [`KERNEL`], too, a stack, and its link-local address.
#[track_caller]
fn two() -> (Nic, Stack, Ipv6Addr) {
    let nic = nic();
    assert!(runs("ip address add fe80::9/64 dev tap0 nodad"));
    let stack = nic.host("10.9.0.1/24", "fd09::1/64");
    let ours = stack.link_local().unwrap();
    (nic, stack, ours)
}

/// An end on the port's link, of which the kernel wants to know where the address does not say it.
fn on_link(address: Ipv6Addr, port: u16) -> SocketAddr {
    let named = address.is_unicast_link_local() || address.is_multicast();
    let any = socket(AddressFamily::INET6, SocketType::DGRAM, None).unwrap();
    let scope = if named { name_to_index(any, "tap0").unwrap() } else { 0 };
    SocketAddrV6::new(address, port, 0, scope).into()
}

/// The kernel knows no neighbour any more, and asks.
#[track_caller]
fn forget_neighbours() {
    assert!(runs("ip -6 neighbour flush dev tap0"));
}

#[test]
fn pings() {
    in_namespace("ipv6::pings_inside");
}

/// Echo requests of the kernel, which fills in the checksum: as `ping -6 fe80::...%tap0` and `ping ff02::1%tap0`.
#[test]
#[ignore = "for pings"]
fn pings_inside() {
    let (_nic, stack, ours) = two();
    let server = Server::start(stack, Manner::Echo);
    for (from, to, answers) in [
        (KERNEL, ours, ours),
        (KERNEL, GLOBAL, GLOBAL),
        (KERNEL, ALL_NODES, ours),
        (KERNEL_GLOBAL, ours, ours),
        (KERNEL_GLOBAL, GLOBAL, GLOBAL),
        (KERNEL_GLOBAL, ALL_NODES, GLOBAL),
    ] {
        forget_neighbours();
        let socket = socket(AddressFamily::INET6, SocketType::RAW, Some(ipproto::ICMPV6)).unwrap();
        set_socket_timeout(&socket, Timeout::Recv, Some(PATIENCE)).unwrap();
        bind(&socket, &on_link(from, 0)).unwrap();
        sendto(&socket, &[128, 0, 0, 0, 0, 7, 0, 1, 1, 2, 3, 4], SendFlags::empty(), &on_link(to, 0))
            .unwrap();
        let mut bytes = [0; 1500];
        loop {
            let (n, _, sender) = recvfrom(&socket, &mut bytes[..], RecvFlags::empty()).unwrap();
            let sender = SocketAddrV6::try_from(sender.unwrap()).unwrap();
            // Of what is sent to all nodes the kernel is one, too.
            if bytes[0] == 129 && *sender.ip() == answers {
                assert_eq!(bytes[4..n], [0, 7, 0, 1, 1, 2, 3, 4]);
                break;
            }
        }
    }
    server.end();
}

#[test]
fn link_local() {
    in_namespace("ipv6::link_local_inside");
}

/// From the kernel's link-local address to both of the stack's, over TCP and UDP, where the kernel asks for the neighbour from it.
#[test]
#[ignore = "for link_local"]
fn link_local_inside() {
    let (_nic, stack, ours) = two();
    let server = Server::start(stack, Manner::Echo);
    for to in [ours, GLOBAL] {
        forget_neighbours();
        echo(connect(on_link(to, 7)), 2 << 20);
        forget_neighbours();
        let socket = UdpSocket::bind(on_link(KERNEL, 0)).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.connect(on_link(to, 8)).unwrap();
        socket.send(b"nobody is there").unwrap();
        let refused = socket.recv(&mut [0; 8]).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused, "{to}: {refused}");
    }
    until("the end of all connections", || {
        server.connections.load(std::sync::atomic::Ordering::Relaxed) == 0
    });
    let counters = server.end().counters();
    assert_eq!((counters.bad_checksum, counters.malformed), (0, 0), "{counters:?}");
}

/// A connection and a datagram of the stack to a program of the kernel at this address, which sees them come from `ours`.
#[track_caller]
fn reaches(stack: &mut Stack, to: IpAddr, listen: SocketAddr, ours: IpAddr) {
    let listener = TcpListener::bind(listen).unwrap();
    let socket = UdpSocket::bind(listen).unwrap();
    listener.set_nonblocking(true).unwrap();
    socket.set_nonblocking(true).unwrap();
    let conn = stack.connect(SocketAddr::new(to, listener.local_addr().unwrap().port())).unwrap();
    let mut accepted = None;
    until("a connection", || {
        stack.poll();
        accepted = listener.accept().ok();
        accepted.is_some()
    });
    let (stream, from) = accepted.unwrap();
    assert_eq!((from.ip(), stack.local(conn).unwrap().ip()), (ours, ours), "to {to}");
    stack.abort(conn);
    drop(stream);
    let to = SocketAddr::new(to, socket.local_addr().unwrap().port());
    let mut peer = None;
    until("the peer's Ethernet address", || {
        stack.poll();
        peer = stack.peer(to).unwrap();
        peer.is_some()
    });
    assert!(stack.send_to(11, &peer.unwrap(), &[b"hello"]));
    let (mut bytes, mut received) = ([0; 8], None);
    until("the datagram", || {
        stack.poll();
        received = socket.recv_from(&mut bytes).ok();
        received.is_some()
    });
    let (n, from) = received.unwrap();
    assert_eq!((&bytes[..n], from.ip(), from.port()), (&b"hello"[..], ours, 11), "to {to}");
}

#[test]
fn connections_to_the_kernel() {
    in_namespace("ipv6::connections_to_the_kernel_inside");
}

#[test]
#[ignore = "for connections_to_the_kernel"]
fn connections_to_the_kernel_inside() {
    let (_nic, mut stack, ours) = two();
    reaches(&mut stack, KERNEL.into(), on_link(KERNEL, 0), ours.into());
    reaches(&mut stack, KERNEL_GLOBAL.into(), on_link(KERNEL_GLOBAL, 0), GLOBAL.into());
}

#[test]
fn gateways() {
    in_namespace("ipv6::gateways_inside");
}

/// The kernel has addresses of other networks, and is the router to them: of IPv6 at its link-local address.
#[test]
#[ignore = "for gateways"]
fn gateways_inside() {
    let nic = nic();
    for words in [
        "address add fe80::9/64 dev tap0 nodad",
        "link set lo up",
        "address add 10.8.0.1/32 dev lo",
        "address add fd08::1/128 dev lo nodad",
    ] {
        assert!(runs(&format!("ip {words}")), "ip {words}");
    }
    let far: [IpAddr; 2] = ["10.8.0.1".parse().unwrap(), "fd08::1".parse().unwrap()];
    let own: [IpAddr; 2] = ["10.9.0.1".parse().unwrap(), GLOBAL.into()];
    for gateways in [["10.9.0.9", "fe80::9"], ["10.9.0.9", "fd09::9"]] {
        let mut options = common::options("10.9.0.1/24", "fd09::1/64");
        options.set_gateways(gateways.map(|gateway| gateway.parse().unwrap())).unwrap();
        let mut stack = Stack::open(&nic.socket, &options).unwrap();
        for (to, ours) in far.into_iter().zip(own) {
            reaches(&mut stack, to, SocketAddr::new(to, 0), ours);
        }
    }
    let mut stack = nic.host("10.9.0.1/24", "fd09::1/64");
    for to in far {
        let refused = stack.connect(SocketAddr::new(to, 7)).unwrap_err();
        assert!(refused.to_string().contains("there is no gateway"), "{refused}");
    }
}

#[test]
fn an_address_in_use() {
    in_namespace("ipv6::an_address_in_use_inside");
}

/// The kernel probes an address before it takes it, and is told who has it.
#[test]
#[ignore = "for an_address_in_use"]
fn an_address_in_use_inside() {
    let (_nic, stack, ours) = two();
    let server = Server::start(stack, Manner::Echo);
    let free = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0x77);
    for (address, taken) in [(free, false), (ours, true), (GLOBAL, true)] {
        assert!(runs(&format!("ip address add {address}/64 dev tap0")));
        until("the end of duplicate address detection", || {
            std::thread::sleep(Duration::from_millis(10));
            let shown = Command::new("ip").args(["-6", "address", "show", "dev", "tap0"]).output().unwrap();
            let shown = String::from_utf8(shown.stdout).unwrap();
            let line = shown.lines().find(|line| line.contains(&format!("inet6 {address}/"))).unwrap();
            let failed = line.contains("dadfailed");
            assert!(!failed || taken, "{line}");
            failed || !line.contains("tentative") && !taken
        });
    }
    server.end();
}
