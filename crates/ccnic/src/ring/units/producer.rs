//! The writing end of a ring whose signals lie in the descriptors' lines.

extern crate alloc;

use alloc::vec::Vec;

use core::marker::PhantomData;

use crate::desc::{DESC, Desc, SIGNAL_SHIFT, Slot};
use crate::layout::RingLayout;
use crate::memory::{LINE, SharedMemory, lines};
use crate::ring::signal::{COUNT, Signal};
use crate::ring::{Producer, Slots, has_chains, sane, whole};

use super::{MOST, clear, decode, encode, is_ready};

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
    signal: PhantomData<S>,
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
            descs.extend((skip..count).map(|i| Desc::from_words(mem.load(words(i)), mem.load(words(i) + 8))));
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
            signal: PhantomData,
        }
    }

    #[inline(always)]
    fn room<M: SharedMemory>(&mut self, mem: &M, want: usize) -> usize {
        let units = self.reserve(mem, want.div_ceil(PER) as u64);
        want.min(units as usize * PER)
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
        let units = self.reserve(mem, descs.len().div_ceil(PER) as u64);
        let room = units as usize * PER;
        let plain = !has_chains(descs);
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
    fn demote<M: SharedMemory>(&self, mem: &M) {
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
        self.credit.saturating_sub(self.slots.count())
    }
}
