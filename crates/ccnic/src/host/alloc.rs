//! Allocation and freeing of buffers.

use crate::buf::{Buf, Burst, RegionTag};
use crate::desc::{Desc, FLAG_MORE};
use crate::layout::LARGE_BUF;
use crate::memory::{Fetch, SharedMemory, prefetch_payload};
use crate::pool::{Class, data_offset};
use crate::ring::{Producer, Ring};

use super::QueuePair;

impl<M: SharedMemory, R: Ring> QueuePair<M, R> {
    /// Allocates packets of `len` bytes each, as many whole ones as fit into `max` buffers, and adds the
    /// buffers to `burst`. Returns the number of buffers, as all bursts do: less than asked for when the pool
    /// is dry or the burst full.
    ///
    /// A packet of up to 4 KiB is one buffer; a longer one is a chain of large buffers, all but the last with
    /// [`Buf::more`].
    ///
    /// The buffers' lines are prefetched for writing, all at once, so that their transfers overlap.
    ///
    /// ```
    /// # use ccnic::{Burst, testing::{Sides, config}, ring::GroupedEpoch};
    /// # let mut sides = Sides::<GroupedEpoch>::new(&config::<GroupedEpoch>());
    /// # let pair = &mut sides.host;
    /// let mut burst = Burst::new();
    /// assert_eq!(pair.alloc(64, 32, &mut burst), 32); // 32 packets
    /// assert_eq!(pair.alloc(9000, 32, &mut burst), 30); // 10 packets of three buffers
    /// pair.free(&mut burst);
    /// ```
    #[inline(always)]
    pub fn alloc(&mut self, len: u16, max: usize, burst: &mut Burst) -> usize {
        if u32::from(len) > LARGE_BUF {
            return self.alloc_chains(len, max, burst);
        }
        let class = self.pool.class(u32::from(len));
        let flags = class.flag();
        // With the host-managed pool, as the paper's PCIe NICs have it, data begin at the first byte.
        let (spread, region) = (self.managed.is_none(), RegionTag::of(&self.mem));
        let slots = burst.spare(max);
        let want = slots.len();
        if let Some(buffers) = self.pool.alloc_many(class, want) {
            for (slot, &at) in slots.iter_mut().zip(buffers) {
                let at = if spread { data_offset(at, u32::from(len), class) } else { at };
                prefetch_payload(&self.mem, at, u32::from(len), Fetch::Write);
                *slot = Buf::new(Desc::new(at, len, flags), region);
            }
            burst.added(want);
            self.tx.prefetch(&self.mem, want);
            self.rx.prefetch(&self.mem);
            return want;
        }
        let mut n = 0;
        for slot in burst.spare(max) {
            let Some((at, class)) = self.pool.alloc(&self.mem, class).or_else(|| self.reap_and_alloc(class))
            else {
                break;
            };
            let at = if spread { data_offset(at, u32::from(len), class) } else { at };
            prefetch_payload(&self.mem, at, u32::from(len), Fetch::Write);
            let flags = class.flag();
            *slot = Buf::new(Desc::new(at, len, flags), region);
            n += 1;
        }
        burst.added(n);
        self.tx.prefetch(&self.mem, n);
        n
    }

    /// `alloc` for packets that do not fit into one buffer.
    #[inline(never)]
    fn alloc_chains(&mut self, len: u16, max: usize, burst: &mut Burst) -> usize {
        let segments = u32::from(len).div_ceil(LARGE_BUF) as usize;
        let packets = max.min(burst.space()) / segments;
        let (spread, region) = (self.managed.is_none(), RegionTag::of(&self.mem));
        let mut left = 0;
        let mut next = |mem: &M, at| {
            left = if left == 0 { u32::from(len) } else { left };
            let part = left.min(LARGE_BUF);
            left -= part;
            let at = if spread { data_offset(at, part, Class::Large) } else { at };
            prefetch_payload(mem, at, part, Fetch::Write);
            Buf::new(Desc::new(at, part as u16, if left > 0 { FLAG_MORE } else { 0 }), region)
        };
        let want = packets * segments;
        if let Some(buffers) = self.pool.alloc_many(Class::Large, want) {
            for (slot, &at) in burst.spare(want).iter_mut().zip(buffers) {
                *slot = next(&self.mem, at);
            }
            burst.added(want);
            return want;
        }
        for n in 0..want {
            let buffer = self.pool.alloc(&self.mem, Class::Large);
            let Some((at, _)) = buffer.or_else(|| self.reap_and_alloc(Class::Large)) else {
                let part = n % segments; // of a packet, without its last buffers
                (0..part).filter_map(|_| burst.pop()).for_each(|b| self.free_one(b));
                return n - part;
            };
            if let Err(buf) = burst.push(next(&self.mem, at)) {
                self.free_one(buf); // does not happen: the space was checked
            }
        }
        want
    }

    /// Returns all buffers of `burst` to the pool. It is empty then.
    ///
    /// # Panics
    /// Debug builds: when a buffer is of another region.
    ///
    /// ```
    /// # use ccnic::{Burst, testing::{Sides, config}, ring::GroupedEpoch};
    /// # let mut sides = Sides::<GroupedEpoch>::new(&config::<GroupedEpoch>());
    /// # let pair = &mut sides.host;
    /// let mut burst = Burst::new();
    /// pair.alloc(1500, 8, &mut burst);
    /// pair.free(&mut burst);
    /// assert!(burst.is_empty());
    /// ```
    #[inline(always)]
    pub fn free(&mut self, burst: &mut Burst) {
        RegionTag::of(&self.mem).check(burst.as_slice());
        self.pool.free_many(&self.mem, burst.as_slice());
        burst.clear();
        self.keep_spare();
        self.rx.prefetch(&self.mem);
    }

    /// Returns one buffer to the pool.
    ///
    /// # Panics
    /// Debug builds: when the buffer is of another region.
    ///
    /// ```
    /// # use ccnic::{Burst, testing::{Sides, config}, ring::GroupedEpoch};
    /// # let mut sides = Sides::<GroupedEpoch>::new(&config::<GroupedEpoch>());
    /// # let pair = &mut sides.host;
    /// let mut burst = Burst::new();
    /// pair.alloc(1500, 8, &mut burst);
    /// if let Some(buf) = burst.pop() {
    ///     pair.free_one(buf);
    /// }
    /// # pair.free(&mut burst);
    /// ```
    #[inline(always)]
    pub fn free_one(&mut self, buf: Buf) {
        RegionTag::of(&self.mem).check(core::slice::from_ref(&buf));
        self.pool.free(&self.mem, buf.desc().offset(), buf.class());
        self.keep_spare();
    }

    /// The pool is dry. Frees what the NIC has completed, kept buffers and with the host-managed pool all others, and tries again.
    #[cold]
    #[inline(never)]
    fn reap_and_alloc(&mut self, class: Class) -> Option<(u32, Class)> {
        if self.managed.is_none() && self.leaving.is_empty() {
            return None;
        }
        self.free_released();
        if let Some(managed) = &mut self.managed {
            managed.reap(&self.mem, &mut self.tx, &mut self.pool);
        }
        self.pool.alloc(&self.mem, class)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::ring::{GroupedEpoch, Packed};
    use crate::testing::{Sides, config};

    #[test]
    fn short_packets_take_small_buffers_and_long_ones_chains() {
        let mut host = Sides::<GroupedEpoch>::new(&config::<GroupedEpoch>()).host;
        let mut burst = Burst::new();
        assert_eq!(host.alloc(128, 3, &mut burst), 3);
        assert_eq!(host.alloc(129, 2, &mut burst), 2);
        assert_eq!(host.alloc(9600, 3, &mut burst), 3);
        let of = |buf: &Buf| (buf.len(), buf.desc().small(), buf.more());
        let (small, large) = ((128, true, false), (129, false, false));
        let chain = [(4096, false, true), (4096, false, true), (1408, false, false)];
        let expected = [&[small; 3][..], &[large; 2], &chain].concat();
        assert!(burst.as_slice().iter().map(of).eq(expected));
        host.free(&mut burst);
    }

    #[test]
    fn max_counts_buffers_of_whole_packets() {
        let mut host = Sides::<GroupedEpoch>::new(&config::<GroupedEpoch>()).host;
        let mut burst = Burst::new();
        assert_eq!(host.alloc(9000, 2, &mut burst), 0, "three buffers are needed");
        assert_eq!(host.alloc(9000, 8, &mut burst), 6);
        assert_eq!(host.alloc(9000, usize::MAX, &mut burst), 57, "the burst holds 64");
        assert_eq!((burst.len(), burst.space()), (63, 1));
        host.free(&mut burst);
    }

    #[test]
    fn a_dry_pool_gives_whole_packets_only() {
        let mut host = Sides::<Packed>::new(&Config { buffers: 16, ..config::<Packed>() }).host;
        let mut burst = Burst::new();
        assert_eq!(host.alloc(4096, 15, &mut burst), 15);
        assert_eq!((host.alloc(9000, 3, &mut burst), burst.len()), (0, 15));
        assert_eq!(host.alloc(4096, 9, &mut burst), 1, "what the chain had taken is back");
        host.free(&mut burst);
        assert_eq!(host.alloc(4096, 64, &mut burst), 16);
        host.free(&mut burst);
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "a buffer of another region")]
    fn a_buffer_of_another_region_is_refused() {
        let [mut one, mut other] =
            [(); 2].map(|()| Sides::<GroupedEpoch>::new(&config::<GroupedEpoch>()).host);
        let mut burst = Burst::new();
        one.alloc(64, 1, &mut burst);
        other.free(&mut burst);
    }
}
