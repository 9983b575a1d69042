//! What the load generator's own software costs: `ccnic bench` can show no more packets than it makes and checks. One
//! thread is generator and NIC by turns; for `crates/ccnic/benches/instructions.py`, which counts instructions.
//!
//! `cargo bench -p ccnic-load -- SIZE --laps N --way loaded --design ccnic`: 32 N packets, bursts of 32, 512 in flight.
//! `--way lone`: N packets, one in flight. `--burst N` sends bursts of N instead, `--idle N` polls the NIC only at one in N of
//! the generator's polls that found nothing, `--spin N` polls it up to N times when it is its turn, until it finds something;
//! `--again N` gives it so many further turns then. `--demote`, `--no-recycle`, `--no-small`, `--host-managed`, `--no-inline`
//! and `--mempool` are those of `ccnic bench loopback`. It prints how often each side did a burst or found nothing:
//! `counts.py` solves for what each costs.
#![allow(clippy::unwrap_used, reason = "a benchmark")]

use std::cell::{Cell, RefCell};

use ccnic::host::{self, QueuePair};
use ccnic::layout::AREA;
use ccnic::nic::{NicQueue, Pipeline, loopback};
use ccnic::ring::{Ring, RingVisitor};
use ccnic::{Config, Demote, Design, Layout, SharedMemory};
use ccnic_load::{Clock, Load, LoadError, Outcome};
use ccnic_shm::{NativeMemory, Pages, Region};
use ccnic_testing::RegionMemory;

/// How often things happened.
#[derive(Default)]
struct Counted {
    host_bursts: Cell<u64>,
    host_idle: Cell<u64>,
    nic_bursts: Cell<u64>,
    nic_idle: Cell<u64>,
}

fn add(count: &Cell<u64>, more: u64) {
    count.set(count.get() + more);
}

/// A clock that counts its readings. Each polls the NIC, and so does each poll of the generator that found nothing, or one in `idle` of
/// these alone.
struct TurnClock<R: Ring> {
    now: Cell<u64>,
    idle: u64,
    spin: u64,
    again: u64,
    counted: Counted,
    nic: RefCell<(NicQueue<NativeMemory, R>, Pipeline)>,
    mem: NativeMemory,
}

impl<R: Ring> TurnClock<R> {
    /// The generator has found nothing: polls the NIC, if it is its turn; again, to find nothing, if it is told so.
    #[inline(always)]
    fn poll_nic(&self) {
        if self.counted.host_idle.get().is_multiple_of(self.idle) {
            step_nic(self);
            (0..self.again).for_each(|_| step_nic(self));
        }
    }
}

/// Out of line: `stages.py` sees where the generator has found nothing.
#[inline(never)]
fn found_nothing(host_idle: &Cell<u64>) {
    add(host_idle, 1);
}

/// Out of line: `stages.py` sees where the clock is read.
#[inline(never)]
fn read_clock(now: &Cell<u64>) -> u64 {
    add(now, 1);
    now.get()
}

impl<R: Ring> Clock for TurnClock<R> {
    #[inline(always)]
    fn now(&self) -> u64 {
        if self.idle == 1 {
            step_nic(self);
        }
        read_clock(&self.now)
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
        found_nothing(&self.counted.host_idle);
        self.poll_nic();
        false
    }

    #[inline(always)]
    fn spend(&self, _: usize) {
        add(&self.counted.host_bursts, 1);
    }
}

/// The NIC's turn. As the daemon's (`spin` of `ccnicd/src/dataplane`): it polls until it finds something.
#[inline(never)]
fn step_nic<R: Ring>(clock: &TurnClock<R>) {
    let (queue, pipeline) = &mut *clock.nic.borrow_mut();
    let polls = clock.spin;
    let vain = clock.mem.vectors().run(
        #[inline(always)]
        || {
            for vain in 0..polls {
                if loopback(queue, pipeline, &clock.mem, false) > 0 {
                    return vain;
                }
            }
            polls
        },
    );
    add(&clock.counted.nic_idle, vain);
    add(&clock.counted.nic_bursts, u64::from(vain < polls));
}

#[inline(never)]
fn step_host_and_generator<R: Ring>(
    pair: &mut QueuePair<NativeMemory, R>,
    load: Load,
    clock: &TurnClock<R>,
) -> Result<Outcome, LoadError> {
    ccnic_load::run(pair, load, clock, || (), || ())
}

/// Where the region lies, what in it, and functions: for `stages.py`.
fn print_places<R: Ring>(memory: &NativeMemory, layout: &Layout) {
    let (queue, pool) = (layout.queue(0).unwrap(), layout.pool());
    let areas = if queue.tx.areas == 0 { 0 } else { queue.tx.count * AREA };
    println!("region {}", memory.with(0, 8, |bytes| bytes.as_ptr().addr()));
    println!("region_bytes {}", layout.size());
    println!("tx_units {}\nrx_units {}", queue.tx.units, queue.rx.units);
    println!("ring_bytes {}", queue.tx.count * layout.config().design.unit());
    println!("tx_areas {}\nrx_areas {}\nareas_bytes {areas}", queue.tx.areas, queue.rx.areas);
    println!("buffers {}\nbuffers_bytes {}", pool.buffers, pool.end - pool.buffers);
    println!("step_nic {}", step_nic::<R> as fn(&TurnClock<R>) as usize);
    println!("read_clock {}", read_clock as fn(&Cell<u64>) -> u64 as usize);
    println!("found_nothing {}", found_nothing as fn(&Cell<u64>) as usize);
}

/// One load.
struct Case {
    load: Load,
    idle: u64,
    spin: u64,
    again: u64,
    config: Config,
}

impl RingVisitor for Case {
    type Output = Outcome;

    fn visit<R: Ring>(self) -> Outcome {
        let layout = Layout::new(&self.config).unwrap();
        let region = Region::create(layout.size(), Pages::Auto).unwrap();
        host::format(&region.memory(), &layout);
        let mut pair = QueuePair::<_, R>::new(region.memory(), &layout, 0).unwrap();
        let nic = NicQueue::new(region.memory(), &layout, 0).unwrap();
        let clock = TurnClock {
            now: Cell::new(0),
            idle: self.idle,
            spin: self.spin,
            again: self.again,
            counted: Counted::default(),
            nic: RefCell::new((nic, Pipeline::default())),
            mem: region.memory(),
        };
        print_places::<R>(&region.memory(), &layout);
        let outcome = step_host_and_generator(&mut pair, self.load, &clock).unwrap();
        let Counted { host_bursts, host_idle, nic_bursts, nic_idle } = &clock.counted;
        println!("host_bursts {}\nhost_idle {}", host_bursts.get(), host_idle.get());
        println!("nic_bursts {}\nnic_idle {}", nic_bursts.get(), nic_idle.get());
        outcome
    }
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let value = |name: &str, other: &str| {
        let at = args.iter().position(|arg| arg == name);
        at.and_then(|at| args.get(at + 1)).cloned().unwrap_or(other.to_owned())
    };
    let number = |name: &str, other: u64| value(name, &other.to_string()).parse::<u64>().unwrap();
    let off = |name: &str| args.iter().any(|arg| arg == name);
    let size = args.first().and_then(|size| size.parse().ok()).unwrap_or(64);
    let lone = value("--way", "loaded") == "lone";
    let burst = number("--burst", if lone { 1 } else { 32 }) as usize;
    let load = Load {
        size,
        burst,
        rx_burst: 32,
        inflight: if lone { 1 } else { 16 * burst },
        rate: None,
        whole_bursts: false,
        phase: 0.0,
        seconds: 1e6,
        warmup: 0.0,
        packets: Some(number("--laps", 100_000) * burst as u64),
    };
    let design = value("--design", "ccnic").parse::<Design>().unwrap();
    let doorbell = design == Design::Doorbell;
    let config = Config {
        ring: 1024,
        buffers: 4096,
        design,
        recycle: !off("--no-recycle"),
        small: !(off("--no-small") || doorbell),
        shared_pool: !(off("--host-managed") || doorbell),
        inline: !off("--no-inline"),
        mempool: off("--mempool"),
        demote: value("--demote", "auto").parse::<Demote>().unwrap(),
        ..Config::default()
    };
    let (idle, spin, again) = (number("--idle", 1), number("--spin", 1), number("--again", 0));
    let outcome = design.dispatch(Case { load, idle, spin, again, config });
    assert_eq!((outcome.lost, outcome.corrupt), (0, 0));
    println!("packets {}", outcome.packets);
}
