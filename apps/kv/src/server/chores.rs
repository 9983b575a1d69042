//! Work of a thread once a second, in steps between its clients' turns.

use crate::store::Store;

/// Slots of the thread's shard that are looked at each second for items that are over, and how many of them at once.
const SLOTS: usize = 20_000;
const SLOTS_AT_ONCE: usize = 500;
/// Idle clients that are disconnected at once.
pub(super) const DISCONNECTED: usize = 64;

/// The part of this second's work that is left.
#[derive(Debug)]
pub(super) struct Chores {
    shard: usize,
    second: u32,
    slots: usize,
    disconnects: bool,
}

impl Chores {
    /// Of the thread that sweeps this shard, if there is one of the number. The first are due when `now` is over.
    pub(super) fn new(shard: usize, now: u32) -> Chores {
        Chores { shard, second: now, slots: 0, disconnects: false }
    }

    /// There is something left: the thread is not to wait for its clients.
    pub(super) fn waits(&self) -> bool {
        self.slots > 0 || self.disconnects
    }

    /// Sweeps the next slots. True: idle clients are to be disconnected.
    pub(super) fn sweep(&mut self, store: &Store, now: u32) -> bool {
        if now != self.second {
            let slots = if self.shard < store.shards() { SLOTS } else { 0 };
            *self = Chores { second: now, slots, disconnects: true, ..*self };
        }
        if self.slots > 0 {
            store.session(now).sweep(self.shard, SLOTS_AT_ONCE.min(self.slots));
            self.slots = self.slots.saturating_sub(SLOTS_AT_ONCE);
        }
        self.disconnects
    }

    /// Idle clients were disconnected, all of them or some.
    pub(super) fn disconnected(&mut self, all: bool) {
        self.disconnects = !all;
    }
}
