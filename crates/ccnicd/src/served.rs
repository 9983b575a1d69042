//! Queue pairs being served: the NIC side of the interface behind one call per turn.

use std::any::Any;

use ccnic::Layout;
use ccnic::nic::{FETCH, NicQueue, Pipeline, loopback, spread};
use ccnic::ring::{Ring, RingVisitor};
use ccnic::rss::Spreader;
use ccnic_control::Notifier;
use ccnic_control::messages::QueueStatus;
use ccnic_shm::{NativeMemory, Region};

use crate::wire::Wire;

/// Queue pairs of one program, which one polling thread serves. The one indirect call per turn is here, outside the bursts.
pub trait Serve: Send + Any {
    /// Serves one burst, of the next queue that has one; returns the packets moved.
    fn turn(&mut self) -> usize;
    /// How many queues there are.
    fn queues(&self) -> usize;
    /// From now on the program is woken by this notifier when it sleeps on queue `number`.
    fn notify(&mut self, number: u16, notifier: Notifier);
    /// The most bursts that the program can have submitted.
    fn bursts(&self) -> usize;
    /// Before letting go, once for each queue: returns what the NIC keeps of the program's buffers. False when it has.
    fn retire(&mut self) -> bool;
    /// Takes over other queues of the same program, with what is on its way in them.
    fn join(&mut self, others: Box<dyn Serve>);
    /// Spreads packets over the queues from now on, or does not. All queues of the program must be here.
    fn spread(&mut self, by: Option<Box<Spreader>>);
    /// Counters so far.
    fn report(&self) -> Vec<QueueStatus>;
}

/// In the order of their numbers.
struct Served<R: Ring> {
    numbers: Vec<u16>,
    queues: Vec<NicQueue<NativeMemory, R>>,
    pipelines: Vec<Pipeline>,
    /// Of queues that asked to be woken.
    notifiers: Vec<Option<Notifier>>,
    /// The queue to look at first.
    next: usize,
    spreader: Option<Box<Spreader>>,
    mem: NativeMemory,
    reflect: bool,
    ring: u32,
    retired: usize,
}

impl<R: Ring> Served<R> {
    #[inline(always)]
    fn turn_of(&mut self, at: usize) -> usize {
        if self.spreader.is_some() {
            return self.spread_turn_of(at);
        }
        match (self.queues.get_mut(at), self.pipelines.get_mut(at)) {
            (Some(queue), Some(pipeline)) => loopback(queue, pipeline, &self.mem, self.reflect),
            _ => 0,
        }
    }

    /// Out of line: the loop without it stays as short as it was.
    #[inline(never)]
    fn spread_turn_of(&mut self, at: usize) -> usize {
        let (Some(spreader), Some(pipeline)) = (&self.spreader, self.pipelines.get_mut(at)) else { return 0 };
        spread(&mut self.queues, at, pipeline, &self.mem, spreader, self.reflect)
    }
}

impl<R: Ring> Serve for Served<R>
where
    Served<R>: Send,
{
    fn turn(&mut self) -> usize {
        for _ in 0..self.queues.len() {
            let at = self.next;
            self.next = if at + 1 < self.queues.len() { at + 1 } else { 0 };
            let moved = self.turn_of(at);
            if let (Some(Some(notifier)), Some(queue)) = (self.notifiers.get(at), self.queues.get_mut(at)) {
                notifier.look(queue);
            }
            if moved > 0 {
                return moved;
            }
        }
        0
    }

    fn queues(&self) -> usize {
        self.queues.len()
    }

    fn notify(&mut self, number: u16, notifier: Notifier) {
        let at = self.numbers.iter().position(|n| *n == number);
        if let Some(place) = at.and_then(|at| self.notifiers.get_mut(at)) {
            notifier.answer();
            *place = Some(notifier);
        }
    }

    fn bursts(&self) -> usize {
        self.queues.len() * (self.ring as usize / FETCH + 1)
    }

    fn retire(&mut self) -> bool {
        let Some(queue) = self.queues.get_mut(self.retired) else { return false };
        queue.retire();
        self.retired += 1;
        true
    }

    fn join(&mut self, others: Box<dyn Serve>) {
        let others: Box<dyn Any> = others;
        // Queues of one program are of one design.
        let Ok(others) = others.downcast::<Served<R>>() else { return };
        let mut all: Vec<_> = [std::mem::take(&mut self.numbers), others.numbers]
            .into_iter()
            .flatten()
            .zip(self.queues.drain(..).chain(others.queues))
            .zip(self.pipelines.drain(..).chain(others.pipelines))
            .zip(self.notifiers.drain(..).chain(others.notifiers))
            .collect();
        all.sort_by_key(|(((number, _), _), _)| *number);
        for (((number, queue), pipeline), notifier) in all {
            self.numbers.push(number);
            self.queues.push(queue);
            self.pipelines.push(pipeline);
            self.notifiers.push(notifier);
        }
    }

    fn spread(&mut self, by: Option<Box<Spreader>>) {
        self.spreader = by;
    }

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
        wait_ring_full: c.ring_full,
        wait_no_buffer: c.no_buffer,
    }
}

/// The NIC side of some of a region's queue pairs, in ascending order, for whatever design it has.
pub(crate) fn serve(
    region: &Region,
    layout: &Layout,
    numbers: Vec<u16>,
    wire: Wire,
) -> Option<Box<dyn Serve>> {
    layout.config().design.dispatch(Serving { region, layout, numbers, wire })
}

/// What [`serve`] makes, for the ring type of the region.
struct Serving<'a> {
    region: &'a Region,
    layout: &'a Layout,
    numbers: Vec<u16>,
    wire: Wire,
}

impl RingVisitor for Serving<'_> {
    type Output = Option<Box<dyn Serve>>;

    fn visit<R: Ring>(self) -> Self::Output {
        let Serving { region, layout, numbers, wire } = self;
        let queue = |number: &u16| NicQueue::new(region.memory(), layout, *number);
        Some(Box::new(Served::<R> {
            queues: numbers.iter().map(queue).collect::<Result<_, _>>().ok()?,
            pipelines: numbers.iter().map(|_| Pipeline::default()).collect(),
            notifiers: numbers.iter().map(|_| None).collect(),
            numbers,
            next: 0,
            spreader: None,
            mem: region.memory(),
            // The host frees what it sent when it manages the pool: the same buffer cannot come back to it then.
            reflect: wire == Wire::Reflect && layout.config().shared_pool,
            ring: layout.config().ring,
            retired: 0,
        }))
    }
}
