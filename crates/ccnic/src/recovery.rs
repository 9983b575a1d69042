//! What happens to buffers when the NIC dies.
//!
//! A NIC that is killed holds buffers in its magazines and in the bursts that it was working on. The host
//! side finds them by elimination: it knows what it holds itself (the ledgers of its queue pairs and pool
//! handles), what the depots hold, and what the rings hold. All other buffers were the NIC's, and go back to
//! the depots.
//!
//! Positions live in the region, so a successor continues where the dead NIC stopped: packets in the rings
//! are delivered once, those that the NIC had taken from the rings are lost.

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
/// Count every queue pair and pool handle that the program has made, then [`reclaim`](Inventory::reclaim) the
/// rest. No NIC may be attached meanwhile. The buffers of a handle that is not counted would be allocated a
/// second time.
///
/// ```
/// # use ccnic::{Burst, testing::{Sides, config}, ring::GroupedEpoch};
/// # let mut sides = Sides::<GroupedEpoch>::new(&config::<GroupedEpoch>());
/// # let (mem, layout) = (sides.mem.clone(), sides.layout);
/// # sides.send(1500, 4, 0);
/// # let fetched = sides.fetch();
/// # let mut pair = sides.host;
/// use ccnic::recovery::Inventory;
///
/// // The NIC has died with four packets that it had fetched.
/// let mut inventory = Inventory::new(&mem, &layout);
/// inventory.count_pair(&mut pair);
/// assert_eq!(inventory.reclaim(), 4);
/// ```
#[derive(Debug)]
pub struct Inventory<'a, M: SharedMemory> {
    mem: &'a M,
    known: Known,
    /// For each slot of 128 bytes: how many times the host side holds the buffer that starts there (0 or 1),
    /// modulo 256.
    held: Vec<u8>,
}

impl<'a, M: SharedMemory> Inventory<'a, M> {
    /// An inventory that has counted the depots of a region.
    pub fn new(mem: &'a M, layout: &Layout) -> Inventory<'a, M> {
        let mut known = Known::new(layout);
        Allocator::walk(mem, layout, |buffer, _| known.mark(buffer));
        let held = vec![0; known.slots.len()];
        Inventory { mem, known, held }
    }

    /// Counts the buffers that a queue pair holds, and those in its rings.
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

    /// Counts the buffers that a pool handle holds.
    pub fn count_pool(&mut self, pool: &mut Pool<M>) {
        self.count_ledger(pool.pool().ledger());
    }

    fn count_ledger(&mut self, ledger: &Ledger) {
        for (sum, count) in self.held.iter_mut().zip(ledger.counts()) {
            *sum = sum.wrapping_add(*count);
        }
    }

    /// Puts every buffer that has not been counted back into the depots; returns their number.
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

    /// The buffers that are not accounted for: large ones, or small ones where a large one has been
    /// subdivided.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::ring::{Doorbell, GroupedEpoch, Packed};
    use crate::testing::{Sides, config};

    fn reclaim<R: Ring>(sides: &mut Sides<R>) -> usize {
        let mut inventory = Inventory::new(&sides.mem, &sides.layout);
        inventory.count_pair(&mut sides.host);
        inventory.reclaim()
    }

    #[test]
    fn what_the_dead_nic_held_comes_back_once() {
        let mut sides = Sides::<GroupedEpoch>::new(&config::<GroupedEpoch>());
        assert_eq!(reclaim(&mut sides), 0, "nothing is missing");
        assert_eq!((sides.send(1500, 6, 1), sides.poll(), sides.receive(2, |_, _| ())), (6, 6, 2));
        assert_eq!(sides.send(1500, 5, 1), 5);
        let held = sides.nic.counters().tx_packets as usize; // six sent buffers are free in its magazine
        let fetched = sides.fetch();
        assert_eq!((held, fetched.rest().len()), (6, 5));
        let found = reclaim(&mut sides);
        assert!(found >= 5 + 6, "{found}: those fetched, and the magazine");
        assert_eq!(reclaim(&mut sides), 0);
        assert_eq!(sides.receive(32, |_, _| ()), 4, "what it had delivered is in the ring still");
    }

    #[test]
    fn packets_in_the_rings_are_not_taken_for_lost() {
        let mut sides = Sides::<Packed>::new(&config::<Packed>());
        assert_eq!((sides.send(9000, 6, 1), sides.poll(), sides.send(64, 9, 1)), (6, 6, 9));
        sides.nic.retire();
        assert_eq!(reclaim(&mut sides), 0);
    }

    #[test]
    fn small_buffers_are_found_one_by_one() {
        let mut sides = Sides::<Packed>::new(&config::<Packed>());
        assert_eq!(sides.send(64, 3, 1), 3);
        assert_eq!(sides.fetch().rest().len(), 3);
        assert_eq!(reclaim(&mut sides), 3);
    }

    #[test]
    fn posted_receive_buffers_are_posted_again_or_counted() {
        let mut sides = Sides::<Doorbell>::new(&config::<Doorbell>());
        assert_eq!((sides.send(1500, 3, 1), sides.poll()), (3, 3));
        assert_eq!(reclaim(&mut sides), 0, "they stand in the ring");
        let mut sides = Sides::<Packed>::new(&Config { shared_pool: false, ..config::<Packed>() });
        assert_eq!((sides.send(1500, 3, 1), sides.poll()), (3, 3));
        let taken = 32 - 3; // taken from the fill ring at once, three of them filled
        assert_eq!(reclaim(&mut sides), taken);
    }
}
