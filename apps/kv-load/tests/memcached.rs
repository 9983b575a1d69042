//! Against Debian's memcached, where it is installed: over TCP, UDP and a Unix socket nothing is lost for good, and every value is right.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ccnic_kv_load::run::{Load, Outcome, Pace, run};
use ccnic_kv_load::transport::{Datagrams, Speech, Streams, Transport};
use ccnic_kv_load::workload::{Plan, Sizes, Workload};

/// A memcached of the test's own.
struct Memcached(Child);

impl Memcached {
    /// Starts one; nothing where none is installed.
    fn start(arguments: &[&str], answers: impl Fn() -> bool) -> Option<Memcached> {
        let mut command = Command::new("memcached");
        // It does not run as root unless it is told so.
        command.args(["-u", "root", "-m", "256"]).args(arguments).stderr(Stdio::null());
        let Ok(child) = command.spawn() else {
            eprintln!("SKIPPED: memcached is not installed");
            return None;
        };
        let (mut this, begun) = (Memcached(child), Instant::now());
        while !answers() {
            assert!(this.0.try_wait().unwrap().is_none(), "memcached has ended");
            assert!(begun.elapsed() < Duration::from_secs(60), "memcached does not answer");
            std::thread::sleep(Duration::from_millis(5));
        }
        Some(this)
    }

    /// One with a port for TCP and UDP.
    fn with_port() -> Option<(Memcached, SocketAddr)> {
        // A port that was free a moment ago; whoever takes it meanwhile makes memcached end, and another is tried.
        let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
        let port = address.port().to_string();
        let arguments = ["-l", "127.0.0.1", "-p", &port, "-U", &port];
        Some((Memcached::start(&arguments, || TcpStream::connect(address).is_ok())?, address))
    }
}

impl Drop for Memcached {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn load(pace: Pace, run: u32) -> Load {
    Load {
        pace,
        inflight: 16,
        measured: Duration::from_millis(200),
        warmup: Duration::ZERO,
        timeout: Duration::from_secs(5),
        patience: Some(Duration::from_secs(60)),
        preload: true,
        run,
    }
}

fn plan(sizes: Sizes) -> Plan {
    Plan::draw(&Workload { objects: 3000, gets: 0.7, ..Workload::of_the_paper(sizes) }).unwrap()
}

#[track_caller]
fn right(outcome: &Outcome) {
    let tally = &outcome.tally;
    assert!(tally.is_right(), "corrupt {}, stale {}", tally.corrupt, tally.stale);
    assert_eq!((tally.refused, tally.hits), (0, tally.gets), "{:?}", tally.refusal);
    assert!(tally.gets > 0 && tally.sets > 0 && !tally.latencies.is_empty());
}

/// Runs loads over one transport.
type Runner = Box<dyn FnOnce(&Plan, &Load) -> Outcome>;

/// A closed and an open loop, the second without a preload.
fn both(open: impl Fn() -> Runner, sizes: Sizes) {
    let plan = plan(sizes);
    let closed = open()(&plan, &load(Pace::Closed, 1));
    right(&closed);
    assert!(closed.preload.is_some() && closed.unsent == 0);
    let pace = Pace::Open { rate: 2000.0, poisson: true };
    let paced = open()(&plan, &Load { preload: false, ..load(pace, 2) });
    right(&paced);
    let answered = paced.tally.gets + paced.tally.sets;
    assert!(answered < 600, "{answered} requests in 0.2 s at 2000/s");
}

fn runner<T: Transport + 'static>(transport: T) -> Runner {
    Box::new(move |plan, load| run(transport, plan, load).unwrap())
}

#[test]
fn over_tcp() {
    let Some((_memcached, address)) = Memcached::with_port() else { return };
    both(|| runner(Streams::tcp(address, 1, None).unwrap()), Sizes::Ads);
    both(|| runner(Streams::tcp(address, 5, None).unwrap()), Sizes::Fixed(20_000));
}

#[test]
fn over_udp_with_replies_of_several_datagrams() {
    let Some((_memcached, address)) = Memcached::with_port() else { return };
    both(|| runner(Datagrams::connect(address, Speech::Text).unwrap()), Sizes::Geo);
}

#[test]
fn over_a_unix_socket() {
    let directory = tempfile::tempdir().unwrap();
    let path: PathBuf = directory.path().join("memcached.sock");
    let arguments = ["-s", path.to_str().unwrap()];
    let Some(_memcached) = Memcached::start(&arguments, || UnixStream::connect(&path).is_ok()) else {
        return;
    };
    both(|| runner(Streams::unix(&path, 3, None).unwrap()), Sizes::GeoSmall);
}

/// What does not fit is evicted: misses, and still nothing wrong.
#[test]
fn a_store_that_forgets_is_no_defect() {
    let Some((_memcached, address)) = Memcached::with_port() else { return };
    let workload = Workload { objects: 2000, zipf: 0.0, ..Workload::of_the_paper(Sizes::Fixed(200_000)) };
    let plan = Plan::draw(&workload).unwrap();
    let outcome = run(Streams::tcp(address, 2, None).unwrap(), &plan, &load(Pace::Closed, 1)).unwrap();
    let tally = &outcome.tally;
    assert!(tally.is_right() && tally.hits < tally.gets, "{} of {}", tally.hits, tally.gets);
}
