//! The ledger: which buffers the host side holds. It is in the host's private memory and makes it possible to
//! find the buffers of a NIC that died ([`recovery`](crate::recovery)).

extern crate alloc;

use alloc::boxed::Box;
use alloc::vec;

use crate::desc::Slot;
use crate::layout::{LARGE_BUF, PoolLayout, SMALL_BUF};

use super::Class;

/// For each slot of 128 bytes: how many times the buffer that starts there came to this agent, less how many
/// times it left, modulo 256. A small buffer counts 1 and a large one [`LARGE`], so over all agents of the host
/// side the sum says whether it holds the small buffer that starts there, the large one, or neither. A buffer
/// may come to one agent and leave from another, so agents on different threads need no common ledger.
///
/// What the host knows of its own is all that it can rely on when a broken NIC has died.
#[derive(Debug, Default)]
pub(crate) struct Ledger(Box<[u8]>);

/// What a large buffer counts.
pub(crate) const LARGE: u8 = 16;

/// Whether a buffer came to an agent or left it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moved {
    Came,
    Left,
}

impl Moved {
    /// What the move of a buffer of `class` adds to its slot.
    #[inline(always)]
    pub(super) const fn count(self, class: Class) -> u8 {
        let weight = match class {
            Class::Small => 1,
            Class::Large => LARGE,
        };
        match self {
            Moved::Came => weight,
            Moved::Left => weight.wrapping_neg(),
        }
    }
}

impl Ledger {
    pub(super) fn new(layout: &PoolLayout) -> Ledger {
        Ledger(vec![0; ((layout.end - layout.buffers) / SMALL_BUF) as usize].into_boxed_slice())
    }

    /// Adds what [`Moved::count`] says to a slot.
    #[inline(always)]
    pub(super) fn add(&mut self, slot: u32, n: u8) {
        if let Some(count) = self.0.get_mut(slot as usize) {
            *count = count.wrapping_add(n);
        }
    }

    /// `add` for the buffers of `descs`.
    #[inline(always)]
    pub(super) fn add_many<D: Slot>(&mut self, layout: &PoolLayout, descs: &[D], moved: Moved) {
        let (small, large) = (moved.count(Class::Small), moved.count(Class::Large));
        for desc in descs {
            let desc = desc.desc();
            // A small buffer is a slot; a large one counts as its first slot.
            let (mask, n) = if desc.small() { (u32::MAX, small) } else { (!(LARGE_BUF - 1), large) };
            self.add((desc.offset() & mask).wrapping_sub(layout.buffers) / SMALL_BUF, n);
        }
    }

    /// `add_many` where all buffers are small, so that every offset is in its buffer's slot.
    #[inline(always)]
    pub(super) fn add_small<D: Slot>(&mut self, layout: &PoolLayout, descs: &[D], moved: Moved) {
        let (first, counts, n) = (layout.buffers, &mut *self.0, moved.count(Class::Small));
        for desc in descs {
            if let Some(count) =
                counts.get_mut((desc.desc().offset().wrapping_sub(first) / SMALL_BUF) as usize)
            {
                *count = count.wrapping_add(n);
            }
        }
    }

    /// By slot, from the pool's first byte.
    pub(crate) fn counts(&self) -> &[u8] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::desc::{Desc, FLAG_SMALL};
    use crate::ring::GroupedEpoch;
    use crate::testing::{config, region};

    #[test]
    fn what_comes_to_one_agent_may_leave_from_another() {
        let (_, layout) = region(&config::<GroupedEpoch>());
        let pool = layout.pool();
        let [mut one, mut other] = [Ledger::new(pool), Ledger::new(pool)];
        let large = Desc::new(pool.buffers + LARGE_BUF + 700, 9, 0);
        let small = Desc::new(pool.buffers + 2 * LARGE_BUF + 5 * SMALL_BUF + 3, 9, FLAG_SMALL);
        one.add_many(pool, &[large, small], Moved::Came);
        let slots = |ledger: &Ledger| [32, 37, 69].map(|slot| ledger.counts()[slot]);
        assert_eq!(slots(&one), [LARGE, 0, 1], "a large buffer counts in its first slot");
        other.add_many(pool, &[large], Moved::Left);
        other.add_small(pool, &[small], Moved::Left);
        let sum = one.counts().iter().zip(other.counts()).map(|(a, b)| a.wrapping_add(*b));
        assert!(sum.eq(core::iter::repeat_n(0, one.counts().len())));
    }

    #[test]
    fn offsets_outside_the_pool_change_nothing() {
        let (_, layout) = region(&config::<GroupedEpoch>());
        let pool = layout.pool();
        let mut ledger = Ledger::new(pool);
        let outside = [0, pool.buffers - 1, pool.end, u32::MAX].map(|at| Desc::new(at, 1, FLAG_SMALL));
        ledger.add_many(pool, &outside, Moved::Came);
        ledger.add_small(pool, &outside, Moved::Came);
        assert!(ledger.counts().iter().all(|count| *count == 0));
    }
}
