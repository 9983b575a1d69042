//! Fetched bursts, and the segments of their packets.

use crate::desc::{Desc, FLAG_MORE};
use crate::memory::{SharedMemory, copy};

use super::FETCH;

/// A poll copies about so many bytes: whoever waits for its end does not wait long for large packets either, about a microsecond where
/// their lines lie in no cache. Four packets of 4 KiB: a full line of descriptors.
pub(super) const POLL_BYTES: u64 = 16 << 10;

/// Packets fetched from a program and not completed yet, in order. They have been checked.
#[derive(Debug)]
pub struct Fetched {
    pub(super) descs: [Desc; FETCH],
    pub(super) next: usize,
    pub(super) len: usize,
    /// Of all packets.
    pub(super) bytes: u64,
    /// The first that may still be inline: those before it were moved to buffers ([`NicQueue::copy_to_pool`](super::NicQueue::copy_to_pool)).
    pub(super) moved: usize,
    /// Descriptors of fetches that were all dropped, not reported yet.
    pub(super) dropped: usize,
}

impl Default for Fetched {
    fn default() -> Fetched {
        Fetched { descs: [Desc::default(); FETCH], next: 0, len: 0, bytes: 0, moved: 0, dropped: 0 }
    }
}

impl Fetched {
    /// For a queue that is not a [`NicQueue`](super::NicQueue): replaces the burst by `descs`, of which it
    /// takes the first [`FETCH`]; returns how many. They must be whole packets.
    pub fn refill(&mut self, descs: &[Desc]) -> usize {
        let n = descs.len().min(FETCH);
        for (slot, desc) in self.descs.iter_mut().zip(descs) {
            *slot = *desc;
        }
        (self.next, self.len) = (0, n);
        self.bytes = bytes(self.rest());
        n
    }

    /// The segments of all packets that are left.
    #[inline(always)]
    pub fn rest(&self) -> &[Desc] {
        self.descs.get(self.next..self.len).unwrap_or_default()
    }

    /// The segments that one poll deals with: of all packets that are left, or of the first of them, some [`POLL_BYTES`]. The units of the
    /// ring are handed back after the last part (`taken.rs`). Nothing stalls by that: a part waits for receive buffers and for room in the
    /// receive ring only, and a burst that is all inline is shorter than a part.
    #[inline(always)]
    pub(super) fn part(&self) -> &[Desc] {
        if self.bytes <= POLL_BYTES { self.rest() } else { self.first_bytes() }
    }

    #[cold]
    #[inline(never)]
    fn first_bytes(&self) -> &[Desc] {
        let (rest, mut n, mut bytes) = (self.rest(), 0, 0);
        while n < rest.len() && bytes < POLL_BYTES {
            let packet = first(rest.get(n..).unwrap_or_default());
            n += packet.len();
            bytes += self::bytes(packet);
        }
        rest.get(..n).unwrap_or_default()
    }

    /// Of this burst, which is next, the segments to be prefetched while `current` goes on.
    #[inline(always)]
    pub(super) fn beyond(&self, current: &Fetched) -> &[Desc] {
        self.rest().get(current.next..).unwrap_or_default()
    }

    /// Drops the first `n` segments from what is left.
    #[inline(always)]
    pub fn advance(&mut self, n: usize) {
        self.next = (self.next + n).min(self.len);
    }

    /// True when the fetch filled it: there are probably more packets in the ring.
    #[inline(always)]
    pub fn is_full(&self) -> bool {
        self.len == FETCH
    }

    /// True when nothing is left.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.next == self.len
    }
}

/// A position in the data of a packet: the segments that are left, and how far the first has been read.
pub(super) struct Segments<'a> {
    pub(super) descs: &'a [Desc],
    pub(super) within: u32,
}

impl Segments<'_> {
    /// Copies the next `len` bytes to `to`.
    #[inline(always)]
    pub(super) fn copy_to<M: SharedMemory, Q: SharedMemory>(&mut self, src: &M, dst: &Q, to: u32, len: u32) {
        let mut done = 0;
        while let (true, Some((desc, rest))) = (done < len, self.descs.split_first()) {
            let part = (u32::from(desc.len()) - self.within).min(len - done);
            copy(src, desc.offset() + self.within, dst, to + done, part);
            done += part;
            self.within += part;
            if self.within == u32::from(desc.len()) {
                (self.descs, self.within) = (rest, 0);
            }
        }
    }
}

/// The segments of the first packet.
pub(super) fn first(packets: &[Desc]) -> &[Desc] {
    let n = packets.iter().position(|d| !d.more()).map_or(packets.len(), |i| i + 1);
    packets.get(..n).unwrap_or_default()
}

/// The lengths and flags of a burst.
pub(super) struct Shape {
    pub(super) shortest: u32,
    pub(super) longest: u32,
    pub(super) chains: bool,
    pub(super) bytes: u64,
}

impl Shape {
    #[inline(always)]
    pub(super) fn of(descs: &[Desc]) -> Shape {
        if let [one] = descs {
            let len = u32::from(one.len()); // a lone packet's: no loop
            return Shape { shortest: len, longest: len, chains: one.more(), bytes: len.into() };
        }
        // Variables, since a fold over a tuple is not vectorised.
        let (mut shortest, mut longest, mut flags, mut bytes) = (u32::MAX, 0, 0, 0);
        for desc in descs {
            let len = u32::from(desc.len());
            (shortest, longest) = (len.min(shortest), len.max(longest));
            flags |= u32::from(desc.flags());
            bytes += u64::from(len);
        }
        Shape { shortest, longest, chains: flags & u32::from(FLAG_MORE) != 0, bytes }
    }

    /// Bytes of the first `n` of these descriptors, whose shape it is.
    #[inline(always)]
    pub(super) fn bytes_of(&self, descs: &[Desc], n: usize) -> u64 {
        if n == descs.len() { self.bytes } else { bytes(descs.get(..n).unwrap_or_default()) }
    }
}

/// Bytes of data in all segments.
#[inline(always)]
pub(super) fn bytes(descs: &[Desc]) -> u64 {
    if let [one] = descs {
        return one.len().into(); // a lone packet's: no loop
    }
    descs.iter().map(|d| u64::from(d.len())).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::heap::HeapMemory;
    use crate::ring::GroupedEpoch;
    use crate::testing::{Sides, config};

    #[test]
    fn a_packet_ends_with_the_first_segment_without_more() {
        let (one, more) = (Desc::new(0, 1, 0), Desc::new(0, 1, 0).with_more(true));
        assert_eq!(
            [&[one, one][..], &[more, more, one, one], &[more, more], &[]].map(|d| first(d).len()),
            [1, 3, 2, 0]
        );
    }

    #[test]
    fn copies_go_on_across_segments() {
        let mem = HeapMemory::new(4096);
        mem.write(0, b"abcd");
        mem.write(100, b"efghij");
        let descs = [Desc::new(0, 4, 0).with_more(true), Desc::new(100, 6, 0)];
        let mut segments = Segments { descs: &descs, within: 0 };
        for (to, len) in [(200, 3), (203, 5), (208, 9)] {
            segments.copy_to(&mem, &mem, to, len);
        }
        let mut bytes = [0; 12];
        mem.read(200, &mut bytes);
        assert_eq!(&bytes, b"abcdefghij\0\0", "and end with the packet");
        assert_eq!(bytes_of(&descs), 10);
    }

    fn bytes_of(descs: &[Desc]) -> u64 {
        super::bytes(descs)
    }

    #[test]
    fn large_packets_are_dealt_with_in_parts() {
        let mut fetched = Fetched::default();
        fetched.refill(&[Desc::new(0, 1500, 0); 8]);
        assert_eq!(fetched.part().len(), 8, "few bytes in all");
        let segment = Desc::new(0, 4096, 0);
        fetched.refill(&[segment.with_more(true), segment.with_more(true), segment].repeat(10));
        let mut parts = 0;
        while !fetched.is_empty() {
            let part = fetched.part();
            assert!(!part.last().unwrap().more(), "whole packets");
            assert!((1..POLL_BYTES as usize + 3 * 4096).contains(&(part.len() * 4096)));
            fetched.advance(part.len());
            parts += 1;
        }
        assert!(parts > 1);
    }

    /// A NIC copies a long burst of large packets in several polls, whether or not they are chains, and fetches nothing before the last.
    #[test]
    fn a_burst_of_large_packets_is_copied_in_several_polls() {
        for (len, segments, sent) in [(4096, 1, 32), (9000, 3, 30)] {
            let mut sides = Sides::<GroupedEpoch>::new(&Config { buffers: 128, ..config::<GroupedEpoch>() });
            assert_eq!(sides.send(len, 32, 1), sent);
            let (mut polls, mut done, mut received) = (0, 0, 0);
            while done < sent {
                let n = sides.poll();
                assert!(
                    n > 0 && n / segments * usize::from(len) < POLL_BYTES as usize + usize::from(len),
                    "{n} segments"
                );
                (polls, done) = (polls + 1, done + n);
                received += sides.receive(32, |_, byte| assert_eq!(byte, Some(1)));
            }
            assert!(polls > 2, "{polls}");
            assert_eq!((received, sides.poll(), sides.host.tx_waiting()), (sent, 0, 0));
        }
    }

    #[test]
    fn what_is_left_shrinks() {
        let mut fetched = Fetched { len: FETCH, ..Fetched::default() };
        assert!(fetched.is_full() && !fetched.is_empty());
        fetched.advance(30);
        assert_eq!(fetched.rest().len(), 2);
        fetched.advance(30);
        assert!(fetched.is_empty());
    }
}
