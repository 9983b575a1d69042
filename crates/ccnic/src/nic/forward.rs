//! Forwarding: packets of one program go to others, whose packets lie in other memory.
//!
//! A switch fetches from one program's queue ([`NicQueue::forward`]) and delivers to another's ([`NicQueue::take_copies`],
//! [`spread_copies`]). There is one copy, from the sender's region straight into the receiver's. The sender's packets are completed
//! when all receivers have their copies, so this works for inline packets and for every kind of pool on either side.
//!
//! A receiver never holds up anybody: what it has no room for is dropped, and counted at the receiver.

use crate::desc::Desc;
use crate::memory::SharedMemory;
use crate::ring::Ring;
use crate::rss::Spreader;

use super::deliver::Busy;
use super::fetched::{bytes, first};
use super::loopback::Pipeline;
use super::spread::count_packets;
use super::{NicQueue, Receivers, Steered};

/// What has become of the first packets of a burst.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dealt {
    /// Descriptors, of whole packets, that have been dealt with.
    pub descs: usize,
    /// Somebody may still be copying them. Whoever has dealt with them [completes](NicQueue::complete) them later, in order.
    pub open: bool,
    /// Part of what is to be done for the first packet behind them has been done, and the rest is done in the next polls.
    pub goes_on: bool,
}

impl Dealt {
    /// Amount of work done: 0 is nothing.
    #[inline(always)]
    pub fn moved(&self) -> usize {
        self.descs + usize::from(self.goes_on)
    }
}

/// Why a receiver drops packets of another program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// They are longer than its MTU.
    TooLong,
    /// A flow rule of its program says so.
    ByRule,
    /// Its ring is full.
    RingFull,
    /// Its pool has no buffer.
    NoBuffer,
}

impl From<Busy> for Loss {
    fn from(busy: Busy) -> Loss {
        match busy {
            Busy::RingFull => Loss::RingFull,
            Busy::NoBuffer => Loss::NoBuffer,
        }
    }
}

/// What a receiver has to know of the side that packets come from.
#[derive(Debug)]
pub struct Origin<'a, M> {
    /// The memory that they lie in.
    pub mem: &'a M,
    /// None of them has more bytes.
    pub mtu: u16,
    /// Little was sent after many empty polls: the receiver probably waits for these packets.
    pub idle: bool,
}

impl<M: SharedMemory, R: Ring> NicQueue<M, R> {
    /// One poll of a queue whose packets go elsewhere: fetches a burst, has `deal` copy the first of its packets, completes those and
    /// hands them back. Returns the descriptors dealt with: those, or the ones dropped when all of a burst were bad.
    ///
    /// `deal` gets where the packets come from, the packets, and the ones of the next burst, which are to be prefetched; it returns how
    /// many descriptors, of whole packets, it has dealt with: at least those of one packet. It is called with the rest in the next poll.
    #[inline(always)]
    pub fn forward(
        &mut self,
        pipeline: &mut Pipeline,
        deal: impl FnOnce(&Origin<'_, M>, &[Desc], &[Desc]) -> usize,
    ) -> usize {
        self.forward_open(
            pipeline,
            #[inline(always)]
            |origin, packets, ahead| Dealt {
                descs: deal(origin, packets, ahead),
                open: false,
                goes_on: false,
            },
        )
    }

    /// As [`forward`](NicQueue::forward), where other cores may still be copying the packets when `deal` returns. Their units are handed back
    /// with the [flush](NicQueue::flush) after their completion. No more than four bursts may be open; with the host-managed pool none,
    /// before the next one is fetched. Returns how much was done.
    #[inline(always)]
    pub fn forward_open(
        &mut self,
        pipeline: &mut Pipeline,
        deal: impl FnOnce(&Origin<'_, M>, &[Desc], &[Desc]) -> Dealt,
    ) -> usize {
        if !pipeline.fill(self) {
            return pipeline.nothing(self);
        }
        let (current, next, _) = pipeline.parts();
        let origin = Origin { mem: &self.mem, mtu: self.config.mtu, idle: self.idle };
        let dealt = deal(&origin, current.part(), next.beyond(current));
        let n = dealt.descs;
        if !dealt.open {
            self.complete(current.rest().get(..n).unwrap_or_default());
        }
        current.advance(n);
        self.flush();
        dealt.moved()
    }

    /// True when the receive ring has no room for any packet: [`take_copies`](NicQueue::take_copies) would drop all of them.
    pub fn is_full(&mut self) -> bool {
        self.room(1) == 0
    }

    /// Delivers copies of packets that another program has sent, and publishes them. Those that are longer than this program's MTU, or
    /// that there is no room for, are dropped and counted here; `lost` is told which, and why. Prefetches the payload of `ahead`, as
    /// [`deliver`](NicQueue::deliver) does.
    #[inline(always)]
    pub fn take_copies(
        &mut self,
        from: &Origin<'_, M>,
        packets: &[Desc],
        ahead: &[Desc],
        mut lost: impl FnMut(&[Desc], Loss),
    ) {
        self.idle = from.idle;
        if from.mtu > self.config.mtu {
            self.take_fitting(from.mem, packets, &mut lost);
        } else {
            self.copy_or_drop(from.mem, packets, ahead, &mut lost);
        }
        self.flush();
    }

    #[inline(always)]
    fn copy_or_drop(
        &mut self,
        from: &M,
        packets: &[Desc],
        ahead: &[Desc],
        lost: &mut impl FnMut(&[Desc], Loss),
    ) {
        let (n, busy) = self.deliver_most(from, packets, ahead);
        if let Some(busy) = busy {
            let left = packets.get(n..).unwrap_or_default();
            self.count_dropped(left, busy);
            lost(left, busy.into());
        }
    }

    /// `take_copies` where some packets may be longer than the MTU.
    #[inline(never)]
    fn take_fitting(&mut self, from: &M, packets: &[Desc], lost: &mut impl FnMut(&[Desc], Loss)) {
        let (mut run, mut rest) = (0, packets);
        let mtu = u64::from(self.config.mtu);
        loop {
            let packet = first(rest.get(run..).unwrap_or_default());
            if !packet.is_empty() && bytes(packet) <= mtu {
                run += packet.len();
                continue;
            }
            let (fitting, others) = rest.split_at(run);
            if !fitting.is_empty() {
                self.copy_or_drop(from, fitting, &[], lost);
            }
            if packet.is_empty() {
                return;
            }
            self.counters.dropped_too_long += 1;
            self.publish_dropped(1);
            lost(packet, Loss::TooLong);
            (run, rest) = (0, others.get(packet.len()..).unwrap_or_default());
        }
    }
}

/// As [`take_copies`](NicQueue::take_copies), each packet to the queue that `spreader` says, or dropped by one of its rules and counted at
/// the first queue: `queues` are all queues of the receiver's region, in order. Deals with the first [`FETCH`](super::FETCH) descriptors, which
/// `lost` is told of with the metadata that they would have been received with. Says in `receivers` which queues it has delivered to.
#[inline(always)]
pub fn spread_copies<M: SharedMemory, R: Ring>(
    queues: &mut [NicQueue<M, R>],
    from: &Origin<'_, M>,
    packets: &[Desc],
    ahead: &[Desc],
    spreader: &Spreader,
    receivers: &mut Receivers,
    mut lost: impl FnMut(&[Desc], Loss),
) {
    Steered::new(from.mem, spreader, packets, 0).deal(
        ahead,
        #[inline(always)]
        |to, packets, ahead| {
            // Table and rules name existing queues only: that was checked when they were set.
            let Some(queue) = queues.get_mut(usize::from(to)) else {
                // The packets are the sender's, who completes them.
                let first = queues.first_mut().into_iter();
                first.for_each(|first| first.counters.dropped_by_rule += count_packets(packets));
                return lost(packets, Loss::ByRule);
            };
            queue.take_copies(from, packets, ahead, &mut lost);
            receivers.insert(usize::from(to));
        },
    );
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::config::Config;
    use crate::ring::{Doorbell, GroupedClear, GroupedEpoch, Packed, Padded, Ring};
    use crate::testing::{Sides, config, rounds};
    use std::vec::Vec;

    /// One poll of `from`, all of whose packets go to `to`.
    fn poll<A: Ring, B: Ring>(from: &mut Sides<A>, to: &mut Sides<B>, pipeline: &mut Pipeline) -> usize {
        from.nic.forward(pipeline, |origin, packets, ahead| {
            to.nic.take_copies(origin, packets, ahead, |_, _| ());
            packets.len()
        })
    }

    /// Packets of every shape from a region with one design and pool to one with another, and on to where their buffers come back.
    fn cross<A: Ring, B: Ring>(shared: [bool; 2]) {
        let config =
            |shared, of: Config| Config { shared_pool: shared && of.shared_pool, buffers: 128, ..of };
        let mut from = Sides::<A>::new(&config(shared[0], crate::testing::config::<A>()));
        let mut to = Sides::<B>::new(&config(shared[1], crate::testing::config::<B>()));
        let mut pipeline = Pipeline::default();
        for round in 0..rounds(60, 1) as u8 {
            for (len, packets) in [(20, 9), (64, 12), (129, 5), (4096, 2), (9000, 2)] {
                to.receive(32, |_, _| panic!("nothing was sent")); // posts receive buffers
                let buffers = packets * usize::from(len).div_ceil(4096);
                assert_eq!(
                    from.send(len, buffers, round),
                    buffers,
                    "{len} B, round {round}: buffers come back"
                );
                while poll(&mut from, &mut to, &mut pipeline) > 0 {}
                let mut got = 0;
                let mut see = |bytes, byte| {
                    assert_eq!(byte, Some(round));
                    got += usize::from(bytes);
                };
                while to.receive(32, &mut see) > 0 {}
                assert_eq!(got, packets * usize::from(len));
            }
        }
        let (sent, got) = (from.nic.counters(), to.nic.counters());
        assert_eq!((sent.tx_packets, sent.tx_bytes), (got.rx_packets, got.rx_bytes), "{got:?}");
        assert_eq!(got.dropped_ring_full + got.dropped_no_buffer + got.dropped_too_long, 0);
    }

    #[test]
    fn packets_cross_between_designs_and_pools() {
        let pools = [[true, true], [true, false], [false, true], [false, false]];
        for shared in pools.into_iter().take(rounds(4, 1)) {
            cross::<GroupedEpoch, GroupedEpoch>(shared);
            cross::<GroupedEpoch, Doorbell>(shared);
            cross::<Doorbell, GroupedClear>(shared);
            cross::<Packed, GroupedEpoch>(shared);
            cross::<GroupedClear, Padded>(shared);
        }
    }

    #[test]
    fn a_receiver_that_does_not_read_drops_and_its_sender_goes_on() {
        let [mut from, mut to] = [(); 2].map(|()| Sides::<GroupedEpoch>::new(&config::<GroupedEpoch>()));
        let mut pipeline = Pipeline::default();
        let mut sent = 0;
        for _ in 0..100 {
            sent += from.send(64, 16, 1) as u64;
            while poll(&mut from, &mut to, &mut pipeline) > 0 {}
        }
        assert_eq!(sent, 1600);
        let got = to.nic.counters();
        assert!(got.dropped_ring_full > 1000, "{got:?}");
        assert_eq!(got.rx_packets + got.dropped_ring_full + got.dropped_no_buffer, sent);
        assert_eq!(to.host.drops().rx_dropped, got.dropped_ring_full + got.dropped_no_buffer);
    }

    #[test]
    fn what_the_receivers_mtu_forbids_is_dropped_alone() {
        let mut from = Sides::<GroupedEpoch>::new(&config::<GroupedEpoch>());
        let mut to = Sides::<GroupedEpoch>::new(&Config { mtu: 1500, ..config::<GroupedEpoch>() });
        for len in [60, 1501, 9000, 1500, 5000, 9001, 61] {
            assert!(from.send(len, usize::from(len).div_ceil(4096), 5) > 0);
        }
        while poll(&mut from, &mut to, &mut Pipeline::default()) > 0 {}
        let mut got = Vec::new();
        to.receive(32, |len, _| got.push(len));
        assert_eq!(got, [60, 1500, 61]);
        assert_eq!((to.nic.counters().dropped_too_long, to.host.drops().rx_dropped), (4, 4));
    }

    #[test]
    fn a_burst_may_be_dealt_with_in_parts() {
        let [mut from, mut to] = [(); 2].map(|()| Sides::<GroupedEpoch>::new(&config::<GroupedEpoch>()));
        let mut pipeline = Pipeline::default();
        assert_eq!(from.send(64, 10, 9), 10);
        for _ in 0..10 {
            let n = from.nic.forward(&mut pipeline, |origin, packets, ahead| {
                to.nic.take_copies(origin, &packets[..1], ahead, |_, _| ());
                1
            });
            assert_eq!(n, 1);
        }
        assert_eq!(poll(&mut from, &mut to, &mut pipeline), 0);
        let received: usize = (0..10).map(|_| to.receive(32, |_, _| ())).sum();
        assert_eq!(received, 10);
    }
}
