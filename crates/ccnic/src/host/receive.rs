//! The receive path: from the ring through two private stages of 32 descriptors to the program.
//!
//! Under load the program is given the packets of one stage while the lines of the other's are prefetched. A
//! few are prefetched in each call of the queue pair: a core has 16 fill buffers (12 before Sapphire Rapids),
//! and prefetching a whole burst at once would stall on them.
//!
//! Inline packets stay in the ring's areas until the program has read them, or has been given copies in buffers of the pool. Their
//! units are handed back when their stage is empty.

use crate::buf::{Buf, Burst, RegionTag};
use crate::config::Config;
use crate::desc::Desc;
use crate::layout::{AREA, RingLayout, SMALL_BUF};
use crate::memory::{Fetch, SharedMemory, prefetch_payload};
use crate::pool::{Allocator, Class, move_to_buffer};
use crate::ring::Consumer;
use crate::tuning::Tuning;

use super::check::{Checker, take_back};

/// Descriptors that are taken from the ring at once, however few the program asks for.
const STAGE: usize = 32;

/// Packets that are read at once.
pub(super) const PIECE: usize = 8;

/// Packets behind those whose lines are prefetched meanwhile. A core has 16 fill buffers: a request beyond them waits, and so do the
/// program's stores (with 8: 11 to 15 % fewer packets of 64 bytes on an Emerald Rapids).
pub(super) const AHEAD: usize = 6;

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
    checker: Checker,
    /// The ring has areas: units are handed back when their packets have been read.
    areas: bool,
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
    /// Where the data of its packets lie.
    kind: Kind,
    /// No packet is longer or has several segments; unknown where it is `u32::MAX`.
    most: u32,
    /// The position in the ring after its last packet.
    end: u64,
}

/// Where the data of a stage's packets lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Every packet is inline.
    Inline,
    /// Every packet is one segment in a buffer of this class.
    Buffers(Class),
    /// Anywhere.
    Mixed,
}

impl Stage {
    const EMPTY: Stage = Stage {
        descs: [Desc::new(0, 0, 0); STAGE],
        next: 0,
        prefetched: 0,
        len: 0,
        kind: Kind::Mixed,
        most: u32::MAX,
        end: 0,
    };

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
        if self.prefetched >= end {
            return;
        }
        // Nobody but the writer writes an area.
        let fetch = if self.kind == Kind::Inline { Fetch::Read } else { fetch };
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

    /// Adds whole packets, at most `max` buffers or one packet, to `to`; returns the number of buffers. `None` when the first packet
    /// waits for a buffer.
    #[inline(always)]
    fn hand_out<M: SharedMemory>(
        &mut self,
        mem: &M,
        pool: &mut Allocator,
        to: &mut Burst,
        max: usize,
    ) -> Option<usize> {
        let waiting = self.rest();
        let mut n = max.min(to.space()).min(waiting.len());
        if self.kind == Kind::Mixed {
            n = whole(waiting, n, to.space());
        }
        if !matches!(self.kind, Kind::Buffers(_)) {
            n = self.copy_out(mem, pool, n)?;
        }
        let region = RegionTag::of(mem);
        for (slot, desc) in to.spare(n).iter_mut().zip(self.rest()) {
            *slot = Buf::new(*desc, region);
        }
        to.added(n);
        self.next += n;
        Some(n)
    }

    /// Copies the inline packets among the next `n` into buffers of the pool, which the program may keep. Returns `n`, or less when the
    /// pool is dry: the number that make whole packets without an inline one. `None` when that is none: the first packet waits for a
    /// buffer ([`Receiver::make_way`]). Usually there is a spare one for it.
    #[inline(never)]
    fn copy_out<M: SharedMemory>(&mut self, mem: &M, pool: &mut Allocator, n: usize) -> Option<usize> {
        let descs = self.descs.get_mut(self.next..self.next + n).unwrap_or_default();
        for (i, slot) in descs.iter_mut().enumerate() {
            if !slot.inline() {
                continue;
            }
            let Some(buffer) = pool.alloc_or_spare(mem, pool.class(slot.len().into())) else {
                let before = descs.get(..i).unwrap_or_default();
                return before.iter().rposition(|desc| !desc.more()).map(|last| last + 1);
            };
            move_to_buffer(mem, slot, buffer);
        }
        pool.keep_spare(mem);
        Some(n)
    }

    /// Frees the next packet, which waits for a buffer.
    fn drop_first<M: SharedMemory>(&mut self, mem: &M, pool: &mut Allocator) {
        let waiting = self.rest();
        let end = waiting.iter().position(|desc| !desc.more()).map_or(waiting.len(), |last| last + 1);
        pool.free_many(mem, waiting.get(..end).unwrap_or_default()); // segments that have been copied already
        self.next += end;
    }

    /// Lends packets of one segment and at most `longest` bytes, at most `max` of them, to `read` and frees their buffers; returns
    /// their number. `None` when the first is another one.
    #[inline(always)]
    fn lend<M: SharedMemory>(
        &mut self,
        mem: &M,
        pool: &mut Allocator,
        (max, longest): (usize, u32),
        mut read: impl FnMut(usize, &[u8], u64),
    ) -> Option<usize> {
        let waiting = self.rest();
        let waiting = waiting.get(..max).unwrap_or(waiting);
        let descs = if self.most <= longest { waiting } else { one_by_one(waiting, longest) };
        for (i, desc) in descs.iter().enumerate() {
            mem.with(
                desc.offset(),
                u32::from(desc.len()),
                #[inline(always)]
                |bytes| read(i, bytes, desc.meta),
            );
        }
        let (n, none) = (descs.len(), descs.is_empty() && !waiting.is_empty());
        match self.kind {
            Kind::Inline => {}
            Kind::Buffers(class) => pool.free_alike(mem, class, descs),
            Kind::Mixed => pool.free_many(mem, descs),
        }
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

/// The longest prefix of packets of one segment and at most `longest` bytes.
#[inline(always)]
fn one_by_one(descs: &[Desc], longest: u32) -> &[Desc] {
    let other = |desc: &Desc| desc.more() | (u32::from(desc.len()) > longest);
    // Usually there is none: without an early exit the loop vectorises.
    if descs.iter().fold(false, |any, desc| any | other(desc)) {
        let n = descs.iter().position(other).unwrap_or(descs.len());
        return descs.get(..n).unwrap_or_default();
    }
    descs
}

/// How many of the first `limit` descriptors make whole packets; if none do, how many the first packet has,
/// provided that there is `space` for it. So whatever the limit, a packet never blocks those behind it.
#[inline(never)]
fn whole(descs: &[Desc], limit: usize, space: usize) -> usize {
    let end = |desc: &Desc| !desc.more();
    match descs.iter().take(limit).rposition(end) {
        Some(last) => last + 1,
        None if limit == 0 => 0,
        None => descs.iter().take(space).position(end).map_or(0, |last| last + 1),
    }
}

impl<C: Consumer> Receiver<C> {
    /// A receiver that takes from `ring`.
    pub(super) fn new(ring: C, config: &Config) -> Receiver<C> {
        let (fetch, checker) = (Tuning::default().within(config).payload(), Checker::new(config));
        let stages = [const { Stage::EMPTY }; 2];
        let areas = config.has_areas();
        Receiver { ring, fetch, stages, current: 0, empty_polls: 0, taken: 0, checker, areas }
    }

    /// Applies a tuning that fits the region.
    pub(super) fn set_tuning(&mut self, tuning: Tuning) {
        self.fetch = tuning.payload();
    }

    /// Adds whole packets, at most `max` buffers or one packet, to `to`; returns the number of buffers.
    #[inline(always)]
    pub(super) fn burst<M: SharedMemory>(
        &mut self,
        mem: &M,
        pool: &mut Allocator,
        to: &mut Burst,
        max: usize,
    ) -> usize {
        let handed = self.serve(
            mem,
            pool,
            max,
            #[inline(always)]
            |stage, pool| stage.hand_out(mem, pool, to, max),
        );
        match handed {
            Some(Some(n)) => n,
            Some(None) => {
                self.make_way(mem, pool);
                0
            }
            None => 0,
        }
    }

    /// The first packet is inline and waits for a buffer. Drops it if buffers of the pool stand behind it, since those may be the ones
    /// that it waits for; otherwise it waits until the program frees one.
    ///
    /// So a queue always makes progress, whoever has the other buffers. Usually the spare buffer spares it this. But the spare has been
    /// given to the program with an earlier packet and may be freed by another queue pair or pool handle, and a queue pair that is opened
    /// while the pool is dry has none.
    #[cold]
    #[inline(never)]
    fn make_way<M: SharedMemory>(&mut self, mem: &M, pool: &mut Allocator) {
        let mut behind = self.stages.iter().flat_map(Stage::rest).any(|desc| !desc.inline());
        self.ring.peek(mem, |desc| behind |= !desc.inline());
        if behind && let Some(stage) = self.stages.get_mut(self.current) {
            stage.drop_first(mem, pool);
            self.checker.no_buffer += 1;
        }
    }

    /// Lends packets of one segment and at most `longest` bytes (of a small buffer's length at least), at most `max` of them, to `read`
    /// and frees their buffers; returns their number. `None` when the next packet is another one.
    #[inline(always)]
    pub(super) fn lend<M: SharedMemory>(
        &mut self,
        mem: &M,
        pool: &mut Allocator,
        (max, longest): (usize, u32),
        read: impl FnMut(usize, &[u8], u64),
    ) -> Option<usize> {
        // The lines of the packets behind them arrive while these are read.
        let read = self.serve(
            mem,
            pool,
            max + AHEAD,
            #[inline(always)]
            |stage, pool| stage.lend(mem, pool, (max, longest), read),
        );
        read.unwrap_or(Some(0))
    }

    #[inline(always)]
    fn has_areas(&self) -> bool {
        C::AREAS && self.areas
    }

    /// False when there is nothing to receive: a cheap look, which counts as an empty poll.
    #[inline(always)]
    pub(super) fn poll<M: SharedMemory>(&mut self, mem: &M) -> bool {
        let [first, second] = &self.stages;
        let waits = !first.is_empty() || !second.is_empty() || self.ring.poll(mem);
        self.empty_polls = self.empty_polls.saturating_add(u32::from(!waits));
        waits
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
        let areas = self.has_areas();
        let [first, second] = &mut self.stages;
        let (mut current, mut next) = if self.current == 0 { (first, second) } else { (second, first) };
        if current.is_empty() {
            self.current ^= 1;
            core::mem::swap(&mut current, &mut next);
            if current.is_empty() {
                if areas {
                    self.ring.release(mem); // also what was dropped as a whole
                }
                let n = take(&mut self.ring, mem, pool, current, &mut self.checker, areas);
                self.taken += n;
                if n == 0 {
                    self.empty_polls = self.empty_polls.saturating_add(1);
                    return None;
                }
            }
        }
        let more = current.kind != Kind::Mixed && current.len == STAGE;
        current.prefetch(mem, current.next.saturating_add(ahead), self.fetch);
        next.prefetch(mem, next.prefetched + AHEAD, self.fetch);
        let taken = take_out(current, pool);
        if areas && current.is_empty() {
            self.ring.release_to(mem, current.end);
        }
        if more && next.is_empty() {
            self.taken += take(&mut self.ring, mem, pool, next, &mut self.checker, areas);
        }
        Some(taken)
    }

    /// When every packet that was taken has been given to the program: takes what is ready and requests its lines, for the next call. They
    /// arrive while the program sends.
    #[inline(always)]
    pub(super) fn take_ahead<M: SharedMemory>(&mut self, mem: &M, pool: &mut Allocator) {
        let areas = self.has_areas();
        let [first, second] = &mut self.stages;
        let (current, next) = if self.current == 0 { (first, second) } else { (second, first) };
        if !current.is_empty() || !next.is_empty() {
            return self.prefetch(mem);
        }
        if areas {
            self.ring.release(mem);
        }
        self.taken += take(&mut self.ring, mem, pool, current, &mut self.checker, areas);
        current.prefetch(mem, STAGE, self.fetch);
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
            pool.free_many(mem, stage.rest());
            *stage = Stage::EMPTY;
        }
        self.ring.release(mem);
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

    /// What was dropped.
    pub(super) fn checker(&self) -> &Checker {
        &self.checker
    }

    pub(super) fn ring(&self) -> &C {
        &self.ring
    }

    /// After the NIC died. See [`Consumer::repair`].
    pub(super) fn repair<M: SharedMemory>(
        &mut self,
        mem: &M,
        layout: &RingLayout,
        posted: u64,
        keep: impl FnOnce(&[Desc]) -> bool,
    ) {
        self.ring.repair(mem, layout, posted, keep);
    }
}

/// Takes what is ready from the ring into an empty stage and keeps the valid packets; returns how many
/// descriptors were taken.
#[inline(always)]
fn take<C: Consumer, M: SharedMemory>(
    ring: &mut C,
    mem: &M,
    pool: &mut Allocator,
    stage: &mut Stage,
    checker: &mut Checker,
    areas: bool,
) -> usize {
    let mut discarded = 0;
    let n = ring.pop_or_discard(mem, &mut stage.descs, |desc| {
        discarded += 1;
        take_back(mem, pool, desc);
    });
    (stage.next, stage.prefetched, stage.len) = (0, 0, n);
    stage.end = ring.position();
    if n == 0 {
        return discarded;
    }
    if !areas {
        ring.release(mem);
    }
    if n == STAGE {
        ring.prefetch(mem, n); // a full burst: the next is probably published already
    }
    let descs = stage.rest();
    (stage.kind, stage.most) = if ring.all_inline() && checker.all_inline(descs) {
        (Kind::Inline, if ring.all_short() { SMALL_BUF } else { AREA })
    } else if let Some(class) = checker.alike(pool, descs) {
        pool.received_alike(class, descs);
        (Kind::Buffers(class), class.size())
    } else {
        if checker.all_valid(pool, descs) {
            pool.received_many(descs);
        } else {
            stage.len = checker.sift(mem, pool, stage.descs.get_mut(..n).unwrap_or_default());
        }
        (Kind::Mixed, u32::MAX)
    };
    n + discarded
}

#[cfg(test)]
mod tests;
