//! Rings whose signals lie in the descriptors' own lines: one line transfer brings the signal and the
//! descriptors (CC-NIC section 3.2, figure 6b).
//!
//! A *unit* is what one signal covers: a line of up to four descriptors (grouped), one descriptor (packed),
//! or one descriptor alone in its line (padded).

mod consumer;
#[cfg(test)]
mod inline_tests;
mod producer;

use crate::config::Design;
use crate::desc::{DESC, Desc, SIGNAL_SHIFT};
use crate::layout::AREA;
use crate::memory::{LINE, SharedMemory};

use super::signal::{Clear, Epoch, Signal};
use super::{Ring, Slots, sane};

use consumer::UnitConsumer;
use producer::UnitProducer;

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

macro_rules! unit_ring {
    ($ring:ident, $signal:ident) => {
        impl Ring for $ring {
            const DESIGN: Design = Design::$ring;
            type Producer =
                UnitProducer<{ Design::$ring.unit() }, { Design::$ring.per_unit() as usize }, $signal>;
            type Consumer =
                UnitConsumer<{ Design::$ring.unit() }, { Design::$ring.per_unit() as usize }, $signal>;
        }
    };
}

unit_ring!(GroupedEpoch, Epoch);
unit_ring!(GroupedClear, Clear);
unit_ring!(Packed, Clear);
unit_ring!(Padded, Clear);

/// The most descriptors of a unit.
const MOST: usize = (LINE / DESC) as usize;

/// A position inside a unit, as the `taken` line holds it.
fn encode(position: u64, within: u32) -> u64 {
    position << 3 | u64::from(within & 7)
}

fn decode(word: u64) -> (u64, u32) {
    (sane(word >> 3), (word & 7) as u32)
}

/// Makes units look as if nothing had ever been published in them. For recovery.
fn clear<M: SharedMemory>(mem: &M, slots: &Slots, unit: u32, positions: core::ops::Range<u64>) {
    for position in positions {
        mem.store_release(slots.at(position, unit), 0); // B1
    }
}

/// True when the data of a descriptor lie in the area at `area`.
fn lies_in(area: u32, desc: Desc) -> bool {
    desc.offset().wrapping_sub(area).saturating_add(u32::from(desc.len())) <= AREA
}

/// True when the unit of `unit` bytes at `position` was published in the lap of that position. For
/// successors.
#[inline(always)]
fn is_ready<S: Signal, M: SharedMemory>(mem: &M, slots: &Slots, unit: u32, position: u64) -> bool {
    let word = mem.load_acquire(slots.at(position, unit)); // A2
    S::is_of((word >> SIGNAL_SHIFT) as u8, slots.lap(position))
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::heap::HeapMemory;
    use crate::layout::RingLayout;
    use crate::ring::{Consumer, IDLE_POLLS, Producer};
    use crate::testing::rounds;
    use std::vec::Vec;

    /// 16 units at 4096, each position in a line of its own.
    const RING: RingLayout = RingLayout { units: 4096, areas: 0, count: 16, tail: 0, head: 64, taken: 128 };

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
        for n in (1..=12).cycle().take(rounds(200, 30)) {
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
        // As a producer leaves it that dies while it publishes a chain: the last unit is ready, the first is
        // not.
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
