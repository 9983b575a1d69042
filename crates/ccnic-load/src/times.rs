//! Round trips of very many packets: counted with three significant digits, in some ten instructions.

use hdrhistogram::Histogram;

/// Values below have a counter each; above, every power of two is divided into half as many.
const EXACT: u64 = 1 << BITS;
const BITS: u32 = 11;
/// Longer times are counted as this one.
const MOST: u64 = (1 << 44) - 1;

/// How often each time was seen.
#[derive(Debug)]
pub struct Times {
    counts: Box<[u64]>,
}

/// The counter of a time, of at most [`MOST`].
#[inline(always)]
fn index(time: u64) -> usize {
    let shift = (u64::BITS - BITS).saturating_sub(time.leading_zeros());
    ((u64::from(shift) << (BITS - 1)) + (time >> shift)) as usize
}

/// The longest time of a counter.
fn longest(index: usize) -> u64 {
    let half = EXACT as usize / 2;
    let shift = (index / half).saturating_sub(1);
    (((index - shift * half) as u64 + 1) << shift) - 1
}

impl Times {
    pub fn new() -> Times {
        Times { counts: vec![0; index(MOST) + 1].into() }
    }

    /// Counts a time of `ticks` so many times.
    #[inline(always)]
    pub fn record(&mut self, ticks: u64, times: u64) {
        if let Some(count) = self.counts.get_mut(index(ticks.min(MOST))) {
            *count += times;
        }
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.counts.fill(0);
    }

    /// All times, each turned into nanoseconds, 1 at least.
    ///
    /// # Errors
    /// When the histogram cannot be made.
    pub fn histogram(&self, nanoseconds: &dyn Fn(u64) -> u64) -> Result<Histogram<u64>, String> {
        let mut ns = Histogram::new(3).map_err(|e| e.to_string())?;
        for (index, count) in self.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            ns.record_n(nanoseconds(longest(index).max(1)), *count).map_err(|e| e.to_string())?;
        }
        Ok(ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_kept_to_three_digits() {
        for time in (0..5000).chain([1 << 20, 999_999_999, (1 << 30) + 7, MOST - 1, MOST]) {
            let kept = longest(index(time));
            assert!(kept >= time && kept - time <= time / 1000, "{time}: {kept}");
            assert_eq!(index(kept), index(time));
        }
        assert!((1..100_000).all(|time| index(time) - index(time - 1) <= 1), "no counter is left out");
    }

    #[test]
    fn counts_become_a_histogram_of_nanoseconds() {
        let mut times = Times::new();
        times.record(0, 1);
        times.record(7, 2);
        times.record(u64::MAX, 1);
        let ns = times.histogram(&|ticks| ticks * 10).unwrap();
        assert_eq!((ns.len(), ns.min(), ns.value_at_quantile(0.5)), (4, 10, 70));
        times.clear();
        assert_eq!(times.histogram(&|ticks| ticks).unwrap().len(), 0);
    }
}
