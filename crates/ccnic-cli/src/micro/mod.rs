//! Measurements of the machine itself, with no protocol: how fast two cores exchange cache lines through
//! coherent memory. And of one request and its answer, with as little protocol (`calls.rs`), and of messages over
//! queues of another design (`queues.rs`).

pub mod calls;
pub mod limit;
pub mod pingpong;
pub mod queues;
pub mod stream;

use anyhow::Context;
use ccnic::SharedMemory;
use ccnic_shm::{NativeMemory, Pages, Region};

use crate::cpus::{Split, pin};

/// One of the two threads of a measurement.
pub struct Side {
    /// Its access to the shared region.
    pub mem: NativeMemory,
    /// 0 or 1.
    pub number: usize,
    /// False when both share one CPU and must yield it to each other.
    pub alone: bool,
}

impl Side {
    /// Called after each empty poll.
    #[inline(always)]
    pub fn wait(&self) {
        if !self.alone {
            rustix::thread::sched_yield();
        }
    }

    /// Waits until the word at `at` is `value`.
    #[inline(always)]
    pub fn await_word(&self, at: u32, value: u64) {
        while self.mem.load_acquire(at) != value {
            self.wait();
        }
    }
}

/// Runs `f` on both sides at once, each pinned to its CPU, over a fresh region of `bytes`; returns both
/// results. `f` uses no offset beyond `bytes`, and has nothing lent.
#[expect(unsafe_code, reason = "access to a region is a promise")]
pub fn duet<T: Send>(bytes: u32, f: impl Fn(Side) -> T + Sync) -> anyhow::Result<[T; 2]> {
    let split = Split::of_machine()?;
    let region = Region::create(bytes, Pages::Auto)?;
    let run = |number, cpu| -> anyhow::Result<T> {
        pin(cpu)?;
        // SAFETY: both sides use words below the region's size only.
        let mem = unsafe { region.agent() };
        Ok(f(Side { mem, number, alone: split.alone(1) }))
    };
    std::thread::scope(|scope| {
        let one = scope.spawn(|| run(1, split.nic()));
        let zero = scope.spawn(|| run(0, split.host(0)));
        let join = |t: std::thread::ScopedJoinHandle<'_, _>| {
            t.join().map_err(|_| anyhow::anyhow!("a measuring thread panicked")).and_then(|r| r)
        };
        Ok([join(zero).context("host side")?, join(one).context("NIC side")?])
    })
}
