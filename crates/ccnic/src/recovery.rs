//! What happens to buffers when the NIC dies.
//!
//! A NIC that is killed holds buffers that nobody else knows of: on its private stacks, and the burst in its hands. The
//! host side recovers them, since it knows all the rest: what it holds itself (the ledgers of its queue pairs), what the
//! free lists hold, what the rings hold. Everything else was the NIC's, and goes back to the free lists.
//!
//! Positions live in the region, so a successor carries on where the dead NIC stopped: packets in the rings are
//! delivered once, those in its hands not at all.

extern crate alloc;

use alloc::vec;
use alloc::vec::Vec;

use crate::desc::Desc;
use crate::host::{Pool, QueuePair};
use crate::layout::{LARGE_BUF, Layout, SMALL_BUF, SMALL_PER_LARGE};
use crate::memory::SharedMemory;
use crate::pool::{Allocator, Ledger};
use crate::ring::{Consumer, Ring};

/// Which buffers of a region are accounted for, to find those that a dead NIC held.
///
/// Count every queue pair and pool handle that the program has made, then [`reclaim`](Inventory::reclaim) the rest. No NIC may be
/// attached meanwhile. One that is not counted loses the buffers that it holds: they would be handed out twice.
#[derive(Debug)]
pub struct Inventory<'a, M: SharedMemory> {
    mem: &'a M,
    known: Known,
    /// For each slot of 128 bytes: how many times the host side holds the buffer that starts there (0 or 1), modulo 256.
    held: Vec<u8>,
}

impl<'a, M: SharedMemory> Inventory<'a, M> {
    /// An inventory of the region of `mem` that knows of the free lists.
    pub fn new(mem: &'a M, layout: &Layout) -> Inventory<'a, M> {
        let mut known = Known::new(layout);
        Allocator::walk(mem, layout, |buffer, _| known.mark(buffer));
        let held = vec![0; known.slots.len()];
        Inventory { mem, known, held }
    }

    /// Counts what a queue pair holds, and what stands in its rings.
    pub fn count_pair<R: Ring>(&mut self, pair: &mut QueuePair<M, R>) {
        self.count_ledger(pair.pool().ledger());
        pair.rewind_fill();
        let (mem, known) = (self.mem, &mut self.known);
        pair.rx().peek(mem, |desc| known.mark_desc(desc));
        R::Consumer::resume(mem, &pair.layout().tx).peek(mem, |desc| known.mark_desc(desc));
        if !known.layout.config().shared_pool {
            R::Consumer::resume(mem, &pair.layout().fill).peek(mem, |desc| known.mark_desc(desc));
        }
        pair.recount_posted();
    }

    /// Counts what a pool handle holds.
    pub fn count_pool(&mut self, pool: &mut Pool<M>) {
        self.count_ledger(pool.pool().ledger());
    }

    fn count_ledger(&mut self, ledger: &Ledger) {
        for (sum, count) in self.held.iter_mut().zip(ledger.counts()) {
            *sum = sum.wrapping_add(*count);
        }
    }

    /// Returns every buffer that has not been counted to the free lists; gives their number.
    pub fn reclaim(mut self) -> usize {
        for (slot, sum) in self.held.iter().enumerate() {
            if *sum != 0 {
                self.known.mark_slot(slot);
            }
        }
        let lost = self.known.missing(self.mem);
        Allocator::restore(self.mem, &self.known.layout, &lost);
        lost.len()
    }
}

/// The buffers that are accounted for, by slots of 128 bytes.
#[derive(Debug)]
struct Known {
    layout: Layout,
    slots: Vec<bool>,
}

impl Known {
    fn new(layout: &Layout) -> Known {
        let slots = vec![false; (layout.config().buffers * SMALL_PER_LARGE) as usize];
        Known { layout: *layout, slots }
    }

    fn mark_slot(&mut self, slot: usize) {
        if let Some(known) = self.slots.get_mut(slot) {
            *known = true;
        }
    }

    fn mark(&mut self, buffer: u32) {
        self.mark_slot((buffer.wrapping_sub(self.layout.pool().buffers) / SMALL_BUF) as usize);
    }

    fn mark_desc(&mut self, desc: Desc) {
        let size = if desc.small() { SMALL_BUF } else { LARGE_BUF };
        self.mark(desc.offset() & !(size - 1));
    }

    /// The buffers that nobody accounts for: of each chunk its 32 small ones when it has been subdivided, or itself.
    fn missing<M: SharedMemory>(&self, mem: &M) -> Vec<(u32, crate::pool::Class)> {
        use crate::pool::Class;
        let pool = self.layout.pool();
        let mut lost = Vec::new();
        for (i, slots) in (0u32..).zip(self.slots.chunks(SMALL_PER_LARGE as usize)) {
            let chunk = pool.buffers + i * LARGE_BUF;
            if mem.load_acquire(pool.kinds + i * 8) == 0 {
                if slots.first() == Some(&false) {
                    lost.push((chunk, Class::Large));
                }
                continue;
            }
            let missing = (0u32..).zip(slots).filter(|(_, known)| !**known);
            lost.extend(missing.map(|(j, _)| (chunk + j * SMALL_BUF, Class::Small)));
        }
        lost
    }
}
