//! Rings whose signals lie in the descriptors' own lines: one transfer brings the news and the descriptors
//! (CC-NIC section 3.2, figure 6b).
//!
//! A *unit* is what one signal covers: a line of up to four descriptors (grouped), one descriptor (packed), or one
//! descriptor alone in its line (padded).

use core::marker::PhantomData;

use crate::config::Design;
use crate::desc::{DESC, Desc, SIGNAL_SHIFT, Sealed, Slot};
use crate::layout::RingLayout;
use crate::memory::{LINE, SharedMemory, lines};

use super::signal::{Clear, Epoch, Signal};
use super::{ChainGuard, Consumer, IDLE_POLLS, Producer, Ring, Slots, has_chains, sane, whole};

/// Up to four descriptors a line under an epoch signal: the default design.
#[derive(Debug)]
pub struct GroupedEpoch;
/// Up to four descriptors a line under a signal that the consumer clears: the paper's design.
#[derive(Debug)]
pub struct GroupedClear;
/// A signal for each packed descriptor (figure 14b, "pack").
#[derive(Debug)]
pub struct Packed;
/// One descriptor a line (figure 14b, "pad").
#[derive(Debug)]
pub struct Padded;

macro_rules! inline_ring {
    ($ring:ident, $signal:ident) => {
        impl Ring for $ring {
            const DESIGN: Design = Design::$ring;
            type Producer =
                InlineProducer<{ Design::$ring.unit() }, { Design::$ring.per_unit() as usize }, $signal>;
            type Consumer =
                InlineConsumer<{ Design::$ring.unit() }, { Design::$ring.per_unit() as usize }, $signal>;
        }
    };
}

inline_ring!(GroupedEpoch, Epoch);
inline_ring!(GroupedClear, Clear);
inline_ring!(Packed, Clear);
inline_ring!(Padded, Clear);

/// The most descriptors of a unit.
const MOST: usize = (LINE / DESC) as usize;

/// The writing end: units of `UNIT` bytes with up to `PER` descriptors.
#[derive(Debug)]
pub struct InlineProducer<const UNIT: u32, const PER: usize, S> {
    slots: Slots,
    head: u32,
    tail: u32,
    /// Next unit to write.
    position: u64,
    /// Units before this are free. May be stale: the consumer has freed these at least.
    credit: u64,
    /// Units of the last push.
    last: u32,
    signal: PhantomData<S>,
}

impl<const UNIT: u32, const PER: usize, S: Signal> InlineProducer<UNIT, PER, S> {
    /// Makes the units before `want` writable if it can; returns how many are.
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

    /// Packets of one segment, in units that are free. Full groups first: their loops unroll.
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

    /// Packets of any number of segments, in units that are free: a packet that spans units is published from its last
    /// unit back to its first.
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

impl<const UNIT: u32, const PER: usize, S: Signal> Producer for InlineProducer<UNIT, PER, S> {
    const PER_UNIT: usize = PER;

    fn resume<M: SharedMemory>(mem: &M, layout: &RingLayout) -> Self {
        let slots = Slots::new(layout);
        // A predecessor may have died between publishing units and saying so in its tail line; the consumer may
        // even have taken (and cleared) them. Whatever was published counts.
        let taken = decode(mem.load_acquire(layout.taken)).0;
        let mut position = sane(mem.load_acquire(layout.tail)).max(taken);
        let end = taken + slots.count();
        while position < end && is_ready::<S, M>(mem, &slots, UNIT, position) {
            position += 1;
        }
        // It may also have died inside a chain, whose last units are published first: they are no packet.
        for left in position + 1..end {
            if is_ready::<S, M>(mem, &slots, UNIT, left) {
                mem.store_release(slots.at(left, UNIT), 0); // A1
            }
        }
        mem.store(layout.tail, position);
        InlineProducer {
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
        // Of a full group every byte is written.
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

/// The reading end of an [`InlineProducer`].
#[derive(Debug)]
pub struct InlineConsumer<const UNIT: u32, const PER: usize, S> {
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
    /// Pops in vain since the last that found something.
    empty_polls: u32,
    /// There were many before the last one that did.
    was_idle: bool,
    guard: ChainGuard,
    signal: PhantomData<S>,
}

/// A position inside a unit, as the `taken` line holds it.
fn encode(position: u64, within: u32) -> u64 {
    position << 3 | u64::from(within & 7)
}

fn decode(word: u64) -> (u64, u32) {
    (sane(word >> 3), (word & 7) as u32)
}

/// Partial groups that a busy reader takes at once: each costs a line's way, and a burst of few packets the cost of a call.
const PARTIAL: u32 = 4;

#[inline(always)]
fn is_ready<S: Signal, M: SharedMemory>(mem: &M, slots: &Slots, unit: u32, position: u64) -> bool {
    let word = mem.load_acquire(slots.at(position, unit)); // A2
    S::is_of((word >> SIGNAL_SHIFT) as u8, slots.lap(position))
}

/// Reads the descriptors of a unit from place `within` on; `first` is its first word, already loaded.
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

impl<const UNIT: u32, const PER: usize, S: Signal> InlineConsumer<UNIT, PER, S> {
    /// Copies ready descriptors from a position on; returns their number and the position after them.
    #[inline(always)]
    fn copy_ready<M: SharedMemory, D: Slot>(
        &self,
        mem: &M,
        out: &mut [D],
        from: (u64, u32),
        stop_at_partial: bool,
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
                n += PER;
                position += 1;
                // A line that has room for one descriptor says nothing of the next: as a partial group, see below.
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
            read_group(mem, at, word, within, rest.get_mut(..ready).unwrap_or_default());
            n += ready;
            within += ready as u32;
            if within as usize >= count {
                (position, within) = (position + 1, 0);
            }
            // A partial group says that the producer had no more then. A reader that waits for it stops at the end of the
            // line: the next one would be fetched for nothing, and taken from the producer, who is about to write it. A busy
            // one goes on, but not for ever: what it has found waits while it looks.
            partial += 1;
            if (stop_at_partial || partial == PARTIAL) && PER > 1 {
                break;
            }
        }
        (n, (position, within))
    }

    #[inline(always)]
    fn move_to<M: SharedMemory>(&mut self, mem: &M, to: (u64, u32)) {
        (self.position, self.within) = to;
        mem.store(self.taken, encode(to.0, to.1));
    }

    /// The position `descs` descriptors after `from`: walks the counts again.
    #[cold]
    #[inline(never)]
    fn advance<M: SharedMemory>(&self, mem: &M, from: (u64, u32), descs: usize) -> (u64, u32) {
        let mut scratch = [Desc::default(); 1];
        let mut at = from;
        for _ in 0..descs {
            at = self.copy_ready(mem, &mut scratch, at, true).1;
        }
        at
    }
}

impl<const UNIT: u32, const PER: usize, S: Signal> Consumer for InlineConsumer<UNIT, PER, S> {
    fn resume<M: SharedMemory>(mem: &M, layout: &RingLayout) -> Self {
        let (position, within) = decode(mem.load_acquire(layout.taken));
        S::recover(mem, layout, UNIT, position);
        InlineConsumer {
            slots: Slots::new(layout),
            head: layout.head,
            taken: layout.taken,
            position,
            within,
            before: (position, within),
            handed: position,
            empty_polls: 0,
            was_idle: false,
            guard: ChainGuard::default(),
            signal: PhantomData,
        }
    }

    #[inline(always)]
    fn pop<M: SharedMemory, D: Slot>(&mut self, mem: &M, out: &mut [D]) -> usize {
        let from = (self.position, self.within);
        let (mut n, mut to) = self.copy_ready(mem, out, from, self.empty_polls >= IDLE_POLLS);
        if n == 0 {
            self.empty_polls = self.empty_polls.saturating_add(1);
            return 0;
        }
        self.was_idle = self.empty_polls >= IDLE_POLLS;
        self.empty_polls = 0;
        if self.guard.discarding || out.get(n - 1).is_some_and(|d| d.desc().more()) {
            let batch = out.get_mut(..n).unwrap_or_default();
            let (kept, consumed) = self.guard.cut(batch);
            if consumed < n {
                to = self.advance(mem, from, consumed);
            }
            n = kept;
        }
        self.before = from;
        self.move_to(mem, to);
        n
    }

    fn keep<M: SharedMemory>(&mut self, mem: &M, n: usize) {
        let to = self.advance(mem, self.before, n);
        self.move_to(mem, to);
    }

    #[inline(always)]
    fn prefetch<M: SharedMemory>(&self, mem: &M, descs: usize) {
        let per_line = u64::from(LINE / UNIT);
        for i in 0..(descs.div_ceil(PER) as u64).div_ceil(per_line) {
            mem.prefetch_read(self.slots.at(self.position + i * per_line, UNIT));
        }
    }

    #[inline(always)]
    fn release<M: SharedMemory>(&mut self, mem: &M) {
        self.handed = S::hand_back(mem, &self.slots, self.head, UNIT, self.handed, self.position);
    }

    #[inline(always)]
    fn was_idle(&self) -> bool {
        self.was_idle
    }

    fn position(&self) -> u64 {
        self.position
    }

    fn ready<M: SharedMemory>(&self, mem: &M) -> bool {
        let mut first = [Desc::default(); 1];
        self.copy_ready(mem, &mut first, (self.position, self.within), true).0 > 0
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
