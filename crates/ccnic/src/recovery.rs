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

/// Returns the buffers that a dead NIC held to the free lists; gives their number.
///
/// `pairs` and `pools` are all those of the region that the program has ever made. No NIC may be attached, and none of them
/// in use: the exclusive borrows say so for this side.
pub fn reclaim<M: SharedMemory, R: Ring>(
    mem: &M,
    layout: &Layout,
    pairs: &mut [&mut QueuePair<M, R>],
    pools: &mut [&mut Pool<M>],
) -> usize {
    let mut known = Known::new(layout);
    let ledgers = pairs.iter().map(|pair| pair.pool().ledger());
    let ledgers = ledgers.chain(pools.iter().map(|pool| pool.pool().ledger()));
    for (slot, sum) in ledger_sums(layout, ledgers).into_iter().enumerate() {
        if sum != 0 {
            known.mark_slot(slot);
        }
    }
    Allocator::walk(mem, layout, |buffer, _| known.mark(buffer));
    for pair in pairs.iter_mut() {
        pair.rewind_fill();
        pair.rx().peek(mem, |desc| known.mark_desc(desc));
        R::Consumer::resume(mem, &pair.layout().tx).peek(mem, |desc| known.mark_desc(desc));
        if !layout.config().shared_pool {
            R::Consumer::resume(mem, &pair.layout().fill).peek(mem, |desc| known.mark_desc(desc));
        }
    }
    let lost = known.missing(mem);
    pairs.iter_mut().for_each(|pair| pair.recount_posted());
    Allocator::restore(mem, layout, &lost);
    lost.len()
}

/// For each slot of 128 bytes: how many times the host side holds the buffer that starts there (0 or 1).
fn ledger_sums<'a>(layout: &Layout, ledgers: impl Iterator<Item = &'a Ledger>) -> Vec<u8> {
    let mut sums = vec![0u8; (layout.config().buffers * SMALL_PER_LARGE) as usize];
    for ledger in ledgers {
        for (sum, count) in sums.iter_mut().zip(ledger.counts()) {
            *sum = sum.wrapping_add(*count);
        }
    }
    sums
}

/// The buffers that are accounted for, by slots of 128 bytes.
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
