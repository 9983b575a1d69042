//! The ledger: which buffers the host side holds. It is in the host's private memory and makes it possible to
//! find the buffers of a NIC that died ([`recovery`](crate::recovery)).

extern crate alloc;

use alloc::boxed::Box;
use alloc::vec;

use crate::desc::Slot;
use crate::layout::{LARGE_BUF, PoolLayout, SMALL_BUF};

use super::Class;

/// For each buffer, small or large: how many times it came to this agent, less how many times it left, modulo
/// 2^16. So over all agents of the host side the sum says whether it holds the buffer. A buffer may come to one
/// agent and leave from another, so agents on different threads need no common ledger.
///
/// What the host knows of its own is all that it can rely on when a broken NIC has died. Such a NIC may have
/// made it hold a buffer many times, in both classes; only 65536 times at once would look like never.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// By slot of 128 bytes.
    small: Box<[u16]>,
    /// By chunk of 4 KiB.
    large: Box<[u16]>,
}

/// Whether a buffer came to an agent or left it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moved {
    Came,
    Left,
}

impl Moved {
    /// What the move adds to the buffer's count.
    #[inline(always)]
    const fn count(self) -> u16 {
        match self {
            Moved::Came => 1,
            Moved::Left => u16::MAX,
        }
    }
}

impl Ledger {
    pub(super) fn new(layout: &PoolLayout) -> Ledger {
        let zeros = |size| vec![0; ((layout.end - layout.buffers) / size) as usize].into_boxed_slice();
        Ledger { small: zeros(SMALL_BUF), large: zeros(LARGE_BUF) }
    }

    /// Enters one buffer, which contains the byte `within` bytes after the pool's first.
    #[inline(always)]
    pub(super) fn add(&mut self, within: u32, class: Class, moved: Moved) {
        // Two arms and not a choice of slice and shift: most bursts are of one class, and the branch is predicted.
        let count = match class {
            Class::Small => self.small.get_mut((within / SMALL_BUF) as usize),
            Class::Large => self.large.get_mut((within / LARGE_BUF) as usize),
        };
        if let Some(count) = count {
            *count = count.wrapping_add(moved.count());
        }
    }

    /// `add` for the buffers of `descs` that move: a kept one stays where it is.
    #[inline(always)]
    pub(super) fn add_many<D: Slot>(&mut self, layout: &PoolLayout, descs: &[D], moved: Moved) {
        for desc in descs {
            let desc = desc.desc();
            if desc.kept() {
                continue;
            }
            self.add(desc.offset().wrapping_sub(layout.buffers), Class::of(desc), moved);
        }
    }

    /// `add_many` where all buffers are of one class.
    #[inline(always)]
    pub(super) fn add_alike<D: Slot>(
        &mut self,
        layout: &PoolLayout,
        class: Class,
        descs: &[D],
        moved: Moved,
    ) {
        match class {
            Class::Small => add_to::<SMALL_BUF, D>(&mut self.small, layout, descs, moved),
            Class::Large => add_to::<LARGE_BUF, D>(&mut self.large, layout, descs, moved),
        }
    }

    /// By slot of 128 bytes, from the pool's first byte.
    pub(crate) fn small(&self) -> &[u16] {
        &self.small
    }

    /// By chunk of 4 KiB.
    pub(crate) fn large(&self) -> &[u16] {
        &self.large
    }
}

/// Enters buffers of `SIZE` bytes.
#[inline(always)]
fn add_to<const SIZE: u32, D: Slot>(counts: &mut [u16], layout: &PoolLayout, descs: &[D], moved: Moved) {
    let (first, n) = (layout.buffers, moved.count());
    for desc in descs {
        if let Some(count) = counts.get_mut((desc.desc().offset().wrapping_sub(first) / SIZE) as usize) {
            *count = count.wrapping_add(n);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::desc::{Desc, FLAG_SMALL};
    use crate::ring::GroupedEpoch;
    use crate::testing::{config, region, rounds};

    /// How many buffers a ledger says are held.
    fn held(ledger: &Ledger) -> usize {
        ledger.small().iter().chain(ledger.large()).filter(|count| **count != 0).count()
    }

    #[test]
    fn what_comes_to_one_agent_may_leave_from_another() {
        let (_, layout) = region(&config::<GroupedEpoch>());
        let pool = layout.pool();
        let [mut one, mut other] = [Ledger::new(pool), Ledger::new(pool)];
        let large = Desc::new(pool.buffers + LARGE_BUF + 700, 9, 0);
        let small = Desc::new(pool.buffers + 2 * LARGE_BUF + 5 * SMALL_BUF + 3, 9, FLAG_SMALL);
        one.add_many(pool, &[large, small], Moved::Came);
        assert_eq!((one.large()[1], one.small()[69]), (1, 1));
        assert_eq!((held(&one), held(&other)), (2, 0));
        other.add_many(pool, &[large], Moved::Left);
        other.add_alike(pool, Class::Small, &[small], Moved::Left);
        let sum =
            |a: &[u16], b: &[u16]| a.iter().zip(b).map(|(a, b)| u32::from(a.wrapping_add(*b))).sum::<u32>();
        assert_eq!(sum(one.small(), other.small()) + sum(one.large(), other.large()), 0);
    }

    /// Found by the fuzz target `recovery`: a NIC handed out one large buffer sixteen times.
    #[test]
    fn a_buffer_that_is_held_many_times_in_both_classes_is_held() {
        let (_, layout) = region(&config::<GroupedEpoch>());
        let pool = layout.pool();
        let mut ledger = Ledger::new(pool);
        let twice = [Desc::new(pool.buffers, 9, 0), Desc::new(pool.buffers, 9, FLAG_SMALL)];
        for _ in 0..rounds(20_000, 40) {
            ledger.add_many(pool, &twice, Moved::Came);
            assert_eq!(held(&ledger), 2);
        }
    }

    #[test]
    fn offsets_outside_the_pool_change_nothing() {
        let (_, layout) = region(&config::<GroupedEpoch>());
        let pool = layout.pool();
        let mut ledger = Ledger::new(pool);
        let outside = [0, pool.buffers - 1, pool.end, u32::MAX].map(|at| Desc::new(at, 1, FLAG_SMALL));
        ledger.add_many(pool, &outside, Moved::Came);
        ledger.add_many(pool, &outside.map(|desc| Desc::new(desc.offset(), 1, 0)), Moved::Came);
        ledger.add_alike(pool, Class::Small, &outside, Moved::Came);
        ledger.add_alike(pool, Class::Large, &outside, Moved::Came);
        assert_eq!(held(&ledger), 0);
    }
}
