//! The interface on simulated cores with random latencies. Host and NIC run on two cores, each with a random delay before each
//! access, on machines with random path latencies; the oracle of `ccnic-check` checks every packet.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use crate::common::{Named, Random, named, seed};
use ccnic::host;
use ccnic::ring::{Doorbell, GroupedClear, GroupedEpoch, Packed, Padded, Ring};
use ccnic::{Config, Layout, SharedMemory};
use ccnic_check::rig::Wire;
use ccnic_check::sides::{Program, serve};
use ccnic_check::suite::{configs, wires};
use ccnic_sim::platform::Platform;
use ccnic_sim::time::Ps;
use ccnic_sim::{Agent, Machine, Sim};

/// Runs for each ring, and packets in each.
const RUNS: u64 = 60;
const PACKETS: u64 = 300;
/// A run that takes longer than this makes no progress.
const PATIENCE: Ps = 20_000_000_000;

/// A shared memory with a random delay before each access, sometimes a long one, so that every order of the two sides' accesses
/// occurs.
struct Thinking<'a> {
    agent: Agent<'a>,
    random: RefCell<Random>,
    /// Nanoseconds, at most.
    most: u64,
}

impl<'a> Thinking<'a> {
    fn new(agent: Agent<'a>, most: u64, seed: u64) -> Thinking<'a> {
        Thinking { agent, random: RefCell::new(Random::new(seed)), most }
    }

    fn think(&self) {
        let mut random = self.random.borrow_mut();
        if self.most > 0 && random.one_in(4) {
            let most = if random.one_in(50) { 20 * self.most } else { self.most };
            let time = random.below(most) as f64;
            drop(random);
            self.agent.work(time);
        }
    }
}

impl SharedMemory for Thinking<'_> {
    type Adopt = ();

    fn load(&self, at: u32) -> u64 {
        self.think();
        self.agent.load(at)
    }

    fn store(&self, at: u32, value: u64) {
        self.think();
        self.agent.store(at, value);
    }

    fn load_acquire(&self, at: u32) -> u64 {
        self.think();
        self.agent.load_acquire(at)
    }

    fn store_release(&self, at: u32, value: u64) {
        self.think();
        self.agent.store_release(at, value);
    }

    fn compare_exchange(&self, at: u32, current: u64, new: u64) -> Result<u64, u64> {
        self.think();
        self.agent.compare_exchange(at, current, new)
    }

    fn read(&self, at: u32, to: &mut [u8]) {
        self.think();
        self.agent.read(at, to);
    }

    fn write(&self, at: u32, from: &[u8]) {
        self.think();
        self.agent.write(at, from);
    }

    fn with<R>(&self, at: u32, len: u32, f: impl FnOnce(&[u8]) -> R) -> R {
        self.think();
        self.agent.with(at, len, f)
    }

    fn with_mut<R>(&self, at: u32, len: u32, f: impl FnOnce(&mut [u8]) -> R) -> R {
        self.think();
        self.agent.with_mut(at, len, f)
    }

    fn prefetch_read(&self, at: u32) {
        self.agent.prefetch_read(at);
    }

    fn prefetch_own(&self, at: u32) {
        self.agent.prefetch_own(at);
    }

    fn prefetch_overwrite(&self, at: u32) {
        self.agent.prefetch_overwrite(at);
    }

    fn demote(&self, at: u32) {
        self.agent.demote(at);
    }

    fn relax(&self) {
        self.agent.relax();
    }
}

/// A machine with random latencies, sometimes with tiny caches.
fn machine(random: &mut Random) -> Platform {
    let mut platform = named(random.pick(&["spr", "icx", "spr-one-socket", "cxl"]));
    let mut set = |key: &str, value: f64| platform = platform.overridden(key, value).unwrap();
    for key in ["path.miss", "path.mesh", "path.lookup", "path.snoop", "path.fill", "path.home_extra"] {
        set(key, 1.0 + random.below(60) as f64);
    }
    if random.one_in(3) {
        set("l2.ways", 2.0);
        set("l2.size", 4.0);
    }
    for key in ["migratory_remote", "migratory_local", "dataless_full_line", "demote"] {
        set(&format!("protocol.{key}"), random.below(2) as f64);
    }
    set("core.store_queue", random.pick(&[2.0, 72.0]));
    set("core.fill_buffers", random.pick(&[2.0, 12.0]));
    platform
}

fn run<R: Ring>(seed: u64) {
    let _named = Named(seed);
    let mut random = Random::new(seed);
    let platform = machine(&mut random);
    let all: Vec<Config> = configs::<R>();
    let mut config = all[random.below(all.len() as u64) as usize];
    let wire = random.pick(wires(&config));
    let wire = if wire == Wire::Sink { Wire::Loopback } else { wire };
    let small = random.one_in(3);
    if small {
        config.buffers = 64; // magazines may keep most of them
    }
    let layout = Layout::new(&config).unwrap();
    let mut machine = Machine::new(&platform, layout.size(), &[(0, 0), (1, 1)]).unwrap();
    let segment = layout.nic_segment();
    machine.set_home(segment.start, segment.len() as u32, 1);
    let mut sim = Sim::new(machine);
    host::format(&sim.untimed(0), &layout);

    let stop = Rc::new(Cell::new(false));
    let thinks = [0, 1].map(|_| random.pick(&[0, 3, 30, 200]));
    let [host_seed, nic_seed, copies_seed] = [0; 3].map(|_| random.next());
    let stopped = Rc::clone(&stop);
    sim.spawn(0, move |agent| {
        let mut program =
            Program::<Thinking<'_>, R>::new(Thinking::new(agent, thinks[0], host_seed), &layout);
        program.most = if small { 6 } else { usize::MAX };
        program.exchange(PACKETS, wire, |_, outstanding| {
            assert!(agent.now() < PATIENCE, "no progress: {outstanding} packets are outstanding");
            relax(&agent);
        });
        stopped.set(true);
    })
    .unwrap();
    sim.spawn(1, move |agent| {
        let [mem, copies] = [nic_seed, copies_seed].map(|seed| Thinking::new(agent, thinks[1], seed));
        serve::<_, R>(mem, &copies, &layout, wire, || stop.get(), || relax(&agent));
    })
    .unwrap();
    sim.run(2 * PATIENCE);
    assert!(sim.is_done(0) && sim.is_done(1), "a side makes no progress: {config:?}, {wire:?}");
    let machine = sim.machine();
    machine.audit().unwrap();
    assert_eq!(machine.rows().missing, 0);
}

/// One iteration of polling; the delay is bounded, so that a poll follows even if no notification comes.
fn relax(agent: &Agent<'_>) {
    agent.set_deadline(Some(agent.now() + 50_000_000));
    agent.relax();
}

fn all<R: Ring>() {
    let seed = seed();
    (seed..seed + RUNS).for_each(run::<R>);
}

#[test]
fn grouped_epoch() {
    all::<GroupedEpoch>();
}

#[test]
fn grouped_clear() {
    all::<GroupedClear>();
}

#[test]
fn packed() {
    all::<Packed>();
}

#[test]
fn padded() {
    all::<Padded>();
}

#[test]
fn doorbell() {
    all::<Doorbell>();
}
