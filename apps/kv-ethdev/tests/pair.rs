//! Server and generator at the two ends of a port that is two queues in memory.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use ccnic_kv_ethdev::port::BURST;
use ccnic_kv_ethdev::{Port, load, serve};
use clap::Parser;

/// One end: a driver that has room for some frames, and takes a burst in part where there is less.
struct End {
    to: Sender<Vec<u8>>,
    from: Receiver<Vec<u8>>,
    /// Frames on their way there, and here.
    there: Arc<AtomicUsize>,
    here: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
}

const RING: usize = 20;
const ROOM: usize = 2048;

impl End {
    fn has_room(&self) -> bool {
        self.there.load(Ordering::SeqCst) < RING
    }
}

impl Port for End {
    fn room(&self) -> usize {
        ROOM
    }

    fn receive(&mut self, mut take: impl FnMut(&[u8])) -> usize {
        let frames: Vec<_> = self.from.try_iter().take(BURST).collect();
        self.here.fetch_sub(frames.len(), Ordering::SeqCst);
        frames.iter().for_each(|frame| take(frame));
        if frames.is_empty() {
            std::thread::yield_now();
        }
        frames.len()
    }

    fn send(&mut self, n: usize, all: bool, mut write: impl FnMut(usize, &mut [u8]) -> usize) -> usize {
        let mut frames = Vec::new();
        for i in 0..n {
            let mut place = vec![0xaa; ROOM];
            let len = write(i, &mut place);
            place.truncate(len);
            frames.push(place);
        }
        for (i, frame) in frames.into_iter().enumerate() {
            while !self.has_room() {
                if !all || self.stopped() {
                    return i;
                }
                std::thread::yield_now();
            }
            if !frame.is_empty() {
                self.there.fetch_add(1, Ordering::SeqCst);
                let _ = self.to.send(frame); // the other end may have gone
            }
        }
        n
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }
}

fn ends() -> [End; 2] {
    let ((to_b, from_a), (to_a, from_b)) = (channel(), channel());
    let (a, b) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let stop = Arc::new(AtomicBool::new(false));
    let end = |to, from, there: &Arc<_>, here: &Arc<_>| End {
        to,
        from,
        there: Arc::clone(there),
        here: Arc::clone(here),
        stop: Arc::clone(&stop),
    };
    [end(to_b, from_b, &b, &a), end(to_a, from_a, &a, &b)]
}

#[test]
fn every_value_is_right_and_the_server_tells_its_time() {
    let folder = tempfile::tempdir().unwrap();
    let stats = folder.path().join("stats");
    let options = serve::Options::parse_from(["serve", "--stats", stats.to_str().unwrap()]);
    let [mut generator, mut server] = ends();
    let stop = Arc::clone(&generator.stop);
    let served = std::thread::spawn(move || serve::run(&mut server, &options));
    let source = format!("unix:{}", stats.display());
    let args = [
        "load",
        "rpc:10.9.0.1:11300",
        "--workload",
        "ads",
        "--objects",
        "500",
        "--largest",
        "1500",
        "--inflight",
        "64",
        "--gets",
        "0.5",
        "--seconds",
        "0.3",
        "--warmup",
        "0",
        "--timeout",
        "20",
        "--json",
        "--stats",
        &source,
    ];
    let right = load::run(&mut generator, &ccnic_kv_load::command::Args::parse_from(args)).unwrap();
    assert!(right, "a value was wrong");
    let ask = || {
        let mut stream = UnixStream::connect(&stats).unwrap();
        stream.write_all(b"stats\r\n").unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut told = String::new();
        stream.read_to_string(&mut told).unwrap();
        told
    };
    let figure = |told: &str, name: &str| -> u64 {
        let line = told.lines().find_map(|line| line.strip_prefix(&format!("STAT {name} "))).unwrap();
        line.parse().unwrap()
    };
    // It tells once in some polls, also of those that bring nothing.
    let is_told = |told: &String| figure(told, "nic_requests") >= 500 && figure(told, "nic_busy_ns") > 0;
    let told =
        (0..2000).map(|_| ask()).inspect(|_| std::thread::sleep(Duration::from_millis(10))).find(is_told);
    let told = told.unwrap_or_else(|| panic!("after 20 s {}", ask()));
    assert!(figure(&told, "nic_sampled") <= figure(&told, "nic_requests"), "{told}");
    assert!(told.ends_with("END\r\n"), "{told}");
    stop.store(true, Ordering::SeqCst);
    served.join().unwrap().unwrap();
}

#[test]
fn values_that_no_frame_holds_and_other_transports_are_refused() {
    let refused = |args: &[&str]| {
        let args = [&["load", "--objects", "100"], args].concat();
        let [mut generator, _server] = ends();
        load::run(&mut generator, &ccnic_kv_load::command::Args::parse_from(args)).unwrap_err().to_string()
    };
    assert!(refused(&["rpc:10.9.0.1:11300", "--size", "1975"]).contains("give --largest 1974"));
    assert!(refused(&["tcp:10.9.0.1:11300"]).contains("udp: and rpc: only"));
    assert!(
        refused(&["rpc:10.9.0.1:11300", "--size", "9", "--as-nic", "x", "--address", "y"])
            .contains("other ways")
    );
}
