//! The limit: the highest rate at which two cores exchange cache lines in both directions at once, and the
//! round trip of one word. No ring, no pool, no packet: reports give the interface's share of this.
//!
//! The limit is the highest rate of `ccnic_load::exchange` over several batch sizes and numbers of batches in flight.
//!
//! Tried and slower on a two-core Emerald Rapids machine, with registers of 16 bytes: no prefetch (0.7 of this), prefetching the first
//! lines of a run only (0.65), prefetching to read (0.95), reading and writing line by line instead of batch
//! by batch (0.9).

use ccnic::LINE;
use ccnic_load::exchange::{self, Passed, Plan, TRIED, pass};
use quanta::Clock;
use serde::Serialize;

use super::{Side, duet, pingpong};
use crate::stats::Spread;

/// How many lines per second two cores exchange: millions, in each direction, both directions at once.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Rates {
    /// Single lines, 128 bytes apart, in shuffled order.
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

/// How often each plan and each round trip is measured, in interleaved order.
const ROUNDS: usize = 5;

/// Steps of a measurement of the limit, for its progress.
pub const STEPS: usize = ROUNDS * (2 * TRIED + 2);

/// Measures the limit in about `seconds`. Each step is announced to `step` before it begins.
///
/// # Errors
/// When the region or the threads cannot be made, or lines arrive damaged.
pub fn measure(seconds: f64, mut step: impl FnMut(&str)) -> anyhow::Result<Limit> {
    let each = seconds / STEPS as f64;
    let plans =
        |shuffled| -> [(Plan, Vec<f64>); TRIED] { Plan::tried(shuffled).map(|plan| (plan, Vec::new())) };
    let (mut single, mut runs) = (plans(true), plans(false));
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
    let [(host, took), (nic, _)] = both_sides(plan, seconds)?;
    anyhow::ensure!(
        host.damaged | nic.damaged == 0,
        "lines arrived damaged: this machine's memory is not coherent"
    );
    Ok(host.lines as f64 / took / 1e6)
}

/// What each side has passed on, and how many seconds it took.
fn both_sides(plan: Plan, seconds: f64) -> anyhow::Result<[(Passed, f64); 2]> {
    let clock = Clock::new();
    duet(plan.bytes(), |side| {
        let mut timed = Timed { start: clock.raw(), clock: &clock, side: &side, seconds, took: 0.0 };
        // In the registers that the interface's bursts are compiled for.
        let passed = side.mem.vectors().run(
            #[inline(always)]
            || pass(&side.mem, plan, side.number as u64, &mut timed),
        );
        (passed, timed.took)
    })
}

/// A side that ends the exchange after some seconds.
struct Timed<'a> {
    side: &'a Side,
    clock: &'a Clock,
    start: u64,
    seconds: f64,
    took: f64,
}

impl exchange::Side for Timed<'_> {
    #[inline(always)]
    fn wait(&self) {
        self.side.wait();
    }

    fn goes_on(&mut self, _: u64) -> bool {
        self.took = self.clock.delta(self.start, self.clock.raw()).as_secs_f64();
        self.took <= self.seconds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_that_crosses_is_checked() {
        let [(host, _), (nic, _)] = both_sides(Plan { batch: 8, window: 4, shuffled: true }, 0.01).unwrap();
        assert_eq!(host.damaged | nic.damaged, 0);
        assert!(host.lines >= 64 * 8 && host.lines.abs_diff(nic.lines) <= 32, "{host:?} {nic:?}");
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
