//! Packets that were received from the ring and that no receive burst has returned yet: those that `ccnic_wait` found, and one
//! that has more buffers than the caller had entries left.

use std::mem::MaybeUninit;

use ccnic::{Burst, Desc};

use crate::abi::CcnicBuf;

/// The most buffers that one receive burst of a queue pair gives.
pub(crate) const RECEIVE: usize = Burst::CAPACITY / 2;

/// A first-in, first-out array that is filled when it is empty.
#[derive(Debug)]
pub(crate) struct Parked {
    bufs: [CcnicBuf; RECEIVE],
    next: usize,
    len: usize,
}

impl Parked {
    pub(crate) fn new() -> Parked {
        Parked { bufs: [CcnicBuf::from(Desc::default()); RECEIVE], next: 0, len: 0 }
    }

    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The buffers, in order.
    pub(crate) fn bufs(&self) -> &[CcnicBuf] {
        self.bufs.get(self.next..self.len).unwrap_or_default()
    }

    /// Takes over the buffers of a burst; there are none yet.
    pub(crate) fn fill(&mut self, burst: &mut Burst) {
        let mut n = 0;
        for (to, desc) in self.bufs.iter_mut().zip(burst.disown()) {
            *to = desc.into();
            n += 1;
        }
        (self.next, self.len) = (0, n);
    }

    /// How many of the first `max` buffers are packets in one small buffer each, up to the first that is not.
    pub(crate) fn small_packets(&self, max: usize) -> usize {
        let bufs = self.bufs().iter().take(max);
        bufs.take_while(|&&buf| !buf.more() && Desc::from(buf).small()).count()
    }

    /// The buffers of the first packet.
    pub(crate) fn first_packet(&self) -> &[CcnicBuf] {
        let bufs = self.bufs();
        let n = bufs.iter().position(|buf| !buf.more()).map_or(bufs.len(), |last| last + 1);
        bufs.get(..n).unwrap_or_default()
    }

    /// Copies whole packets to `out`; returns their buffers, which stay here until [`remove`](Parked::remove).
    pub(crate) fn copy_packets(&self, out: &mut [MaybeUninit<CcnicBuf>]) -> &[CcnicBuf] {
        let bufs = self.bufs();
        let most = out.len().min(bufs.len());
        let n = bufs.iter().take(most).rposition(|buf| !buf.more()).map_or(0, |i| i + 1);
        let whole = bufs.get(..n).unwrap_or_default();
        for (to, buf) in out.iter_mut().zip(whole) {
            to.write(*buf);
        }
        whole
    }

    /// Removes the first `n` buffers.
    pub(crate) fn remove(&mut self, n: usize) {
        self.next += n;
        if self.next >= self.len {
            self.clear();
        }
    }

    /// Removes all buffers.
    pub(crate) fn clear(&mut self) {
        (self.next, self.len) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ccnic::desc::{FLAG_MORE, FLAG_SMALL};

    fn parked(flags: &[u8]) -> Parked {
        let mut this = Parked::new();
        for (i, (to, &flags)) in this.bufs.iter_mut().zip(flags).enumerate() {
            *to = Desc::new(i as u32 * 128, 64, flags).into();
        }
        this.len = flags.len();
        this
    }

    #[test]
    fn whole_packets_only() {
        let mut this = parked(&[FLAG_MORE, 0, FLAG_SMALL, FLAG_MORE, FLAG_MORE, 0]);
        let mut out = [MaybeUninit::uninit(); 5];
        assert_eq!(this.copy_packets(&mut out[..1]).len(), 0, "the first packet has two buffers");
        assert_eq!(this.first_packet().len(), 2);
        assert_eq!(this.copy_packets(&mut out).len(), 3);
        this.remove(3);
        assert!(!this.is_empty());
        assert_eq!(this.copy_packets(&mut out).len(), 3);
        this.remove(3);
        assert!(this.is_empty() && this.bufs().is_empty());
    }

    #[test]
    fn small_packets_end_at_the_first_that_is_not() {
        let this = parked(&[FLAG_SMALL, FLAG_SMALL, FLAG_SMALL | FLAG_MORE, FLAG_SMALL]);
        assert_eq!([1, 2, 4].map(|max| this.small_packets(max)), [1, 2, 2]);
        assert_eq!(parked(&[0]).small_packets(8), 0);
    }
}
