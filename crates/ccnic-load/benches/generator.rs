//! What the load generator's own software costs: `ccnic bench` can show no more packets than it makes and checks. One
//! thread is generator and NIC by turns; for `crates/ccnic/benches/instructions.py`, which counts instructions.
//!
//! `cargo bench -p ccnic-load -- SIZE --laps N --way loaded --design ccnic`: 32 N packets, bursts of 32, 512 in flight.
//! `--way lone`: N packets, one in flight.
#![allow(clippy::unwrap_used, reason = "a benchmark")]

use std::cell::{Cell, RefCell};

use ccnic::host::{self, QueuePair};
use ccnic::nic::{NicQueue, Pipeline, loopback};
use ccnic::ring::{Ring, RingVisitor};
use ccnic::{Config, Design, Layout};
use ccnic_load::{Clock, Load, LoadError, Outcome};
use ccnic_shm::{NativeMemory, Pages, Region};

/// A clock that counts its readings. Each polls the NIC, and so does each poll of the generator that found nothing.
struct TurnClock<R: Ring> {
    now: Cell<u64>,
    nic: RefCell<(NicQueue<NativeMemory, R>, Pipeline)>,
    mem: NativeMemory,
}

impl<R: Ring> Clock for TurnClock<R> {
    #[inline(always)]
    fn now(&self) -> u64 {
        step_nic(self);
        self.now.set(self.now.get() + 1);
        self.now.get()
    }

    #[inline(always)]
    fn settle(&self) {
        ccnic_shm::wait_for_loads();
    }

    fn nanoseconds(&self, ticks: u64) -> u64 {
        ticks
    }

    #[inline(always)]
    fn compile_for_it<T>(&self, work: impl FnOnce() -> T) -> T {
        ccnic_shm::Vectors::chosen().run(work)
    }

    #[inline(always)]
    fn give_way(&self) -> bool {
        step_nic(self);
        false
    }
}

#[inline(never)]
fn step_nic<R: Ring>(clock: &TurnClock<R>) {
    let (queue, pipeline) = &mut *clock.nic.borrow_mut();
    loopback(queue, pipeline, &clock.mem, false);
}

#[inline(never)]
fn step_host_and_generator<R: Ring>(
    pair: &mut QueuePair<NativeMemory, R>,
    load: Load,
    clock: &TurnClock<R>,
) -> Result<Outcome, LoadError> {
    ccnic_load::run(pair, load, clock, || (), || ())
}

/// One load.
struct Case {
    load: Load,
}

impl RingVisitor for Case {
    type Output = Outcome;

    fn visit<R: Ring>(self) -> Outcome {
        let shared_pool = R::DESIGN != Design::Doorbell;
        let config =
            Config { ring: 1024, buffers: 4096, design: R::DESIGN, shared_pool, ..Config::default() };
        let layout = Layout::new(&config).unwrap();
        let region = Region::create(layout.size(), Pages::Auto).unwrap();
        host::format(&region.memory(), &layout);
        let mut pair = QueuePair::<_, R>::new(region.memory(), &layout, 0).unwrap();
        let nic = NicQueue::new(region.memory(), &layout, 0).unwrap();
        let clock = TurnClock {
            now: Cell::new(0),
            nic: RefCell::new((nic, Pipeline::default())),
            mem: region.memory(),
        };
        step_host_and_generator(&mut pair, self.load, &clock).unwrap()
    }
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let value = |name: &str, other: &str| {
        let at = args.iter().position(|arg| arg == name);
        at.and_then(|at| args.get(at + 1)).cloned().unwrap_or(other.to_owned())
    };
    let size = args.first().and_then(|size| size.parse().ok()).unwrap_or(64);
    let laps: u64 = value("--laps", "100000").parse().unwrap();
    let lone = value("--way", "loaded") == "lone";
    let burst = if lone { 1 } else { 32 };
    let load = Load {
        size,
        burst,
        rx_burst: 32,
        inflight: 16 * burst,
        rate: None,
        whole_bursts: false,
        phase: 0.0,
        seconds: 1e6,
        warmup: 0.0,
        packets: Some(laps * burst as u64),
    };
    let load = Load { inflight: if lone { 1 } else { load.inflight }, ..load };
    let outcome = value("--design", "ccnic").parse::<Design>().unwrap().dispatch(Case { load });
    assert_eq!((outcome.lost, outcome.corrupt), (0, 0));
    println!("packets {}", outcome.packets);
}
