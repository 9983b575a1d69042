//! With the host-managed pool: the blank buffers that the host posted, in the NIC's hands.

use crate::desc::{Desc, FLAG_SMALL};
use crate::memory::SharedMemory;
use crate::pool::{Allocator, Class};
use crate::ring::Consumer;

use super::{FETCH, class};

/// FillRing taken from their ring and not used yet. All are of one pop, so that those not used can be left in the ring.
#[derive(Debug)]
pub(super) struct FillRing<C> {
    ring: C,
    /// In reverse ring order: taken from the end.
    descs: [Desc; FETCH],
    len: usize,
    /// What the last pop brought.
    popped: usize,
    /// FillRing that named no buffer of the pool.
    bad: u64,
}

impl<C: Consumer> FillRing<C> {
    pub(super) fn new(ring: C) -> FillRing<C> {
        FillRing { ring, descs: [Desc::default(); FETCH], len: 0, popped: 0, bad: 0 }
    }

    /// Sees that `n` blanks are at hand, if there are so many, and all of one pop.
    #[inline(always)]
    pub(super) fn ready<M: SharedMemory>(&mut self, mem: &M, n: usize) {
        if self.len < n {
            self.restock(mem);
        }
    }

    #[inline(never)]
    fn restock<M: SharedMemory>(&mut self, mem: &M) {
        self.give_back(mem);
        self.release(mem);
        self.len = self.ring.pop(mem, &mut self.descs);
        self.popped = self.len;
        self.descs.get_mut(..self.len).unwrap_or_default().reverse();
    }

    /// The next of those at hand.
    #[inline(always)]
    pub(super) fn take(&mut self, pool: &Allocator) -> Option<(u32, Class)> {
        while let Some(last) = self.len.checked_sub(1) {
            self.len = last;
            let blank = *self.descs.get(last)?;
            if pool.holds(blank.offset(), class(blank).size(), class(blank)) {
                return Some((blank.offset(), class(blank)));
            }
            self.bad += 1;
        }
        None
    }

    /// Puts back what `take` gave last.
    pub(super) fn untake(&mut self, at: u32, class: Class) {
        if let Some(slot) = self.descs.get_mut(self.len) {
            *slot = Desc::new(at, class.size() as u16, if class == Class::Small { FLAG_SMALL } else { 0 });
            self.len += 1;
        }
    }

    /// FillRing that named no buffer of the pool.
    pub(super) fn bad(&self) -> u64 {
        self.bad
    }

    /// Leaves those not used in the ring, for the next pop or a successor.
    pub(super) fn give_back<M: SharedMemory>(&mut self, mem: &M) {
        if self.len > 0 {
            self.ring.keep(mem, self.popped - self.len);
            self.len = 0;
        }
    }

    /// Hands the places of used blanks back to the host.
    #[inline(always)]
    pub(super) fn release<M: SharedMemory>(&mut self, mem: &M) {
        if self.len == 0 {
            self.ring.release(mem);
        }
    }
}
