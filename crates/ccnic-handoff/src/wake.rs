//! How a worker that hands something over wakes another one that sleeps: one load if it does not sleep, one ring of its bell if it does.
//!
//! Generic over words and bell, so that loom can run it (`ccnic-check/tests/loom/handoff.rs`); the daemon's bell is an eventfd.
//!
//! # The contract
//!
//! | | whoever hands over | the worker that sleeps |
//! |---|---|---|
//! | may write | `asleep`: 0 | `asleep`: 1 and 0 |
//! | may read | `asleep` | the queues; the bell |
//!
//! ```text
//!      caller                                               sleeper
//!      publish (P1 of the hand-off)                         asleep: store 1              S1
//!  C1  light barrier                                        heavy barrier                S2
//!  C2  asleep: load                                         look at all queues (P2)      S3
//!  C3  if 1: store 0, ring      ------------------------->  wait for the bell, if none   S4
//!                                                           asleep: store 0              S5
//! ```
//!
//! Each side stores, then loads what the other one stores. With a barrier between the two on both sides not both loads can miss: the caller
//! sees that the worker lies down, or the worker sees what was published. The sleeper pays for both barriers (`membarrier(2)`).
//!
//! C3 stores 0 so that one of many callers rings, not each. Another one that reads this 0 relies on a ring that is still to come. It
//! cannot have been heard before S1 of this sleep: whoever hears a ring has seen the 0 that was stored before it, so its next 1 comes after
//! that. The bell counts: a ring that comes between two sleeps ends the second one.

use super::handoff::Word;

/// What ends a worker's wait, and stays rung until it does.
pub trait Rings {
    /// Ends this wait, or the next one.
    fn ring(&self);
}

/// Whether a worker sleeps, and its bell.
#[derive(Debug)]
pub struct Wake<W, B> {
    /// Not 0 while a call is needed.
    asleep: W,
    bell: B,
}

impl<W: Word, B: Rings> Wake<W, B> {
    /// Of a worker that is awake.
    pub fn new(bell: B) -> Wake<W, B> {
        Wake { asleep: W::zero(), bell }
    }

    /// What the worker waits for.
    pub fn bell(&self) -> &B {
        &self.bell
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
        self.bell.ring();
    }

    /// The worker is about to sleep.
    pub fn lie_down(&self) {
        self.asleep.store(1); // S1
    }

    /// After [`lie_down`](Wake::lie_down), and before the look that decides whether it waits.
    pub fn before_last_look(&self) {
        W::heavy_barrier(); // S2
    }

    /// The worker is awake again.
    pub fn get_up(&self) {
        self.asleep.store(0); // S5
    }

    /// True while callers ring.
    pub fn is_down(&self) -> bool {
        self.asleep.load() != 0
    }
}
