//! Stacks whose clock is the test's: programs that are stopped for long, and peers that are silent.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

mod common;

use std::io::ErrorKind;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ccnic_tcp::clock::Clock;
use ccnic_tcp::{Conn, Stack};
use common::transfer::{at, connection};
use common::{Nic, alone, byte, options, until};

const SERVER: &str = "10.9.0.1";

/// A NIC, a server, and a client whose handshakes may take so long, with an established connection and their clocks. The clocks
/// stand, so nothing is sent that the test does not want.
struct Hosts {
    _nic: Nic,
    server: Stack,
    client: Stack,
    accepted: Conn,
    conn: Conn,
    clock: Arc<Mutex<Duration>>,
    server_clock: Arc<Mutex<Duration>>,
}

impl Hosts {
    fn new(handshake: Duration) -> Hosts {
        let nic = Nic::start(&[]);
        let mut wanted = options("10.9.0.1/24", "fd09::1/64");
        let server_clock = Arc::new(Mutex::new(Duration::ZERO));
        wanted.clock = Clock::Invented(Arc::clone(&server_clock));
        let mut server = Stack::open(&nic.socket, &wanted).unwrap();
        let clock = Arc::new(Mutex::new(Duration::ZERO));
        let mut wanted = options("10.9.0.2/24", "fd09::2/64");
        (wanted.clock, wanted.handshake) = (Clock::Invented(Arc::clone(&clock)), handshake);
        let mut client = Stack::open(&nic.socket, &wanted).unwrap();
        let (accepted, conn) = connection(&mut server, &mut client, SERVER);
        Hosts { _nic: nic, server, client, accepted, conn, clock, server_clock }
    }

    fn pass(&self, time: Duration) {
        *self.clock.lock().unwrap() += time;
    }

    /// Waits until something lies in the client's ring, which the client does not look at.
    fn something_waits(&mut self) {
        until("a frame in the client's ring", || {
            self.server.poll();
            self.client.queue_pair().unwrap().rx_ready() > 0
        });
    }
}

const HOUR: Duration = Duration::from_secs(3600);

/// The handshake's time is over when the client runs again, but the answer came long before.
#[test]
fn what_has_come_meanwhile_is_received_before_any_time_is_over() {
    let _alone = alone();
    let mut hosts = Hosts::new(Duration::from_millis(500));
    let conn = hosts.client.connect(at(SERVER, 7)).unwrap();
    hosts.client.poll();
    hosts.something_waits();
    hosts.pass(HOUR);
    hosts.client.poll();
    assert!(hosts.client.room(conn) > 0, "the handshake is complete");
}

/// As many frames as find room in the ring may wait, and the last of them may be the one that counts.
#[test]
fn all_that_has_come_meanwhile_is_received() {
    let _alone = alone();
    let mut hosts = Hosts::new(Duration::from_millis(500));
    hosts.server.bind(11).unwrap();
    let peer = common::peer(&mut hosts.client, &mut hosts.server, at("10.9.0.2", 12));
    let mut sent = 0;
    while sent < 200 {
        // The client takes no datagrams at this port: one more frame that waits.
        sent +=
            usize::from(hosts.server.send_to(11, &peer, &[b"a frame of its own, as short as it need be"]));
        hosts.server.flush();
    }
    until("200 frames in the client's ring", || {
        hosts.server.flush();
        hosts.client.queue_pair().unwrap().rx_ready() >= 200
    });
    let conn = hosts.client.connect(at(SERVER, 7)).unwrap();
    hosts.client.flush();
    until("the answer behind them", || {
        hosts.server.poll();
        hosts.client.queue_pair().unwrap().rx_ready() > 200
    });
    hosts.pass(HOUR);
    hosts.client.poll();
    assert!(hosts.client.room(conn) > 0, "the handshake is complete");
}

/// The whole machine was stopped: what the peer would have sent meanwhile comes afterwards.
#[test]
fn connections_outlive_a_stop() {
    let _alone = alone();
    let mut hosts = Hosts::new(Duration::from_secs(10));
    let (conn, accepted) = (hosts.conn, hosts.accepted);
    assert_eq!(hosts.client.write(conn, b"hello").unwrap(), 5);
    let other = hosts.client.connect(at(SERVER, 7)).unwrap();
    hosts.client.poll();
    for _ in 0..5 {
        hosts.pass(HOUR);
        hosts.client.poll();
    }
    let mut bytes = [0; 5];
    until("the bytes and the other connection", || {
        hosts.client.poll();
        hosts.server.poll();
        match hosts.server.read(accepted, &mut bytes) {
            Ok(n) => assert_eq!(n, 5),
            Err(e) => assert_eq!(e.kind(), ErrorKind::WouldBlock),
        }
        &bytes == b"hello" && hosts.client.room(other) > 0
    });
}

/// A peer that is silent while the stack looks is given up all the same.
#[test]
fn a_silent_peer_is_given_up_in_time() {
    let _alone = alone();
    let mut hosts = Hosts::new(Duration::from_secs(10));
    let conn = hosts.conn;
    assert_eq!(hosts.client.write(conn, b"hello").unwrap(), 5);
    let other = hosts.client.connect(at(SERVER, 7)).unwrap();
    let mut seconds = |n: u64| {
        for _ in 0..n {
            hosts.client.poll();
            hosts.pass(Duration::from_secs(1));
        }
        hosts.client.poll();
        [conn, other].map(|conn| match hosts.client.read(conn, &mut [0]) {
            Err(e) => e.kind(),
            Ok(n) => panic!("{n} bytes"),
        })
    };
    assert_eq!(seconds(9), [ErrorKind::WouldBlock; 2]);
    assert_eq!(seconds(2), [ErrorKind::WouldBlock, ErrorKind::TimedOut]);
    assert_eq!(seconds(48), [ErrorKind::WouldBlock, ErrorKind::TimedOut]);
    assert_ne!(seconds(3)[0], ErrorKind::WouldBlock);
}

/// A peer that reads nothing keeps its window closed, and answers each probe: the connection stays, for hours if need be.
#[test]
fn a_window_may_stay_closed_for_long() {
    let _alone = alone();
    let mut hosts = Hosts::new(Duration::from_secs(10));
    let (conn, accepted) = (hosts.conn, hosts.accepted);
    let all: Vec<u8> = (0..300_000).map(|at| byte(3, at)).collect();
    let (mut sent, mut idle) = (0, 0);
    // More than the buffers of both take, until nothing moves any more, not even what the server acknowledges late.
    until("a window that is closed", || {
        let taken = hosts.client.write(conn, &all[sent..]).unwrap_or(0);
        let moved = taken + hosts.client.poll() + hosts.server.poll();
        (sent, idle) = (sent + taken, if moved == 0 { idle + 1 } else { 0 });
        if moved == 0 {
            *hosts.server_clock.lock().unwrap() += Duration::from_millis(1);
            std::thread::sleep(Duration::from_millis(1));
        }
        sent >= 100 << 10 && idle > 200
    });
    assert!(sent < all.len());
    let mut probes = 0;
    for _ in 0..2 * 3600 {
        hosts.pass(Duration::from_secs(1));
        let before = hosts.client.counters().sent;
        (0..2).for_each(|_| _ = hosts.client.poll());
        if hosts.client.counters().sent > before {
            probes += 1;
            until("the answer to a probe", || {
                hosts.server.poll();
                hosts.client.poll() > 0
            });
        }
    }
    assert!(probes >= 100, "{probes} probes: one a minute is due at least");
    let (mut received, mut bytes) = (0, [0; 5000]);
    until("all bytes", || {
        match hosts.server.read(accepted, &mut bytes) {
            Ok(n) => {
                assert!(bytes[..n] == all[received..received + n], "after {received} bytes");
                received += n;
            }
            Err(e) => assert_eq!(e.kind(), ErrorKind::WouldBlock),
        }
        sent += hosts.client.write(conn, &all[sent..]).unwrap_or(0);
        hosts.server.poll();
        hosts.client.poll();
        received == all.len()
    });
}
