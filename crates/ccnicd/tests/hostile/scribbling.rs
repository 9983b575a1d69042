//! A hostile program beside a good one on the same polling core: whatever it writes into its region while the NIC reads
//! there, the good one notices nothing.

use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Instant;

use ccnic::host::QueuePair;
use ccnic::ring::{Ring, RingVisitor};
use ccnic::rss::Rss;
use ccnic::{Burst, Design, Layout};
use ccnic_client::Nic;
use ccnic_control::Connection;
use ccnic_control::messages::Request;
use ccnic_control::rss::RssMessage;
use ccnic_hostile::Scribbler;
use ccnic_shm::{NativeMemory, Pages, Region};
use ccnic_testing::RegionMemory;
use rustix::io::Errno;

use crate::common::flow::Flow;
use crate::common::{Daemon, Forked, PATIENCE, Random, alone, config, seed, until};

/// How the hostile program goes about it.
const MODES: [&str; 4] = ["scribble", "scribble-beside-traffic", "aim", "aim-beside-traffic"];

/// Lines in its log, one a life, before it is killed.
const LIVES: usize = 40;

/// Sends and receives without a look at what comes; a panic over what it finds in its region is its own affair.
fn traffic<R: Ring>(mem: &NativeMemory, layout: &Layout, life: &AtomicU32) {
    while life.load(Relaxed) != u32::MAX {
        let now = life.load(Relaxed);
        let _ = catch_unwind(AssertUnwindSafe(|| {
            let mut pair = QueuePair::<_, R>::new(mem.clone(), layout, 0).unwrap();
            let mut burst = Burst::new();
            for size in [64, 9000, 1500].into_iter().cycle() {
                pair.alloc(size, 8, &mut burst);
                pair.tx_burst(&mut burst);
                pair.free(&mut burst);
                for _ in 0..4 {
                    pair.rx_burst(&mut burst, 16);
                    pair.free(&mut burst);
                }
                if life.load(Relaxed) != now {
                    break;
                }
            }
        }));
    }
}

/// Attaches, and wants to be woken by a socket that nobody reads. With RSS the NIC reads bytes of packets that are written meanwhile.
/// What a NIC has sealed before is replaced by a copy that can be attached again.
fn attach(socket: &Path, region: &mut Region, spread: bool) -> Option<(Connection, UnixStream)> {
    region.renew().ok()?;
    let connection = Connection::open(socket).ok()?;
    let rss = spread.then(|| RssMessage::from(&Rss::new(1)));
    let request = Request::Attach { name: "hostile".into(), mac: None, rss };
    connection.ask(&request, Some(region.as_fd())).ok()?;
    let (ours, theirs) = UnixStream::pair().ok()?;
    connection.send(&Request::Notify { queue: 0, wakes: false }, Some(theirs.as_fd())).ok()?;
    Some((connection, ours))
}

/// One hostile program after another with the same region, until the NIC is gone: attaches, writes, leaves.
fn lives(
    socket: &Path,
    region: &mut Region,
    scribbler: &mut Scribbler,
    aims: bool,
    seed: u64,
    life: &AtomicU32,
) {
    let mut random = Random::new(!seed);
    let start = Instant::now();
    let mut again = Vec::new();
    while start.elapsed() < 2 * PATIENCE {
        scribbler.start_afresh();
        life.fetch_add(1, Relaxed);
        let Some(_connection) = attach(socket, region, random.below(2) == 0) else { break };
        for _ in 0..random.pick(&[100, 500, 2000, 5000]) {
            if aims { scribbler.aim() } else { scribbler.scribble() }
        }
        if random.below(4) == 0 {
            assert_eq!(scribbler.punch_hole(region), Err(Errno::PERM), "the NIC has sealed it");
        }
        if random.below(2) == 0 {
            scribbler.restore_header();
            again.extend(attach(socket, region, false)); // in whatever state it is; the NIC may refuse
        }
        if again.len() > 2 {
            again.clear();
        }
        println!("lived");
    }
    life.store(u32::MAX, Relaxed);
}

/// The life of a hostile program: traffic if its mode says so, and writes into its region, until it is killed.
struct Attack<'a> {
    socket: &'a Path,
    mode: &'a str,
    seed: u64,
}

impl RingVisitor for Attack<'_> {
    type Output = ();

    fn visit<R: Ring>(self) {
        let Attack { socket, mode, seed } = self;
        let layout = Layout::new(&config(R::DESIGN)).unwrap();
        let mut region = Region::create(layout.size(), Pages::Small).unwrap();
        let mem = region.memory();
        let mut scribbler = Scribbler::new(&region, &layout, Random::new(seed)).unwrap();
        let life = AtomicU32::new(0);
        let aims = mode.starts_with("aim");
        std::thread::scope(|scope| {
            scope.spawn(|| lives(socket, &mut region, &mut scribbler, aims, seed, &life));
            if mode.ends_with("traffic") {
                traffic::<R>(&mem, &layout, &life);
            }
        });
    }
}

/// Run by the tests below, in a process of its own.
#[test]
#[ignore = "a child of other tests"]
fn hostile_child() {
    let Ok(socket) = std::env::var("CCNIC_SOCKET") else { return };
    let number = |name| std::env::var(name).unwrap().parse::<u64>().unwrap();
    let (mode, seed) = (std::env::var("CCNIC_MODE").unwrap(), number("CCNIC_SEED"));
    let design = Design::ALL[number("CCNIC_DESIGN") as usize];
    design.dispatch(Attack { socket: Path::new(&socket), mode: &mode, seed });
}

/// Lets a hostile program at the NIC and keeps the good one's packets going round beside it.
fn beside(daemon: &mut Daemon, socket: &Path, flow: &mut Flow, mode: &str, seed: u64) {
    let log = socket.with_extension(format!("{mode}-{seed}.log"));
    let (design, seed) = ((flow.pair.config().design as u8).to_string(), seed.to_string());
    let env = [
        ("CCNIC_SOCKET", socket.to_str().unwrap()),
        ("CCNIC_DESIGN", design.as_str()),
        ("CCNIC_MODE", mode),
        ("CCNIC_SEED", seed.as_str()),
    ];
    let mut child = Forked::start("scribbling::hostile_child", &env, &log);
    let said = || std::fs::read_to_string(&log).unwrap();
    let lives = || said().matches("lived").count();
    let mut drops = 0;
    // It may die of what it finds in its region; not before it has done some harm.
    until("the doings of the hostile program", || {
        flow.exchange(50);
        let hostile = daemon.program("hostile");
        let queue = hostile.and_then(|p| p.queues.first().copied()).unwrap_or_default();
        drops = drops.max(queue.drop_bad_descriptor + queue.drop_bad_chain);
        (lives() >= LIVES && drops > 0) || child.ended().is_some()
    });
    assert!(lives() > 0 && drops > 0, "{mode}: the hostile program did not get far: {}", said());
    flow.exchange(500);
    println!("{mode}, seed {seed}: {} lives, {drops} drops; alive until killed: {}", lives(), child.kill());
    until("the end of the hostile program's attachments", || {
        flow.exchange(20);
        daemon.program("hostile").is_none()
    });
}

fn good_beside_hostile(design: Design) {
    let seed = seed();
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("nic.sock");
    let mut daemon = Daemon::start(&socket);
    let mut program =
        Nic::options().name("good").config(&config(design)).pages(Pages::Small).open(&socket).unwrap();
    let mut flow = Flow::new(program.queue_pair(0).unwrap(), &[64, 1500, 9000], 64);
    flow.exchange(100);
    daemon.status();
    let holdings = daemon.holdings();
    for (i, mode) in (0..).zip(MODES) {
        beside(&mut daemon, &socket, &mut flow, mode, seed.wrapping_add(i));
    }
    {
        let mut newcomer = Nic::options()
            .name("newcomer")
            .config(&config(design))
            .pages(Pages::Small)
            .open(&socket)
            .unwrap();
        let mut flow = Flow::new(newcomer.queue_pair(0).unwrap(), &[64, 9000], 64);
        flow.exchange(200);
    }
    until("the end of what was held for others", || {
        flow.exchange(20);
        daemon.program("newcomer").is_none() && daemon.holdings() == holdings
    });
    flow.drain();
    let good = daemon.program("good").unwrap().queues[0];
    assert_eq!((good.tx_packets, good.rx_packets), (flow.received, flow.received));
    assert_eq!((flow.lost, program.alive()), (0, true));
    assert!(!daemon.log().contains("panicked"), "{}", daemon.log());
}

fn hostile_with(design: Design) {
    let _alone = alone();
    good_beside_hostile(design);
}

#[test]
fn hostile_grouped_epoch() {
    hostile_with(Design::GroupedEpoch);
}

#[test]
fn hostile_grouped_clear() {
    hostile_with(Design::GroupedClear);
}

#[test]
fn hostile_packed() {
    hostile_with(Design::Packed);
}

#[test]
fn hostile_padded() {
    hostile_with(Design::Padded);
}

#[test]
fn hostile_doorbell() {
    hostile_with(Design::Doorbell);
}
