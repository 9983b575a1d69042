//! The writing end of a ring whose signals lie in the descriptors' lines.

extern crate alloc;

use alloc::vec::Vec;

use core::marker::PhantomData;

use crate::desc::{DESC, Desc, FLAG_INLINE, SIGNAL_SHIFT, Slot};
use crate::layout::{AREA_LINES, RingLayout};
use crate::memory::{LINE, SharedMemory, lines};
use crate::ring::signal::{COUNT, Signal};
use crate::ring::{Producer, Slots, has_chains, sane, whole};

use super::{MOST, clear, decode, encode, is_ready, lies_in};

/// The writing end: units of `UNIT` bytes with up to `PER` descriptors.
#[derive(Debug)]
pub struct UnitProducer<const UNIT: u32, const PER: usize, S> {
    slots: Slots,
    head: u32,
    tail: u32,
    /// Next unit to write.
    position: u64,
    /// Units before this are free. May be stale: the consumer has handed back at least these.
    credit: u64,
    /// Units of the last push.
    last: u32,
    /// With areas: the unit at `position`, as far as it has been filled.
    open: Open,
    /// With areas: demote the lines of units and areas when they are published.
    demote: bool,
    /// With areas: request the lines of the unit so many positions further when one is published; 0: none.
    ahead: u64,
    signal: PhantomData<S>,
}

/// A unit that is being filled. All of it stands in the ring but the word with its signal.
#[derive(Debug, Default)]
struct Open {
    /// The unit's first word, without the signal.
    first: u64,
    /// Descriptors in it.
    count: u32,
    /// Lines of its area that are used.
    lines: u32,
}

impl<const UNIT: u32, const PER: usize, S: Signal> UnitProducer<UNIT, PER, S> {
    /// How many units are free, at least `units` if possible. Reads the consumer's lines only when the credit
    /// is too small.
    #[inline(always)]
    fn reserve<M: SharedMemory>(&mut self, mem: &M, units: u64) -> u64 {
        let want = self.position + units.min(self.slots.count());
        if self.credit < want {
            let most = self.position + self.slots.count();
            self.credit = S::credit(mem, &self.slots, self.head, UNIT, self.credit, want, most);
        }
        self.credit - self.position
    }

    /// How many of `n` packets of one descriptor there is room for, the rest of the open unit included.
    #[inline(always)]
    fn room_of_one<M: SharedMemory>(&mut self, mem: &M, n: usize) -> usize {
        let open = self.open.count as usize;
        let units = self.reserve(mem, (open + n).div_ceil(PER) as u64);
        n.min((units as usize * PER).saturating_sub(open))
    }

    /// Adds a descriptor to the open unit, for which there is room, and publishes it when it is full.
    #[inline(always)]
    fn append_desc<M: SharedMemory>(&mut self, mem: &M, desc: Desc, lines: u32) {
        let at = self.slots.at(self.position, UNIT) + self.open.count * DESC;
        if self.open.count == 0 {
            self.open.first = desc.word();
        } else {
            mem.store(at, desc.word());
        }
        mem.store(at + 8, desc.meta);
        self.open.count += 1;
        self.open.lines += lines;
        if self.open.count as usize >= PER {
            self.publish_open(mem);
        }
    }

    /// Adds packet `i`, which `put` writes to the next line of the open unit's area.
    #[inline(always)]
    fn append_line<M: SharedMemory>(
        &mut self,
        mem: &M,
        i: usize,
        put: &mut impl FnMut(usize, u32) -> (u16, u64),
    ) {
        let at = self.slots.area(self.position) + self.open.lines * LINE;
        let (len, meta) = put(i, at);
        self.append_desc(mem, Desc::new(at, len, FLAG_INLINE).with_meta(meta), 1);
    }

    /// Publishes the open unit, which is not empty.
    #[inline(always)]
    fn publish_open<M: SharedMemory>(&mut self, mem: &M) {
        let Open { first, count, lines } = core::mem::take(&mut self.open);
        self.publish_unit(mem, self.position, first, count, lines);
        self.position += 1;
    }

    /// Publishes a unit with areas, of which `first` is the first word.
    #[inline(always)]
    fn publish_unit<M: SharedMemory>(&self, mem: &M, position: u64, first: u64, count: u32, lines: u32) {
        let at = self.slots.at(position, UNIT);
        if self.demote {
            demote_lines(mem, self.slots.area(position), lines);
        }
        let signal = u64::from(S::encode(count as u8, self.slots.lap(position))) << SIGNAL_SHIFT;
        mem.store_release(at, first | signal); // A1
        if self.demote {
            demote_lines(mem, at, 1);
        }
        let next = position + self.ahead;
        if self.ahead > 0 && next < self.credit {
            mem.prefetch_own(self.slots.at(next, UNIT));
            let area = self.slots.area(next);
            (0..lines).for_each(|line| mem.prefetch_overwrite(area + line * LINE));
        }
    }

    /// Adds packets of one segment, in buffers of the pool, to a ring with areas.
    #[cold]
    #[inline(never)]
    fn append_all<M: SharedMemory, D: Slot>(&mut self, mem: &M, descs: &[D]) {
        descs.iter().for_each(|desc| self.append_desc(mem, desc.desc(), 0));
    }

    /// Writes all of a unit but the word that holds its signal.
    #[inline(always)]
    fn write_body<M: SharedMemory, D: Slot>(&self, mem: &M, at: u32, group: &[D]) {
        let mut words = [[0; 2]; MOST];
        for (pair, desc) in words.iter_mut().zip(group) {
            *pair = [desc.desc().word(), desc.desc().meta];
        }
        mem.store_many(at + 8, words.as_flattened().get(1..2 * group.len()).unwrap_or_default());
    }

    #[inline(always)]
    fn publish<M: SharedMemory, D: Slot>(&self, mem: &M, position: u64, group: &[D]) {
        let Some(first) = group.first() else { return };
        let signal = u64::from(S::encode(group.len() as u8, self.slots.lap(position))) << SIGNAL_SHIFT;
        mem.store_release(self.slots.at(position, UNIT), first.desc().word() | signal); // A1
    }

    /// The descriptors between a consumer's position and this one, if they all stand in the ring as this
    /// side published them.
    fn waiting<M: SharedMemory>(&self, mem: &M, (from, within): (u64, u32)) -> Option<Vec<Desc>> {
        if from > self.position || self.position - from > self.slots.count() {
            return None;
        }
        let (mut descs, mut skip) = (Vec::new(), within as usize);
        for position in from..self.position {
            let at = self.slots.at(position, UNIT);
            let signal = (mem.load_acquire(at) >> SIGNAL_SHIFT) as u8; // A2
            let (lap, count) = (self.slots.lap(position), (signal & COUNT) as usize);
            if !S::is_of(signal, lap) || count > PER || skip >= count {
                return None;
            }
            let words = |i: usize| at + i as u32 * DESC;
            for i in skip..count {
                let desc = Desc::from_words(mem.load(words(i)), mem.load(words(i) + 8));
                if desc.inline() && !(self.has_areas() && lies_in(self.slots.area(position), desc)) {
                    return None;
                }
                descs.push(desc);
            }
            skip = 0;
        }
        (skip == 0).then_some(descs)
    }

    /// Publishes packets of one segment in free units. Full groups first, so that their loops unroll.
    #[inline(always)]
    fn push_plain<M: SharedMemory, D: Slot>(&mut self, mem: &M, descs: &[D]) {
        let mut position = self.position;
        let (groups, rest) = descs.as_chunks::<PER>();
        for group in groups {
            self.write_body(mem, self.slots.at(position, UNIT), group);
            self.publish(mem, position, group);
            position += 1;
        }
        if !rest.is_empty() {
            self.write_body(mem, self.slots.at(position, UNIT), rest);
            self.publish(mem, position, rest);
        }
    }

    /// Publishes packets of any number of segments in free units: a packet that spans units is published from
    /// its last unit back to its first.
    #[cold]
    #[inline(never)]
    fn push_chains<M: SharedMemory, D: Slot>(&mut self, mem: &M, descs: &[D]) {
        let mut from = 0;
        for (i, group) in descs.chunks(PER).enumerate() {
            self.write_body(mem, self.slots.at(self.position + i as u64, UNIT), group);
            if group.last().is_some_and(|d| d.desc().more()) {
                continue;
            }
            let end = i * PER + group.len();
            let span = descs.get(from..end).unwrap_or_default();
            for (j, group) in span.chunks(PER).enumerate().rev() {
                self.publish(mem, self.position + (from / PER + j) as u64, group);
            }
            from = end;
        }
    }
}

/// Demotes `n` lines.
#[cold]
#[inline(never)]
fn demote_lines<M: SharedMemory>(mem: &M, at: u32, n: u32) {
    (0..n).for_each(|line| mem.demote(at + line * LINE));
}

impl<const UNIT: u32, const PER: usize, S: Signal> Producer for UnitProducer<UNIT, PER, S> {
    const PER_UNIT: usize = PER;

    fn resume<M: SharedMemory>(mem: &M, layout: &RingLayout) -> Self {
        let slots = Slots::new(layout);
        // A predecessor may have died between publishing units and storing its tail line, and the consumer
        // may have taken (and cleared) them since. Every published unit counts.
        let taken = decode(mem.load_acquire(layout.taken)).0;
        let mut position = sane(mem.load_acquire(layout.tail)).max(taken);
        let end = taken + slots.count();
        while position < end && is_ready::<S, M>(mem, &slots, UNIT, position) {
            position += 1;
        }
        // It may also have died while publishing a chain, whose last units are published first: clear them.
        for left in position + 1..end {
            if is_ready::<S, M>(mem, &slots, UNIT, left) {
                mem.store_release(slots.at(left, UNIT), 0); // A1
            }
        }
        mem.store(layout.tail, position);
        UnitProducer {
            slots,
            head: layout.head,
            tail: layout.tail,
            position,
            credit: position,
            last: 0,
            open: Open::default(),
            demote: false,
            ahead: 0,
            signal: PhantomData,
        }
    }

    #[inline(always)]
    fn room<M: SharedMemory>(&mut self, mem: &M, want: usize) -> usize {
        // Not in the open unit: a chain begins with a unit of its own.
        let open = u64::from(self.open.count > 0);
        let units = self.reserve(mem, open + want.div_ceil(PER) as u64);
        want.min(units.saturating_sub(open) as usize * PER)
    }

    #[inline(always)]
    fn prefetch<M: SharedMemory>(&self, mem: &M, descs: usize) {
        let (per_line, per_full_line) = (u64::from(LINE / UNIT), (LINE / DESC) as usize);
        let at = |line| self.slots.at(self.position + line * per_line, UNIT);
        let lines = descs.div_ceil(PER).div_ceil(per_line as usize) as u64;
        // Every byte of a full group's line is written.
        let fills = PER as u64 * per_line == per_full_line as u64;
        let whole = if fills { (descs / per_full_line) as u64 } else { 0 };
        (0..whole).for_each(|line| mem.prefetch_overwrite(at(line)));
        (whole..lines).for_each(|line| mem.prefetch_own(at(line)));
    }

    #[inline(always)]
    fn push<M: SharedMemory, D: Slot>(&mut self, mem: &M, descs: &[D]) -> usize {
        let n = self.append(mem, descs, !has_chains(descs));
        self.close(mem);
        n
    }

    #[inline(always)]
    fn append<M: SharedMemory, D: Slot>(&mut self, mem: &M, descs: &[D], plain: bool) -> usize {
        if self.has_areas() {
            if !plain {
                self.close(mem);
            } else if self.open.count > 0 || !descs.len().is_multiple_of(PER) {
                let n = self.room_of_one(mem, descs.len());
                self.append_all(mem, descs.get(..n).unwrap_or_default());
                return n;
            }
        }
        let units = self.reserve(mem, descs.len().div_ceil(PER) as u64);
        let room = units as usize * PER;
        let n = if plain { descs.len().min(room) } else { whole(descs, room) };
        let Some(descs) = descs.get(..n) else { return 0 };
        if plain {
            self.push_plain(mem, descs);
        } else {
            self.push_chains(mem, descs);
        }
        let wrote = n.div_ceil(PER) as u64;
        self.position += wrote;
        self.last = wrote as u32;
        mem.store(self.tail, self.position);
        n
    }

    #[inline(always)]
    fn has_areas(&self) -> bool {
        S::AREAS && self.slots.has_areas()
    }

    #[inline(always)]
    fn push_lines<M: SharedMemory>(
        &mut self,
        mem: &M,
        n: usize,
        mut put: impl FnMut(usize, u32) -> (u16, u64),
    ) -> usize {
        if !self.has_areas() {
            return 0;
        }
        // So that the rest of the open unit has a line for each packet.
        if self.open.lines + PER as u32 > AREA_LINES + self.open.count {
            self.publish_open(mem);
        }
        let n = self.room_of_one(mem, n);
        let mut done = 0;
        while done < n && self.open.count > 0 {
            self.append_line(mem, done, &mut put);
            done += 1;
        }
        while n - done >= PER {
            let area = self.slots.area(self.position);
            let mut words = [[0; 2]; MOST];
            for (i, pair) in words.iter_mut().take(PER).enumerate() {
                let at = area + i as u32 * LINE;
                let (len, meta) = put(done + i, at);
                *pair = [Desc::new(at, len, FLAG_INLINE).word(), meta];
            }
            let body = words.as_flattened().get(1..2 * PER).unwrap_or_default();
            mem.store_many(self.slots.at(self.position, UNIT) + 8, body);
            self.publish_unit(mem, self.position, words[0][0], PER as u32, PER as u32);
            self.position += 1;
            done += PER;
        }
        for i in done..n {
            self.append_line(mem, i, &mut put);
        }
        n
    }

    #[inline(always)]
    fn line(&self, i: usize) -> u32 {
        debug_assert!(self.open.count == 0 || !self.has_areas());
        self.slots.area(self.position + (i / PER) as u64) + (i % PER) as u32 * LINE
    }

    #[inline(always)]
    fn place<M: SharedMemory>(&mut self, mem: &M, len: u32) -> Option<u32> {
        if !self.has_areas() {
            return None;
        }
        if self.open.count > 0 && self.open.lines + len.div_ceil(LINE) > AREA_LINES {
            self.publish_open(mem);
        }
        if self.open.count == 0 && self.reserve(mem, 1) == 0 {
            return None;
        }
        Some(self.slots.area(self.position) + self.open.lines * LINE)
    }

    #[inline(always)]
    fn add<M: SharedMemory>(&mut self, mem: &M, at: u32, len: u16, meta: u64) {
        self.append_desc(mem, Desc::new(at, len, FLAG_INLINE).with_meta(meta), u32::from(len).div_ceil(LINE));
    }

    #[inline(always)]
    fn close<M: SharedMemory>(&mut self, mem: &M) {
        if self.has_areas() {
            if self.open.count > 0 {
                self.publish_open(mem);
            }
            mem.store(self.tail, self.position);
        }
    }

    #[inline(always)]
    fn begin(&mut self, demote: bool, ahead: u8) {
        (self.demote, self.ahead) = (demote, ahead.into());
    }

    #[inline(always)]
    fn demote<M: SharedMemory>(&self, mem: &M) {
        if self.has_areas() {
            return; // done when they were published
        }
        let first = self.slots.at(self.position - u64::from(self.last), UNIT);
        for line in lines(first, self.last * UNIT) {
            mem.demote(line);
        }
    }

    fn repair<M: SharedMemory>(&mut self, mem: &M, layout: &RingLayout, keep: impl FnOnce(&[Desc]) -> bool) {
        let taken = decode(mem.load_acquire(layout.taken));
        let kept = self.waiting(mem, taken).is_some_and(|descs| keep(&descs));
        let (first, within) = if kept { taken } else { (self.position, 0) };
        clear(mem, &self.slots, UNIT, self.position..first + self.slots.count());
        mem.store(layout.tail, self.position);
        mem.store(layout.taken, encode(first, within));
        mem.store_release(layout.head, first); // C1
        self.credit = first + self.slots.count();
    }

    fn position(&self) -> u64 {
        self.position
    }

    #[inline(always)]
    fn completed<M: SharedMemory>(&mut self, mem: &M) -> u64 {
        let want = self.position + self.slots.count();
        self.credit = S::credit(mem, &self.slots, self.head, UNIT, self.credit, want, want);
        self.known_completed()
    }

    #[inline(always)]
    fn known_completed(&self) -> u64 {
        self.credit.saturating_sub(self.slots.count())
    }
}
