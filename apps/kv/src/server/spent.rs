//! Where a thread on a queue pair spends its time: in the interface (queue pair and stack) or in the store. `stats` tells it.
//!
//! Time counts in polls that have brought a frame: one reading of the processor's clock a poll, and another one after such a poll. The
//! store's part of it is taken in one poll of [`EVERY`], by readings around each request that wait for the loads before them: a processor
//! goes on while a load of the store misses its caches, and would count that as the interface's. So requests that are looked at overlap
//! less than others, and the store's part is at most what is told.

use std::sync::atomic::Ordering;

use quanta::Clock;

use crate::protocol::InterfaceTime;

/// One poll in so many is looked at more closely.
const EVERY: u32 = 16;
/// Polls after which others are told, while there is no pause.
const TELL: u32 = 64;

/// The time when everything before has been done.
#[inline]
fn settled(clock: &Clock) -> u64 {
    ccnic_shm::wait_for_loads();
    clock.raw()
}

/// What one thread has spent since it was last told.
#[derive(Debug)]
pub(crate) struct Spent {
    clock: Clock,
    /// Ticks that a reading of the clock takes, with its wait.
    reading: u64,
    polls: u32,
    sampling: bool,
    mark: u64,
    store_mark: u64,
    requests: usize,
    busy: u64,
    sampled: usize,
    in_store: u64,
}

impl Spent {
    pub(crate) fn new() -> Spent {
        let clock = Clock::new();
        let reading = (0..64).map(|_| settled(&clock)).collect::<Vec<_>>();
        let reading = reading.windows(2).map(|two| two[1].saturating_sub(two[0])).min().unwrap_or(0);
        Spent {
            clock,
            reading,
            polls: 0,
            sampling: false,
            mark: 0,
            store_mark: 0,
            requests: 0,
            busy: 0,
            sampled: 0,
            in_store: 0,
        }
    }

    /// A poll begins.
    #[inline]
    pub(crate) fn begin(&mut self) {
        self.polls = self.polls.wrapping_add(1);
        self.sampling = self.polls.is_multiple_of(EVERY);
        self.mark = self.clock.raw();
    }

    /// It is over.
    #[inline]
    pub(crate) fn end(&mut self, worked: bool, to: &InterfaceTime) {
        if worked {
            self.busy += self.clock.raw().saturating_sub(self.mark);
        }
        if self.busy > 0 && (!worked || self.polls.is_multiple_of(TELL)) {
            self.tell(to);
        }
    }

    /// The store has answered a group's requests so far, and gets the next one.
    #[inline]
    pub(crate) fn request(&mut self) {
        self.requests += 1;
        self.sampled += usize::from(self.sampling);
        self.enter();
    }

    /// The store begins, or goes on.
    #[inline]
    pub(crate) fn enter(&mut self) {
        if self.sampling {
            self.store_mark = settled(&self.clock);
        }
    }

    /// The store is done, or hands over bytes to send.
    #[inline]
    pub(crate) fn leave(&mut self) {
        if self.sampling {
            let ticks = settled(&self.clock).saturating_sub(self.store_mark);
            self.in_store += ticks.saturating_sub(self.reading);
        }
    }

    fn tell(&mut self, to: &InterfaceTime) {
        let ns = |ticks| self.clock.delta_as_nanos(0, ticks) as usize;
        to.requests.fetch_add(self.requests, Ordering::Relaxed);
        to.busy_ns.fetch_add(ns(self.busy), Ordering::Relaxed);
        to.sampled.fetch_add(self.sampled, Ordering::Relaxed);
        to.sampled_ns.fetch_add(ns(self.in_store), Ordering::Relaxed);
        (self.requests, self.busy, self.sampled, self.in_store) = (0, 0, 0, 0);
    }
}
