//! Random programs on few lines, contended by up to 64 cores with tiny caches, in one to four sockets. A line has one owner at a
//! time, every load returns a value that coherence and x86-TSO allow, every program ends, and every row of the protocol's tables is
//! used.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use crate::common::{Named, Random, seed};
use ccnic::SharedMemory;
use ccnic_sim::platform::Platform;
use ccnic_sim::protocols::table::{HOME_ROWS, Request};
use ccnic_sim::time::Ps;
use ccnic_sim::witness::{Commit, Rows};
use ccnic_sim::{Agent, End, Link, Machine, Sim, Topology};

/// Runs, and accesses in each.
const RUNS: u64 = 120;
const ACCESSES: u64 = 5000;
/// Pages of memory: the homes alternate.
const PAGES: u32 = 4;
const LINES: u32 = PAGES * 64;
/// A run that takes longer than this has stopped.
const PATIENCE: Ps = 100_000_000_000;

/// A load: the value that it returned, and the number of stores of all cores when it began and when it ended.
#[derive(Debug, Clone, Copy)]
struct Seen {
    at: u32,
    value: u64,
    began: usize,
    ended: usize,
}

/// A core's accesses to words, in program order.
#[derive(Debug, Clone, Copy)]
enum Did {
    Stored(u32, u64),
    Loaded(Seen),
}

type Log = Rc<RefCell<Vec<Did>>>;

/// A machine with few entries in each of its queues and caches, and the number of its sockets.
fn machine(random: &mut Random) -> (Platform, Topology) {
    let name = random.pick(&["spr", "icx", "spr-one-socket", "cxl", "spr-filter"]);
    let mut platform = Platform::named(name).unwrap();
    let mut set = |key: &str, value: f64| platform = platform.overridden(key, value).unwrap();
    set("l2.ways", 1.0);
    set("l2.size", 1.0);
    let ways = random.pick(&[1.0, 2.0, 4.0, 8.0]);
    set("l2.ways", ways);
    if name == "spr-filter" {
        set("llc.slices", 1.0);
    }
    set("llc.ways", 1.0);
    set("llc.size", random.pick(&[1.0, 2.0, 16.0]));
    set("llc.ways", random.pick(&[1.0, 2.0, 4.0]));
    if name == "spr-filter" {
        set("llc.slices", random.pick(&[1.0, 2.0, 4.0]));
        // As few as one line for all cores of a socket.
        set("snoop_filter.sets", random.pick(&[1.0, 4.0, 2048.0]));
        set("snoop_filter.ways", random.pick(&[1.0, 2.0, 16.0]));
    }
    set("core.fill_buffers", random.pick(&[1.0, 2.0, 4.0, 16.0]));
    set("core.store_queue", random.pick(&[1.0, 3.0, 56.0]));
    set("core.load_queue", random.pick(&[2.0, 16.0, 72.0]));
    set("core.rob", random.pick(&[12.0, 64.0, 512.0]));
    for key in ["migratory_remote", "migratory_local", "dataless_full_line", "demote"] {
        set(&format!("protocol.{key}"), random.below(2) as f64);
    }
    set("protocol.speculative_memory_read", random.below(2) as f64);
    let own = Topology::of(&platform);
    let more = random.pick(&[0, 0, 3, 4]);
    let topology = if name == "spr-one-socket" || more == 0 { own } else { ring(more, own.link(1)) };
    (platform, topology)
}

/// Sockets in a ring; each link takes longer than the one before.
fn ring(sockets: u8, link: Link) -> Topology {
    let mut topology = Topology::new(sockets.into()).unwrap();
    for a in 0..sockets {
        let link = Link { one_way: link.one_way * (4 + u64::from(a)) / 4, ..link };
        topology = topology.with_links(a, (a + 1) % sockets, link);
    }
    topology
}

/// One run; returns the rows of the tables that it used.
fn run(seed: u64) -> Rows {
    let _named = Named(seed);
    let mut random = Random::new(seed);
    let (platform, topology) = machine(&mut random);
    let sockets = topology.sockets() as u8;
    let cores = random.pick(&[2, 3, 4, 8, 16, 64]);
    // One more core than programs: a device makes its requests from there.
    let sides: Vec<(u8, usize)> =
        (0..=cores).map(|c| ((c % u64::from(sockets)) as u8, (c % 2) as usize)).collect();
    let mut machine = Machine::with_topology(&platform, topology, PAGES * 4096, &sides).unwrap();
    (0..PAGES).for_each(|page| machine.set_home(page * 4096, 4096, page as u8 % sockets));
    machine.keep_journal();
    let mut sim = Sim::new(machine);
    // A few lines, among them some of one set and, beside each other, what prefetchers expect.
    let stride = random.pick(&[1, 2, 8, 16, 17]);
    let first = random.below(64) as u32;
    let lines: Vec<u32> = (0..random.pick(&[1, 2, 5, 24])).map(|i| (first + i * stride) % LINES).collect();
    let logs: Vec<Log> = (0..cores).map(|_| Log::default()).collect();
    for core in 0..cores {
        let (random, lines, log) =
            (Random::new(random.next()), lines.clone(), Rc::clone(&logs[core as usize]));
        sim.spawn(core as u8, move |agent| program(&agent, random, &lines, ACCESSES / cores, &log)).unwrap();
    }
    drive(&mut sim, &mut random, &lines, cores as u8);
    (0..cores).for_each(|core| assert!(sim.is_done(core as u8), "core {core} never ends: {platform:?}"));
    let machine = sim.machine();
    machine.audit().unwrap();
    let logs: Vec<Vec<Did>> = logs.iter().map(|log| log.borrow().clone()).collect();
    check(&logs, machine.journal());
    assert_eq!(machine.rows().missing, 0, "a request that no row of a table handles");
    machine.rows().clone()
}

/// Runs in small steps, audits the machine after each, and makes requests as a device does.
fn drive(sim: &mut Sim, random: &mut Random, lines: &[u32], device: u8) {
    let mut until = 0;
    loop {
        until += random.below(40_000);
        let end = sim.run(until);
        sim.machine().audit().unwrap_or_else(|e| panic!("at {until} ps: {e}"));
        if end == End::Quiet {
            return;
        }
        assert!(until < PATIENCE, "no end");
        if random.one_in(6) {
            let request = random.pick(&[Request::ReadCurrent, Request::WriteInvalidate, Request::Flush]);
            let (line, now) = (random.pick(lines), sim.machine().now().max(until));
            sim.machine_mut().request(device, line, request, now);
        }
    }
}

/// A core's program: random accesses.
fn program(agent: &Agent<'_>, mut random: Random, lines: &[u32], accesses: u64, log: &Log) {
    let mut unique = u64::from(agent.core()) << 32;
    let think = random.pick(&[0, 3, 100]);
    let seen = || agent.with_machine(|w| w.journal().len());
    for _ in 0..accesses {
        let line = random.pick(lines) * 64;
        // Mostly the same word, and some false sharing.
        let at = line + if random.one_in(4) { 8 * random.below(8) as u32 } else { 0 };
        unique += 1;
        if think > 0 && random.one_in(2) {
            agent.work(random.below(think) as f64);
        }
        match random.below(40) {
            0..12 => load(agent, at, random.one_in(2), log),
            12..20 => {
                log.borrow_mut().push(Did::Stored(at, unique));
                agent.store_release(at, unique);
            }
            20..24 => exchange(agent, at, unique, log),
            24 => agent.prefetch_read(at),
            25 => agent.prefetch_own(at),
            26 => agent.prefetch_overwrite(line),
            27 | 28 => agent.demote(at),
            29 => agent.write_lines(line, 64),
            30 => agent.write_lines(line + 8, 16),
            31 => agent.read_lines(line, 64),
            32 => agent.store_non_temporal(line, 64),
            33 => agent.flush(line, 64),
            34 => agent.fence(),
            35 => agent.load_fence(),
            36 => poll(agent, at, random.below(60), log),
            37 => agent.relax(),
            _ => (0..8).for_each(|_| load(agent, at, true, log)),
        }
    }
    agent.set_deadline(None);
    assert!(seen() > 0);
}

fn load(agent: &Agent<'_>, at: u32, decides: bool, log: &Log) {
    let began = agent.with_machine(|w| w.journal().len());
    let value = if decides { agent.load_acquire(at) } else { agent.load(at) };
    let ended = agent.with_machine(|w| w.journal().len());
    log.borrow_mut().push(Did::Loaded(Seen { at, value, began, ended }));
}

fn exchange(agent: &Agent<'_>, at: u32, new: u64, log: &Log) {
    let began = agent.with_machine(|w| w.journal().len());
    let current = agent.with_machine(|w| w.word(at));
    match agent.compare_exchange(at, current, new) {
        Ok(found) => {
            assert_eq!(found, current);
            log.borrow_mut().push(Did::Stored(at, new));
        }
        Err(value) => {
            assert_ne!(value, current);
            let ended = agent.with_machine(|w| w.journal().len());
            log.borrow_mut().push(Did::Loaded(Seen { at, value, began, ended }));
        }
    }
}

/// Polls a word for a while, long enough that the simulator suspends the core.
fn poll(agent: &Agent<'_>, at: u32, turns: u64, log: &Log) {
    for _ in 0..turns {
        load(agent, at, true, log);
        agent.set_deadline(Some(agent.now() + 1_000_000));
        agent.relax();
    }
}

/// Stores must have been performed exactly once, in each core's program order. A load returns its core's own last store while that
/// is in the store queue, otherwise a value that the word had between the load's beginning and its end. If there is such a time
/// for each load, and the times are in program order, the run complies with x86-TSO.
fn check(logs: &[Vec<Did>], journal: &[Commit]) {
    let mut history: HashMap<u32, Vec<(usize, Commit)>> = HashMap::new();
    for (n, commit) in journal.iter().enumerate() {
        history.entry(commit.at).or_default().push((n, *commit));
    }
    for (core, log) in logs.iter().enumerate() {
        let mine: Vec<usize> = (0..journal.len()).filter(|n| journal[*n].core as usize == core).collect();
        let mut stores = 0;
        let mut last: HashMap<u32, (u64, usize)> = HashMap::new();
        for did in log {
            match *did {
                Did::Stored(at, value) => {
                    let done = mine.get(stores).map(|n| &journal[*n]);
                    let found = done.map(|c| (c.at, c.value));
                    assert_eq!(found, Some((at, value)), "core {core}: store {stores} is out of order");
                    last.insert(at, (value, mine[stores]));
                    stores += 1;
                }
                Did::Loaded(seen) => {
                    let own = last.get(&seen.at).copied();
                    let history = history.get(&seen.at).map_or(&[][..], |h| h);
                    assert!(
                        allowed(&seen, own, history),
                        "core {core}: {seen:?}, own {own:?}; stored before: {:?}",
                        history.iter().rfind(|(n, _)| *n < seen.began)
                    );
                }
            }
        }
        assert_eq!(stores, mine.len(), "core {core}: a store was done twice");
    }
}

fn allowed(seen: &Seen, own: Option<(u64, usize)>, history: &[(usize, Commit)]) -> bool {
    // After the core's own store, if that was performed during the load.
    let first = match own {
        Some((value, n)) if n >= seen.began => {
            if value == seen.value {
                return true;
            }
            if n >= seen.ended {
                return false;
            }
            n + 1
        }
        _ => seen.began,
    };
    let before = history.iter().rev().find(|(n, _)| *n < first).map_or(0, |(_, c)| c.value);
    let during = history.iter().filter(|(n, _)| (first..seen.ended).contains(n)).map(|(_, c)| c.value);
    std::iter::once(before).chain(during).any(|value| value == seen.value)
}

#[test]
fn random_programs_see_one_coherent_memory() {
    let seed = seed();
    let mut used: Option<Rows> = None;
    for run_seed in seed..seed + RUNS {
        let rows = run(run_seed);
        let none = Rows { home: [0; HOME_ROWS], cache: vec![0; rows.cache.len()], missing: 0 };
        let used = used.get_or_insert(none);
        used.home.iter_mut().zip(rows.home).for_each(|(sum, n)| *sum += n);
        used.cache.iter_mut().zip(rows.cache).for_each(|(sum, n)| *sum += n);
    }
    let used = used.unwrap();
    assert!(used.home.iter().all(|n| *n > 0), "rows of the home agent that were never used: {used:?}");
    assert!(used.cache.iter().all(|n| *n > 0), "rows of the caches that were never used: {used:?}");
}
