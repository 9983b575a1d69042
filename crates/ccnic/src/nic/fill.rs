//! With the host-managed pool: the receive buffers that the host has posted, as the NIC takes them.

use crate::desc::Desc;
use crate::memory::SharedMemory;
use crate::pool::{Allocator, Class};
use crate::ring::Consumer;

use super::FETCH;

/// Posted receive buffers that were taken from the fill ring and not used yet. All are of one pop, so that
/// the unused ones can be put back into the ring.
#[derive(Debug)]
pub(super) struct PostedBuffers<C> {
    ring: C,
    /// In reverse ring order: taken from the end.
    descs: [Desc; FETCH],
    len: usize,
    /// Descriptors of the last pop.
    popped: usize,
    /// Descriptors that named no buffer of the pool.
    bad: u64,
}

impl<C: Consumer> PostedBuffers<C> {
    pub(super) fn new(ring: C) -> PostedBuffers<C> {
        PostedBuffers { ring, descs: [Desc::default(); FETCH], len: 0, popped: 0, bad: 0 }
    }

    /// Loads at least `n` buffers of one pop, if the ring has so many.
    #[inline(always)]
    pub(super) fn load<M: SharedMemory>(&mut self, mem: &M, n: usize) {
        if self.len < n {
            self.reload(mem);
        }
    }

    #[inline(never)]
    fn reload<M: SharedMemory>(&mut self, mem: &M) {
        self.give_back(mem);
        self.release(mem);
        self.len = self.ring.pop(mem, &mut self.descs);
        self.popped = self.len;
        self.descs.get_mut(..self.len).unwrap_or_default().reverse();
    }

    /// The next of the loaded buffers.
    #[inline(always)]
    pub(super) fn take(&mut self, pool: &Allocator) -> Option<(u32, Class)> {
        while let Some(last) = self.len.checked_sub(1) {
            self.len = last;
            let desc = *self.descs.get(last)?;
            if pool.holds(desc.offset(), Class::of(desc).size(), Class::of(desc)) {
                return Some((desc.offset(), Class::of(desc)));
            }
            self.bad += 1;
        }
        None
    }

    /// Puts back what `take` gave last.
    pub(super) fn put_back(&mut self, at: u32, class: Class) {
        if let Some(slot) = self.descs.get_mut(self.len) {
            *slot = Desc::new(at, class.size() as u16, class.flag());
            self.len += 1;
        }
    }

    /// Descriptors that named no buffer of the pool.
    pub(super) fn bad(&self) -> u64 {
        self.bad
    }

    /// Leaves unused buffers in the ring, for the next pop or a successor.
    pub(super) fn give_back<M: SharedMemory>(&mut self, mem: &M) {
        if self.len > 0 {
            self.ring.keep(mem, self.popped - self.len);
            self.len = 0;
        }
    }

    /// Hands the ring's units back to the host when all of their buffers are used.
    #[inline(always)]
    pub(super) fn release<M: SharedMemory>(&mut self, mem: &M) {
        if self.len == 0 {
            self.ring.release(mem);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::layout::LARGE_BUF;
    use crate::ring::{GroupedEpoch, Producer, Ring};
    use crate::testing::{config, region};

    type Fill = <GroupedEpoch as Ring>::Consumer;

    #[test]
    fn unused_buffers_stay_in_the_ring_and_bad_ones_are_counted() {
        let (mem, layout) = region(&Config { shared_pool: false, ..config::<GroupedEpoch>() });
        let (pool, fill) = (Allocator::nic(&layout), layout.queue(0).unwrap().fill);
        let first = layout.pool().buffers;
        let at = |i: u32| Desc::new(first + i * LARGE_BUF, LARGE_BUF as u16, 0);
        let mut host = <GroupedEpoch as Ring>::Producer::resume(&mem, &fill);
        assert_eq!(host.push(&mem, &[at(0), Desc::new(3, 4096, 0), at(1), at(2)]), 4);
        let mut posted = PostedBuffers::new(Fill::resume(&mem, &fill));
        posted.load(&mem, 1);
        let taken =
            |posted: &mut PostedBuffers<_>| posted.take(&pool).map(|(at, _)| (at - first) / LARGE_BUF);
        assert_eq!((taken(&mut posted), posted.bad()), (Some(0), 0));
        assert_eq!((taken(&mut posted), posted.bad()), (Some(1), 1));
        posted.put_back(first + LARGE_BUF, Class::Large);
        posted.give_back(&mem);
        assert_eq!(taken(&mut posted), None);
        posted.load(&mem, 1);
        assert_eq!([(); 3].map(|()| taken(&mut posted)), [Some(1), Some(2), None], "from where it stopped");
    }
}
