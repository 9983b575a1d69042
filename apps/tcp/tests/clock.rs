//! Stacks whose clock is the test's: programs that are stopped for long, and peers that are silent.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

mod common;

use std::io::ErrorKind;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ccnic_tcp::clock::Clock;
use ccnic_tcp::{Conn, Stack};
use common::transfer::{at, connection};
use common::{Nic, alone, options, until};

const SERVER: &str = "10.9.0.1";

/// A NIC, a server, and a client whose handshakes may take so long, with an established connection and the client's clock. The clocks
/// stand, so nothing is sent that the test does not want.
struct Hosts {
    _nic: Nic,
    server: Stack,
    client: Stack,
    accepted: Conn,
    conn: Conn,
    clock: Arc<Mutex<Duration>>,
}

impl Hosts {
    fn new(handshake: Duration) -> Hosts {
        let nic = Nic::start(&[]);
        let mut wanted = options("10.9.0.1/24", "fd09::1/64");
        wanted.clock = Clock::Invented(Arc::default());
        let mut server = Stack::open(&nic.socket, &wanted).unwrap();
        let clock = Arc::new(Mutex::new(Duration::ZERO));
        let mut wanted = options("10.9.0.2/24", "fd09::2/64");
        (wanted.clock, wanted.handshake) = (Clock::Invented(Arc::clone(&clock)), handshake);
        let mut client = Stack::open(&nic.socket, &wanted).unwrap();
        let (accepted, conn) = connection(&mut server, &mut client, SERVER);
        Hosts { _nic: nic, server, client, accepted, conn, clock }
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
