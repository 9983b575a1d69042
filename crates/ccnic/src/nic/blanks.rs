//! With the host-managed pool: the blank buffers that the host posted, in the NIC's hands.

use crate::desc::{Desc, SMALL};
use crate::pool::{Class, Pool};
use crate::port::Port;
use crate::ring::Consumer;

use super::{FETCH, class};

/// Blanks taken from their ring and not used yet. All are of one pop, so that those not used can be left in the ring.
#[derive(Debug)]
pub(super) struct Blanks<C> {
    ring: C,
    /// In reverse ring order: taken from the end.
    descs: [Desc; FETCH],
    len: usize,
    /// What the last pop brought.
    popped: usize,
    /// Blanks that named no buffer of the pool.
    bad: u64,
}

impl<C: Consumer> Blanks<C> {
    pub(super) fn new(ring: C) -> Blanks<C> {
        Blanks { ring, descs: [Desc::default(); FETCH], len: 0, popped: 0, bad: 0 }
    }

    /// Sees that `n` blanks are at hand, if there are so many, and all of one pop.
    #[inline(always)]
    pub(super) fn ready<P: Port>(&mut self, port: &P, n: usize) {
        if self.len < n {
            self.restock(port);
        }
    }

    #[inline(never)]
    fn restock<P: Port>(&mut self, port: &P) {
        self.give_back(port);
        self.release(port);
        self.len = self.ring.pop(port, &mut self.descs);
        self.popped = self.len;
        self.descs.get_mut(..self.len).unwrap_or_default().reverse();
    }

    /// The next of those at hand.
    #[inline(always)]
    pub(super) fn take(&mut self, pool: &Pool) -> Option<(u32, Class)> {
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
            *slot = Desc::new(at, class.size() as u16, if class == Class::Small { SMALL } else { 0 });
            self.len += 1;
        }
    }

    /// Blanks that named no buffer of the pool.
    pub(super) fn bad(&self) -> u64 {
        self.bad
    }

    /// Leaves those not used in the ring, for the next pop or a successor.
    pub(super) fn give_back<P: Port>(&mut self, port: &P) {
        if self.len > 0 {
            self.ring.keep(port, self.popped - self.len);
            self.len = 0;
        }
    }

    /// Hands the places of used blanks back to the host.
    #[inline(always)]
    pub(super) fn release<P: Port>(&mut self, port: &P) {
        if self.len == 0 {
            self.ring.release(port);
        }
    }
}
