//! The ledger: which buffers the host side holds. Private to the host, and what makes the buffers of a NIC that died come back
//! ([`recovery`](crate::recovery)).

extern crate alloc;

use alloc::boxed::Box;
use alloc::vec;

use crate::desc::Slot;
use crate::layout::{LARGE_BUF, PoolLayout, SMALL_BUF};

/// Which buffers this queue's host side has taken in, less those it has given away: +1 and -1 by slots of 128 bytes,
/// modulo 256. Over all queues of a region the sum is 1 for what the host side holds and 0 for the rest. Counting
/// instead of marking lets queues on different threads keep separate ledgers, without shared lines.
#[derive(Debug, Default)]
pub(crate) struct Ledger(Box<[u8]>);

impl Ledger {
    pub(super) fn new(layout: &PoolLayout) -> Ledger {
        Ledger(vec![0; ((layout.end - layout.buffers) / SMALL_BUF) as usize].into_boxed_slice())
    }

    #[inline(always)]
    pub(super) fn add(&mut self, slot: u32, n: u8) {
        if let Some(count) = self.0.get_mut(slot as usize) {
            *count = count.wrapping_add(n);
        }
    }

    /// As `add`, for the buffers of `descs`.
    #[inline(always)]
    pub(super) fn add_many<D: Slot>(&mut self, layout: &PoolLayout, descs: &[D], n: u8) {
        for desc in descs {
            let desc = desc.desc();
            // A small buffer is a slot; a large one counts as its first.
            let mask = if desc.small() { u32::MAX } else { !(LARGE_BUF - 1) };
            self.add((desc.offset() & mask).wrapping_sub(layout.buffers) / SMALL_BUF, n);
        }
    }

    /// As `add_many`, where all buffers are small: the offset names the slot.
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

    pub(crate) fn counts(&self) -> &[u8] {
        &self.0
    }
}
