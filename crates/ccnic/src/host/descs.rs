//! Bursts of plain descriptors: for a library whose caller, in another language, holds buffers as descriptors.
//!
//! A descriptor does not say who holds its buffer. One that is used twice is believed: it harms the program's own packets only.

use crate::buf::{Buf, Burst, RegionTag};
use crate::desc::Desc;
use crate::memory::SharedMemory;
use crate::ring::Ring;

use super::QueuePair;

impl<M: SharedMemory, R: Ring> QueuePair<M, R> {
    /// Sends the packets of `descs` in order, up to the first descriptor that names no bytes of the pool or until `burst`, which must
    /// be empty and stays so, is full. Returns how many descriptors were valid and how many the ring took; the caller still holds
    /// the buffers of the rest.
    #[inline(always)]
    pub fn tx_descs(&mut self, descs: impl Iterator<Item = Desc>, burst: &mut Burst) -> (usize, usize) {
        let valid = self.adopt(descs, burst);
        let sent = self.tx_burst(burst);
        burst.clear();
        (valid, sent)
    }

    /// Frees the buffers of `descs` up to the first that names none or until `burst`, which must be empty and stays so, is full;
    /// returns their number. Their lengths do not matter.
    #[inline(always)]
    pub fn free_descs(&mut self, descs: impl Iterator<Item = Desc>, burst: &mut Burst) -> usize {
        let n = self.pool.contains(burst.take_up(descs, RegionTag::of(&self.mem)));
        burst.added(n);
        self.free(burst);
        n
    }

    /// Shows the data of `descs`, one by one with index and metadata, to `read` and frees their buffers, up to the first that names
    /// no bytes of the pool or until `burst`, which must be empty and stays so, is full; returns their number.
    pub fn read_descs(
        &mut self,
        descs: impl Iterator<Item = Desc>,
        burst: &mut Burst,
        mut read: impl FnMut(usize, &[u8], u64),
    ) -> usize {
        let n = self.adopt(descs, burst);
        for (i, buf) in burst.as_slice().iter().enumerate() {
            self.with(buf, |bytes| read(i, bytes, buf.meta()));
        }
        self.free(burst);
        n
    }

    /// Adds the buffers of `descs` to `burst` up to the first that names no bytes of the pool, or until the burst is full; returns
    /// their number.
    #[inline(always)]
    fn adopt(&self, descs: impl Iterator<Item = Desc>, burst: &mut Burst) -> usize {
        let new = burst.take_up(descs, RegionTag::of(&self.mem));
        let mut n = new.len();
        if !self.pool.holds_small(new) && !self.pool.holds_all(new) {
            let bad = |buf: &Buf| !self.pool.holds(buf.desc().offset(), u32::from(buf.len()), buf.class());
            n = new.iter().position(bad).unwrap_or(n);
        }
        burst.added(n);
        n
    }
}
