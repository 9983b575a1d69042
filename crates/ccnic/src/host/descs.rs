//! Bursts of plain descriptors: for a library whose caller, in another language, holds buffers as
//! descriptors.
//!
//! A descriptor does not say who holds its buffer. One that is used twice is not detected: it harms the
//! program's own packets, and has bytes lent twice. So these calls take a [`SharedMemory::Adopt`], by which
//! the caller promises that it holds what it hands over.

use crate::buf::{Buf, Burst, RegionTag};
use crate::desc::Desc;
use crate::memory::SharedMemory;
use crate::ring::Ring;

use super::QueuePair;

impl<M: SharedMemory, R: Ring> QueuePair<M, R> {
    /// Sends the packets of `descs` in order, up to the first descriptor that names no bytes of the pool or
    /// until `burst`, which must be empty and stays so, is full. Returns how many descriptors were valid and
    /// how many the ring took; the caller still holds the buffers of the rest.
    ///
    /// ```
    /// # use ccnic::{testing::{Sides, config}, ring::GroupedEpoch};
    /// # let mut sides = Sides::<GroupedEpoch>::new(&config::<GroupedEpoch>());
    /// use ccnic::{Burst, Desc};
    ///
    /// let (mut burst, mut empty) = (Burst::new(), Burst::new());
    /// sides.host.alloc(64, 2, &mut burst);
    /// let descs: Vec<Desc> = burst.disown().collect(); // as a library in another language holds them
    /// assert_eq!(sides.host.tx_descs(descs.into_iter(), &mut empty, ()), (2, 2));
    ///
    /// # while sides.poll() > 0 {}
    /// // The NIC returns them:
    /// let mut received = 0;
    /// while sides.host.rx_burst(&mut burst, 32) > 0 {
    ///     let descs: Vec<Desc> = burst.disown().collect();
    ///     let read = |_, bytes: &[u8], _| assert_eq!(bytes.len(), 64);
    ///     received += sides.host.read_descs(descs.into_iter(), &mut empty, (), read);
    /// }
    /// assert_eq!(received, 2);
    ///
    /// sides.host.alloc(64, 2, &mut burst);
    /// let descs: Vec<Desc> = burst.disown().collect();
    /// assert_eq!(sides.host.free_descs(descs.into_iter(), &mut empty, ()), 2);
    /// ```
    #[inline(always)]
    pub fn tx_descs(
        &mut self,
        descs: impl Iterator<Item = Desc>,
        burst: &mut Burst,
        _: M::Adopt,
    ) -> (usize, usize) {
        let valid = self.adopt(descs, burst);
        let sent = self.tx_burst(burst);
        burst.clear();
        (valid, sent)
    }

    /// Frees the buffers of `descs` up to the first that names none or until `burst`, which must be empty and
    /// stays so, is full; returns their number. Their lengths do not matter. Example:
    /// [`tx_descs`](QueuePair::tx_descs).
    #[inline(always)]
    pub fn free_descs(&mut self, descs: impl Iterator<Item = Desc>, burst: &mut Burst, _: M::Adopt) -> usize {
        let n = self.pool.contains(burst.take_up(descs, RegionTag::of(&self.mem)));
        burst.added(n);
        self.free(burst);
        n
    }

    /// Calls `read` with the index, data and metadata of each of `descs` and frees their buffers, up to the
    /// first that names no bytes of the pool or until `burst`, which must be empty and stays so, is full;
    /// returns their number. Example: [`tx_descs`](QueuePair::tx_descs).
    pub fn read_descs(
        &mut self,
        descs: impl Iterator<Item = Desc>,
        burst: &mut Burst,
        _: M::Adopt,
        mut read: impl FnMut(usize, &[u8], u64),
    ) -> usize {
        let n = self.adopt(descs, burst);
        for (i, buf) in burst.as_slice().iter().enumerate() {
            self.with(buf, |bytes| read(i, bytes, buf.meta()));
        }
        self.free(burst);
        n
    }

    /// True when the descriptor names bytes of one buffer of the pool, so that the burst that sends it does not stop there.
    ///
    /// ```
    /// # use ccnic::{testing::{Sides, config}, ring::GroupedEpoch};
    /// # let mut sides = Sides::<GroupedEpoch>::new(&config::<GroupedEpoch>());
    /// use ccnic::{Burst, Desc};
    ///
    /// let mut burst = Burst::new();
    /// sides.host.alloc(64, 1, &mut burst);
    /// let held: Vec<Desc> = burst.disown().collect();
    /// assert!(sides.host.holds(held[0]) && !sides.host.holds(Desc::new(0, 64, 0)));
    /// sides.host.free_descs(held.into_iter(), &mut burst, ());
    /// ```
    #[inline(always)]
    pub fn holds(&self, desc: Desc) -> bool {
        let buf = Buf::new(desc, RegionTag::of(&self.mem));
        !desc.kept() && self.pool.holds(desc.offset(), u32::from(desc.len()), buf.class())
    }

    /// Adds the buffers of `descs` to `burst` up to the first that names no bytes of the pool, or until the
    /// burst is full; returns their number.
    #[inline(always)]
    fn adopt(&self, descs: impl Iterator<Item = Desc>, burst: &mut Burst) -> usize {
        let new = burst.take_up(descs, RegionTag::of(&self.mem));
        let mut n = new.len();
        if self.pool.alike(new).is_none() && !self.pool.holds_all(new) {
            let bad = |buf: &Buf| !self.holds(buf.desc());
            n = new.iter().position(bad).unwrap_or(n);
        }
        burst.added(n);
        n
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::layout::LARGE_BUF;
    use crate::ring::GroupedEpoch;
    use crate::testing::{Sides, config};
    use std::vec::Vec;

    #[test]
    fn valid_descriptors_are_sent_up_to_the_first_that_is_not() {
        let mut sides = Sides::<GroupedEpoch>::new(&config::<GroupedEpoch>());
        let mut burst = Burst::new();
        sides.host.alloc(500, 8, &mut burst);
        let mut descs: Vec<_> = burst.disown().collect();
        descs[5] = Desc::new(sides.layout.pool().end, 1, 0);
        assert_eq!(sides.host.tx_descs(descs.iter().copied(), &mut burst, ()), (5, 5));
        assert_eq!(sides.host.tx_descs(descs[5..].iter().copied(), &mut burst, ()), (0, 0));
        assert_eq!(sides.host.free_descs(descs[6..].iter().copied(), &mut burst, ()), 2);
        assert!(burst.is_empty());
        assert_eq!((sides.poll(), sides.receive(32, |len, _| assert_eq!(len, 500))), (5, 5));
    }

    #[test]
    fn a_segment_must_lie_inside_its_buffer_to_be_read_or_sent_but_not_to_be_freed() {
        let mut sides = Sides::<GroupedEpoch>::new(&config::<GroupedEpoch>());
        let mut burst = Burst::new();
        sides.host.alloc(4096, 1, &mut burst);
        let at = burst.disown().next().unwrap().offset();
        let beyond = [Desc::new(at, 4097, 0), Desc::new(at & !(LARGE_BUF - 1) | 4095, 2, 0)];
        for desc in beyond {
            assert_eq!(sides.host.tx_descs([desc].into_iter(), &mut burst, ()), (0, 0));
            assert_eq!(sides.host.read_descs([desc].into_iter(), &mut burst, (), |_, _, _| panic!()), 0);
        }
        assert_eq!(sides.host.free_descs(beyond[..1].iter().copied(), &mut burst, ()), 1);
    }

    #[test]
    fn data_are_read_with_index_and_metadata() {
        let mut sides = Sides::<GroupedEpoch>::new(&config::<GroupedEpoch>());
        let mut burst = Burst::new();
        sides.host.alloc(3, 3, &mut burst);
        for (i, buf) in (0u8..).zip(burst.iter_mut()) {
            buf.set_meta(u64::from(i) + 7);
            sides.host.write(buf, 0, &[i; 3]);
        }
        let descs: Vec<_> = burst.disown().collect();
        let mut seen = Vec::new();
        let n = sides
            .host
            .read_descs(descs.into_iter(), &mut burst, (), |i, bytes, meta| seen.push((i, bytes[2], meta)));
        assert_eq!((n, seen), (3, std::vec![(0, 0, 7), (1, 1, 8), (2, 2, 9)]));
    }
}
