//! Fetching the program's packets, and checking them.

use crate::desc::{CHAIN_MAX, Desc};
use crate::host::NEARLY_EMPTY;
use crate::layout::AREA;
use crate::memory::{Fetch, SharedMemory, prefetch_payload};
use crate::ring::{Consumer, Ring};

use super::fetched::{bytes, first};
use super::kept::has_kept;
use super::{Fetched, NicQueue};

impl<M: SharedMemory, R: Ring> NicQueue<M, R> {
    /// Fetches the program's next packets into `into`, which must be empty; returns the number of
    /// descriptors.
    ///
    /// They have been checked: every segment lies inside one buffer, and every packet is within the MTU.
    /// Their lines are prefetched all at once.
    #[inline(always)]
    pub fn fetch(&mut self, into: &mut Fetched) -> usize {
        let n = self.fetch_ahead(into);
        let fetch = self.payload_fetch(into.rest());
        for desc in into.rest() {
            prefetch_payload(&self.mem, desc.offset(), u32::from(desc.len()), fetch);
        }
        n
    }

    /// How the payload of these packets is requested. What stays its writer's, in an area or kept, is read; other buffers are the NIC's
    /// from now on, so their lines are requested as the tuning says. The first packet stands for all: those of a burst are mostly alike,
    /// and it is a hint.
    #[inline(always)]
    pub(super) fn payload_fetch(&self, packets: &[Desc]) -> Fetch {
        if packets.first().is_some_and(|first| first.borrowed()) {
            Fetch::Read
        } else {
            self.tuning.payload()
        }
    }

    /// False when there is nothing to fetch: a cheap look, which counts as an empty fetch.
    #[inline(always)]
    pub fn poll(&mut self) -> bool {
        self.tx.poll(&self.mem)
    }

    /// True when a burst may be fetched before the last one is completed. With the host-managed pool the host
    /// frees the buffers of units that are handed back, so each burst must be completed first.
    pub fn may_fetch_ahead(&self) -> bool {
        self.config.shared_pool
    }

    /// As [`fetch`](NicQueue::fetch), but the packets' lines are not prefetched:
    /// [`deliver`](NicQueue::deliver) does that while it copies the burst before.
    #[inline(always)]
    pub fn fetch_ahead(&mut self, into: &mut Fetched) -> usize {
        (into.next, into.len, into.moved) = (0, 0, 0);
        if !self.taken.has_room() || (self.kept_until != 0 && self.waits_for_kept()) {
            return 0;
        }
        let n = self.tx.pop(&self.mem, &mut into.descs);
        into.len = n;
        if n == 0 {
            self.skip_discarded();
            return 0;
        }
        if self.sender_bits != u64::MAX {
            let bits = self.sender_bits;
            into.descs.iter_mut().take(n).for_each(|desc| desc.meta &= bits);
        }
        self.idle = n < NEARLY_EMPTY && self.tx.was_idle();
        into.bytes = bytes(into.rest());
        let descs = into.rest();
        self.counters.tx_packets += n as u64;
        self.counters.tx_bytes += into.bytes;
        let inline = self.tx.all_inline() && self.config.mtu >= AREA as u16;
        let plain = inline
            || self.pool.alike(descs).is_some_and(|class| u32::from(self.config.mtu) >= class.size())
            || {
                let plain = descs.iter().fold(true, |ok, d| ok & self.plain(*d));
                if has_kept(descs) {
                    self.note_kept(into);
                }
                plain
            };
        if !plain {
            self.sift(into);
        }
        self.open += into.len;
        if self.has_areas() {
            self.popped = self.tx.position();
            self.taken.take(into.len, self.popped);
        }
        into.len
    }

    /// Hands back the units of a chain without an end, all of which the ring has dropped.
    #[inline(always)]
    fn skip_discarded(&mut self) {
        if self.has_areas() && self.tx.position() != self.popped && self.open == 0 {
            self.popped = self.tx.position();
            self.taken.release(); // which lies before, and must not be handed back later
            self.tx.release(&self.mem);
        }
    }

    /// True for a whole packet in one legal segment.
    #[inline(always)]
    pub(super) fn plain(&self, desc: Desc) -> bool {
        !desc.more() & self.legal(desc) & (desc.len() <= self.config.mtu)
    }

    /// True when the segment lies inside one buffer of the class that it claims.
    #[inline(always)]
    pub(super) fn holds(&self, desc: Desc) -> bool {
        self.pool.holds_segment(desc)
    }

    /// As `holds`, or the segment is inline: the ring has found out that it lies in the area of its unit.
    #[inline(always)]
    fn holds_or_inline(&self, desc: Desc) -> bool {
        self.holds(desc) | (desc.inline() & self.has_areas())
    }

    /// As `holds`, and the segment has data.
    #[inline(always)]
    pub(super) fn legal(&self, desc: Desc) -> bool {
        !desc.is_empty() && self.holds_or_inline(desc)
    }

    /// A burst with chains, or with an invalid descriptor: keeps the valid packets and counts the others.
    #[cold]
    #[inline(never)]
    fn sift(&mut self, into: &mut Fetched) {
        let fetched = core::mem::take(into);
        self.counters.tx_packets -= fetched.len as u64;
        let mut rest = fetched;
        while !rest.is_empty() {
            let packet = first(rest.rest());
            let len = packet.iter().map(|d| u32::from(d.len())).sum::<u32>();
            self.counters.tx_packets += 1;
            if packet.len() > CHAIN_MAX {
                self.counters.bad_chain += 1;
            } else if !packet.iter().all(|d| self.legal(*d)) {
                self.counters.bad_descriptor += 1;
                // A mistake of an honest program, such as a segment without bytes: free its buffers.
                for desc in packet.iter().copied() {
                    if self.holds(desc) {
                        self.free(desc);
                    }
                }
            } else if len > u32::from(self.config.mtu) {
                self.counters.too_long += 1;
                packet.iter().for_each(|d| self.free(*d));
            } else {
                for (slot, desc) in into.descs.iter_mut().skip(into.len).zip(packet) {
                    *slot = *desc;
                }
                into.len += packet.len();
            }
            let n = packet.len();
            rest.advance(n);
        }
        into.bytes = bytes(into.rest());
        if into.is_empty() {
            into.dropped = rest.len;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::desc::FLAG_MORE;
    use crate::layout::LARGE_BUF;
    use crate::nic::NicCounters;
    use crate::ring::{Packed, Producer};
    use crate::testing::{Sides, config};

    /// What a NIC makes of descriptors that a hostile program has published: those it fetches, and its
    /// counters.
    fn fetched<const N: usize>(descs: impl Fn(u32) -> [Desc; N]) -> (usize, NicCounters) {
        let mut sides = Sides::<Packed>::new(&Config { mtu: 5000, ..config::<Packed>() });
        let mut tx = <Packed as Ring>::Producer::resume(&sides.mem, &sides.layout.queue(0).unwrap().tx);
        assert_eq!(tx.push(&sides.mem, &descs(sides.layout.pool().buffers)), N);
        (sides.fetch().rest().len(), sides.nic.counters())
    }

    #[test]
    fn invalid_descriptors_are_dropped_and_counted() {
        let (n, counters) = fetched(|pool| {
            [
                Desc::new(pool, 64, 0),
                Desc::new(pool, 0, 0),
                Desc::new(pool - 1, 64, 0),
                Desc::new(pool + LARGE_BUF - 63, 64, 0),
                Desc::new(u32::MAX, 64, 0),
                Desc::new(pool, 4096, 0),
            ]
        });
        assert_eq!((n, counters.tx_packets, counters.bad_descriptor), (2, 6, 4));
    }

    #[test]
    fn of_a_senders_metadata_what_it_may_say_is_fetched() {
        let mut sides = Sides::<Packed>::new(&config::<Packed>());
        let mut tx = <Packed as Ring>::Producer::resume(&sides.mem, &sides.layout.queue(0).unwrap().tx);
        let desc = Desc::new(sides.layout.pool().buffers, 64, 0).with_meta(0x1234_5678_9abc_def0);
        for (bits, meta) in [(u64::MAX, desc.meta), (0xffff << 32, 0x5678 << 32), (0, 0)] {
            sides.nic.set_sender_bits(bits);
            assert_eq!(tx.push(&sides.mem, &[desc; 3]), 3);
            assert!(sides.fetch().rest().iter().all(|desc| desc.meta == meta), "{bits:x}");
        }
    }

    #[test]
    fn packets_longer_than_the_mtu_are_dropped() {
        let chain =
            |pool: u32, last| [Desc::new(pool, 4096, FLAG_MORE), Desc::new(pool + LARGE_BUF, last, 0)];
        let (n, counters) = fetched(|pool| chain(pool, 904));
        assert_eq!((n, counters.tx_packets, counters.too_long), (2, 1, 0));
        let (n, counters) = fetched(|pool| chain(pool, 905));
        assert_eq!((n, counters.tx_packets, counters.too_long), (0, 1, 1));
    }

    #[test]
    fn one_bad_segment_drops_its_whole_chain_only() {
        let (n, counters) = fetched(|pool| {
            let good = Desc::new(pool, 10, 0);
            [good, good.with_more(true), Desc::new(3, 10, FLAG_MORE), good, good]
        });
        assert_eq!((n, counters.tx_packets, counters.bad_descriptor), (2, 3, 1));
    }
}
