//! What the interface's software costs alone: one thread is host and NIC by turns, so that every line stays in
//! its first-level caches. Time per packet of each step; the transfers between two cores come on top.
//!
//! `cargo bench -p ccnic` prints nanoseconds: the minimum and the median of many short rounds, so that what else
//! runs on the machine hardly shows. `cargo bench -p ccnic -- 64` measures one size.
//!
//! Each step is compiled for the widest registers of the machine, as a program's and the daemon's bursts are. The environment variable
//! `CCNIC_VECTORS` limits them.
//!
//! With `--laps N` it does N laps of each case and times nothing: `instructions.py` runs it so under callgrind.
#![allow(clippy::unwrap_used, reason = "a benchmark")]

use std::hint::black_box;
use std::time::Instant;

use ccnic::host::{self, QueuePair};
use ccnic::nic::{NicQueue, Pipeline, loopback};
use ccnic::ring::{Ring, RingVisitor};
use ccnic::{Burst, Config, Demote, Design, Layout, Tuning};
use ccnic_shm::{NativeMemory, Pages, Region, timestamp};
use ccnic_testing::RegionMemory;

/// Packets of a burst, and bytes of it at most.
const BURST: usize = 32;
const BURST_BYTES: usize = 12 << 10;
/// Bursts of a lap: each step does as many before the next one begins. With the buffers that they are copied to
/// and a ring of [`RING`] descriptors, they fit into a first-level cache of 48 KiB.
const BURSTS: usize = 2;
const RING: u32 = 128;

/// Polls of each side before a lone packet, more than make a ring idle.
const POLLS: usize = 40;

/// Rounds of each case, and the time of one.
const ROUNDS: usize = 1000;
const ROUND_NS: u64 = 100_000;

/// Sizes of packets: the first three are those that the yardstick is measured with.
const SIZES: [u16; 4] = [64, 256, 1472, 4096];

/// How the host sends and receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// In buffers of the pool, which it fills and reads in place.
    Buffers,
    /// As a DPDK driver does: copied from and to memory of its own, without handles.
    Copies,
    /// Written and read where they lie, without handles.
    InPlace,
    /// As `InPlace`, one packet at a time over rings that were idle before it: the path of a lone packet.
    Lone,
}

/// A step of a lap.
type Step<R> = fn(&mut Lap<R>);

impl Way {
    const ALL: [Way; 4] = [Way::Buffers, Way::Copies, Way::InPlace, Way::Lone];

    fn name(self) -> &'static str {
        match self {
            Way::Buffers => "buffers",
            Way::Copies => "copies",
            Way::InPlace => "in-place",
            Way::Lone => "lone",
        }
    }

    /// Whether packets of this size can be sent so. With the host-managed pool every buffer is a large one.
    fn carries(self, size: u16, design: Design) -> bool {
        match self {
            Way::Buffers | Way::InPlace | Way::Lone => true,
            Way::Copies => size <= 128 && design != Design::Doorbell,
        }
    }

    /// The bursts of a lap, and the packets of each.
    fn bursts(self, size: u16) -> (usize, usize) {
        match self {
            Way::Lone => (1, 1),
            _ => (BURSTS, (BURST_BYTES / usize::from(size)).clamp(1, BURST)),
        }
    }

    /// What happens to the packets of a lap, in this order. Steps that write or read payload and nothing else
    /// are named so, and are no part of the interface's software.
    fn steps<R: Ring>(self) -> Vec<(&'static str, Step<R>)> {
        let nic = ("nic", step_nic as Step<R>);
        match self {
            Way::Buffers => vec![
                ("host alloc", step_host_alloc),
                ("payload write", step_payload_write),
                ("host tx", step_host_tx),
                nic,
                ("host rx", step_host_rx),
                ("payload read", step_payload_read),
                ("host free", step_host_free),
            ],
            Way::Copies => vec![("host tx", step_host_tx_small), nic, ("host rx", step_host_rx_small)],
            Way::InPlace => vec![("host fill", step_host_fill), nic, ("host lend", step_host_lend)],
            Way::Lone => vec![
                ("idle polls", step_idle_polls),
                ("host fill", step_host_fill),
                nic,
                ("host lend", step_host_lend),
            ],
        }
    }
}

/// Both sides of a queue pair.
struct Lap<R: Ring> {
    host: QueuePair<NativeMemory, R>,
    nic: NicQueue<NativeMemory, R>,
    pipeline: Pipeline,
    mem: NativeMemory,
    bursts: Vec<Burst>,
    /// Packets of a burst.
    burst: usize,
    payload: Vec<u8>,
    check: u64,
}

impl<R: Ring> Lap<R> {
    fn new(size: u16, way: Way) -> Lap<R> {
        let (bursts, burst) = way.bursts(size);
        let shared_pool = R::DESIGN != Design::Doorbell;
        let config =
            Config { ring: RING, buffers: 1024, design: R::DESIGN, shared_pool, ..Config::default() };
        let layout = Layout::new(&config).unwrap();
        let region = Region::create(layout.size(), Pages::Auto).unwrap();
        host::format(&region.memory(), &layout);
        Lap {
            host: QueuePair::new(region.memory(), &layout, 0).unwrap(),
            nic: NicQueue::new(region.memory(), &layout, 0).unwrap(),
            pipeline: Pipeline::default(),
            mem: region.memory(),
            bursts: (0..bursts).map(|_| Burst::new()).collect(),
            burst,
            payload: vec![0x5a; size.into()],
            check: 0,
        }
    }

    /// Packets of a lap.
    fn packets(&self) -> usize {
        self.burst * self.bursts.len()
    }
}

// The steps: functions of their own, by whose names `instructions.py` tells what belongs to which.

/// Defines a step: a function that does its body in the widest registers.
macro_rules! step {
    ($name:ident, $lap:ident, $body:block) => {
        #[inline(never)]
        fn $name<R: Ring>($lap: &mut Lap<R>) {
            let vectors = $lap.mem.vectors();
            vectors.run(
                #[inline(always)]
                || $body,
            );
        }
    };
}

step!(step_host_alloc, lap, {
    let len = lap.payload.len() as u16;
    for burst in &mut lap.bursts {
        assert_eq!(lap.host.alloc(len, lap.burst, burst), lap.burst);
    }
});

step!(step_payload_write, lap, {
    for burst in &mut lap.bursts {
        burst.iter_mut().for_each(|buf| _ = lap.host.write(buf, 0, &lap.payload));
    }
});

step!(step_host_tx, lap, {
    for burst in &mut lap.bursts {
        assert_eq!(lap.host.tx_burst(burst), lap.burst);
    }
});

step!(step_nic, lap, {
    let mut left = lap.packets();
    while left > 0 {
        left -= loopback(&mut lap.nic, &mut lap.pipeline, &lap.mem, false);
    }
});

step!(step_host_rx, lap, {
    for burst in &mut lap.bursts {
        let mut left = lap.burst;
        while left > 0 {
            left -= lap.host.rx_burst(burst, left);
        }
    }
});

step!(step_payload_read, lap, {
    for burst in &lap.bursts {
        for buf in burst.as_slice() {
            lap.check += lap.host.with(buf, words);
        }
    }
});

step!(step_host_free, lap, { lap.bursts.iter_mut().for_each(|burst| lap.host.free(burst)) });

step!(step_host_tx_small, lap, {
    for burst in &mut lap.bursts {
        let packets = (0..lap.burst).map(|_| (lap.payload.as_slice(), 0));
        assert_eq!(lap.host.tx_small(lap.payload.len() as u16, packets, burst), lap.burst);
    }
});

step!(step_host_rx_small, lap, {
    let mut left = lap.packets();
    while left > 0 {
        let check = &mut lap.check;
        left -= lap
            .host
            .rx_small(
                left.min(BURST),
                #[inline(always)]
                |_, bytes, _| *check += words(bytes),
            )
            .unwrap();
    }
});

step!(step_host_fill, lap, {
    let (len, from) = (lap.payload.len() as u16, *lap.payload.first_chunk::<64>().unwrap());
    for burst in &mut lap.bursts {
        let sent = lap.host.tx_fill(
            len,
            lap.burst,
            burst,
            #[inline(always)]
            |_, to| {
                let (lines, rest) = to.as_chunks_mut();
                lines.iter_mut().for_each(|line| *line = from);
                if !rest.is_empty() {
                    rest.fill(0x5a);
                }
                0
            },
        );
        assert_eq!(sent, lap.burst);
    }
});

step!(step_host_lend, lap, {
    let mut left = lap.packets();
    while left > 0 {
        let check = &mut lap.check;
        left -= lap
            .host
            .rx_lend(
                left.min(BURST),
                #[inline(always)]
                |_, bytes, _| *check += words(bytes),
            )
            .unwrap();
    }
});

step!(step_idle_polls, lap, {
    for _ in 0..POLLS {
        assert_eq!(lap.host.rx_lend(BURST, |_, _, _| ()).unwrap(), 0);
        assert_eq!(loopback(&mut lap.nic, &mut lap.pipeline, &lap.mem, false), 0);
    }
});

/// Reads every byte, eight at a time.
#[inline(always)]
fn words(bytes: &[u8]) -> u64 {
    let (chunks, rest) = bytes.as_chunks::<8>();
    let sum = chunks.iter().fold(0, |sum: u64, chunk| sum.wrapping_add(u64::from_ne_bytes(*chunk)));
    rest.iter().fold(sum, |sum, byte| sum.wrapping_add(u64::from(*byte)))
}

/// One size of packets sent in one way.
struct Case {
    size: u16,
    way: Way,
    /// Laps to be counted; none: time them.
    laps: Option<usize>,
}

impl RingVisitor for Case {
    type Output = ();

    fn visit<R: Ring>(self) {
        let mut lap = Lap::<R>::new(self.size, self.way);
        if self.way == Way::Lone {
            // With one thread demoted lines would only leave the cache that they are read from next.
            let tuning = Tuning { demote: Demote::Off, ..Tuning::default() };
            lap.host.set_tuning(tuning);
            lap.nic.set_tuning(tuning);
        }
        let steps = self.way.steps::<R>();
        let packets = lap.packets();
        if let Some(laps) = self.laps {
            (0..laps).for_each(|_| steps.iter().for_each(|(_, step)| step(&mut lap)));
            println!("packets {}", laps * packets);
            return;
        }
        let rounds = time(&mut lap, &steps);
        println!("{}, {} B, {}", R::DESIGN.name(), self.size, self.way.name());
        print("host", packets, &rounds, |i| steps[i].0.starts_with("host"));
        for (at, (name, _)) in steps.iter().enumerate() {
            print(name, packets, &rounds, |i| i == at);
        }
        black_box(lap.check);
    }
}

/// The nanoseconds that each step took per lap, of every round.
fn time<R: Ring>(lap: &mut Lap<R>, steps: &[(&str, Step<R>)]) -> Vec<Vec<f64>> {
    let (mut laps, mut rounds) = (1, Vec::with_capacity(ROUNDS));
    let clock = (0..1000).map(|_| timestamp().abs_diff(timestamp())).min().unwrap();
    let mut from = timestamp();
    while rounds.len() < ROUNDS {
        let (start, mut ticks) = (Instant::now(), vec![0; steps.len()]);
        let began = timestamp();
        for _ in 0..laps {
            from = timestamp();
            for ((_, step), ticks) in steps.iter().zip(&mut ticks) {
                step(lap);
                let now = timestamp();
                *ticks += (now - from).saturating_sub(clock);
                from = now;
            }
        }
        let ns = start.elapsed().as_nanos() as u64;
        if ns < ROUND_NS / 2 && rounds.is_empty() {
            laps *= 2; // also warms up
            continue;
        }
        let tick = ns as f64 / (from - began) as f64 / laps as f64;
        rounds.push(ticks.into_iter().map(|ticks| ticks as f64 * tick).collect());
    }
    rounds
}

/// A line of the report: of the steps that are `part` of it together.
fn print(name: &str, packets: usize, rounds: &[Vec<f64>], part: impl Fn(usize) -> bool) {
    let sum = |round: &Vec<f64>| (0..round.len()).filter(|i| part(*i)).map(|i| round[i]).sum::<f64>();
    let mut ns: Vec<f64> = rounds.iter().map(|round| sum(round) / packets as f64).collect();
    ns.sort_by(f64::total_cmp);
    println!("  {name:16} min {:7.2}  median {:7.2} ns per packet", ns[0], ns[ns.len() / 2]);
}

fn main() {
    // `cargo bench` adds --bench.
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let value = |name: &str| args.iter().position(|arg| arg == name).and_then(|at| args.get(at + 1)).cloned();
    let laps = value("--laps").map(|laps| laps.parse().unwrap());
    let (way, design) = (value("--way"), value("--design"));
    let asked: Vec<u16> =
        args.iter().take_while(|arg| !arg.starts_with("--")).map(|arg| arg.parse().unwrap()).collect();
    for name in [Design::GroupedEpoch, Design::GroupedClear, Design::Doorbell] {
        for size in if asked.is_empty() { SIZES.to_vec() } else { asked.clone() } {
            for kind in Way::ALL {
                let chosen = way.as_ref().is_none_or(|way| way == kind.name());
                if chosen
                    && kind.carries(size, name)
                    && design.as_ref().is_none_or(|design| design == name.name())
                {
                    name.dispatch(Case { size, way: kind, laps });
                }
            }
        }
    }
}
