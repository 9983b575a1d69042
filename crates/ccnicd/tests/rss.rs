//! Packets spread over a program's queues, across processes: each comes to the queue that the table says, in its flow's order,
//! while tables change under load, with one polling thread and with several, and daemons die.

#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use std::collections::HashSet;
use std::time::Duration;

use ccnic::Design;
use ccnic::rss::{Rss, Spreader};
use ccnic_client::Error;
use common::traffic::{QUEUES, Traffic};
use common::{Daemon, alone, two_cores, until};
use rustix::process::{Signal, kill_process};

/// With one polling thread, and with two, which share a CPU with the program.
fn daemons() -> Vec<Vec<String>> {
    vec![vec![], vec!["--reflect".to_owned()], vec!["--cores".to_owned(), two_cores()]]
}

fn tables_change_under_load(args: &[&str], design: Design) {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("nic.sock");
    let mut daemon = Daemon::start_with(&socket, args);
    let mut traffic = Traffic::new(&socket, design);
    traffic.exchange(200);
    let mut cores = || {
        let queues = daemon.program("spread").unwrap().queues;
        queues.iter().map(|q| q.core).collect::<HashSet<_>>().len()
    };
    let threads = args.last().map_or(1, |cores| 1 + cores.matches(',').count());
    assert_eq!(cores(), threads);
    traffic.set(Some(Rss::new(QUEUES)));
    assert_eq!(cores(), threads, "every worker keeps its queues");
    let before = traffic.counts;
    traffic.exchange(400);
    assert!(traffic.counts.iter().zip(before).all(|(now, before)| *now > before), "{:?}", traffic.counts);
    for round in 0..30 {
        let rss = traffic.any_table();
        traffic.set((round % 5 != 4).then_some(rss));
        traffic.exchange(traffic.random.clone().below(100));
    }
    traffic.drain();
    let status = daemon.program("spread").unwrap();
    assert_eq!(status.rss, None, "the last was none");
    assert_eq!(status.queues.iter().map(|q| q.queue).collect::<Vec<_>>(), [0, 1, 2, 3]);
    assert_eq!(status.queues.iter().map(|q| q.tx_packets).sum::<u64>(), traffic.total);
    let received: Vec<_> = status.queues.iter().map(|q| q.rx_packets).collect();
    assert_eq!(received, traffic.counts);
    assert!(status.queues.iter().all(|q| q.drop_ring_full + q.drop_no_buffer + q.drop_handoff_full == 0));
    assert!(!daemon.log().contains("panicked"), "{}", daemon.log());
}

#[test]
fn tables_change() {
    let _alone = alone();
    for args in daemons() {
        let args: Vec<_> = args.iter().map(String::as_str).collect();
        tables_change_under_load(&args, Design::GroupedEpoch);
        tables_change_under_load(&args, Design::Doorbell);
    }
}

fn daemons_die(args: &[&str]) {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("nic.sock");
    let mut daemon = Daemon::start_with(&socket, args);
    let mut traffic = Traffic::new(&socket, Design::GroupedEpoch);
    for _ in 0..12 {
        let rss = traffic.any_table();
        traffic.set(Some(rss));
        traffic.exchange(100);
        let (pid, moment) = (daemon.pid(), Duration::from_micros(traffic.random.below(3000)));
        let killer = std::thread::spawn(move || {
            std::thread::sleep(moment); // any moment will do
            kill_process(pid, Signal::KILL)
        });
        until("the daemon's death", || {
            traffic.turn();
            !traffic.program.alive()
        });
        killer.join().unwrap().unwrap();
        daemon.wait();
        // The rings hold packets, which the next daemon finds when it looks for the first time. What is asked meanwhile is kept.
        for _ in 0..20 {
            traffic.send();
        }
        let rss = traffic.any_table();
        assert!(matches!(traffic.program.set_rss(Some(&rss)), Err(Error::Gone)));
        traffic.tables.push(Some(Spreader::new(rss.clone())));
        daemon = Daemon::start_with(&socket, args);
        traffic.program.reconnect(&mut traffic.pairs, []).unwrap();
        assert_eq!(traffic.program.rss(), Some(&rss));
        traffic.exchange(100);
        traffic.settle(&mut daemon);
    }
    assert!(!daemon.log().contains("panicked"), "{}", daemon.log());
}

#[test]
fn a_successor_spreads_from_the_first_packet_on() {
    let _alone = alone();
    daemons_die(&[]);
    daemons_die(&["--cores", &two_cores()]);
}

#[test]
fn a_table_with_a_queue_that_is_not_there() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("nic.sock");
    let _daemon = Daemon::start(&socket);
    let mut traffic = Traffic::new(&socket, Design::GroupedEpoch);
    traffic.set(Some(Rss::new(2)));
    let why = traffic.program.set_rss(Some(&Rss::new(5))).unwrap_err().to_string();
    assert_eq!(why, "rss: table[4] is queue 4; the program has queues 0 to 3");
    assert_eq!(traffic.program.rss(), Some(&Rss::new(2)));
    traffic.exchange(100);
    assert_eq!(traffic.counts[2..], [0, 0]);
}
