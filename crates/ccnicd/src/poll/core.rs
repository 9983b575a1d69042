//! The core that a worker polls on: its clock, and what to do when there is nothing to do.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use ccnic::IdleMode;
use ccnic_shm::timestamp;
use rustix::thread::sched_yield;

use super::schedule::{Core, Times};

/// A poll that took so many microseconds has perhaps been interrupted by another thread.
const LONG: u64 = 50;

/// What a core does after polls that found nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rest {
    /// Gives its CPU away: the programs need this very one to send something.
    Yield,
    /// Pauses the processor.
    Pause,
    /// Polls again.
    Spin,
}

impl Rest {
    /// Of a core that no program needs (`dedicated`), as the tuning has it; of another one, whatever that says.
    pub(crate) fn new(dedicated: bool, idle: IdleMode) -> Rest {
        match (dedicated, idle) {
            (false, _) => Rest::Yield,
            (true, IdleMode::Pause) => Rest::Pause,
            (true, IdleMode::Spin) => Rest::Spin,
        }
    }
}

/// The core of this thread.
pub(crate) struct PollingCore {
    /// Ticks of the clock.
    microsecond: u64,
    rest: Rest,
    /// Where the kernel says how long this thread has waited for a CPU, in nanoseconds.
    delays: Option<File>,
    /// What it said last.
    waited: u64,
}

impl PollingCore {
    /// To be called on the thread that polls.
    pub(crate) fn new(rest: Rest) -> PollingCore {
        let delays = File::open("/proc/thread-self/schedstat").ok();
        let mut core = PollingCore { microsecond: ticks_per_microsecond(), rest, delays, waited: 0 };
        core.newly_waited();
        core
    }

    /// The scheduler's times in ticks of this clock.
    pub(crate) fn times(&self) -> Times {
        Times::new(self.microsecond)
    }

    /// Ticks of this clock in some time.
    pub(super) fn ticks(&self, time: Duration) -> u64 {
        self.microsecond.saturating_mul(time.as_micros() as u64)
    }

    /// Ticks of this clock in a second.
    pub(crate) fn second(&self) -> u64 {
        self.microsecond.saturating_mul(1_000_000)
    }

    /// Ticks for which this thread has waited for a CPU since the last call. 0 where the kernel does not say.
    fn newly_waited(&mut self) -> u64 {
        let mut text = [0; 80];
        let read = self.delays.as_ref().and_then(|file| file.read_at(&mut text, 0).ok());
        let text = read.and_then(|n| text.get(..n)).and_then(|text| str::from_utf8(text).ok());
        let waited =
            text.and_then(|text| text.split_whitespace().nth(1)).and_then(|ns| ns.parse::<u64>().ok());
        let Some(waited) = waited else { return 0 };
        let newly = waited.saturating_sub(std::mem::replace(&mut self.waited, waited));
        newly.saturating_mul(self.microsecond) / 1000
    }

    /// As `since`, for what took long. A fault that sleeps counts: that is the client's memory. So does finding out.
    #[cold]
    #[inline(never)]
    fn since_long(&mut self, from: u64) -> (u64, u64) {
        let waited = self.newly_waited();
        let now = timestamp();
        (now.saturating_sub(from).saturating_sub(waited), now)
    }
}

impl Core for PollingCore {
    #[inline(always)]
    fn now(&mut self) -> u64 {
        timestamp()
    }

    #[inline(always)]
    fn since(&mut self, from: u64) -> (u64, u64) {
        let now = timestamp();
        let took = now.saturating_sub(from);
        if took > LONG * self.microsecond { self.since_long(from) } else { (took, now) }
    }

    fn relax(&mut self) {
        match self.rest {
            Rest::Yield => sched_yield(),
            Rest::Pause => std::hint::spin_loop(),
            Rest::Spin => {}
        }
    }
}

/// Measured in a millisecond. Shares do not depend on it, only how long a quantum is.
pub(crate) fn ticks_per_microsecond() -> u64 {
    let (start, from) = (Instant::now(), timestamp());
    while start.elapsed() < Duration::from_millis(1) {
        std::hint::spin_loop();
    }
    let (passed, ticks) = (start.elapsed(), timestamp().saturating_sub(from));
    (ticks / (passed.as_micros() as u64).max(1)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_core_that_programs_need_is_given_away_whatever_the_tuning_says() {
        let rests = [false, true].map(|dedicated| IdleMode::ALL.map(|idle| Rest::new(dedicated, idle)));
        assert_eq!(rests, [[Rest::Yield; 2], [Rest::Pause, Rest::Spin]]);
    }

    #[test]
    fn the_clock_goes_forward_and_long_polls_are_charged_for() {
        let mut core = PollingCore::new(Rest::Pause);
        let from = core.now();
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(20) {}
        let before = core.waited;
        let (took, now) = core.since(from);
        // Whatever else ran on this CPU meanwhile: the two together are the time that passed.
        let waited = (core.waited - before) * core.microsecond / 1000;
        assert!(now - from >= 19_000 * core.microsecond, "{} ticks", now - from);
        assert_eq!(took, (now - from).saturating_sub(waited));
        assert_eq!(core.since(u64::MAX).0, 0, "not even if the clock should go back");
    }
}
