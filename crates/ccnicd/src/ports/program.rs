//! The queue pairs of an attached program as a port.

use crate::memory::RegionMemory;
use ccnic::nic::{FETCH, NicQueue};
use ccnic::ring::Ring;
use ccnic::{Layout, QueueError, Tuning};
use ccnic_control::Notifier;
use ccnic_control::messages::QueueStatus;
use ccnic_frame::Meta;
use ccnic_shm::{NativeMemory, Region};
use rustix::event::{PollFd, PollFlags};

use super::{Doze, Notify, Port, Statistics};

/// Those of a program's queue pairs that one worker polls, in ascending order.
pub struct ProgramPort<R: Ring> {
    queues: Vec<NicQueue<NativeMemory, R>>,
    numbers: Vec<u16>,
    /// Of queues whose program has asked for notifications.
    notifiers: Vec<Option<Notifier>>,
    /// There is one at least.
    notifying: bool,
    mem: NativeMemory,
    mtu: u16,
    /// Descriptors of a ring.
    ring: u32,
    shared_pool: bool,
    areas: bool,
    /// Queues that have been retired.
    retired: usize,
}

impl<R: Ring> std::fmt::Debug for ProgramPort<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProgramPort").field("queues", &self.numbers).finish_non_exhaustive()
    }
}

impl<R: Ring> ProgramPort<R> {
    /// Opens the NIC side of some of a region's queue pairs, at the positions where a predecessor left them.
    ///
    /// # Errors
    /// When the region has no such queue, or another design of ring.
    pub fn new(region: &Region, layout: &Layout, numbers: Vec<u16>) -> Result<ProgramPort<R>, QueueError> {
        let queue = |number: &u16| NicQueue::new(region.memory(), layout, *number);
        Ok(ProgramPort {
            queues: numbers.iter().map(queue).collect::<Result<_, _>>()?,
            notifiers: numbers.iter().map(|_| None).collect(),
            notifying: false,
            numbers,
            mem: region.memory(),
            mtu: layout.config().mtu,
            ring: layout.config().ring,
            shared_pool: layout.config().shared_pool,
            areas: layout.config().has_areas(),
            retired: 0,
        })
    }

    /// Gives all queues a tuning.
    pub fn set_tuning(&mut self, tuning: Tuning) {
        self.queues.iter_mut().for_each(|queue| queue.set_tuning(tuning));
    }

    /// Packets go to other programs: of the metadata that this one sends its requests are passed on, and nothing that a NIC tells a receiver.
    pub fn joined(mut self) -> ProgramPort<R> {
        self.queues.iter_mut().for_each(|queue| queue.set_sender_bits(Meta::REQUESTS));
        self
    }

    /// The memory that the program's packets lie in, and the most bytes that one of them has.
    pub fn lends(&self) -> (NativeMemory, u16) {
        (self.mem.clone(), self.mtu)
    }

    /// True when both sides use one pool of buffers; false when the host manages it.
    pub fn shared_pool(&self) -> bool {
        self.shared_pool
    }

    /// True when the program may write where a fetched packet lies as soon as its descriptor has been handed back: it manages the pool, or
    /// the packet may lie in the ring.
    pub fn holds_units(&self) -> bool {
        self.areas || !self.shared_pool
    }
}

impl<R: Ring> Port for ProgramPort<R> {
    type Queue = NicQueue<NativeMemory, R>;

    #[inline(always)]
    fn queues(&mut self) -> (&mut [Self::Queue], &NativeMemory) {
        (&mut self.queues, &self.mem)
    }

    fn backlog(&self) -> usize {
        self.queues.len() * (self.ring as usize / FETCH + 1)
    }

    #[inline(always)]
    fn polled(&mut self, at: usize) {
        if self.notifying
            && let (Some(Some(notifier)), Some(queue)) = (self.notifiers.get_mut(at), self.queues.get_mut(at))
        {
            notifier.notify_if_armed(queue);
        }
    }

    fn notifies(&self, at: usize) -> bool {
        self.notifiers.get(at).is_some_and(Option::is_some)
    }

    fn retire(&mut self) -> bool {
        let Some(queue) = self.queues.get_mut(self.retired) else { return false };
        queue.retire();
        self.retired += 1;
        true
    }

    fn doze(&self) -> Option<&dyn Doze> {
        Some(self)
    }

    fn notify(&mut self) -> Option<&mut dyn Notify> {
        Some(self)
    }
}

/// A program wakes the NIC by the sockets that it is notified by, if it has said so for each of its queues.
impl<R: Ring> Doze for ProgramPort<R> {
    fn arm(&self) -> bool {
        let wakes = |notifier: &Option<Notifier>| notifier.as_ref().is_some_and(|it| it.waker().is_some());
        if self.retired > 0 || !self.notifiers.iter().all(wakes) || self.has_work() {
            return false;
        }
        self.queues.iter().for_each(NicQueue::arm);
        true
    }

    fn has_work(&self) -> bool {
        self.queues.iter().any(|queue| queue.tx_waits() || queue.needs_notification().is_some())
    }

    fn calls<'a>(&'a self, to: &mut Vec<PollFd<'a>>) {
        let wakers = self.notifiers.iter().flatten().filter_map(Notifier::waker);
        to.extend(wakers.map(|waker| PollFd::from_borrowed_fd(waker, PollFlags::IN)));
    }

    fn disarm(&self, answered: &[PollFd<'_>]) {
        self.queues.iter().for_each(NicQueue::disarm);
        for (notifier, answer) in self.notifiers.iter().flatten().zip(answered) {
            if !answer.revents().is_empty() {
                notifier.take_calls();
            }
        }
    }
}

impl<R: Ring> Notify for ProgramPort<R> {
    fn set_notifier(&mut self, queue: u16, notifier: Notifier) {
        let at = self.numbers.iter().position(|number| *number == queue);
        if let Some(slot) = at.and_then(|at| self.notifiers.get_mut(at)) {
            *slot = Some(notifier);
            self.notifying = true;
        }
    }
}

impl<R: Ring> Statistics for ProgramPort<R> {
    fn report(&self) -> Vec<QueueStatus> {
        self.numbers.iter().zip(&self.queues).map(|(number, queue)| status(*number, queue)).collect()
    }
}

fn status<R: Ring>(number: u16, queue: &NicQueue<NativeMemory, R>) -> QueueStatus {
    let c = queue.counters();
    QueueStatus {
        queue: number,
        core: 0,
        tx_packets: c.tx_packets,
        tx_bytes: c.tx_bytes,
        rx_packets: c.rx_packets,
        rx_bytes: c.rx_bytes,
        drop_bad_descriptor: c.bad_descriptor,
        drop_bad_chain: c.bad_chain,
        drop_too_long: c.too_long,
        drop_ring_full: c.dropped_ring_full,
        drop_no_buffer: c.dropped_no_buffer,
        drop_over_mtu: c.dropped_too_long,
        drop_handoff_full: c.dropped_handoff,
        drop_flow_rule: c.dropped_by_rule,
        wait_ring_full: c.ring_full,
        wait_no_buffer: c.no_buffer,
        ..QueueStatus::default()
    }
}
