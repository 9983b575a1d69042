//! What the interface's software costs alone: one thread is host and NIC by turns, so that every line stays in
//! its first-level cache. Time per packet of each step; the transfers between two cores come on top.
//!
//! `cargo bench -p ccnic`, or `cargo bench -p ccnic -- 64` for one size.
#![allow(clippy::unwrap_used, reason = "a benchmark")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use ccnic::host::{self, QueuePair};
use ccnic::nic::{NicQueue, Pipeline, loopback};
use ccnic::ring::{Ring, RingVisitor};
use ccnic::{Burst, Config, Design, Layout};
use ccnic_shm::{NativeMemory, Pages, Region};
use criterion::{Criterion, Throughput};

/// Packets of a burst.
const BURST: usize = 32;
/// Bursts of a lap: each step does as many before the next one begins, so that reading the clock costs a
/// fraction of a nanosecond per packet. Few enough for the first-level cache with 64-byte packets.
const BURSTS: usize = 4;

/// A step of a lap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Alloc,
    Write,
    Tx,
    Nic,
    Rx,
    Read,
    Free,
}

/// A lap: what happens to 128 packets, in this order.
const LAP: [Step; 7] = [Step::Alloc, Step::Write, Step::Tx, Step::Nic, Step::Rx, Step::Read, Step::Free];

/// A thing that is reported: a name, and the steps that it is made of.
const REPORTS: [(&str, &[Step]); 8] = [
    ("host", &[Step::Alloc, Step::Tx, Step::Rx, Step::Free]),
    ("host alloc", &[Step::Alloc]),
    ("host write payload", &[Step::Write]),
    ("host tx", &[Step::Tx]),
    ("host rx", &[Step::Rx]),
    ("host read payload", &[Step::Read]),
    ("host free", &[Step::Free]),
    ("nic", &[Step::Nic]),
];

/// Both sides of a queue pair.
struct Lap<R: Ring> {
    host: QueuePair<NativeMemory, R>,
    nic: NicQueue<NativeMemory, R>,
    pipeline: Pipeline,
    mem: NativeMemory,
    bursts: [Burst; BURSTS],
    payload: Vec<u8>,
    check: u64,
}

impl<R: Ring> Lap<R> {
    fn new(size: u16) -> Lap<R> {
        let shared_pool = R::DESIGN != Design::Doorbell;
        let config =
            Config { ring: 1024, buffers: 2048, design: R::DESIGN, shared_pool, ..Config::default() };
        let layout = Layout::new(&config).unwrap();
        let region = Region::create(layout.size(), Pages::Auto).unwrap();
        host::format(&region.memory(), &layout);
        Lap {
            host: QueuePair::new(region.memory(), &layout, 0).unwrap(),
            nic: NicQueue::new(region.memory(), &layout, 0).unwrap(),
            pipeline: Pipeline::default(),
            mem: region.memory(),
            bursts: std::array::from_fn(|_| Burst::new()),
            payload: vec![0x5a; size.into()],
            check: 0,
        }
    }

    #[inline(never)]
    fn alloc(&mut self) {
        let len = self.payload.len() as u16;
        for burst in &mut self.bursts {
            assert_eq!(self.host.alloc(len, BURST, burst), BURST);
        }
    }

    #[inline(never)]
    fn write(&mut self) {
        for burst in &mut self.bursts {
            burst.iter_mut().for_each(|buf| _ = self.host.write(buf, 0, &self.payload));
        }
    }

    #[inline(never)]
    fn tx(&mut self) {
        for burst in &mut self.bursts {
            assert_eq!(self.host.tx_burst(burst), BURST);
        }
    }

    #[inline(never)]
    fn nic(&mut self) {
        let mut left = BURST * BURSTS;
        while left > 0 {
            left -= loopback(&mut self.nic, &mut self.pipeline, &self.mem, false);
        }
    }

    #[inline(never)]
    fn rx(&mut self) {
        for burst in &mut self.bursts {
            let mut left = BURST;
            while left > 0 {
                left -= self.host.rx_burst(burst, left);
            }
        }
    }

    #[inline(never)]
    fn read(&mut self) {
        for burst in &self.bursts {
            for buf in burst.as_slice() {
                self.check += self.host.with(buf, words);
            }
        }
    }

    #[inline(never)]
    fn free(&mut self) {
        self.bursts.iter_mut().for_each(|burst| self.host.free(burst));
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Alloc => self.alloc(),
            Step::Write => self.write(),
            Step::Tx => self.tx(),
            Step::Nic => self.nic(),
            Step::Rx => self.rx(),
            Step::Read => self.read(),
            Step::Free => self.free(),
        }
    }

    /// One lap; the time that the steps `timed` took.
    fn run(&mut self, timed: &[Step]) -> Duration {
        let mut total = Duration::ZERO;
        for step in LAP {
            let start = timed.contains(&step).then(Instant::now);
            self.step(step);
            total += start.map_or(Duration::ZERO, |start| start.elapsed());
        }
        black_box(self.check);
        total
    }
}

/// Reads every byte, eight at a time.
fn words(bytes: &[u8]) -> u64 {
    let (chunks, rest) = bytes.as_chunks::<8>();
    let sum = chunks.iter().fold(0, |sum: u64, chunk| sum.wrapping_add(u64::from_ne_bytes(*chunk)));
    rest.iter().fold(sum, |sum, byte| sum.wrapping_add(u64::from(*byte)))
}

/// Measures one design with packets of one size.
struct Measure<'a> {
    criterion: &'a mut Criterion,
    size: u16,
}

impl RingVisitor for Measure<'_> {
    type Output = ();

    fn visit<R: Ring>(self) {
        let name = format!("{} {} B", R::DESIGN.name(), self.size);
        let mut group = self.criterion.benchmark_group(name);
        group.throughput(Throughput::Elements(1));
        let mut lap = Lap::<R>::new(self.size);
        for (what, steps) in REPORTS {
            group.bench_function(what, |b| {
                // One iteration is one packet: laps are counted up to at least as many.
                b.iter_custom(|packets| {
                    let laps = packets.div_ceil((BURST * BURSTS) as u64);
                    let total: Duration = (0..laps).map(|_| lap.run(steps)).sum();
                    total.mul_f64(packets as f64 / (laps * (BURST * BURSTS) as u64) as f64)
                });
            });
        }
        group.finish();
    }
}

fn main() {
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_secs(1))
        .configure_from_args();
    for design in [Design::GroupedEpoch, Design::GroupedClear, Design::Doorbell] {
        for size in [64, 256, 1500] {
            design.dispatch(Measure { criterion: &mut criterion, size });
        }
    }
    criterion.final_summary();
}
