//! A daemon that sleeps: woken by programs, by commands, by the end of programs; and what a successor finds.

#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use std::path::Path;
use std::time::Duration;

use ccnic::rss::Rss;
use ccnic::{Burst, Config, Design};
use ccnic_client::{Nic, Pages, QueuePair};
use common::{Daemon, Forked, PATIENCE, alone, config, two_cores, until};
use rustix::process::Signal;

/// Nanoseconds of CPU that it has used.
fn used(daemon: &Daemon) -> u64 {
    let of = |thread: &String| thread.split_whitespace().next().unwrap().parse::<u64>().unwrap();
    daemon.polling_threads("schedstat").iter().map(of).sum()
}

fn open(socket: &Path, name: &str, config: &Config) -> Nic {
    Nic::options().name(name).config(config).pages(Pages::Small).open(socket).unwrap()
}

/// Sends a packet of one byte.
fn send(pair: &mut QueuePair, byte: u8) {
    let mut burst = Burst::new();
    assert_eq!(pair.alloc(1, 1, &mut burst), 1);
    burst.iter_mut().for_each(|buf| assert_eq!(pair.write(buf, 0, &[byte]), 1));
    assert_eq!(pair.tx_burst(&mut burst), 1);
}

/// Waits for a packet, and receives it.
#[track_caller]
fn receive(pair: &mut QueuePair) -> u8 {
    let (mut burst, mut byte) = (Burst::new(), [0]);
    pair.wait(PATIENCE).unwrap();
    assert_eq!(pair.rx_burst(&mut burst, 1), 1);
    burst.as_slice().iter().for_each(|buf| assert_eq!(pair.read(buf, 0, &mut byte), 1));
    pair.free(&mut burst);
    byte[0]
}

#[test]
fn a_packet_wakes_it_in_every_design() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("nic.sock");
    let daemon = Daemon::start(&socket);
    for design in Design::ALL {
        let mut program = open(&socket, "lone", &config(design));
        let mut pair = program.queue_pair(0).unwrap();
        for i in 0..40 {
            daemon.falls_asleep();
            send(&mut pair, i);
            assert_eq!(receive(&mut pair), i, "{design:?}");
        }
    }
}

#[test]
fn it_uses_next_to_nothing_while_nobody_sends() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("nic.sock");
    let daemon = Daemon::start(&socket);
    let mut program = open(&socket, "idle", &Config { queues: 8, ..config(Design::GroupedEpoch) });
    let mut pairs: Vec<_> = (0..8).map(|queue| program.queue_pair(queue).unwrap()).collect();
    send(&mut pairs[3], 7);
    assert_eq!(receive(&mut pairs[3]), 7);
    daemon.falls_asleep();
    let before = used(&daemon);
    std::thread::sleep(Duration::from_secs(2));
    let share = (used(&daemon) - before) as f64 / 2e9;
    assert!(share < 0.05, "{share} of a core, where a daemon that polls uses all of it");
}

#[test]
fn a_queue_that_nobody_has_opened_keeps_it_awake() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("nic.sock");
    let daemon = Daemon::start(&socket);
    let mut program = open(&socket, "half", &Config { queues: 2, ..config(Design::GroupedEpoch) });
    let mut first = program.queue_pair(0).unwrap();
    let before = used(&daemon);
    until("a daemon that polls", || used(&daemon) - before > 200_000_000);
    send(&mut first, 1);
    assert_eq!(receive(&mut first), 1);
    let _second = program.queue_pair(1).unwrap();
    daemon.falls_asleep();
}

#[test]
fn commands_wake_it() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("nic.sock");
    let mut daemon = Daemon::start(&socket);
    let mut first = open(&socket, "first", &config(Design::GroupedEpoch));
    let mut pair = first.queue_pair(0).unwrap();
    for i in 0..10 {
        daemon.falls_asleep();
        assert_eq!(daemon.program("first").unwrap().queues[0].tx_packets, i);
        daemon.falls_asleep();
        let mut second = open(&socket, "second", &config(Design::Padded));
        let mut other = second.queue_pair(0).unwrap();
        daemon.falls_asleep();
        send(&mut other, 9);
        assert_eq!(receive(&mut other), 9);
        daemon.falls_asleep();
        drop((other, second));
        until("the end of the second", || daemon.program("second").is_none());
        daemon.falls_asleep();
        send(&mut pair, i as u8);
        assert_eq!(receive(&mut pair), i as u8);
    }
    daemon.falls_asleep();
    assert!(daemon.signal(Signal::TERM).success());
}

#[test]
fn programs_on_a_switch_wake_it_and_are_woken_by_it() {
    wake_each_other(&["--wire", "switch"]);
}

/// A program on one polling thread wakes the other thread, whose program waits.
#[test]
fn threads_of_a_switch_wake_each_other() {
    wake_each_other(&["--wire", "switch", "--cores", &two_cores()]);
}

#[track_caller]
fn wake_each_other(args: &[&str]) {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("nic.sock");
    let daemon = Daemon::start_with(&socket, args);
    let mut nics: Vec<_> =
        [Design::GroupedEpoch, Design::Doorbell].map(|design| open(&socket, "port", &config(design))).into();
    let mut pairs: Vec<_> = nics.iter_mut().map(|nic| nic.queue_pair(0).unwrap()).collect();
    for i in 0..40 {
        let (from, to) = (i % 2, 1 - i % 2);
        // To everybody, from a station.
        let mut frame = vec![0xff; 60];
        frame[6..12].copy_from_slice(&[2, 0, 0, 0, 0, from as u8]);
        frame[14] = i as u8;
        daemon.falls_asleep();
        let mut burst = Burst::new();
        assert_eq!(pairs[from].alloc(60, 1, &mut burst), 1);
        burst.iter_mut().for_each(|buf| assert_eq!(pairs[from].write(buf, 0, &frame), 60));
        assert_eq!(pairs[from].tx_burst(&mut burst), 1);
        pairs[to].wait(PATIENCE).unwrap();
        assert_eq!(pairs[to].rx_burst(&mut burst, 1), 1);
        assert!(pairs[to].with(&burst.as_slice()[0], |bytes| bytes == frame));
        pairs[to].free(&mut burst);
    }
}

/// RSS over two polling threads: packets for the queue of the other one wake it, and its program.
#[test]
fn threads_that_share_a_program_wake_each_other() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("nic.sock");
    let daemon = Daemon::start_with(&socket, &["--cores", &two_cores()]);
    for pool in [true, false] {
        let config = Config { queues: 2, shared_pool: pool, ..config(Design::GroupedEpoch) };
        let mut program = open(&socket, "spread", &config);
        let mut pairs: Vec<_> = (0..2).map(|queue| program.queue_pair(queue).unwrap()).collect();
        for i in 0..20 {
            let (from, to) = (usize::from(i) % 2, usize::from(i) / 2 % 2);
            let mut rss = Rss::new(2);
            rss.table.fill(to as u16);
            program.set_rss(Some(&rss)).unwrap();
            daemon.falls_asleep();
            send(&mut pairs[from], i);
            assert_eq!(receive(&mut pairs[to]), i, "from {from} to {to}");
        }
    }
    daemon.falls_asleep();
}

#[test]
fn a_successor_serves_what_was_sent_to_one_that_died_in_its_sleep() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("nic.sock");
    let mut daemon = Daemon::start(&socket);
    let mut program = open(&socket, "heir", &config(Design::GroupedEpoch));
    let mut pair = program.queue_pair(0).unwrap();
    for i in 0..5 {
        daemon.falls_asleep();
        daemon.signal(Signal::KILL);
        send(&mut pair, i); // its request to be woken is there still
        daemon = Daemon::start(&socket);
        program.reconnect([&mut pair], []).unwrap();
        assert_eq!(receive(&mut pair), i);
        daemon.falls_asleep();
        send(&mut pair, i + 100);
        assert_eq!(receive(&mut pair), i + 100);
    }
}

/// A program in a process of its own, which is killed.
#[test]
#[ignore = "a helper of another test"]
fn a_program_that_will_be_killed() {
    let socket = std::env::var("CCNIC_TEST_SOCKET").unwrap();
    let mut program = open(Path::new(&socket), "victim", &config(Design::GroupedEpoch));
    let mut pair = program.queue_pair(0).unwrap();
    send(&mut pair, 1);
    assert_eq!(receive(&mut pair), 1);
    let _ = pair.wait(None);
}

#[test]
fn the_end_of_a_program_wakes_it() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("nic.sock");
    let mut daemon = Daemon::start(&socket);
    let mut program = open(&socket, "bystander", &config(Design::GroupedEpoch));
    let mut pair = program.queue_pair(0).unwrap();
    let env = [("CCNIC_TEST_SOCKET", socket.to_str().unwrap())];
    for i in 0..5 {
        let log = directory.path().join("victim.log");
        let mut victim = Forked::start("a_program_that_will_be_killed", &env, &log);
        let served = |program: ccnic_control::messages::ProgramStatus| program.queues[0].rx_packets == 1;
        until("a packet of the victim", || daemon.program("victim").is_some_and(served));
        daemon.falls_asleep();
        assert!(victim.kill(), "it has ended by itself");
        until("the end of the victim", || daemon.program("victim").is_none());
        daemon.falls_asleep();
        send(&mut pair, i);
        assert_eq!(receive(&mut pair), i);
    }
}
