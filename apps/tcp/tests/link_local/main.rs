//! The link-local address of a host, and its gateways: stacks on a switch, and a host beside them that writes its packets itself.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

#[path = "../common/mod.rs"]
mod common;
mod raw;

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::process::Command;

use ccnic_tcp::{Conn, Datagrams, Reply, Stack};
use common::transfer::{Transfer, at, connection};
use common::{Nic, alone, options, peer, until};
use raw::{ADVERTISEMENT, MAC, REPLY, Raw, SOLICITATION, discovery, echo, icmp, octets, packet};

/// A NIC, a server and a client with an address of IPv6 only.
fn two() -> (Nic, Stack, Stack) {
    let nic = Nic::start(&[]);
    let open = |address: &str| {
        let mut options = ccnic_tcp::Options::new(address.parse().unwrap());
        options.pages = ccnic_client::Pages::Small;
        Stack::open(&nic.socket, &options).unwrap()
    };
    let (server, client) = (open("fd09::1/64"), open("2001:db8::2/64"));
    (nic, server, client)
}

/// The ends of the datagrams that came; each is answered with its payload.
#[derive(Default)]
struct Ends(Vec<(SocketAddr, SocketAddr)>);

impl Datagrams for Ends {
    fn datagram(&mut self, from: SocketAddr, to: SocketAddr, payload: &[u8], reply: &mut Reply<'_>) {
        self.0.push((from, to));
        if payload == b"question" {
            assert!(reply.put(b"answer"));
        }
    }
}

/// Two hosts without any network in common.
#[test]
fn bytes_and_datagrams_go_between_link_local_addresses() {
    let _alone = alone();
    let (_nic, mut server, mut client) = two();
    let (ours, theirs) = (server.link_local().unwrap(), client.link_local().unwrap());
    let (accepted, conn) = connection(&mut server, &mut client, &ours.to_string());
    assert_eq!(client.remote(conn).unwrap(), SocketAddr::new(ours.into(), 7));
    assert_eq!(client.local(conn).unwrap().ip(), IpAddr::V6(theirs));
    assert_eq!(server.remote(accepted).unwrap(), client.local(conn).unwrap());
    assert_eq!(server.local(accepted).unwrap(), client.remote(conn).unwrap());
    let len = 1_000_000;
    let mut ends = [Transfer::new(accepted, [1, 2], len), Transfer::new(conn, [2, 1], len)];
    until("all bytes", || [ends[0].step(&mut server), ends[1].step(&mut client)] == [true; 2]);
    // A scope id is ignored.
    let scoped = SocketAddr::from(SocketAddrV6::new(ours, 7, 0, 33));
    let again = client.connect(scoped).unwrap();
    until("another connection", || {
        client.poll();
        server.poll();
        client.room(again) > 0
    });
    assert_eq!(client.remote(again).unwrap(), SocketAddr::new(ours.into(), 7));

    let (question, answer) = (SocketAddr::new(ours.into(), 11), SocketAddr::new(theirs.into(), 12));
    server.bind(11).unwrap();
    client.bind(12).unwrap();
    let peer = peer(&mut server, &mut client, SocketAddrV6::new(ours, 11, 0, 33).into());
    assert_eq!(peer.address(), question);
    assert!(client.send_to(12, &peer, &[b"question"]));
    let (mut asked, mut answered) = (Ends::default(), Ends::default());
    until("the answer", || {
        client.poll_datagrams(&mut answered);
        server.poll_datagrams(&mut asked);
        !answered.0.is_empty()
    });
    assert_eq!((asked.0, answered.0), (vec![(answer, question)], vec![(question, answer)]));
    // Beyond the link there is no way.
    for far in ["[fd09::1]:7", "[fe80:0:0:1::1]:7"] {
        assert!(client.connect(far.parse().unwrap()).is_err() && client.peer(far.parse().unwrap()).is_err());
    }
    let counters = [server.counters(), client.counters()];
    assert!(counters.iter().all(|c| c.bad_checksum == 0 && c.malformed == 0), "{counters:?}");
}

/// Neighbour discovery comes to one stack of several, which tells the others.
#[test]
fn stacks_of_one_attachment_share_the_link_local_address() {
    let _alone = alone();
    let nic = Nic::start(&[]);
    let mut servers = Stack::open_many(&nic.socket, &options("10.9.0.1/24", "fd09::1/64"), 3).unwrap();
    let mut clients = Stack::open_many(&nic.socket, &options("10.9.0.2/24", "fd09::2/64"), 2).unwrap();
    let ours = servers[0].link_local().unwrap();
    assert!(servers.iter().all(|server| server.link_local() == Some(ours)));
    let listeners: Vec<_> = servers.iter_mut().map(|server| server.listen(7, 64).unwrap()).collect();
    let conns: Vec<_> = (0..48).map(|i| clients[i % 2].connect(at(&ours.to_string(), 7)).unwrap()).collect();
    let mut accepted = [0; 3];
    until("all connections", || {
        clients.iter_mut().for_each(|client| _ = client.poll());
        for (i, server) in servers.iter_mut().enumerate() {
            server.poll();
            while server.accept(listeners[i]).is_some() {
                accepted[i] += 1;
            }
        }
        let open = |(i, conn): (usize, &Conn)| clients[i % 2].room(*conn) > 0;
        conns.iter().enumerate().all(open) && accepted.iter().sum::<usize>() == 48
    });
    assert!(accepted.iter().all(|n| *n > 0), "{accepted:?}");
    let mut known = [false; 2];
    until("the server's Ethernet address", || {
        servers.iter_mut().for_each(|server| _ = server.poll());
        for (known, client) in known.iter_mut().zip(&mut clients) {
            client.poll();
            *known |= client.peer(at(&ours.to_string(), 11)).unwrap().is_some();
        }
        known == [true; 2]
    });
}

/// Flags of TCP.
const SYN: u8 = 2;
const ACK: u8 = 16;

/// A segment from port 2000 to port 7.
fn segment(flags: u8, [seq, ack]: [u32; 2], data: &[u8]) -> Vec<u8> {
    let head = [&2000u16.to_be_bytes()[..], &7u16.to_be_bytes(), &seq.to_be_bytes(), &ack.to_be_bytes()];
    [&head.concat()[..], &[0x50, flags, 0xff, 0xff, 0, 0, 0, 0], data].concat()
}

/// A peer connects from the same end to both addresses: that these are two connections is the peer's to choose.
#[test]
fn the_same_end_may_be_connected_to_both_addresses() {
    const PEER: &str = "fd09::99";
    let _alone = alone();
    let nic = Nic::start(&[]);
    let (mut server, mut raw) = (nic.host("10.9.0.1/24", "fd09::1/64"), Raw::new(&nic));
    let listener = server.listen(7, 16).unwrap();
    let (mac, ours) = (server.mac(), server.link_local().unwrap().to_string());
    let addresses = ["fd09::1", &ours];
    let numbers = addresses.map(|to| {
        raw.send(&packet(mac, [PEER, to], 6, &segment(SYN, [99, 0], &[])));
        let answer = raw.find("a SYN-ACK", std::slice::from_mut(&mut server), |frame| {
            frame[20] == 6 && frame[22..38] == octets(to) && frame[67] == SYN | ACK
        });
        u32::from_be_bytes(answer[58..62].try_into().unwrap())
    });
    assert_ne!(numbers[0], numbers[1], "what is known of one says nothing about the other");
    let data: [&[u8]; 2] = [b"to the global address", b"to the link-local one"];
    for (i, to) in addresses.into_iter().enumerate() {
        let next = [100, numbers[i].wrapping_add(1)];
        raw.send(&packet(mac, [PEER, to], 6, &segment(ACK, next, data[i])));
    }
    let mut conns = Vec::new();
    until("both connections", || {
        server.poll();
        conns.extend(server.accept(listener));
        conns.len() == 2
    });
    for conn in conns {
        let local = server.local(conn).unwrap();
        let i = addresses.iter().position(|to| at(to, 7) == local).unwrap();
        assert_eq!(server.remote(conn).unwrap(), at(PEER, 2000));
        let mut got = [0; 64];
        until("its bytes", || {
            server.poll();
            match server.read(conn, &mut got) {
                Ok(n) => {
                    assert_eq!(&got[..n], data[i]);
                    true
                }
                Err(e) => {
                    assert_eq!(e.kind(), ErrorKind::WouldBlock);
                    false
                }
            }
        });
    }
    assert_eq!(server.connections(), 2);
}

#[test]
fn neighbours_are_answered_at_both_addresses() {
    let _alone = alone();
    let nic = Nic::start(&[]);
    let (server, mut raw) = (nic.host("10.9.0.1/24", "fd09::1/64"), Raw::new(&nic));
    let (mac, ours) = (server.mac(), server.link_local().unwrap());
    let mut stacks = [server];
    for target in ["fd09::1".parse::<Ipv6Addr>().unwrap(), ours] {
        let [.., a, b, c] = target.octets();
        let group = format!("ff02::1:ff{a:02x}:{b:02x}{c:02x}");
        let group_mac = [0x33, 0x33, 0xff, a, b, c];
        let text = target.to_string();
        for from in ["fe80::99", "fd09::99"] {
            let question = discovery(SOLICITATION, 0, &text, Some(1));
            let question = packet(group_mac, [from, &group], 58, &question);
            let (source, to, advert) = raw.ask(&mut stacks, &question, ADVERTISEMENT);
            assert_eq!((source, to), (target.octets(), octets(from)), "{target} for {from}");
            assert_eq!((&advert[8..24], &advert[26..32]), (&target.octets()[..], &mac[..]));
            for (i, to) in [(1, text.as_str()), (2, "ff02::1")] {
                let to_mac = if i == 1 { mac } else { [0x33, 0x33, 0, 0, 0, 1] };
                let (source, _, reply) =
                    raw.ask(&mut stacks, &packet(to_mac, [from, to], 58, &echo(i)), REPLY);
                let all = if from == "fe80::99" { ours.octets() } else { octets("fd09::1") };
                assert_eq!((source, reply[7]), (if i == 1 { target.octets() } else { all }, i));
            }
        }
        // Whoever wants the address for itself is told that it is taken, with the flag that overrides what is known.
        let probe = packet(group_mac, ["::", &group], 58, &discovery(SOLICITATION, 0, &text, None));
        let (source, to, advert) = raw.ask(&mut stacks, &probe, ADVERTISEMENT);
        assert_eq!((source, to, advert[4]), (target.octets(), octets("ff02::1"), 0x20));
        assert_eq!((&advert[8..24], &advert[26..32]), (&target.octets()[..], &mac[..]));
        // Not where a router has passed it on, the checksum is wrong, or the address is nobody's.
        let [mut routed, mut wrong] = [probe.clone(), probe];
        routed[21] = 254;
        wrong[56] ^= 1;
        let other = discovery(SOLICITATION, 0, "fe80::1234", None);
        let other = packet([0x33, 0x33, 0xff, 0, 0x12, 0x34], ["::", "ff02::1:ff00:1234"], 58, &other);
        [routed, wrong, other].iter().for_each(|frame| raw.send(frame));
        raw.ask(&mut stacks, &packet(mac, ["fe80::99", &text], 58, &echo(3)), REPLY);
        let told =
            raw.seen.iter().filter(|frame| icmp(frame).is_some_and(|(.., icmp)| icmp[0] == ADVERTISEMENT));
        assert_eq!(told.count(), 0);
    }
}

/// Each version of IP has its router, the one of IPv6 at a link-local address: it is asked for from the own one, and what goes beyond the
/// link comes from the other one.
#[test]
fn each_version_of_ip_has_its_gateway() {
    const FAR: [&str; 2] = ["10.8.0.1", "fd08::1"];
    let _alone = alone();
    let nic = Nic::start(&[]);
    let mut raw = Raw::new(&nic);
    // An address that has less in common with the far one than the link-local address has.
    let mut wanted = options("10.9.0.1/24", "2001:db8::1/64");
    wanted.set_gateways(["10.9.0.99".parse().unwrap(), "fe80::99".parse().unwrap()]).unwrap();
    let mut stacks = [Stack::open(&nic.socket, &wanted).unwrap()];
    let (mac, ours) = (stacks[0].mac(), stacks[0].link_local().unwrap());

    stacks[0].connect(at(FAR[0], 9)).unwrap();
    let question = raw.find("a question for the router", &mut stacks, |frame| frame[12..14] == [8, 6]);
    assert_eq!((&question[28..32], &question[38..42]), (&[10, 9, 0, 1][..], &[10, 9, 0, 99][..]));
    raw.send(
        &[&mac[..], &MAC, &[8, 6, 0, 1, 8, 0, 6, 4, 0, 2], &MAC, &question[38..42], &mac, &question[28..32]]
            .concat(),
    );
    let syn = raw.find("a SYN", &mut stacks, |frame| frame[12..14] == [8, 0] && frame[23] == 6);
    assert_eq!((&syn[..6], &syn[26..34]), (&MAC[..], &[10, 9, 0, 1, 10, 8, 0, 1][..]));

    stacks[0].connect(at(FAR[1], 9)).unwrap();
    let asks = |frame: &[u8]| icmp(frame).is_some_and(|(.., icmp)| icmp[0] == SOLICITATION);
    let question = raw.find("a question for the router", &mut stacks, asks);
    let (from, group, icmp) = icmp(&question).unwrap();
    assert_eq!((from, group), (ours.octets(), octets("ff02::1:ff00:99")));
    assert_eq!(icmp[8..24], octets("fe80::99"));
    let text = ours.to_string();
    let advert = discovery(ADVERTISEMENT, 0x60, "fe80::99", Some(2));
    raw.send(&packet(mac, ["fe80::99", &text], 58, &advert));
    let syn = raw.find("a SYN", &mut stacks, |frame| frame[12..14] == [0x86, 0xdd] && frame[20] == 6);
    assert_eq!(
        (&syn[..6], &syn[22..38], &syn[38..54]),
        (&MAC[..], &octets("2001:db8::1")[..], &octets(FAR[1])[..])
    );
}

/// The answer to a question of the stack itself may come from another address of the neighbour than the one that it is about, and from no
/// farther than the link.
#[test]
fn an_advertisement_is_about_its_target() {
    let _alone = alone();
    let nic = Nic::start(&[]);
    let mut raw = Raw::new(&nic);
    let mut wanted = options("10.9.0.1/24", "fd09::1/64");
    wanted.set_gateways(["fe80::99".parse().unwrap()]).unwrap();
    let mut stacks = [Stack::open(&nic.socket, &wanted).unwrap()];
    let (mac, ours) = (stacks[0].mac(), stacks[0].link_local().unwrap());
    for (peer, hop, from) in [("fd09::77", "fd09::77", "fd09::1"), ("fd08::1", "fe80::99", &ours.to_string())]
    {
        let peer = at(peer, 9);
        assert_eq!(stacks[0].peer(peer).unwrap(), None);
        let asks = |frame: &[u8]| {
            icmp(frame).is_some_and(|(.., icmp)| icmp[0] == SOLICITATION && icmp[8..24] == octets(hop))
        };
        let question = raw.find("a question", &mut stacks, asks);
        assert_eq!(icmp(&question).map(|(source, ..)| source), Some(octets(from)));
        let advert = packet(mac, ["fe80::7:7", from], 58, &discovery(ADVERTISEMENT, 0x60, hop, Some(2)));
        let mut routed = advert.clone();
        routed[21] = 254;
        raw.send(&routed);
        raw.ask(&mut stacks, &packet(mac, ["fe80::7:7", &ours.to_string()], 58, &echo(1)), REPLY);
        assert_eq!(stacks[0].peer(peer).unwrap(), None, "a router has passed it on");
        raw.send(&advert);
        until("the neighbour", || {
            stacks[0].poll();
            stacks[0].peer(peer).unwrap().is_some()
        });
    }
}

/// Before anything is looked for at the socket.
#[test]
fn programs_refuse_gateways_of_one_version() {
    for (program, words) in
        [(env!("CARGO_BIN_EXE_ccnic-hello"), &[][..]), (env!("CARGO_BIN_EXE_ccnic-echo"), &["server"])]
    {
        let says = |gateways: &[&str]| {
            let mut command = Command::new(program);
            command.args(words).args([
                "--socket",
                "/nowhere/nic.sock",
                "--address",
                "10.9.0.2/24",
                "--ipv6",
                "fd09::2/64",
            ]);
            gateways.iter().for_each(|gateway| _ = command.args(["--gateway", gateway]));
            let done = command.output().unwrap();
            assert_eq!(done.status.code(), Some(2), "{done:?}");
            String::from_utf8(done.stderr).unwrap()
        };
        let two = says(&["10.9.0.1", "fe80::1", "10.9.0.3"]);
        assert!(two.contains("10.9.0.1 and 10.9.0.3 are gateways of the same version of IP"), "{two}");
        let far = says(&["10.9.0.1", "fd08::1"]);
        assert!(far.contains("gateway6 is fd08::1, which is not in the network fd09::2/64"), "{far}");
        let right = says(&["10.9.0.1", "fe80::1"]);
        assert!(right.contains("/nowhere/nic.sock"), "{right}");
    }
}
