//! The machine's seams: more sockets than platforms have, devices that answer when they like, another protocol, and limits.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use ccnic::SharedMemory;
use ccnic::memory::LINE;

use super::agent::Agent;
use super::caches::mask::{RequesterClass, WayMask};
use super::core::Core;
use super::costs::Prefetch;
use super::device::{Device, Port};
use super::directory::PAGE;
use super::ids::{AGENTS_MAX, AgentId, SocketId, TxnId};
use super::sim::Sim;
use super::topology::{Link, Topology};
use super::uncached::{Access, AccessKind};
use super::{Attachment, Machine, MachineError, Seat};
use crate::kernel::time::{Ps, ps};
use crate::observe::counters::Source;
use crate::platform::Platform;
use crate::protocols::mesif::MESIF;
use crate::protocols::table::{
    Data, Grant, HOME_ROWS, HomeRow, Protocol, Request, Sharing, Snoop, Snoops, State, cache,
};

fn platform() -> Platform {
    Platform::named("icx").unwrap()
}

/// Four sockets in a ring.
fn ring(link: Link) -> Topology {
    (0..4).fold(Topology::new(4).unwrap(), |t, a| t.with_links(a, (a + 1) % 4, link))
}

/// Runs a program on a core to its end; returns what it returns.
fn run<T: 'static>(sim: &mut Sim, core: AgentId, program: impl FnOnce(Agent<'_>) -> T + 'static) -> T {
    let result = Rc::new(RefCell::new(None));
    let place = Rc::clone(&result);
    sim.spawn(core, move |agent| *place.borrow_mut() = Some(program(agent))).unwrap();
    sim.run(Ps::MAX);
    assert!(sim.is_done(core));
    result.borrow_mut().take().unwrap()
}

/// The time of a load.
fn load(sim: &mut Sim, core: AgentId, at: u32) -> Ps {
    let access = ps(platform().instruction_ns());
    run(sim, core, move |agent| {
        let start = agent.now();
        agent.load_acquire(at);
        agent.now() - start - access
    })
}

/// A line that is taken from a core which polls it costs a machine clear; one that was read before the last burst ended does not.
#[test]
fn only_what_is_polled_is_speculative() {
    let after = |burst: bool| {
        let mut sim = Sim::new(Machine::new(&platform(), PAGE, &[(0, 0), (0, 0)]).unwrap());
        run(&mut sim, 0, move |agent| {
            agent.load_acquire(0);
            agent.load_acquire(LINE);
            if burst {
                agent.has_executed(0);
            }
        });
        run(&mut sim, 1, |agent| agent.store(0, 1));
        load(&mut sim, 0, LINE)
    };
    assert_eq!([after(false), after(true)], [ps(platform().core.machine_clear.get()), 0]);
}

#[test]
fn a_load_from_another_socket_takes_the_hops_between() {
    let p = platform();
    let link = Link { one_way: 30_000, line: 1000, control: 250, spare: 0 };
    for (home, hops) in [(0u8, 0), (1, 1), (2, 2), (3, 1)] {
        let mut machine = Machine::with_topology(&p, ring(link), PAGE, &[(0, 1)]).unwrap();
        machine.set_home(0, PAGE, home);
        let mut sim = Sim::new(machine);
        let local = ps(p.local_memory_ns()) + ps(64.0 / p.memory.rate.get());
        let lookup = if hops > 0 { ps(p.path.lookup.get()) } else { 0 };
        let expected = local + lookup + hops * (2 * link.one_way + link.line + link.control);
        assert_eq!(load(&mut sim, 0, 0), expected, "home in socket {home}");
        let source = if home == 0 { Source::LocalMemory } else { Source::RemoteMemory };
        assert_eq!(sim.machine().last_source(0), source);
        sim.machine().audit().unwrap();
    }
}

#[test]
fn a_modified_line_comes_from_a_third_socket() {
    let p = platform();
    let link = Link { one_way: 30_000, line: 1000, control: 250, spare: 0 };
    // Reader in 0, home in 1, owner in 2: the request goes 0, 1, 2, and the data goes back over one of the two ways.
    let mut machine = Machine::with_topology(&p, ring(link), PAGE, &[(0, 1), (2, 1)]).unwrap();
    machine.set_home(0, PAGE, 1);
    let mut sim = Sim::new(machine);
    run(&mut sim, 1, |agent| agent.store_release(0, 77));
    let took = load(&mut sim, 0, 0);
    let path = &p.path;
    let ns = path.miss.get()
        + 4.0 * path.mesh.get()
        + 3.0 * path.lookup.get()
        + path.snoop.get()
        + path.fill.get();
    let expected = ps(ns) + ps(path.home_extra.get()) + 4 * link.one_way + 2 * link.line + 2 * link.control;
    assert!(took.abs_diff(expected) <= 2 * ps(path.mesh.get()), "{took}, not {expected}");
    assert_eq!((sim.machine().word(0), sim.machine().last_source(0)), (77, Source::RemoteCore));
    sim.machine().audit().unwrap();
}

/// Of a line that is modified in the other socket: what its home agent adds, a request for ownership may be spared.
#[test]
fn a_home_agent_may_add_its_extra_for_reads_only() {
    let took = |reads_only: f64, own: bool| {
        let p = platform().overridden("protocol.extra_for_reads_only", reads_only).unwrap();
        let mut sim = Sim::new(Machine::new(&p, PAGE, &[(0, 0), (1, 1)]).unwrap());
        run(&mut sim, 1, |agent| agent.store(0, 1));
        run(&mut sim, 0, move |agent| {
            let start = agent.now();
            if own {
                agent.store(0, 2);
                agent.fence();
            } else {
                agent.load_acquire(0);
            }
            agent.now() - start
        })
    };
    assert_eq!(took(0.0, false), took(1.0, false));
    assert_eq!(took(0.0, true), took(1.0, true) + ps(platform().path.home_extra.get()));
}

/// Every last-level cache of a ring has a copy; a store has them dropped, and waits for the farthest.
#[test]
fn a_store_drops_the_copies_of_every_last_level_cache() {
    let p = platform();
    let link = Link { one_way: 30_000, line: 1000, control: 250, spare: 0 };
    let time = |sockets: &[SocketId]| {
        let mut machine = Machine::with_topology(&p, ring(link), PAGE, &[(0, 1)]).unwrap();
        sockets.iter().for_each(|s| machine.fill_llc(*s, 0, false));
        let mut sim = Sim::new(machine);
        let took = run(&mut sim, 0, |agent| {
            agent.write_lines(0, 64);
            agent.fence();
            agent.now()
        });
        sim.machine().audit().unwrap();
        assert!((0..4).all(|s| sim.machine().uncore.llcs[s].get(0).is_none()));
        took
    };
    let (none, near, far) = (time(&[0]), time(&[0, 1]), time(&[0, 1, 2, 3]));
    let hop = 2 * (link.one_way + link.control) + ps(p.path.lookup.get());
    assert_eq!(near - none, hop);
    // Socket 2 is two hops away, over links that other messages use, too.
    let two = hop + 2 * (link.one_way + link.control);
    assert!((two..two + 4 * link.control).contains(&(far - none)), "{} {two}", far - none);
}

/// What a toy device does with a request for one of its lines.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Manner {
    /// Answers it after a time.
    Later(Ps),
    /// Answers the first one when a second one has come.
    AfterTheNext,
    /// Takes the line at this address from whoever owns it, and answers with one more than its first word.
    AfterTaking(u32),
}

/// A device that is home of a page.
#[derive(Debug)]
struct Toy {
    manner: Manner,
    held: VecDeque<(TxnId, u32)>,
    reads: Vec<(Ps, u32, Request)>,
    written_back: Vec<u32>,
    accesses: Vec<Access>,
}

impl Device for Toy {
    fn access(&mut self, port: &mut Port<'_>, access: Access) {
        self.accesses.push(access);
        let number = self.accesses.len() as u32 - 1;
        port.schedule(port.now() + 5_000_000, 1000 + number);
    }

    fn read(&mut self, port: &mut Port<'_>, txn: TxnId, line: u32, request: Request) {
        self.reads.push((port.now(), line, request));
        match self.manner {
            Manner::Later(time) => {
                self.held.push_back((txn, line));
                port.schedule(port.now() + time, 0);
            }
            Manner::AfterTheNext => {
                self.held.push_back((txn, line));
                if self.held.len() > 1 {
                    while let Some((txn, _)) = self.held.pop_front() {
                        port.supply(txn);
                    }
                }
            }
            Manner::AfterTaking(other) if line == other / LINE => port.supply(txn),
            Manner::AfterTaking(other) => {
                self.held.push_back((txn, line));
                port.request(other / LINE, Request::ReadOwn);
            }
        }
    }

    fn written_back(&mut self, _: &mut Port<'_>, line: u32) {
        self.written_back.push(line);
    }

    fn filled(&mut self, port: &mut Port<'_>, _: TxnId, line: u32, request: Request) {
        assert_eq!(request, Request::ReadOwn);
        assert!(port.owns(line));
        let Some((txn, answer)) = self.held.pop_front() else { return };
        let value = port.word(line * LINE);
        port.set_word(answer * LINE, value + 1);
        port.give_up(line);
        port.supply(txn);
    }

    fn event(&mut self, port: &mut Port<'_>, number: u32) {
        if number < 1000 {
            if let Some((txn, _)) = self.held.pop_front() {
                port.supply(txn);
            }
            return;
        }
        let Access { core, kind } = self.accesses[number as usize - 1000];
        match kind {
            AccessKind::Store { at, value } => {
                port.set_word(at, value);
                port.accept_store(core);
            }
            AccessKind::Combined { .. } => port.accept_combined(core),
            AccessKind::Read { at, .. } => port.answer_read(core, port.word(at) + 1),
        }
    }
}

/// Two cores and a device that is home of the second page; the line at 64 is its register.
fn with_toy(manner: Manner) -> Sim {
    let mut machine = Machine::new(&platform(), 2 * PAGE, &[(0, 1), (0, 1)]).unwrap();
    let toy = Toy {
        manner,
        held: VecDeque::new(),
        reads: Vec::new(),
        written_back: Vec::new(),
        accesses: Vec::new(),
    };
    let at = Attachment { socket: 0, latency: 10_000, ways: WayMask::first(2) };
    let device = machine.add_device(Box::new(toy), at).unwrap();
    machine.map_pages(PAGE, PAGE, device);
    machine.map_registers(64, device);
    Sim::new(machine)
}

fn toy<R>(sim: &Sim, f: impl FnOnce(&Toy) -> R) -> R {
    f(sim.machine().device(0).unwrap())
}

#[test]
fn a_device_answers_late_and_its_lines_are_cached() {
    let mut sim = with_toy(Manner::Later(700_000));
    sim.machine_mut().set_word(PAGE, 5);
    let p = platform();
    let expected = ps(p.local_memory_ns() - p.memory.latency.get()) + 700_000 + 2 * 10_000;
    assert_eq!(load(&mut sim, 0, PAGE), expected);
    assert!(load(&mut sim, 0, PAGE) < 1000, "it is in the core's cache");
    // Another core gets it from the first one.
    assert!(load(&mut sim, 1, PAGE) < 100_000);
    assert_eq!(toy(&sim, |t| t.reads.len()), 1);
    sim.machine().audit().unwrap();
}

#[test]
fn a_device_holds_a_request_until_another_has_come() {
    let mut sim = with_toy(Manner::AfterTheNext);
    let times = Rc::new(RefCell::new(Vec::new()));
    for (core, wait) in [(0, 0.0), (1, 3000.0)] {
        let times = Rc::clone(&times);
        sim.spawn(core, move |agent| {
            agent.work(wait);
            agent.load_acquire(PAGE + u32::from(core) * 128);
            times.borrow_mut().push((core, agent.now()));
        })
        .unwrap();
    }
    // The first one alone waits for ever.
    sim.run(2_000_000);
    assert!(times.borrow().is_empty() && toy(&sim, |t| t.held.len()) == 1);
    sim.run(Ps::MAX);
    let times = times.borrow();
    assert!(times.len() == 2 && times.iter().all(|(_, at)| *at > 3_000_000), "{times:?}");
    assert!(times[0].1.abs_diff(times[1].1) < 1000);
    sim.machine().audit().unwrap();
}

/// The message protocol of Enzian's coherent programmed I/O: the request is a line that the core has written, the answer another
/// one that it loads; the device takes the first before it answers the second.
#[test]
fn a_device_takes_a_line_before_it_answers_another() {
    let (request, answer) = (PAGE, PAGE + 128);
    let mut sim = with_toy(Manner::AfterTaking(request));
    for n in 0..3u64 {
        let found = run(&mut sim, 0, move |agent| {
            agent.store_release(request, 10 * n);
            agent.fence();
            let found = agent.load_acquire(answer);
            agent.flush(answer, 64);
            agent.fence();
            found
        });
        assert_eq!(found, 10 * n + 1);
        sim.machine().audit().unwrap();
    }
    assert_eq!(toy(&sim, |t| t.reads.iter().filter(|r| r.1 == answer / LINE).count()), 3);
}

#[test]
fn modified_lines_are_written_back_to_their_device() {
    let mut sim = with_toy(Manner::Later(100));
    run(&mut sim, 0, |agent| {
        agent.store_release(PAGE + 64, 9);
        agent.fence();
        agent.flush(PAGE + 64, 64);
        agent.flush(PAGE + 192, 64);
        agent.store_non_temporal(PAGE + 256, 64);
        agent.fence();
    });
    let line = PAGE / LINE;
    assert_eq!(toy(&sim, |t| t.written_back.clone()), [line + 1, line + 4]);
    assert_eq!(sim.machine().traffic(0).memory_writes, 0);
    sim.machine().audit().unwrap();
}

#[test]
fn a_device_answers_uncached_accesses_when_it_likes() {
    let mut sim = with_toy(Manner::Later(0));
    let took = run(&mut sim, 0, |agent| {
        let start = agent.now();
        agent.store_release(64, 41);
        assert_eq!(agent.load_acquire(64), 42);
        agent.now() - start
    });
    assert!((10_020_000..10_025_000).contains(&took), "two accesses of 5 us and the way: {took}");
    assert_eq!(toy(&sim, |t| t.accesses.len()), 2);
}

/// A protocol with three states: a reader never becomes the owner.
static MSI: Protocol = Protocol { name: "msi", about: "for this test", home: msi_home(), cache: MSI_CACHE };

const MSI_CACHE: &[crate::protocols::table::CacheRow] = &[
    cache(State::Modified, Snoop::Data, None, State::Shared, State::Shared),
    cache(State::Modified, Snoop::Invalidate, None, State::Invalid, State::Modified),
    cache(State::Modified, Snoop::Drop, None, State::Invalid, State::Modified),
    cache(State::Shared, Snoop::Drop, None, State::Invalid, State::Modified),
    cache(State::Modified, Snoop::Current, None, State::Modified, State::Invalid),
];

const fn msi_home() -> [HomeRow; HOME_ROWS] {
    let mut rows = MESIF.home;
    let shared = Grant::Is(State::Shared);
    rows[0] = HomeRow {
        sharing: Sharing::Uncached,
        request: Request::Read,
        snoops: Snoops::None,
        data: Data::Nearest,
        grant: shared,
    };
    rows[6].grant = shared;
    rows
}

#[test]
fn the_table_decides() {
    let upgrades = |protocol: &'static Protocol| {
        let mut machine = Machine::new(&platform(), PAGE, &[(0, 1), (1, 1)]).unwrap();
        machine.set_protocol(protocol);
        let mut sim = Sim::new(machine);
        for core in [0, 1, 0] {
            run(&mut sim, core, move |agent| {
                let value = agent.load_acquire(0);
                agent.fence();
                agent.store_release(0, value + 1);
                agent.fence();
            });
            sim.machine().audit().unwrap();
        }
        assert_eq!((sim.machine().word(0), sim.machine().rows().missing), (3, 0));
        (0..2).map(|core| sim.machine().counters(core).owns).sum::<u64>()
    };
    // MESIF: the first read gets the line exclusive, the others migrate it.
    assert_eq!((upgrades(&MESIF), upgrades(&MSI)), (0, 3));
}

#[test]
fn there_are_limits() {
    let p = platform();
    let machine = |n: usize| Machine::new(&p, PAGE, &vec![(0, 0); n]);
    assert_eq!(machine(AGENTS_MAX + 1).err(), Some(MachineError::Agents { agents: AGENTS_MAX + 1 }));
    let mut full = machine(AGENTS_MAX).unwrap();
    let at = Attachment { socket: 0, latency: 0, ways: WayMask::ALL };
    let device = Toy {
        manner: Manner::Later(0),
        held: VecDeque::new(),
        reads: Vec::new(),
        written_back: Vec::new(),
        accesses: Vec::new(),
    };
    let error = full.add_device(Box::new(device), at).unwrap_err();
    assert!(error.to_string().ends_with("simulate fewer cores"), "{error}");
    let apart = Topology::new(3).unwrap().with_links(0, 1, Link::default());
    let error = Machine::with_topology(&p, apart, PAGE, &[(0, 0)]).err();
    assert_eq!(error, Some(MachineError::Unconnected { sockets: 3 }));
}

/// A machine with a snoop filter of so many slices, sets of a slice and ways, and cores in these sockets.
fn filtered([slices, sets, ways]: [u32; 3], sockets: &[SocketId]) -> Machine {
    let values = [("llc.slices", slices), ("snoop_filter.sets", sets), ("snoop_filter.ways", ways)];
    let platform = Platform::named("spr-filter").unwrap();
    let change = |p: Platform, (key, value)| p.overridden(key, f64::from(value)).unwrap();
    let cores: Vec<Seat> = sockets.iter().map(|socket| (*socket, 1)).collect();
    Machine::new(&values.into_iter().fold(platform, change), 4 * PAGE, &cores).unwrap()
}

/// Which cores may read a line.
fn readers(sim: &Sim, line: u32) -> Vec<bool> {
    sim.machine().cores.iter().map(|core| core.state(line).readable()).collect()
}

#[test]
fn a_line_without_room_in_the_snoop_filter_leaves_the_cores_of_its_socket() {
    let mut sim = Sim::new(filtered([1, 1, 1], &[0, 0, 1]));
    (0..3).for_each(|core| _ = load(&mut sim, core, 0));
    // Not the next one, from which a core would read on.
    load(&mut sim, 0, 8 * LINE);
    assert_eq!(readers(&sim, 0), [false, false, true], "the other socket has a filter of its own");
    let lost = [0, 1, 2].map(|core| sim.machine().counters(core).back_invalidations);
    assert_eq!(lost, [1, 1, 0]);
    sim.machine().audit().unwrap();
    load(&mut sim, 1, 0);
    assert_eq!(sim.machine().last_source(1), Source::LocalLlc, "back-invalidation is no loss");
    assert_eq!(readers(&sim, 8), [false; 3], "now the other line had to go");
    sim.machine().audit().unwrap();
}

/// What a core has written reaches the last-level cache, and a core that waits for a line sees it change after it has lost the line.
#[test]
fn a_line_that_is_driven_out_keeps_its_value_and_its_pollers() {
    let mut sim = Sim::new(filtered([1, 1, 1], &[0, 0]));
    run(&mut sim, 0, |agent| {
        agent.store_release(0, 7);
        agent.fence();
        agent.load_acquire(8 * LINE);
    });
    assert_eq!((readers(&sim, 0), sim.machine().counters(0).back_invalidations), (vec![false; 2], 1));
    assert_eq!(run(&mut sim, 1, |agent| agent.load_acquire(0)), 7);
    assert_eq!(sim.machine().last_source(1), Source::LocalLlc);

    let mut sim = Sim::new(filtered([1, 1, 1], &[0, 0]));
    sim.spawn(0, |agent| {
        while agent.load_acquire(0) == 0 {
            agent.relax();
        }
    })
    .unwrap();
    sim.spawn(1, |agent| {
        // Long enough for the other core to sleep; then its line is driven out, and only then written.
        (0..1000).for_each(|_| agent.has_executed(100));
        agent.load_acquire(8 * LINE);
        agent.store_release(0, 1);
    })
    .unwrap();
    sim.run(Ps::MAX);
    assert!(sim.is_done(0) && sim.is_done(1), "no wake-up is lost");
    assert!(sim.machine().counters(0).back_invalidations > 0);
}

/// A set of the filter has room for as many lines as it has ways, and no set for those of another.
#[test]
fn private_caches_hold_what_the_snoop_filter_has_room_for() {
    let held = |shape: [u32; 3]| {
        let mut sim = Sim::new(filtered(shape, &[0, 0]));
        // Core 0 reads lines of one page, core 1 of another: 64 lines each, which their caches hold easily.
        for line in 0..64 {
            load(&mut sim, 0, line * LINE);
            load(&mut sim, 1, PAGE + line * LINE);
        }
        let held = (0..4 * 64).filter(|line| readers(&sim, *line).contains(&true));
        let held: Vec<u32> =
            held.inspect(|line| assert!(sim.machine().uncore.filters[0].has(*line))).collect();
        sim.machine().audit().unwrap();
        held
    };
    assert_eq!(held([1, 1, 8]).len(), 8);
    assert_eq!(held([1, 4, 8]).len(), 32);
    assert_eq!(held([1, 64, 2]).len(), 128, "a set for each line of a page, a way for each page");
    let of_set = |lines: &[u32], set| lines.iter().filter(|line| *line % 4 == set).count();
    let lines = held([1, 4, 8]);
    assert_eq!([0, 1, 2, 3].map(|set| of_set(&lines, set)), [8; 4]);
    assert!(held([4, 4, 8]).len() > 100, "four slices hold all 128, if the hash spreads them evenly");
}

/// Lines of a core pass its path one at a time; what a device requests passes none.
#[test]
fn only_cores_have_a_path_of_their_own() {
    let zen4 = Platform::named("zen4-one-socket").unwrap();
    let mut machine = Machine::new(&zen4, 4096, &[(0, 0)]).unwrap();
    let (core, u) = machine.core_and_uncore(0);
    let line = u.costs.line;
    assert_eq!([0, 0, 0].map(|at| core.pass_line(u, at)), [1, 2, 3].map(|n| n * line));
    let mut agent = Core::new(1, 0, RequesterClass::Device, &zen4, Prefetch::default());
    assert_eq!([0, 0].map(|at| agent.pass_line(u, at)), [0, 0]);
}
