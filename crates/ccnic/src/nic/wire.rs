//! Loopback: every packet goes back to where it came from.

use crate::desc::Desc;
use crate::memory::SharedMemory;
use crate::ring::Ring;

use super::{BurstQueue, Fetched, NicQueue, first};

/// Packets fetched from a queue and not yet dealt with: the burst being delivered, and the one after it, whose lines arrive
/// meanwhile.
#[derive(Debug, Default)]
pub struct Pipeline {
    pub(super) current: Fetched,
    pub(super) next: Fetched,
}

impl Pipeline {
    /// Makes sure that there is a burst to deliver, and under load the one after it; false when nothing has been sent.
    #[inline(always)]
    pub(super) fn fill<Q: BurstQueue>(&mut self, queue: &mut Q) -> bool {
        let Pipeline { current, next } = self;
        if current.is_empty() {
            core::mem::swap(current, next);
            if current.is_empty() && queue.fetch(current) == 0 {
                return false;
            }
        }
        if next.is_empty() && current.is_full() && queue.may_fetch_ahead() {
            queue.fetch_ahead(next);
        }
        true
    }
}

/// One poll of the loopback: fetches a burst, sends it back, publishes. Returns the descriptors sent back.
///
/// `mem` is the queue's memory. With `reflect` packets go back in their own buffers, without a copy.
///
/// Under load a second burst is fetched ahead, and its lines arrive while the first is delivered.
///
/// Nothing is lost when the receiver is slow: what cannot be delivered stays in the pipeline, and nothing more is fetched before
/// it has been delivered.
#[inline(always)]
pub fn loopback<Q: BurstQueue>(
    queue: &mut Q,
    pipeline: &mut Pipeline,
    mem: &Q::Memory,
    reflect: bool,
) -> usize {
    if !pipeline.fill(queue) {
        return 0;
    }
    let Pipeline { current, next } = pipeline;
    let n = queue.send_back(mem, current.rest(), next.rest(), reflect);
    current.advance(n);
    queue.flush();
    n
}

impl<M: SharedMemory, R: Ring> NicQueue<M, R> {
    /// Sends copies of fetched packets back to their program and completes them, as many as there is room for; returns the number of
    /// their descriptors. Prefetches the payload of `ahead`, as [`deliver`](NicQueue::deliver) does.
    ///
    /// When there is no buffer for the first packet it goes back without a copy: a program may have put every buffer of its
    /// region into its transmit ring, and would wait for the NIC for ever.
    #[inline(always)]
    pub fn send_back(&mut self, mem: &M, packets: &[Desc], ahead: &[Desc]) -> usize {
        let waits = self.counters.no_buffer;
        let n = self.deliver(mem, packets, ahead);
        self.complete(packets.get(..n).unwrap_or_default());
        // (With the host-managed pool the host frees what it has sent.)
        if n == 0 && self.counters.no_buffer > waits && self.config.shared_pool {
            return self.reflect(first(packets));
        }
        n
    }
}
