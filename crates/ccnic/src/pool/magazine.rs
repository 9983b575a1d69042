//! A magazine: an agent's private stack of free buffers (Bonwick's slab allocator). The buffer freed last is
//! allocated next, while it is still in this agent's cache.

/// Buffers a magazine can hold.
const CAPACITY: usize = 512;
const MASK: usize = CAPACITY - 1;

/// A bounded stack of buffer offsets, private to one agent.
#[derive(Debug)]
pub(super) struct Magazine {
    slots: [u32; CAPACITY],
    len: usize,
}

impl Magazine {
    /// From this length on, the oldest buffers go to the depot.
    pub(super) const FULL: usize = CAPACITY - 64;

    pub(super) const fn new() -> Magazine {
        Magazine { slots: [0; CAPACITY], len: 0 }
    }

    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Adds a buffer; false when the magazine is full.
    #[inline(always)]
    pub(super) fn push(&mut self, buffer: u32) -> bool {
        if self.len >= CAPACITY {
            return false;
        }
        // The mask repeats the test above for the compiler, which then leaves out the bounds check.
        self.slots[self.len & MASK] = buffer;
        self.len += 1;
        true
    }

    #[inline(always)]
    pub(super) fn pop(&mut self) -> Option<u32> {
        if self.len == 0 {
            return None;
        }
        self.len -= 1;
        Some(self.slots[self.len & MASK])
    }

    /// Removes the last `n` buffers; the one added last is at the end of the slice. `None` when there are
    /// fewer.
    #[inline(always)]
    pub(super) fn pop_many(&mut self, n: usize) -> Option<&[u32]> {
        let left = self.len.checked_sub(n)?;
        let taken = self.slots.get(left..self.len)?;
        self.len = left;
        Some(taken)
    }

    /// Adds `n` slots for the caller to write buffers to. `None` when there is no room for so many.
    #[inline(always)]
    pub(super) fn push_many(&mut self, n: usize) -> Option<&mut [u32]> {
        let end = self.len + n;
        let slots = self.slots.get_mut(self.len..end)?;
        self.len = end;
        Some(slots)
    }

    /// Removes the oldest buffers, as many as `out` holds: the ones least likely to be in a cache.
    pub(super) fn take_oldest(&mut self, out: &mut [u32]) -> usize {
        let n = out.len().min(self.len);
        for (to, from) in out.iter_mut().zip(&self.slots).take(n) {
            *to = *from;
        }
        self.slots.copy_within(n..self.len.min(CAPACITY), 0);
        self.len -= n;
        n
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_in_first_out_and_oldest_leave_first() {
        let mut s = Magazine::new();
        for b in 0..CAPACITY as u32 {
            assert!(s.push(b));
        }
        assert!(!s.push(9999));
        assert_eq!(s.pop(), Some(511));
        let mut out = [0; 3];
        assert_eq!(s.take_oldest(&mut out), 3);
        assert_eq!(out, [0, 1, 2]);
        assert_eq!((s.len(), s.pop(), s.slots[0]), (508, Some(510), 3));
    }
}
