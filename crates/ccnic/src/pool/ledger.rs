//! The ledger: which buffers the host side holds. It is in the host's private memory and makes it possible to
//! find the buffers of a NIC that died ([`recovery`](crate::recovery)).

extern crate alloc;

use alloc::boxed::Box;
use alloc::vec;

use crate::desc::Slot;
use crate::layout::{LARGE_BUF, PoolLayout, SMALL_BUF};

/// For each slot of 128 bytes: how many times the buffer that starts there came to this agent, less how many
/// times it left, modulo 256. Over all agents of the host side the sum is 1 for a buffer that the host side
/// holds and 0 for any other. A buffer may come to one agent and leave from another, so agents on different
/// threads need no common ledger.
#[derive(Debug, Default)]
pub(crate) struct Ledger(Box<[u8]>);

impl Ledger {
    pub(super) fn new(layout: &PoolLayout) -> Ledger {
        Ledger(vec![0; ((layout.end - layout.buffers) / SMALL_BUF) as usize].into_boxed_slice())
    }

    /// Adds `n` to a slot: 1 for a buffer that came, -1 (255) for one that left.
    #[inline(always)]
    pub(super) fn add(&mut self, slot: u32, n: u8) {
        if let Some(count) = self.0.get_mut(slot as usize) {
            *count = count.wrapping_add(n);
        }
    }

    /// `add` for the buffers of `descs`.
    #[inline(always)]
    pub(super) fn add_many<D: Slot>(&mut self, layout: &PoolLayout, descs: &[D], n: u8) {
        for desc in descs {
            let desc = desc.desc();
            // A small buffer is a slot; a large one counts as its first slot.
            let mask = if desc.small() { u32::MAX } else { !(LARGE_BUF - 1) };
            self.add((desc.offset() & mask).wrapping_sub(layout.buffers) / SMALL_BUF, n);
        }
    }

    /// `add_many` where all buffers are small, so that every offset is in its buffer's slot.
    #[inline(always)]
    pub(super) fn add_small<D: Slot>(&mut self, layout: &PoolLayout, descs: &[D], n: u8) {
        let (first, counts) = (layout.buffers, &mut *self.0);
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
        one.add_many(pool, &[large, small], 1);
        let slots = |ledger: &Ledger| [32, 37, 69].map(|slot| ledger.counts()[slot]);
        assert_eq!(slots(&one), [1, 0, 1], "a large buffer counts as its first slot");
        other.add_many(pool, &[large], u8::MAX);
        other.add_small(pool, &[small], u8::MAX);
        let sum = one.counts().iter().zip(other.counts()).map(|(a, b)| a.wrapping_add(*b));
        assert!(sum.eq(core::iter::repeat_n(0, one.counts().len())));
    }

    #[test]
    fn offsets_outside_the_pool_change_nothing() {
        let (_, layout) = region(&config::<GroupedEpoch>());
        let pool = layout.pool();
        let mut ledger = Ledger::new(pool);
        let outside = [0, pool.buffers - 1, pool.end, u32::MAX].map(|at| Desc::new(at, 1, FLAG_SMALL));
        ledger.add_many(pool, &outside, 1);
        ledger.add_small(pool, &outside, 1);
        assert!(ledger.counts().iter().all(|count| *count == 0));
    }
}
