//! The load with no protocol: two cores pass *batches* of cache lines back and forth. No ring, no pool, no packet: what an interface may
//! reach at most.
//!
//! A side that gets a batch reads and checks every line, writes every line anew and passes the batch back, so each line crosses once each
//! way per round, with one transfer of ownership (both sides fetch with PREFETCHW: they write what they have read). While one batch is
//! worked on, the lines of the next are prefetched.

use ccnic::{LINE, SharedMemory};

/// What is passed.
#[derive(Debug, Default, Clone, Copy)]
pub struct Plan {
    /// Lines of a batch.
    pub batch: u32,
    /// Batches in flight.
    pub window: u32,
    /// Single lines, those of all batches in shuffled order; otherwise a batch is a run of lines.
    pub shuffled: bool,
}

/// How many plans are tried for single lines, and for runs.
pub const TRIED: usize = 6;

/// Batch sizes and windows that are tried with single lines. The best differs by machine.
const SINGLE: [(u32, u32); TRIED] = [(32, 16), (64, 8), (64, 16), (64, 32), (128, 8), (128, 16)];
/// With runs.
const RUNS: [(u32, u32); TRIED] = [(24, 64), (24, 128), (48, 64), (96, 32), (256, 8), (512, 8)];

impl Plan {
    /// Those whose highest rate is the limit: of single lines (`shuffled`), or of runs.
    pub fn tried(shuffled: bool) -> [Plan; TRIED] {
        let plans = if shuffled { SINGLE } else { RUNS };
        plans.map(|(batch, window)| Plan { batch, window, shuffled })
    }

    /// Lines from one to the next. Single lines lie 128 bytes apart, as small buffers do: the adjacent-line prefetchers of both sides
    /// would take each other's lines away. (Without the gap a Zen 4 exchanges 120 million a second, with it 260 to 320.)
    const fn apart(&self) -> u32 {
        if self.shuffled { 2 } else { 1 }
    }

    /// The first line of the batches.
    const fn first(&self) -> u32 {
        (1 + self.window).next_multiple_of(2)
    }

    /// Bytes of the memory that both sides share; zero at first.
    pub const fn bytes(&self) -> u32 {
        (self.first() + self.apart() * self.batch * self.window) * LINE
    }
}

/// What a side has done.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Passed {
    /// Lines that it has passed on.
    pub lines: u64,
    /// Bits that are set when a line arrived with others than the other side wrote.
    pub damaged: u64,
}

/// Batches between two calls of [`Side::goes_on`].
const BATCHES: u64 = 64;

/// A side of the exchange: where it runs.
pub trait Side {
    /// Called after an empty poll.
    fn wait(&self);
    /// So many lines have been passed on: false ends the exchange, for both sides. Asked of side 0 now and then.
    fn goes_on(&mut self, lines: u64) -> bool;
}

/// The addresses of a plan's lines: the word that ends the exchange, the batches' signals (a line each), the lines of the batches.
struct Lines {
    plan: Plan,
    order: Vec<u32>,
}

/// The word by which side 0 ends the exchange.
const STOP: u32 = 0;

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
        let at = |i| (plan.first() + plan.apart() * i) * LINE;
        Lines { plan, order: order.into_iter().map(at).collect() }
    }

    fn signal(&self, batch: u64) -> u32 {
        (1 + (batch % u64::from(self.plan.window)) as u32) * LINE
    }

    fn lines(&self, batch: u64) -> &[u32] {
        let at = (batch % u64::from(self.plan.window)) as usize * self.plan.batch as usize;
        self.order.get(at..at + self.plan.batch as usize).unwrap_or_default()
    }
}

/// Side `number` (0 or 1) of the exchange, until side 0 ends it. Both sides call this, with the same plan.
#[inline(always)]
pub fn pass<M: SharedMemory>(mem: &M, plan: Plan, number: u64, side: &mut impl Side) -> Passed {
    let plan_lines = Lines::new(plan);
    let mut passed = Passed::default();
    // A batch's signal counts how often it has been passed on. Side 0 starts with all batches: it gets even
    // counts, side 1 odd ones.
    let due = |batch: u64| 2 * (batch / u64::from(plan.window)) + number;
    let mut batch = 0;
    let mut current = take(mem, &plan_lines, batch, due(batch), side);
    while current {
        // Two batches at once: the lines of the second arrive while the first is processed.
        let next = take(mem, &plan_lines, batch + 1, due(batch + 1), side);
        let ahead = if next { plan_lines.lines(batch + 1) } else { &[] };
        passed.damaged |= rework(mem, plan_lines.lines(batch), ahead, due(batch));
        mem.store_release(plan_lines.signal(batch), due(batch) + 1);
        passed.lines += u64::from(plan.batch);
        batch += 1;
        if number == 0 && batch % BATCHES == 0 && !side.goes_on(passed.lines) {
            mem.store_release(STOP, 1);
            break;
        }
        current = next;
    }
    passed
}

/// Waits for a batch; false when the exchange has ended.
#[inline(always)]
fn take<M: SharedMemory>(mem: &M, lines: &Lines, batch: u64, due: u64, side: &impl Side) -> bool {
    while mem.load_acquire(lines.signal(batch)) != due {
        if mem.load_acquire(STOP) != 0 {
            return false;
        }
        side.wait();
    }
    true
}

/// Reads and checks all lines of a batch, then writes all for the other side; returns bits that are set when
/// any differed.
#[inline(always)]
fn rework<M: SharedMemory>(mem: &M, lines: &[u32], ahead: &[u32], due: u64) -> u64 {
    let mut damaged = 0;
    let mut ahead = ahead.iter();
    for &at in lines {
        if let Some(&next) = ahead.next() {
            mem.prefetch_own(next);
        }
        let mut bytes = [0u8; LINE as usize];
        mem.read(at, &mut bytes);
        damaged |= differs(&bytes, word(at, due));
    }
    for &at in lines {
        mem.write(at, &filled(word(at, due + 1)));
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
    fn a_line_of_another_round_or_place_differs() {
        assert_eq!(differs(&filled(word(64, 3)), word(64, 3)), 0);
        assert_ne!(differs(&filled(word(64, 3)), word(64, 4)), 0);
        assert_ne!(differs(&filled(word(64, 3)), word(128, 3)), 0);
    }

    #[test]
    fn a_shuffle_keeps_every_line() {
        let plan = Plan { batch: 16, window: 8, shuffled: true };
        let mut order = Lines::new(plan).order;
        order.sort_unstable();
        assert!(order.windows(2).all(|w| w[1] - w[0] == 2 * LINE) && order.len() == 128);
        assert!(order[0] == 10 * LINE && order[127] < plan.bytes());
    }
}
