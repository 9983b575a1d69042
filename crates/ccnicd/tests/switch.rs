//! Programs on a switch, across processes: who receives what, programs that leave, that are killed and replaced, that do not read, that
//! are hostile; every design of region beside every other; and every frame accounted for.

#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use std::cell::RefCell;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

use ccnic::ring::{GroupedEpoch, Producer, Ring};
use ccnic::rss::Rss;
use ccnic::{Config, Desc, Design, Layout, SharedMemory, host};
use ccnic_control::Connection;
use ccnic_control::messages::{LearnedAddress, QueueStatus, Reply, Request};
use ccnic_shm::{Pages, Region};
use ccnic_testing::RegionMemory;
use common::station::{BROADCAST, GROUP, SHORTEST, Station, mac};
use common::{Daemon, Forked, alone, config, two_cores, until};
use rustix::process::Signal;
use tempfile::TempDir;

const SWITCH: &[&str] = &["--wire", "switch"];

thread_local! {
    /// For `--cores`: one polling thread, unless a test says otherwise.
    static CORES: RefCell<String> = const { RefCell::new(String::new()) };
}

fn start(args: &[&str]) -> (TempDir, std::path::PathBuf, Daemon) {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("nic.sock");
    let daemon = restart(&socket, args);
    (directory, socket, daemon)
}

fn restart(socket: &Path, args: &[&str]) -> Daemon {
    CORES.with_borrow(|cores| {
        let cores: &[&str] = if cores.is_empty() { &[] } else { &["--cores", cores] };
        Daemon::start_with(socket, &[SWITCH, cores, args].concat())
    })
}

/// Programs on two polling threads, which share their CPUs with them: all that holds on one. (But that an address is forgotten by both at
/// the same time.)
#[test]
fn on_two_cores() {
    CORES.set(two_cores());
    frames_are_switched_between_programs();
    a_program_learns_as_many_addresses_as_it_may();
    every_design_meets_every_other();
    a_receiver_that_never_reads_beside_one_that_does();
    a_program_is_killed_and_replaced();
    a_hostile_sender_beside_a_good_pair();
    a_program_that_waits_is_woken_by_another();
    programs_go_on_after_the_daemon_was_killed_and_the_switch_learns_anew();
}

fn station(socket: &Path, n: u8) -> Station {
    Station::open(socket, n, &config(Design::GroupedEpoch))
}

fn table(socket: &Path) -> Vec<LearnedAddress> {
    Connection::open(socket).unwrap().mac_table().unwrap()
}

/// Counters over all queues of all programs.
fn totals(daemon: &mut Daemon) -> impl Fn(fn(&QueueStatus) -> u64) -> u64 + use<> {
    let queues: Vec<_> = daemon.status().programs.into_iter().flat_map(|p| p.queues).collect();
    move |of| queues.iter().map(of).sum()
}

/// Every frame, and every copy of a flooded one, was delivered or dropped for a reason. `docs/switch.md` has the equation.
#[track_caller]
fn assert_conserved(daemon: &mut Daemon) {
    let sum = totals(daemon);
    let sent = sum(|q| q.tx_packets) + sum(|q| q.extra_copies);
    let invalid = sum(|q| q.drop_bad_descriptor) + sum(|q| q.drop_bad_chain) + sum(|q| q.drop_too_long);
    let switch = sum(|q| q.drop_too_short) + sum(|q| q.drop_bad_source) + sum(|q| q.drop_no_destination);
    let receivers = sum(|q| q.drop_ring_full) + sum(|q| q.drop_no_buffer) + sum(|q| q.drop_over_mtu);
    assert_eq!(sent, sum(|q| q.rx_packets) + invalid + switch + receivers, "{:?}", daemon.status().programs);
    assert!(!daemon.log().contains("panicked"), "{}", daemon.log());
}

/// Sends a frame, waits until each of `to` has it, and then until the daemon has dealt with it: nobody else has it.
#[track_caller]
fn cast(daemon: &mut Daemon, stations: &mut [Station], from: usize, destination: [u8; 6], to: &[usize]) {
    assert!(stations[from].send(destination, 100));
    let number = stations[from].sent - 1;
    for at in to {
        let mut came = Vec::new();
        until("a frame", || {
            came.extend(stations[*at].receive());
            !came.is_empty()
        });
        assert_eq!((came.len(), came[0].to, came[0].number), (1, destination, number), "at {at}");
    }
    let name = format!("station {}", stations[from].mac[5]);
    let sent = stations[from].sent;
    until("the frame to be dealt with", || daemon.program(&name).unwrap().queues[0].tx_packets == sent);
    for at in (0..stations.len()).filter(|at| !to.contains(at)) {
        assert_eq!(stations[at].receive(), [], "at {at}");
    }
}

#[test]
fn frames_are_switched_between_programs() {
    let _alone = alone();
    let (_directory, socket, mut daemon) = start(&[]);
    assert_eq!(daemon.status().wire, "switch");
    let mut stations: Vec<_> = (0..3).map(|n| station(&socket, n)).collect();
    assert_eq!(table(&socket), []);
    cast(&mut daemon, &mut stations, 0, mac(1), &[1, 2]); // not known
    cast(&mut daemon, &mut stations, 1, mac(0), &[0]);
    cast(&mut daemon, &mut stations, 0, mac(1), &[1]);
    cast(&mut daemon, &mut stations, 2, BROADCAST, &[0, 1]);
    cast(&mut daemon, &mut stations, 1, GROUP, &[0, 2]);
    cast(&mut daemon, &mut stations, 0, mac(0), &[]); // to itself
    let ids: Vec<_> = daemon.status().programs.iter().map(|p| p.id).collect();
    let learned: Vec<_> = table(&socket).iter().map(|known| (known.mac, known.program)).collect();
    assert_eq!(learned, [(mac(0), ids[0]), (mac(1), ids[1]), (mac(2), ids[2])]);
    // A program that leaves takes its addresses with it.
    drop(stations.remove(1));
    until("the end of its port", || table(&socket).len() == 2 && daemon.status().programs.len() == 2);
    cast(&mut daemon, &mut stations, 0, mac(1), &[1]); // flooded: to the one that is left
    let queue = daemon.program("station 0").unwrap().queues[0];
    assert_eq!((queue.flooded, queue.extra_copies, queue.drop_no_destination), (2, 1, 1));
    assert!(!daemon.log().contains("panicked"), "{}", daemon.log());
}

#[test]
fn addresses_are_forgotten_after_the_ageing_time() {
    let _alone = alone();
    let (_directory, socket, mut daemon) = start(&["--mac-ageing", "1"]);
    let mut stations: Vec<_> = (0..2).map(|n| station(&socket, n)).collect();
    cast(&mut daemon, &mut stations, 0, BROADCAST, &[1]);
    until("the end of its only address", || table(&socket).is_empty());
    cast(&mut daemon, &mut stations, 1, mac(0), &[0]);
    assert_eq!(daemon.program("station 1").unwrap().queues[0].flooded, 1);
}

#[test]
fn a_program_learns_as_many_addresses_as_it_may() {
    let _alone = alone();
    let (_directory, socket, mut daemon) = start(&["--mac-port", "3", "--mac-table", "8"]);
    let mut stations: Vec<_> = (0..2).map(|n| station(&socket, n)).collect();
    for n in 10..30 {
        assert!(stations[0].send_as(BROADCAST, mac(n), 60));
    }
    until("all of them", || {
        stations[1].receive();
        stations[1].received == 20
    });
    let queue = daemon.program("station 0").unwrap().queues[0];
    assert_eq!((table(&socket).len(), queue.not_learned), (3, 17));
    assert_conserved(&mut daemon);
}

/// What each pair of stations is to have under way.
const WINDOW: u64 = 24;

/// Stations that send to each other all the time, each to the next one, and forget nothing.
struct Ring3 {
    stations: Vec<Station>,
    lens: Vec<usize>,
}

impl Ring3 {
    fn new(socket: &Path, configs: &[Config]) -> Ring3 {
        let stations = (0..).zip(configs).map(|(n, config)| Station::open(socket, n, config)).collect();
        let mut this = Ring3 { stations, lens: vec![SHORTEST, 64, 65, 300, 448, 600, 1500, 4096, 9000] };
        this.meet();
        this
    }

    /// Everybody says who he is, and hears all others: what follows is not flooded.
    fn meet(&mut self) {
        let others = self.stations.len() as u64 - 1;
        for station in &mut self.stations {
            assert!(station.send(BROADCAST, 60));
        }
        until("all greetings", || {
            self.stations.iter_mut().for_each(|station| _ = station.receive());
            self.stations.iter().all(|station| station.received == others)
        });
    }

    /// Frames that station `at` has sent to the next one, and those that have come there.
    fn turn(&mut self) {
        let n = self.stations.len();
        for at in 0..n {
            let to = (at + 1) % n;
            let sent = self.stations[at].sent - 1;
            let came = self.stations[to].received - (n as u64 - 1);
            if sent - came < WINDOW {
                let len = self.lens[(sent / 8) as usize % self.lens.len()];
                let destination = self.stations[to].mac;
                self.stations[at].send(destination, len);
            }
            self.stations[to].receive();
        }
    }

    fn exchange(&mut self, frames: u64) {
        let goal: Vec<_> = self.stations.iter().map(|station| station.received + frames).collect();
        until("frames of all", || {
            self.turn();
            self.stations.iter().zip(&goal).all(|(station, goal)| station.received >= *goal)
        });
    }

    fn drain(&mut self) {
        let sum = |of: fn(&Station) -> u64| move |stations: &[Station]| stations.iter().map(of).sum::<u64>();
        let (sent, received) = (sum(|s| s.sent), sum(|s| s.received));
        let n = self.stations.len() as u64;
        until("what is under way", || {
            self.stations.iter_mut().for_each(|station| _ = station.receive());
            sent(&self.stations) - n == received(&self.stations) - n * (n - 1)
        });
    }
}

#[test]
fn every_design_meets_every_other() {
    let _alone = alone();
    let managed = Config { shared_pool: false, ..config(Design::GroupedEpoch) };
    let plain = Config { inline: false, ..config(Design::GroupedEpoch) };
    let of = config;
    let rings = [
        [of(Design::GroupedEpoch), of(Design::Doorbell), managed],
        [of(Design::GroupedClear), of(Design::GroupedEpoch), of(Design::Packed)],
        [plain, of(Design::Padded), of(Design::GroupedEpoch)],
        [managed, of(Design::Packed), plain],
    ];
    for configs in rings {
        let (_directory, socket, mut daemon) = start(&[]);
        let mut ring = Ring3::new(&socket, &configs);
        ring.exchange(2000);
        ring.drain();
        let sum = totals(&mut daemon);
        assert_eq!(sum(|q| q.drop_ring_full) + sum(|q| q.drop_no_buffer) + sum(|q| q.drop_over_mtu), 0);
        assert_eq!(sum(|q| q.flooded), 3, "the greetings");
        assert_conserved(&mut daemon);
    }
}

#[test]
fn a_receiver_that_never_reads_beside_one_that_does() {
    let _alone = alone();
    let (_directory, socket, mut daemon) = start(&[]);
    let mut ring = Ring3::new(&socket, &[config(Design::GroupedEpoch); 2]);
    let mut deaf = station(&socket, 7);
    assert!(deaf.send(BROADCAST, 60));
    until("its greeting", || {
        ring.stations.iter_mut().for_each(|station| _ = station.receive());
        ring.stations.iter().all(|station| station.received == 2)
    });
    // As if it had not come: the ring counts what its stations send to each other.
    ring.stations.iter_mut().for_each(|station| station.received -= 1);
    let mut sent = 0;
    until("many frames to the deaf one, and many between the others", || {
        ring.turn();
        // Alternating destinations in one queue: the frames to the other station are behind those to the deaf one.
        let before = ring.stations[0].sent;
        if ring.stations[0].send(deaf.mac, 200) {
            sent += 1;
            ring.stations[0].sent = before; // numbers of frames to the other station go on
        }
        sent >= 5000 && ring.stations.iter().all(|station| station.received >= 5000)
    });
    ring.drain();
    let mut queue = QueueStatus::default();
    until("all to be dealt with", || {
        queue = daemon.program("station 7").unwrap().queues[0];
        queue.rx_packets + queue.drop_ring_full + queue.drop_no_buffer == sent
    });
    assert!(queue.drop_ring_full + queue.drop_no_buffer >= sent - 512, "{queue:?}");
    let told: u64 = deaf.pairs.iter().map(|pair| pair.drops().rx_dropped).sum();
    assert_eq!(told, queue.drop_ring_full + queue.drop_no_buffer, "the program is told");
    for name in ["station 0", "station 1"] {
        let queue = daemon.program(name).unwrap().queues[0];
        assert_eq!(queue.drop_ring_full + queue.drop_no_buffer, 0, "{name}");
    }
    assert_conserved(&mut daemon);
}

/// Run by `a_program_is_killed_and_replaced`, in a process of its own: a flood of broadcasts and of frames to station 0.
#[test]
#[ignore = "a child of another test"]
fn sending_child() {
    let socket = std::env::var("CCNIC_SOCKET").unwrap();
    let mut station = station(Path::new(&socket), 9);
    loop {
        station.send(BROADCAST, 1500);
        station.send(mac(0), 64);
        station.receive();
    }
}

#[test]
fn a_program_is_killed_and_replaced() {
    let _alone = alone();
    let (directory, socket, mut daemon) = start(&[]);
    let mut stations = vec![station(&socket, 0), station(&socket, 1)];
    let holdings = daemon.settled();
    for _ in 0..4 {
        let env = [("CCNIC_SOCKET", socket.to_str().unwrap())];
        let mut child = Forked::start("sending_child", &env, &directory.path().join("child.log"));
        let mut came = 0;
        until("its frames", || {
            for station in &mut stations {
                came += station.receive().iter().filter(|frame| frame.from == mac(9)).count();
                station.send(mac(9), 64); // which it has not read yet when it dies
            }
            came >= 2000
        });
        assert!(table(&socket).iter().any(|known| known.mac == mac(9)));
        assert!(child.kill());
        until("its end", || {
            let gone = daemon.program("station 9").is_none() && daemon.holdings() == holdings;
            let left: usize = stations.iter_mut().map(|station| station.receive().len()).sum();
            gone && left == 0 // in this order: nothing comes any more
        });
        assert!(table(&socket).iter().all(|known| known.mac != mac(9)), "its address went with it");
        // Another program comes with its address.
        stations.iter_mut().for_each(|station| station.forget(mac(9)));
        let mut next = station(&socket, 9);
        assert!(next.send(BROADCAST, 60));
        until("the successor to be known", || {
            stations.iter_mut().for_each(|station| _ = station.receive());
            table(&socket).iter().any(|known| known.mac == mac(9))
        });
        assert!(stations[1].send(mac(9), 100));
        until("a frame to it", || next.receive().iter().any(|came| came.from == mac(1)));
        drop(next);
        until("its end", || {
            let gone = daemon.program("station 9").is_none() && daemon.holdings() == holdings;
            let left: usize = stations.iter_mut().map(|station| station.receive().len()).sum();
            gone && left == 0 // in this order: nothing comes any more
        });
        stations.iter_mut().for_each(|station| station.forget(mac(9)));
    }
    assert!(!daemon.log().contains("panicked"), "{}", daemon.log());
}

/// Descriptors that name no buffer, one buffer again and again, endless chains, frames from a group address: beside a good pair.
#[test]
fn a_hostile_sender_beside_a_good_pair() {
    let _alone = alone();
    let (_directory, socket, mut daemon) = start(&[]);
    let mut ring = Ring3::new(&socket, &[config(Design::GroupedEpoch); 2]);
    let layout = Layout::new(&config(Design::GroupedEpoch)).unwrap();
    let region = Region::create(layout.size(), Pages::Small).unwrap();
    let mem = region.memory();
    host::format(&mem, &layout);
    let connection = Connection::open(&socket).unwrap();
    let request = Request::Attach { name: "stranger".into(), mac: None, rss: None };
    assert!(matches!(connection.ask(&request, Some(region.as_fd())), Ok(Reply::Attached)));
    let mut tx = <GroupedEpoch as Ring>::Producer::resume(&mem, &layout.queue(0).unwrap().tx);
    let (pool, size) = (layout.pool().buffers, layout.size());
    let mut random = common::Random::new(common::seed());
    mem.write(pool + 2048, &[0xff; 2048]);
    let (mut pushed, goal) = (0, ring.stations[0].received + 5000);
    until("laps of bad descriptors, and frames of the good pair", || {
        let descs: [Desc; 8] = std::array::from_fn(|_| {
            let at = match random.below(4) {
                0 => random.below(u64::from(u32::MAX)) as u32,
                1 => size - random.below(64) as u32,
                _ => pool + 2048 + random.below(64) as u32,
            };
            Desc::new(at, random.below(2200) as u16, 0).with_more(random.below(16) == 0)
        });
        let room = tx.room(&mem, 8).min(8);
        pushed += tx.push(&mem, &descs[..room]);
        ring.turn();
        pushed >= 20_000 && ring.stations[0].received >= goal
    });
    ring.drain();
    for name in ["station 0", "station 1"] {
        let queue = daemon.program(name).unwrap().queues[0];
        assert_eq!(queue.drop_ring_full + queue.drop_no_buffer + queue.drop_bad_descriptor, 0, "{name}");
    }
    let stranger = daemon.program("stranger").unwrap().queues[0];
    assert!(stranger.drop_bad_descriptor > 1000, "{stranger:?}");
    assert!(stranger.drop_bad_source > 100 && stranger.rx_packets == 0, "{stranger:?}");
    assert!(!daemon.log().contains("panicked"), "{}", daemon.log());
}

/// A program that sleeps until another one sends to it, on each of its queues.
#[test]
fn a_program_that_waits_is_woken_by_another() {
    let _alone = alone();
    let (_directory, socket, _daemon) = start(&[]);
    let several = Config { queues: 2, ..config(Design::GroupedEpoch) };
    let mut sender = station(&socket, 0);
    let mut sleeper = Station::open(&socket, 1, &several);
    for round in 0..20 {
        let mut rss = Rss::new(2);
        rss.table.fill(round % 2);
        sleeper.nic.set_rss((round % 5 != 4).then_some(&rss)).unwrap();
        let queue = if round % 5 == 4 { 0 } else { usize::from(round % 2) };
        assert!(sender.send(mac(1), 64));
        until("a frame that wakes its receiver", || {
            sleeper.pairs[queue].wait(Duration::from_secs(10)).unwrap();
            !sleeper.receive_on(queue).is_empty()
        });
    }
    assert_eq!(sleeper.received, 20);
}

#[test]
fn programs_go_on_after_the_daemon_was_killed_and_the_switch_learns_anew() {
    let _alone = alone();
    let (_directory, socket, mut daemon) = start(&[]);
    let mut stations: Vec<_> = (0..3).map(|n| station(&socket, n)).collect();
    cast(&mut daemon, &mut stations, 0, BROADCAST, &[1, 2]);
    daemon.signal(Signal::KILL);
    until("the daemon's death", || stations.iter().all(|station| !station.nic.alive()));
    let mut daemon = restart(&socket, &[]);
    for station in &mut stations {
        station.nic.reconnect(&mut station.pairs, []).unwrap();
        station.sent = 0; // the daemon counts anew, and so do frames
    }
    assert_eq!(table(&socket), []);
    // Addresses that did not speak before: their frames' numbers begin at 0.
    stations.iter_mut().for_each(|station| station.mac[4] = 2);
    let macs: Vec<_> = stations.iter().map(|station| station.mac).collect();
    cast(&mut daemon, &mut stations, 0, macs[1], &[1, 2]);
    cast(&mut daemon, &mut stations, 1, macs[0], &[0]);
    cast(&mut daemon, &mut stations, 0, macs[1], &[1]);
    assert_conserved(&mut daemon);
}

#[test]
fn a_loopback_has_no_address_table() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("nic.sock");
    let _daemon = Daemon::start(&socket);
    let why = Connection::open(&socket).unwrap().mac_table().unwrap_err().to_string();
    assert!(why.contains("--wire switch"), "{why}");
}
