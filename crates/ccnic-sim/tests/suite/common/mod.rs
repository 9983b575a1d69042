//! What the simulator's tests share.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::time::SystemTime;

use ccnic::{Config, Design};
use ccnic_load::Load;
use ccnic_sim::loopback::{Plan, Run};
use ccnic_sim::platform::Platform;

/// A seed that differs from run to run, or the one in `CCNIC_SEED`. It is printed, so that a failure can be repeated.
pub(crate) fn seed() -> u64 {
    let given = std::env::var("CCNIC_SEED").ok().and_then(|s| s.parse().ok());
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos();
    let seed = given.unwrap_or(now as u64 % 1_000_000_000);
    println!("seed: CCNIC_SEED={seed}");
    seed
}

/// Prints the seed of a run that fails; with this seed it is the first run of the next test.
pub(crate) struct Named(pub u64);

impl Drop for Named {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("this run again: CCNIC_SEED={}", self.0);
        }
    }
}

/// Random numbers (splitmix64).
#[derive(Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0xbf58_476d_1ce4_e5b9))
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// A number below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }
}

/// A loopback of `queues` pairs of cores.
pub(crate) fn plan(design: Design, queues: u16, size: u16, inflight: usize, seconds: f64) -> Plan {
    let shared_pool = design != Design::Doorbell;
    let config = Config { design, shared_pool, queues, ..Config::default() };
    let burst = inflight.min(32);
    let load = Load {
        size,
        burst,
        rx_burst: 32,
        inflight,
        rate: None,
        seconds,
        warmup: seconds / 4.0,
        packets: None,
        whole_bursts: false,
        phase: 0.0,
    };
    Plan { config, load }
}

/// Packets per second, all queues together, in millions.
pub(crate) fn mpps(run: &Run) -> f64 {
    run.outcomes.iter().map(|o| o.packets as f64 / o.seconds).sum::<f64>() / 1e6
}

pub(crate) fn named(platform: &str) -> Platform {
    Platform::named(platform).unwrap()
}
