//! How a worker that hands something over wakes another one that sleeps: one load if it does not sleep, one
//! notification if it does.
//!
//! Generic over words and notifier, so that loom can run it (`ccnic-check/tests/loom/handoff.rs`); the daemon's notifier is an eventfd.
//!
//! # The contract
//!
//! | | whoever hands over | the worker that sleeps |
//! |---|---|---|
//! | may write | `asleep`: 0 | `asleep`: 1 and 0 |
//! | may read | `asleep` | the queues; the notifier |
//!
//! ```text
//!      caller                                               sleeper
//!      publish (P1 of the hand-off)                         asleep: store 1              S1
//!  C1  light barrier                                        heavy barrier                S2
//!  C2  asleep: load                                         look at all queues (P2)      S3
//!  C3  if 1: store 0, notify    ------------------------->  wait, if none is ready       S4
//!                                                           asleep: store 0              S5
//! ```
//!
//! Each side stores, then loads what the other one stores. With a barrier between the two on both sides not both loads can miss: the caller
//! sees that the worker is about to sleep, or the worker sees what was published. The sleeper pays for both barriers (`membarrier(2)`).
//!
//! C3 stores 0 so that one of many callers notifies, not each. Another one that reads this 0 relies on a notification that is still to
//! come. It cannot have been received before S1 of this sleep: whoever receives it has seen the 0 that was stored before it, so its next 1
//! comes after that. A notification that comes between two sleeps is kept, and ends the second one.

use super::handoff::Word;

/// What ends a worker's wait. A notification is kept until one does.
pub trait Notifier {
    /// Ends this wait, or the next one.
    fn notify(&self);
}

/// Whether a worker sleeps, and how it is notified.
#[derive(Debug)]
pub struct Wake<W, N> {
    /// Not 0 while a call is needed.
    asleep: W,
    notifier: N,
}

impl<W: Word, N: Notifier> Wake<W, N> {
    /// Of a worker that is awake.
    pub fn new(notifier: N) -> Wake<W, N> {
        Wake { asleep: W::zero(), notifier }
    }

    /// What the worker waits for.
    pub fn notifier(&self) -> &N {
        &self.notifier
    }

    /// Something has been published for the worker: it awakes if it sleeps, or does not fall asleep.
    #[inline(always)]
    pub fn call(&self) {
        W::light_barrier(); // C1
        if self.asleep.load() != 0 {
            self.wake();
        }
    }

    #[cold]
    #[inline(never)]
    fn wake(&self) {
        self.asleep.store(0); // C3
        self.notifier.notify();
    }

    /// The worker is about to sleep.
    pub fn announce_sleep(&self) {
        self.asleep.store(1); // S1
    }

    /// After [`announce_sleep`](Wake::announce_sleep), and before the look that decides whether it waits.
    pub fn before_last_look(&self) {
        W::heavy_barrier(); // S2
    }

    /// The worker is awake again.
    pub fn announce_awake(&self) {
        self.asleep.store(0); // S5
    }

    /// True while callers notify.
    pub fn is_asleep(&self) -> bool {
        self.asleep.load() != 0
    }
}
