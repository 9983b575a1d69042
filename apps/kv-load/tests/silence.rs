//! Stores that are there and answer nothing: the generator gives them up, at every stage and over every transport, and says so.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::os::unix::net::UnixListener;
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::time::Duration;

use ccnic_kv_load::protocol::{Reply, Request};
use ccnic_kv_load::run::{Load, Outcome, Pace, run};
use ccnic_kv_load::transport::{Lost, Number, Transport};
use ccnic_kv_load::workload::{Plan, Sizes, Workload};

const OBJECTS: u32 = 300;
const LIMIT: Duration = Duration::from_millis(150);

/// A store in the generator's thread, which answers so many requests with `STORED` or a miss, and then none.
struct Store {
    /// Replies may be lost, as those in datagrams.
    datagrams: bool,
    answers: usize,
    /// Longer values are lost.
    largest: usize,
    /// Requests that find room while nothing is answered.
    room: usize,
    waiting: VecDeque<(Number, bool)>,
}

impl Transport for Store {
    fn send(&mut self, number: Number, request: Request<'_>) -> Result<bool, Lost> {
        if self.room == 0 {
            return Ok(false);
        }
        self.room -= 1;
        if let Request::Set(_, value) = request
            && value.len() > self.largest
        {
            return Ok(true);
        }
        self.waiting.push_back((number, matches!(request, Request::Set(..))));
        Ok(true)
    }

    fn receive(&mut self, take: &mut impl FnMut(Number, Reply<'_>)) -> Result<usize, Lost> {
        let count = self.waiting.len().min(self.answers);
        for (number, set) in self.waiting.drain(..count) {
            take(number, if set { Reply::Stored } else { Reply::Miss });
        }
        (self.answers, self.room) = (self.answers - count, self.room.saturating_add(count));
        Ok(count)
    }

    fn forget(&mut self, number: Number) -> bool {
        self.waiting.retain(|(waiting, _)| !self.datagrams || *waiting != number);
        self.datagrams
    }
}

fn measure(store: Store, load: &Load) -> anyhow::Result<Outcome> {
    static PLAN: OnceLock<Plan> = OnceLock::new();
    let workload = Workload { objects: OBJECTS, ..Workload::of_the_paper(Sizes::Geo) };
    run(store, PLAN.get_or_init(|| Plan::draw(&workload).unwrap()), load)
}

fn store(datagrams: bool, answers: usize) -> Store {
    Store { datagrams, answers, largest: usize::MAX, room: usize::MAX, waiting: VecDeque::new() }
}

fn load() -> Load {
    Load {
        pace: Pace::Closed,
        inflight: 4,
        measured: Duration::from_secs(3600),
        warmup: Duration::ZERO,
        timeout: Duration::from_millis(10),
        patience: Some(LIMIT),
        preload: true,
        run: 1,
    }
}

#[track_caller]
fn given_up(store: Store, load: &Load) -> String {
    measure(store, load).unwrap_err().to_string()
}

#[test]
fn at_the_start_and_within_the_preload() {
    for answers in [0, 100] {
        let error = given_up(store(false, answers), &load());
        let expected =
            "the store does not answer to the preload: nothing has come for 0.15 s, 16 requests wait";
        assert_eq!(error, expected);
        let error = given_up(store(true, answers), &load());
        let expected = "the store does not answer to the preload: nothing has come for 0.15 s, ";
        assert!(error.starts_with(expected) && error.ends_with(" were lost"), "{error}");
    }
}

#[test]
fn within_the_load() {
    for pace in [Pace::Closed, Pace::Open { rate: 2000.0, poisson: true }] {
        for (datagrams, preload) in [(false, true), (true, true), (false, false), (true, false)] {
            let answers = 50 + if preload { OBJECTS as usize } else { 0 };
            let error = given_up(store(datagrams, answers), &Load { pace, preload, ..load() });
            let expected = "the store does not answer to the load: nothing has come for 0.15 s, ";
            assert!(error.starts_with(expected), "{error}");
        }
    }
}

#[test]
fn at_the_end() {
    // Silent from the first request on, and over before that is believed.
    let short = Load { measured: Duration::from_millis(1), ..load() };
    let error = given_up(store(false, OBJECTS as usize), &short);
    let expected =
        "the store does not answer to the last requests: nothing has come for 0.15 s, 4 requests wait";
    assert_eq!(error, expected);
    let error = given_up(store(true, OBJECTS as usize), &short);
    assert!(error.starts_with("the store has answered none of ") && error.ends_with(" requests in time"));
}

#[test]
fn a_way_that_takes_no_more() {
    let error = given_up(Store { room: 3, ..store(true, 0) }, &load());
    assert!(error.ends_with(" were lost, there is no room for more"), "{error}");
    let error = given_up(Store { room: 0, ..store(false, 0) }, &load());
    assert_eq!(
        error,
        "the store does not answer to the preload: nothing has come for 0.15 s, there is no room for more"
    );
}

/// As over a link whose datagrams are shorter than some values: the others are answered.
#[test]
fn values_that_do_not_get_through_are_named() {
    let error = given_up(Store { largest: 1400, ..store(true, usize::MAX) }, &load());
    assert!(error.contains("; values of up to ") && error.contains("give --largest "), "{error}");
    let longest: usize = error.rsplit(' ').next().unwrap().parse().unwrap();
    assert!((1..=1400).contains(&longest), "{error}");
}

#[test]
fn a_wait_for_a_datagram_is_no_silence() {
    // The limit is shorter than the time after which a datagram is lost: that counts.
    let load = Load { timeout: LIMIT, patience: Some(Duration::from_millis(1)), ..load() };
    let error = given_up(store(true, 0), &load);
    assert!(error.contains("nothing has come for 0.15 s"), "{error}");
}

/// What the generator says within a limit of 0.3 s of silence.
fn generator(arguments: &[&str]) -> Output {
    let mut command = Command::new("timeout");
    command.args(["300", env!("CARGO_BIN_EXE_ccnic-kv-load"), "--connection-timeout", "0.3"]);
    command.args(["--timeout", "0.02", "--objects", "100"]).args(arguments).output().unwrap()
}

#[track_caller]
fn refused(done: &Output, why: &str) {
    let error = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(2), "{done:?}");
    assert!(error.contains(why) && done.stdout.is_empty(), "{error}");
}

#[test]
fn over_each_transport_with_exit_status_2() {
    let silent = "the store does not answer to the preload: nothing has come for 0.3 s";
    // The kernel takes the connections, and nobody accepts them.
    let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let tcp_at = tcp.local_addr().unwrap();
    refused(&generator(&[&format!("tcp:{tcp_at}")]), silent);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("s");
    let unix = UnixListener::bind(&path).unwrap();
    rustix::net::listen(&unix, 8).unwrap();
    let server = format!("unix:{}", path.display());
    refused(&generator(&[&server, "--connections", "4"]), silent);
    // More connections than a backlog has room for.
    refused(&generator(&[&server, "--connections", "40"]), "it does not take connections");
    let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let at = udp.local_addr().unwrap();
    for server in [format!("udp:{at}"), format!("rpc:{at}")] {
        refused(&generator(&[&server]), silent);
        refused(
            &generator(&[&server, "--no-preload"]),
            "the store does not answer to the load: nothing has come for 0.3 s",
        );
    }
    drop((udp, tcp));
    refused(&generator(&[&format!("tcp:{tcp_at}")]), "could not reach the store at TCP, ");
    refused(&generator(&[&format!("udp:{at}")]), "nobody listens at its port");
}

#[test]
fn a_server_that_stops_between_two_answers() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let server = format!("tcp:{}", listener.local_addr().unwrap());
    let done = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut stream = listener.accept().unwrap().0;
            // Half of an answer to the first write.
            let mut input = [0; 1 << 16];
            assert!(stream.read(&mut input).unwrap() > 0);
            stream.write_all(b"STOR").unwrap();
            // Until the generator goes.
            while stream.read(&mut input).is_ok_and(|count| count > 0) {}
        });
        generator(&[&server, "--connections", "1", "--size", "8"])
    });
    refused(&done, "the store does not answer to the preload");
}
