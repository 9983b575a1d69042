//! The baseline: an Intel E810's ring, packed descriptors with tail and head registers beside them (CC-NIC
//! section 2.1 and figure 6a), here in coherent memory ("unoptimized UPI", section 5.1).
//!
//! The producer writes descriptors and then stores its position to the tail register (the doorbell). The
//! consumer polls the tail, reads the descriptors, and stores its position to the head register when it has
//! completed them.

extern crate alloc;

use alloc::vec::Vec;

use crate::config::Design;
use crate::desc::{DESC, Desc, Sealed, Slot};
use crate::layout::RingLayout;
use crate::memory::{LINE, SharedMemory, lines};

use super::{ChainGuard, Consumer, IDLE_POLLS, Producer, Ring, Slots, has_chains, sane, whole};

/// Packed descriptors with head and tail registers.
#[derive(Debug)]
pub struct Doorbell;

impl Ring for Doorbell {
    const DESIGN: Design = Design::Doorbell;
    type Producer = DoorbellProducer;
    type Consumer = DoorbellConsumer;
}

/// The writing end.
#[derive(Debug)]
pub struct DoorbellProducer {
    slots: Slots,
    tail: u32,
    head: u32,
    position: u64,
    /// The head register as last read. May be stale: the consumer is at least there.
    seen: u64,
    /// Descriptors of the last push.
    last: u32,
}

impl DoorbellProducer {
    #[inline(always)]
    fn free(&self) -> u64 {
        self.slots.count() - (self.position - self.seen)
    }

    #[inline(always)]
    fn reload<M: SharedMemory>(&mut self, mem: &M) {
        let head = mem.load_acquire(self.head); // E2
        // A broken peer may move its head back or beyond the tail: then keep the old value.
        if head >= self.seen && head <= self.position {
            self.seen = head;
        }
    }
}

impl Producer for DoorbellProducer {
    const PER_UNIT: usize = 1;

    fn resume<M: SharedMemory>(mem: &M, layout: &RingLayout) -> Self {
        let slots = Slots::new(layout);
        let position = sane(mem.load_acquire(layout.tail));
        let oldest = position.saturating_sub(slots.count());
        let seen = mem.load_acquire(layout.head).clamp(oldest, position); // E2
        DoorbellProducer { slots, tail: layout.tail, head: layout.head, position, seen, last: 0 }
    }

    #[inline(always)]
    fn room<M: SharedMemory>(&mut self, mem: &M, want: usize) -> usize {
        if self.free() < want as u64 {
            self.reload(mem);
        }
        want.min(self.free() as usize)
    }

    #[inline(always)]
    fn prefetch<M: SharedMemory>(&self, mem: &M, descs: usize) {
        let first = self.slots.at(self.position, DESC);
        for line in lines(first, descs as u32 * DESC) {
            mem.prefetch_own(line);
        }
    }

    #[inline(always)]
    fn push<M: SharedMemory, D: Slot>(&mut self, mem: &M, descs: &[D]) -> usize {
        let room = self.room(mem, descs.len());
        let n = if has_chains(descs) { whole(descs, room) } else { room };
        for (i, desc) in (0..).zip(descs.iter().take(n)) {
            let (at, desc) = (self.slots.at(self.position + i, DESC), desc.desc());
            mem.store(at, desc.word());
            mem.store(at + 8, desc.meta);
        }
        if n > 0 {
            self.position += n as u64;
            self.last = n as u32;
            mem.store_release(self.tail, self.position); // D1
        }
        n
    }

    #[inline(always)]
    fn demote<M: SharedMemory>(&self, mem: &M) {
        let first = self.slots.at(self.position - u64::from(self.last), DESC);
        for line in lines(first, self.last * DESC) {
            mem.demote(line);
        }
        mem.demote(self.tail & !(LINE - 1));
    }

    fn repair<M: SharedMemory>(&mut self, mem: &M, layout: &RingLayout, keep: impl FnOnce(&[Desc]) -> bool) {
        let taken = mem.load_acquire(layout.taken);
        let can_be = taken <= self.position && self.position - taken <= self.slots.count();
        let kept = can_be && keep(&read(mem, &self.slots, taken..self.position));
        self.seen = if kept { taken } else { self.position };
        mem.store(layout.taken, self.seen);
        mem.store_release(layout.head, self.seen); // E1
        mem.store_release(layout.tail, self.position); // D1
    }

    fn position(&self) -> u64 {
        self.position
    }

    #[inline(always)]
    fn completed<M: SharedMemory>(&mut self, mem: &M) -> u64 {
        self.reload(mem);
        self.seen
    }

    #[inline(always)]
    fn known_completed(&self) -> u64 {
        self.seen
    }
}

/// The reading end.
#[derive(Debug)]
pub struct DoorbellConsumer {
    slots: Slots,
    tail: u32,
    head: u32,
    taken: u32,
    position: u64,
    /// Where the last pop began.
    before: u64,
    /// The tail register as last read. May be stale: the producer is at least there.
    seen: u64,
    /// The position that the head register holds.
    handed: u64,
    /// Empty polls since the last pop that found something.
    empty_polls: u32,
    /// At least `IDLE_POLLS` empty polls preceded the last pop that found something.
    was_idle: bool,
    guard: ChainGuard,
}

impl DoorbellConsumer {
    /// Descriptors known to be published; reads the tail register when there are none.
    #[inline(always)]
    fn available<M: SharedMemory>(&mut self, mem: &M) -> u64 {
        if self.seen == self.position {
            let tail = mem.load_acquire(self.tail); // D2
            // A broken peer may publish more than the ring holds: then nothing is available.
            if tail.wrapping_sub(self.position) <= self.slots.count() {
                self.seen = tail;
            }
        }
        self.seen - self.position
    }

    #[inline(always)]
    fn get<M: SharedMemory>(&self, mem: &M, position: u64) -> Desc {
        let at = self.slots.at(position, DESC);
        Desc::from_words(mem.load(at), mem.load(at + 8))
    }
}

impl Consumer for DoorbellConsumer {
    fn resume<M: SharedMemory>(mem: &M, layout: &RingLayout) -> Self {
        let this = Self::look(mem, layout);
        mem.store_release(layout.head, this.position); // E1
        this
    }

    fn look<M: SharedMemory>(mem: &M, layout: &RingLayout) -> Self {
        let position = sane(mem.load_acquire(layout.taken));
        DoorbellConsumer {
            slots: Slots::new(layout),
            tail: layout.tail,
            head: layout.head,
            taken: layout.taken,
            position,
            before: position,
            seen: position,
            handed: position,
            empty_polls: 0,
            was_idle: false,
            guard: ChainGuard::default(),
        }
    }

    #[inline(always)]
    fn pop_or_discard<M: SharedMemory, D: Slot>(
        &mut self,
        mem: &M,
        out: &mut [D],
        discard: impl FnMut(Desc),
    ) -> usize {
        let mut n = (self.available(mem) as usize).min(out.len());
        for (i, slot) in (0..).zip(out.iter_mut().take(n)) {
            slot.set(self.get(mem, self.position + i), Sealed(()));
        }
        if n == 0 {
            self.empty_polls = self.empty_polls.saturating_add(1);
            return 0;
        }
        self.was_idle = self.empty_polls >= IDLE_POLLS;
        self.empty_polls = 0;
        let mut consumed = n;
        if self.guard.discarding || out.get(n - 1).is_some_and(|d| d.desc().more()) {
            (n, consumed) = self.guard.cut(out.get_mut(..n).unwrap_or_default(), discard);
            // The next pop reads the tail register again: a broken producer may have published half a chain.
            self.seen = self.position + consumed as u64;
            if n == 0 {
                // The caller, which gets nothing, has nothing to release.
                self.position = self.seen;
                self.release(mem);
                consumed = 0;
            }
        }
        self.before = self.position;
        self.position += consumed as u64;
        mem.store(self.taken, self.position);
        n
    }

    fn keep<M: SharedMemory>(&mut self, mem: &M, n: usize) {
        self.position = self.before + n as u64;
        self.seen = self.position; // the next pop reads the tail register again
        mem.store(self.taken, self.position);
    }

    #[inline(always)]
    fn prefetch<M: SharedMemory>(&self, mem: &M, descs: usize) {
        for line in lines(self.slots.at(self.position, DESC), descs as u32 * DESC) {
            mem.prefetch_read(line);
        }
    }

    #[inline(always)]
    fn release_to<M: SharedMemory>(&mut self, mem: &M, position: u64) {
        if self.handed != position {
            self.handed = position;
            mem.store_release(self.head, position); // E1
        }
    }

    #[inline(always)]
    fn was_idle(&self) -> bool {
        self.was_idle
    }

    fn position(&self) -> u64 {
        self.position
    }

    fn awaited(&self) -> u32 {
        self.tail
    }

    fn ready<M: SharedMemory>(&self, mem: &M) -> bool {
        let tail = mem.load_acquire(self.tail); // D2
        (1..=self.slots.count()).contains(&tail.wrapping_sub(self.position))
    }

    fn repair<M: SharedMemory>(
        &mut self,
        mem: &M,
        layout: &RingLayout,
        posted: u64,
        keep: impl FnOnce(&[Desc]) -> bool,
    ) {
        let tail = mem.load_acquire(layout.tail); // D2
        let can_be = (self.position..=posted).contains(&tail) && posted - self.position <= self.slots.count();
        let ends = || tail == self.position || !self.get(mem, tail - 1).more();
        let whole = can_be && !self.guard.discarding && ends();
        let kept = whole && keep(&read(mem, &self.slots, self.position..posted));
        if !kept {
            self.guard.discarding = false;
            self.position = posted;
        }
        (self.seen, self.handed) = (self.position, self.position);
        mem.store(layout.taken, self.position);
        mem.store_release(layout.head, self.position); // E1
        mem.store_release(layout.tail, if kept { tail } else { posted }); // D1
    }

    fn discarded(&self) -> u64 {
        self.guard.discarded
    }

    fn peek<M: SharedMemory>(&self, mem: &M, mut see: impl FnMut(Desc)) {
        let tail = mem.load_acquire(self.tail); // D2
        let count = tail.saturating_sub(self.position).min(self.slots.count());
        for i in 0..count {
            see(self.get(mem, self.position + i));
        }
    }
}

/// The descriptors at these positions. For recovery.
fn read<M: SharedMemory>(mem: &M, slots: &Slots, positions: core::ops::Range<u64>) -> Vec<Desc> {
    let at = |position| slots.at(position, DESC);
    positions.map(|p| Desc::from_words(mem.load(at(p)), mem.load(at(p) + 8))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heap::HeapMemory;

    /// 16 descriptors at 4096, each position in a line of its own.
    const RING: RingLayout = RingLayout { units: 4096, areas: 0, count: 16, tail: 0, head: 64, taken: 128 };

    fn ends() -> (HeapMemory, DoorbellProducer, DoorbellConsumer) {
        let mem = HeapMemory::new(8192);
        (mem.clone(), DoorbellProducer::resume(&mem, &RING), DoorbellConsumer::resume(&mem, &RING))
    }

    #[test]
    fn descriptors_pass_in_order_over_many_laps() {
        let (mem, mut producer, mut consumer) = ends();
        let mut out = [Desc::default(); 8];
        for i in 0..100u32 {
            let descs = [0, 1, 2].map(|j| Desc::new(3 * i + j, 1, 0));
            assert_eq!((producer.push(&mem, &descs), consumer.pop(&mem, &mut out)), (3, 3));
            assert_eq!(out[..3], descs);
            consumer.release(&mem);
        }
        assert_eq!((producer.position(), consumer.position(), producer.completed(&mem)), (300, 300, 300));
    }

    #[test]
    fn a_unit_is_free_when_released_and_not_before() {
        let (mem, mut producer, mut consumer) = ends();
        let descs = [Desc::new(1, 1, 0); 20];
        assert_eq!((producer.push(&mem, &descs), producer.room(&mem, 1)), (16, 0));
        assert_eq!((consumer.pop(&mem, &mut [Desc::default(); 5]), producer.room(&mem, 9)), (5, 0));
        consumer.release(&mem);
        assert_eq!(producer.room(&mem, 9), 5);
    }

    #[test]
    fn what_is_not_kept_stands_in_the_ring_again() {
        let (mem, mut producer, mut consumer) = ends();
        producer.push(&mem, &[1, 2, 3, 4].map(|i| Desc::new(i, 1, 0)));
        let mut out = [Desc::default(); 4];
        assert_eq!(consumer.pop(&mem, &mut out), 4);
        consumer.keep(&mem, 1);
        assert!(consumer.ready(&mem));
        assert_eq!((consumer.pop(&mem, &mut out), out[0].offset()), (3, 2));
    }

    #[test]
    fn registers_of_a_broken_peer_are_not_believed() {
        let (mem, mut producer, mut consumer) = ends();
        producer.push(&mem, &[Desc::new(1, 1, 0); 4]);
        for head in [5, u64::MAX] {
            mem.store(RING.head, head);
            assert_eq!(producer.completed(&mem), 0);
        }
        mem.store(RING.tail, 17);
        assert_eq!(consumer.pop(&mem, &mut [Desc::default(); 8]), 0, "more than the ring holds");
        assert!(!consumer.ready(&mem));
    }
}
