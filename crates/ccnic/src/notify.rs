//! Sleeping: how a program that has nothing to do asks the NIC to be woken, and how the NIC finds out.
//!
//! One word per queue pair says so, on a line that the host alone writes: 0 while its thread is awake, otherwise one more than the
//! position in the receive ring up to which it has taken everything. A NIC that has published beyond that position, and has not
//! yet woken the program from this very sleep, wakes it. How is not this crate's business.
//!
//! # No packet is overslept
//!
//! The program writes the word (H1), looks at the ring once more, and sleeps. The NIC publishes and looks at the word (H2). Without
//! fences both may miss each other: neither store need have left its core's store buffer when the other side looks. But a store
//! does not stay there, and the NIC looks again in its next turn, whatever that moves. Its own position is private and always as
//! it should be, so sooner or later one look sees both. The line stays in the NIC's cache while the word does not change: a look
//! costs a hit.
//!
//! A successor of a NIC that died has woken nobody, so it wakes a program that was to be woken when its predecessor died.

use crate::memory::SharedMemory;
use crate::ring::{Consumer, Producer};

/// A sleep of the program: what the word said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Armed(u64);

/// Host: says that it sleeps until `ring` brings something. False when there is something already: then it says that it is awake.
///
/// Whatever else may wake this side (a message that says so) is taken away before, not after: it may be about what is in the
/// ring only now.
pub fn arm<M: SharedMemory, C: Consumer>(mem: &M, at: u32, ring: &C) -> bool {
    mem.store_release(at, ring.position() + 1); // H1
    let sleeps = !ring.ready(mem);
    if !sleeps {
        disarm(mem, at);
    }
    sleeps
}

/// Host: says that it is awake.
pub fn disarm<M: SharedMemory>(mem: &M, at: u32) {
    mem.store_release(at, 0); // H1
}

/// NIC: looks whether the program sleeps.
#[derive(Debug)]
pub struct NotifyState {
    at: u32,
    /// The last sleep that it was woken from; 0 before the first.
    ended: u64,
}

impl NotifyState {
    /// Looks at the word at `at`.
    pub fn new(at: u32) -> NotifyState {
        NotifyState { at, ended: 0 }
    }

    /// The sleep that has to be ended: the program sleeps, `ring` has been published beyond where it stopped, and it has not been
    /// woken.
    #[inline(always)]
    pub fn needs_notification<M: SharedMemory, R: Producer>(&self, mem: &M, ring: &R) -> Option<Armed> {
        let word = mem.load_acquire(self.at); // H2
        // 0, awake, becomes a position that is never reached.
        (word.wrapping_sub(1) < ring.position() && word != self.ended).then_some(Armed(word))
    }

    /// The program has been woken from this sleep. Not the word as it is now: that may be the next sleep.
    pub fn notified(&mut self, sleep: Armed) {
        self.ended = sleep.0;
    }
}
