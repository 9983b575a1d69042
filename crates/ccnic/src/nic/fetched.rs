//! Packets in the NIC's hands: fetched bursts, and how their segments are walked.

use crate::desc::Desc;
use crate::memory::{SharedMemory, copy};

use super::FETCH;

/// Packets fetched from a program and not yet dealt with, in order, checked.
#[derive(Debug)]
pub struct Fetched {
    pub(super) descs: [Desc; FETCH],
    pub(super) next: usize,
    pub(super) len: usize,
}

impl Default for Fetched {
    fn default() -> Fetched {
        Fetched { descs: [Desc::default(); FETCH], next: 0, len: 0 }
    }
}

impl Fetched {
    /// For a queue that is not a [`NicQueue`](super::NicQueue): replaces the burst by `descs`, of which it takes the first
    /// [`FETCH`]; returns how many. They must be whole packets.
    pub fn refill(&mut self, descs: &[Desc]) -> usize {
        let n = descs.len().min(FETCH);
        for (slot, desc) in self.descs.iter_mut().zip(descs) {
            *slot = *desc;
        }
        (self.next, self.len) = (0, n);
        n
    }

    /// The segments of all packets not yet dealt with.
    #[inline(always)]
    pub fn rest(&self) -> &[Desc] {
        self.descs.get(self.next..self.len).unwrap_or_default()
    }

    /// Done with the first `n` segments.
    #[inline(always)]
    pub fn advance(&mut self, n: usize) {
        self.next = (self.next + n).min(self.len);
    }

    /// True when the fetch found as much as it could take: there is probably more.
    #[inline(always)]
    pub fn is_full(&self) -> bool {
        self.len == FETCH
    }

    /// True when every packet has been dealt with.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.next == self.len
    }
}

/// Reads through the segments of a packet.
pub(super) struct Segments<'a> {
    pub(super) descs: &'a [Desc],
    pub(super) within: u32,
}

impl Segments<'_> {
    /// Copies the next `len` bytes to `to`.
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
