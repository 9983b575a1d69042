//! Rings whose signals lie in the descriptors' own lines: one line transfer brings the signal and the descriptors
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
    /// Units before this are free. May be stale: the consumer has handed back at least these.
    credit: u64,
    /// Units of the last push.
    last: u32,
    signal: PhantomData<S>,
}

impl<const UNIT: u32, const PER: usize, S: Signal> InlineProducer<UNIT, PER, S> {
    /// How many units are free, at least `units` if possible. Reads the consumer's lines only when the credit is too small.
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

    /// Publishes packets of any number of segments in free units: a packet that spans units is published from its last unit
    /// back to its first.
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
        // A predecessor may have died between publishing units and storing its tail line, and the consumer may have taken (and
        // cleared) them since. Every published unit counts.
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
    /// Empty polls since the last pop that found something.
    empty_polls: u32,
    /// At least `IDLE_POLLS` empty polls preceded the last pop that found something.
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

/// The most partial groups that a busy consumer takes in one pop: each costs a line transfer, while a burst of few packets costs a call.
const PARTIAL: u32 = 4;

#[inline(always)]
fn is_ready<S: Signal, M: SharedMemory>(mem: &M, slots: &Slots, unit: u32, position: u64) -> bool {
    let word = mem.load_acquire(slots.at(position, unit)); // A2
    S::is_of((word >> SIGNAL_SHIFT) as u8, slots.lap(position))
}

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
            read_group(mem, at, word, within, rest.get_mut(..ready).unwrap_or_default());
            n += ready;
            within += ready as u32;
            if within as usize >= count {
                (position, within) = (position + 1, 0);
            }
            // After a partial group the producer had nothing more to publish. An idle consumer stops here: reading the next line
            // would take it from the producer, which is about to write it. A busy one goes on for a few groups.
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

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::heap::HeapMemory;
    use std::vec::Vec;

    /// 16 units at 4096, each position in a line of its own.
    const RING: RingLayout = RingLayout { units: 4096, count: 16, tail: 0, head: 64, taken: 128 };

    fn ends<R: Ring>() -> (HeapMemory, R::Producer, R::Consumer) {
        let mem = HeapMemory::new(8192);
        (mem.clone(), R::Producer::resume(&mem, &RING), R::Consumer::resume(&mem, &RING))
    }

    fn descs(n: u32) -> Vec<Desc> {
        (0..n).map(|i| Desc::new(i, 1, 0).with_meta(u64::from(i) + 100)).collect()
    }

    /// Offsets of what one pop brings.
    fn pop<C: Consumer>(mem: &HeapMemory, consumer: &mut C, max: usize) -> Vec<u32> {
        let mut out = [Desc::default(); 64];
        let n = consumer.pop(mem, &mut out[..max]);
        assert!(out[..n].iter().all(|desc| desc.meta == u64::from(desc.offset()) + 100));
        out[..n].iter().map(|desc| desc.offset()).collect()
    }

    #[test]
    fn a_group_is_one_line_with_one_signal() {
        let (mem, mut producer, mut consumer) = ends::<GroupedEpoch>();
        assert_eq!((producer.push(&mem, &descs(6)), producer.position()), (6, 2));
        let signal = |unit: u32| mem.load(4096 + unit * 64) >> SIGNAL_SHIFT;
        assert_eq!([0, 1, 2].map(signal), [0x84, 0x82, 0], "parity and count");
        assert_eq!(pop(&mem, &mut consumer, 5), [0, 1, 2, 3, 4], "from inside of a group");
        assert_eq!(pop(&mem, &mut consumer, 5), [5]);
        assert!(!consumer.ready(&mem));
    }

    fn laps<R: Ring>() {
        let (mem, mut producer, mut consumer) = ends::<R>();
        for n in (1..=12).cycle().take(200) {
            assert_eq!(producer.push(&mem, &descs(n)), n as usize, "{:?}", R::DESIGN);
            let mut out = Vec::new();
            while consumer.ready(&mem) {
                out.extend(pop(&mem, &mut consumer, 3));
                consumer.release(&mem);
            }
            assert!(out.into_iter().eq(0..n));
        }
        assert_eq!(producer.position(), consumer.position());
        // A full ring. Up to a quarter of it may not be handed back yet.
        let per = R::Producer::PER_UNIT;
        let taken = producer.push(&mem, &descs(200));
        assert!((13 * per..=16 * per).contains(&taken), "{taken}");
        assert_eq!(producer.push(&mem, &descs(1)), 0);
    }

    #[test]
    fn rings_wrap_and_fill_up() {
        laps::<GroupedEpoch>();
        laps::<GroupedClear>();
        laps::<Packed>();
        laps::<Padded>();
    }

    #[test]
    fn an_idle_consumer_stops_at_a_partial_group_and_a_busy_one_goes_on() {
        let (mem, mut producer, mut consumer) = ends::<GroupedEpoch>();
        producer.push(&mem, &descs(1));
        producer.push(&mem, &descs(1));
        assert_eq!(pop(&mem, &mut consumer, 8), [0, 0], "busy");
        (0..IDLE_POLLS).for_each(|_| assert!(pop(&mem, &mut consumer, 8).is_empty()));
        producer.push(&mem, &descs(1));
        producer.push(&mem, &descs(1));
        assert_eq!((pop(&mem, &mut consumer, 8).len(), consumer.was_idle()), (1, true));
        assert_eq!((pop(&mem, &mut consumer, 8).len(), consumer.was_idle()), (1, false));
    }

    #[test]
    fn a_chain_is_whole_or_not_there_and_a_successor_clears_half_of_one() {
        let (mem, mut producer, mut consumer) = ends::<Packed>();
        let mut chain = descs(3);
        chain[..2].iter_mut().for_each(|desc| *desc = desc.with_more(true));
        assert_eq!(producer.push(&mem, &chain[..2]), 0, "it lacks its end");
        assert_eq!(producer.push(&mem, &chain), 3);
        assert!(pop(&mem, &mut consumer, 2).is_empty(), "no room for all of it");
        assert_eq!(pop(&mem, &mut consumer, 3), [0, 1, 2]);
        consumer.release(&mem);
        // As a producer leaves it that dies while it publishes a chain: the last unit is ready, the first is not.
        mem.store(4096 + 4 * 16, u64::from(Clear::encode(1, 0)) << SIGNAL_SHIFT);
        let successor = <Packed as Ring>::Producer::resume(&mem, &RING);
        assert_eq!((successor.position(), mem.load(4096 + 4 * 16)), (3, 0));
    }

    #[test]
    fn a_successor_goes_on_where_its_predecessor_stopped() {
        let (mem, mut producer, mut consumer) = ends::<GroupedEpoch>();
        producer.push(&mem, &descs(7));
        assert_eq!(pop(&mem, &mut consumer, 2), [0, 1]);
        let mut consumer = <GroupedEpoch as Ring>::Consumer::resume(&mem, &RING);
        let mut seen = Vec::new();
        consumer.peek(&mem, |desc| seen.push(desc.offset()));
        assert_eq!(seen, [2, 3, 4, 5, 6]);
        assert_eq!(pop(&mem, &mut consumer, 9), [2, 3, 4, 5, 6]);
        // A producer that died before it stored its tail line.
        mem.store(RING.tail, 0);
        assert_eq!(<GroupedEpoch as Ring>::Producer::resume(&mem, &RING).position(), 2);
    }

    #[test]
    fn what_is_not_kept_stands_in_the_ring_again() {
        let (mem, mut producer, mut consumer) = ends::<GroupedClear>();
        producer.push(&mem, &descs(8));
        assert_eq!(pop(&mem, &mut consumer, 8).len(), 8);
        consumer.keep(&mem, 5);
        assert_eq!(pop(&mem, &mut consumer, 8), [5, 6, 7]);
    }
}
