//! The reading end of a ring whose signals lie in the descriptors' lines.

extern crate alloc;

use alloc::vec::Vec;

use core::marker::PhantomData;

use crate::config::Config;
use crate::desc::{DESC, Desc, FLAG_INLINE, SIGNAL_SHIFT, Sealed, Slot};
use crate::layout::{AREA, LARGE_BUF, RingLayout, SMALL_BUF};
use crate::memory::{LINE, SharedMemory};
use crate::ring::signal::Signal;
use crate::ring::{ChainGuard, Consumer, IDLE_POLLS, Slots};

use super::{MOST, clear, decode, encode, is_ready, lies_in};

/// The reading end of an [`UnitProducer`](super::UnitProducer).
#[derive(Debug)]
pub struct UnitConsumer<const UNIT: u32, const PER: usize, S> {
    slots: Slots,
    head: u32,
    taken: u32,
    /// The unit to read next, and the first descriptor of it that has not been taken.
    position: u64,
    within: u32,
    /// Where the last pop began.
    before: (u64, u32),
    /// Units before this have been handed back.
    handed: u64,
    /// Empty polls since the last pop that found something.
    empty_polls: u32,
    /// At least `IDLE_POLLS` empty polls preceded the last pop that found something.
    was_idle: bool,
    /// What the last pop found out about inline packets.
    inline: InlineCheck,
    guard: ChainGuard,
    signal: PhantomData<S>,
}

/// The most partial groups that a busy consumer takes in one pop: each costs a line transfer, while a burst
/// of few packets costs a call.
const PARTIAL: u32 = 4;

// A NIC takes the posted buffers of a packet in one pop (`nic/fill.rs`), and a host may post them one by one. With fewer it would wait for
// ever for a long packet's.
const _: () = assert!(PARTIAL >= (Config::MAX_MTU as u32).div_ceil(LARGE_BUF));

/// Reads the descriptors of a unit from index `within` on; `first` is its first word, already loaded.
#[inline(always)]
fn read_group<M: SharedMemory, D: Slot>(mem: &M, at: u32, first: u64, within: u32, out: &mut [D]) {
    let mut words = [[first, 0]; MOST];
    // The first word of the unit has been loaded.
    let skip = if within == 0 { 1 } else { 0 };
    if let Some(words) = words.as_flattened_mut().get_mut(skip..2 * out.len()) {
        mem.load_many(at + within * DESC + 8 * skip as u32, words);
    }
    for (slot, [word, meta]) in out.iter_mut().zip(words) {
        slot.set(Desc::from_words(word, meta), Sealed(()));
    }
}

/// Finds out whether descriptors are whole inline packets, each inside the area of its own unit.
#[derive(Debug, Clone, Copy, Default)]
struct InlineCheck {
    /// Negative once one was not.
    beyond: i64,
    /// Negative once one was longer than a small buffer.
    long: i64,
}

impl InlineCheck {
    /// The descriptors of a unit whose area is at `area`. A few instructions each, without branches, so that the compiler can check a
    /// full unit at once.
    #[inline(always)]
    fn unit<D: Slot>(&mut self, area: u32, group: &[D]) {
        const ONE_BYTE: i64 = (FLAG_INLINE as i64) << 16 | 1;
        for desc in group {
            let word = desc.desc().word();
            // Length and flags in one comparison. What is left is the index of the last byte if INLINE is the only flag and there are
            // data; otherwise it is negative, or beyond any area.
            let last = (word >> 32).cast_signed() - ONE_BYTE;
            let first = i64::from((word as u32).wrapping_sub(area));
            self.beyond |= last | (i64::from(AREA) - 1 - first - last);
            self.long |= i64::from(SMALL_BUF) - 1 - last;
        }
    }

    #[inline(always)]
    fn all(&self) -> bool {
        self.beyond >= 0
    }
}

/// Takes the data from inline descriptors that do not lie in their unit's area. Such a descriptor is then refused like every other one
/// without data.
#[cold]
#[inline(never)]
fn void<D: Slot>(area: u32, group: &mut [D]) {
    for slot in group {
        let desc = slot.desc();
        if desc.inline() && !lies_in(area, desc) {
            slot.set(Desc::default().with_meta(desc.meta).with_more(desc.more()), Sealed(()));
        }
    }
}

impl<const UNIT: u32, const PER: usize, S: Signal> UnitConsumer<UNIT, PER, S> {
    #[inline(always)]
    fn has_areas(&self) -> bool {
        S::AREAS && self.slots.has_areas()
    }

    /// Checks the inline descriptors of the unit at `position`; see [`Consumer::all_inline`].
    #[inline(always)]
    fn check<D: Slot>(&self, position: u64, group: &mut [D], inline: &mut InlineCheck) {
        if !self.has_areas() {
            return;
        }
        if !group.iter().fold(false, |any, d| any | d.desc().inline()) {
            inline.beyond = -1;
            return;
        }
        let area = self.slots.area(position);
        inline.unit(area, group);
        if !inline.all() {
            void(area, group);
        }
    }

    /// True when a unit is not full, but the lines of its area are: longer packets follow in the next one.
    #[inline(always)]
    fn is_crowded<D: Slot>(&self, position: u64, group: &[D]) -> bool {
        let last = group.last().map(Slot::desc).filter(|desc| self.has_areas() && desc.inline());
        let used = |desc: Desc| desc.offset().wrapping_sub(self.slots.area(position)) + u32::from(desc.len());
        last.is_some_and(|desc| used(desc) > AREA / 2)
    }

    /// Copies ready descriptors from a position on; returns their number and the position after them.
    #[inline(always)]
    fn copy_ready<M: SharedMemory, D: Slot>(
        &self,
        mem: &M,
        out: &mut [D],
        from: (u64, u32),
        stop_at_partial: bool,
    ) -> (usize, (u64, u32)) {
        self.copy_checked(mem, out, from, stop_at_partial, &mut InlineCheck::default())
    }

    /// As `copy_ready`, and finds out whether all of them are inline.
    #[inline(always)]
    fn copy_checked<M: SharedMemory, D: Slot>(
        &self,
        mem: &M,
        out: &mut [D],
        from: (u64, u32),
        stop_at_partial: bool,
        inline: &mut InlineCheck,
    ) -> (usize, (u64, u32)) {
        let (mut position, mut within) = from;
        let (mut n, mut partial) = (0, 0);
        let end = self.handed + self.slots.count();
        while n < out.len() && (!S::STAYS || position < end) {
            let at = self.slots.at(position, UNIT);
            let word = mem.load_acquire(at); // A2
            let count = S::ready_count((word >> SIGNAL_SHIFT) as u8, self.slots.lap(position)) as usize;
            let rest = out.get_mut(n..).unwrap_or_default();
            if let ([group, ..], 0) = (rest.as_chunks_mut::<PER>().0, within)
                && count >= PER
            {
                read_group(mem, at, word, 0, group); // a full group: the loop unrolls
                self.check(position, group, inline);
                n += PER;
                position += 1;
                // In the padded design each line is treated as a partial group, see below.
                if stop_at_partial && UNIT == LINE && PER == 1 {
                    break;
                }
                continue;
            }
            let count = count.min(PER);
            if count == 0 {
                break;
            }
            let ready = count.saturating_sub(within as usize).min(rest.len());
            let group = rest.get_mut(..ready).unwrap_or_default();
            match (&mut *group, within) {
                ([one], 0) => read_group(mem, at, word, 0, core::slice::from_mut(one)), // without a loop
                (group, _) => read_group(mem, at, word, within, group),
            }
            self.check(position, group, inline);
            let crowded = self.is_crowded(position, group);
            n += ready;
            within += ready as u32;
            if within as usize >= count {
                (position, within) = (position + 1, 0);
            }
            // After a partial group whose area has room the producer had nothing more to publish. An idle consumer stops here:
            // reading the next line would take it from the producer, which is about to write it. A busy one
            // goes on for a few groups.
            partial += u32::from(!crowded);
            if (stop_at_partial || partial == PARTIAL) && PER > 1 {
                break;
            }
        }
        (n, (position, within))
    }

    /// The path of a lone packet: copies the one descriptor of the next unit, of which none has been taken. False when the unit holds
    /// none, or several. Straight code: whoever waited for the packet waits for this, too.
    #[inline(always)]
    fn copy_lone<M: SharedMemory, D: Slot>(&self, mem: &M, out: &mut [D], inline: &mut InlineCheck) -> bool {
        let Some(slot) = out.first_mut() else { return false };
        if S::STAYS && self.position == self.handed + self.slots.count() {
            return false;
        }
        let at = self.slots.at(self.position, UNIT);
        let word = mem.load_acquire(at); // A2
        if S::ready_count((word >> SIGNAL_SHIFT) as u8, self.slots.lap(self.position)) != 1 {
            return false;
        }
        slot.set(Desc::from_words(word, mem.load(at + DESC / 2)), Sealed(()));
        self.check(self.position, core::slice::from_mut(slot), inline);
        true
    }

    #[inline(always)]
    fn move_to<M: SharedMemory>(&mut self, mem: &M, to: (u64, u32)) {
        (self.position, self.within) = to;
        mem.store(self.taken, encode(to.0, to.1));
    }

    /// Of the `n` descriptors up to `to`, which end inside a chain or begin inside a dropped one: how many to
    /// deliver, and the position after those that are taken.
    #[cold]
    #[inline(never)]
    fn take_chains<M: SharedMemory, D: Slot>(
        &mut self,
        mem: &M,
        out: &mut [D],
        (mut n, mut to): (usize, (u64, u32)),
        discard: impl FnMut(Desc),
    ) -> (usize, (u64, u32)) {
        // An honest producer fills its groups. One that does not must still not stop the ring with a chain in
        // more partial groups than one pop takes.
        while out.get(n - 1).is_some_and(|d| d.desc().more()) {
            let (more, next) = self.copy_ready(mem, out.get_mut(n..).unwrap_or_default(), to, false);
            if more == 0 {
                break;
            }
            (n, to) = (n + more, next);
        }
        let (kept, consumed) = self.guard.cut(out.get_mut(..n).unwrap_or_default(), discard);
        if consumed < n {
            to = self.advance(mem, (self.position, self.within), consumed);
        }
        if kept == 0 {
            // The caller, which gets nothing, has nothing to release; except with areas, where it may still be reading what it got
            // before.
            self.move_to(mem, to);
            if !self.has_areas() {
                self.release(mem);
            }
        }
        (kept, to)
    }

    /// The position `descs` descriptors after `from`, of those that are ready: walks the counts again.
    #[cold]
    #[inline(never)]
    fn advance<M: SharedMemory>(&self, mem: &M, from: (u64, u32), descs: usize) -> (u64, u32) {
        let (mut position, mut within) = from;
        let (mut left, end) = (descs as u32, self.handed + self.slots.count());
        while left > 0 && (!S::STAYS || position < end) {
            let word = mem.load_acquire(self.slots.at(position, UNIT)); // A2
            let count = S::ready_count((word >> SIGNAL_SHIFT) as u8, self.slots.lap(position));
            let count = u32::from(count).min(PER as u32);
            if count <= within {
                break; // a hostile producer has taken it back
            }
            let step = left.min(count - within);
            (left, within) = (left - step, within + step);
            if within == count {
                (position, within) = (position + 1, 0);
            }
        }
        (position, within)
    }
}

impl<const UNIT: u32, const PER: usize, S: Signal> Consumer for UnitConsumer<UNIT, PER, S> {
    const AREAS: bool = S::AREAS;

    fn resume<M: SharedMemory>(mem: &M, layout: &RingLayout) -> Self {
        let this = Self::look(mem, layout);
        S::recover(mem, layout, UNIT, this.position);
        this
    }

    fn look<M: SharedMemory>(mem: &M, layout: &RingLayout) -> Self {
        let (position, within) = decode(mem.load_acquire(layout.taken));
        UnitConsumer {
            slots: Slots::new(layout),
            head: layout.head,
            taken: layout.taken,
            position,
            within,
            before: (position, within),
            handed: position,
            empty_polls: 0,
            was_idle: false,
            inline: InlineCheck::default(),
            guard: ChainGuard::default(),
            signal: PhantomData,
        }
    }

    #[inline(always)]
    fn pop_or_discard<M: SharedMemory, D: Slot>(
        &mut self,
        mem: &M,
        out: &mut [D],
        discard: impl FnMut(Desc),
    ) -> usize {
        let from = (self.position, self.within);
        let mut inline = InlineCheck::default();
        let idle = self.empty_polls >= IDLE_POLLS;
        // Of packed descriptors, several of which lie in a line, an idle consumer takes all that are ready.
        let lone = idle && self.within == 0 && (PER > 1 || UNIT == LINE);
        let (mut n, mut to) = if lone && self.copy_lone(mem, out, &mut inline) {
            (1, (self.position + 1, 0))
        } else {
            self.copy_checked(mem, out, from, idle, &mut inline)
        };
        if n == 0 {
            self.empty_polls = self.empty_polls.saturating_add(1);
            return 0;
        }
        self.was_idle = self.empty_polls >= IDLE_POLLS;
        self.empty_polls = 0;
        self.inline = inline;
        if self.guard.discarding || out.get(n - 1).is_some_and(|d| d.desc().more()) {
            (n, to) = self.take_chains(mem, out, (n, to), discard);
        }
        self.before = from;
        self.move_to(mem, to);
        n
    }

    #[inline(always)]
    fn poll<M: SharedMemory>(&mut self, mem: &M) -> bool {
        if !self.has_areas() {
            return true;
        }
        let word = mem.load_acquire(self.slots.at(self.position, UNIT)); // A2
        let ready = S::ready_count((word >> SIGNAL_SHIFT) as u8, self.slots.lap(self.position)) > 0;
        self.empty_polls = self.empty_polls.saturating_add(u32::from(!ready));
        if !ready && self.empty_polls >= IDLE_POLLS {
            // The first line of the payload comes while the signal does, not after it.
            mem.prefetch_read(self.slots.area(self.position));
        }
        ready
    }

    fn keep<M: SharedMemory>(&mut self, mem: &M, n: usize) {
        let to = self.advance(mem, self.before, n);
        self.move_to(mem, to);
    }

    #[inline(always)]
    fn prefetch<M: SharedMemory>(&self, mem: &M, descs: usize) {
        let per_line = u64::from(LINE / UNIT);
        // Long inline packets fill units of fewer descriptors: as many units as last time.
        let units = if self.has_areas() { self.position - self.before.0 } else { descs.div_ceil(PER) as u64 };
        for i in 0..units.div_ceil(per_line) {
            mem.prefetch_read(self.slots.at(self.position + i * per_line, UNIT));
        }
    }

    #[inline(always)]
    fn release_to<M: SharedMemory>(&mut self, mem: &M, position: u64) {
        self.handed = S::hand_back(mem, &self.slots, self.head, UNIT, self.handed, position);
    }

    fn release_now<M: SharedMemory>(&mut self, mem: &M, position: u64) {
        if position != self.handed {
            self.handed = S::hand_back_now(mem, &self.slots, self.head, UNIT, self.handed, position);
        }
    }

    #[inline(always)]
    fn all_inline(&self) -> bool {
        self.has_areas() && self.inline.all()
    }

    #[inline(always)]
    fn all_short(&self) -> bool {
        self.inline.long >= 0
    }

    #[inline(always)]
    fn was_idle(&self) -> bool {
        self.was_idle
    }

    fn position(&self) -> u64 {
        self.position
    }

    fn awaited(&self) -> u32 {
        self.slots.at(self.position, UNIT)
    }

    fn ready<M: SharedMemory>(&self, mem: &M) -> bool {
        let mut first = [Desc::default(); 1];
        self.copy_ready(mem, &mut first, (self.position, self.within), true).0 > 0
    }

    fn repair<M: SharedMemory>(
        &mut self,
        mem: &M,
        layout: &RingLayout,
        _: u64,
        keep: impl FnOnce(&[Desc]) -> bool,
    ) {
        // With areas, packets that were taken may still lie in units that have not been handed back.
        if !self.has_areas() {
            self.handed = self.position;
        }
        let (mut descs, mut end) = (Vec::new(), (self.position, self.within));
        let mut out = [Desc::default(); PER];
        while end.0 < self.position + self.slots.count() && is_ready::<S, M>(mem, &self.slots, UNIT, end.0) {
            let (n, next) = self.copy_ready(mem, &mut out, end, true);
            descs.extend(out.iter().take(n));
            if n == 0 || next.0 == end.0 {
                break;
            }
            end = next;
        }
        let ends = |descs: &[Desc]| descs.last().is_none_or(|desc| !desc.more());
        // Half of a unit has been taken: the other half is there too, unless the ring is damaged.
        let whole = end.1 == 0 && !self.guard.discarding && ends(&descs);
        if !whole || !keep(&descs) {
            self.guard.discarding = false;
            end = (self.position + u64::from(self.within > 0), 0);
            (self.position, self.within) = (end.0, 0);
            if !self.has_areas() {
                self.handed = end.0;
            }
        }
        clear(mem, &self.slots, UNIT, end.0..self.position + self.slots.count());
        mem.store(layout.tail, end.0);
        mem.store(layout.taken, encode(self.position, self.within));
        mem.store_release(layout.head, self.handed); // C1
    }

    fn discarded(&self) -> u64 {
        self.guard.discarded
    }

    fn peek<M: SharedMemory>(&self, mem: &M, mut see: impl FnMut(Desc)) {
        let mut at = (self.position, self.within);
        let mut out = [Desc::default(); PER];
        let end = self.position + self.slots.count();
        while at.0 < end {
            let (n, next) = self.copy_ready(mem, &mut out, at, true);
            out.iter().take(n).copied().for_each(&mut see);
            if n == 0 {
                break;
            }
            at = next;
        }
    }
}
