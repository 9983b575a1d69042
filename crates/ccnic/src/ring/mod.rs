//! Rings: bursts of descriptors from one side to the other, one producer and one consumer.
//!
//! One burst API, five rings ([`Design`]): four have their signals inside the descriptors' own lines
//! (`units/`, with the encodings of `signal.rs`), one has registers beside them (`doorbell.rs`).
//! `dispatch.rs` goes from a design to its ring type.
//!
//! # The contract
//!
//! | | producer | consumer |
//! |---|---|---|
//! | may write | the units from its position up to its credit, and its `tail` line | its `head` and `taken` lines; with *clear*, the signal of a unit that it has taken |
//! | may read | the `head` line (*clear*: the signal of the units it is about to write) | units, from its position on, that are ready |
//! | hands over | by the unit's signal, written last | by `head` (*clear*: by zeroing the signal) |
//! | must never | access a unit between publishing it and getting it back | read past a unit that is not ready |
//!
//! # Inline payload
//!
//! Beside unit *i* lies area *i* of seven lines ([`AREA`]), where the ring has areas. The producer writes short
//! packets there, each from the start of a line on, and marks their descriptors [`FLAG_INLINE`](crate::desc::FLAG_INLINE). An area
//! belongs to the side that its unit belongs to: one signal hands over both, and a reader that finds the signal can request the
//! descriptors' line and the payload's lines at once, which lie in runs. So a consumer hands a unit back only when it has copied or read
//! its payload ([`Consumer::release_to`]). A unit may hold inline packets and packets in buffers of the pool.
//!
//! The producer fills a unit packet by packet ([`Producer::place`], [`Producer::add`]), publishes it when it is full, and the last one
//! with [`Producer::close`].
//!
//! A packet of several descriptors (a chain) is published from its last unit back to its first. When the
//! first unit is ready, the whole chain is, even if the producer dies in between.
//!
//! # Kept segments
//!
//! A descriptor with [`FLAG_KEPT`](crate::desc::FLAG_KEPT) names bytes of a buffer that stays the producer's, who changes them when it has
//! the units of all packets with them back: B1, C1 or E1 below comes after the consumer's last load of these bytes, and the producer stores
//! to them after B2, C2 or E2. So a consumer hands such a unit back only when it has read the bytes, as with inline payload, and then does
//! not postpone it ([`Consumer::release_now`]).
//!
//! # Ordering: the one diagram
//!
//! Every access of one side to what the other writes is marked in the source with its letter.
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
//!      kept bytes: plain stores, after B2, C2, E2                 kept bytes: plain loads, before B1, C1, E1
//!
//!  F1  depot head: compare_exchange           ------------->  F2  depot head: load_acquire, compare_exchange
//!  F3  end of the pool's ring: store_release  ------------->  F4  end of the pool's ring: load_acquire     (mempool)
//!  G1  header magic: store_release            ------------->  G2  header magic: load_acquire
//!  H2  rx_event line: load_acquire            <-------------  H1  rx_event line: store_release          (notification)
//!                                                             I1  tx_event line: store_release          (the NIC sleeps)
//!      light barrier                          <-------------      heavy barrier: fences both sides
//!  I2  tx_event line: load_acquire                            A2  signal of the unit: load_acquire
//!
//!      caller ([`call`](crate::call))                         server
//!      ------                                                 ------
//!      request: plain stores
//!  J1  request's word: store_release          ------------->  J2  request's word: load_acquire
//!                                                                 request: plain loads; answer: plain stores
//!  K2  answer's word: load_acquire            <-------------  K1  answer's word: store_release
//!      answer: plain loads
//!  L2  event word: load_acquire               <-------------  L1  event word: store_release         (either side sleeps)
//! ```
//!
//! H has no fence between a side's store and its next load of the other's line. A consumer that arms itself
//! may miss a unit that is published at the same time, and the producer may miss that it is armed. The
//! producer's *next* load at H2 sees it; the producer polls, so there is a next one (`notify.rs`).
//!
//! I has fences: the program does not poll, so its one load at I2 must see the request, or the NIC's last look at A2 what
//! has been published. The NIC, which sleeps rarely, pays for both (`notify.rs`).
//!
//! J and K alternate, so no slot is written before the other side has read it: the slot of request n + 1 is that of answer n, which the
//! caller has taken, and the server writes answer n + 1 where it has taken request n. L is I, for either side: between the store of a
//! word at J1 or K1 and the load at L2 stands a light barrier, between L1 and the last look at J2 or K2 a heavy one.
//!
//! A side's own `tail` and `taken` lines are read by others only after it has died, ordered by system calls.
//! `rx_dropped`, beside `tx.taken`, is a statistic: the host may read an old value, and nothing depends on
//! it.

mod dispatch;
mod doorbell;
mod signal;
mod units;

use crate::config::Design;
use crate::desc::{CHAIN_MAX, Desc, Slot};
use crate::layout::{AREA, RingLayout};
use crate::memory::SharedMemory;

pub use dispatch::RingVisitor;
pub use doorbell::Doorbell;
pub use units::{GroupedClear, GroupedEpoch, Packed, Padded};

/// After this many empty polls a side counts as idle: it waits for the other, and the ring is nearly empty.
/// Under load there are none or few between two bursts; during the round trip of a single packet there are
/// dozens.
pub const IDLE_POLLS: u32 = 8;

/// A ring type: a producer and a consumer for the same layout of units and signals.
pub trait Ring: 'static {
    /// Its number in a region's header.
    const DESIGN: Design;
    /// True when its regions may have areas ([`Config::has_areas`](crate::Config::has_areas)). What only areas need is not compiled for
    /// the other designs.
    const AREAS: bool = Self::Consumer::AREAS;
    /// The writing end.
    type Producer: Producer;
    /// The reading end.
    type Consumer: Consumer;
}

/// The writing end of a ring. Belongs to one thread.
pub trait Producer: Sized + Send {
    /// Opens a ring where its last producer left it: at the start, or where a dead predecessor stopped.
    fn resume<M: SharedMemory>(mem: &M, layout: &RingLayout) -> Self;

    /// Descriptors that a push is sure to take now, at most `want`. Reads the other side's lines only when
    /// the credit known so far is less than `want`.
    fn room<M: SharedMemory>(&mut self, mem: &M, want: usize) -> usize;

    /// Prefetches, with ownership, the lines that the next push of `descs` descriptors will write.
    fn prefetch<M: SharedMemory>(&self, mem: &M, descs: usize);

    /// Publishes `descs` in order, as many whole packets as there is room for; returns the number of
    /// descriptors taken. A packet whose last descriptor is not in `descs` is not taken.
    fn push<M: SharedMemory, D: Slot>(&mut self, mem: &M, descs: &[D]) -> usize;

    /// As [`push`](Producer::push); but where the ring has areas, the last unit is published when it is full or by
    /// [`close`](Producer::close).
    /// `plain`: the caller knows that every packet has one segment.
    #[inline(always)]
    fn append<M: SharedMemory, D: Slot>(&mut self, mem: &M, descs: &[D], plain: bool) -> usize {
        let _ = plain;
        self.push(mem, descs)
    }

    /// True when the ring has areas for inline payload.
    #[inline(always)]
    fn has_areas(&self) -> bool {
        false
    }

    /// Publishes `n` packets of at most a line each, or as many as there is room for; returns their number. `put` is called with the
    /// index of a packet and the offset of a line, writes the packet there and returns its length and metadata. Only with areas.
    #[inline(always)]
    fn push_lines<M: SharedMemory>(
        &mut self,
        mem: &M,
        n: usize,
        put: impl FnMut(usize, u32) -> (u16, u64),
    ) -> usize {
        let _ = (mem, n, put);
        0
    }

    /// Where [`push_lines`](Producer::push_lines) puts packet `i`, if it is called next. Only with areas, and while no unit is open.
    #[inline(always)]
    fn line(&self, i: usize) -> u32 {
        let _ = i;
        0
    }

    /// Where to write a packet of `len` bytes, at most [`AREA`], that [`add`](Producer::add) adds next. `None` when the ring is full or
    /// has no areas.
    #[inline(always)]
    fn place<M: SharedMemory>(&mut self, mem: &M, len: u32) -> Option<u32> {
        let _ = (mem, len);
        None
    }

    /// Adds the packet that was written where [`place`](Producer::place) said.
    #[inline(always)]
    fn add<M: SharedMemory>(&mut self, mem: &M, at: u32, len: u16, meta: u64) {
        let _ = (mem, at, len, meta);
    }

    /// Publishes the unit that has been begun.
    #[inline(always)]
    fn close<M: SharedMemory>(&mut self, mem: &M) {
        let _ = mem;
    }

    /// Where the ring has areas: whether the lines of units and areas published from now on are demoted, and how many units behind the one
    /// that is published are requested, to be written.
    #[inline(always)]
    fn begin(&mut self, demote: bool, ahead: u8) {
        let _ = (demote, ahead);
    }

    /// Demotes the lines that the last push wrote.
    fn demote<M: SharedMemory>(&self, mem: &M);

    /// The position of the next unit to write, counted from the ring's first use.
    fn position(&self) -> u64;

    /// The position up to which the consumer has handed back units: reads its lines.
    fn completed<M: SharedMemory>(&mut self, mem: &M) -> u64;

    /// The position up to which it is known to have: reads nothing.
    fn known_completed(&self) -> u64;

    /// After the consumer has died, before its successor opens the ring: makes the ring what this side knows.
    /// The consumer's positions and the descriptors that it has not taken are what the dead one left, if
    /// they can be and `keep` accepts these descriptors. Otherwise everything counts as taken.
    fn repair<M: SharedMemory>(&mut self, mem: &M, layout: &RingLayout, keep: impl FnOnce(&[Desc]) -> bool);

    /// The most descriptors in a unit.
    const PER_UNIT: usize;
}

/// The reading end of a ring. Belongs to one thread.
pub trait Consumer: Sized + Send {
    /// See [`Ring::AREAS`].
    const AREAS: bool = false;

    /// Opens a ring where its last consumer left it.
    fn resume<M: SharedMemory>(mem: &M, layout: &RingLayout) -> Self;

    /// As [`resume`](Consumer::resume), only to [`peek`](Consumer::peek) at a ring that another consumer is using: writes nothing.
    fn look<M: SharedMemory>(mem: &M, layout: &RingLayout) -> Self;

    /// Takes descriptors of whole packets into `out` and returns their number. A packet with more segments
    /// than `out` has slots for stays in the ring; [`CHAIN_MAX`] slots always suffice. The descriptors are as
    /// the producer wrote them: unchecked, and packets of up to `out.len()` segments among them.
    #[inline(always)]
    fn pop<M: SharedMemory, D: Slot>(&mut self, mem: &M, out: &mut [D]) -> usize {
        self.pop_or_discard(mem, out, |_| {})
    }

    /// As [`pop`](Consumer::pop); calls `discard` for each descriptor of a chain that has no end within
    /// `out`, and so more than [`CHAIN_MAX`] segments. It is taken from the ring and handed back.
    fn pop_or_discard<M: SharedMemory, D: Slot>(
        &mut self,
        mem: &M,
        out: &mut [D],
        discard: impl FnMut(Desc),
    ) -> usize;

    /// Keeps the first `n` descriptors of the last pop; the others are in the ring again. Only before they
    /// are released, and only where every packet has one segment (posted receive buffers).
    fn keep<M: SharedMemory>(&mut self, mem: &M, n: usize);

    /// False when there is nothing to take, which then counts as an empty pop. Two dozen instructions less than one, where the ring has
    /// areas; otherwise always true.
    #[inline(always)]
    fn poll<M: SharedMemory>(&mut self, mem: &M) -> bool {
        let _ = mem;
        true
    }

    /// Prefetches the lines of the next `descs` descriptors. For a caller that is sure that they are
    /// published.
    fn prefetch<M: SharedMemory>(&self, mem: &M, descs: usize);

    /// Hands back every unit taken so far.
    #[inline(always)]
    fn release<M: SharedMemory>(&mut self, mem: &M) {
        self.release_to(mem, self.position());
    }

    /// Hands back the units before `position`, which is no further than what was taken.
    fn release_to<M: SharedMemory>(&mut self, mem: &M, position: u64);

    /// As [`release_to`](Consumer::release_to), and does not postpone it: the producer waits for units, not for room.
    #[inline(always)]
    fn release_now<M: SharedMemory>(&mut self, mem: &M, position: u64) {
        self.release_to(mem, position);
    }

    /// True when every descriptor of the last pop is a whole inline packet with data. (An inline descriptor that does not lie in the area of its own unit is replaced by one without
    /// data.)
    #[inline(always)]
    fn all_inline(&self) -> bool {
        false
    }

    /// Where that is so: true when none is longer than a small buffer.
    #[inline(always)]
    fn all_short(&self) -> bool {
        false
    }

    /// True when the last pop that found something came after at least eight empty polls: the consumer waits
    /// for the producer.
    fn was_idle(&self) -> bool;

    /// The position of the next unit to read, counted as [`Producer::position`].
    fn position(&self) -> u64;

    /// The offset of the word that the producer writes when it publishes the next descriptor, with a value that it does not have now.
    fn awaited(&self) -> u32;

    /// True when there is a descriptor to take. Takes nothing.
    fn ready<M: SharedMemory>(&self, mem: &M) -> bool;

    /// Descriptors discarded because their chain was longer than [`CHAIN_MAX`].
    fn discarded(&self) -> u64;

    /// After the producer has died, before its successor opens the ring: keeps what is published and not
    /// taken, if `keep` accepts the descriptors and the last one ends a packet. Otherwise drops all of it.
    /// Nothing else looks published afterwards, and the successor begins where this side reads next.
    ///
    /// `posted` is the end of the posted buffers in a ring that the producer fills in place (doorbell).
    fn repair<M: SharedMemory>(
        &mut self,
        mem: &M,
        layout: &RingLayout,
        posted: u64,
        keep: impl FnOnce(&[Desc]) -> bool,
    );

    /// Calls `see` for every descriptor that is published and not taken; takes nothing. For recovery and
    /// statistics.
    fn peek<M: SharedMemory>(&self, mem: &M, see: impl FnMut(Desc));
}

/// True when a packet has more than one segment.
#[inline(always)]
fn has_chains<D: Slot>(descs: &[D]) -> bool {
    // No early exit: usually all descriptors have to be read, and the loop vectorises.
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

/// Drops chains that have no end.
#[derive(Debug, Default)]
struct ChainGuard {
    discarding: bool,
    discarded: u64,
}

impl ChainGuard {
    /// For a batch that begins inside a dropped chain or ends inside a chain: how many descriptors to
    /// deliver, and how many to consume. Calls `discard` for those that are dropped.
    ///
    /// A producer publishes a chain at once. So either the rest did not fit into `out`, or the chain is too
    /// long; such a chain is consumed and dropped, also in the following batches.
    #[cold]
    #[inline(never)]
    fn cut<D: Slot>(&mut self, batch: &mut [D], mut discard: impl FnMut(Desc)) -> (usize, usize) {
        let ends = |d: &D| !d.desc().more();
        let mut drop = |dropped: Option<&[D]>| {
            let dropped = dropped.unwrap_or_default();
            self.discarded += dropped.len() as u64;
            dropped.iter().for_each(|d| discard(d.desc()));
        };
        let skip = match (self.discarding, batch.iter().position(ends)) {
            (false, _) => 0,
            (true, Some(last)) => last + 1,
            (true, None) => {
                drop(Some(batch));
                return (0, batch.len());
            }
        };
        let end = batch.iter().rposition(ends).map_or(0, |last| last + 1);
        self.discarding = batch.len() - end >= CHAIN_MAX;
        let consumed = if self.discarding { batch.len() } else { end };
        drop(batch.get(..skip));
        drop(batch.get(end..consumed));
        batch.rotate_left(skip);
        (end - skip, consumed)
    }
}

/// Ring arithmetic, in one place: the offset and the lap of a position.
///
/// Positions count units from the ring's first use and never wrap (64 bits).
#[derive(Debug, Clone, Copy)]
pub struct Slots {
    units: u32,
    /// 0 when there are none.
    areas: u32,
    mask: u32,
    bits: u32,
}

/// A position that a dead predecessor or a hostile peer wrote, truncated so that arithmetic cannot overflow
/// (2^56 units last for decades).
fn sane(position: u64) -> u64 {
    position & (u64::MAX >> 8)
}

impl Slots {
    fn new(layout: &RingLayout) -> Slots {
        Slots {
            units: layout.units,
            areas: layout.areas,
            mask: layout.count - 1,
            bits: layout.count.trailing_zeros(),
        }
    }

    #[inline(always)]
    fn has_areas(&self) -> bool {
        self.areas != 0
    }

    /// Offset of the area beside the unit at `position`.
    #[inline(always)]
    fn area(&self, position: u64) -> u32 {
        self.areas + (position as u32 & self.mask) * AREA
    }

    /// Offset of the unit of `bytes` bytes at `position`.
    #[inline(always)]
    fn at(&self, position: u64, bytes: u32) -> u32 {
        self.units + (position as u32 & self.mask) * bytes
    }

    /// The lap of `position`, from 0.
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
        let slots = Slots::new(&RingLayout { units: 4096, areas: 0, count: 16, tail: 0, head: 0, taken: 0 });
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
        assert_eq!(guard.cut(&mut batch, |_| {}), (1, 32));
        let (mut batch, mut dropped) = ([more; 3], 0);
        assert_eq!(guard.cut(&mut batch, |_| dropped += 1), (0, 3), "however short: it has no end yet");
        let mut batch = [more, more, one, one, one, more];
        batch[2] = Desc::new(3, 1, 0);
        assert_eq!(guard.cut(&mut batch, |_| dropped += 1), (2, 5));
        assert_eq!(batch[0], one);
        assert_eq!((guard.discarded, dropped), (31 + 3 + 3, 3 + 3));
        assert!(!guard.discarding);
    }

    #[test]
    fn packets_around_an_endless_chain_are_delivered() {
        let one = Desc::new(1, 1, 0);
        let more = Desc::new(2, 1, 0).with_more(true);
        let mut guard = ChainGuard::default();
        // A chain of nine that has an end is the caller's to drop.
        let mut batch = [more; 24];
        (batch[8], batch[9]) = (one, one);
        assert_eq!(guard.cut(&mut batch, |_| {}), (10, 24));
        let mut batch = [one, one, one, more, more];
        assert_eq!((guard.cut(&mut batch, |_| {}), guard.discarding), ((2, 3), false));
        assert_eq!(guard.discarded, 14 + 1);
    }
}
