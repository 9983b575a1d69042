//! The limit: the highest rate at which two cores exchange cache lines in both directions at once, and the
//! round trip of one word. No ring, no pool, no packet: reports give the interface's share of this.
//!
//! *Batches* of lines are passed back and forth between the two sides. A side that gets a batch reads and checks every line,
//! writes every line anew and passes the batch back, so each line crosses once each way per round, with one
//! transfer of ownership (both sides fetch with PREFETCHW: they write what they have read). While one batch
//! is worked on, the lines of the next are prefetched. The limit is the highest rate over several batch sizes
//! and numbers of batches in flight.
//!
//! Tried and slower on a two-core Emerald Rapids machine, with registers of 16 bytes: no prefetch (0.7 of this), prefetching the first
//! lines of a run only (0.65), prefetching to read (0.95), reading and writing line by line instead of batch
//! by batch (0.9).

use ccnic::{LINE, SharedMemory};
use quanta::Clock;
use serde::Serialize;

use super::{Side, duet, pingpong};
use crate::stats::Spread;

/// How many lines per second two cores exchange: millions, in each direction, both directions at once.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Rates {
    /// Single lines in shuffled order.
    pub line_mlps: f64,
    /// Lines of contiguous runs, as those of 1.5 KB packets.
    pub run_mlps: f64,
}

impl Rates {
    /// Lines that cross in each direction for a packet of `size` bytes: its payload and a quarter line of
    /// descriptor.
    pub fn lines(size: u16) -> f64 {
        f64::from(u32::from(size).div_ceil(LINE)) + 0.25
    }

    /// True when packets of `size` bytes are measured against single lines: those of up to two lines. Longer
    /// ones are runs.
    pub fn single(size: u16) -> bool {
        u32::from(size) <= 2 * LINE
    }

    /// Million lines per second that packets of `size` bytes are measured against.
    pub fn of(&self, size: u16) -> f64 {
        if Rates::single(size) { self.line_mlps } else { self.run_mlps }
    }

    /// Million packets of `size` bytes per second that these rates allow.
    pub fn packets(&self, size: u16) -> f64 {
        self.of(size) / Rates::lines(size)
    }
}

/// The machine's limit: medians of several measurements.
#[derive(Debug, Clone, Serialize)]
pub struct Limit {
    /// Lines per second.
    #[serde(flatten)]
    pub rates: Rates,
    /// Round trips of one word.
    pub word_rtt_ns: WordRtt,
    /// Lines per batch and batches in flight that gave `line_mlps`.
    pub line_best: (u32, u32),
    /// Lines per batch and batches in flight that gave `run_mlps`.
    pub run_best: (u32, u32),
    /// The spread of the measurements.
    pub spread: LimitSpread,
}

/// Median round trips of one word.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct WordRtt {
    /// Both directions on one line.
    pub shared: f64,
    /// A line for each direction.
    pub separate: f64,
}

/// The spread of the measurements of a limit.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct LimitSpread {
    /// Of `line_mlps`.
    pub line_mlps: Spread,
    /// Of `run_mlps`.
    pub run_mlps: Spread,
    /// Of `word_rtt_ns.shared`.
    pub shared_ns: Spread,
    /// Of `word_rtt_ns.separate`.
    pub separate_ns: Spread,
}

/// One experiment.
#[derive(Debug, Clone, Copy)]
struct Plan {
    batch: u32,
    window: u32,
    shuffled: bool,
}

/// Batch sizes and windows that are tried.
const LINE_PLANS: [(u32, u32); 6] = [(32, 16), (64, 8), (64, 16), (64, 32), (128, 8), (128, 16)];
const RUN_PLANS: [(u32, u32); 6] = [(24, 64), (24, 128), (48, 64), (96, 32), (256, 8), (512, 8)];

/// How often each plan and each round trip is measured, in interleaved order.
const ROUNDS: usize = 5;

/// Steps of a measurement of the limit, for its progress.
pub const STEPS: usize = ROUNDS * (LINE_PLANS.len() + RUN_PLANS.len() + 2);

/// Measures the limit in about `seconds`. Each step is announced to `step` before it begins.
///
/// # Errors
/// When the region or the threads cannot be made, or lines arrive damaged.
pub fn measure(seconds: f64, mut step: impl FnMut(&str)) -> anyhow::Result<Limit> {
    let each = seconds / STEPS as f64;
    let plans = |plans: &[(u32, u32)], shuffled| -> Vec<(Plan, Vec<f64>)> {
        plans.iter().map(|&(batch, window)| (Plan { batch, window, shuffled }, Vec::new())).collect()
    };
    let (mut single, mut runs) = (plans(&LINE_PLANS, true), plans(&RUN_PLANS, false));
    let (mut shared, mut separate) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        for (plan, rates) in single.iter_mut().chain(&mut runs) {
            let kind = if plan.shuffled { "single lines" } else { "runs of lines" };
            step(&format!("{kind}: {} batches of {}", plan.window, plan.batch));
            rates.push(rate(*plan, each)?);
        }
        for (words, seen) in
            [(pingpong::Words::Shared, &mut shared), (pingpong::Words::Separate, &mut separate)]
        {
            step("round trip of one word");
            seen.push(pingpong::round(words, false, each)?.p50_ns);
        }
    }
    let (line_best, line) = best(&single);
    let (run_best, run) = best(&runs);
    let (shared, separate) = (Spread::of(shared), Spread::of(separate));
    Ok(Limit {
        rates: Rates { line_mlps: line.median, run_mlps: run.median },
        word_rtt_ns: WordRtt { shared: shared.median, separate: separate.median },
        line_best,
        run_best,
        spread: LimitSpread { line_mlps: line, run_mlps: run, shared_ns: shared, separate_ns: separate },
    })
}

/// The plan with the highest median.
fn best(measured: &[(Plan, Vec<f64>)]) -> ((u32, u32), Spread) {
    let spreads =
        measured.iter().map(|(plan, rates)| ((plan.batch, plan.window), Spread::of(rates.iter().copied())));
    spreads.max_by(|a, b| a.1.median.total_cmp(&b.1.median)).unwrap_or_default()
}

impl Limit {
    /// Measures the best plans once more, each for `seconds`: the machine's limit now.
    ///
    /// # Errors
    /// As [`measure`].
    pub fn again(&self, seconds: f64) -> anyhow::Result<Rates> {
        let again = |(batch, window), shuffled| rate(Plan { batch, window, shuffled }, seconds);
        Ok(Rates { line_mlps: again(self.line_best, true)?, run_mlps: again(self.run_best, false)? })
    }
}

/// Million lines per second each way.
fn rate(plan: Plan, seconds: f64) -> anyhow::Result<f64> {
    let lines = plan.batch * plan.window;
    // In the registers that the interface's bursts are compiled for.
    let [host, nic] = duet((lines + plan.window + 1) * LINE, |side| {
        side.mem.vectors().run(
            #[inline(always)]
            || relay(&side, plan, seconds),
        )
    })?;
    anyhow::ensure!(
        host.damaged | nic.damaged == 0,
        "lines arrived damaged: this machine's memory is not coherent"
    );
    Ok(host.lines as f64 / host.seconds / 1e6)
}

/// The results of one side.
#[derive(Debug, Default)]
struct Relay {
    lines: u64,
    damaged: u64,
    seconds: f64,
}

/// The addresses of a plan's lines: signals first (one line per batch), then the lines of the batches.
struct Lines {
    plan: Plan,
    order: Vec<u32>,
}

impl Lines {
    fn new(plan: Plan) -> Lines {
        let lines = plan.batch * plan.window;
        let mut order: Vec<u32> = (0..lines).collect();
        if plan.shuffled {
            // A fixed shuffle (Fisher-Yates over a linear congruential generator): the same one on both
            // sides.
            let mut state = 0x2545_f491_4f6c_dd1d_u64;
            for i in (1..order.len()).rev() {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                order.swap(i, (state >> 33) as usize % (i + 1));
            }
        }
        let first = plan.window + 1;
        Lines { plan, order: order.into_iter().map(|i| (first + i) * LINE).collect() }
    }

    fn signal(&self, batch: u64) -> u32 {
        (1 + (batch % u64::from(self.plan.window)) as u32) * LINE
    }

    fn lines(&self, batch: u64) -> &[u32] {
        let at = (batch % u64::from(self.plan.window)) as usize * self.plan.batch as usize;
        self.order.get(at..at + self.plan.batch as usize).unwrap_or_default()
    }
}

/// The word by which side 0 ends the experiment.
const STOP: u32 = 0;

/// One side of the experiment: receives batches, checks and rewrites them, and passes them back.
#[inline(always)]
fn relay(side: &Side, plan: Plan, seconds: f64) -> Relay {
    let plan_lines = Lines::new(plan);
    let clock = Clock::new();
    let start = clock.raw();
    let mut seen = Relay::default();
    // A batch's signal counts how often it has been passed on. Side 0 starts with all batches: it gets even
    // counts, side 1 odd ones.
    let due = |batch: u64| 2 * (batch / u64::from(plan.window)) + side.number as u64;
    let mut batch = 0;
    let mut current = take(side, &plan_lines, batch, due(batch));
    while current {
        // Two batches at once: the lines of the second arrive while the first is processed.
        let next = take(side, &plan_lines, batch + 1, due(batch + 1));
        let ahead = if next { plan_lines.lines(batch + 1) } else { &[] };
        seen.damaged |= rework(side, plan_lines.lines(batch), ahead, due(batch));
        side.mem.store_release(plan_lines.signal(batch), due(batch) + 1);
        seen.lines += u64::from(plan.batch);
        batch += 1;
        if side.number == 0 && batch % 64 == 0 {
            seen.seconds = clock.delta(start, clock.raw()).as_secs_f64();
            if seen.seconds > seconds {
                side.mem.store_release(STOP, 1);
                break;
            }
        }
        current = next;
    }
    seen
}

/// Waits for a batch; false when the experiment has ended.
#[inline(always)]
fn take(side: &Side, lines: &Lines, batch: u64, due: u64) -> bool {
    while side.mem.load_acquire(lines.signal(batch)) != due {
        if side.mem.load_acquire(STOP) != 0 {
            return false;
        }
        side.wait();
    }
    true
}

/// Reads and checks all lines of a batch, then writes all for the other side; returns bits that are set when
/// any differed.
#[inline(always)]
fn rework(side: &Side, lines: &[u32], ahead: &[u32], due: u64) -> u64 {
    let mut damaged = 0;
    let mut ahead = ahead.iter();
    for &at in lines {
        if let Some(&next) = ahead.next() {
            side.mem.prefetch_own(next);
        }
        let mut bytes = [0u8; LINE as usize];
        side.mem.read(at, &mut bytes);
        damaged |= differs(&bytes, word(at, due));
    }
    for &at in lines {
        side.mem.write(at, &filled(word(at, due + 1)));
    }
    damaged
}

/// The value of every word of a line when it is passed on: its offset and the count; initially zero.
#[inline(always)]
fn word(at: u32, due: u64) -> u64 {
    if due == 0 { 0 } else { due << 32 | u64::from(at) }
}

#[inline(always)]
fn differs(line: &[u8; LINE as usize], word: u64) -> u64 {
    line.as_chunks::<8>().0.iter().fold(0, |differ, found| differ | u64::from_le_bytes(*found) ^ word)
}

#[inline(always)]
fn filled(word: u64) -> [u8; LINE as usize] {
    let mut bytes = [0; LINE as usize];
    bytes.as_chunks_mut::<8>().0.iter_mut().for_each(|slot| *slot = word.to_le_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_that_crosses_is_checked() {
        let plan = Plan { batch: 8, window: 4, shuffled: true };
        let [host, nic] = duet(64 * LINE, |side| relay(&side, plan, 0.01)).unwrap();
        assert_eq!(host.damaged | nic.damaged, 0);
        assert!(host.lines >= 64 * 8 && host.lines.abs_diff(nic.lines) <= 32, "{host:?} {nic:?}");
    }

    #[test]
    fn a_shuffle_keeps_every_line() {
        let mut order = Lines::new(Plan { batch: 16, window: 8, shuffled: true }).order;
        order.sort_unstable();
        assert!(order.windows(2).all(|w| w[1] - w[0] == LINE) && order.len() == 128 && order[0] == 9 * LINE);
    }

    #[test]
    fn limits_count_payload_and_descriptors() {
        let rates = Rates { line_mlps: 50.0, run_mlps: 97.0 };
        assert_eq!((rates.packets(64), rates.packets(128)), (40.0, 50.0 / 2.25));
        assert_eq!((rates.of(129), rates.packets(1500)), (97.0, 4.0));
    }

    #[test]
    fn the_best_plan_has_the_highest_median() {
        let plan = |batch| Plan { batch, window: 8, shuffled: true };
        let measured =
            [(plan(1), vec![1.0, 2.0, 90.0]), (plan(2), vec![3.0, 4.0, 5.0]), (plan(3), vec![0.0])];
        assert_eq!(best(&measured), ((2, 8), Spread { min: 3.0, median: 4.0, max: 5.0 }));
    }

    #[test]
    fn a_limit_is_measured_in_announced_steps() {
        let mut steps = 0;
        let limit = measure(0.05, |_| steps += 1).unwrap();
        assert_eq!(steps, STEPS);
        assert!(limit.rates.line_mlps > 0.0 && limit.rates.run_mlps > 0.0 && limit.word_rtt_ns.shared > 0.0);
        assert!(limit.again(0.001).unwrap().line_mlps > 0.0);
    }
}
