//! A PCIe NIC that loops packets back: the device's side of `ccnic::ring::Doorbell` with a host-managed pool, by DMA (CC-NIC
//! sections 2.1 and 5.1).
//!
//! ```text
//! host                                      device
//! tx.tail = n            (posted write) ->  descriptors: read, up to `fetch` ahead
//!                                           payload: read; the engine's time per packet
//! tx.head, every `tx_writeback`         <-  transmitted
//!                                           line rate, pipeline: the packet comes back
//! fill.tail = n          (posted write) ->  descriptors of posted receive buffers: read, up to `fetch` ahead
//! payload                               <-  written into a posted buffer
//! descriptors, up to `rx_writeback`     <-  written to the RX ring
//! rx.tail                               <-  written after them
//! fill.head                             <-  written when more posted buffers are fetched
//! ```
//!
//! An E810 and a ConnectX-6 differ in their numbers only. A device that has fewer contexts than queues serves some queues while the
//! others wait; a queue is served for as many descriptors as the device fetches ahead. Real devices mark each descriptor as
//! done, where the interface has a tail word: its write is an extra packet on the link here.
//! Descriptors of one write-back go together while the link is busy with what came before, up to `rx_writeback`.
//!
//! The device trusts the host no more than any NIC does: it checks positions, descriptors and buffers.

use std::collections::VecDeque;

use ccnic::desc::Desc;
use ccnic::layout::{LARGE_BUF, PoolLayout, QueueLayout, RingLayout, SMALL_BUF};
use ccnic::{Config, Layout};

use super::peer::{Answers, Peer};
use crate::kernel::time::{Ps, ps};
use crate::observe::counters::NicCounts;
use crate::platform::Device;

/// Bytes of a descriptor in memory.
pub const DESC: u32 = ccnic::desc::DESC;
/// Packets of a queue inside the NIC at most: beyond, it stops transmitting.
const INSIDE: usize = 1024;

/// What memory is read for.
#[derive(Debug, Clone, Copy)]
pub enum Purpose {
    /// Descriptors of packets, from a position on.
    Packets { queue: u16, position: u64 },
    /// Descriptors of posted receive buffers, from a position on.
    Buffers { queue: u16, position: u64 },
    /// A segment of a packet.
    Payload { queue: u16, packet: u64, segment: u8 },
    /// A measurement.
    Probe,
}

/// A packet inside the NIC.
#[derive(Debug)]
pub struct Packet {
    pub data: Vec<u8>,
    pub meta: u64,
}

/// A packet whose payload is being read.
#[derive(Debug)]
pub struct Sending {
    pub descs: u64,
    /// `None` for what is not there yet.
    pub segments: Vec<Option<Vec<u8>>>,
    pub meta: u64,
    /// The descriptor was bad: nothing comes back.
    pub dropped: bool,
}

/// A ring of descriptors that the device fetches ahead.
#[derive(Debug)]
pub struct Fetch {
    pub ring: RingLayout,
    /// The register.
    pub tail: u64,
    /// Positions up to which descriptors have been asked for, and used.
    pub asked: u64,
    pub taken: u64,
    /// Those between the two; `None` for what is not there yet.
    pub descs: VecDeque<Option<Desc>>,
}

impl Fetch {
    fn new(ring: RingLayout) -> Fetch {
        Fetch { ring, tail: 0, asked: 0, taken: 0, descs: VecDeque::new() }
    }

    /// Sets the register; false for an invalid value.
    pub fn set_tail(&mut self, tail: u64) -> bool {
        let sane = tail >= self.tail && tail - self.taken <= u64::from(self.ring.count);
        if sane {
            self.tail = tail;
        }
        sane
    }

    /// The address of a descriptor.
    pub fn slot(&self, position: u64) -> u32 {
        self.ring.units + (position % u64::from(self.ring.count)) as u32 * DESC
    }

    /// The descriptors that are worth fetching now: all that there are, or half of what the device holds.
    pub fn next(&mut self, hold: u64) -> Option<(u64, u32)> {
        let there = self.tail - self.asked;
        let room = hold.saturating_sub(self.asked - self.taken);
        let n = there.min(room);
        if n == 0 || (n < there && n < hold / 2) {
            return None;
        }
        let count = u64::from(self.ring.count);
        let n = n.min(count - self.asked % count);
        let position = self.asked;
        self.asked += n;
        self.descs.extend((0..n).map(|_| None));
        Some((position, n as u32))
    }

    /// Descriptors have come.
    pub fn arrived(&mut self, position: u64, bytes: &[u8]) {
        let first = (position - self.taken) as usize;
        for (slot, bytes) in self.descs.iter_mut().skip(first).zip(bytes.as_chunks::<{ DESC as usize }>().0) {
            let word = |at: usize| {
                bytes.get(at..at + 8).and_then(|w| w.try_into().ok()).map_or(0, u64::from_le_bytes)
            };
            let (first, meta) = (word(0), word(8));
            let desc = Desc::new(first as u32, (first >> 32) as u16, (first >> 48) as u8);
            *slot = Some(desc.with_meta(meta));
        }
    }

    /// The last descriptor that came does not end its packet.
    fn is_cut(&self) -> bool {
        self.descs.back().copied().flatten().is_some_and(Desc::more)
    }

    fn take(&mut self) -> Option<Desc> {
        let desc = self.descs.front().copied().flatten()?;
        self.descs.pop_front();
        self.taken += 1;
        Some(desc)
    }
}

/// Whether the device serves a queue: it has a context for each queue that it serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Service {
    /// It has no context, and needs none.
    Idle,
    /// It waits for a context.
    Waiting,
    /// It has a context; so many descriptors have been requested since.
    Active(u64),
}

/// One queue pair.
#[derive(Debug)]
pub struct Queue {
    /// Where its region begins; the offsets of descriptors count from there.
    pub base: u32,
    /// Its rings, in the machine's memory.
    pub rings: QueueLayout,
    pub packets: Fetch,
    pub buffers: Fetch,
    /// Packets whose payload is being read, in order, and the number of the first.
    pub sending: VecDeque<Sending>,
    pub first: u64,
    /// Descriptors transmitted, and those that the head in memory covers.
    pub transmitted: u64,
    pub reported: u64,
    /// Packets inside the NIC.
    pub inside: usize,
    /// Whether the engine serves it.
    pub service: Service,
    /// Packets that wait for a receive buffer.
    pub received: VecDeque<Packet>,
    /// Receive descriptors not written back, and the position of the first.
    pub filled: Vec<Desc>,
    pub published: u64,
    pub writeback_due: bool,
}

impl Queue {
    fn new(layout: QueueLayout, base: u32) -> Queue {
        let at = |ring: RingLayout| RingLayout {
            units: base + ring.units,
            areas: if ring.areas == 0 { 0 } else { base + ring.areas },
            tail: base + ring.tail,
            head: base + ring.head,
            taken: base + ring.taken,
            ..ring
        };
        let [rx_dropped, rx_event, tx_event] =
            [layout.rx_dropped, layout.rx_event, layout.tx_event].map(|at| base + at);
        let [tx, rx, fill] = [layout.tx, layout.rx, layout.fill].map(at);
        let rings = QueueLayout { tx, rx, fill, rx_dropped, rx_event, tx_event };
        Queue {
            base,
            rings,
            packets: Fetch::new(rings.tx),
            buffers: Fetch::new(rings.fill),
            sending: VecDeque::new(),
            first: 0,
            transmitted: 0,
            reported: 0,
            inside: 0,
            service: Service::Idle,
            received: VecDeque::new(),
            filled: Vec::new(),
            published: 0,
            writeback_due: false,
        }
    }

    /// Descriptors of the next packet, if all of them are here.
    pub fn next_packet(&self) -> Option<usize> {
        if self.inside >= INSIDE {
            return None;
        }
        for (i, desc) in self.packets.descs.iter().enumerate() {
            if !(*desc)?.more() {
                return Some(i + 1);
            }
        }
        None
    }
}

/// The device.
#[derive(Debug)]
pub struct PcieNic {
    pub pipeline: Ps,
    /// The engine's time for a packet, and for each of its segments but the first.
    pub packet: Ps,
    pub segment: Ps,
    /// The time of a doorbell, and when the last one has been taken.
    pub doorbell: Ps,
    pub rung: Ps,
    /// Time of a byte on the wire.
    pub per_byte: f64,
    pub fetch: u64,
    /// Queues that it can serve at once, how many it serves, and those that wait.
    pub contexts: u16,
    pub served: u16,
    pub waiting: VecDeque<u16>,
    pub tx_writeback: u64,
    pub rx_writeback: usize,
    /// Bytes of a descriptor on the link.
    pub descriptor: u32,
    pub pool: PoolLayout,
    pub config: Config,
    pub queues: Vec<Queue>,
    /// Registers: address, queue, whether it is the tail of the fill ring.
    pub registers: Vec<(u32, u16, bool)>,
    /// When the engine has done its last packet; an event will wake it.
    pub engine: Ps,
    pub engine_due: bool,
    /// The queue whose packets the engine looks at first.
    pub next: usize,
    /// When the wire is free, and its other direction.
    pub wire: Ps,
    pub wire_in: Ps,
    /// What is at the other end of it.
    pub peer: Option<Box<dyn Peer>>,
    pub answers: Answers,
    pub counts: NicCounts,
}

impl PcieNic {
    pub fn new(device: &Device, layout: &Layout, queues: impl Iterator<Item = (u32, u16)>) -> PcieNic {
        let config = *layout.config();
        let queues: Vec<Queue> =
            queues.filter_map(|(base, q)| Some(Queue::new(layout.queue(q)?, base))).collect();
        let registers = (0..).zip(&queues).flat_map(|(q, queue)| {
            let rings = &queue.rings;
            [(rings.tx.tail, q, false), (rings.fill.tail, q, true)]
        });
        PcieNic {
            pipeline: ps(device.pipeline.get()),
            packet: ps(device.packet.get()),
            segment: ps(device.segment.get()),
            doorbell: ps(device.doorbell.get()),
            rung: 0,
            per_byte: 8000.0 / device.line_rate.get(),
            fetch: u64::from(device.fetch.get().max(8)),
            contexts: device.contexts.get().clamp(1, u32::from(u16::MAX)) as u16,
            served: 0,
            waiting: VecDeque::new(),
            tx_writeback: u64::from(device.tx_writeback.get()),
            rx_writeback: device.rx_writeback.get() as usize,
            descriptor: device.descriptor.get().max(DESC),
            pool: *layout.pool(),
            config,
            registers: registers.collect(),
            queues,
            engine: 0,
            engine_due: false,
            next: 0,
            wire: 0,
            wire_in: 0,
            peer: None,
            answers: Answers::default(),
            counts: NicCounts::default(),
        }
    }

    /// A doorbell arrives; returns how long it waits for those before it, and when it has been taken.
    pub fn ring(&mut self, arrival: Ps) -> (Ps, Ps) {
        let from = self.rung.max(arrival);
        self.rung = from + self.doorbell;
        (from - arrival, self.rung)
    }

    /// The addresses of its registers.
    pub fn registers(&self) -> impl Iterator<Item = u32> {
        self.registers.iter().map(|r| r.0)
    }

    /// True when `len` bytes from `at` lie in one buffer of the class that the flags claim.
    fn holds(&self, desc: Desc, len: u32) -> bool {
        let size = if desc.small() { SMALL_BUF } else { LARGE_BUF };
        let within = desc.offset().wrapping_sub(self.pool.buffers);
        within < self.pool.end - self.pool.buffers && within % size + len <= size
    }

    /// True when a queue may request descriptors of packets: it has a context, which it leaves to others after as many descriptors as
    /// the device holds of a queue, and the rest of the last packet. A queue that may not waits for a context from now on.
    pub fn may_fetch(&mut self, queue: u16) -> bool {
        let q = &mut self.queues[queue as usize];
        match q.service {
            Service::Active(asked) => asked < self.fetch || self.waiting.is_empty() || q.packets.is_cut(),
            Service::Idle if q.packets.tail > q.packets.asked && self.served < self.contexts => {
                q.service = Service::Active(0);
                self.served += 1;
                true
            }
            Service::Idle if q.packets.tail > q.packets.asked => {
                q.service = Service::Waiting;
                self.waiting.push_back(queue);
                false
            }
            Service::Idle | Service::Waiting => false,
        }
    }

    /// Takes a queue's context away when all descriptors that it requested have been used; returns the queue that is served next.
    pub fn end_service(&mut self, queue: u16) -> Option<u16> {
        let q = &mut self.queues[queue as usize];
        if !matches!(q.service, Service::Active(_)) || q.packets.taken < q.packets.asked {
            return None;
        }
        q.service = Service::Idle;
        self.served -= 1;
        let next = self.waiting.pop_front()?;
        self.queues[next as usize].service = Service::Idle;
        Some(next)
    }

    /// Takes the next packet; returns its queue, its number and the segments to read.
    pub fn next_packet(&mut self) -> Option<(u16, u64, Vec<Desc>)> {
        let n = self.queues.len();
        let order = (0..n).map(|i| (self.next + i) % n);
        let (queue, descs) = order.filter_map(|q| Some((q, self.queues[q].next_packet()?))).next()?;
        self.next = (queue + 1) % n;
        let q = &mut self.queues[queue];
        let segments: Vec<Desc> = (0..descs).filter_map(|_| q.packets.take()).collect();
        let bytes: u32 = segments.iter().map(|d| u32::from(d.len())).sum();
        let good = |d: &Desc| !d.is_empty() && self.holds(*d, u32::from(d.len()));
        let good = segments.iter().all(good)
            && segments.len() <= ccnic::desc::CHAIN_MAX
            && bytes <= u32::from(self.config.mtu);
        let q = &mut self.queues[queue];
        let number = q.first + q.sending.len() as u64;
        q.sending.push_back(Sending {
            descs: descs as u64,
            segments: if good { vec![None; segments.len()] } else { Vec::new() },
            meta: segments.first().map_or(0, |d| d.meta),
            dropped: !good,
        });
        q.inside += usize::from(good);
        self.counts.bad += u64::from(!good);
        Some((queue as u16, number, if good { segments } else { Vec::new() }))
    }

    /// Posted buffers for so many bytes, if there are enough.
    pub fn take_buffers(&mut self, queue: usize, len: u32) -> Option<Vec<Desc>> {
        let mut found = 0;
        let mut n = 0;
        for buffer in &self.queues[queue].buffers.descs {
            let buffer = (*buffer)?;
            n += 1;
            let size = if buffer.small() { SMALL_BUF } else { LARGE_BUF };
            found += if self.holds(buffer, size) { size } else { 0 };
            if found >= len {
                break;
            }
        }
        if found < len {
            return None;
        }
        let all: Vec<Desc> = (0..n).filter_map(|_| self.queues[queue].buffers.take()).collect();
        let (good, bad): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|b| self.holds(*b, if b.small() { SMALL_BUF } else { LARGE_BUF }));
        self.counts.bad += bad.len() as u64;
        Some(good)
    }
}

/// The two words of a descriptor: see `ccnic::desc`.
pub fn words(desc: Desc) -> [u64; 2] {
    let word = u64::from(desc.offset()) | u64::from(desc.len()) << 32 | u64::from(desc.flags()) << 48;
    [word, desc.meta]
}
