//! The receive path: from the ring through two private stages of 32 descriptors to the program.
//!
//! Under load the program is given the packets of one stage while the lines of the other's are prefetched. A
//! few are prefetched in each call of the queue pair: a core has 16 fill buffers (12 before Sapphire Rapids),
//! and prefetching a whole burst at once would stall on them.

use crate::buf::{Buf, Burst, RegionTag};
use crate::desc::Desc;
use crate::memory::{Fetch, SharedMemory, prefetch_payload};
use crate::pool::{Allocator, Class};
use crate::ring::Consumer;

/// Descriptors that are taken from the ring at once, however few the program asks for.
const STAGE: usize = 32;

/// Packets whose lines one call prefetches.
pub(super) const AHEAD: usize = 8;

/// The receiving end of a queue pair.
#[derive(Debug)]
pub(super) struct Receiver<C> {
    ring: C,
    /// How received payload is prefetched.
    fetch: Fetch,
    stages: [Stage; 2],
    /// The index of the stage that the program is given packets of.
    current: usize,
    /// Polls that found nothing since `empty_polls()` was called.
    empty_polls: u32,
    /// Descriptors taken from the ring since `taken()` was called.
    taken: usize,
    bad_descriptor: u64,
}

/// Received descriptors, already checked, that the program has not asked for yet.
#[derive(Debug)]
struct Stage {
    descs: [Desc; STAGE],
    /// The first that the program has not been given.
    next: usize,
    /// The first whose lines have not been prefetched.
    prefetched: usize,
    len: usize,
    /// Every packet is one segment in a small buffer.
    small: bool,
}

impl Stage {
    const EMPTY: Stage =
        Stage { descs: [Desc::new(0, 0, 0); STAGE], next: 0, prefetched: 0, len: 0, small: false };

    #[inline(always)]
    fn is_empty(&self) -> bool {
        self.next == self.len
    }

    #[inline(always)]
    fn rest(&self) -> &[Desc] {
        self.descs.get(self.next..self.len).unwrap_or_default()
    }

    /// Prefetches the lines of the packets up to index `end`.
    #[inline(always)]
    fn prefetch<M: SharedMemory>(&mut self, mem: &M, end: usize, fetch: Fetch) {
        let end = end.min(self.len);
        if let Some(descs) = self.descs.get(self.prefetched..end) {
            // Decided once here and not for every packet.
            match fetch {
                Fetch::Read => prefetch(mem, descs, Fetch::Read),
                Fetch::Own => prefetch(mem, descs, Fetch::Own),
                Fetch::Write => prefetch(mem, descs, Fetch::Write),
            }
            self.prefetched = end;
        }
    }

    /// Adds whole packets, at most `max` buffers, to `to`; returns the number of buffers.
    #[inline(always)]
    fn hand_out(&mut self, to: &mut Burst, max: usize, region: RegionTag) -> usize {
        let waiting = self.rest();
        let mut n = max.min(to.space()).min(waiting.len());
        if !self.small {
            n = whole(waiting, n);
        }
        for (slot, desc) in to.spare(n).iter_mut().zip(waiting) {
            *slot = Buf::new(*desc, region);
        }
        to.added(n);
        self.next += n;
        n
    }

    /// Lends small packets, at most `max`, to `read` and frees their buffers; returns their number. `None`
    /// when the first is not small.
    #[inline(always)]
    fn lend<M: SharedMemory>(
        &mut self,
        mem: &M,
        pool: &mut Allocator,
        max: usize,
        mut read: impl FnMut(usize, &[u8], u64),
    ) -> Option<usize> {
        let waiting = self.rest();
        let waiting = waiting.get(..max).unwrap_or(waiting);
        let descs = if self.small { waiting } else { small(waiting) };
        for (i, desc) in descs.iter().enumerate() {
            mem.with(desc.offset(), u32::from(desc.len()), |bytes| read(i, bytes, desc.meta));
        }
        let (n, none) = (descs.len(), descs.is_empty() && !waiting.is_empty());
        pool.free_small(mem, descs);
        self.next += n;
        (!none).then_some(n)
    }
}

#[inline(always)]
fn prefetch<M: SharedMemory>(mem: &M, descs: &[Desc], fetch: Fetch) {
    for desc in descs {
        prefetch_payload(mem, desc.offset(), u32::from(desc.len()), fetch);
    }
}

/// The longest prefix of packets of one segment in a small buffer.
#[inline(never)]
fn small(descs: &[Desc]) -> &[Desc] {
    let n = descs.iter().position(|desc| desc.more() || !desc.small());
    descs.get(..n.unwrap_or(descs.len())).unwrap_or_default()
}

/// How many of the first `limit` descriptors make whole packets.
#[inline(never)]
fn whole(descs: &[Desc], limit: usize) -> usize {
    descs.iter().take(limit).rposition(|desc| !desc.more()).map_or(0, |i| i + 1)
}

impl<C: Consumer> Receiver<C> {
    /// A receiver that takes from `ring` and prefetches payload for `fetch`.
    pub(super) fn new(ring: C, fetch: Fetch) -> Receiver<C> {
        let stages = [const { Stage::EMPTY }; 2];
        Receiver { ring, fetch, stages, current: 0, empty_polls: 0, taken: 0, bad_descriptor: 0 }
    }

    /// Adds whole packets, at most `max` buffers, to `to`; returns the number of buffers.
    #[inline(always)]
    pub(super) fn burst<M: SharedMemory>(
        &mut self,
        mem: &M,
        pool: &mut Allocator,
        to: &mut Burst,
        max: usize,
    ) -> usize {
        self.serve(mem, pool, max, |stage, _| stage.hand_out(to, max, RegionTag::of(mem))).unwrap_or(0)
    }

    /// Lends small packets, at most `max`, to `read` and frees their buffers; returns their number. `None`
    /// when the next packet is not small.
    #[inline(always)]
    pub(super) fn lend<M: SharedMemory>(
        &mut self,
        mem: &M,
        pool: &mut Allocator,
        max: usize,
        read: impl FnMut(usize, &[u8], u64),
    ) -> Option<usize> {
        // The lines of the packets behind them arrive while these are read.
        self.serve(mem, pool, max + AHEAD, |stage, pool| stage.lend(mem, pool, max, read)).unwrap_or(Some(0))
    }

    /// Lets `take_out` take packets out of the current stage, after prefetching the lines of the next `ahead`
    /// packets. Fills the stage from the ring when both are empty, and the other one ahead under load. `None`
    /// when there is nothing to receive.
    #[inline(always)]
    fn serve<M: SharedMemory, T>(
        &mut self,
        mem: &M,
        pool: &mut Allocator,
        ahead: usize,
        take_out: impl FnOnce(&mut Stage, &mut Allocator) -> T,
    ) -> Option<T> {
        let [first, second] = &mut self.stages;
        let (mut current, mut next) = if self.current == 0 { (first, second) } else { (second, first) };
        if current.is_empty() {
            self.current ^= 1;
            core::mem::swap(&mut current, &mut next);
            if current.is_empty() {
                let n = take(&mut self.ring, mem, pool, current, &mut self.bad_descriptor);
                if n == 0 {
                    self.empty_polls = self.empty_polls.saturating_add(1);
                    return None;
                }
                self.taken += n;
            }
        }
        let more = current.small && current.len == STAGE;
        current.prefetch(mem, current.next.saturating_add(ahead), self.fetch);
        let taken = take_out(current, pool);
        if more && next.is_empty() {
            self.taken += take(&mut self.ring, mem, pool, next, &mut self.bad_descriptor);
        }
        Some(taken)
    }

    /// Prefetches the lines of some of the packets that the program will be given next.
    #[inline(always)]
    pub(super) fn prefetch<M: SharedMemory>(&mut self, mem: &M) {
        let fetch = self.fetch;
        let [first, second] = &mut self.stages;
        let stage = if first.prefetched < first.len { first } else { second };
        stage.prefetch(mem, stage.prefetched + AHEAD, fetch);
    }

    /// Polls that found nothing since the last call.
    #[inline(always)]
    pub(super) fn empty_polls(&mut self) -> u32 {
        core::mem::take(&mut self.empty_polls)
    }

    /// Frees the packets that the program has not been given.
    pub(super) fn discard<M: SharedMemory>(&mut self, mem: &M, pool: &mut Allocator) {
        for stage in &mut self.stages {
            for desc in stage.rest() {
                pool.free(mem, desc.offset(), Class::of(*desc));
            }
            *stage = Stage::EMPTY;
        }
    }

    /// Descriptors taken from the ring that the program has not been given.
    pub(super) fn staged(&self) -> usize {
        self.stages.iter().map(|stage| stage.rest().len()).sum()
    }

    /// True when at least a whole stage waits: the NIC delivers faster than the program receives.
    #[inline(always)]
    pub(super) fn backlog(&self) -> bool {
        self.staged() >= STAGE
    }

    /// Descriptors taken from the ring since the last call.
    pub(super) fn taken(&mut self) -> usize {
        core::mem::take(&mut self.taken)
    }

    /// Received descriptors that named no buffer of the region.
    pub(super) fn bad_descriptor(&self) -> u64 {
        self.bad_descriptor
    }

    pub(super) fn ring(&self) -> &C {
        &self.ring
    }
}

/// Takes what is ready from the ring into an empty stage and checks every descriptor; returns how many were
/// taken.
#[inline(always)]
fn take<C: Consumer, M: SharedMemory>(
    ring: &mut C,
    mem: &M,
    pool: &mut Allocator,
    stage: &mut Stage,
    bad: &mut u64,
) -> usize {
    let n = ring.pop(mem, &mut stage.descs);
    (stage.next, stage.prefetched, stage.len) = (0, 0, n);
    if n == 0 {
        return 0;
    }
    ring.release(mem);
    if n == STAGE {
        ring.prefetch(mem, n); // a full burst: the next is probably published already
    }
    let descs = stage.rest();
    let small = pool.holds_small(descs);
    if small {
        pool.received_small(descs);
    } else {
        pool.received_many(descs);
    }
    stage.small = small;
    if !small && !pool.holds_all(stage.rest()) {
        *bad += drop_bad(pool, stage);
    }
    n
}

/// Removes descriptors that name no bytes of the pool, since reading them would read something else; returns
/// their number.
#[cold]
#[inline(never)]
fn drop_bad(pool: &Allocator, stage: &mut Stage) -> u64 {
    let mut kept = 0;
    for i in 0..stage.len {
        let desc = stage.descs.get(i).copied().unwrap_or_default();
        if pool.holds(desc.offset(), u32::from(desc.len()), Class::of(desc)) {
            stage.descs.swap(kept, i);
            kept += 1;
        }
    }
    let dropped = stage.len - kept;
    stage.len = kept;
    dropped as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::desc::FLAG_MORE;
    use crate::layout::LARGE_BUF;
    use crate::ring::{GroupedEpoch, Producer, Ring};
    use crate::testing::{Sides, config};

    type Tx = <GroupedEpoch as Ring>::Producer;

    /// A host whose NIC, a broken one, has published `descs`.
    fn published(descs: impl Fn(u32) -> [Desc; 4]) -> Sides<GroupedEpoch> {
        let sides = Sides::<GroupedEpoch>::new(&config::<GroupedEpoch>());
        let queue = sides.layout.queue(0).unwrap();
        let descs = descs(sides.layout.pool().buffers);
        assert_eq!(Tx::resume(&sides.mem, &queue.rx).push(&sides.mem, &descs), 4);
        sides
    }

    #[test]
    fn descriptors_that_name_no_buffer_are_dropped() {
        let one = |at: u32, len| Desc::new(at, len, 0);
        let mut sides = published(|pool| {
            [one(pool, 1), one(0, 2), one(pool + LARGE_BUF - 1, 3), one(pool + LARGE_BUF, 4)]
        });
        let mut burst = Burst::new();
        assert_eq!(sides.host.rx_burst(&mut burst, 32), 2);
        assert!(burst.as_slice().iter().map(Buf::len).eq([1, 4]));
        assert_eq!(sides.host.drops().bad_descriptor, 2);
        sides.host.free(&mut burst);
    }

    #[test]
    fn a_prefix_of_whole_packets_or_of_small_ones() {
        let small = Desc::new(0, 1, crate::desc::FLAG_SMALL);
        let (large, more) = (Desc::new(0, 1, 0), Desc::new(0, 1, FLAG_MORE));
        assert_eq!([1, 2, 3, 9].map(|limit| whole(&[large, more, large, more], limit)), [1, 1, 3, 3]);
        assert_eq!(super::small(&[small, small, large, small]).len(), 2);
        assert_eq!(super::small(&[small.with_more(true), small]).len(), 0);
    }

    #[test]
    fn full_bursts_are_taken_ahead_and_counted() {
        let mut sides = Sides::<GroupedEpoch>::new(&config::<GroupedEpoch>());
        for byte in [1, 2] {
            assert_eq!((sides.send(64, 32, byte), sides.poll()), (32, 32));
        }
        let mut first = None;
        assert_eq!(sides.receive(1, |_, byte| first = byte), 1);
        assert_eq!((first, sides.host.rx.staged(), sides.host.rx.backlog()), (Some(1), 63, true));
        assert_eq!((sides.host.rx.taken(), sides.host.rx.taken()), (64, 0));
        let mut bytes = [0u32; 3];
        while sides.receive(8, |_, byte| bytes[usize::from(byte.unwrap())] += 1) > 0 {}
        assert_eq!((bytes, sides.host.rx.staged()), ([0, 31, 32], 0));
        assert_eq!((sides.host.rx.empty_polls(), sides.host.rx.empty_polls()), (1, 0));
    }
}
