//! An agent's allocator: magazines in front of the depots of small and large buffers.

extern crate alloc;

mod depots;

use crate::desc::{BORROWED, Desc, FLAG_INLINE, FLAG_SMALL, Slot};
use crate::layout::{LARGE_BUF, Layout, PoolLayout, SMALL_BUF, SMALL_PER_LARGE};
use crate::memory::SharedMemory;

use super::depot::{BATCH, Batch, Depot};
use super::ledger::Moved;
use super::magazine::Magazine;
use super::{Class, Ledger};
use depots::share;

/// One class of buffers, as one agent sees it.
#[derive(Debug)]
struct ClassPool {
    depot: Depot,
    /// Buffers are taken from it and, with recycling, put back.
    magazine: Magazine,
    /// Without recycling: freed buffers that will go to the depot in one batch.
    outgoing: Batch,
    /// The most buffers that this agent keeps: a fair share of the pool, so that the others find some in the
    /// depot.
    full: usize,
    /// How many are taken from the depot at least, if it has so many.
    refill: usize,
}

impl ClassPool {
    /// Without recycling, when the depot is empty: takes the freed buffers that have not gone there yet.
    /// False when there are none.
    fn take_back(&mut self) -> bool {
        let outgoing = core::mem::replace(&mut self.outgoing, Batch::new());
        outgoing.as_slice().iter().for_each(|&buffer| _ = self.magazine.push(buffer));
        !outgoing.as_slice().is_empty()
    }
}

/// One agent's allocator for the region's pool. Belongs to one thread.
#[derive(Debug)]
pub struct Allocator {
    small: ClassPool,
    large: ClassPool,
    layout: PoolLayout,
    recycle: bool,
    /// The magazines are caches by DPDK's rules.
    cache: bool,
    sequential: bool,
    small_limit: u32,
    /// Large buffers that may be subdivided. The rest stay large: subdivided buffers never become large
    /// again.
    split_limit: u64,
    /// A large buffer that is kept for [`alloc_or_spare`](Allocator::alloc_or_spare), and whether one is: where packets may be inline.
    spare: Option<u32>,
    keeps_spare: bool,
    ledger: Ledger,
}

impl Allocator {
    /// The allocator of a NIC queue, without a ledger.
    pub fn nic(layout: &Layout) -> Allocator {
        Allocator::new(layout, Ledger::default())
    }

    /// The allocator of a queue pair of the host, with a ledger.
    pub fn host(layout: &Layout) -> Allocator {
        Allocator::new(layout, Ledger::new(layout.pool()))
    }

    /// The allocator of a pool handle of the host, with a ledger. Its magazines keep a quarter of what those of a queue keep: nobody
    /// but its own callers can use what is in them, and the queues of a small region must not wait for that.
    pub fn handle(layout: &Layout) -> Allocator {
        let mut allocator = Allocator::host(layout);
        for class_pool in [&mut allocator.small, &mut allocator.large] {
            class_pool.full = (class_pool.full / 4).max(1);
            class_pool.refill = class_pool.refill.min(class_pool.full);
        }
        allocator
    }

    fn new(layout: &Layout, ledger: Ledger) -> Allocator {
        let (region, config) = (*layout.pool(), layout.config());
        let cache = config.mempool && config.recycle;
        let class_pool = |class, buffers: u32| {
            let share = share(layout, buffers);
            let (full, refill) = match (config.mempool, cache) {
                (false, _) => (share.min(Magazine::FULL), 1),
                (true, false) => (share.min(Magazine::FULL), share.min(BATCH)),
                (true, true) => cache_limits(share),
            };
            ClassPool {
                depot: Depot::new(layout, class),
                magazine: Magazine::new(),
                outgoing: Batch::new(),
                full,
                refill,
            }
        };
        let split_limit = config.buffers / 2;
        Allocator {
            small: class_pool(Class::Small, split_limit * SMALL_PER_LARGE),
            large: class_pool(Class::Large, config.buffers),
            layout: region,
            recycle: config.recycle,
            cache,
            sequential: config.sequential,
            small_limit: config.small_limit(),
            split_limit: u64::from(split_limit),
            spare: None,
            keeps_spare: config.has_areas(),
            ledger,
        }
    }

    /// The class of buffer for `len` bytes.
    #[inline(always)]
    pub fn class(&self, len: u32) -> Class {
        if len <= self.small_limit { Class::Small } else { Class::Large }
    }

    /// True when `len` bytes at `offset` lie inside one buffer of the class.
    #[inline(always)]
    pub fn holds(&self, offset: u32, len: u32, class: Class) -> bool {
        let within = offset.wrapping_sub(self.layout.buffers);
        within < self.layout.end - self.layout.buffers && (within & (class.size() - 1)) + len <= class.size()
    }

    /// The class of the buffers, when every descriptor is a packet of one segment that has data and lies inside one buffer of the same
    /// class. A check of a few instructions each, for bursts of packets that are alike.
    #[inline(always)]
    pub(crate) fn alike<D: Slot>(&self, descs: &[D]) -> Option<Class> {
        let class = descs.first().map_or(Class::Small, |first| Class::of(first.desc()));
        let held = match class {
            Class::Small => self.holds_plain::<FLAG_SMALL, SMALL_BUF, D>(descs),
            Class::Large => self.holds_plain::<0, LARGE_BUF, D>(descs),
        };
        held.then_some(class)
    }

    /// `alike` for buffers of `SIZE` bytes, a power of two, whose only flag is `FLAG`.
    #[inline(always)]
    fn holds_plain<const FLAG: u8, const SIZE: u32, D: Slot>(&self, descs: &[D]) -> bool {
        let one_byte = u64::from(FLAG) << 16 | 1;
        let last = u64::from(self.layout.end - self.layout.buffers - 1);
        let (mut reach, mut beyond) = (0, 0);
        for desc in descs {
            let (desc, word) = (desc.desc(), desc.desc().word());
            // Flags and length in one comparison: the difference is below a buffer's size if there are data
            // and the flag is the only one. The last byte's index in its buffer must be below it too; buffers
            // lie at multiples of their size.
            let len = (word >> 32).wrapping_sub(one_byte);
            reach |= len | (word & u64::from(SIZE - 1)).wrapping_add(len);
            // Negative when the offset lies beyond the pool.
            beyond |= last.wrapping_sub(u64::from(desc.offset().wrapping_sub(self.layout.buffers)));
        }
        reach < u64::from(SIZE) && beyond.cast_signed() >= 0
    }

    /// True when the segment lies inside one buffer of the class that it claims. False for an inline one.
    #[inline(always)]
    pub(crate) fn holds_segment(&self, desc: Desc) -> bool {
        !desc.inline() & self.holds(desc.offset(), u32::from(desc.len()), Class::of(desc))
    }

    /// `holds_segment` of all, and none is kept.
    #[inline(always)]
    pub(crate) fn holds_all<D: Slot>(&self, descs: &[D]) -> bool {
        descs.iter().fold(true, |ok, d| ok & !d.desc().kept() & self.holds_segment(d.desc()))
    }

    /// How many of the first descriptors begin inside this pool.
    #[inline(always)]
    pub(crate) fn contains<D: Slot>(&self, descs: &[D]) -> usize {
        let span = self.layout.end - self.layout.buffers;
        let out = |d: &D| d.desc().offset().wrapping_sub(self.layout.buffers) >= span;
        // Without an early exit the loop vectorises.
        if descs.iter().fold(false, |any, d| any | out(d)) {
            return descs.iter().position(out).unwrap_or(descs.len());
        }
        descs.len()
    }

    #[inline(always)]
    fn class_pool(&mut self, class: Class) -> &mut ClassPool {
        match class {
            Class::Small => &mut self.small,
            Class::Large => &mut self.large,
        }
    }

    /// Allocates a buffer of `class`; a large one instead when there is no small one. `None` when the pool is
    /// dry.
    #[inline(always)]
    pub fn alloc<M: SharedMemory>(&mut self, mem: &M, class: Class) -> Option<(u32, Class)> {
        match self.class_pool(class).magazine.pop() {
            Some(buffer) => Some((buffer, class)),
            None => self.refill(mem, class),
        }
    }

    /// As [`alloc`](Allocator::alloc), and the spare buffer when the pool is dry.
    #[inline(always)]
    pub(crate) fn alloc_or_spare<M: SharedMemory>(&mut self, mem: &M, class: Class) -> Option<(u32, Class)> {
        self.alloc(mem, class).or_else(|| Some((self.spare.take()?, Class::Large)))
    }

    /// Where packets may be inline: puts a large buffer aside as spare, if there is one and none is.
    #[inline(always)]
    pub(crate) fn keep_spare<M: SharedMemory>(&mut self, mem: &M) {
        if self.keeps_spare && self.spare.is_none() {
            self.spare = self.alloc(mem, Class::Large).map(|(at, _)| at);
        }
    }

    /// Allocates `n` buffers of `class` from the magazine, those freed last, in the order in which they were freed. `None` when it holds
    /// fewer. (Backwards they would cost a burst's loop a dozen instructions each: only slices walked forwards together share an index.)
    #[inline(always)]
    pub(crate) fn alloc_many(&mut self, class: Class, n: usize) -> Option<&[u32]> {
        self.class_pool(class).magazine.pop_many(n)
    }

    /// Frees the buffers of `descs`, all at once when they are of one class, as those of a burst usually are. Inline packets have none, and
    /// kept ones are their sender's.
    #[inline(always)]
    pub(crate) fn free_many<M: SharedMemory, D: Slot>(&mut self, mem: &M, descs: &[D]) {
        if let [_] = descs {
            return self.free_each(mem, descs); // a lone packet's: no loop
        }
        let (any, all) = flags(descs);
        if any & u32::from(BORROWED) != 0 {
            if all & u32::from(FLAG_INLINE) == 0 {
                self.free_each(mem, descs);
            }
            return;
        }
        let class = if all & u32::from(FLAG_SMALL) != 0 { Class::Small } else { Class::Large };
        if (any ^ all) & u32::from(FLAG_SMALL) != 0 || !self.keep_alike(class, descs) {
            self.free_each(mem, descs);
        }
    }

    /// Frees the buffers of `descs`, all of them of this class.
    #[inline(always)]
    pub(crate) fn free_alike<M: SharedMemory, D: Slot>(&mut self, mem: &M, class: Class, descs: &[D]) {
        if !self.keep_alike(class, descs) {
            self.free_each(mem, descs);
        }
    }

    /// Puts buffers of one class into the magazine; false when it has no room for all.
    #[inline(always)]
    fn keep_alike<D: Slot>(&mut self, class: Class, descs: &[D]) -> bool {
        let (recycle, n) = (self.recycle, descs.len());
        let class_pool = self.class_pool(class);
        if !recycle || class_pool.magazine.len() + n > class_pool.full {
            return false;
        }
        let Some(slots) = class_pool.magazine.push_many(n) else { return false };
        for (slot, desc) in slots.iter_mut().zip(descs) {
            *slot = desc.desc().offset() & !(class.size() - 1);
        }
        true
    }

    #[inline(always)]
    fn free_each<M: SharedMemory, D: Slot>(&mut self, mem: &M, descs: &[D]) {
        for desc in descs {
            if !desc.desc().borrowed() {
                self.free(mem, desc.desc().offset(), Class::of(desc.desc()));
            }
        }
    }

    /// Frees the buffer that contains `offset`.
    #[inline(always)]
    pub fn free<M: SharedMemory>(&mut self, mem: &M, offset: u32, class: Class) {
        let buffer = offset & !(class.size() - 1);
        let recycle = self.recycle;
        let class_pool = self.class_pool(class);
        if recycle && class_pool.magazine.len() < class_pool.full {
            class_pool.magazine.push(buffer);
        } else {
            self.spill(mem, buffer, class);
        }
    }

    /// The magazine is empty: takes a batch from the depot, or the freed buffers that will go there, or
    /// subdivides a large buffer.
    #[cold]
    #[inline(never)]
    fn refill<M: SharedMemory>(&mut self, mem: &M, class: Class) -> Option<(u32, Class)> {
        if !self.take(mem, class) && !self.class_pool(class).take_back() && class == Class::Small {
            self.split(mem);
        }
        match self.class_pool(class).magazine.pop() {
            Some(buffer) => Some((buffer, class)),
            None if class == Class::Small => self.alloc(mem, Class::Large),
            None => None,
        }
    }

    /// Takes buffers from the depot; false when it has none.
    fn take<M: SharedMemory>(&mut self, mem: &M, class: Class) -> bool {
        let (cache, class_pool) = (self.cache, self.class_pool(class));
        let (depot, refill) = (class_pool.depot, class_pool.refill);
        let mut taken = 0;
        while taken < refill {
            let Some(batch) = depot.pop(mem, refill - taken) else { break };
            let buffers = batch.as_slice();
            buffers.iter().for_each(|&buffer| self.record(buffer, class, Moved::Came));
            let magazine = &mut self.class_pool(class).magazine;
            // The batch's first is allocated first. (DPDK's cache is a copy of the ring, and allocated from its end.)
            if cache {
                buffers.iter().for_each(|&buffer| _ = magazine.push(buffer));
            } else {
                buffers.iter().rev().for_each(|&buffer| _ = magazine.push(buffer));
            }
            taken += buffers.len().max(1); // of a damaged depot a batch may hold none
        }
        taken > 0
    }

    /// Subdivides a large buffer into 32 small ones (CC-NIC section 3.3), unless as many as may be are
    /// subdivided already.
    fn split<M: SharedMemory>(&mut self, mem: &M) {
        let split = mem.load(self.layout.split);
        if split >= self.split_limit {
            return;
        }
        let Some((chunk, _)) = self.alloc(mem, Class::Large) else { return };
        if mem.compare_exchange(self.layout.split, split, split + 1).is_err() {
            self.free(mem, chunk, Class::Large); // the peer has just subdivided one: its buffers will reach the depot
            return;
        }
        mem.store_release(self.kind(chunk), 1);
        self.record(chunk, Class::Large, Moved::Left);
        for i in (0..SMALL_PER_LARGE).rev() {
            let order = if self.sequential { i } else { i.reverse_bits() >> (32 - SMALL_PER_LARGE.ilog2()) };
            let buffer = chunk + order * SMALL_BUF;
            self.record(buffer, Class::Small, Moved::Came);
            self.small.magazine.push(buffer);
        }
    }

    /// The word that is 1 when a large buffer has been subdivided.
    fn kind(&self, chunk: u32) -> u32 {
        self.layout.kinds + (chunk - self.layout.buffers) / LARGE_BUF * 8
    }

    /// The magazine is full, or there is no recycling: moves the oldest buffers to the depot, or all of a cache by DPDK's rules.
    #[cold]
    #[inline(never)]
    fn spill<M: SharedMemory>(&mut self, mem: &M, buffer: u32, class: Class) {
        if self.cache {
            self.empty(mem, class);
            self.class_pool(class).magazine.push(buffer);
            return;
        }
        let recycle = self.recycle;
        let class_pool = self.class_pool(class);
        let mut batch = class_pool.outgoing;
        if recycle {
            batch.fill(|out| class_pool.magazine.take_oldest(out));
            class_pool.magazine.push(buffer);
        } else {
            batch.push(buffer);
            class_pool.outgoing = batch;
            if !batch.is_full() && batch.as_slice().len() < class_pool.full {
                return;
            }
        }
        self.give(mem, &batch, class);
    }

    /// Gives a batch to the depot.
    fn give<M: SharedMemory>(&mut self, mem: &M, batch: &Batch, class: Class) {
        let gone = self.class_pool(class).depot.push(mem, batch);
        self.class_pool(class).outgoing = Batch::new();
        if gone {
            batch.as_slice().iter().for_each(|&b| self.record(b, class, Moved::Left));
            return;
        }
        // A peer keeps changing the depot's head: keep what fits.
        for &buffer in batch.as_slice() {
            self.class_pool(class).magazine.push(buffer);
        }
    }

    /// Gives everything that this agent keeps to the depots, for its successor and the peer.
    pub fn drain<M: SharedMemory>(&mut self, mem: &M) {
        if let Some(spare) = self.spare.take() {
            self.free(mem, spare, Class::Large);
        }
        for class in [Class::Small, Class::Large] {
            let outgoing = self.class_pool(class).outgoing;
            self.give(mem, &outgoing, class);
            self.empty(mem, class);
        }
    }

    /// Gives what is in the magazine to the depot.
    fn empty<M: SharedMemory>(&mut self, mem: &M, class: Class) {
        let batches = self.class_pool(class).magazine.len().div_ceil(BATCH);
        for _ in 0..batches {
            let mut batch = Batch::new();
            let magazine = &mut self.class_pool(class).magazine;
            batch.fill(|out| magazine.take_oldest(out));
            self.give(mem, &batch, class);
        }
    }

    /// Enters in the ledger a buffer that came from the depot, or went there.
    #[inline]
    fn record(&mut self, buffer: u32, class: Class, moved: Moved) {
        self.ledger.add(buffer.wrapping_sub(self.layout.buffers), class, moved);
    }

    /// Host: the buffer that contains `offset` has been given to the NIC.
    #[inline(always)]
    pub(crate) fn sent(&mut self, offset: u32, class: Class) {
        self.record(offset, class, Moved::Left);
    }

    /// Host: the buffers of `descs` have been given to the NIC, except for those that are kept.
    #[inline(always)]
    pub(crate) fn sent_many<D: Slot>(&mut self, descs: &[D]) {
        self.ledger.add_many(&self.layout, descs, Moved::Left);
    }

    /// `sent_many` where all are of this class.
    #[inline(always)]
    pub(crate) fn sent_alike<D: Slot>(&mut self, class: Class, descs: &[D]) {
        self.ledger.add_alike(&self.layout, class, descs, Moved::Left);
    }

    /// `received_many` where all are of this class.
    #[inline(always)]
    pub(crate) fn received_alike<D: Slot>(&mut self, class: Class, descs: &[D]) {
        self.ledger.add_alike(&self.layout, class, descs, Moved::Came);
    }

    /// Host: the buffers of `descs` have come from the NIC.
    #[inline(always)]
    pub(crate) fn received_many<D: Slot>(&mut self, descs: &[D]) {
        self.ledger.add_many(&self.layout, descs, Moved::Came);
    }

    pub(crate) fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Buffers that this agent keeps.
    pub fn kept(&self) -> usize {
        let kept = [&self.small, &self.large].map(|s| s.magazine.len() + s.outgoing.as_slice().len());
        kept.iter().sum::<usize>() + usize::from(self.spare.is_some())
    }
}

/// The flags that any and that all of the descriptors have.
#[inline(always)]
pub(crate) fn flags<D: Slot>(descs: &[D]) -> (u32, u32) {
    let (mut any, mut all) = (0, u32::MAX);
    for desc in descs {
        let flags = u32::from(desc.desc().flags());
        (any, all) = (any | flags, all & flags);
    }
    (any, all)
}

/// Of a cache by DPDK's rules (`rte_mempool.h`, from 22.11 on): the most buffers that it keeps, and how many an empty one takes to give
/// one. Its size is that of DPDK's examples, or two thirds of this agent's share of a small pool; the most is 1.5 times the size, and more
/// than that empties it. An empty one takes its size and what is asked for; if there are fewer, DPDK's takes the latter only, this one all.
fn cache_limits(share: usize) -> (usize, usize) {
    const SIZE: usize = 256;
    let size = SIZE.min(share * 2 / 3).max(1);
    (size + size / 2, size + 1)
}

#[cfg(test)]
mod tests;
