//! The oracle: which packets were sent, which may come back, and which side holds each buffer.
//!
//! It knows nothing of rings or memories. A packet is identified by its sequence number, which is in its
//! metadata and determines every byte of it.

use std::collections::VecDeque;

use ccnic::layout::{LARGE_BUF, SMALL_BUF, SMALL_PER_LARGE};
use ccnic::{Desc, Layout};

/// A packet as it was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packet {
    /// Sequence number: determines the content.
    pub seq: u64,
    /// Length of each segment.
    pub segments: Vec<u16>,
}

impl Packet {
    /// Bytes of all segments.
    pub fn len(&self) -> usize {
        self.segments.iter().map(|&l| usize::from(l)).sum()
    }

    /// True for a packet without a byte.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Byte `at` of packet `seq`: differs between neighbours, packets and lines, so that torn, stale or shifted
/// content is detected.
pub fn byte(seq: u64, at: usize) -> u8 {
    let mix = seq.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    (mix as usize).wrapping_add(at.wrapping_mul(7)).wrapping_add(at >> 6) as u8
}

/// Writes the bytes of packet `seq` from byte `from` on.
pub fn fill(seq: u64, from: usize, to: &mut [u8]) {
    for (i, b) in to.iter_mut().enumerate() {
        *b = byte(seq, from + i);
    }
}

/// All `len` bytes of packet `seq`.
pub fn content(seq: u64, len: u16) -> Vec<u8> {
    let mut bytes = vec![0; usize::from(len)];
    fill(seq, 0, &mut bytes);
    bytes
}

/// How a NIC may cut a packet into buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// As it was sent: the same buffers come back.
    Same,
    /// In new buffers: every segment but the last is full.
    Anew,
    /// In new buffers, or as it was sent when the NIC had no buffer.
    Either,
}

/// Packets between a sender and a receiver, in order. Panics when the receiver gets what it must not get.
#[derive(Debug, Default)]
pub struct Oracle {
    expected: VecDeque<Packet>,
    /// Packets that came back.
    pub received: u64,
    /// Packets that were skipped.
    pub lost: u64,
    /// How many more may be lost.
    may_lose: u64,
}

impl Oracle {
    /// A packet was handed to the interface.
    pub fn sent(&mut self, packet: Packet) {
        self.expected.push_back(packet);
    }

    /// Packets sent that have not come back.
    pub fn outstanding(&self) -> usize {
        self.expected.len()
    }

    /// The NIC consumed this packet without sending it back. Older ones may be on their way.
    ///
    /// # Panics
    /// When it is not expected.
    pub fn consumed(&mut self, seq: u64) {
        let at = self.expected.iter().position(|packet| packet.seq == seq);
        let packet = at.and_then(|at| self.expected.remove(at));
        assert!(packet.is_some(), "the NIC consumed packet {seq}, which nobody sent, or which came back");
    }

    /// From now on `packets` more packets may be missing: the NIC died after it had fetched them.
    pub fn may_lose(&mut self, packets: u64) {
        self.may_lose += packets;
    }

    /// The end of the run: packets that are still expected were lost.
    ///
    /// # Panics
    /// When more is missing than may be.
    pub fn end(&mut self) {
        let missing = self.expected.len() as u64;
        assert!(missing <= self.may_lose, "{missing} packets never came back: {:?}", self.expected.front());
        self.lost += missing;
        self.may_lose -= missing;
        self.expected.clear();
    }

    /// A packet came back: `segments` are its bytes by buffer, `seq` its metadata.
    ///
    /// # Panics
    /// When it is not the next one, or not whole, or not what was sent.
    pub fn received(&mut self, seq: u64, segments: &[Vec<u8>], cut: Cut) {
        while self.may_lose > 0 && self.expected.front().is_some_and(|p| p.seq != seq) {
            self.expected.pop_front();
            self.may_lose -= 1;
            self.lost += 1;
        }
        let Some(sent) = self.expected.pop_front() else {
            panic!("packet {seq} came back and nothing was expected: twice, or never sent");
        };
        assert_eq!(seq, sent.seq, "order: got {seq}, expected {} ({} more)", sent.seq, self.expected.len());
        let lengths: Vec<usize> = segments.iter().map(Vec::len).collect();
        assert_eq!(lengths.iter().sum::<usize>(), sent.len(), "packet {seq}: whole? segments {lengths:?}");
        let same = lengths.iter().zip(&sent.segments).all(|(a, b)| *a == usize::from(*b));
        let full = lengths.iter().rev().skip(1).all(|&l| l == LARGE_BUF as usize || l == SMALL_BUF as usize);
        let right = match cut {
            Cut::Same => same,
            Cut::Anew => full,
            Cut::Either => same || full,
        };
        assert!(
            right,
            "packet {seq}: sent as {:?}, came back as {lengths:?}, not cut as {cut:?}",
            sent.segments
        );
        for (at, &found) in segments.iter().flatten().enumerate() {
            assert_eq!(found, byte(seq, at), "packet {seq}, byte {at} of {}", sent.len());
        }
        self.received += 1;
    }
}

/// Which buffers of a region one side holds, by slots of 128 bytes. Panics when a buffer is held twice.
#[derive(Debug, Clone)]
pub struct Held {
    base: u32,
    slots: Vec<bool>,
    /// How many slots are held.
    pub count: usize,
}

impl Held {
    /// None.
    pub fn new(layout: &Layout) -> Held {
        let slots = (layout.config().buffers * SMALL_PER_LARGE) as usize;
        Held { base: layout.pool().buffers, slots: vec![false; slots], count: 0 }
    }

    /// The slots of the buffer that holds the data of `desc`.
    fn range(&self, desc: Desc) -> std::ops::Range<usize> {
        let size = if desc.small() { SMALL_BUF } else { LARGE_BUF };
        let at = desc.offset() & !(size - 1);
        let first = (at.wrapping_sub(self.base) / SMALL_BUF) as usize;
        let range = first..first + (size / SMALL_BUF) as usize;
        assert!(at >= self.base && range.end <= self.slots.len(), "{desc:?}: not a buffer of the pool");
        range
    }

    /// This side takes the buffer.
    ///
    /// # Panics
    /// When this side holds it already, even in part.
    pub fn take(&mut self, desc: Desc) {
        for slot in self.range(desc) {
            assert!(!self.slots[slot], "{desc:?}: slot {slot} handed out twice");
            self.slots[slot] = true;
            self.count += 1;
        }
    }

    /// This side gives the buffer away.
    ///
    /// # Panics
    /// When this side does not hold it.
    pub fn give(&mut self, desc: Desc) {
        for slot in self.range(desc) {
            assert!(self.slots[slot], "{desc:?}: slot {slot} given away but not held");
            self.slots[slot] = false;
            self.count -= 1;
        }
    }

    /// Slots not held.
    pub fn missing(&self) -> usize {
        self.slots.len() - self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn oracle(n: u64) -> Oracle {
        let mut oracle = Oracle::default();
        (0..n).for_each(|seq| oracle.sent(Packet { seq, segments: vec![100] }));
        oracle
    }

    fn content(seq: u64) -> Vec<Vec<u8>> {
        vec![super::content(seq, 100)]
    }

    #[test]
    fn accepts_what_was_sent() {
        let mut oracle = oracle(3);
        (0..3).for_each(|seq| oracle.received(seq, &content(seq), Cut::Same));
        oracle.end();
        assert_eq!((oracle.received, oracle.lost), (3, 0));
    }

    #[test]
    #[should_panic(expected = "order: got 1")]
    fn notices_a_swap() {
        oracle(3).received(1, &content(1), Cut::Anew);
    }

    #[test]
    #[should_panic(expected = "never came back")]
    fn notices_a_loss() {
        oracle(1).end();
    }

    #[test]
    #[should_panic(expected = "nothing was expected")]
    fn notices_a_duplicate() {
        let mut oracle = oracle(1);
        oracle.received(0, &content(0), Cut::Anew);
        oracle.received(0, &content(0), Cut::Anew);
    }

    #[test]
    #[should_panic(expected = "byte 63")]
    fn notices_a_wrong_byte() {
        let mut bytes = content(0);
        bytes[0][63] ^= 1;
        oracle(1).received(0, &bytes, Cut::Anew);
    }

    #[test]
    #[should_panic(expected = "whole?")]
    fn notices_a_missing_segment() {
        let mut oracle = Oracle::default();
        oracle.sent(Packet { seq: 0, segments: vec![100, 1] });
        oracle.received(0, &content(0), Cut::Anew);
    }

    #[test]
    fn a_dead_nic_may_lose_a_bounded_number_of_packets() {
        let mut oracle = oracle(5);
        oracle.may_lose(2);
        oracle.received(2, &content(2), Cut::Anew);
        oracle.received(3, &content(3), Cut::Anew);
        assert_eq!((oracle.lost, oracle.outstanding()), (2, 1));
    }
}
