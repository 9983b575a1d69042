//! The load generator's clock on a real machine: the time-stamp counter, calibrated.

use ccnic_load::Clock;
use ccnic_shm::Vectors;

/// The processor's time-stamp counter.
#[derive(Debug)]
pub struct MachineClock {
    clock: quanta::Clock,
    alone: bool,
}

impl MachineClock {
    /// A clock; `alone` is true when the NIC does not need this CPU to make progress.
    pub fn new(alone: bool) -> MachineClock {
        MachineClock { clock: quanta::Clock::new(), alone }
    }
}

impl Clock for MachineClock {
    #[inline(always)]
    fn now(&self) -> u64 {
        self.clock.raw()
    }

    #[inline(always)]
    fn settle(&self) {
        ccnic_shm::wait_for_loads();
    }

    fn nanoseconds(&self, ticks: u64) -> u64 {
        self.clock.delta_as_nanos(0, ticks)
    }

    #[inline(always)]
    fn compile_for_it<T>(&self, work: impl FnOnce() -> T) -> T {
        Vectors::chosen().run(work)
    }

    #[inline(always)]
    fn give_way(&self) -> bool {
        if !self.alone {
            rustix::thread::sched_yield();
        }
        !self.alone
    }
}
