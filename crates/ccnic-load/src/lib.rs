//! The load generator: one thread per queue pair sends packets through the NIC's loopback and measures what
//! comes back (CC-NIC section 5.1). Every packet carries a time and a sequence number; its whole payload is
//! written, copied by the NIC, read and checked.
//!
//! It runs over any memory, real or simulated, and takes the time from a [`Clock`], so `ccnic bench` and
//! `ccnic sim` send the same load.

pub mod apps;
pub mod exchange;
mod generator;
pub mod payload;
mod times;
mod totals;
mod tracker;

use ccnic::SharedMemory;
use ccnic::host::QueuePair;
use ccnic::ring::Ring;
use hdrhistogram::Histogram;

use generator::Generator;
use payload::Header;
pub use totals::{Rtt, Totals};
use tracker::Tracker;

/// The machine that a generator runs on: its clock, and the cost of polling and of work.
pub trait Clock {
    /// The time in ticks.
    fn now(&self) -> u64;
    /// Waits until all earlier loads have completed. Otherwise the processor may read the clock before them.
    fn settle(&self);
    /// Ticks as nanoseconds.
    fn nanoseconds(&self, ticks: u64) -> u64;
    /// Yields the CPU if the other side needs it to make progress; false: go on polling.
    fn give_way(&self) -> bool;
    /// The next poll may last until this time. Real machines spin; a simulator can skip the time.
    fn sleep_until(&self, _: u64) {}
    /// This many packets have been written or checked. A simulator adds the time that this takes; on a real
    /// machine it has passed.
    fn spend(&self, _: usize) {}
    /// Calls `work`, compiled for the processor at hand where the machine can do that: what is inlined into `work` may
    /// use its widest registers.
    #[inline(always)]
    fn compile_for_it<T>(&self, work: impl FnOnce() -> T) -> T {
        work()
    }

    /// Seconds as ticks.
    fn ticks(&self, seconds: f64) -> u64 {
        // From the nanoseconds of a long span, so that rounding matters little.
        let span = 1u64 << 40;
        (seconds * span as f64 / self.nanoseconds(span) as f64 * 1e9) as u64
    }
}

/// Why a load could not be run.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// No packet came back.
    #[error("the NIC returned no packet; is it still running?")]
    NoPacket,
    /// A round trip that the histogram cannot hold.
    #[error("could not record round trips: {0}")]
    Histogram(String),
}

/// The load of one thread.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    /// Bytes of each packet.
    pub size: u16,
    /// Packets per transmit burst.
    pub burst: usize,
    /// Buffers per receive burst.
    pub rx_burst: usize,
    /// The most packets in flight.
    pub inflight: usize,
    /// Packets per second offered; `None`: as many as possible.
    pub rate: Option<f64>,
    /// At a given rate: send a whole burst when its last packet is due; otherwise each packet when it is due.
    pub whole_bursts: bool,
    /// At a given rate: when this thread begins, as a part (0 to 1) of the time between two bursts. Threads
    /// that begin together would send at the same times, and queue behind each other.
    pub phase: f64,
    /// Seconds to measure, after `warmup`.
    pub seconds: f64,
    /// Seconds to run before measuring.
    pub warmup: f64,
    /// The measured time ends when this many packets have been received, if that is sooner.
    pub packets: Option<u64>,
}

impl Load {
    /// The load of thread `i` of `threads`, which begin one after the other.
    pub fn of_thread(self, i: u16, threads: u16) -> Load {
        Load { phase: f64::from(i) / f64::from(threads.max(1)), ..self }
    }
}

/// The result of one thread.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Packets that came back within the measured time.
    pub packets: u64,
    /// Length of the measured time.
    pub seconds: f64,
    /// Packets sent and never received, in the whole run.
    pub lost: u64,
    /// Packets that came back damaged, twice or out of order, in the whole run.
    pub corrupt: u64,
    /// Round trips within the measured time, in nanoseconds.
    pub rtt: Histogram<u64>,
}

/// Runs a load on a queue pair. `started` is called when the measured time begins, and `ended` when it is
/// over.
///
/// # Errors
/// When the histogram cannot be made, or the NIC stops answering.
pub fn run<M: SharedMemory, R: Ring, C: Clock>(
    pair: &mut QueuePair<M, R>,
    load: Load,
    clock: &C,
    started: impl FnOnce(),
    ended: impl FnOnce(),
) -> Result<Outcome, LoadError> {
    run_framed(
        pair,
        load,
        Frames { sent: payload::NO_HEADER, back: payload::NO_HEADER },
        clock,
        started,
        ended,
    )
}

/// What packets begin with: [`payload::ethernet`].
#[derive(Debug, Clone, Copy)]
pub struct Frames<const N: usize> {
    /// Those that are sent.
    pub sent: Header<N>,
    /// Those that come back.
    pub back: Header<N>,
}

/// As [`run`], of packets with a header: through a switch, and back from another program that has changed it.
///
/// # Errors
/// As [`run`].
pub fn run_framed<const N: usize, M: SharedMemory, R: Ring, C: Clock>(
    pair: &mut QueuePair<M, R>,
    load: Load,
    frames: Frames<N>,
    clock: &C,
    started: impl FnOnce(),
    ended: impl FnOnce(),
) -> Result<Outcome, LoadError> {
    let mut once = Once { started: Some(started), ended: Some(ended) };
    let outcomes = run_steps(pair, load, frames, clock, &mut once)?;
    outcomes.into_iter().next().ok_or(LoadError::NoPacket)
}

/// Rates one after the other, on a system that stays warm between them.
pub trait Steps {
    /// The measured time of a step begins.
    fn started(&mut self);
    /// It is over: so many packets per second came back.
    fn ended(&mut self, rate: f64);
    /// What comes now.
    fn next(&mut self) -> Next;
}

/// What comes after a step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Next {
    /// Nothing: it was the last one.
    End,
    /// The same rate for so many seconds, then ask again: other threads still measure it.
    Stay(f64),
    /// Another step.
    Step {
        /// Seconds in which nothing is sent before it, if the queues have to empty.
        pause: Option<f64>,
        /// Packets per second that this thread offers.
        rate: f64,
        /// Seconds at that rate before they are measured.
        settle: f64,
    },
}

/// One step.
struct Once<S, E> {
    started: Option<S>,
    ended: Option<E>,
}

impl<S: FnOnce(), E: FnOnce()> Steps for Once<S, E> {
    fn started(&mut self) {
        if let Some(started) = self.started.take() {
            started();
        }
    }

    fn ended(&mut self, _: f64) {
        if let Some(ended) = self.ended.take() {
            ended();
        }
    }

    fn next(&mut self) -> Next {
        Next::End
    }
}

/// As [`run_framed`], with further rates after the load's own: the outcome of each. What was lost or damaged is that of the whole run in
/// all of them.
///
/// # Errors
/// As [`run`].
pub fn run_steps<const N: usize, M: SharedMemory, R: Ring, C: Clock>(
    pair: &mut QueuePair<M, R>,
    load: Load,
    frames: Frames<N>,
    clock: &C,
    steps: &mut impl Steps,
) -> Result<Vec<Outcome>, LoadError> {
    let mut generator = Generator::new(pair, load, frames, clock);
    generator.phase(load.warmup, None);
    let mut outcomes = Vec::new();
    loop {
        outcomes.push(generator.measure(steps));
        let next = loop {
            match steps.next() {
                Next::Stay(seconds) => generator.phase(seconds, None),
                next => break next,
            }
        };
        let Next::Step { pause, rate, settle } = next else { break };
        if let Some(seconds) = pause {
            generator.pause(seconds);
        }
        generator.offer(rate);
        generator.phase(settle, None);
    }
    generator.drain();
    let Tracker { received, lost, corrupt, .. } = generator.tracker;
    if received == 0 {
        return Err(LoadError::NoPacket);
    }
    outcomes.into_iter().map(|outcome| Ok(Outcome { lost, corrupt, ..outcome? })).collect()
}

#[cfg(test)]
mod tests;
