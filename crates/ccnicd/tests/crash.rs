//! Deaths at random moments under load: of the daemon, and of a program beside another one.

#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::time::{Duration, Instant};

use ccnic::{Burst, Config, Design, Layout};
use ccnic_check::oracle::Held;
use ccnic_client::{Nic, Pages, QueuePair};
use ccnic_shm::{HUGE_PAGE, Region};
use common::flow::Flow;
use common::{Daemon, Forked, PATIENCE, Random, alone, config, seed, until};
use rustix::process::{Signal, kill_process};

/// Deaths per case.
const ROUNDS: u32 = 12;

/// Slots of 128 bytes in all the buffers that can be allocated. Each buffer is handed out once only.
fn allocatable(pair: &mut QueuePair, layout: &Layout) -> usize {
    let mut held = Held::new(layout);
    let mut bursts = Vec::new();
    // Large ones first: small ones are then not taken from large ones.
    for size in [4096, 64] {
        loop {
            let mut burst = Burst::new();
            if pair.alloc(size, 32, &mut burst) == 0 {
                break;
            }
            burst.as_slice().iter().for_each(|buf| held.take(buf.desc()));
            bursts.push(burst);
        }
    }
    bursts.iter_mut().for_each(|burst| pair.free(burst));
    held.count
}

/// Kills the daemon somewhere within the next milliseconds while packets flow.
fn kill_under_load(daemon: &mut Daemon, program: &Nic, flow: &mut Flow, random: &mut Random) {
    let (pid, moment) = (daemon.pid(), Duration::from_micros(random.below(4000)));
    let killer = std::thread::spawn(move || {
        std::thread::sleep(moment); // any moment will do
        kill_process(pid, Signal::KILL)
    });
    until("the daemon's death", || {
        (0..16).for_each(|_| flow.turn());
        !program.alive()
    });
    killer.join().unwrap().unwrap();
    assert_eq!(daemon.wait().signal(), Some(9), "{}", daemon.log());
}

fn daemon_dies(config: Config, pages: Pages, sizes: &[u16], window: u64) {
    let mut random = Random::new(seed());
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("nic.sock");
    let mut daemon = Daemon::start(&socket);
    let mut program = Nic::options().name("survivor").config(&config).pages(pages).open(&socket).unwrap();
    let layout = *program.layout();
    let mut pair = program.queue_pair(0).unwrap();
    let all = allocatable(&mut pair, &layout);
    let whole = (config.buffers * 32) as usize;
    let spare = if config.has_areas() { 32 } else { 0 };
    let at_start = if config.shared_pool { all + spare == whole } else { all < whole };
    assert!(at_start, "{all} of {whole} at the start");
    let mut flow = Flow::new(pair, sizes, window);
    for round in 0..ROUNDS {
        flow.exchange(1 + random.below(200));
        kill_under_load(&mut daemon, &program, &mut flow, &mut random);
        daemon = Daemon::start(&socket);
        flow.nic_died();
        assert!(program.region().is_sealed().unwrap(), "the daemon has sealed what it mapped");
        program.reconnect([&mut flow.pair], []).unwrap();
        until("a packet sent after the death", || {
            flow.turn();
            flow.recovered()
        });
        println!(
            "{:?} {sizes:?} round {round}: {} received, {} lost",
            config.design, flow.received, flow.lost
        );
    }
    flow.exchange(500);
    for _ in 0..3 {
        flow.exchange(100);
        flow.drain();
        assert!(daemon.signal(Signal::TERM).success(), "{}", daemon.log());
        until("the daemon's end", || !program.alive());
        daemon = Daemon::start(&socket);
        let found = program.reconnect([&mut flow.pair], []).unwrap();
        assert!(found == 0 || !config.shared_pool, "a daemon that retired kept {found} buffers");
        let now = allocatable(&mut flow.pair, &layout);
        // With the host-managed pool up to as many receive buffers are posted as at the start.
        assert!(now >= all && now <= whole, "{now} slots to allocate, {all} at the start of {whole}");
        assert!(now == all || !config.shared_pool, "{now} slots to allocate, {all} at the start");
    }
    assert!(!daemon.log().contains("panicked"), "{}", daemon.log());
}

/// All three sizes with every design.
fn daemon_dies_with(design: Design, shared_pool: bool) {
    let _alone = alone();
    let config = Config { shared_pool, ..config(design) };
    daemon_dies(config, Pages::Small, &[64], 128);
    daemon_dies(config, Pages::Small, &[1500, 9000, 64], 64);
}

#[test]
fn daemon_dies_grouped_epoch() {
    daemon_dies_with(Design::GroupedEpoch, true);
}

#[test]
fn daemon_dies_grouped_clear() {
    daemon_dies_with(Design::GroupedClear, true);
}

#[test]
fn daemon_dies_packed() {
    daemon_dies_with(Design::Packed, true);
}

#[test]
fn daemon_dies_padded() {
    daemon_dies_with(Design::Padded, true);
}

#[test]
fn daemon_dies_doorbell() {
    daemon_dies_with(Design::Doorbell, false);
}

#[test]
fn daemon_dies_host_managed() {
    daemon_dies_with(Design::GroupedEpoch, false);
    daemon_dies_with(Design::Packed, false);
}

/// The region of a trusted user is not sealed, so a successor serves it as it is.
#[test]
fn daemon_dies_that_trusts_the_program() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("nic.sock");
    let user = rustix::process::geteuid().to_string();
    let trusting = ["--trusted-users", user.as_str()];
    let daemon = Daemon::start_with(&socket, &trusting);
    let mut program = Nic::options().name("trusted").config(&config(Design::Packed)).open(&socket).unwrap();
    let memory = |program: &Nic| rustix::fs::fstat(program.region()).unwrap().st_ino;
    let before = memory(&program);
    let mut flow = Flow::new(program.queue_pair(0).unwrap(), &[64, 1500], 64);
    flow.exchange(100);
    assert!(!program.region().is_sealed().unwrap());
    drop(daemon);
    until("the daemon's end", || !program.alive());
    let _daemon = Daemon::start_with(&socket, &trusting);
    flow.nic_died();
    program.reconnect([&mut flow.pair], []).unwrap();
    flow.exchange(500);
    assert_eq!(memory(&program), before, "not copied");
}

/// Twice the region on huge pages while it is copied.
#[test]
fn daemon_dies_huge_pages() {
    let _alone = alone();
    let config = config(Design::GroupedEpoch);
    let layout = Layout::new(&Config { page: HUGE_PAGE, ..config }).unwrap();
    match Region::create(2 * layout.size(), Pages::Huge) {
        Ok(_) => daemon_dies(config, Pages::Huge, &[64, 9000, 1500], 64),
        Err(e) => println!("not tested: {e}"),
    }
}

/// What the flooding program does, in a process of its own, until it is killed.
fn flood(socket: &Path, design: Design) {
    let mut program =
        Nic::options().name("flooder").config(&config(design)).pages(Pages::Small).open(socket).unwrap();
    let pair = program.queue_pair(0).unwrap();
    let mut flow = Flow::new(pair, &[64, 9000, 1500], 100);
    let start = Instant::now();
    while program.alive() && start.elapsed() < 2 * PATIENCE {
        (0..64).for_each(|_| flow.turn());
    }
}

/// Run by `a_program_dies_beside_another`, in a process of its own.
#[test]
#[ignore = "a child of another test"]
fn flooding_child() {
    let Ok(socket) = std::env::var("CCNIC_SOCKET") else { return };
    let design: usize = std::env::var("CCNIC_DESIGN").unwrap().parse().unwrap();
    let design = Design::ALL[design];
    flood(Path::new(&socket), design);
}

#[test]
fn a_program_dies_beside_another() {
    let _alone = alone();
    let mut random = Random::new(seed());
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("nic.sock");
    let child_log = directory.path().join("child.log");
    let mut daemon = Daemon::start(&socket);
    let mut program = Nic::options()
        .name("survivor")
        .config(&config(Design::GroupedEpoch))
        .pages(Pages::Small)
        .open(&socket)
        .unwrap();
    let mut flow = Flow::new(program.queue_pair(0).unwrap(), &[64, 1500], 64);
    flow.exchange(100);
    daemon.status();
    let holdings = daemon.holdings();
    for round in 0..15usize {
        let design = (round % 5).to_string();
        let env = [("CCNIC_SOCKET", socket.to_str().unwrap()), ("CCNIC_DESIGN", &design)];
        let mut child = Forked::start("flooding_child", &env, &child_log);
        // Two in three die under load, the third wherever it has come: before, while or after it attaches.
        if round % 3 != 2 {
            until("packets of the flooding program", || {
                flow.exchange(20);
                daemon.program("flooder").is_some_and(|p| p.queues[0].rx_packets > 100)
            });
        }
        let moment = Instant::now() + Duration::from_micros(random.below(30_000));
        while Instant::now() < moment {
            flow.turn();
        }
        let child_said = || std::fs::read_to_string(&child_log).unwrap();
        assert!(child.kill(), "the flooding program did not wait to be killed: {}", child_said());
        until("the end of the dead program's attachment, and of all that was held for it", || {
            flow.exchange(20);
            daemon.program("flooder").is_none() && daemon.holdings() == holdings
        });
        flow.exchange(200);
    }
    flow.drain();
    let left = daemon.program("survivor").unwrap().queues[0];
    assert_eq!((left.tx_packets, left.rx_packets), (flow.received, flow.received));
    assert_eq!((flow.lost, program.alive()), (0, true));
    assert!(!daemon.log().contains("panicked"), "{}", daemon.log());
}
