//! How long a core was busy: the time of polls that found packets.
//!
//! With several clients, the scheduler times every poll for its own purposes, and the busy time is a sum. A client alone is polled
//! without a clock: there, a stretch of polls ([`run`](super::schedule::Scheduler::run)) is timed now and then, one in 64 on
//! average. Which one is drawn by chance, so that no rhythm of the traffic hides from it. Stretches without packets are shorter than others,
//! so the share of the time is not the mean of their shares: it is what the last few were busy, divided by what they took.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Stretches between two that are timed: at least so many, and at most three times as many.
const APART: u32 = 32;
/// Timed stretches that the share is taken of, the older ones with less weight: some milliseconds.
const WINDOW: u64 = 16;

/// Where a worker shows how long it was busy. Whoever looks asks nothing of the worker.
#[derive(Debug, Default)]
pub(crate) struct BusyTime {
    ticks: AtomicUsize,
    /// Ticks in a second.
    second: AtomicUsize,
}

impl BusyTime {
    /// The worker's clock has so many ticks in a second.
    pub(crate) fn set_clock(&self, second: u64) {
        self.second.store(second as usize, Relaxed);
    }

    /// Nanoseconds since the worker's start.
    pub(crate) fn ns(&self) -> u64 {
        let second = self.second.load(Relaxed).max(1) as u128;
        let ns = self.ticks.load(Relaxed) as u128 * 1_000_000_000 / second;
        u64::try_from(ns).unwrap_or(u64::MAX)
    }
}

/// The account of a worker. In ticks.
#[derive(Debug)]
pub(crate) struct Load {
    busy: u64,
    /// All time before is accounted for.
    until: u64,
    /// Of the last timed stretches: what they were busy, and what they took.
    window: (u64, u64),
    /// Stretches before the next one that is timed.
    left: u32,
    random: u32,
    shown: Arc<BusyTime>,
}

impl Default for Load {
    fn default() -> Load {
        Load { busy: 0, until: 0, window: (0, 0), left: APART, random: 1, shown: Arc::default() }
    }
}

impl Load {
    /// Shows itself there from now on.
    pub(super) fn show(&mut self, to: Arc<BusyTime>) {
        self.shown = to;
    }

    /// There was nothing to poll until now.
    pub(super) fn begin(&mut self, now: u64) {
        (self.until, self.window) = (now, (0, 0));
    }

    /// A poll has found packets, and took so long.
    #[inline(always)]
    pub(super) fn add(&mut self, took: u64) {
        self.busy += took;
    }

    /// Every poll until now has been timed.
    #[inline(always)]
    pub(super) fn measured(&mut self, now: u64) {
        self.until = now;
        self.shown.ticks.store(self.busy as usize, Relaxed);
    }

    /// Whether the next stretch of a client alone is to be timed.
    #[inline(always)]
    pub(super) fn is_timed(&mut self) -> bool {
        let timed = self.left == 0;
        if timed {
            // A linear congruential generator (Numerical Recipes); its upper bits.
            self.random = self.random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            self.left = APART + (self.random >> 26);
        } else {
            self.left -= 1;
        }
        timed
    }

    /// Of the stretch between `from` and `now`, polls that found packets took so long.
    pub(super) fn sampled(&mut self, took: u64, from: u64, now: u64) {
        let stretch = now.saturating_sub(from).max(1);
        let decayed = |sum: u64, new: u64| (sum - sum / WINDOW).saturating_add(new);
        let (busy, all) = self.window;
        self.window = (decayed(busy, took.min(stretch)), decayed(all, stretch));
        let (busy, all) = self.window;
        let stands_for = now.saturating_sub(self.until);
        let share = u128::from(busy.min(all)) * u128::from(stands_for) / u128::from(all.max(1));
        self.add(share as u64); // at most `stands_for`
        self.measured(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_stand_for_the_time_since_the_last_one() {
        let mut load = Load::default();
        let shown = Arc::<BusyTime>::default();
        load.show(Arc::clone(&shown));
        shown.set_clock(1_000_000_000);
        load.begin(1_000);
        load.sampled(25, 1_900, 2_000);
        assert_eq!(shown.ns(), 250);
        load.sampled(75, 2_900, 3_000);
        assert!((750..770).contains(&shown.ns()), "a half, and a little more: {}", shown.ns());
        load.begin(10_000);
        load.sampled(200, 10_900, 11_000);
        let before = shown.ns();
        assert!((1_750..1_770).contains(&before), "never more than the time that has passed: {before}");
        load.sampled(10, 5_000, 4_000);
        load.add(7);
        load.measured(12_000);
        assert_eq!(shown.ns(), before + 7, "a clock that goes back");
        load.sampled(u64::MAX, 0, u64::MAX);
        assert!(shown.ns() > u64::MAX / 2);
    }

    #[test]
    fn long_stretches_weigh_more_than_short_ones() {
        let (mut load, shown) = (Load::default(), Arc::<BusyTime>::default());
        load.show(Arc::clone(&shown));
        shown.set_clock(1_000_000_000);
        let mut now = 0;
        // Every other stretch is busy, and lasts four times as long: four fifths of the time.
        for n in 0..10_000 {
            let (took, stretch) = if n % 2 == 0 { (400, 400) } else { (0, 100) };
            now += 64 * 250;
            load.sampled(took, now - stretch, now);
        }
        let share = shown.ns() as f64 / now as f64;
        assert!((share - 0.8).abs() < 0.01, "{share}");
    }

    #[test]
    fn nanoseconds_are_of_the_workers_clock() {
        let shown = BusyTime::default();
        assert_eq!(shown.ns(), 0, "before it has a clock");
        shown.set_clock(2_500_000_000);
        shown.ticks.store(5_000_000_000, Relaxed);
        assert_eq!(shown.ns(), 2_000_000_000);
    }

    #[test]
    fn one_stretch_in_64_is_timed() {
        let mut load = Load::default();
        let timed: Vec<usize> = (0..64_000).filter(|_| load.is_timed()).collect();
        assert!((950..1050).contains(&timed.len()), "{}", timed.len());
        assert!(timed.windows(2).all(|pair| (33..=96).contains(&(pair[1] - pair[0]))));
    }
}
