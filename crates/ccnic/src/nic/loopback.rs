//! Loopback: every packet goes back to where it came from.

use crate::desc::Desc;
use crate::memory::SharedMemory;
use crate::ring::Ring;

use super::fetched::first;
use super::{BurstQueue, Fetched, NicQueue, Receivers};

/// Packets fetched from a queue and not completed: the burst that is being delivered, and the next one, whose
/// lines are prefetched meanwhile.
#[derive(Debug, Default)]
pub struct Pipeline {
    bursts: [Fetched; 2],
    /// The index of the burst that is being delivered.
    current: usize,
    /// The queues that [`spread`](super::spread()) has delivered to.
    pub(super) receivers: Receivers,
}

impl Pipeline {
    /// True when it holds no packets.
    pub fn is_empty(&self) -> bool {
        self.waiting() == 0
    }

    /// The indices of the queues that packets have been spread to.
    pub fn receivers(&mut self) -> &mut Receivers {
        &mut self.receivers
    }

    /// The burst that is being delivered, the next one, and the queues that packets have been spread to.
    #[inline(always)]
    pub(super) fn parts(&mut self) -> (&mut Fetched, &mut Fetched, &mut Receivers) {
        let [first, second] = &mut self.bursts;
        let (current, next) = if self.current == 0 { (first, second) } else { (second, first) };
        (current, next, &mut self.receivers)
    }

    /// Descriptors fetched and not delivered.
    #[inline(always)]
    pub fn waiting(&self) -> usize {
        self.bursts.iter().map(|burst| burst.rest().len()).sum()
    }

    /// Makes sure that there is a burst to deliver, and under load the one after it; false when nothing has
    /// been sent.
    #[inline(always)]
    pub(super) fn fill<Q: BurstQueue>(&mut self, queue: &mut Q) -> bool {
        let (mut current, mut next, _) = self.parts();
        if current.is_empty() {
            if !next.is_empty() {
                self.current ^= 1;
                (current, next, _) = self.parts();
            } else if !queue.poll() || queue.fetch(current) == 0 {
                return false;
            }
        }
        if next.is_empty() && current.is_full() && queue.may_fetch_ahead() {
            queue.fetch_ahead(next);
        }
        true
    }

    /// When there was nothing to deliver: the descriptors that were fetched and dropped, which is work too.
    /// Their units are handed back.
    #[inline(always)]
    pub(super) fn nothing<Q: BurstQueue>(&mut self, queue: &mut Q) -> usize {
        if self.bursts.iter().all(|burst| burst.dropped == 0) { 0 } else { self.drop_bad(queue) }
    }

    #[cold]
    #[inline(never)]
    fn drop_bad<Q: BurstQueue>(&mut self, queue: &mut Q) -> usize {
        queue.flush();
        self.bursts.iter_mut().map(|burst| core::mem::take(&mut burst.dropped)).sum()
    }
}

/// One poll of the loopback: fetches a burst, sends it back, publishes. Returns the descriptors dealt with:
/// those sent back, or those dropped when all of a burst were bad.
///
/// `mem` is the queue's memory. With `reflect` packets go back in their own buffers, without a copy.
///
/// Under load a second burst is fetched ahead, and its lines arrive while the first is delivered.
///
/// Nothing is lost when the receiver is slow: what cannot be delivered stays in the pipeline, and nothing
/// more is fetched before it has been delivered. See [`NicQueue`] for an example.
#[inline(always)]
pub fn loopback<Q: BurstQueue>(
    queue: &mut Q,
    pipeline: &mut Pipeline,
    mem: &Q::Memory,
    reflect: bool,
) -> usize {
    if !pipeline.fill(queue) {
        return pipeline.nothing(queue);
    }
    let (current, next, _) = pipeline.parts();
    let n = queue.send_back(mem, current.part(), next.beyond(current), reflect);
    current.advance(n);
    queue.flush();
    n
}

impl<M: SharedMemory, R: Ring> NicQueue<M, R> {
    /// Sends copies of fetched packets back to their program and completes them, as many as there is room
    /// for; returns the number of their descriptors. Prefetches the payload of `ahead`, as
    /// [`deliver`](NicQueue::deliver) does.
    ///
    /// When there is no buffer for the first packet it goes back without a copy: a program may have put every
    /// buffer of its region into its transmit ring, and neither side would make progress.
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

#[cfg(test)]
mod tests {
    use crate::config::Config;
    use crate::desc::Desc;
    use crate::ring::{GroupedEpoch, Packed, Producer, Ring};
    use crate::testing::{Sides, config};

    #[test]
    fn what_a_full_ring_does_not_take_waits_in_order() {
        let mut sides = Sides::<Packed>::new(&config::<Packed>());
        let (mut sent, mut expected) = (0, 0);
        for _ in 0..40 {
            sent += sides.send(64, 7, sent as u8) / 7;
            sides.poll();
        }
        assert!(sent < 40, "the rings are full");
        let mut in_a_row = 0;
        for _ in 0..100 {
            sides.receive(5, |_, byte| {
                in_a_row = if byte == Some(expected as u8) { in_a_row } else { 0 };
                in_a_row += 1;
                assert_eq!(byte, Some(expected as u8));
                expected += usize::from(in_a_row % 7 == 0);
            });
            sides.poll();
        }
        assert_eq!(expected, sent);
    }

    /// More bad descriptors than the ring has: each burst counts as work, and the ring is handed back.
    #[test]
    fn a_burst_of_bad_descriptors_is_work() {
        let mut sides = Sides::<GroupedEpoch>::new(&config::<GroupedEpoch>());
        let mut tx = <GroupedEpoch as Ring>::Producer::resume(&sides.mem, &sides.layout.queue(0).unwrap().tx);
        for round in 0..100 {
            assert_eq!(tx.push(&sides.mem, &[Desc::new(3, 64, 0); 8]), 8, "{round}");
            assert_eq!((sides.poll(), sides.poll()), (8, 0));
        }
        assert_eq!((sides.nic.counters().bad_descriptor, sides.nic.counters().rx_packets), (800, 0));
    }

    #[test]
    fn a_program_that_sends_its_whole_pool_gets_it_back() {
        let mut sides = Sides::<GroupedEpoch>::new(&Config { buffers: 16, ..config::<GroupedEpoch>() });
        let all = if sides.layout.config().has_areas() { 15 } else { 16 }; // one is spare
        assert_eq!(sides.send(4000, 16, 7), all);
        let mut received = 0;
        for _ in 0..50 {
            sides.poll();
            received += sides.receive(1, |len, byte| assert_eq!((len, byte), (4000, Some(7))));
        }
        assert_eq!(received, all);
        assert!(sides.nic.counters().no_buffer > 0, "some went back without a copy");
    }
}
