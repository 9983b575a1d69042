//! The loopback wire: every packet goes back to its program.

use crate::desc::Desc;
use crate::memory::SharedMemory;
use crate::ring::Ring;

use super::{Fetched, NicQueue, first};

/// Packets on their way through a wire: one burst being delivered, and the one after it, whose lines arrive meanwhile.
#[derive(Debug, Default)]
pub struct Pipeline {
    pub(super) current: Fetched,
    pub(super) next: Fetched,
}

impl Pipeline {
    /// Sees that there is a burst to be delivered, and under load the one after it; false when the program has sent nothing.
    #[inline(always)]
    pub(super) fn fill<M: SharedMemory, R: Ring>(&mut self, queue: &mut NicQueue<M, R>) -> bool {
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

/// One turn of the loopback: fetches a burst, delivers it, publishes. Returns the segments delivered.
///
/// Under load a second burst is fetched ahead, and its lines arrive while the first is delivered.
///
/// Nothing is lost when the program is slow to receive: what cannot be delivered stays in the pipeline, and nothing more
/// is fetched before it has gone.
#[inline(always)]
pub fn loopback<M: SharedMemory, R: Ring>(
    queue: &mut NicQueue<M, R>,
    pipeline: &mut Pipeline,
    mem: &M,
    reflect: bool,
) -> usize {
    if !pipeline.fill(queue) {
        return 0;
    }
    let Pipeline { current, next } = pipeline;
    let packets = current.rest();
    let n = if reflect { queue.reflect(packets) } else { queue.send_back(mem, packets, next.rest()) };
    current.advance(n);
    queue.flush();
    n
}

impl<M: SharedMemory, R: Ring> NicQueue<M, R> {
    /// Sends copies of fetched packets back to their program and completes them, as many as there is room for; returns the number of
    /// their descriptors. The lines of `ahead` are requested meanwhile, as by [`deliver`](NicQueue::deliver).
    ///
    /// When there is no buffer for the first packet it goes back without a copy: a program may have put every buffer of its
    /// region into its transmit ring, and would wait for this side for ever.
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
