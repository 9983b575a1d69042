//! What happens to buffers when the NIC dies.
//!
//! A NIC that is killed holds buffers in its magazines and in the bursts that it was working on. The host
//! side finds them by elimination: it knows what it holds itself (the ledgers of its queue pairs and pool
//! handles) and what the rings hold. All other buffers are free, and the depots are made anew with them.
//!
//! The dead NIC is not trusted. Only the ledgers, in the host's private memory, are believed. A ring that
//! names a buffer which the host holds, or another ring, or no buffer at all, is emptied, and so is a fill
//! ring with something that the host cannot have posted. What the depots
//! held is replaced, the words that say which buffers are subdivided are corrected, and the NIC's positions
//! in the rings are set to what they can be. So afterwards every buffer is in one place, once, and a
//! successor continues where the dead NIC stopped: packets in the rings are delivered once, those that the
//! NIC had taken from the rings are lost.

extern crate alloc;

use alloc::vec;
use alloc::vec::Vec;

use crate::desc::Desc;
use crate::host::{Pool, QueuePair};
use crate::layout::{LARGE_BUF, Layout, SMALL_BUF, SMALL_PER_LARGE};
use crate::memory::SharedMemory;
use crate::pool::{Allocator, Class, Ledger};
use crate::ring::Ring;

/// Which buffers of a region are accounted for, to find those that a dead NIC held.
///
/// First count every queue pair and pool handle that the program has made, then repair the rings of every
/// queue pair, then [`reclaim`](Inventory::reclaim) the rest, then let every queue pair
/// [`post`](post_again) receive buffers again. No NIC may be attached meanwhile, nor may a dead
/// one still write to the memory (`ccnic-client` replaces it). The buffers of a handle that is not counted
/// would be allocated a second time.
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
/// inventory.count_pair(&pair);
/// inventory.repair_rings(&mut pair);
/// assert_eq!(inventory.reclaim(), 4);
/// ccnic::recovery::post_again(&mut pair);
/// ```
#[derive(Debug)]
pub struct Inventory<'a, M: SharedMemory> {
    mem: &'a M,
    layout: Layout,
    /// The sum of the ledgers' counts, modulo 2^16.
    held: Held,
    /// By slot, once all ledgers have been counted.
    used: Option<Vec<Use>>,
}

/// How often the host holds each buffer.
#[derive(Debug)]
struct Held {
    /// By slot of 128 bytes.
    small: Vec<u16>,
    /// By chunk of 4 KiB.
    large: Vec<u16>,
}

/// What a slot of 128 bytes is part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Use {
    /// Nothing that is accounted for.
    Free,
    /// A small buffer that the host holds, or that is in a ring.
    Small,
    /// A large one.
    Large,
}

impl<'a, M: SharedMemory> Inventory<'a, M> {
    /// An inventory that has counted nothing yet.
    pub fn new(mem: &'a M, layout: &Layout) -> Inventory<'a, M> {
        let chunks = layout.config().buffers as usize;
        let held = Held { small: vec![0; chunks * SMALL_PER_LARGE as usize], large: vec![0; chunks] };
        Inventory { mem, layout: *layout, held, used: None }
    }

    /// Counts the buffers that a queue pair holds.
    pub fn count_pair<R: Ring>(&mut self, pair: &QueuePair<M, R>) {
        self.count_ledger(pair.pool().ledger());
    }

    /// Counts the buffers that a pool handle holds.
    pub fn count_pool(&mut self, pool: &Pool<M>) {
        self.count_ledger(pool.pool().ledger());
    }

    fn count_ledger(&mut self, ledger: &Ledger) {
        let held = &mut self.held;
        for (sums, counts) in [(&mut held.small, ledger.small()), (&mut held.large, ledger.large())] {
            for (sum, count) in sums.iter_mut().zip(counts) {
                *sum = sum.wrapping_add(*count);
            }
        }
    }

    /// Counts the buffers in the rings of a queue pair, after everything has been counted that the program
    /// holds. Makes the rings ready for the NIC's successor, and empties those in which something is wrong.
    pub fn repair_rings<R: Ring>(&mut self, pair: &mut QueuePair<M, R>) {
        let (layout, held) = (&self.layout, &self.held);
        let used = self.used.get_or_insert_with(|| uses(held));
        pair.repair(|descs| kept_are_held(layout, held, descs) && admit(layout, used, descs));
    }

    /// Makes the depots anew with every buffer that has not been counted; returns the number of those that
    /// were not in the depots before.
    pub fn reclaim(self) -> usize {
        let used = self.used.unwrap_or_else(|| uses(&self.held));
        let free = free(self.mem, &self.layout, &used);
        let mut found = vec![false; used.len()];
        let slot = |buffer: u32| (buffer - self.layout.pool().buffers) / SMALL_BUF;
        Allocator::walk(self.mem, &self.layout, |buffer, _| {
            if let Some(found) = found.get_mut(slot(buffer) as usize) {
                *found = true;
            }
        });
        let lost = free.iter().filter(|(buffer, _)| found.get(slot(*buffer) as usize) == Some(&false));
        let lost = lost.count();
        Allocator::rebuild(self.mem, &self.layout, |class| {
            free.iter().filter(|(_, c)| *c == class).map(|(buffer, _)| *buffer).collect()
        });
        lost
    }
}

/// Posts receive buffers in place of those that a dead NIC had taken, with the host-managed pool, before the
/// program allocates them for other things. Does nothing with the shared pool.
pub fn post_again<M: SharedMemory, R: Ring>(pair: &mut QueuePair<M, R>) {
    pair.post_again();
}

/// What the host holds, by slot. A count above one is a buffer that a broken NIC has handed out several times; it may also have
/// handed out a large buffer and parts of it.
fn uses(held: &Held) -> Vec<Use> {
    let mut used = Vec::with_capacity(held.small.len());
    for (large, small) in held.large.iter().zip(held.small.chunks(SMALL_PER_LARGE as usize)) {
        used.extend(small.iter().map(|count| match (large, count) {
            (0, 0) => Use::Free,
            (0, _) => Use::Small,
            _ => Use::Large,
        }));
    }
    used
}

/// True when the host holds every buffer of which a segment is kept: it holds those that it has sent so. The ring keeps none for it.
fn kept_are_held(layout: &Layout, held: &Held, descs: &[Desc]) -> bool {
    descs.iter().filter(|desc| desc.kept()).all(|desc| {
        let within = desc.offset().wrapping_sub(layout.pool().buffers);
        let (counts, size) = if desc.small() { (&held.small, SMALL_BUF) } else { (&held.large, LARGE_BUF) };
        counts.get((within / size) as usize).is_some_and(|count| *count != 0)
    })
}

/// Marks the buffers of `descs`, if each of them is a buffer that is not accounted for yet; otherwise none.
fn admit(layout: &Layout, used: &mut [Use], descs: &[Desc]) -> bool {
    let pool = layout.pool();
    let range = |desc: &Desc| {
        let size = Class::of(*desc).size();
        let first = (desc.offset() & !(size - 1)).wrapping_sub(pool.buffers) / SMALL_BUF;
        first as usize..(first + size / SMALL_BUF) as usize
    };
    // (Inline packets are in no buffer. The ring has checked where they lie. Kept ones are where the host holds them.)
    let descs: Vec<Desc> = descs.iter().copied().filter(|desc| !desc.borrowed()).collect();
    for (i, desc) in descs.iter().enumerate() {
        let slots = used.get_mut(range(desc)).unwrap_or_default();
        let inside = (pool.buffers..pool.end).contains(&desc.offset()) && !slots.is_empty();
        if !inside || slots.iter().any(|slot| *slot != Use::Free) {
            for desc in descs.iter().take(i) {
                used.get_mut(range(desc)).unwrap_or_default().fill(Use::Free);
            }
            return false;
        }
        let mark = if desc.small() { Use::Small } else { Use::Large };
        used.get_mut(range(desc)).unwrap_or_default().fill(mark);
    }
    true
}

/// The free buffers: large ones, or small ones where a large one is subdivided. Corrects the words that say
/// which are.
fn free<M: SharedMemory>(mem: &M, layout: &Layout, used: &[Use]) -> Vec<(u32, Class)> {
    let (pool, most) = (layout.pool(), layout.config().buffers / 2);
    let (mut free, mut split) = (Vec::new(), 0);
    for (i, slots) in (0u32..).zip(used.chunks(SMALL_PER_LARGE as usize)) {
        let (chunk, kind) = (pool.buffers + i * LARGE_BUF, pool.kinds + i * 8);
        let is = |what: Use| slots.contains(&what);
        // Nobody holds a part of it: it is what the dead NIC says, as long as enough large ones remain.
        let unused = !is(Use::Small) && !is(Use::Large);
        let small = is(Use::Small) || unused && mem.load_acquire(kind) != 0 && split < most;
        split += u32::from(small);
        mem.store_release(kind, u64::from(small));
        if small {
            let unused = (0u32..).zip(slots).filter(|(_, slot)| **slot == Use::Free);
            free.extend(unused.map(|(j, _)| (chunk + j * SMALL_BUF, Class::Small)));
        } else if unused {
            free.push((chunk, Class::Large));
        }
    }
    mem.store_release(pool.split, u64::from(split));
    free
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buf::Burst;
    use crate::config::Config;
    use crate::desc::FLAG_SMALL;
    use crate::layout::QueueLayout;
    use crate::nic::{NicQueue, Pipeline};
    use crate::ring::{Consumer, Doorbell, GroupedClear, GroupedEpoch, Packed, Padded, Producer};
    use crate::testing::{Sides, config, rounds};

    fn reclaim<R: Ring>(sides: &mut Sides<R>) -> usize {
        let mut inventory = Inventory::new(&sides.mem, &sides.layout);
        inventory.count_pair(&sides.host);
        inventory.repair_rings(&mut sides.host);
        let lost = inventory.reclaim();
        post_again(&mut sides.host);
        lost
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

    /// What stands for buffers in a fill ring is believed only if the host may have posted it: it would count as posted for ever.
    fn changed_receive_buffers_are_posted_anew<R: Ring>() {
        let config = Config { shared_pool: false, ..config::<R>() };
        let somewhere_inside = |word| word + 64;
        let too_small = |word| word | u64::from(FLAG_SMALL) << 48;
        for change in [somewhere_inside, too_small] as [fn(u64) -> u64; 2] {
            let mut sides = Sides::<R>::new(&config);
            let (fill, pool) = (sides.layout.queue(0).unwrap().fill, *sides.layout.pool());
            for at in (fill.units..fill.units + fill.count * R::DESIGN.unit()).step_by(16) {
                let word = sides.mem.load(at);
                if (pool.buffers..pool.end).contains(&(word as u32)) {
                    sides.mem.store(at, change(word));
                }
            }
            assert_eq!(reclaim(&mut sides), 32, "{:?}", R::DESIGN);
            sides.nic = NicQueue::new(sides.mem.clone(), &sides.layout, 0).unwrap();
            for i in 0..rounds(20, 2) as u8 {
                assert_eq!((sides.send(9000, 6, i), sides.poll(), sides.receive(6, |_, _| ())), (6, 6, 6));
            }
            assert_eq!(sides.nic.counters().bad_descriptor, 0);
        }
    }

    /// Found by the fuzz target `recovery`: a queue of three posted buffers, one of which its NIC could not use, received no packet of
    /// three buffers any more, nor those behind it.
    #[test]
    fn receive_buffers_that_the_dead_nic_has_changed_are_posted_anew() {
        changed_receive_buffers_are_posted_anew::<Doorbell>();
        changed_receive_buffers_are_posted_anew::<GroupedEpoch>();
        changed_receive_buffers_are_posted_anew::<Packed>();
    }

    /// The bytes of the buffers in the depots, each of which must be there once.
    fn free_bytes<R: Ring>(sides: &Sides<R>) -> u32 {
        let (mut bytes, mut seen) = (0, Vec::new());
        Allocator::walk(&sides.mem, &sides.layout, |at, class| {
            assert!(!seen.contains(&at), "{at} is free twice");
            seen.push(at);
            bytes += class.size();
        });
        bytes
    }

    /// A NIC dies with packets in both rings and in its hands, after it has done `damage`. Its successor
    /// serves the queue, and nothing is lost, or free while the program holds it.
    fn survives<R: Ring>(damage: impl Fn(&Sides<R>, QueueLayout, &Burst)) {
        let mut sides = Sides::<R>::new(&config::<R>());
        let pool = sides.layout.pool().end - sides.layout.pool().buffers;
        let mut held = Burst::new();
        sides.host.alloc(64, 3, &mut held);
        sides.host.alloc(1500, 3, &mut held);
        for len in [64, 1500, 9000] {
            assert!(sides.send(len, 6, 1) > 0 && sides.poll() > 0);
        }
        assert_eq!((sides.send(64, 3, 1), sides.fetch().rest().len(), sides.send(64, 3, 1)), (3, 3, 3));
        damage(&sides, sides.layout.queue(0).unwrap(), &held);
        reclaim(&mut sides);
        sides.nic = NicQueue::new(sides.mem.clone(), &sides.layout, 0).unwrap();
        sides.pipeline = Pipeline::default();
        held.iter_mut().for_each(|buf| sides.host.with_mut(buf, |bytes| bytes.fill(9)));
        for _ in 0..rounds(100, 20) {
            sides.poll();
            sides.receive(32, |_, byte| assert_ne!(byte, Some(9), "a buffer that is held"));
        }
        for i in 0..rounds(100, 5) {
            assert_eq!((sides.send(64, 1, 5), sides.poll()), (1, 1), "{:?}, packet {i}", R::DESIGN);
            assert_eq!(sides.receive(32, |_, byte| assert_eq!(byte, Some(5))), 1);
        }
        assert!(
            held.as_slice().iter().all(|buf| sides.host.with(buf, |bytes| bytes == [9].repeat(bytes.len())))
        );
        sides.host.free(&mut held);
        sides.nic.retire();
        sides.host.retire();
        let mut posted = 0;
        <R as Ring>::Consumer::resume(&sides.mem, &sides.layout.queue(0).unwrap().fill)
            .peek(&sides.mem, |_| posted += u32::from(!sides.layout.config().shared_pool));
        assert_eq!(free_bytes(&sides) + posted * LARGE_BUF, pool, "{:?}", R::DESIGN);
    }

    fn survive_all<R: Ring>() {
        survives::<R>(|_, _, _| ());
        // Positions that cannot be.
        for position in [0, 1, 1 << 20, u64::MAX] {
            survives::<R>(|sides, queue, _| {
                for at in [queue.tx.taken, queue.tx.head, queue.rx.tail, queue.fill.taken, queue.fill.head] {
                    sides.mem.store(at, position);
                }
            });
        }
        // Buffers that the program holds: in its receive ring, and free.
        survives::<R>(|sides, queue, held| {
            let desc = held.as_slice()[4].desc();
            <R as Ring>::Producer::resume(&sides.mem, &queue.rx).push(&sides.mem, &[desc, desc]);
            Allocator::rebuild(&sides.mem, &sides.layout, |class| match class {
                Class::Small => vec![held.as_slice()[0].desc().offset() & !(SMALL_BUF - 1); 4],
                Class::Large => vec![desc.offset() & !(LARGE_BUF - 1); 4],
            });
        });
        // Which buffers are subdivided, and the units of the transmit ring.
        for kind in [0, 1, u64::MAX] {
            survives::<R>(|sides, queue, _| {
                for chunk in 0..64 {
                    sides.mem.store(sides.layout.pool().kinds + chunk * 8, kind);
                }
                sides.mem.store(sides.layout.pool().split, kind);
                for unit in 0..queue.tx.count {
                    sides.mem.store(queue.tx.units + unit * R::DESIGN.unit(), kind << 56);
                }
            });
        }
    }

    #[test]
    fn whatever_a_dead_nic_has_written_its_successor_goes_on_and_nothing_is_lost_or_doubled() {
        let all = [
            survive_all::<GroupedEpoch>,
            survive_all::<Doorbell>,
            survive_all::<GroupedClear>,
            survive_all::<Packed>,
            survive_all::<Padded>,
        ];
        all.into_iter().take(rounds(5, 2)).for_each(|survive| survive());
    }
}
