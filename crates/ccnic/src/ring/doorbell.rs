//! The baseline: an Intel E810's ring, packed descriptors with tail and head registers beside them (CC-NIC section 2.1
//! and figure 6a), here in coherent memory ("unoptimized UPI", section 5.1).
//!
//! The producer writes descriptors and rings the doorbell: it stores its position to the tail register. The consumer
//! polls the tail, reads descriptors, and stores its position to the head register when it has completed them.

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
    /// The head register as last read. May be stale: the consumer is there at least.
    seen: u64,
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
        // A head that goes back or ahead of the tail is a broken peer's: believe the old one.
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

    fn position(&self) -> u64 {
        self.position
    }

    #[inline(always)]
    fn completed<M: SharedMemory>(&mut self, mem: &M) -> u64 {
        self.reload(mem);
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
    /// The tail register as last read. May be stale: the producer is there at least.
    seen: u64,
    handed: u64,
    /// Pops in vain since the last that found something.
    empty_polls: u32,
    /// There were many before the last one that did.
    was_idle: bool,
    guard: ChainGuard,
}

impl DoorbellConsumer {
    /// Descriptors known to be ready; looks at the register when there are none.
    #[inline(always)]
    fn ready<M: SharedMemory>(&mut self, mem: &M) -> u64 {
        if self.seen == self.position {
            let tail = mem.load_acquire(self.tail); // D2
            // More than the ring holds is a broken peer's: nothing is ready.
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
        let position = sane(mem.load_acquire(layout.taken));
        mem.store_release(layout.head, position); // E1
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
    fn pop<M: SharedMemory, D: Slot>(&mut self, mem: &M, out: &mut [D]) -> usize {
        let mut n = (self.ready(mem) as usize).min(out.len());
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
            (n, consumed) = self.guard.cut(out.get_mut(..n).unwrap_or_default());
        }
        self.before = self.position;
        self.position += consumed as u64;
        mem.store(self.taken, self.position);
        n
    }

    fn keep<M: SharedMemory>(&mut self, mem: &M, n: usize) {
        self.position = self.before + n as u64;
        self.seen = self.position; // the next pop looks for more
        mem.store(self.taken, self.position);
    }

    #[inline(always)]
    fn prefetch<M: SharedMemory>(&self, mem: &M, descs: usize) {
        for line in lines(self.slots.at(self.position, DESC), descs as u32 * DESC) {
            mem.prefetch_read(line);
        }
    }

    #[inline(always)]
    fn release<M: SharedMemory>(&mut self, mem: &M) {
        if self.handed != self.position {
            self.handed = self.position;
            mem.store_release(self.head, self.position); // E1
        }
    }

    #[inline(always)]
    fn was_idle(&self) -> bool {
        self.was_idle
    }

    fn position(&self) -> u64 {
        self.position
    }

    fn ready<M: SharedMemory>(&self, mem: &M) -> bool {
        let tail = mem.load_acquire(self.tail); // D2
        (1..=self.slots.count()).contains(&tail.wrapping_sub(self.position))
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
