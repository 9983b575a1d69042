//! The time of a stack.
//!
//! A process that is stopped, or a virtual machine that does not run, receives nothing meanwhile: its peers were not silent, it has not
//! listened. So time in which a stack was not polled counts for a second at most, unless it slept to be woken.
//!
//! The system's clock takes longer to read than all else in a poll that finds nothing. So a poll that follows the last reading closely, by
//! the processor's counter, takes its time for that of now.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ccnic_shm::timestamp;

use crate::engine::Micros;

/// The most that counts of the time between two polls.
const MOST: Micros = 1_000_000;
/// Ticks of the processor's counter after which the clock is read again: some 3 µs on x86-64, 80 to 800 elsewhere. Timers count in
/// milliseconds, and a frame that has just come waits for a reading. A counter that jumps, or that differs from CPU to CPU, is further
/// away than that.
const CLOSE: u64 = 8000;

/// Where a stack reads the time.
///
/// ```no_run
/// use std::sync::{Arc, Mutex};
/// use std::time::Duration;
///
/// use ccnic_tcp::clock::Clock;
/// use ccnic_tcp::{Options, Stack};
///
/// let time = Arc::new(Mutex::new(Duration::ZERO));
/// let mut options = Options::new("10.9.0.2/24".parse()?);
/// options.clock = Clock::Invented(Arc::clone(&time));
/// let mut stack = Stack::open("/tmp/nic.sock", &options)?;
/// for _ in 0..3600 {
///     *time.lock().unwrap() += Duration::from_secs(1); // an hour, as far as the stack knows
///     stack.poll();
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Default)]
pub enum Clock {
    /// The clock of the system.
    #[default]
    System,
    /// What somebody else says: tests.
    Invented(Arc<Mutex<Duration>>),
}

/// The clock and what has been read from it.
#[derive(Debug)]
pub(crate) struct Time {
    clock: Clock,
    start: Instant,
    read: Micros,
    /// The processor's counter in the last call, and when the clock was last read.
    ticks: u64,
    read_at: u64,
    /// How long the stack may sleep of its own will until the clock is read again.
    sleep: Micros,
}

impl Time {
    pub(crate) fn new(clock: Clock) -> Time {
        let mut time = Time { clock, start: Instant::now(), read: 0, ticks: 0, read_at: 0, sleep: 0 };
        time.read = time.clock();
        time
    }

    fn clock(&self) -> Micros {
        let now = match &self.clock {
            Clock::System => self.start.elapsed(),
            Clock::Invented(clock) => *clock.lock().unwrap_or_else(PoisonError::into_inner),
        };
        now.as_micros() as Micros
    }

    /// The stack will sleep, for at most so long.
    pub(crate) fn sleeps(&mut self, at_most: Option<Duration>) {
        self.sleep = at_most.map_or(Micros::MAX, |sleep| sleep.as_micros() as Micros);
    }

    /// The processor's counter ([`ccnic_shm::timestamp`]) when [`passed`](Time::passed) was called last.
    pub(crate) fn ticks(&self) -> u64 {
        self.ticks
    }

    /// Reads the clock. How much time has passed as far as it counts, and whether there was more.
    #[inline]
    pub(crate) fn passed(&mut self) -> (Micros, bool) {
        self.ticks = timestamp();
        let invented = matches!(self.clock, Clock::Invented(_));
        if self.ticks.wrapping_sub(self.read_at) < CLOSE && !invented && self.sleep == 0 {
            return (0, false);
        }
        self.read_at = self.ticks;
        self.passed_by_clock()
    }

    fn passed_by_clock(&mut self) -> (Micros, bool) {
        let (before, most) = (self.read, self.sleep.saturating_add(MOST));
        (self.read, self.sleep) = (self.clock(), 0);
        let passed = self.read.saturating_sub(before);
        (passed.min(most), passed > most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_counts_while_it_is_looked_at() {
        let clock = Arc::new(Mutex::new(Duration::from_micros(5)));
        let mut time = Time::new(Clock::Invented(Arc::clone(&clock)));
        let mut after = |micros: u64, sleep: Option<Option<Duration>>| {
            if let Some(sleep) = sleep {
                time.sleeps(sleep);
            }
            *clock.lock().unwrap_or_else(PoisonError::into_inner) += Duration::from_micros(micros);
            time.passed()
        };
        assert_eq!(after(0, None), (0, false));
        assert_eq!(after(MOST, None), (MOST, false));
        assert_eq!(after(MOST + 1, None), (MOST, true));
        // It says beforehand how long it sleeps; a sleep counts once.
        assert_eq!(after(30 * MOST, Some(Some(Duration::from_secs(29)))), (30 * MOST, false));
        assert_eq!(after(32 * MOST, Some(Some(Duration::from_secs(29)))), (30 * MOST, true));
        assert_eq!(after(2 * MOST, None), (MOST, true));
        assert_eq!(after(100 * MOST, Some(None)), (100 * MOST, false));
    }
}
