//! The loopback wire: every packet goes back to its program.

use crate::port::Port;
use crate::ring::Ring;

use super::{Fetched, NicQueue};

/// Packets on their way through a wire: one burst being delivered, and the one after it, whose lines arrive meanwhile.
#[derive(Debug, Default)]
pub struct Pipeline {
    pub(super) current: Fetched,
    pub(super) next: Fetched,
}

impl Pipeline {
    /// Sees that there is a burst to be delivered, and under load the one after it; false when the program has sent nothing.
    #[inline(always)]
    pub(super) fn fill<P: Port, R: Ring>(&mut self, queue: &mut NicQueue<P, R>) -> bool {
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
pub fn loopback<P: Port, R: Ring>(
    queue: &mut NicQueue<P, R>,
    pipeline: &mut Pipeline,
    port: &P,
    reflect: bool,
) -> usize {
    if !pipeline.fill(queue) {
        return 0;
    }
    let Pipeline { current, next } = pipeline;
    let packets = current.rest();
    let n = if reflect { queue.reflect(packets) } else { queue.deliver(port, packets, next.rest()) };
    if !reflect {
        queue.complete(packets.get(..n).unwrap_or_default());
    }
    current.advance(n);
    queue.flush();
    n
}
