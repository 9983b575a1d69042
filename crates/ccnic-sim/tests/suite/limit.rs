//! What two cores exchange with no protocol: batches of lines that are passed back and forth, as `ccnic bench limit` does it on a real
//! machine; and lines that another core has modified, which a prefetcher reads ahead.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use ccnic::{LINE, SharedMemory};
use ccnic_sim::micro::{Held, access};
use ccnic_sim::platform::Platform;
use ccnic_sim::time::Ps;
use ccnic_sim::{Agent, Machine, Sim};

/// Lines of a batch, batches in flight, and those that are passed on.
const BATCH: u32 = 48;
const WINDOW: u32 = 64;
const BATCHES: usize = 600;

/// One side: takes a batch, reads its lines while those of the next are requested, writes them, and passes it on. A batch's signal counts
/// how often it has been passed on.
fn relay(agent: &Agent<'_>, side: u64, passed: &RefCell<Vec<f64>>) {
    let place = |batch: u64| (batch % u64::from(WINDOW)) as u32;
    let due = |batch: u64| 2 * (batch / u64::from(WINDOW)) + side;
    let lines = |batch: u64| (0..BATCH).map(move |i| (WINDOW + place(batch) * BATCH + i) * LINE);
    let take = |batch: u64| {
        while agent.load_acquire(place(batch) * LINE) != due(batch) {
            agent.relax();
        }
    };
    take(0);
    for batch in 0.. {
        take(batch + 1);
        for (at, ahead) in lines(batch).zip(lines(batch + 1)) {
            agent.prefetch_own(ahead);
            agent.read_lines(at, LINE);
        }
        lines(batch).for_each(|at| agent.write_lines(at, LINE));
        agent.store_release(place(batch) * LINE, due(batch) + 1);
        passed.borrow_mut().push(agent.now_ns());
        if passed.borrow().len() > 2 * BATCHES {
            return;
        }
    }
}

/// Lines per nanosecond in each direction.
fn limit(platform: &Platform) -> f64 {
    let bytes = ((BATCH + 1) * WINDOW * LINE).next_multiple_of(4096);
    let other = u8::from(!platform.topology.same_socket.get());
    let mut sim = Sim::new(Machine::new(platform, bytes, &[(0, 0), (other, 1)]).unwrap());
    let passed = Rc::new(RefCell::new(Vec::new()));
    for side in 0..2 {
        let passed = Rc::clone(&passed);
        sim.spawn(side as u8, move |agent| relay(&agent, side, &passed)).unwrap();
    }
    sim.run(1_000_000_000);
    let passed = passed.borrow();
    let (first, last) = (passed.len() / 3, passed.len() - 1);
    f64::from(BATCH) * (last - first) as f64 / 2.0 / (passed[last] - passed[first])
}

/// Each line takes a fill buffer for as long as a load of it takes.
#[test]
fn two_cores_exchange_what_their_fill_buffers_allow() {
    for (name, held) in [("spr-one-socket", Held::LocalCore), ("icx", Held::RemoteWriterHomed)] {
        let platform = Platform::named(name).unwrap();
        let latency = access(&platform, held).unwrap().unwrap().median_ns;
        let most = f64::from(platform.core.fill_buffers.get()) / latency;
        let found = limit(&platform) / most;
        assert!((0.75..1.02).contains(&found), "{name}: {found} of {most} lines a nanosecond");
    }
}

/// Nanoseconds a line, of lines that another core has modified.
fn read(platform: &Platform, apart: u32) -> f64 {
    const LINES: u32 = 512;
    let mut sim = Sim::new(Machine::new(platform, LINES * LINE, &[(0, 0), (0, 1)]).unwrap());
    let store = |agent: Agent<'_>| {
        (0..LINES).for_each(|i| agent.store_release(i * LINE, 1));
        agent.fence();
    };
    sim.spawn(1, store).unwrap();
    sim.run(Ps::MAX);
    let took = Rc::new(Cell::new(0.0));
    let result = Rc::clone(&took);
    sim.spawn(0, move |agent| {
        let start = agent.now_ns();
        for i in 0..LINES {
            agent.load_acquire(i * apart % LINES * LINE);
        }
        result.set((agent.now_ns() - start) / f64::from(LINES));
    })
    .unwrap();
    sim.run(Ps::MAX);
    took.get()
}

/// Measured on an Emerald Rapids: 5 to 12 ns a line in ascending order, 56 to 109 shuffled; on a Zen 4 1.3 and 15.5.
#[test]
fn prefetchers_read_ahead_what_another_core_has_modified() {
    for name in ["spr-one-socket", "emr-one-socket", "zen4-one-socket"] {
        let platform = Platform::named(name).unwrap();
        let (ascending, shuffled) = (read(&platform, 1), read(&platform, 37));
        assert!(4.0 * ascending < shuffled, "{name}: {ascending} and {shuffled} ns");
    }
}
