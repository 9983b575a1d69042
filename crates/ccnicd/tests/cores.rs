//! Receive-side scaling over two polling cores, which hand packets to each other: programs come, go, are killed under load and write
//! over their regions, and the daemon ends in the middle of it.

#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::{Duration, Instant};

use ccnic::rss::Rss;
use ccnic::{Burst, Design};
use ccnic_control::messages::QueueStatus;
use ccnic_hostile::Scribbler;
use common::traffic::{QUEUES, Traffic};
use common::{Daemon, Forked, PATIENCE, Random, alone, seed, two_cores, until};
use rustix::process::Signal;

fn dropped(queue: &QueueStatus) -> u64 {
    queue.drop_ring_full + queue.drop_no_buffer + queue.drop_handoff_full
}

/// A program with RSS, whose packets are all over the daemon's cores.
fn spread(socket: &Path, design: Design) -> Traffic {
    let mut traffic = Traffic::new(socket, design);
    traffic.set(Some(Rss::new(QUEUES)));
    traffic
}

/// A daemon on two cores, and a program on it whose packets go round.
fn with_survivor(socket: &Path) -> (Daemon, Traffic) {
    let daemon = Daemon::start_with(socket, &["--cores", &two_cores()]);
    let mut survivor = spread(socket, Design::GroupedEpoch);
    survivor.exchange(100);
    (daemon, survivor)
}

/// Waits until the daemon has the survivor only, and holds no more than it did for it.
fn until_alone(daemon: &mut Daemon, survivor: &mut Traffic, holdings: (usize, usize)) {
    until("the end of all other programs, and of what was held for them", || {
        survivor.exchange(20);
        daemon.status().programs.len() == 1 && daemon.holdings() == holdings
    });
}

/// All that the survivor has sent has come back, and nothing was dropped.
fn lost_nothing(daemon: &mut Daemon, survivor: &mut Traffic) {
    survivor.drain();
    let queues = daemon.program("spread").unwrap().queues;
    assert_eq!(queues.iter().map(|q| q.rx_packets).sum::<u64>(), survivor.received);
    assert_eq!(queues.iter().map(dropped).sum::<u64>(), 0);
    assert!(!daemon.log().contains("panicked"), "{}", daemon.log());
}

#[test]
fn programs_come_and_go_beside_another() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("nic.sock");
    let (mut daemon, mut survivor) = with_survivor(&socket);
    let holdings = daemon.settled();
    for round in 0..15 {
        let mut guest = spread(&socket, Design::ALL[round % Design::ALL.len()]);
        let most = survivor.random.below(60);
        guest.exchange(most);
        (0..20).for_each(|_| guest.send()); // and leaves while they are under way
        drop(guest);
        survivor.exchange(50);
    }
    until_alone(&mut daemon, &mut survivor, holdings);
    lost_nothing(&mut daemon, &mut survivor);
}

/// Run by `a_program_is_killed_beside_another`, in a process of its own.
#[test]
#[ignore = "a child of another test"]
fn flooding_child() {
    let Ok(socket) = std::env::var("CCNIC_SOCKET") else { return };
    let design = Design::ALL[std::env::var("CCNIC_DESIGN").unwrap().parse::<usize>().unwrap()];
    let mut traffic = spread(Path::new(&socket), design);
    let start = Instant::now();
    while traffic.program.alive() && start.elapsed() < 2 * PATIENCE {
        // More than anything holds: rings and hand-off queues run over.
        (0..64).for_each(|_| traffic.send());
        traffic.receive(0);
    }
}

#[test]
fn a_program_is_killed_beside_another() {
    let _alone = alone();
    let mut random = Random::new(seed());
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("nic.sock");
    let log = directory.path().join("child.log");
    let (mut daemon, mut survivor) = with_survivor(&socket);
    let holdings = daemon.settled();
    for round in 0..6 {
        let design = (round % Design::ALL.len()).to_string();
        let env = [("CCNIC_SOCKET", socket.to_str().unwrap()), ("CCNIC_DESIGN", &design)];
        let mut child = Forked::start("flooding_child", &env, &log);
        until("packets of the flooding program", || {
            survivor.exchange(20);
            let programs = daemon.status().programs;
            programs.iter().any(|p| p.pid != std::process::id() as i32 && p.queues[0].tx_packets > 100)
        });
        let moment = Instant::now() + Duration::from_micros(random.below(20_000));
        while Instant::now() < moment {
            survivor.turn();
        }
        assert!(child.kill(), "{}", std::fs::read_to_string(&log).unwrap());
        until_alone(&mut daemon, &mut survivor, holdings);
    }
    lost_nothing(&mut daemon, &mut survivor);
}

/// A hostile program's life: sends packets that are spread over the daemon's cores, and writes over its region while they read there.
fn hostile_life(socket: &Path, design: Design, random: &mut Random) {
    let mut traffic = spread(socket, design);
    let (region, layout) = (traffic.program.region(), traffic.program.layout());
    let mut scribbler = Scribbler::new(region, layout, Random::new(random.word())).unwrap();
    let mut burst = Burst::new();
    for _ in 0..100 {
        (0..32).for_each(|_| traffic.send());
        scribbler.turn_to(random.below(QUEUES.into()) as u16).unwrap();
        for _ in 0..random.below(10) {
            if random.below(4) == 0 { scribbler.scribble() } else { scribbler.aim() }
        }
        for pair in &mut traffic.pairs {
            pair.rx_burst(&mut burst, 32);
            pair.free(&mut burst);
        }
    }
}

/// Run by `a_hostile_program_harms_only_itself`, in a process of its own.
#[test]
#[ignore = "a child of another test"]
fn hostile_child() {
    let Ok(socket) = std::env::var("CCNIC_SOCKET") else { return };
    let design = Design::ALL[std::env::var("CCNIC_DESIGN").unwrap().parse::<usize>().unwrap()];
    let mut random = Random::new(seed());
    let start = Instant::now();
    while start.elapsed() < 2 * PATIENCE {
        // A panic over what it finds in its region is its own affair.
        let _ = catch_unwind(AssertUnwindSafe(|| hostile_life(Path::new(&socket), design, &mut random)));
        println!("lived");
    }
}

/// Lets a hostile program at the daemon until it has lived some lives, and kills it.
fn beside_hostile(daemon: &mut Daemon, socket: &Path, survivor: &mut Traffic, design: usize) {
    let log = socket.with_extension(format!("hostile-{design}.log"));
    let (design, seed) = (design.to_string(), survivor.random.word().to_string());
    let env = [
        ("CCNIC_SOCKET", socket.to_str().unwrap()),
        ("CCNIC_DESIGN", design.as_str()),
        ("CCNIC_SEED", seed.as_str()),
    ];
    let mut child = Forked::start("hostile_child", &env, &log);
    let said = || std::fs::read_to_string(&log).unwrap();
    let (mut bad, mut queues) = (0, 0);
    until("bad packets of the hostile program, and good ones on several queues", || {
        survivor.exchange(20);
        let programs = daemon.status().programs;
        for hostile in programs.iter().filter(|p| p.pid != std::process::id() as i32) {
            bad = bad.max(hostile.queues.iter().map(|q| q.drop_bad_descriptor + q.drop_bad_chain).sum());
            queues = queues.max(hostile.queues.iter().filter(|q| q.rx_packets > 0).count());
        }
        assert!(child.ended().is_none(), "the hostile program has ended: {}", said());
        said().matches("lived").count() >= 10 && bad > 0 && queues > 1
    });
    assert!(child.kill(), "{}", said());
}

#[test]
fn a_hostile_program_harms_only_itself() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("nic.sock");
    let (mut daemon, mut survivor) = with_survivor(&socket);
    let holdings = daemon.settled();
    for design in 0..Design::ALL.len() {
        beside_hostile(&mut daemon, &socket, &mut survivor, design);
        until_alone(&mut daemon, &mut survivor, holdings);
    }
    lost_nothing(&mut daemon, &mut survivor);
    assert_eq!((survivor.received, survivor.program.alive()), (survivor.total, true));
}

/// A planned end under load: what was sent is served, also what was on its way from one core to the other, and no buffer is kept.
#[test]
fn a_daemon_that_stops_serves_what_was_handed_over() {
    let _alone = alone();
    for design in [Design::GroupedEpoch, Design::Packed, Design::Doorbell] {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("nic.sock");
        let args = ["--cores", &two_cores()];
        let mut daemon = Daemon::start_with(&socket, &args);
        let mut traffic = spread(&socket, design);
        for _ in 0..5 {
            traffic.exchange(100);
            (0..10).for_each(|_| traffic.send());
            assert!(daemon.signal(Signal::TERM).success(), "{}", daemon.log());
            until("the daemon's end", || !traffic.program.alive());
            traffic.drain();
            daemon = Daemon::start_with(&socket, &args);
            let found = traffic.program.reconnect(&mut traffic.pairs, []).unwrap();
            assert!(found == 0 || design == Design::Doorbell, "a daemon that retired kept {found} buffers");
        }
        traffic.exchange(100);
        assert!(!daemon.log().contains("panicked"), "{}", daemon.log());
    }
}

/// A program that floods and reads little: every packet is received or counted, by the daemon and for the program.
#[test]
fn what_is_dropped_is_counted() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("nic.sock");
    let mut daemon = Daemon::start_with(&socket, &["--cores", &two_cores()]);
    let mut traffic = spread(&socket, Design::GroupedEpoch);
    while traffic.total < 100_000 {
        (0..50).for_each(|_| traffic.send());
        traffic.receive(1);
    }
    until("an end of all packets", || {
        (0..QUEUES).for_each(|queue| traffic.receive(queue));
        let queues = daemon.program("spread").unwrap().queues;
        let sum = |of: fn(&QueueStatus) -> u64| queues.iter().map(of).sum::<u64>();
        sum(|q| q.tx_packets) == traffic.total && sum(|q| q.rx_packets + dropped(q)) == traffic.total
    });
    (0..QUEUES).for_each(|queue| {
        while traffic.pairs[usize::from(queue)].rx_ready() > 0 {
            traffic.receive(queue);
        }
    });
    let seen: u64 = traffic.pairs.iter().map(|pair| pair.drops().rx_dropped).sum();
    assert!(seen > 0, "nothing was dropped: this test tests nothing");
    assert_eq!(traffic.received + seen, traffic.total, "the program reads the same counts");
    assert!(!daemon.log().contains("panicked"), "{}", daemon.log());
}
