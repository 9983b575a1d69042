//! The daemon from a program's point of view: packets come back, a second daemon is refused, SIGTERM ends it cleanly, and a
//! program continues after its daemon was killed.

#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use std::process::Command;

use ccnic::Config;
use ccnic_client::{Nic, Pages, QueuePair};
use ccnic_control::Listener;
use common::flow::Flow;
use common::{Daemon, until};
use rustix::process::Signal;

fn flow(pair: QueuePair) -> Flow {
    Flow::new(pair, &[64], 64)
}

#[test]
fn packets_come_back_and_are_counted() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("nic.sock");
    let _daemon = Daemon::start(&socket);
    let mut program =
        Nic::options().name("smoke").config(&Config::default()).pages(Pages::Small).open(&socket).unwrap();
    let mut flow = flow(program.queue_pair(0).unwrap());
    flow.exchange(1000);
    flow.drain();
    let status = program.status().unwrap();
    assert_eq!((status.programs.len(), status.programs[0].name.as_str()), (1, "smoke"));
    let queue = status.programs[0].queues[0];
    let n = flow.received;
    assert_eq!((queue.tx_packets, queue.rx_packets, queue.tx_bytes), (n, n, 64 * n));
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
    assert!(!Listener::is_taken(&socket), "nobody listens any more");
    Daemon::start(&socket).status(); // whether or not the file could be removed
}

#[test]
fn a_program_continues_after_its_daemon_was_killed() {
    for inline in [false, true] {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("nic.sock");
        let mut daemon = Daemon::start(&socket);
        let config = Config { inline, ..Config::default() };
        let mut program =
            Nic::options().name("survivor").config(&config).pages(Pages::Small).open(&socket).unwrap();
        let mut flow = flow(program.queue_pair(0).unwrap());
        flow.exchange(500);
        flow.drain();
        daemon.signal(Signal::KILL);
        until("the daemon's death", || !program.alive());
        assert!(program.reconnect([&mut flow.pair], []).is_err(), "no daemon listens yet");
        let _successor = Daemon::start(&socket); // replaces the stale socket file
        let reclaimed = program.reconnect([&mut flow.pair], []).unwrap();
        assert_eq!(
            reclaimed > 0,
            !inline,
            "{reclaimed} recycled buffers: only a daemon that received into buffers held any"
        );
        flow.exchange(500);
    }
}
