//! The baseline: an Intel E810's ring, packed descriptors with tail and head registers beside them (CC-NIC section 2.1
//! and figure 6a), here in coherent memory ("unoptimized UPI", section 5.1).
//!
//! The producer writes descriptors and rings the doorbell: it stores its position to the tail register. The consumer
//! polls the tail, reads descriptors, and stores its position to the head register when it has completed them.

use crate::config::Design;
use crate::desc::{DESC, Desc, Sealed, Slot};
use crate::layout::RingPlace;
use crate::port::{LINE, Port, lines};

use super::{ChainGuard, Consumer, IN_VAIN, Producer, Ring, Slots, has_chains, sane, whole};

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
    fn reload<P: Port>(&mut self, port: &P) {
        let head = port.load_acquire(self.head); // E2
        // A head that goes back or ahead of the tail is a broken peer's: believe the old one.
        if head >= self.seen && head <= self.position {
            self.seen = head;
        }
    }
}

impl Producer for DoorbellProducer {
    const PER_UNIT: usize = 1;

    fn resume<P: Port>(port: &P, place: &RingPlace) -> Self {
        let slots = Slots::new(place);
        let position = sane(port.load_acquire(place.tail));
        let oldest = position.saturating_sub(slots.count());
        let seen = port.load_acquire(place.head).clamp(oldest, position); // E2
        DoorbellProducer { slots, tail: place.tail, head: place.head, position, seen, last: 0 }
    }

    #[inline(always)]
    fn room<P: Port>(&mut self, port: &P, want: usize) -> usize {
        if self.free() < want as u64 {
            self.reload(port);
        }
        want.min(self.free() as usize)
    }

    #[inline(always)]
    fn prefetch<P: Port>(&self, port: &P, descs: usize) {
        let first = self.slots.at(self.position, DESC);
        for line in lines(first, descs as u32 * DESC) {
            port.prefetch_own(line);
        }
    }

    #[inline(always)]
    fn push<P: Port, D: Slot>(&mut self, port: &P, descs: &[D]) -> usize {
        let room = self.room(port, descs.len());
        let n = if has_chains(descs) { whole(descs, room) } else { room };
        for (i, desc) in (0..).zip(descs.iter().take(n)) {
            let (at, desc) = (self.slots.at(self.position + i, DESC), desc.desc());
            port.store(at, desc.word());
            port.store(at + 8, desc.meta);
        }
        if n > 0 {
            self.position += n as u64;
            self.last = n as u32;
            port.store_release(self.tail, self.position); // D1
        }
        n
    }

    #[inline(always)]
    fn demote<P: Port>(&self, port: &P) {
        let first = self.slots.at(self.position - u64::from(self.last), DESC);
        for line in lines(first, self.last * DESC) {
            port.demote(line);
        }
        port.demote(self.tail & !(LINE - 1));
    }

    fn position(&self) -> u64 {
        self.position
    }

    #[inline(always)]
    fn completed<P: Port>(&mut self, port: &P) -> u64 {
        self.reload(port);
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
    vain: u32,
    /// There were many before the last one that did.
    waited: bool,
    guard: ChainGuard,
}

impl DoorbellConsumer {
    /// Descriptors known to be ready; looks at the register when there are none.
    #[inline(always)]
    fn ready<P: Port>(&mut self, port: &P) -> u64 {
        if self.seen == self.position {
            let tail = port.load_acquire(self.tail); // D2
            // More than the ring holds is a broken peer's: nothing is ready.
            if tail.wrapping_sub(self.position) <= self.slots.count() {
                self.seen = tail;
            }
        }
        self.seen - self.position
    }

    #[inline(always)]
    fn get<P: Port>(&self, port: &P, position: u64) -> Desc {
        let at = self.slots.at(position, DESC);
        Desc::from_words(port.load(at), port.load(at + 8))
    }
}

impl Consumer for DoorbellConsumer {
    fn resume<P: Port>(port: &P, place: &RingPlace) -> Self {
        let position = sane(port.load_acquire(place.taken));
        port.store_release(place.head, position); // E1
        DoorbellConsumer {
            slots: Slots::new(place),
            tail: place.tail,
            head: place.head,
            taken: place.taken,
            position,
            before: position,
            seen: position,
            handed: position,
            vain: 0,
            waited: false,
            guard: ChainGuard::default(),
        }
    }

    #[inline(always)]
    fn pop<P: Port, D: Slot>(&mut self, port: &P, out: &mut [D]) -> usize {
        let mut n = (self.ready(port) as usize).min(out.len());
        for (i, slot) in (0..).zip(out.iter_mut().take(n)) {
            slot.set(self.get(port, self.position + i), Sealed(()));
        }
        if n == 0 {
            self.vain = self.vain.saturating_add(1);
            return 0;
        }
        self.waited = self.vain >= IN_VAIN;
        self.vain = 0;
        let mut consumed = n;
        if self.guard.discarding || out.get(n - 1).is_some_and(|d| d.desc().more()) {
            (n, consumed) = self.guard.cut(out.get_mut(..n).unwrap_or_default());
        }
        self.before = self.position;
        self.position += consumed as u64;
        port.store(self.taken, self.position);
        n
    }

    fn keep<P: Port>(&mut self, port: &P, n: usize) {
        self.position = self.before + n as u64;
        self.seen = self.position; // the next pop looks for more
        port.store(self.taken, self.position);
    }

    #[inline(always)]
    fn prefetch<P: Port>(&self, port: &P, descs: usize) {
        for line in lines(self.slots.at(self.position, DESC), descs as u32 * DESC) {
            port.prefetch_read(line);
        }
    }

    #[inline(always)]
    fn release<P: Port>(&mut self, port: &P) {
        if self.handed != self.position {
            self.handed = self.position;
            port.store_release(self.head, self.position); // E1
        }
    }

    #[inline(always)]
    fn waited(&self) -> bool {
        self.waited
    }

    fn position(&self) -> u64 {
        self.position
    }

    fn ready<P: Port>(&self, port: &P) -> bool {
        let tail = port.load_acquire(self.tail); // D2
        (1..=self.slots.count()).contains(&tail.wrapping_sub(self.position))
    }

    fn discarded(&self) -> u64 {
        self.guard.discarded
    }

    fn peek<P: Port>(&self, port: &P, mut see: impl FnMut(Desc)) {
        let tail = port.load_acquire(self.tail); // D2
        let count = tail.saturating_sub(self.position).min(self.slots.count());
        for i in 0..count {
            see(self.get(port, self.position + i));
        }
    }
}
