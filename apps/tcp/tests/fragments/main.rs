//! Packets that are longer than a frame, between stacks and from a host that writes fragments itself. Against the kernel: `kernel/fragments.rs`.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

#[path = "../common/mod.rs"]
mod common;
mod port;
#[allow(dead_code, reason = "other tests use the rest")]
#[path = "../blind/raw.rs"]
mod raw;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ccnic_frame::{Checksum, Headers, Meta, checksum};
use ccnic_tcp::clock::Clock;
use ccnic_tcp::{Datagrams, Options, Peer, Reply, Stack};
use common::transfer::at;
use common::{Nic, alone, byte, options, peer, until};
use port::{Port, datagram, fragments, is_datagram, resets};
use raw::{ACK, PEER, PORT, PSH, SERVER, SYN, Segment, icmp, ip};

const SERVERS: [&str; 2] = ["10.9.0.1", "fd09::1"];
/// The longest payload of each version.
const LONGEST: [usize; 2] = [65_507, 65_527];

fn noise(seed: u8, len: usize) -> Vec<u8> {
    (0..len).map(|i| byte(seed, i)).collect()
}

/// Answers with the payload, in pieces.
struct Echo;

impl Datagrams for Echo {
    fn datagram(&mut self, from: SocketAddr, _: SocketAddr, payload: &[u8], reply: &mut Reply<'_>) {
        assert_eq!(reply.room(), LONGEST[usize::from(from.is_ipv6())]);
        assert!(payload.chunks(700).all(|piece| reply.put(piece)) && reply.put(&[]));
    }
}

/// Keeps what comes.
#[derive(Default)]
struct Inbox(Vec<Vec<u8>>);

impl Datagrams for Inbox {
    fn datagram(&mut self, _: SocketAddr, _: SocketAddr, payload: &[u8], _: &mut Reply<'_>) {
        self.0.push(payload.to_vec());
    }
}

/// A server with port 11 and a client with port 12, with rings that have room for all that a test sends at once.
fn two() -> (Nic, Stack, Stack) {
    let nic = Nic::start(&[]);
    let open = |v4, v6| {
        let mut options = options(v4, v6);
        (options.config.ring, options.config.buffers, options.kept) = (4096, 16_384, 256 << 10);
        Stack::open(&nic.socket, &options).unwrap()
    };
    let (mut server, mut client) = (open("10.9.0.1/24", "fd09::1/64"), open("10.9.0.2/24", "fd09::2/64"));
    server.bind(11).unwrap();
    client.bind(12).unwrap();
    (nic, server, client)
}

#[track_caller]
fn is_right(stack: &Stack) {
    let counters = stack.counters();
    let wrong = [counters.bad_checksum, counters.malformed, counters.refused, counters.fragments_dropped];
    assert_eq!(wrong, [0; 4], "{counters:?}");
}

#[test]
fn datagrams_of_any_length_go_both_ways() {
    let _alone = alone();
    let (_nic, mut server, mut client) = two();
    for (host, longest) in SERVERS.into_iter().zip(LONGEST) {
        let to = peer(&mut server, &mut client, at(host, 11));
        let lengths = [1452, 1453, 1472, 1473, 2952, 2953, 3000, 9000, 32_768, longest - 1, longest];
        for (number, len) in lengths.into_iter().enumerate() {
            let payload = noise(number as u8, len);
            let (left, right) = payload.split_at(len / 3);
            assert!(client.send_to(12, &to, &[left, right]));
            let mut inbox = Inbox::default();
            until("the answer", || {
                client.poll_datagrams(&mut inbox);
                server.poll_datagrams(&mut Echo);
                !inbox.0.is_empty()
            });
            assert!(inbox.0 == [payload], "{len} bytes");
        }
        assert!(!client.send_to(12, &to, &[&vec![0; longest + 1]]), "it is longer than any packet");
        let mut datagram = client.compose(12, &to).unwrap();
        assert!(
            datagram.put(&vec![0; longest])
                && datagram.room() == 0
                && !datagram.put(&[0])
                && !datagram.send()
        );
    }
    for stack in [&server, &client] {
        is_right(stack);
        assert!(
            stack.counters().fragmented >= 16 && stack.counters().reassembled >= 16,
            "{:?}",
            stack.counters()
        );
    }
}

/// Datagrams that become longer than a frame while they are put together: from a place of a short frame, from buffers, with kept values.
#[test]
fn a_datagram_grows_beyond_a_frame() {
    let _alone = alone();
    let (_nic, mut server, mut client) = two();
    let to = peer(&mut client, &mut server, at("10.9.0.2", 12));
    let all = server.kept().available();
    let mut expected = Vec::new();
    for (number, pieces) in
        [&[50, 2000][..], &[1000, 400, 100], &[10, 1472], &[1472, 1], &[0, 5000, 1, 60_000]]
            .into_iter()
            .enumerate()
    {
        for kept in 0..=pieces.len() {
            let mut datagram = server.compose(11, &to).unwrap();
            if kept == 0 {
                datagram.expect(pieces.iter().sum());
            }
            let mut whole = Vec::new();
            for (i, len) in pieces.iter().enumerate() {
                let bytes = noise((number * 8 + i) as u8, *len);
                if i + 1 == kept {
                    let mut value = datagram.kept().alloc(*len).unwrap();
                    assert!(datagram.kept().write(&mut value, 0, &bytes));
                    assert!(datagram.put_kept(&value, 0..*len));
                    datagram.kept().free(value);
                } else {
                    assert!(datagram.put(&bytes));
                }
                whole.extend(bytes);
            }
            assert!(datagram.send());
            expected.push(whole);
        }
    }
    let mut inbox = Inbox::default();
    until("all of them", || {
        server.poll();
        client.poll_datagrams(&mut inbox);
        inbox.0.len() == expected.len()
    });
    assert!(inbox.0 == expected);
    until("the memory of the values", || {
        server.poll();
        server.kept().available() == all
    });
    is_right(&server);
    is_right(&client);
}

/// As many as there is room for are accepted, each whole, and arrive in order with what is put between them.
#[test]
fn long_datagrams_are_sent_whole_or_refused() {
    let _alone = alone();
    let (_nic, mut server, mut client) = two();
    let to: Peer = peer(&mut server, &mut client, at("10.9.0.1", 11));
    let mut accepted = Vec::new();
    while client.can_send() {
        let number = accepted.len() as u8;
        let long = noise(number, 65_507);
        assert!(client.send_to(12, &to, &[&long]) && client.send_to(12, &to, &[&[number]]));
        accepted.extend([long, vec![number]]);
        assert!(accepted.len() < 200, "what waits is bounded");
    }
    assert!(accepted.len() >= 64, "{}", accepted.len());
    assert_eq!(client.counters().refused, 0);
    assert!(!client.send_to(12, &to, &[&[7; 2000]]));
    assert_eq!(client.counters().refused, 1);
    let mut inbox = Inbox::default();
    until("all that was accepted", || {
        client.poll();
        server.poll_datagrams(&mut inbox);
        inbox.0.len() >= accepted.len()
    });
    assert!(inbox.0 == accepted);
    assert!(client.can_send());
}

/// Servers of one address, with a clock that stands.
fn servers(nic: &Nic, n: u16) -> (Vec<Stack>, Arc<Mutex<Duration>>) {
    let clock = Arc::new(Mutex::new(Duration::ZERO));
    let mut options: Options = options("10.9.0.1/24", "fd09::1/64");
    options.clock = Clock::Invented(Arc::clone(&clock));
    let servers = Stack::open_many(&nic.socket, &options, n).unwrap();
    (servers, clock)
}

/// Such servers on a NIC, and a raw host beside them.
fn beside_a_raw_host(n: u16) -> (Nic, Vec<Stack>, Arc<Mutex<Duration>>, Port) {
    let nic = Nic::start(&[]);
    let (servers, clock) = servers(&nic, n);
    let port = Port::new(&nic);
    (nic, servers, clock, port)
}

/// What is said of a fragment is said of no packet.
#[test]
fn a_fragments_metadata_prove_nothing() {
    let _alone = alone();
    let (_nic, mut servers, _clock, mut port) = beside_a_raw_host(1);
    let mac = servers[0].mac();
    servers[0].bind(11).unwrap();
    let good = datagram(mac, &noise(1, 400));
    let mut wrong = good.clone();
    wrong[100] ^= 1;
    let says = [Checksum::Unknown, Checksum::Good, Checksum::Requested];
    for (id, says) in says.into_iter().enumerate() {
        let meta = Meta::default().with_l4_checksum(says).with_ip_checksum(Checksum::Good);
        for part in fragments(&wrong, id as u16, 200) {
            port.send(&part, meta);
        }
        port.until("the wrong one", &mut servers, |_, servers| {
            servers[0].counters().bad_checksum == id as u64 + 1
        });
        for part in fragments(&good, id as u16, 200) {
            port.send(&part, meta);
        }
        let frames = port.until("the answer to the right one", &mut servers, |frames, _| {
            frames.iter().any(|frame| is_datagram(frame))
        });
        let answer = frames.iter().find(|frame| is_datagram(frame)).unwrap();
        assert!(answer[42..] == good[42..]);
    }
    assert_eq!(servers[0].counters().datagrams, 3);
}

/// A ping in fragments, and one in a frame that is longer than the answers may be.
#[test]
fn answers_to_long_pings_go_in_fragments() {
    let _alone = alone();
    let (_nic, mut servers, _clock, mut port) = beside_a_raw_host(1);
    let mac = servers[0].mac();
    let data = noise(3, 4000);
    let ask = icmp(8, 0, [0, 7, 0, 9], &data);
    let whole = ip(mac, PEER, 1, &ask);
    for (round, frames) in [fragments(&whole, 1, 1480), vec![whole]].into_iter().enumerate() {
        frames.iter().for_each(|frame| port.send(frame, Meta::default()));
        let answer = port.until("three fragments", &mut servers, |frames, _| frames.len() >= 3);
        let mut parts: Vec<(u16, Vec<u8>)> = Vec::new();
        for frame in &answer {
            assert!(frame.len() <= 1514 && frame[23] == 1 && frame[20] & 0x40 == 0);
            parts.push((u16::from_be_bytes([frame[20], frame[21]]) & 0x1fff, frame[34..].to_vec()));
        }
        parts.sort();
        let message: Vec<u8> = parts.into_iter().flat_map(|(_, data)| data).collect();
        assert!(message == icmp(0, 0, [0, 7, 0, 9], &data), "round {round}");
    }
    // A wrong checksum is answered by nothing.
    let mut wrong = ask.clone();
    wrong[500] ^= 1;
    let wrong = ip(mac, PEER, 1, &wrong);
    fragments(&wrong, 2, 1480).iter().for_each(|frame| port.send(frame, Meta::default()));
    let frames = port.until("it", &mut servers, |_, servers| servers[0].counters().bad_checksum == 1);
    assert_eq!(frames, Vec::<Vec<u8>>::new());
}

/// IPv6 in one fragment, which is what was sent without it, but for what must not come so: questions about neighbours (RFC 6980), and a
/// fragment of a fragment.
#[test]
fn what_must_not_come_in_fragments_is_dropped() {
    let _alone = alone();
    let (_nic, mut servers, _clock, mut port) = beside_a_raw_host(1);
    servers[0].bind(11).unwrap();
    let (own, to): (std::net::Ipv6Addr, std::net::Ipv6Addr) =
        ("fd09::99".parse().unwrap(), "fd09::1".parse().unwrap());
    let mac = [2, 0, 0, 0, 9, 99];
    let packet = |next: u8, message: &[u8], fragments: usize| {
        let head =
            [&servers[0].mac()[..], &mac, &[0x86, 0xdd, 0x60, 0, 0, 0, 0, message.len() as u8, next, 255]]
                .concat();
        let mut frame = [&head, &own.octets()[..], &to.octets(), message].concat();
        let headers = Headers::parse(&frame, frame.len());
        checksum::fill_l4(&mut frame, &headers, []).unwrap();
        let protocols = std::iter::repeat_n(44, fragments).chain([next]).collect::<Vec<u8>>();
        (frame[19], frame[20]) = ((message.len() + 8 * fragments) as u8, protocols[0]);
        let chain = protocols[1..].iter().flat_map(|next| [*next, 0, 0, 0, 0, 0, 0, 9]);
        [&frame[..54], &chain.collect::<Vec<u8>>(), &frame[54..]].concat()
    };
    let question = [&[135, 0, 0, 0, 0, 0, 0, 0][..], &to.octets(), &[1, 1], &mac].concat();
    let asks = [&[0, 12, 0, 11, 0, 12, 0, 0][..], b"asks"].concat();
    let (good, bad) = (
        [packet(58, &question, 0), packet(17, &asks, 0), packet(17, &asks, 1)],
        [packet(58, &question, 1), packet(17, &asks, 9)],
    );
    for frame in &good {
        port.send(frame, Meta::default());
        port.until("an answer", &mut servers, |frames, _| {
            frames.iter().any(|frame| frame[20] == good[0][20] || frame[20] == 17)
        });
    }
    for (i, frame) in (1..).zip(&bad) {
        port.send(frame, Meta::default());
        let frames = port.until("it", &mut servers, |_, servers| servers[0].counters().malformed == i);
        assert_eq!(frames, Vec::<Vec<u8>>::new());
    }
    assert_eq!((servers[0].counters().datagrams, servers[0].counters().bad_checksum), (2, 0));
}

/// Fragments of which not all come are forgotten when their time is over, also where nothing else comes.
#[test]
fn what_does_not_come_whole_is_forgotten() {
    let _alone = alone();
    let (_nic, mut servers, clock, mut port) = beside_a_raw_host(1);
    let mac = servers[0].mac();
    servers[0].bind(11).unwrap();
    let parts = fragments(&datagram(mac, &noise(1, 400)), 1, 200);
    port.send(&parts[0], Meta::default());
    port.until("it", &mut servers, |_, servers| servers[0].counters().received == 1);
    for half_seconds in 1..=60 {
        assert_eq!(servers[0].counters().reassembly_expired, 0, "{half_seconds}");
        *clock.lock().unwrap() += Duration::from_millis(500);
        servers[0].poll();
    }
    assert_eq!(servers[0].counters().reassembly_expired, 1);
    port.send(&parts[1], Meta::default());
    port.until("the rest", &mut servers, |_, servers| servers[0].counters().received == 2);
    assert_eq!((servers[0].counters().datagrams, servers[0].counters().reassembled), (0, 0));
}

/// A connection's handshake from a port of the raw host; returns the next numbers of both sides.
fn open(port: &mut Port, servers: &mut [Stack], from: u16) -> (u32, u32) {
    let first = 1_000_000 + u32::from(from);
    port.send(&Segment::new(from, SYN, first, 0).size(1460).frame(servers[0].mac()), Meta::default());
    let mut answer = None;
    port.until("SYN-ACK", servers, |frames, _| {
        answer = frames.iter().filter_map(|frame| Segment::parse(frame)).find(|segment| segment.port == from);
        answer.is_some()
    });
    let ack = answer.unwrap().seq.wrapping_add(1);
    port.send(&Segment::new(from, ACK, first + 1, ack).frame(servers[0].mac()), Meta::default());
    (first + 1, ack)
}

/// A segment in two fragments is taken by the stack that has its connection, whichever of several gets the fragments; one of no connection
/// is answered by a reset where there is one stack only.
#[test]
fn a_segment_in_fragments_finds_its_connection() {
    let _alone = alone();
    for stacks in [1, 3] {
        let (_nic, mut servers, _clock, mut port) = beside_a_raw_host(stacks);
        let mac = servers[0].mac();
        let listeners: Vec<_> = servers.iter_mut().map(|server| server.listen(PORT, 64).unwrap()).collect();
        let mut spread = vec![0; usize::from(stacks)];
        for from in 5000..5012 {
            let (seq, ack) = open(&mut port, &mut servers, from);
            let mut accepted = None;
            port.until("a connection", &mut servers, |_, servers| {
                let mut each = servers.iter_mut().zip(&listeners).enumerate();
                accepted = each.find_map(|(at, (server, listener))| Some((at, server.accept(*listener)?)));
                accepted.is_some()
            });
            let (stack, conn) = accepted.unwrap();
            spread[stack] += 1;
            let data = noise(from as u8, 1000);
            let segment = Segment::new(from, PSH | ACK, seq, ack).data(&data).frame(mac);
            for part in fragments(&segment, from, 600) {
                port.send(&part, Meta::default());
            }
            let (mut got, mut bytes) = (Vec::new(), [0; 2000]);
            let mut frames = port.until("the data", &mut servers, |_, servers| {
                if let Ok(n) = servers[stack].read(conn, &mut bytes) {
                    got.extend_from_slice(&bytes[..n]);
                }
                got.len() >= data.len()
            });
            assert!(got == data);
            frames.extend(port.ping(&mut servers));
            assert_eq!(resets(&frames), 0, "of {stacks} stacks one has reset a connection of another");
        }
        assert!(spread.iter().all(|n| *n > 0), "{spread:?}");
        // Of no connection.
        let stray = Segment::new(6000, PSH | ACK, 1, 1).data(&noise(1, 1000)).frame(mac);
        let before: u64 = servers.iter().map(|server| server.counters().reassembled).sum();
        fragments(&stray, 1, 600).iter().for_each(|part| port.send(part, Meta::default()));
        let frames = port.ping(&mut servers);
        let after: u64 = servers.iter().map(|server| server.counters().reassembled).sum();
        assert_eq!((resets(&frames), after - before), (usize::from(stacks == 1), 1));
    }
}

/// A port that only one of several stacks has bound.
#[test]
fn a_datagram_in_fragments_finds_its_port() {
    let _alone = alone();
    let nic = Nic::start(&[]);
    let (mut servers, _clock) = servers(&nic, 3);
    let mut client = nic.host("10.9.0.2/24", "fd09::2/64");
    client.bind(12).unwrap();
    for (port, server) in (20..).zip(&mut servers) {
        server.bind(port).unwrap();
    }
    for (port, host) in (20..23).flat_map(|port| SERVERS.map(|host| (port, host))) {
        let mut to = None;
        until("the peer's address", || {
            servers.iter_mut().for_each(|server| _ = server.poll());
            client.poll();
            to = client.peer(at(host, port)).unwrap();
            to.is_some()
        });
        let payload = noise(port as u8, 4000);
        assert!(client.send_to(12, &to.unwrap(), &[&payload]));
        let mut inbox = Inbox::default();
        until("the answer", || {
            servers.iter_mut().for_each(|server| _ = server.poll_datagrams(&mut Echo));
            client.poll_datagrams(&mut inbox);
            !inbox.0.is_empty()
        });
        assert!(inbox.0 == [payload]);
    }
}

/// A router has dropped a datagram as too long: those that follow are as short as it says.
#[test]
fn datagrams_follow_the_path() {
    let _alone = alone();
    let (_nic, mut servers, _clock, mut port) = beside_a_raw_host(1);
    let mac = servers[0].mac();
    servers[0].bind(11).unwrap();
    let asks = datagram(mac, &noise(1, 1400));
    let answer = |port: &mut Port, servers: &mut [Stack]| {
        port.send(&asks, Meta::default());
        port.until("the answer", servers, |frames, _| {
            frames.iter().map(|frame| frame.len() - 34).sum::<usize>() == asks.len() - 34
        })
    };
    let whole = answer(&mut port, &mut servers).remove(0);
    assert_eq!((whole.len(), &whole[18..22]), (asks.len(), &[0, 0, 0x40, 0][..]), "not to be cut");
    let too_big = icmp(3, 4, [0, 0, 3, 0xe8], &whole[14..42]); // 1000 bytes
    port.send(&ip(mac, [10, 9, 0, 8], 1, &too_big), Meta::default());
    port.until("the error", &mut servers, |_, servers| servers[0].counters().paths_lowered == 1);
    let [first, second] = [answer(&mut port, &mut servers), answer(&mut port, &mut servers)];
    for parts in [&first, &second] {
        assert!(parts.len() == 2 && parts.iter().all(|part| part.len() <= 1014 && part[20] & 0x40 == 0));
        assert_eq!(parts[0][18..20], parts[1][18..20], "of one packet");
    }
    assert_ne!(first[0][18..20], second[0][18..20], "of two packets");
    assert_eq!(SERVER, first[0][26..30]);
}
