//! What two cores exchange with no protocol: batches of lines that are passed back and forth, as `ccnic bench limit` does it on a real
//! machine (`ccnic_load::exchange`); and lines that another core has modified, which a prefetcher reads ahead.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::cell::Cell;
use std::rc::Rc;

use ccnic::{LINE, SharedMemory};
use ccnic_load::exchange::Plan;
use ccnic_sim::micro::{Held, access, exchange};
use ccnic_sim::platform::Platform;
use ccnic_sim::time::Ps;
use ccnic_sim::{Agent, Machine, Sim};

/// Each line takes a fill buffer for as long as a load of it takes.
#[test]
fn two_cores_exchange_what_their_fill_buffers_allow() {
    for (name, held) in [("spr-one-socket", Held::LocalCore), ("icx", Held::RemoteWriterHomed)] {
        let platform = Platform::named(name).unwrap();
        let latency = access(&platform, held).unwrap().unwrap().median_ns;
        let most = f64::from(platform.core.fill_buffers.get()) / latency;
        let found =
            exchange(&platform, Plan { batch: 48, window: 64, shuffled: false }).unwrap() / 1e3 / most;
        assert!((0.75..1.02).contains(&found), "{name}: {found} of {most} lines a nanosecond");
    }
}

/// Each line is on a core's own path four times: it comes, is read, is written and is taken away.
#[test]
fn two_cores_exchange_what_their_own_paths_allow() {
    let zen4 = Platform::named("zen4-one-socket").unwrap();
    let plan = Plan { batch: 48, window: 64, shuffled: false };
    let rate = |line| exchange(&zen4.overridden("core.line", line).unwrap(), plan).unwrap() / 1e3;
    let free = rate(0.01);
    for line in [0.56, 1.0, 2.0] {
        let (found, most) = (rate(line), 1.0 / (4.0 * line));
        assert!(
            (0.8..1.02).contains(&(found / most)) && found < free,
            "{line}: {found} of {most} and {free}"
        );
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
