//! Where a thread on a queue pair spends its time: in the interface (queue pair and stack) or in the store. `stats` tells it. Also for whoever
//! serves the store over another interface, to be compared.
//!
//! Time counts in polls that have brought a frame: from the stack's reading of the processor's counter to one after such a poll. The
//! store's part of it is taken in one poll of [`EVERY`], by readings around each request that wait for the loads before them: a processor
//! goes on while a load of the store misses its caches, and would count that as the interface's. So requests that are looked at overlap
//! less than others, and the store's part is at most what is told.

use std::sync::atomic::Ordering;
use std::time::Instant;

use ccnic_shm::timestamp;

use crate::protocol::InterfaceTime;

/// One poll in so many is looked at more closely.
const EVERY: u32 = 16;
/// Polls after which others are told: some 20 us without requests. It takes a reading of the system's clock.
const TELL: u32 = 1024;

/// The time when everything before has been done.
#[inline]
fn settled() -> u64 {
    ccnic_shm::wait_for_loads();
    timestamp()
}

/// What one thread has spent since it was last told.
#[derive(Debug)]
pub struct Spent {
    /// When this began, by the system's clock and by the counter: so long is a tick.
    start: (Instant, u64),
    /// Ticks that a reading of the counter takes, with its wait.
    reading: u64,
    polls: u32,
    sampling: bool,
    store_mark: u64,
    requests: usize,
    busy: u64,
    sampled: usize,
    in_store: u64,
}

impl Default for Spent {
    fn default() -> Spent {
        Spent::new()
    }
}

impl Spent {
    /// Nothing yet.
    pub fn new() -> Spent {
        let reading = (0..64).map(|_| settled()).collect::<Vec<_>>();
        let reading = reading.windows(2).map(|two| two[1].saturating_sub(two[0])).min().unwrap_or(0);
        Spent {
            start: (Instant::now(), timestamp()),
            reading,
            polls: 0,
            sampling: false,
            store_mark: 0,
            requests: 0,
            busy: 0,
            sampled: 0,
            in_store: 0,
        }
    }

    /// A poll begins.
    #[inline]
    pub fn begin(&mut self) {
        self.polls = self.polls.wrapping_add(1);
        self.sampling = self.polls.is_multiple_of(EVERY);
    }

    /// It is over, and has brought frames if it `worked`; it began at `began`.
    #[inline]
    pub fn end(&mut self, worked: bool, began: u64, to: &InterfaceTime) {
        if worked {
            self.busy += timestamp().saturating_sub(began);
        }
        if self.polls.is_multiple_of(TELL) {
            self.tell(to);
        }
    }

    /// The store has answered a group's requests so far, and gets the next one.
    #[inline]
    pub fn request(&mut self) {
        self.requests += 1;
        self.sampled += usize::from(self.sampling);
        self.enter();
    }

    /// The store begins, or goes on.
    #[inline]
    pub fn enter(&mut self) {
        if self.sampling {
            self.store_mark = settled();
        }
    }

    /// The store is done, or hands over bytes to send.
    #[inline]
    pub fn leave(&mut self) {
        if self.sampling {
            let ticks = settled().saturating_sub(self.store_mark);
            self.in_store += ticks.saturating_sub(self.reading);
        }
    }

    /// Tells others what they have not been told.
    #[cold]
    pub fn tell(&mut self, to: &InterfaceTime) {
        if self.busy == 0 {
            return;
        }
        let (start, from) = self.start;
        let tick = start.elapsed().as_nanos() as f64 / timestamp().saturating_sub(from).max(1) as f64;
        let ns = |ticks: u64| (ticks as f64 * tick) as usize;
        to.requests.fetch_add(self.requests, Ordering::Relaxed);
        to.busy_ns.fetch_add(ns(self.busy), Ordering::Relaxed);
        to.sampled.fetch_add(self.sampled, Ordering::Relaxed);
        to.sampled_ns.fetch_add(ns(self.in_store), Ordering::Relaxed);
        (self.requests, self.busy, self.sampled, self.in_store) = (0, 0, 0, 0);
    }
}
