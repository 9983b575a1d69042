//! Every kind of access takes exactly as long as the platform's numbers add up to, to the picosecond.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::cell::Cell;
use std::rc::Rc;

use ccnic::SharedMemory;
use ccnic_sim::platform::{Code, Platform};
use ccnic_sim::time::{Ps, ns, ps};
use ccnic_sim::{Agent, Machine, Sim};

/// An access of a core to the line at an address.
type Act = fn(&Agent<'_>, u32);

/// The line that the tests access.
const AT: u32 = 4096 * 3 + 640;
/// Two cores in the reader's socket, two in the other; the reader is core 0. Hardware prefetching is off.
const CORES: [(u8, usize); 4] = [(0, 1), (0, 1), (1, 1), (1, 1)];
const OTHER: u8 = 1;
const REMOTE: u8 = 2;

const LOAD: Act = |agent, at| {
    agent.load_acquire(at);
};
const STORE: Act = |agent, at| {
    agent.store_release(at, 1 + u64::from(agent.core()));
    agent.fence();
};
const DEMOTED: Act = |agent, at| {
    STORE(agent, at);
    agent.demote(at);
    agent.fence();
};
const EXCHANGE: Act = |agent, at| {
    let _ = agent.compare_exchange(at, 0, 9);
};
const WHOLE: Act = |agent, at| {
    agent.write_lines(at, 64);
    agent.fence();
};

fn machine(platform: &Platform, home: u8, before: &[(u8, Act)]) -> Sim {
    let mut machine = Machine::new(platform, 4096 * 64, &CORES).unwrap();
    machine.set_home(0, 4096 * 64, home);
    let mut sim = Sim::new(machine);
    for &(core, act) in before {
        sim.spawn(core, move |agent| act(&agent, AT)).unwrap();
        sim.run(Ps::MAX);
    }
    sim
}

/// Starts `act` on core 0; returns its start and, once it has ended, its end.
fn begin(sim: &mut Sim, act: Act) -> (Rc<Cell<Ps>>, Rc<Cell<Option<Ps>>>) {
    let (began, ended) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(None)));
    let (start, end) = (Rc::clone(&began), Rc::clone(&ended));
    sim.spawn(0, move |agent| {
        start.set(agent.now());
        act(&agent, AT);
        end.set(Some(agent.now()));
    })
    .unwrap();
    (began, ended)
}

/// Asserts that `act` on core 0 takes exactly these nanoseconds after `before`; returns when it began.
fn costs(platform: &Platform, home: u8, before: &[(u8, Act)], act: Act, expected: f64) -> Ps {
    let mut sim = machine(platform, home, before);
    let (began, ended) = begin(&mut sim, act);
    sim.run(Ps::MAX);
    let took = ended.get().unwrap() - began.get();
    assert_eq!(ns(took), ns(ps(expected)), "on {}", platform.name);
    began.get()
}

/// The same for an access that ends with an event: it has not ended a picosecond before its time, and has ended then.
fn takes(platform: &Platform, home: u8, before: &[(u8, Act)], act: Act, expected: f64) {
    let end = costs(platform, home, before, act, expected) + ps(expected);
    let mut sim = machine(platform, home, before);
    let (_, ended) = begin(&mut sim, act);
    sim.run(end - 1);
    assert_eq!(ended.get(), None, "done too soon on {}", platform.name);
    sim.run(end);
    assert_eq!(ended.get(), Some(end));
}

/// The time that messages occupy the link, each on its own: no control message uses a spare slot of a line's header.
fn wire(p: &Platform, lines: f64, controls: f64) -> f64 {
    let link = p.link.as_ref().unwrap();
    let flit = 1.0 / link.rate.get();
    // As the engine does: each message takes whole picoseconds.
    lines * ns(ps(flit * f64::from(link.data_flits.get()))) + controls * ns(ps(flit))
}

/// The time that a line occupies memory.
fn dram(p: &Platform) -> f64 {
    ns(ps(64.0 / p.memory.rate.get()))
}

fn platforms() -> Vec<Platform> {
    ["icx", "spr", "spr-one-socket", "cxl"].map(|name| Platform::named(name).unwrap()).into()
}

fn two_sockets() -> Vec<Platform> {
    let linked = platforms().into_iter().filter(|p| p.link.is_some());
    // Control messages do not use spare slots in the headers of earlier lines here.
    linked.map(|p| p.overridden("link.spare_slots", 0.0).unwrap()).collect()
}

/// The software's cost of an access to a word, without the caches.
fn access(p: &Platform) -> f64 {
    instructions(p, 1)
}

/// As the engine counts: each takes whole picoseconds.
fn instructions(p: &Platform, n: u64) -> f64 {
    n as f64 * ns(ps(p.instruction_ns()))
}

/// The round trip from the core to its home agent.
fn home_and_back(p: &Platform) -> f64 {
    p.llc_hit_ns() - p.path.llc_data.get()
}

#[test]
fn what_is_in_the_private_caches() {
    for p in platforms() {
        costs(&p, 0, &[(0, LOAD)], LOAD, access(&p));
        costs(&p, 0, &[(0, STORE)], STORE, access(&p));
        costs(&p, 0, &[(0, STORE)], EXCHANGE, 20.0 / p.core.frequency.get());
        // Enough lines of one set of the L1 that the first one is in the L2 only.
        let flood: Act = |agent, at| {
            agent.load_acquire(at);
            for i in 1..14 {
                agent.load_acquire((at + i * 4096) % (4096 * 64));
            }
        };
        costs(&p, 0, &[(0, flood)], LOAD, access(&p) + p.l2.latency.get() - p.l1.latency.get());
    }
}

#[test]
fn what_is_in_the_socket() {
    for p in platforms() {
        let demotes = p.overridden("protocol.demote", 1.0).unwrap();
        takes(&demotes, 0, &[(OTHER, DEMOTED)], LOAD, access(&p) + p.llc_hit_ns());
        takes(&p, 0, &[(OTHER, STORE)], LOAD, access(&p) + p.local_hitm_ns());
        takes(&p, 0, &[], LOAD, access(&p) + p.local_memory_ns() + dram(&p));
        // Exclusive and clean: the same path.
        takes(&p, 0, &[(OTHER, LOAD)], LOAD, access(&p) + p.local_hitm_ns());
        let exchange = 20.0 / p.core.frequency.get();
        takes(&p, 0, &[(OTHER, STORE)], EXCHANGE, exchange + p.local_hitm_ns());
        takes(&p, 0, &[], EXCHANGE, exchange + p.local_memory_ns() + dram(&p));
    }
}

#[test]
fn what_is_in_the_other_socket() {
    for p in two_sockets() {
        let writer_homed = p.remote_hitm_writer_homed_ns().unwrap();
        let reader_homed = p.remote_hitm_reader_homed_ns().unwrap();
        let memory = p.remote_memory_ns().unwrap();
        takes(&p, 1, &[(REMOTE, STORE)], LOAD, access(&p) + writer_homed + wire(&p, 1.0, 1.0));
        takes(&p, 0, &[(REMOTE, STORE)], LOAD, access(&p) + reader_homed + wire(&p, 1.0, 1.0));
        takes(&p, 1, &[], LOAD, access(&p) + memory + dram(&p) + wire(&p, 1.0, 1.0));
        let llc = memory - p.memory.latency.get() + p.path.llc_data.get();
        let demotes = p.overridden("protocol.demote", 1.0).unwrap();
        takes(&demotes, 1, &[(REMOTE, DEMOTED)], LOAD, access(&p) + llc + wire(&p, 1.0, 1.0));
    }
}

#[test]
fn ownership_without_data() {
    for p in platforms() {
        // Shared with a core of the socket: the home waits for its reply.
        let word = p.path.mesh.get() * 2.0 + p.path.snoop.get();
        let shared = [(OTHER, LOAD), (0, LOAD), (OTHER, LOAD)];
        takes(&p, 0, &shared, STORE, access(&p) + home_and_back(&p) + word);
        let line = instructions(&p, Code::PROBE.line);
        takes(&p, 0, &[], WHOLE, line + home_and_back(&p));
        let with_data = p.overridden("protocol.dataless_full_line", 0.0).unwrap();
        takes(&with_data, 0, &[], WHOLE, line + p.local_memory_ns() + dram(&p));
        // Another core's copy is invalidated and supplies no data.
        takes(&p, 0, &[(OTHER, STORE)], WHOLE, line + p.local_hitm_ns());
    }
    for p in two_sockets() {
        // Shared with a core of the other socket, homed here: one message round trip.
        let way = 2.0 * p.link.as_ref().unwrap().one_way.get() + p.path.lookup.get() + wire(&p, 0.0, 2.0);
        let word = p.path.mesh.get() * 2.0 + p.path.snoop.get();
        let shared = [(REMOTE, LOAD), (0, LOAD)];
        takes(&p, 0, &shared, STORE, access(&p) + home_and_back(&p) + word + way);
        takes(&p, 1, &[], WHOLE, instructions(&p, Code::PROBE.line) + home_and_back(&p) + way);
    }
}

#[test]
fn a_prefetch_overlaps_with_the_core_s_work() {
    for p in platforms() {
        let soon: Act = |agent, at| {
            agent.prefetch_read(at);
            agent.work(5.0);
            agent.load_acquire(at);
        };
        takes(&p, 0, &[(OTHER, STORE)], soon, access(&p) + p.local_hitm_ns());
        let late: Act = |agent, at| {
            agent.prefetch_read(at);
            agent.work(500.0);
            agent.load_acquire(at);
        };
        costs(&p, 0, &[(OTHER, STORE)], late, 2.0 * access(&p) + 500.0);
        let own: Act = |agent, at| {
            agent.prefetch_own(at);
            agent.work(500.0);
            STORE(agent, at);
        };
        costs(&p, 0, &[(OTHER, LOAD), (0, LOAD), (OTHER, LOAD)], own, 2.0 * access(&p) + 500.0);
    }
}

#[test]
fn loads_without_control_dependence_overlap() {
    for p in platforms() {
        let four: Act = |agent, at| {
            for i in 0..4 {
                agent.load(at + 8256 * i); // in pages of their own, where no prefetcher fetches them
            }
            agent.load_fence();
        };
        let took = 4.0 * access(&p) + p.local_memory_ns() + dram(&p);
        // The last load may queue at memory behind the others.
        let mut sim = machine(&p, 0, &[]);
        let (began, ended) = begin(&mut sim, four);
        sim.run(Ps::MAX);
        let found = ns(ended.get().unwrap() - began.get());
        assert!((took - 0.001..took + 3.0 * dram(&p)).contains(&found), "{found} of {took} on {}", p.name);
    }
}

/// A core that reads line after line executes loads ahead within its reorder buffer: beyond lines of which it reads one word, not
/// beyond lines of which it reads many.
#[test]
fn lines_are_read_ahead_within_the_window() {
    const LINES: u32 = 8;
    const WORDS: u32 = 600;
    let written: Act = |agent, at| {
        (0..LINES).for_each(|i| agent.store_release(at + 64 * i, 1));
        agent.fence();
    };
    let few: Act = |agent, at| {
        (0..LINES).for_each(|i| assert_eq!(agent.load_acquire(at + 64 * i), 1));
    };
    let many: Act = |agent, at| {
        for i in 0..LINES {
            assert_eq!(agent.load_acquire(at + 64 * i), 1);
            (0..WORDS).for_each(|word| _ = agent.load(at + 64 * i + word % 8 * 8));
        }
    };
    for p in two_sockets() {
        let took = |act| {
            let mut sim = machine(&p, 0, &[(OTHER, written)]);
            let (began, ended) = begin(&mut sim, act);
            sim.run(Ps::MAX);
            ns(ended.get().unwrap() - began.get())
        };
        let one_by_one = f64::from(LINES) * p.local_hitm_ns();
        assert!(took(few) < 0.8 * one_by_one, "{} of {one_by_one} ns on {}", took(few), p.name);
        assert!(took(many) > one_by_one, "{} of {one_by_one} ns on {}", took(many), p.name);
    }
}

/// A store reaches a polling core: the store invalidates the poller's line, the poller's next load misses and returns the new value.
#[test]
fn a_store_reaches_a_poller() {
    for p in two_sockets() {
        for (writer, home) in [(1, 0), (2, 0), (2, 1)] {
            let mut sim = machine(&p, home, &[(writer, LOAD)]);
            let (stored, seen) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
            let (result, when) = (Rc::clone(&seen), Rc::clone(&stored));
            sim.spawn(0, move |agent| {
                while agent.load_acquire(AT) == 0 {
                    agent.relax();
                }
                result.set(agent.now());
            })
            .unwrap();
            sim.spawn(writer, move |agent| {
                (0..50).for_each(|_| agent.work(100.0));
                when.set(agent.now());
                agent.store_release(AT, 1);
                agent.fence();
            })
            .unwrap();
            sim.run(Ps::MAX);
            let k = &p.path;
            let across = |from: u8, to: u8| {
                if from == to { 0.0 } else { p.link.as_ref().unwrap().one_way.get() + k.lookup.get() }
            };
            let socket = CORES[writer as usize].0;
            // The request for ownership: to the home, then to the poller.
            let taken = access(&p) + k.miss.get() + k.mesh.get() + k.lookup.get() + across(socket, home);
            let taken = taken + across(home, 0) + k.mesh.get();
            // The poller's read: the line is in the writer's cache by then.
            let again = match (socket, home) {
                (0, _) => p.local_hitm_ns(),
                (_, 0) => p.remote_hitm_reader_homed_ns().unwrap(),
                _ => p.remote_hitm_writer_homed_ns().unwrap(),
            };
            let soonest = taken + p.core.machine_clear.get() + access(&p) + again;
            // It polls the old value until the line arrives; then its branch is mispredicted.
            let turn = instructions(&p, Code::PROBE.poll);
            let latest = soonest + 2.0 * turn + p.core.mispredict.get() + wire(&p, 1.0, 3.0);
            let took = ns(seen.get() - stored.get());
            assert!(
                (soonest..=latest).contains(&took),
                "{took} ns, not {soonest} to {latest}, on {}, writer {writer}, home {home}",
                p.name
            );
        }
    }
}
