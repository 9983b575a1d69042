//! The daemon from a program's point of view: packets go round, a second daemon is refused, SIGTERM ends it cleanly, and a
//! program carries on after its daemon was killed.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use ccnic::ring::GroupedEpoch;
use ccnic::{Burst, Config, QueuePair};
use ccnic_shm::control::Connection;
use ccnic_shm::{NativePort, Pages, Program};
use rustix::process::{Pid, Signal, kill_process};

/// Longer than any machine needs; only a hang gets here.
const PATIENCE: Duration = Duration::from_secs(60);

struct Daemon(Child);

impl Daemon {
    fn start(socket: &Path) -> Daemon {
        let child = Command::new(env!("CARGO_BIN_EXE_ccnicd"))
            .args(["--log", "error", "--socket"])
            .arg(socket)
            .spawn()
            .unwrap();
        let start = Instant::now();
        while Connection::open(socket).is_err() {
            assert!(start.elapsed() < PATIENCE, "the daemon does not answer");
            std::thread::sleep(Duration::from_millis(2));
        }
        Daemon(child)
    }

    fn signal(&mut self, signal: Signal) -> std::process::ExitStatus {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
        self.0.wait().unwrap()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill(); // it may have ended already
        let _ = self.0.wait();
    }
}

/// Sends `n` packets and waits for them all; each carries its number.
fn exchange(pair: &mut QueuePair<NativePort, GroupedEpoch>, n: u64) {
    let (mut sent, mut seen) = (0u64, 0u64);
    let mut burst = Burst::new();
    let start = Instant::now();
    while seen < n {
        if sent < n && sent - seen < 64 && pair.alloc(64, 1, &mut burst) == 1 {
            for buf in burst.iter_mut() {
                pair.write(buf, 0, &sent.to_le_bytes());
            }
            sent += pair.tx_burst(&mut burst) as u64;
            pair.free(&mut burst);
        }
        pair.rx_burst(&mut burst, 32);
        for buf in burst.as_slice() {
            let mut number = [0; 8];
            pair.read(buf, 0, &mut number);
            assert_eq!(u64::from_le_bytes(number), seen);
            seen += 1;
        }
        pair.free(&mut burst);
        assert!(start.elapsed() < PATIENCE, "{seen} of {sent} packets came back");
        std::thread::yield_now();
    }
}

#[test]
fn packets_go_round_and_are_counted() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("nic.sock");
    let _daemon = Daemon::start(&socket);
    let mut program = Program::connect(&socket, "smoke", &Config::default(), Pages::Small).unwrap();
    let mut pair = program.queue_pair(0).unwrap();
    exchange(&mut pair, 1000);
    let status = program.status().unwrap();
    assert_eq!((status.programs.len(), status.programs[0].name.as_str()), (1, "smoke"));
    let queue = status.programs[0].queues[0];
    assert_eq!((queue.tx_packets, queue.rx_packets, queue.tx_bytes), (1000, 1000, 64_000));
}

#[test]
fn a_second_daemon_is_refused_and_the_first_ends_cleanly() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("nic.sock");
    let mut daemon = Daemon::start(&socket);
    let second = Command::new(env!("CARGO_BIN_EXE_ccnicd")).arg("--socket").arg(&socket).output().unwrap();
    assert_eq!(second.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&second.stderr).contains("already running"));
    assert!(daemon.signal(Signal::TERM).success());
    assert!(!socket.exists(), "the socket file goes with its daemon");
}

#[test]
fn a_program_carries_on_after_its_daemon_was_killed() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("nic.sock");
    let mut daemon = Daemon::start(&socket);
    let mut program = Program::connect(&socket, "survivor", &Config::default(), Pages::Small).unwrap();
    let mut pair = program.queue_pair(0).unwrap();
    exchange(&mut pair, 500);
    daemon.signal(Signal::KILL);
    let start = Instant::now();
    while program.alive() {
        assert!(start.elapsed() < PATIENCE, "the daemon's death goes unnoticed");
        std::thread::yield_now();
    }
    assert!(program.reconnect(&mut [&mut pair]).is_err(), "nobody listens yet");
    let _successor = Daemon::start(&socket); // replaces the stale socket file
    let reclaimed = program.reconnect(&mut [&mut pair]).unwrap();
    assert!(reclaimed > 0, "the dead daemon held recycled buffers");
    exchange(&mut pair, 500);
}
