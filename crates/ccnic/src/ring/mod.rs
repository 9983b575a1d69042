//! Rings: bursts of descriptors from one side to the other, one producer and one consumer.
//!
//! One burst API, five rings ([`Design`]): four say "ready" inside the descriptors' own lines (`inline.rs`, with the
//! signal of `signal.rs`), one in registers beside them (`doorbell.rs`).
//!
//! # The contract
//!
//! | | producer | consumer |
//! |---|---|---|
//! | may write | the units from its position up to its credit, and its `tail` line | its `head` and `taken` lines; with *clear*, the signal of a unit that it has taken |
//! | may read | the `head` line (*clear*: the signal of the units it is about to write) | units, from its position on, that are ready |
//! | hands over | by the unit's signal, written last | by `head` (*clear*: by zeroing the signal) |
//! | must never | touch a unit between publishing it and getting it back | read past a unit that is not ready |
//!
//! A packet of several descriptors (a chain) is published from its last unit back to its first, so that a consumer
//! that sees its beginning sees all of it, even when the producer dies in between.
//!
//! # Ordering: the one diagram
//!
//! Every access that crosses sides names its letter.
//!
//! ```text
//!      producer (or the side that gives)                      consumer (or the side that takes)
//!      ---------------------------------                      ---------------------------------
//!      payload, descriptors: plain stores
//!  A1  signal of the unit: store_release      ------------->  A2  signal of the unit: load_acquire
//!                                                                 descriptors, payload: plain loads
//!  B2  signal of a unit to reuse: load_acquire <------------  B1  signal = 0: store_release         (clear)
//!  C2  head line: load_acquire                <-------------  C1  head line: store_release          (epoch)
//!      descriptors: plain stores
//!  D1  tail register: store_release           ------------->  D2  tail register: load_acquire       (doorbell)
//!  E2  head register: load_acquire            <-------------  E1  head register: store_release      (doorbell)
//!
//!  F1  free list head: compare_exchange       ------------->  F2  free list head: load_acquire, compare_exchange
//!  G1  header magic: store_release            ------------->  G2  header magic: load_acquire
//!  H2  rx_event line: load_acquire            <-------------  H1  rx_event line: store_release          (to be woken)
//! ```
//!
//! H has no fence between a side's store and the load of the other's that comes after it: the consumer may look past a unit
//! that is published while it goes to sleep, and the producer past that sleep. The producer's *next* look at H2 finds it, so it
//! must look again and again, and it does: it polls (`sleep.rs`).
//!
//! A side's own `tail` and `taken` lines are read by others only after it has died, through a system call's order. `rx_dropped` beside
//! `tx.taken` is a statistic: what the host reads of it may be old, and nothing depends on it.

mod dispatch;
mod doorbell;
mod inline;
mod signal;

use crate::config::Design;
use crate::desc::{CHAIN_MAX, Desc, Slot};
use crate::layout::RingLayout;
use crate::memory::SharedMemory;

pub use dispatch::RingVisitor;
pub use doorbell::Doorbell;
pub use inline::{GroupedClear, GroupedEpoch, Packed, Padded};

/// After this many polls in vain a side counts as idle: it waits for the other, and the ring is nearly empty. Under load there
/// are none or few between two bursts; while one packet makes its round trip there are dozens.
pub(crate) const IDLE_POLLS: u32 = 8;

/// A kind of ring: a producer and a consumer that understand each other.
pub trait Ring: 'static {
    /// Which one, in a region's header.
    const DESIGN: Design;
    /// The writing end.
    type Producer: Producer;
    /// The reading end.
    type Consumer: Consumer;
}

/// The writing end of a ring. Belongs to one thread.
pub trait Producer: Sized + Send {
    /// Takes up a ring where its last producer left it: at the start, or where a dead predecessor stopped.
    fn resume<M: SharedMemory>(mem: &M, layout: &RingLayout) -> Self;

    /// Descriptors that a push is sure to take now, at most `want`. Looks at the other side's lines only when the
    /// credit known so far is less than `want`.
    fn room<M: SharedMemory>(&mut self, mem: &M, want: usize) -> usize;

    /// Fetches, with ownership, the lines that the next push of `descs` descriptors will write.
    fn prefetch<M: SharedMemory>(&self, mem: &M, descs: usize);

    /// Publishes `descs` in order, as many whole packets as there is room for; returns the number of descriptors
    /// taken. A packet whose last descriptor is not in `descs` is not taken.
    fn push<M: SharedMemory, D: Slot>(&mut self, mem: &M, descs: &[D]) -> usize;

    /// Demotes the lines that the last push wrote.
    fn demote<M: SharedMemory>(&self, mem: &M);

    /// The position of the next unit to write, counted from the ring's first use.
    fn position(&self) -> u64;

    /// The position up to which the consumer has handed back units.
    fn completed<M: SharedMemory>(&mut self, mem: &M) -> u64;

    /// The most descriptors in a unit.
    const PER_UNIT: usize;
}

/// The reading end of a ring. Belongs to one thread.
pub trait Consumer: Sized + Send {
    /// Takes up a ring where its last consumer left it.
    fn resume<M: SharedMemory>(mem: &M, layout: &RingLayout) -> Self;

    /// Takes descriptors of whole packets into `out` and returns their number. A packet with more segments than
    /// `out` has places stays in the ring; offer [`CHAIN_MAX`] places to be sure of progress. What comes out has
    /// whatever contents the producer chose.
    fn pop<M: SharedMemory, D: Slot>(&mut self, mem: &M, out: &mut [D]) -> usize;

    /// Of what the last pop took, keeps the first `n` descriptors: the others stand in the ring again. Only before they
    /// are released, and only where every packet has one segment (blank buffers).
    fn keep<M: SharedMemory>(&mut self, mem: &M, n: usize);

    /// Fetches the lines that hold the next `descs` descriptors, for when they are sure to be there.
    fn prefetch<M: SharedMemory>(&self, mem: &M, descs: usize);

    /// Hands back every unit taken so far.
    fn release<M: SharedMemory>(&mut self, mem: &M);

    /// True when the last pop that found something came after many in vain: this reader waits for the producer.
    fn was_idle(&self) -> bool;

    /// The position of the next unit to read, counted as [`Producer::position`].
    fn position(&self) -> u64;

    /// True when there is something to take. Takes nothing.
    fn ready<M: SharedMemory>(&self, mem: &M) -> bool;

    /// Descriptors discarded because their chain was longer than [`CHAIN_MAX`].
    fn discarded(&self) -> u64;

    /// Shows every descriptor that is published and not yet taken; takes nothing. For recovery.
    fn peek<M: SharedMemory>(&self, mem: &M, see: impl FnMut(Desc));
}

/// True when a packet has more than one segment.
#[inline(always)]
fn has_chains<D: Slot>(descs: &[D]) -> bool {
    // Without an early exit: the common answer needs all of them, and the loop vectorises.
    descs.iter().fold(false, |any, d| any | d.desc().more())
}

/// How many descriptors of `descs[..limit]` make whole packets of at most [`CHAIN_MAX`] segments.
#[cold]
#[inline(never)]
fn whole<D: Slot>(descs: &[D], limit: usize) -> usize {
    let (mut whole, mut run) = (0, 0);
    for (i, desc) in descs.iter().enumerate().take(limit) {
        run += 1;
        if run > CHAIN_MAX {
            break;
        }
        if !desc.desc().more() {
            (whole, run) = (i + 1, 0);
        }
    }
    whole
}

/// What a consumer does about descriptors that do not end their packet.
#[derive(Debug, Default)]
struct ChainGuard {
    discarding: bool,
    discarded: u64,
}

impl ChainGuard {
    /// Judges a batch that ends inside a chain: how many descriptors to deliver, how many to consume.
    ///
    /// A producer publishes a chain at once, so the rest is either beyond `out`, or the chain is longer than it may
    /// be; such a chain is consumed and dropped, wherever it ends.
    #[cold]
    #[inline(never)]
    fn cut<D: Slot>(&mut self, batch: &mut [D]) -> (usize, usize) {
        let skip = if self.discarding {
            let end = batch.iter().position(|d| !d.desc().more()).map_or(batch.len(), |i| i + 1);
            self.discarding = end == batch.len() && batch.last().is_some_and(|d| d.desc().more());
            self.discarded += end as u64;
            batch.rotate_left(end);
            end
        } else {
            0
        };
        let rest = batch.len() - skip;
        let kept = whole(batch, rest);
        if rest - kept >= CHAIN_MAX {
            self.discarding = true;
            self.discarded += (rest - kept) as u64;
            return (kept, batch.len());
        }
        (kept, skip + kept)
    }
}

/// Ring arithmetic, in one layout: which offset and which lap a position has.
///
/// Positions count units from the ring's first use and never wrap (64 bits).
#[derive(Debug, Clone, Copy)]
pub struct Slots {
    units: u32,
    mask: u32,
    bits: u32,
}

/// A position as a dead predecessor or a hostile peer left it, cut so that arithmetic on it cannot overflow (2^56
/// units last for decades).
fn sane(position: u64) -> u64 {
    position & (u64::MAX >> 8)
}

impl Slots {
    fn new(layout: &RingLayout) -> Slots {
        Slots { units: layout.units, mask: layout.count - 1, bits: layout.count.trailing_zeros() }
    }

    /// Offset of the unit of `bytes` bytes at `position`.
    #[inline(always)]
    fn at(&self, position: u64, bytes: u32) -> u32 {
        self.units + (position as u32 & self.mask) * bytes
    }

    /// Which time around the ring `position` is.
    #[inline(always)]
    fn lap(&self, position: u64) -> u64 {
        position >> self.bits
    }

    /// Number of units.
    #[inline(always)]
    fn count(&self) -> u64 {
        u64::from(self.mask) + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_wrap_to_units_and_count_laps() {
        let slots = Slots::new(&RingLayout { units: 4096, count: 16, tail: 0, head: 0, taken: 0 });
        assert_eq!((slots.at(0, 64), slots.at(15, 64), slots.at(16, 64)), (4096, 4096 + 15 * 64, 4096));
        assert_eq!((slots.lap(15), slots.lap(16), slots.lap(u64::MAX)), (0, 1, u64::MAX >> 4));
        assert_eq!(slots.at(u64::MAX, 16), 4096 + 15 * 16);
    }

    #[test]
    fn a_prefix_of_whole_packets() {
        let one = Desc::new(0, 1, 0);
        let more = one.with_more(true);
        assert_eq!(whole(&[one, one], 2), 2);
        assert_eq!(whole(&[one, more, one], 2), 1);
        assert_eq!(whole(&[more, more], 2), 0);
        assert_eq!(whole::<Desc>(&[], 7), 0);
    }

    #[test]
    fn an_endless_chain_is_dropped_where_it_ends() {
        let one = Desc::new(1, 1, 0);
        let more = Desc::new(2, 1, 0).with_more(true);
        let mut guard = ChainGuard::default();
        let mut batch = [more; 32];
        batch[0] = one;
        assert_eq!(guard.cut(&mut batch), (1, 32));
        let mut batch = [more, more, one, one, one, more];
        batch[2] = Desc::new(3, 1, 0);
        assert_eq!(guard.cut(&mut batch), (2, 5));
        assert_eq!(batch[0], one);
        assert_eq!(guard.discarded, 31 + 3);
        assert!(!guard.discarding);
    }
}
