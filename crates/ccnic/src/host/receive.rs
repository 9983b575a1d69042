//! Receiving: from the ring through two small private stages to the program.
//!
//! Under load one stage is handed out while the lines of the other are on their way. They are requested a few at a time, in
//! every call of the queue pair: a core has 16 fill buffers (12 before Sapphire Rapids), and asking for a whole burst at once
//! would wait for them.

use crate::buf::{Buf, Burst, RegionTag};
use crate::desc::Desc;
use crate::memory::{Fetch, SharedMemory, prefetch_payload};
use crate::pool::{Allocator, Class};
use crate::ring::Consumer;

/// Descriptors that are taken from the ring at once, however few the program asks for.
const STAGE: usize = 32;

/// Packets whose lines one call requests ahead.
pub(super) const AHEAD: usize = 8;

/// The receiving end of a queue pair.
#[derive(Debug)]
pub(super) struct Receiver<C> {
    ring: C,
    /// The program writes the received buffers next.
    fetch: Fetch,
    stages: [Stage; 2],
    /// Which stage is handed out.
    current: usize,
    empty_polls: u32,
    taken: usize,
    bad_descriptor: u64,
}

/// Received descriptors, checked, that wait to be asked for.
#[derive(Debug)]
struct Stage {
    descs: [Desc; STAGE],
    /// The first that has not been handed out.
    next: usize,
    /// The first whose lines have not been requested.
    ask: usize,
    len: usize,
    /// Every packet is one segment in a small buffer.
    small: bool,
}

impl Stage {
    const EMPTY: Stage = Stage { descs: [Desc::new(0, 0, 0); STAGE], next: 0, ask: 0, len: 0, small: false };

    #[inline(always)]
    fn is_empty(&self) -> bool {
        self.next == self.len
    }

    #[inline(always)]
    fn rest(&self) -> &[Desc] {
        self.descs.get(self.next..self.len).unwrap_or_default()
    }

    /// Requests the lines of the next packets up to `end`.
    #[inline(always)]
    fn request<M: SharedMemory>(&mut self, mem: &M, end: usize, fetch: Fetch) {
        let end = end.min(self.len);
        if let Some(descs) = self.descs.get(self.ask..end) {
            // The choice is made once, not for every packet.
            match fetch {
                Fetch::Read => request(mem, descs, Fetch::Read),
                Fetch::Own => request(mem, descs, Fetch::Own),
                Fetch::Write => request(mem, descs, Fetch::Write),
            }
            self.ask = end;
        }
    }

    /// Copies whole packets, at most `max` buffers, to the end of `to`; returns their number.
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

    /// Shows small packets, at most `max`, to `read` and frees their buffers; returns their number. `None` when the first is not
    /// small.
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
fn request<M: SharedMemory>(mem: &M, descs: &[Desc], fetch: Fetch) {
    for desc in descs {
        prefetch_payload(mem, desc.offset(), u32::from(desc.len()), fetch);
    }
}

/// The first descriptors, as long as they are packets of one segment in a small buffer.
#[inline(never)]
fn small(descs: &[Desc]) -> &[Desc] {
    let n = descs.iter().position(|desc| desc.more() || !desc.small());
    descs.get(..n.unwrap_or(descs.len())).unwrap_or_default()
}

/// How many of the first `most` descriptors make whole packets.
#[inline(never)]
fn whole(descs: &[Desc], most: usize) -> usize {
    descs.iter().take(most).rposition(|desc| !desc.more()).map_or(0, |i| i + 1)
}

impl<C: Consumer> Receiver<C> {
    /// Receives from `ring`.
    pub(super) fn new(ring: C, fetch: Fetch) -> Receiver<C> {
        let stages = [const { Stage::EMPTY }; 2];
        Receiver { ring, fetch, stages, current: 0, empty_polls: 0, taken: 0, bad_descriptor: 0 }
    }

    /// Receives the buffers of whole packets, at most `max` of them, into `to`; returns their number.
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

    /// Shows small packets, at most `max`, to `read` and frees their buffers; returns their number. `None` when the first that
    /// waits is not small.
    #[inline(always)]
    pub(super) fn lend<M: SharedMemory>(
        &mut self,
        mem: &M,
        pool: &mut Allocator,
        max: usize,
        read: impl FnMut(usize, &[u8], u64),
    ) -> Option<usize> {
        // The lines of those after them are on their way while these are read.
        self.serve(mem, pool, max + AHEAD, |stage, pool| stage.lend(mem, pool, max, read)).unwrap_or(Some(0))
    }

    /// Has `take_out` take packets out of the stage at hand, which it fills from the ring when both are empty; the lines of `ask` of
    /// them are requested. `None` when nothing has come.
    #[inline(always)]
    fn serve<M: SharedMemory, T>(
        &mut self,
        mem: &M,
        pool: &mut Allocator,
        ask: usize,
        take_out: impl FnOnce(&mut Stage, &mut Allocator) -> T,
    ) -> Option<T> {
        let [first, second] = &mut self.stages;
        let (mut current, mut next) = if self.current == 0 { (first, second) } else { (second, first) };
        if current.is_empty() {
            self.current ^= 1;
            core::mem::swap(&mut current, &mut next);
            if current.is_empty() {
                let n = take(&mut self.ring, mem, pool, current);
                if n == 0 {
                    self.empty_polls = self.empty_polls.saturating_add(1);
                    return None;
                }
                self.taken += n;
            }
        }
        let more = current.small && current.len == STAGE;
        current.request(mem, current.next.saturating_add(ask), self.fetch);
        let taken = take_out(current, pool);
        if more && next.is_empty() {
            self.taken += take(&mut self.ring, mem, pool, next);
        }
        Some(taken)
    }

    /// Requests the lines of some of the packets that will be handed out next.
    #[inline(always)]
    pub(super) fn request<M: SharedMemory>(&mut self, mem: &M) {
        let fetch = self.fetch;
        let [first, second] = &mut self.stages;
        let stage = if first.ask < first.len { first } else { second };
        stage.request(mem, stage.ask + AHEAD, fetch);
    }

    /// Polls in vain since this was last asked.
    #[inline(always)]
    pub(super) fn empty_polls(&mut self) -> u32 {
        core::mem::take(&mut self.empty_polls)
    }

    /// Frees the packets that nobody has asked for.
    pub(super) fn abandon<M: SharedMemory>(&mut self, mem: &M, pool: &mut Allocator) {
        for stage in &mut self.stages {
            for desc in stage.rest() {
                pool.free(mem, desc.offset(), Class::of(*desc));
            }
            *stage = Stage::EMPTY;
        }
    }

    /// Descriptors that are taken from the ring and not handed out.
    pub(super) fn staged(&self) -> usize {
        self.stages.iter().map(|stage| stage.rest().len()).sum()
    }

    /// True when a whole stage waits: the NIC delivers faster than the program receives.
    #[inline(always)]
    pub(super) fn backlog(&self) -> bool {
        self.staged() >= STAGE
    }

    /// Descriptors taken from the ring since this was last asked.
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

/// Takes what is ready from the ring into an empty stage and checks it.
#[inline(always)]
fn take<C: Consumer, M: SharedMemory>(
    ring: &mut C,
    mem: &M,
    pool: &mut Allocator,
    stage: &mut Stage,
) -> usize {
    let n = ring.pop(mem, &mut stage.descs);
    (stage.next, stage.ask, stage.len) = (0, 0, n);
    if n == 0 {
        return 0;
    }
    ring.release(mem);
    if n == STAGE {
        ring.prefetch(mem, n); // a full burst: the next one is probably there already
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
        drop_bad(pool, stage);
    }
    n
}

/// Drops received buffers that lie outside the pool: reading them would read something else.
#[cold]
#[inline(never)]
fn drop_bad(pool: &Allocator, stage: &mut Stage) {
    let mut kept = 0;
    for i in 0..stage.len {
        let desc = stage.descs.get(i).copied().unwrap_or_default();
        if pool.holds(desc.offset(), u32::from(desc.len()), Class::of(desc)) {
            stage.descs.swap(kept, i);
            kept += 1;
        }
    }
    stage.len = kept;
}
