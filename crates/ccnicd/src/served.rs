//! A queue pair being served: the NIC side of the interface behind one call per turn.

use ccnic::ring::{Doorbell, GroupedClear, GroupedEpoch, Packed, Padded, Ring};
use ccnic::{Design, FETCH, Layout, NicQueue, Pipeline, loopback};
use ccnic_shm::control::QueueStatus;
use ccnic_shm::nic::Bell;
use ccnic_shm::{NativePort, Region};

use crate::wire::Wire;

/// What a polling thread serves. The one indirect call per turn is here, outside the bursts.
pub trait Serve: Send {
    /// One turn; returns the packets moved.
    fn turn(&mut self) -> usize;
    /// Which of the program's queues it is.
    fn number(&self) -> u16;
    /// From now on the program is woken by this bell when it sleeps.
    fn notify(&mut self, bell: Bell);
    /// The most bursts that the program can have submitted.
    fn bursts(&self) -> usize;
    /// Before letting go: returns what the NIC keeps of the program's buffers.
    fn retire(&mut self);
    /// Counters so far.
    fn status(&self) -> QueueStatus;
}

struct Served<R: Ring> {
    queue: NicQueue<NativePort, R>,
    pipeline: Pipeline,
    port: NativePort,
    bell: Option<Bell>,
    reflect: bool,
    number: u16,
    ring: u32,
}

impl<R: Ring> Serve for Served<R> {
    fn turn(&mut self) -> usize {
        let moved = loopback(&mut self.queue, &mut self.pipeline, &self.port, self.reflect);
        if let Some(bell) = &self.bell {
            bell.look(&mut self.queue);
        }
        moved
    }

    fn number(&self) -> u16 {
        self.number
    }

    fn notify(&mut self, bell: Bell) {
        bell.answer();
        self.bell = Some(bell);
    }

    fn bursts(&self) -> usize {
        self.ring as usize / FETCH + 1
    }

    fn retire(&mut self) {
        self.queue.retire();
    }

    fn status(&self) -> QueueStatus {
        let c = &self.queue.counters;
        QueueStatus {
            queue: self.number,
            core: 0,
            tx_packets: c.tx_packets,
            tx_bytes: c.tx_bytes,
            rx_packets: c.rx_packets,
            rx_bytes: c.rx_bytes,
            drop_bad_descriptor: self.queue.bad_descriptors(),
            drop_bad_chain: self.queue.bad_chains(),
            drop_too_long: c.too_long,
            wait_ring_full: c.ring_full,
            wait_no_buffer: c.no_buffer,
        }
    }
}

/// The NIC side of queue pair `number`, for whatever design the region has.
pub(crate) fn serve(region: &Region, layout: &Layout, number: u16, wire: Wire) -> Option<Box<dyn Serve>> {
    fn of<R: Ring>(region: &Region, layout: &Layout, number: u16, wire: Wire) -> Option<Box<dyn Serve>>
    where
        Served<R>: Send,
    {
        Some(Box::new(Served::<R> {
            queue: NicQueue::new(region.port(), layout, number)?,
            pipeline: Pipeline::default(),
            port: region.port(),
            bell: None,
            // The host frees what it sent when it manages the pool: the same buffer cannot come back to it then.
            reflect: wire == Wire::Reflect && layout.config().shared_pool,
            number,
            ring: layout.config().ring,
        }))
    }
    match layout.config().design {
        Design::GroupedEpoch => of::<GroupedEpoch>(region, layout, number, wire),
        Design::GroupedClear => of::<GroupedClear>(region, layout, number, wire),
        Design::Packed => of::<Packed>(region, layout, number, wire),
        Design::Padded => of::<Padded>(region, layout, number, wire),
        Design::Doorbell => of::<Doorbell>(region, layout, number, wire),
    }
}
