//! The limit: the best rate at which two cores can hand each other lines in both directions at once, and the round trip of one
//! word. No ring, no pool, no packet: reports give the interface's share of this.
//!
//! *Batches* of lines go round between the two sides. A side that gets a batch reads and checks every line, writes every
//! line anew and hands the batch back, so each line crosses once each way per round, with one transfer of ownership (both
//! sides fetch with PREFETCHW: they write what they have read). While one batch is worked on, the lines of the next are
//! requested. The best over batch sizes and numbers of batches under way counts.
//!
//! Tried and slower on a two-core Emerald Rapids machine: no prefetch (0.7 of this), prefetching the first lines of a run only
//! (0.65), prefetching to read (0.95), reading and writing line by line instead of batch by batch (0.9).

use ccnic::{LINE, SharedMemory};
use quanta::Clock;
use serde::Serialize;

use super::{Side, duet, median, pingpong};

/// What the machine allows. `mlps` are million lines per second, each way, both ways at once.
#[derive(Debug, Clone, Serialize)]
pub struct Limit {
    /// Single lines in shuffled order.
    pub line_mlps: f64,
    /// Lines of contiguous runs, as those of 1.5 KB packets.
    pub run_mlps: f64,
    /// Medians.
    pub word_rtt_ns: WordRtt,
    /// Lines per batch and batches under way that gave `line_mlps`.
    pub line_best: (u32, u32),
    /// Lines per batch and batches under way that gave `run_mlps`.
    pub run_best: (u32, u32),
}

/// Round trips of one word.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct WordRtt {
    /// There and back on one line.
    pub shared: f64,
    /// There on one line, back on another.
    pub separate: f64,
}

impl Limit {
    /// Lines that cross each way for a packet of `size` bytes: its payload and a quarter line of descriptor.
    pub fn lines(size: u16) -> f64 {
        f64::from(u32::from(size).div_ceil(LINE)) + 0.25
    }

    /// The share of the limit that `mpps` packets of `size` bytes are. Packets of up to two lines are single lines, longer
    /// ones are runs.
    pub fn share(&self, size: u16, mpps: f64) -> f64 {
        let rate = if u32::from(size) <= 2 * LINE { self.line_mlps } else { self.run_mlps };
        mpps * Limit::lines(size) / rate
    }
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

/// Measures the limit in about `seconds`. `progress` is called with each step's name.
pub fn measure(seconds: f64, mut progress: impl FnMut(&str)) -> anyhow::Result<Limit> {
    const TRIES: usize = 3;
    let each = seconds / ((LINE_PLANS.len() + RUN_PLANS.len()) * TRIES + 4) as f64;
    let mut best = |plans: &[(u32, u32)], shuffled, name: &str| -> anyhow::Result<(f64, (u32, u32))> {
        let mut best = (0.0, (0, 0));
        for &(batch, window) in plans {
            progress(&format!("{name}: {window} batches of {batch}"));
            let plan = Plan { batch, window, shuffled };
            let rates = (0..TRIES).map(|_| rate(plan, each)).collect::<Result<Vec<_>, _>>()?;
            let rate = median(rates);
            if rate > best.0 {
                best = (rate, (batch, window));
            }
        }
        Ok(best)
    };
    let (line_mlps, line_best) = best(&LINE_PLANS, true, "single lines")?;
    let (run_mlps, run_best) = best(&RUN_PLANS, false, "runs of lines")?;
    progress("round trip of a word");
    let shared = pingpong::measure(pingpong::Words::Shared, false, each * 2.0)?.p50_ns;
    let separate = pingpong::measure(pingpong::Words::Separate, false, each * 2.0)?.p50_ns;
    Ok(Limit { line_mlps, run_mlps, word_rtt_ns: WordRtt { shared, separate }, line_best, run_best })
}

/// Million lines per second each way.
fn rate(plan: Plan, seconds: f64) -> anyhow::Result<f64> {
    let lines = plan.batch * plan.window;
    let [host, nic] = duet((lines + plan.window + 1) * LINE, |side| relay(&side, plan, seconds))?;
    anyhow::ensure!(
        host.damaged | nic.damaged == 0,
        "lines arrived damaged: this machine's memory is not coherent"
    );
    Ok(host.lines as f64 / host.seconds / 1e6)
}

/// What one side has seen.
#[derive(Debug, Default)]
struct Relay {
    lines: u64,
    damaged: u64,
    seconds: f64,
}

/// The places of a plan's lines: signals first (one line per batch), then the lines of the batches.
struct Places {
    plan: Plan,
    order: Vec<u32>,
}

impl Places {
    fn new(plan: Plan) -> Places {
        let lines = plan.batch * plan.window;
        let mut order: Vec<u32> = (0..lines).collect();
        if plan.shuffled {
            // A fixed shuffle (Fisher-Yates over a linear congruential generator): the same one on both sides.
            let mut state = 0x2545_f491_4f6c_dd1d_u64;
            for i in (1..order.len()).rev() {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                order.swap(i, (state >> 33) as usize % (i + 1));
            }
        }
        let first = plan.window + 1;
        Places { plan, order: order.into_iter().map(|i| (first + i) * LINE).collect() }
    }

    fn signal(&self, batch: u64) -> u32 {
        (1 + (batch % u64::from(self.plan.window)) as u32) * LINE
    }

    fn lines(&self, batch: u64) -> &[u32] {
        let at = (batch % u64::from(self.plan.window)) as usize * self.plan.batch as usize;
        self.order.get(at..at + self.plan.batch as usize).unwrap_or_default()
    }
}

/// The word that says that the program stops: side 0 writes it.
const STOP: u32 = 0;

/// One side of the experiment: takes batches as they come, checks and rewrites them, hands them back.
fn relay(side: &Side, plan: Plan, seconds: f64) -> Relay {
    let places = Places::new(plan);
    let clock = Clock::new();
    let start = clock.raw();
    let mut seen = Relay::default();
    // A batch's signal counts its hand-overs. Side 0 starts with all of them: it gets even counts, side 1 odd ones.
    let due = |batch: u64| 2 * (batch / u64::from(plan.window)) + side.number as u64;
    let mut batch = 0;
    let mut current = take(side, &places, batch, due(batch));
    while current {
        // Two batches in hand: the lines of the second arrive while the first is worked on.
        let next = take(side, &places, batch + 1, due(batch + 1));
        let ahead = if next { places.lines(batch + 1) } else { &[] };
        seen.damaged |= rework(side, places.lines(batch), ahead, due(batch));
        side.mem.store_release(places.signal(batch), due(batch) + 1);
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
fn take(side: &Side, places: &Places, batch: u64, due: u64) -> bool {
    while side.mem.load_acquire(places.signal(batch)) != due {
        if side.mem.load_acquire(STOP) != 0 {
            return false;
        }
        side.wait();
    }
    true
}

/// Reads and checks all lines of a batch, then writes all for the next hand-over; returns bits that are set when any differed.
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

/// What every word of a line holds at a hand-over: its place and the count; zeroes at first.
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
        let mut order = Places::new(Plan { batch: 16, window: 8, shuffled: true }).order;
        order.sort_unstable();
        assert!(order.windows(2).all(|w| w[1] - w[0] == LINE) && order.len() == 128 && order[0] == 9 * LINE);
    }

    #[test]
    fn shares_count_payload_and_descriptors() {
        let limit = Limit {
            line_mlps: 50.0,
            run_mlps: 100.0,
            word_rtt_ns: WordRtt { shared: 1.0, separate: 1.0 },
            line_best: (0, 0),
            run_best: (0, 0),
        };
        assert!((limit.share(64, 20.0) - 0.5).abs() < 1e-9);
        assert!((limit.share(1500, 2.0) - 0.485).abs() < 1e-9);
    }
}
