//! `BurstQueue`: what a dataplane needs of a queue of any kind.

use crate::desc::Desc;
use crate::memory::SharedMemory;
use crate::ring::Ring;

use super::{Fetched, NicQueue};

/// One queue of a port: it gives bursts of packets and takes bursts of packets. Belongs to one thread.
///
/// A [`NicQueue`] is one; a queue of a kernel interface can be another. A function that is generic over this
/// trait is compiled for each kind of queue, so nothing in a burst calls through a pointer. A caller that
/// handles queues of several kinds uses `dyn BurstQueue<Memory = M>`: one dynamic call per burst, never one
/// per packet.
///
/// The order of calls is: [`fetch`](BurstQueue::fetch); then for the packets fetched, in order,
/// [`deliver`](BurstQueue::deliver) on the queues that they go to and [`complete`](BurstQueue::complete) on
/// this one; then [`flush`](BurstQueue::flush) on every queue that was given or has completed something.
pub trait BurstQueue {
    /// The memory that this queue's packets lie in.
    type Memory: SharedMemory;

    /// Fetches the next packets that came to this queue into `into`, which must be empty; returns the number
    /// of descriptors, at most [`FETCH`](super::FETCH). Every segment is checked to lie in
    /// [`Memory`](BurstQueue::Memory). They stay valid until completed.
    fn fetch(&mut self, into: &mut Fetched) -> usize;

    /// False when there is nothing to fetch: a cheap look, which counts as an empty fetch.
    fn poll(&mut self) -> bool {
        true
    }

    /// True when the next burst may be fetched before the last one is completed.
    fn may_fetch_ahead(&self) -> bool {
        false
    }

    /// As [`fetch`](BurstQueue::fetch), for a burst that is dealt with after the current one: its payload is
    /// not prefetched yet.
    fn fetch_ahead(&mut self, into: &mut Fetched) -> usize {
        self.fetch(into)
    }

    /// Takes copies of packets that lie in `from`: as many whole packets of `packets`, in order, as there is
    /// room for. Returns the number of their descriptors. Prefetches the payload of `ahead`, which the caller
    /// deals with next.
    fn deliver(&mut self, from: &Self::Memory, packets: &[Desc], ahead: &[Desc]) -> usize;

    /// Done with fetched packets: their buffers may be used again.
    fn complete(&mut self, packets: &[Desc]);

    /// Publishes what was delivered and hands back what was completed since the last flush.
    fn flush(&mut self);

    /// Sends fetched packets back to where they came from and completes them, as many whole ones as there is
    /// room for; returns the number of their descriptors. `mem` is this queue's memory. `reflect` asks for
    /// the same buffers without a copy, where a queue can do that.
    fn send_back(&mut self, mem: &Self::Memory, packets: &[Desc], ahead: &[Desc], reflect: bool) -> usize {
        let _ = reflect;
        let n = self.deliver(mem, packets, ahead);
        self.complete(packets.get(..n).unwrap_or_default());
        n
    }
}

impl<M: SharedMemory, R: Ring> BurstQueue for NicQueue<M, R> {
    type Memory = M;

    #[inline(always)]
    fn fetch(&mut self, into: &mut Fetched) -> usize {
        NicQueue::fetch(self, into)
    }

    #[inline(always)]
    fn poll(&mut self) -> bool {
        NicQueue::poll(self)
    }

    #[inline(always)]
    fn may_fetch_ahead(&self) -> bool {
        NicQueue::may_fetch_ahead(self)
    }

    #[inline(always)]
    fn fetch_ahead(&mut self, into: &mut Fetched) -> usize {
        NicQueue::fetch_ahead(self, into)
    }

    #[inline(always)]
    fn deliver(&mut self, from: &M, packets: &[Desc], ahead: &[Desc]) -> usize {
        NicQueue::deliver(self, from, packets, ahead)
    }

    #[inline(always)]
    fn complete(&mut self, packets: &[Desc]) {
        NicQueue::complete(self, packets);
    }

    #[inline(always)]
    fn flush(&mut self) {
        NicQueue::flush(self);
    }

    #[inline(always)]
    fn send_back(&mut self, mem: &M, packets: &[Desc], ahead: &[Desc], reflect: bool) -> usize {
        if reflect { self.reflect(packets) } else { NicQueue::send_back(self, mem, packets, ahead) }
    }
}
