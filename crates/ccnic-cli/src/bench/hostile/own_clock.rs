//! A clock that stands still while its thread has no CPU: the time-stamp counter without its jumps between two looks.

use std::time::Duration;

/// A turn of the loop that takes longer was interrupted: another thread had the CPU.
const INTERRUPTED: Duration = Duration::from_micros(20);
/// A round trip that takes longer is a stall.
const STALL: Duration = Duration::from_millis(1);

/// A clock that runs while the thread has a CPU.
pub struct OwnClock {
    clock: quanta::Clock,
    /// The time-stamp counter when it was last looked at.
    last: u64,
    /// Ticks in which the thread had its CPU.
    pub now: u64,
    /// Ticks of [`INTERRUPTED`] and of [`STALL`].
    interrupted: u64,
    pub stall: u64,
}

impl OwnClock {
    pub fn new() -> OwnClock {
        let clock = quanta::Clock::new();
        let ticks = |time: Duration| {
            let second = 1_000_000_000; // ticks, not far from the nanoseconds that they are
            let ratio = second as f64 / clock.delta_as_nanos(0, second).max(1) as f64;
            (time.as_nanos() as f64 * ratio) as u64
        };
        OwnClock { last: clock.raw(), now: 0, interrupted: ticks(INTERRUPTED), stall: ticks(STALL), clock }
    }

    /// Once in a turn of the loop: a turn that took long was interrupted, and does not count.
    #[inline(always)]
    pub fn look(&mut self) {
        let now = self.clock.raw();
        let passed = now.wrapping_sub(self.last);
        self.last = now;
        if passed < self.interrupted {
            self.now += passed;
        }
    }

    pub fn nanoseconds(&self, ticks: u64) -> u64 {
        self.clock.delta_as_nanos(0, ticks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_stands_still_while_the_thread_sleeps() {
        let mut clock = OwnClock::new();
        clock.look();
        let before = clock.now;
        std::thread::sleep(Duration::from_millis(5));
        clock.look();
        assert_eq!(clock.now, before);
        assert!((19_000..=21_000).contains(&clock.nanoseconds(clock.interrupted)));
        assert!((990_000..=1_010_000).contains(&clock.nanoseconds(clock.stall)));
    }
}
