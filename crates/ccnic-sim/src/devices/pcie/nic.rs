//! A PCIe NIC that loops packets back: the other side of `ccnic::ring::Doorbell` with a host-managed pool, by DMA (CC-NIC
//! sections 2.1 and 5.1).
//!
//! ```text
//! host                                      device
//! tx.tail = n            (posted write) ->  descriptors: read, up to `fetch` ahead
//!                                           payload: read; the engine's time per packet
//! tx.head, every `tx_writeback`         <-  transmitted
//!                                           line rate, pipeline: the packet comes back
//! fill.tail = n          (posted write) ->  blank descriptors: read, up to `fetch` ahead
//! payload                               <-  written into a blank buffer
//! descriptors, up to `rx_writeback`     <-  written in place of the blank ones
//! rx.tail                               <-  written after them
//! fill.head                             <-  written when blank descriptors are fetched
//! ```
//!
//! An E810 and a ConnectX-6 differ in their numbers only. A device that has fewer contexts than queues sends the packets of
//! some queues while the others wait for their turn, which lasts as many descriptors as it fetches ahead. Both say in each
//! descriptor that it is done, where the interface has a tail word: its write is an extra packet on the link here.
//! Descriptors of one write-back go together while the link is busy with what came before, up to `rx_writeback`.
//!
//! The device trusts the host no more than any NIC: positions, descriptors and blanks are checked.

use std::collections::VecDeque;

use ccnic::desc::Desc;
use ccnic::layout::{LARGE_BUF, PoolLayout, QueueLayout, RingLayout, SMALL_BUF};
use ccnic::{Config, Layout};

use crate::kernel::time::{Ps, ps};
use crate::platform::Device;

/// Bytes of a descriptor in memory.
pub const DESC: u32 = ccnic::desc::DESC;
/// Packets of a queue inside the NIC at most: beyond, it stops transmitting.
const INSIDE: usize = 1024;

/// What a device has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NicCounts {
    /// Packets looped back.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Stores to registers that brought something new.
    pub doorbells: u64,
    /// Reads of descriptors.
    pub fetches: u64,
    /// Write-backs of receive descriptors.
    pub writebacks: u64,
    /// Packets that waited because the host had posted no blank buffer.
    pub no_blank: u64,
    /// Packets and blanks dropped because their descriptor named no buffer, or more bytes than the MTU; positions that cannot be.
    pub bad: u64,
}

impl NicCounts {
    /// The counts since `before`.
    #[must_use]
    pub fn since(&self, before: &NicCounts) -> NicCounts {
        NicCounts {
            packets: self.packets - before.packets,
            bytes: self.bytes - before.bytes,
            doorbells: self.doorbells - before.doorbells,
            fetches: self.fetches - before.fetches,
            writebacks: self.writebacks - before.writebacks,
            no_blank: self.no_blank - before.no_blank,
            bad: self.bad - before.bad,
        }
    }
}

/// What has been read for.
#[derive(Debug, Clone, Copy)]
pub enum Purpose {
    /// Descriptors of packets, from a position on.
    Packets { queue: u16, position: u64 },
    /// Descriptors of blank buffers, from a position on.
    Blanks { queue: u16, position: u64 },
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

    /// A new value for the register; false for one that cannot be.
    pub fn ring_tail(&mut self, tail: u64) -> bool {
        let sane = tail >= self.tail && tail - self.taken <= u64::from(self.ring.count);
        if sane {
            self.tail = tail;
        }
        sane
    }

    pub fn place(&self, position: u64) -> u32 {
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

/// Where a queue stands with the contexts in which the device serves those that have something to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// It has none, and has not asked.
    Over,
    /// It stands in line for one.
    InLine,
    /// It has one; so many descriptors have been asked for in this turn.
    Now(u64),
}

/// One queue pair.
#[derive(Debug)]
pub struct Queue {
    /// Where its region begins; the offsets of descriptors count from there.
    pub base: u32,
    /// Its rings, in the machine's memory.
    pub place: QueueLayout,
    pub packets: Fetch,
    pub blanks: Fetch,
    /// Packets whose payload is being read, in order, and the number of the first.
    pub sending: VecDeque<Sending>,
    pub first: u64,
    /// Descriptors transmitted, and those that the host knows of.
    pub transmitted: u64,
    pub told: u64,
    /// Packets inside the NIC.
    pub inside: usize,
    /// Where it stands with the engine's contexts.
    pub turn: Turn,
    /// Packets that wait for a blank buffer.
    pub received: VecDeque<Packet>,
    /// Receive descriptors not written back, and the position of the first.
    pub filled: Vec<Desc>,
    pub published: u64,
    pub writeback_due: bool,
}

impl Queue {
    fn new(place: QueueLayout, base: u32) -> Queue {
        let at = |ring: RingLayout| RingLayout {
            units: base + ring.units,
            tail: base + ring.tail,
            head: base + ring.head,
            taken: base + ring.taken,
            ..ring
        };
        let (rx_dropped, rx_event) = (base + place.rx_dropped, base + place.rx_event);
        let [tx, rx, fill] = [place.tx, place.rx, place.fill].map(at);
        let place = QueueLayout { tx, rx, fill, rx_dropped, rx_event };
        Queue {
            base,
            place,
            packets: Fetch::new(place.tx),
            blanks: Fetch::new(place.fill),
            sending: VecDeque::new(),
            first: 0,
            transmitted: 0,
            told: 0,
            inside: 0,
            turn: Turn::Over,
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
pub struct Nic {
    pub pipeline: Ps,
    pub packet: Ps,
    /// Time of a byte on the wire.
    pub per_byte: f64,
    pub fetch: u64,
    /// Queues that it can serve at once, those that it serves, and those that stand in line.
    pub contexts: u16,
    pub served: u16,
    pub line: VecDeque<u16>,
    pub tx_writeback: u64,
    pub rx_writeback: usize,
    /// Bytes of a descriptor on the link.
    pub descriptor: u32,
    pub pool: PoolLayout,
    pub config: Config,
    pub queues: Vec<Queue>,
    /// Registers: address, queue, whether it is the one for blanks.
    pub registers: Vec<(u32, u16, bool)>,
    /// When the engine has done its last packet; an event will wake it.
    pub engine: Ps,
    pub engine_due: bool,
    /// The queue whose turn it is.
    pub turn: usize,
    /// When the wire is free.
    pub wire: Ps,
    pub counts: NicCounts,
}

impl Nic {
    pub fn new(device: &Device, layout: &Layout, queues: impl Iterator<Item = (u32, u16)>) -> Nic {
        let config = *layout.config();
        let queues: Vec<Queue> =
            queues.filter_map(|(base, q)| Some(Queue::new(layout.queue(q)?, base))).collect();
        let registers = (0..).zip(&queues).flat_map(|(q, queue)| {
            let place = &queue.place;
            [(place.tx.tail, q, false), (place.fill.tail, q, true)]
        });
        Nic {
            pipeline: ps(device.pipeline.get()),
            packet: ps(device.packet.get()),
            per_byte: 8000.0 / device.line_rate.get(),
            fetch: u64::from(device.fetch.get().max(8)),
            contexts: device.contexts.get().clamp(1, u32::from(u16::MAX)) as u16,
            served: 0,
            line: VecDeque::new(),
            tx_writeback: u64::from(device.tx_writeback.get()),
            rx_writeback: device.rx_writeback.get() as usize,
            descriptor: device.descriptor.get().max(DESC),
            pool: *layout.pool(),
            config,
            registers: registers.collect(),
            queues,
            engine: 0,
            engine_due: false,
            turn: 0,
            wire: 0,
            counts: NicCounts::default(),
        }
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

    /// True when a queue may ask for descriptors of packets: it has a context, and leaves it to others after as many descriptors
    /// as the device holds of a queue, and the rest of the last packet. One that may not stands in line from now on.
    pub fn has_turn(&mut self, queue: u16) -> bool {
        let q = &mut self.queues[queue as usize];
        match q.turn {
            Turn::Now(asked) => asked < self.fetch || self.line.is_empty() || q.packets.is_cut(),
            Turn::Over if q.packets.tail > q.packets.asked && self.served < self.contexts => {
                q.turn = Turn::Now(0);
                self.served += 1;
                true
            }
            Turn::Over if q.packets.tail > q.packets.asked => {
                q.turn = Turn::InLine;
                self.line.push_back(queue);
                false
            }
            Turn::Over | Turn::InLine => false,
        }
    }

    /// Ends the turn of a queue when all descriptors that it asked for have been used; the queue whose turn it is then.
    pub fn end_turn(&mut self, queue: u16) -> Option<u16> {
        let q = &mut self.queues[queue as usize];
        if !matches!(q.turn, Turn::Now(_)) || q.packets.taken < q.packets.asked {
            return None;
        }
        q.turn = Turn::Over;
        self.served -= 1;
        let next = self.line.pop_front()?;
        self.queues[next as usize].turn = Turn::Over;
        Some(next)
    }

    /// Takes the packet whose turn it is; the segments to read.
    pub fn next_packet(&mut self) -> Option<(u16, u64, Vec<Desc>)> {
        let n = self.queues.len();
        let turns = (0..n).map(|i| (self.turn + i) % n);
        let (queue, descs) = turns.filter_map(|q| Some((q, self.queues[q].next_packet()?))).next()?;
        self.turn = (queue + 1) % n;
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

    /// Blank buffers for so many bytes, when there are enough.
    pub fn take_blanks(&mut self, queue: usize, len: u32) -> Option<Vec<Desc>> {
        let mut found = 0;
        let mut n = 0;
        for blank in &self.queues[queue].blanks.descs {
            let blank = (*blank)?;
            n += 1;
            let size = if blank.small() { SMALL_BUF } else { LARGE_BUF };
            found += if self.holds(blank, size) { size } else { 0 };
            if found >= len {
                break;
            }
        }
        if found < len {
            return None;
        }
        let all: Vec<Desc> = (0..n).filter_map(|_| self.queues[queue].blanks.take()).collect();
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
