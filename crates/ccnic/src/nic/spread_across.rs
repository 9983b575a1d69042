//! Receive-side scaling over several cores: each core polls some of a program's queues, and hands a packet
//! for a queue of another core over to that core.
//!
//! A ring has one producer, so only the core that polls a queue delivers into its receive ring. The core that
//! fetches a packet hashes it. If the receive queue is its own it delivers the packet as
//! [`spread`](super::spread()) does, otherwise it passes the descriptor on ([`OtherCores::hand_off`]); the
//! other core copies the packet ([`deliver_handed`]).
//!
//! # Who frees the sender's buffer
//! * Shared pool: the core that delivers the packet, to its own magazine. The buffer that it receives into
//!   next is then in its cache.
//! * Host-managed pool, inline packets and kept segments: the host, which may use a buffer again when its descriptor is handed back. The
//!   fetching queue keeps its descriptors open until every packet of the burst has been delivered
//!   ([`NicQueue::handed_over`] tells it), and fetches nothing before that.
//!
//! A packet that cannot be handed over is dropped by the core that fetched it, and counted at the queue that
//! fetched it.

use crate::desc::Desc;
use crate::memory::{SharedMemory, prefetch_payload};
use crate::ring::Ring;
use crate::rss::Spreader;

use super::loopback::Pipeline;
use super::spread::{DROP, Steered, count_packets};
use super::{FETCH, NicQueue};

/// The cores that poll a program's queues, seen from one of them.
pub trait OtherCores {
    /// The index among this core's queues of the queue with number `queue`; `None` when another core polls
    /// it.
    fn local(&self, queue: u16) -> Option<usize>;

    /// Passes descriptors on to the core that polls the queue with number `to`: as many whole packets of
    /// `packets`, in order, as there is room for. Returns the number of descriptors. `from` is the index of
    /// the queue here that has fetched them.
    fn hand_off(&mut self, from: usize, to: u16, packets: &[Desc]) -> usize;

    /// Publishes what was handed off since the last call.
    fn publish(&mut self);
}

/// One poll of queue `from` of this core: fetches a burst, delivers each packet to the queue that `spreader`
/// says or hands it over, publishes. Returns the descriptors dealt with.
///
/// `queues` are those of a region's queues that this core polls; `cores` knows the others.
#[inline(always)]
pub fn spread_across<M: SharedMemory, R: Ring, C: OtherCores>(
    queues: &mut [NicQueue<M, R>],
    from: usize,
    pipeline: &mut Pipeline,
    mem: &M,
    spreader: &Spreader,
    reflect: bool,
    cores: &mut C,
) -> usize {
    let Some(source) = queues.get_mut(from) else { return 0 };
    if source.waits_for_others(pipeline) {
        return 0;
    }
    if !pipeline.fill(source) {
        return pipeline.nothing(source);
    }
    let (idle, home) = (source.idle, source.number);
    let (current, next, receivers) = pipeline.parts();
    let part = current.part();
    let n = part.len();
    let mut handed = 0;
    Steered::new(mem, spreader, part, home).deal(
        next.beyond(current),
        #[inline(always)]
        |to, packets, ahead| {
            if let Some((at, queue)) = cores.local(to).and_then(|at| Some((at, queues.get_mut(at)?))) {
                queue.idle = idle;
                queue.deliver_or_drop(mem, packets, ahead, reflect);
                receivers.insert(at);
                return;
            }
            if to == DROP {
                queues.get_mut(from).into_iter().for_each(|source| source.drop_by_rule(packets));
                return;
            }
            let taken = cores.hand_off(from, to, packets);
            handed += taken;
            if taken < packets.len()
                && let Some(source) = queues.get_mut(from)
            {
                source.drop_unhanded(packets.get(taken..).unwrap_or_default());
            }
        },
    );
    cores.publish();
    current.advance(n);
    if let Some(source) = queues.get_mut(from) {
        source.hand_over(n, handed);
        source.flush();
    }
    n
}

/// Delivers packets that other cores have fetched from queues of the same region, each to its queue, and
/// publishes them. What there is no room for is dropped and counted there.
///
/// `local` gives the index in `queues` of a queue number.
#[inline(always)]
pub fn deliver_handed<M: SharedMemory, R: Ring>(
    queues: &mut [NicQueue<M, R>],
    local: impl Fn(u16) -> Option<usize>,
    mem: &M,
    steered: &mut Steered,
    reflect: bool,
) {
    if let Some(queue) = queues.first().filter(|_| !reflect) {
        let fetch = queue.payload_fetch(steered.descs());
        for desc in steered.descs() {
            prefetch_payload(mem, desc.offset(), u32::from(desc.len()), fetch);
        }
    }
    let mut picked = [Desc::default(); FETCH];
    while let Some((to, n)) = steered.pick(&mut picked) {
        // The cores agree who polls which queue, for as long as the program is attached.
        let Some((at, queue)) = local(to).and_then(|at| Some((at, queues.get_mut(at)?))) else { continue };
        queue.deliver_or_drop(mem, picked.get(..n).unwrap_or_default(), &[], reflect);
        steered.receivers.insert(at);
    }
}

impl<M: SharedMemory, R: Ring> NicQueue<M, R> {
    /// True when the host may write where a packet lies as soon as its unit is handed back.
    #[inline(always)]
    fn holds_units(&self) -> bool {
        self.has_areas() || !self.config.shared_pool || self.kept_until != 0
    }

    /// Of `n` descriptors that have been dealt with, `handed` are with other cores.
    #[inline(always)]
    fn hand_over(&mut self, n: usize, handed: usize) {
        if self.holds_units() {
            self.done(n - handed);
        } else {
            self.untracked += handed;
            self.done(n);
        }
    }

    /// With the host-managed pool, inline packets or kept segments: true while packets of the last burst are with other cores. No burst may be
    /// fetched then.
    #[inline(always)]
    fn waits_for_others(&self, pipeline: &Pipeline) -> bool {
        self.holds_units() && self.open > pipeline.waiting()
    }

    /// Other cores are done with `descs` descriptors that this queue has handed over: with the host-managed
    /// pool, and with inline and kept segments, the host may have them back. (Otherwise there is nothing to do: the core that
    /// delivered the packets has freed their buffers.)
    pub fn handed_over(&mut self, descs: usize) {
        // Those that were not counted as open may still come between those that were: the last one of all ends the burst.
        let uncounted = descs.min(self.untracked);
        self.untracked -= uncounted;
        if descs > uncounted {
            self.done(descs - uncounted);
            self.flush();
        }
    }

    /// Takes back packets that were handed to a core that has stopped before it delivered them: they are
    /// dropped and counted here.
    pub fn take_back(&mut self, packets: &[Desc]) {
        self.drop_unhanded(packets);
        self.handed_over(packets.len());
    }

    /// Packets that cannot be handed over.
    #[cold]
    #[inline(never)]
    fn drop_unhanded(&mut self, packets: &[Desc]) {
        self.free_all(packets);
        let dropped = count_packets(packets);
        self.counters.dropped_handoff += dropped;
        self.publish_dropped(dropped);
    }
}
