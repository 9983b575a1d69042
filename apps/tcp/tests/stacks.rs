//! Two stacks on a switch: TCP and UDP between programs.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

mod common;

use std::io::ErrorKind;
use std::net::SocketAddr;

use ccnic_tcp::{Datagrams, Event, Reply, Stack};
use common::transfer::{Transfer, at, connection};
use common::{Nic, alone, byte, peer, until};

const SERVER: [&str; 2] = ["10.9.0.1", "fd09::1"];

/// A NIC, a server and a client.
fn two() -> (Nic, Stack, Stack) {
    let nic = Nic::start(&[]);
    let server = nic.host("10.9.0.1/24", "fd09::1/64");
    let client = nic.host("10.9.0.2/24", "fd09::2/64");
    (nic, server, client)
}

#[test]
fn bytes_go_both_ways() {
    let _alone = alone();
    for host in SERVER {
        let (_nic, mut server, mut client) = two();
        let (accepted, conn) = connection(&mut server, &mut client, host);
        assert_eq!(client.remote(conn).unwrap(), at(host, 7));
        assert_eq!(server.remote(accepted).unwrap(), client.local(conn).unwrap());
        let len = 3_000_000;
        let mut ends = [Transfer::new(accepted, [1, 2], len), Transfer::new(conn, [2, 1], len)];
        until("all bytes", || {
            let done = [ends[0].step(&mut server), ends[1].step(&mut client)];
            done == [true; 2]
        });
        assert_eq!(ends.map(|end| end.received), [len; 2]);
        server.close(accepted);
        client.close(conn);
        assert_eq!(client.read(conn, &mut [0]).unwrap_err().kind(), ErrorKind::NotConnected);
        until("the end of the server's connection", || {
            client.poll();
            server.poll();
            server.connections() == 0 || client.connections() == 0 // the other one is in TIME-WAIT
        });
        let counters = [server.counters(), client.counters()];
        assert!(
            counters.iter().all(|c| c.bad_checksum == 0 && c.malformed == 0 && c.refused == 0),
            "{counters:?}"
        );
    }
}

#[test]
fn nobody_listens() {
    let _alone = alone();
    let (_nic, mut server, mut client) = two();
    let conn = client.connect(at(SERVER[0], 9)).unwrap();
    until("a refusal", || {
        client.poll();
        server.poll();
        matches!(client.read(conn, &mut [0]), Err(e) if e.kind() == ErrorKind::ConnectionRefused)
    });
    let mut told = false;
    while let Some(event) = client.next_event() {
        told |= matches!(event, Event::Ready(c, ready) if c == conn && ready.closed);
    }
    assert!(told);
    client.close(conn);
    until("nothing to be left", || {
        client.poll();
        client.connections() == 0
    });
}

/// However long the program has not polled before.
#[test]
fn a_handshake_has_its_time_from_connect_on() {
    let _alone = alone();
    let nic = Nic::start(&[]);
    let mut options = common::options("10.9.0.2/24", "fd09::2/64");
    options.handshake = std::time::Duration::from_secs(2);
    let mut server = nic.host("10.9.0.1/24", "fd09::1/64");
    let mut client = Stack::open(&nic.socket, &options).unwrap();
    std::thread::sleep(options.handshake);
    connection(&mut server, &mut client, SERVER[0]);
    assert_eq!(client.counters().half_open_expired, 0);
}

/// Only what awaits an answer is given up.
#[test]
fn an_idle_connection_stays_and_one_whose_peer_is_silent_does_not() {
    let _alone = alone();
    let nic = Nic::start(&[]);
    let mut options = common::options("10.9.0.1/24", "fd09::1/64");
    options.timeout = std::time::Duration::from_millis(500);
    let mut server = Stack::open(&nic.socket, &options).unwrap();
    (options.ipv4, options.ipv6) = (Some("10.9.0.2/24".parse().unwrap()), None);
    let mut client = Stack::open(&nic.socket, &options).unwrap();
    let (accepted, conn) = connection(&mut server, &mut client, SERVER[0]);
    let idle = |server: &mut Stack, client: &mut Stack| {
        let start = std::time::Instant::now();
        until("the time to pass", || {
            server.poll();
            client.poll();
            start.elapsed() > 3 * options.timeout
        });
    };
    idle(&mut server, &mut client);
    assert_eq!(client.write(conn, b"hello").unwrap(), 5);
    let mut got = Vec::new();
    until("the bytes", || {
        client.poll();
        server.poll();
        let mut bytes = [0; 5];
        match server.read(accepted, &mut bytes) {
            Ok(n) => got.extend_from_slice(&bytes[..n]),
            Err(e) => assert_eq!(e.kind(), ErrorKind::WouldBlock),
        }
        got == b"hello"
    });
    // It is closed in good order, too, however long it was idle.
    idle(&mut server, &mut client);
    server.shutdown(accepted).unwrap();
    until("the end", || {
        client.poll();
        server.poll();
        match client.read(conn, &mut [0]) {
            Ok(n) => n == 0,
            Err(e) => {
                assert_eq!(e.kind(), ErrorKind::WouldBlock);
                false
            }
        }
    });
    drop(server);
    assert_eq!(client.write(conn, b"hello").unwrap(), 5);
    until("the client to give up", || {
        client.poll();
        client.room(conn) == 0
    });
}

#[test]
fn a_reset_is_told() {
    let _alone = alone();
    let (_nic, mut server, mut client) = two();
    let (accepted, conn) = connection(&mut server, &mut client, SERVER[0]);
    server.abort(accepted);
    until("the reset", || {
        client.poll();
        server.poll();
        matches!(client.read(conn, &mut [0]), Err(e) if e.kind() == ErrorKind::ConnectionReset)
    });
    assert_eq!(server.connections(), 0);
    client.close(conn);
    client.poll();
    assert_eq!(client.connections(), 0);
}

/// A server that answers with the payload, so many times.
struct Times(usize, usize);

impl Datagrams for Times {
    fn datagram(&mut self, _: SocketAddr, _: SocketAddr, payload: &[u8], reply: &mut Reply<'_>) {
        self.1 += 1;
        (0..self.0).for_each(|_| assert!(reply.put(payload)));
    }
}

/// A client that compares.
struct Compare(Vec<u8>, bool);

impl Datagrams for Compare {
    fn datagram(&mut self, from: SocketAddr, to: SocketAddr, payload: &[u8], _: &mut Reply<'_>) {
        assert_eq!((from.port(), to.port()), (11, 12));
        assert!(payload == self.0, "{} bytes", payload.len());
        self.1 = true;
    }
}

/// As [`two`], with ports 11 and 12 for datagrams of up to 9000 bytes.
fn two_for_datagrams() -> (Nic, Stack, Stack) {
    let nic = Nic::start(&[]);
    let open = |v4, v6| {
        let mut options = common::options(v4, v6);
        options.mtu = 9000;
        Stack::open(&nic.socket, &options).unwrap()
    };
    let (mut server, mut client) = (open("10.9.0.1/24", "fd09::1/64"), open("10.9.0.2/24", "fd09::2/64"));
    server.bind(11).unwrap();
    client.bind(12).unwrap();
    (nic, server, client)
}

#[test]
fn datagrams_are_answered() {
    let _alone = alone();
    let (_nic, mut server, mut client) = two_for_datagrams();
    for host in SERVER {
        let peer = peer(&mut server, &mut client, at(host, 11));
        for (len, times) in [
            (0, 1),
            (1, 1),
            (64, 1),
            (64, 2),
            (80, 1),
            (100, 3),
            (1400, 1),
            (2000, 4),
            (4096, 2),
            (4090, 2),
            (8900, 1),
        ] {
            let payload: Vec<u8> = (0..len).map(|i| byte(3, i)).collect();
            let (left, right) = payload.split_at(len / 3);
            assert!(client.send_to(12, &peer, &[left, right]));
            let (mut answers, mut compares) = (Times(times, 0), Compare(payload.repeat(times), false));
            until("the answer", || {
                client.poll_datagrams(&mut compares);
                server.poll_datagrams(&mut answers);
                compares.1
            });
            assert_eq!(answers.1, 1);
        }
        assert!(!client.send_to(12, &peer, &[&vec![0; 65_528]]), "it is longer than any packet");
    }
    assert_eq!(client.counters().bad_checksum + server.counters().bad_checksum, 0);
}

/// A client that counts.
struct Count(usize);

impl Datagrams for Count {
    fn datagram(&mut self, _: SocketAddr, _: SocketAddr, _: &[u8], _: &mut Reply<'_>) {
        self.0 += 1;
    }
}

/// Requests that come at once each find the buffers for their answer.
#[test]
fn a_burst_of_requests_is_answered() {
    const REQUESTS: usize = 128;
    let _alone = alone();
    let (_nic, mut server, mut client) = two_for_datagrams();
    let peer = peer(&mut server, &mut client, at(SERVER[0], 11));
    for times in [3, 85] {
        (0..REQUESTS).for_each(|_| assert!(client.send_to(12, &peer, &[&[0; 80]])));
        client.flush();
        // All are in the ring before the server looks.
        std::thread::sleep(std::time::Duration::from_millis(50));
        let (mut answers, mut count) = (Times(times, 0), Count(0));
        until("the answers", || {
            server.poll_datagrams(&mut answers);
            client.poll_datagrams(&mut count);
            count.0 == REQUESTS
        });
        assert_eq!((answers.1, server.counters().refused), (REQUESTS, 0));
    }
}

#[test]
fn stacks_of_one_attachment_have_connections_of_their_own() {
    let _alone = alone();
    let nic = Nic::start(&[]);
    let options = common::options("10.9.0.1/24", "fd09::1/64");
    let mut servers = Stack::open_many(&nic.socket, &options, 3).unwrap();
    let options = common::options("10.9.0.2/24", "fd09::2/64");
    let mut clients = Stack::open_many(&nic.socket, &options, 2).unwrap();
    let listeners: Vec<_> = servers.iter_mut().map(|server| server.listen(7, 64).unwrap()).collect();
    let mut conns = Vec::new();
    for i in 0..48 {
        let conn = clients[i % 2].connect(at(SERVER[i / 2 % 2], 7)).unwrap();
        conns.push((i % 2, conn));
    }
    let mut accepted = [0; 3];
    until("all connections", || {
        clients.iter_mut().for_each(|client| {
            client.poll();
        });
        for (i, server) in servers.iter_mut().enumerate() {
            server.poll();
            while server.accept(listeners[i]).is_some() {
                accepted[i] += 1;
            }
        }
        conns.iter().all(|(stack, conn)| clients[*stack].room(*conn) > 0)
            && accepted.iter().sum::<usize>() == 48
    });
    assert!(accepted.iter().all(|n| *n > 0), "{accepted:?}");
}

#[test]
fn a_thread_that_blocks_is_woken() {
    let _alone = alone();
    let (_nic, mut server, mut client) = two();
    let listener = server.listen(7, 1).unwrap();
    let thread = std::thread::spawn(move || {
        let conn = server.accept_blocking(listener).unwrap();
        let mut bytes = [0; 100];
        loop {
            match server.read_blocking(conn, &mut bytes).unwrap() {
                0 => break,
                n => server.write_all_blocking(conn, &bytes[..n]).unwrap(),
            }
        }
        server.close(conn);
        server.flush();
        server
    });
    let conn = client.connect_blocking(at(SERVER[0], 7)).unwrap();
    for pause in [0, 30] {
        std::thread::sleep(std::time::Duration::from_millis(pause)); // the server sleeps
        client.write_all_blocking(conn, b"hello").unwrap();
        let mut bytes = [0; 100];
        assert_eq!(client.read_blocking(conn, &mut bytes).unwrap(), 5);
        assert_eq!(&bytes[..5], b"hello");
    }
    client.shutdown(conn).unwrap();
    assert_eq!(client.read_blocking(conn, &mut [0]).unwrap(), 0);
    drop(thread.join().unwrap());
    let refused = client.connect_blocking(at("10.8.0.1", 7)).unwrap_err();
    assert!(refused.to_string().contains("no way to 10.8.0.1"), "{refused}");
}

/// A SYN from this port of a host that does not exist.
fn syn(to: [u8; 6], port: u16) -> Vec<u8> {
    let mut frame =
        [&to[..], &[2, 0, 0, 0, 9, 9], &[8, 0, 0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, 6, 0, 0]].concat();
    frame.extend([10, 9, 0, 77, 10, 9, 0, 1]);
    frame.extend(
        [&port.to_be_bytes()[..], &7u16.to_be_bytes(), &[1; 4], &[0; 4], &[0x50, 2, 255, 255, 0, 0, 0, 0]]
            .concat(),
    );
    let headers = ccnic_frame::Headers::parse(&frame, frame.len());
    ccnic_frame::checksum::fill_ipv4(&mut frame, &headers).unwrap();
    ccnic_frame::checksum::fill_l4(&mut frame, &headers, []).unwrap();
    frame
}

#[test]
fn half_open_connections_are_bounded_and_expire() {
    let _alone = alone();
    let nic = Nic::start(&[]);
    let mut options = common::options("10.9.0.1/24", "fd09::1/64");
    let clock = std::sync::Arc::new(std::sync::Mutex::new(std::time::Duration::ZERO));
    options.clock = ccnic_tcp::clock::Clock::Invented(std::sync::Arc::clone(&clock));
    let mut server = Stack::open(&nic.socket, &options).unwrap();
    let mut client = nic.host("10.9.0.2/24", "fd09::2/64");
    let listener = server.listen(7, 8).unwrap();
    let pages = ccnic_client::Pages::Small;
    let mut attacker = ccnic_client::Nic::options().name("attacker").pages(pages).open(&nic.socket).unwrap();
    let (mut pair, mut burst) = (attacker.queue_pair(0).unwrap(), ccnic_client::Burst::new());
    for port in 1000..1100 {
        let frame = syn(server.mac(), port);
        assert_eq!(pair.alloc(frame.len() as u16, 1, &mut burst), 1);
        burst.iter_mut().for_each(|buf| assert_eq!(pair.write(buf, 0, &frame), frame.len()));
        until("room", || pair.tx_burst(&mut burst) == 1);
        server.poll();
        assert!(server.connections() <= 4);
    }
    until("all SYNs", || {
        server.poll();
        server.counters().cookies_sent >= 96
    });
    // A client that finds as many handshakes as there may be is served by a cookie.
    for host in SERVER {
        let conn = client.connect(at(host, 7)).unwrap();
        let mut accepted = None;
        until("the client's connection", || {
            client.poll();
            server.poll();
            accepted = accepted.or_else(|| server.accept(listener));
            client.room(conn) > 0 && accepted.is_some()
        });
        assert_eq!(client.write(conn, b"hello").unwrap(), 5);
        until("its bytes", || {
            client.poll();
            server.poll();
            server.read(accepted.unwrap(), &mut [0; 5]).is_ok_and(|n| n == 5)
        });
    }
    assert_eq!(server.counters().cookies_accepted, 2);
    until("the end of the others", || {
        *clock.lock().unwrap() += std::time::Duration::from_millis(500);
        server.poll();
        client.poll();
        server.connections() == 2
    });
    assert!(server.counters().half_open_expired >= 4, "{:?}", server.counters());
}
