//! Attacks of a host on connections of others whose segments it does not see: RFC 5961, 6528, 6056, 1337, 6191, 5927, 4987. The clock of
//! the server stands unless a test moves it, so all it sends is an answer.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

#[path = "../common/mod.rs"]
mod common;
mod raw;

use std::collections::HashSet;
use std::io::ErrorKind;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ccnic_tcp::clock::Clock;
use ccnic_tcp::{Conn, Listener, Options, Stack};
use common::{Nic, alone, options};
use raw::{ACK, FIN, PEER, PORT, PSH, RST, Raw, SERVER, SYN, Segment, URG, icmp};

/// A server that listens, its clock, and the raw host.
struct Hosts {
    _nic: Nic,
    raw: Raw,
    listener: Listener,
    clock: Arc<Mutex<Duration>>,
}

impl Hosts {
    fn new(backlog: usize) -> Hosts {
        Hosts::with(backlog, |_| {})
    }

    fn with(backlog: usize, set: impl FnOnce(&mut Options)) -> Hosts {
        let nic = Nic::start(&[]);
        let mut wanted = options("10.9.0.1/24", "fd09::1/64");
        let clock = Arc::new(Mutex::new(Duration::ZERO));
        wanted.clock = Clock::Invented(Arc::clone(&clock));
        set(&mut wanted);
        let mut server = Stack::open(&nic.socket, &wanted).unwrap();
        let listener = server.listen(PORT, backlog).unwrap();
        Hosts { raw: Raw::new(&nic, server), _nic: nic, listener, clock }
    }

    /// Lets time pass, at most a second of which counts between two polls.
    fn pass(&mut self, time: Duration) {
        let mut left = time;
        while !left.is_zero() {
            let step = left.min(Duration::from_millis(500));
            *self.clock.lock().unwrap() += step;
            left -= step;
            self.raw.server.poll();
        }
        self.raw.answers(&[]); // what comes with time is no answer
    }

    fn read(&mut self, conn: Conn) -> std::io::Result<Vec<u8>> {
        let mut bytes = [0; 5000];
        self.raw.server.read(conn, &mut bytes).map(|n| bytes[..n].to_vec())
    }

    /// The connection takes this byte, which is the next of the peer's.
    #[track_caller]
    fn takes(&mut self, conn: Conn, port: u16, seq: u32, ack: u32) {
        self.raw.answers(&[Segment::new(port, ACK | PSH, seq, ack).data(b"!")]);
        assert_eq!(self.read(conn).unwrap(), b"!");
    }
}

const SECOND: Duration = Duration::from_secs(1);

/// Any of the answers is an acknowledgement of `ack`, without data.
#[track_caller]
fn is_challenge(answers: &[Segment], seq: u32, ack: u32) {
    let found: Vec<_> = answers.iter().map(|s| (s.flags, s.seq, s.ack, s.data.len())).collect();
    assert_eq!(found, [(ACK, seq, ack, 0)]);
}

/// RFC 6528: a keyed hash of both ends, and a clock of 4 us.
#[test]
fn initial_numbers_say_nothing_about_those_of_others() {
    let _alone = alone();
    let mut hosts = Hosts::new(64);
    let number = |hosts: &mut Hosts, peer: [u8; 4], port: u16| {
        let syn = Segment::new(port, SYN, 5, 0).from(peer);
        let answer = hosts.raw.answer(&syn);
        assert_eq!(hosts.raw.answers(&[Segment::new(port, RST, 6, 0).from(peer)]), []);
        answer.seq
    };
    let first = number(&mut hosts, PEER, 2000);
    assert_eq!(number(&mut hosts, PEER, 2000), first, "the same ends at the same time");
    let own: Vec<u32> = (2000..2008).map(|port| number(&mut hosts, PEER, port)).collect();
    let differences: HashSet<u32> = own.windows(2).map(|w| w[1].wrapping_sub(w[0])).collect();
    assert_eq!(differences.len(), 7, "{own:x?}");
    let other = [10, 9, 0, 98];
    assert_ne!(number(&mut hosts, other, 2000), first);
    hosts.pass(4 * SECOND);
    assert_eq!(number(&mut hosts, PEER, 2000), first.wrapping_add(1_000_000));
    // Connections to others, too.
    let conn = hosts.raw.server.connect("10.9.0.99:9".parse().unwrap()).unwrap();
    hosts.raw.send_arp(PEER, [2, 0, 0, 0, 9, 99]);
    let syn = hosts.raw.answers(&[]).remove(0);
    assert_eq!((syn.flags, syn.port), (SYN, 9));
    assert!(own.iter().all(|other| syn.seq.abs_diff(*other) > 1_000));
    hosts.raw.server.abort(conn);
}

/// RFC 5961 section 3.2: only the very next number resets, any other in the window is challenged, the rest is dropped.
#[test]
fn a_reset_must_have_the_very_next_number() {
    let _alone = alone();
    let mut hosts = Hosts::new(64);
    let (conn, seq, ack) = hosts.raw.open(hosts.listener, 2000);
    for beyond in [1, 1000, 60_000] {
        for flags in [RST, RST | ACK] {
            let reset = Segment::new(2000, flags, seq + beyond, ack);
            is_challenge(&hosts.raw.answers(std::slice::from_ref(&reset)), ack, seq);
            hosts.pass(SECOND); // a challenge a second
        }
    }
    for outside in [seq - 1, seq - 60_000, seq + (1 << 20), seq.wrapping_add(1 << 31)] {
        assert_eq!(hosts.raw.answers(&[Segment::new(2000, RST, outside, ack)]), []);
    }
    hosts.takes(conn, 2000, seq, ack);
    hosts.raw.answers(&[Segment::new(2000, RST, seq + 1, 0)]);
    assert_eq!(hosts.read(conn).unwrap_err().kind(), ErrorKind::ConnectionReset);
}

/// The same while a handshake is under way, and while a connection is being closed from either side.
#[test]
fn a_reset_must_have_the_very_next_number_in_all_states() {
    let _alone = alone();
    let mut hosts = Hosts::new(64);
    // SYN-RECEIVED
    let answer = hosts.raw.answer(&Segment::new(2000, SYN, 10, 0));
    let guess = Segment::new(2000, RST, 12, 0);
    assert_eq!(hosts.raw.answers(std::slice::from_ref(&guess)).len(), 1);
    hosts.raw.answers(&[Segment::new(2000, ACK, 11, answer.seq.wrapping_add(1))]);
    let conn = hosts.raw.server.accept(hosts.listener).unwrap();
    hosts.takes(conn, 2000, 11, answer.seq.wrapping_add(1));
    // CLOSE-WAIT
    let (conn, seq, ack) = hosts.raw.open(hosts.listener, 2001);
    hosts.raw.answers(&[Segment::new(2001, FIN | ACK, seq, ack)]);
    is_challenge(&hosts.raw.answers(&[Segment::new(2001, RST, seq + 2, ack)]), ack, seq + 1);
    assert_eq!(hosts.read(conn).unwrap(), b"");
    assert_eq!(hosts.raw.server.write(conn, b"still here").unwrap(), 10);
    assert_eq!(hosts.raw.answers(&[])[0].data, b"still here");
    // FIN-WAIT-2
    let (conn, seq, ack) = hosts.raw.open(hosts.listener, 2002);
    hosts.raw.server.shutdown(conn).unwrap();
    hosts.raw.answers(&[]);
    hosts.raw.answers(&[Segment::new(2002, ACK, seq, ack.wrapping_add(1))]);
    is_challenge(&hosts.raw.answers(&[Segment::new(2002, RST, seq + 2, ack)]), ack.wrapping_add(1), seq);
    hosts.takes(conn, 2002, seq, ack.wrapping_add(1));
}

/// RFC 5961 section 4.2: whatever its number, a SYN brings a challenge. Whoever was restarted answers that by a reset, and begins anew.
#[test]
fn a_syn_in_a_connection_is_challenged() {
    let _alone = alone();
    let mut hosts = Hosts::new(64);
    let (conn, seq, ack) = hosts.raw.open(hosts.listener, 2000);
    for number in [seq, seq - 1, seq + 500, seq + (1 << 20), seq.wrapping_add(1 << 31)] {
        for flags in [SYN, SYN | ACK] {
            let syn = Segment::new(2000, flags, number, ack);
            is_challenge(&hosts.raw.answers(std::slice::from_ref(&syn)), ack, seq);
            hosts.pass(SECOND);
        }
    }
    hosts.takes(conn, 2000, seq, ack);
    // The peer was restarted.
    let syn = Segment::new(2000, SYN, 77, 0);
    let challenge = hosts.raw.answer(&syn);
    assert_eq!(hosts.raw.answers(&[Segment::new(2000, RST, challenge.ack, 0)]), []);
    assert_eq!(hosts.read(conn).unwrap_err().kind(), ErrorKind::ConnectionReset);
    hosts.raw.server.close(conn);
    assert_eq!(hosts.raw.answer(&syn).flags, SYN | ACK);
}

/// RFC 5961 section 5.2, more strictly: data are taken only with an acknowledgement of what was sent and was not acknowledged before.
#[test]
fn data_need_an_acceptable_acknowledgement() {
    let _alone = alone();
    let mut hosts = Hosts::new(64);
    let (conn, seq, ack) = hosts.raw.open(hosts.listener, 2000);
    let data = |ack: u32| Segment::new(2000, ACK | PSH, seq, ack).data(b"?");
    for beyond in [1, 2, 1000, (1 << 31) - 1] {
        is_challenge(&hosts.raw.answers(&[data(ack.wrapping_add(beyond))]), ack, seq);
        hosts.pass(SECOND);
    }
    for before in [1, 1000, 60_000, (1 << 31) - 1] {
        assert_eq!(hosts.raw.answers(&[data(ack.wrapping_sub(before))]), []);
    }
    assert_eq!(hosts.read(conn).unwrap_err().kind(), ErrorKind::WouldBlock);
    // Data that wait for the peer's window were not sent, so they cannot be acknowledged.
    let mut closed = Segment::new(2000, ACK, seq, ack);
    closed.window = 3;
    assert_eq!(hosts.raw.answers(&[closed.clone()]), []);
    assert_eq!(hosts.raw.server.write(conn, b"abcdef").unwrap(), 6);
    assert_eq!(hosts.raw.answers(&[])[0].data, b"abc");
    is_challenge(&hosts.raw.answers(&[data(ack.wrapping_add(4))]), ack.wrapping_add(3), seq);
    assert_eq!(hosts.raw.server.unacknowledged(conn), 6);
    closed.ack = ack.wrapping_add(3);
    assert_eq!(hosts.raw.answers(&[closed])[0].data, b"def");
    hosts.takes(conn, 2000, seq, ack.wrapping_add(3));
}

/// RFC 9293 section 3.10.7.4: nothing outside of the window is taken.
#[test]
fn data_outside_of_the_window_are_not_taken() {
    let _alone = alone();
    let mut hosts = Hosts::new(64);
    let (conn, seq, ack) = hosts.raw.open(hosts.listener, 2000);
    for number in [seq - 1, seq - 60_000, seq + (64 << 10), seq.wrapping_add(1 << 31)] {
        let data = Segment::new(2000, ACK, number, ack).data(b"?");
        is_challenge(&hosts.raw.answers(&[data]), ack, seq);
    }
    assert_eq!(hosts.read(conn).unwrap_err().kind(), ErrorKind::WouldBlock);
    // The urgent pointer has no meaning: such data are like others (RFC 6093).
    hosts.raw.answers(&[Segment::new(2000, ACK | URG, seq, ack).data(b"urgent")]);
    assert_eq!(hosts.read(conn).unwrap(), b"urgent");
}

/// RFC 5961 section 10: how many challenges one connection has had says nothing about another (CVE-2016-5696).
#[test]
fn challenges_are_counted_for_each_connection() {
    let _alone = alone();
    let mut hosts = Hosts::new(64);
    let (_, seq, ack) = hosts.raw.open(hosts.listener, 2000);
    let (_, others, other_ack) = hosts.raw.open(hosts.listener, 2001);
    let guesses: Vec<_> = (0..200).map(|_| Segment::new(2000, SYN, 1, 0)).collect();
    is_challenge(&hosts.raw.answers(&guesses), ack, seq);
    is_challenge(&hosts.raw.answers(&[Segment::new(2001, SYN, 1, 0)]), other_ack, others);
    hosts.pass(SECOND);
    is_challenge(&hosts.raw.answers(&guesses), ack, seq);
}

/// Closes a connection from the server's side; what is returned are the numbers that come next on both sides in TIME-WAIT.
fn time_wait(hosts: &mut Hosts, port: u16) -> (u32, u32) {
    let (conn, seq, ack) = hosts.raw.open(hosts.listener, port);
    hosts.raw.server.close(conn);
    assert_eq!(hosts.raw.answers(&[])[0].flags & FIN, FIN);
    let answer = hosts.raw.answer(&Segment::new(port, FIN | ACK, seq, ack.wrapping_add(1)));
    assert_eq!((answer.seq, answer.ack), (ack.wrapping_add(1), seq + 1));
    (seq + 1, ack.wrapping_add(1))
}

/// RFC 1337: a reset does not end TIME-WAIT, not even the one that would fit.
#[test]
fn a_reset_does_not_end_time_wait() {
    let _alone = alone();
    let mut hosts = Hosts::new(64);
    let (seq, ack) = time_wait(&mut hosts, 2000);
    assert_eq!(hosts.raw.answers(&[Segment::new(2000, RST, seq, ack)]), []);
    assert_eq!(hosts.raw.server.connections(), 1);
    hosts.pass(SECOND);
    // A FIN that comes again is still acknowledged.
    let answer = hosts.raw.answer(&Segment::new(2000, FIN | ACK, seq - 1, ack));
    assert_eq!((answer.flags, answer.ack), (ACK, seq));
    hosts.pass(20 * SECOND);
    assert_eq!(hosts.raw.server.connections(), 0);
}

/// RFC 6191, RFC 9293 section 3.6.1: a late copy of the SYN does not reopen the connection, a new one does, with numbers beyond the old ones.
#[test]
fn time_wait_is_reopened_by_a_later_number_only() {
    let _alone = alone();
    let mut hosts = Hosts::new(64);
    let (seq, ack) = time_wait(&mut hosts, 2000);
    for old in [seq - 2, seq - 1, seq, seq - 100_000] {
        is_challenge(&hosts.raw.answers(&[Segment::new(2000, SYN, old, 0)]), ack, seq);
        hosts.pass(SECOND);
    }
    let answer = hosts.raw.answer(&Segment::new(2000, SYN, seq + 1, 0));
    assert_eq!((answer.flags, answer.ack), (SYN | ACK, seq + 2));
    assert!((answer.seq.wrapping_sub(ack) as i32) > 0, "{:x} after {ack:x}", answer.seq);
    hosts.raw.answers(&[Segment::new(2000, ACK, seq + 2, answer.seq.wrapping_add(1))]);
    assert!(hosts.raw.server.accept(hosts.listener).is_some());
}

/// RFC 9293 section 3.10.7.3: who answers our SYN must have seen its number.
#[test]
fn a_handshake_of_ours_is_answered_by_who_has_seen_it() {
    let _alone = alone();
    let mut hosts = Hosts::new(64);
    hosts.raw.send_arp(PEER, [2, 0, 0, 0, 9, 99]);
    hosts.raw.settle();
    let conn = hosts.raw.server.connect("10.9.0.99:9".parse().unwrap()).unwrap();
    let syn = hosts.raw.answers(&[]).remove(0);
    let from = |flags, seq, ack| Segment { to: syn.to, ..Segment::new(9, flags, seq, ack) };
    for wrong in [
        from(RST, syn.seq.wrapping_add(1), 0),
        from(RST | ACK, 0, syn.seq),
        from(RST | ACK, 0, syn.seq.wrapping_add(2)),
        from(FIN | ACK, 0, syn.seq.wrapping_add(1)),
    ] {
        assert_eq!(hosts.raw.answers(&[wrong]), []);
    }
    let answer = hosts.raw.answer(&from(SYN | ACK, 50, syn.seq.wrapping_add(2)));
    assert_eq!((answer.flags, answer.seq), (RST, syn.seq.wrapping_add(2)));
    assert_eq!(hosts.read(conn).unwrap_err().kind(), ErrorKind::WouldBlock);
    hosts.raw.answers(&[from(RST | ACK, 0, syn.seq.wrapping_add(1))]);
    assert_eq!(hosts.read(conn).unwrap_err().kind(), ErrorKind::ConnectionRefused);
}

/// RFC 5927: errors of ICMP, which anybody can make up, end no connection and no handshake.
#[test]
fn errors_of_icmp_end_no_connection() {
    let _alone = alone();
    let mut hosts = Hosts::new(64);
    let (conn, seq, ack) = hosts.raw.open(hosts.listener, 2000);
    let ports = [PORT.to_be_bytes(), 2000u16.to_be_bytes()].concat();
    let ip = [&[0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, 6, 0, 0][..], &SERVER, &PEER].concat();
    let quoted = [&ip[..], &ports, &ack.to_be_bytes()].concat();
    for (kind, code) in [(3, 0), (3, 1), (3, 2), (3, 3), (3, 13), (4, 0), (5, 1), (11, 0), (12, 0)] {
        hosts.raw.send_ip(PEER, 1, &icmp(kind, code, [0; 4], &quoted));
    }
    assert_eq!(hosts.raw.answers(&[]), []);
    hosts.takes(conn, 2000, seq, ack);
}

/// The beginning of a segment that the server has sent to the peer's port, as an error quotes it.
fn quoted(port: u16, seq: u32) -> Vec<u8> {
    let ip = [&[0x45, 0, 5, 0xdc, 0, 0, 0x40, 0, 64, 6, 0, 0][..], &SERVER, &PEER].concat();
    [&ip[..], &PORT.to_be_bytes(), &port.to_be_bytes(), &seq.to_be_bytes()].concat()
}

/// RFC 1191: what is in flight is sent again at once in segments that the path carries, and new connections begin with those. RFC 5927
/// section 7: errors count only about what is in flight, and never make segments tiny.
#[test]
fn segments_follow_the_path() {
    let _alone = alone();
    let mut hosts = Hosts::new(64);
    let sizes = |answers: Vec<Segment>| answers.iter().map(|s| s.data.len()).collect::<Vec<_>>();
    let too_big = |hosts: &mut Hosts, port: u16, seq: u32, mtu: u16| {
        let [a, b] = mtu.to_be_bytes();
        hosts.raw.send_ip(PEER, 1, &icmp(3, 4, [0, 0, a, b], &quoted(port, seq)));
        hosts.raw.answers(&[])
    };
    let (conn, _, ack) = hosts.raw.open(hosts.listener, 2000);
    assert_eq!(hosts.raw.server.write(conn, &[7; 2048]).unwrap(), 2048);
    assert_eq!(sizes(hosts.raw.answers(&[])).iter().sum::<usize>(), 2048);
    // Nothing in flight has these numbers, and the own link has less than this.
    for (seq, mtu) in [(ack.wrapping_sub(1), 1000), (ack.wrapping_add(2048), 1000), (ack, 1500), (ack, 9000)]
    {
        assert_eq!(too_big(&mut hosts, 2000, seq, mtu), []);
    }
    let mut damaged = icmp(3, 4, [0, 0, 2, 0], &quoted(2000, ack));
    damaged[2] ^= 1;
    hosts.raw.send_ip(PEER, 1, &damaged);
    assert_eq!(hosts.raw.answers(&[]), []);
    assert_eq!(sizes(too_big(&mut hosts, 2000, ack, 1000)), [960, 960, 128]);
    assert_eq!(too_big(&mut hosts, 2000, ack, 1000), [], "the same error about the next segment");
    assert_eq!(hosts.raw.server.counters().paths_lowered, 1);
    // No path is below 576 bytes, and a router that says nothing has a plateau below the packet's length.
    assert_eq!(sizes(too_big(&mut hosts, 2000, ack, 68)), [536, 536, 536, 440]);
    let (conn, _, ack) = hosts.raw.open(hosts.listener, 2001);
    hosts.raw.server.write(conn, &[7; 1072]).unwrap();
    assert_eq!(sizes(hosts.raw.answers(&[])), [536, 536], "the path is known");
    assert_eq!(too_big(&mut hosts, 2001, ack, 0), []);
    // After ten minutes longer ones are tried anew.
    hosts.pass(SECOND); // the connection is told of its time
    hosts.raw.server.abort(conn);
    for _ in 0..61 {
        hosts.pass(10 * SECOND);
    }
    let (conn, ..) = hosts.raw.open(hosts.listener, 2002);
    hosts.raw.server.write(conn, &[7; 1072]).unwrap();
    assert_eq!(sizes(hosts.raw.answers(&[])), [1072]);
}

/// RFC 5927 section 7: nothing shows that an error about a datagram is right, so no connection follows it.
#[test]
fn connections_do_not_follow_errors_about_datagrams() {
    let _alone = alone();
    let mut hosts = Hosts::new(64);
    hosts.raw.server.bind(7).unwrap();
    let mut quoted = quoted(2000, 0);
    quoted[9] = 17;
    quoted[20..22].copy_from_slice(&[0, 7]);
    hosts.raw.send_ip(PEER, 1, &icmp(3, 4, [0, 0, 2, 0x40], &quoted));
    hosts.raw.answers(&[]);
    assert_eq!(hosts.raw.server.counters().paths_lowered, 1, "datagrams follow it");
    let (conn, ..) = hosts.raw.open(hosts.listener, 2000);
    hosts.raw.server.write(conn, &[7; 1072]).unwrap();
    let sizes: Vec<_> = hosts.raw.answers(&[]).iter().map(|s| s.data.len()).collect();
    assert_eq!(sizes, [1072]);
}

/// RFC 1812 section 4.3.2.8: errors about datagrams to closed ports are limited in rate; one quotes what it is about.
#[test]
fn errors_about_closed_ports_and_protocols_are_limited() {
    let _alone = alone();
    let mut hosts = Hosts::new(64);
    let datagram = [&[0, 5, 0, 6, 0, 13, 0, 0][..], b"hello"].concat();
    for _ in 0..100 {
        hosts.raw.send_ip(PEER, 17, &datagram);
    }
    hosts.raw.settle();
    let errors = std::mem::take(&mut hosts.raw.errors);
    assert_eq!((errors.len(), hosts.raw.server.counters().errors_withheld), (50, 50));
    assert_eq!(errors[0][34..36], [3, 3]);
    assert_eq!(errors[0][42 + 20..], datagram, "behind its IP header");
    hosts.raw.send_ip([255; 4], 17, &datagram);
    hosts.pass(SECOND);
    hosts.raw.send_ip(PEER, 17, &datagram);
    hosts.raw.settle();
    assert_eq!(hosts.raw.errors.len(), 1);
    // So are those about protocols that nobody knows.
    hosts.pass(SECOND);
    hosts.raw.errors.clear();
    (0..100).for_each(|_| hosts.raw.send_ip(PEER, 99, &datagram));
    hosts.raw.settle();
    assert_eq!((hosts.raw.errors.len(), hosts.raw.server.counters().errors_withheld), (50, 100));
    assert_eq!(hosts.raw.errors[0][34..36], [3, 2]);
}

/// RFC 1122 section 4.2.3.9, RFC 5927 section 5: nobody there ends a handshake of ours, if the error has its number, and no more than that.
#[test]
fn nobody_there_ends_a_handshake_of_ours() {
    let _alone = alone();
    let mut hosts = Hosts::new(64);
    hosts.raw.send_arp(PEER, [2, 0, 0, 0, 9, 99]);
    hosts.raw.settle();
    let conn = hosts.raw.server.connect("10.9.0.99:9".parse().unwrap()).unwrap();
    let syn = hosts.raw.answers(&[]).remove(0);
    let mut error = |code: u8, seq: u32| {
        let mut about = quoted(9, seq);
        about[20..22].copy_from_slice(&syn.to.to_be_bytes());
        hosts.raw.send_ip(PEER, 1, &icmp(3, code, [0; 4], &about));
        hosts.raw.answers(&[]);
        hosts.raw.server.read(conn, &mut [0; 8]).unwrap_err().kind()
    };
    assert_eq!(error(3, syn.seq.wrapping_add(1)), ErrorKind::WouldBlock);
    assert_eq!(error(1, syn.seq), ErrorKind::WouldBlock, "a host may be unreachable for a moment");
    assert_eq!(error(3, syn.seq), ErrorKind::ConnectionRefused);
}

/// RFC 6056: the ports of connections to one end say nothing about those to another.
#[test]
fn ports_of_connections_to_others_are_not_in_a_row() {
    let _alone = alone();
    let mut hosts = Hosts::new(64);
    let mut ports = |to: &str| -> Vec<u16> {
        let conns = (0..16).map(|_| hosts.raw.server.connect(to.parse().unwrap()).unwrap());
        let conns: Vec<_> = conns.collect();
        conns.iter().map(|conn| hosts.raw.server.local(*conn).unwrap().port()).collect()
    };
    let all = ["10.9.0.98:9", "10.9.0.97:9", "10.9.0.96:9", "10.9.0.95:9", "10.9.0.94:9"].map(&mut ports);
    for ports in &all {
        let steps: HashSet<_> = ports.windows(2).map(|w| w[1].wrapping_sub(w[0])).collect();
        assert!(steps.len() > 2, "{ports:?}");
    }
    // Two of these begin so near each other by chance once in 40 times, all of them once in a million.
    assert!(all[1..].iter().any(|ports| ports[0].abs_diff(all[0][0]) > 5 * 16 * 8), "{all:?}");
}

/// The listener goes on beside 100 000 SYNs a second from made-up addresses (RFC 4987): what is kept of them are half as many as the backlog.
#[test]
fn handshakes_succeed_beside_100_000_syns_a_second() {
    let _alone = alone();
    let mut hosts = Hosts::with(64, |options| options.ipv4 = Some("10.9.0.1/8".parse().unwrap()));
    let mut good = 0;
    for tick in 0..25u32 {
        for i in 0..1000 {
            let n = tick * 1000 + i;
            let [_, a, b, c] = n.wrapping_mul(0x9e37_79b1).to_be_bytes();
            let syn = Segment::new(1024 + (n % 60_000) as u16, SYN, n, 0).from([10, a, b, c]).size(1460);
            hosts.raw.send(&syn);
        }
        *hosts.clock.lock().unwrap() += Duration::from_millis(10);
        let port = 2000 + tick as u16;
        let syn = Segment::new(port, SYN, 7, 0).size(1460);
        let answers = hosts.raw.answers(&[syn]);
        let answer = answers.iter().find(|s| s.peer == PEER && s.port == port).unwrap();
        assert_eq!((answer.flags, answer.ack), (SYN | ACK, 8));
        let ack = answer.seq.wrapping_add(1);
        hosts.raw.answers(&[Segment::new(port, ACK | PSH, 8, ack).data(b"hello")]);
        let conn = hosts.raw.server.accept(hosts.listener).expect("a connection beside the flood");
        assert_eq!(hosts.read(conn).unwrap(), b"hello");
        good += 1;
        assert!(hosts.raw.server.connections() <= 32 + good);
        assert_eq!(hosts.raw.server.write(conn, b"welcome").unwrap(), 7);
        let answers = hosts.raw.answers(&[]);
        let answer = answers.iter().find(|s| s.peer == PEER && s.port == port).unwrap();
        assert_eq!((answer.data.as_slice(), answer.seq, answer.ack), (&b"welcome"[..], ack, 13));
    }
    let counters = hosts.raw.server.counters();
    assert!(counters.cookies_sent >= 24_900, "{counters:?}");
    assert!(counters.cookies_accepted >= 24, "{counters:?}");
    assert_eq!(counters.syn_dropped, 0);
    // None of those who never answer is there after the time of a handshake.
    hosts.pass(11 * SECOND);
    assert_eq!(hosts.raw.server.connections(), good);
}

/// So many handshakes that the next is answered by a cookie.
fn flood(hosts: &mut Hosts, handshakes: u16) {
    let syns: Vec<_> =
        (0..handshakes).map(|i| Segment::new(3000 + i, SYN, 1, 0).from([10, 9, 0, 50])).collect();
    assert_eq!(hosts.raw.answers(&syns).len(), usize::from(handshakes));
    assert_eq!(hosts.raw.server.counters().cookies_sent, 0);
}

/// A cookie opens one connection, between the ends that it was made for, for half a minute; and without a flood none does.
#[test]
fn cookies_are_good_for_whom_they_were_made() {
    let _alone = alone();
    let mut hosts = Hosts::new(8);
    let guess = |ack: u32| Segment::new(2000, ACK, 8, ack);
    assert_eq!(hosts.raw.answer(&guess(1234)).flags, RST);
    flood(&mut hosts, 4);
    let syn = Segment::new(2000, SYN, 7, 0).size(1460);
    let cookie = hosts.raw.answer(&syn).seq;
    let ack = cookie.wrapping_add(1);
    for wrong in [
        guess(ack.wrapping_add(1 << 16)),
        guess(ack.wrapping_sub(1 << 16)),
        Segment::new(2000, ACK, 9, ack),
        Segment::new(2001, ACK, 8, ack),
        guess(ack).from([10, 9, 0, 98]),
    ] {
        assert_eq!(hosts.raw.answer(&wrong).flags, RST, "{wrong:?}");
    }
    assert_eq!(hosts.raw.answers(&[guess(ack)]), []);
    let conn = hosts.raw.server.accept(hosts.listener).unwrap();
    hosts.takes(conn, 2000, 8, ack);
    // Old ones are none.
    let answers = hosts.raw.answers(&[Segment::new(2002, SYN, 7, 0)]);
    let cookie = answers.iter().find(|s| s.port == 2002).unwrap().seq;
    hosts.pass(40 * SECOND);
    assert_eq!(hosts.raw.answer(&Segment::new(2002, ACK, 8, cookie.wrapping_add(1))).flags, RST);
}

/// However short the backlog, a handshake that is never completed takes no place of a connection.
#[test]
fn a_handshake_does_not_close_a_listener() {
    let _alone = alone();
    let mut hosts = Hosts::new(1);
    flood(&mut hosts, 1);
    hosts.raw.open(hosts.listener, 2000);
    assert_eq!(hosts.raw.server.counters().cookies_accepted, 1);
}

/// The segment size in a cookie holds, and the SYN-ACK offers nothing that is not kept.
#[test]
fn a_connection_by_cookie_keeps_to_the_peers_segments() {
    let _alone = alone();
    let mut hosts = Hosts::new(8);
    flood(&mut hosts, 4);
    for (port, offered, most) in [(2000, Some(600u16), 536), (2001, None, 536), (2002, Some(1), 48)] {
        // Window scaling, selective acknowledgements and timestamps are offered, too.
        let mut syn = Segment::new(port, SYN, 7, 0);
        let size = offered.map_or(vec![1; 4], |size| [&[2, 4][..], &size.to_be_bytes()].concat());
        syn.options = [&[1, 3, 3, 7, 4, 2, 8, 10][..], &[0; 8], &size].concat();
        let answer = hosts.raw.answer(&syn);
        assert_eq!(
            (answer.flags, answer.window, &answer.options[..]),
            (SYN | ACK, 65_535, &[2, 4, 5, 180][..])
        );
        assert_eq!(hosts.raw.answers(&[Segment::new(port, ACK, 8, answer.seq.wrapping_add(1))]), []);
        let conn = hosts.raw.server.accept(hosts.listener).unwrap();
        assert_eq!(hosts.raw.server.write(conn, &[7; 1000]).unwrap(), 1000);
        let lengths: Vec<_> = hosts.raw.answers(&[]).iter().map(|s| s.data.len()).collect();
        assert!(!lengths.is_empty() && lengths.iter().all(|len| *len <= most), "{lengths:?}");
        assert_eq!(lengths[0], most);
        hosts.raw.server.abort(conn);
        hosts.raw.answers(&[]);
    }
}

/// A program that accepts nothing has a full queue, and no more: handshakes are dropped, and succeed when it goes on.
#[test]
fn a_queue_that_nobody_empties_is_bounded() {
    let _alone = alone();
    let mut hosts = Hosts::new(4);
    let mut numbers = Vec::new();
    for port in 2000..2010u16 {
        let answers = hosts.raw.answers(&[Segment::new(port, SYN, 7, 0)]);
        if let Some(answer) = answers.first() {
            hosts.raw.answers(&[Segment::new(port, ACK, 8, answer.seq.wrapping_add(1))]);
            numbers.push(port);
        }
        assert!(hosts.raw.server.connections() <= 4);
    }
    assert_eq!(numbers, [2000, 2001, 2002, 2003]);
    assert_eq!(hosts.raw.server.counters().syn_dropped, 6);
    (0..4).for_each(|_| _ = hosts.raw.server.accept(hosts.listener).unwrap());
    hosts.raw.open(hosts.listener, 2009);
}

/// A peer that acknowledges our FIN and never sends its own is forgotten after the time-out, and so is one that keeps its window closed.
#[test]
fn a_peer_that_never_ends_is_forgotten() {
    let _alone = alone();
    let mut hosts = Hosts::new(64);
    let (conn, seq, ack) = hosts.raw.open(hosts.listener, 2000);
    hosts.raw.server.close(conn);
    hosts.raw.answers(&[]);
    hosts.raw.answers(&[Segment::new(2000, ACK, seq, ack.wrapping_add(1))]);
    let (conn, seq, ack) = hosts.raw.open(hosts.listener, 2001);
    let mut closed = Segment::new(2001, ACK, seq, ack);
    closed.window = 0;
    hosts.raw.answers(&[closed.clone()]);
    assert_eq!(hosts.raw.server.write(conn, b"unread").unwrap(), 6);
    hosts.raw.server.close(conn);
    let mut seconds = |n: u64| {
        for _ in 0..n {
            hosts.pass(SECOND);
            hosts.raw.answers(std::slice::from_ref(&closed)); // it answers each probe
        }
        hosts.raw.server.connections()
    };
    assert_eq!([seconds(58), seconds(4)], [2, 0]);
}

/// Tiny segments out of order take no memory but the receive buffer's, and what comes in order is right.
#[test]
fn tiny_segments_out_of_order_are_bounded() {
    let _alone = alone();
    let mut hosts = Hosts::new(64);
    let (conn, seq, ack) = hosts.raw.open(hosts.listener, 2000);
    let segments: Vec<_> =
        (0..2000).map(|i| Segment::new(2000, ACK, seq + 1 + 2 * i, ack).data(&[i as u8])).collect();
    hosts.raw.answers(&segments);
    assert_eq!(hosts.read(conn).unwrap_err().kind(), ErrorKind::WouldBlock);
    let all: Vec<u8> = (0..2000).map(|i: u32| if i % 2 == 1 { (i / 2) as u8 } else { 255 }).collect();
    for (i, part) in all.chunks(1000).enumerate() {
        hosts.raw.answers(&[Segment::new(2000, ACK, seq + 1000 * i as u32, ack).data(part)]);
    }
    assert!(hosts.read(conn).unwrap().starts_with(&all));
}

/// A peer cannot have its answers cut into crumbs (CVE-2019-11479).
#[test]
fn a_tiny_segment_size_is_not_believed() {
    let _alone = alone();
    let mut hosts = Hosts::new(64);
    for (port, size) in [(2000, 0), (2001, 1), (2002, 47)] {
        let answer = hosts.raw.answer(&Segment::new(port, SYN, 7, 0).size(size));
        hosts.raw.answers(&[Segment::new(port, ACK, 8, answer.seq.wrapping_add(1))]);
        let conn = hosts.raw.server.accept(hosts.listener).unwrap();
        assert_eq!(hosts.raw.server.write(conn, &[7; 480]).unwrap(), 480);
        assert!(hosts.raw.answers(&[])[0].data.len() >= 48);
    }
}

/// A flood of ARP pushes everybody out of the table of neighbours; connections go on, and ask for nobody.
#[test]
fn connections_need_no_neighbour_table() {
    let _alone = alone();
    let mut hosts = Hosts::with(64, |options| options.ipv4 = Some("10.9.0.1/16".parse().unwrap()));
    let (conn, seq, ack) = hosts.raw.open(hosts.listener, 2000);
    for round in 1..=3u8 {
        (1..=255).for_each(|i| hosts.raw.send_arp([10, 9, round, i], [2, 0, 0, 1, round, i]));
        // Those who are nowhere in it are answered all the same, and asked for neither.
        let syn = Segment::new(4000, SYN, 1, 0).from([10, 9, 9, round]);
        assert_eq!(hosts.raw.answers(&[syn])[0].flags, SYN | ACK);
        let refused = Segment { to: 9, ..Segment::new(4000, SYN, 1, 0).from([10, 9, 10, round]) };
        assert_eq!(hosts.raw.answers(&[refused])[0].flags, RST | ACK);
    }
    hosts.takes(conn, 2000, seq, ack);
    assert_eq!(hosts.raw.server.write(conn, b"data").unwrap(), 4);
    assert!(hosts.raw.answers(&[]).iter().any(|s| s.data == b"data"));
    assert_eq!(hosts.raw.questions, 0);
}
