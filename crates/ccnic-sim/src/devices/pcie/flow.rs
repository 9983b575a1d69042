//! How packets go through the NIC: doorbells, fetches, the engine, the wire, and back into the host's memory.

use ccnic::desc::{Desc, FLAG_MORE, FLAG_SMALL};
use ccnic::layout::{LARGE_BUF, SMALL_BUF};

use super::Action;
use super::nic::{DESC, Nic, Packet, Purpose, Turn, words};
use crate::kernel::time::Ps;
use crate::machine::World;

impl World {
    fn nic(&mut self) -> Option<&mut Nic> {
        self.pcie.as_mut()?.nic.as_mut()
    }

    /// A register of the device has a new value.
    pub(crate) fn doorbell(&mut self, at: u32, value: u64) {
        let Some(nic) = self.nic() else { return };
        let Some(&(_, queue, blanks)) = nic.registers.iter().find(|r| r.0 == at) else { return };
        let q = &mut nic.queues[queue as usize];
        let sane = if blanks { q.blanks.ring_tail(value) } else { q.packets.ring_tail(value) };
        nic.counts.doorbells += u64::from(sane);
        nic.counts.bad += u64::from(!sane);
        if blanks { self.fetch_blanks(queue) } else { self.fetch_packets(queue) }
    }

    fn fetch_packets(&mut self, queue: u16) {
        while let Some(nic) = self.nic()
            && nic.has_turn(queue)
            && let (hold, scale) = (nic.fetch, nic.descriptor / DESC)
            && let q = &mut nic.queues[queue as usize]
            && let Some((position, n)) = q.packets.next(hold)
        {
            if let Turn::Now(asked) = &mut q.turn {
                *asked += u64::from(n);
            }
            let at = q.packets.place(position);
            nic.counts.fetches += 1;
            self.dma_read(at, n * DESC, scale, Purpose::Packets { queue, position });
        }
        if let Some(next) = self.nic().and_then(|nic| nic.end_turn(queue)) {
            self.fetch_packets(next);
            self.fetch_packets(queue); // what it has besides waits for its next turn
        }
    }

    fn fetch_blanks(&mut self, queue: u16) {
        while let Some(nic) = self.nic()
            && let (hold, scale) = (nic.fetch, nic.descriptor / DESC)
            && let fetch = &mut nic.queues[queue as usize].blanks
            && let Some((position, n)) = fetch.next(hold)
        {
            let (at, head, taken) = (fetch.place(position), fetch.ring.head, fetch.taken);
            nic.counts.fetches += 1;
            if taken > 0 {
                self.dma_write(head, &taken.to_le_bytes(), 1);
            }
            self.dma_read(at, n * DESC, scale, Purpose::Blanks { queue, position });
        }
    }

    /// What was read has come.
    pub(crate) fn read_done(&mut self, purpose: Purpose, data: &[u8]) {
        let now = self.now;
        match purpose {
            Purpose::Packets { queue, position } => {
                if let Some(nic) = self.nic() {
                    nic.queues[queue as usize].packets.arrived(position, data);
                }
                self.fetch_packets(queue);
            }
            Purpose::Blanks { queue, position } => {
                if let Some(nic) = self.nic() {
                    nic.queues[queue as usize].blanks.arrived(position, data);
                }
                self.deliver(queue);
            }
            Purpose::Payload { queue, packet, segment } => {
                if let Some(nic) = self.nic()
                    && let q = &mut nic.queues[queue as usize]
                    && let Some(sending) = q.sending.get_mut((packet - q.first) as usize)
                    && let Some(place) = sending.segments.get_mut(usize::from(segment))
                {
                    *place = Some(data.to_vec());
                }
                self.transmit(queue);
            }
            Purpose::Probe => {
                if let Some(reads) = self.pcie.as_mut().and_then(|p| p.reads.as_mut()) {
                    reads.push((now, data.to_vec()));
                }
            }
        }
    }

    /// The engine takes packets, one after the other, while there are tags to read them.
    pub(crate) fn run_engine(&mut self) {
        loop {
            let now = self.now;
            let Some(pcie) = &mut self.pcie else { return };
            if pcie.dma.is_short_of_tags() {
                return; // called again when there are some
            }
            let Some(nic) = &mut pcie.nic else { return };
            if nic.engine > now {
                let at = nic.engine;
                if !std::mem::replace(&mut nic.engine_due, true) {
                    self.later(at, Action::Engine);
                }
                return;
            }
            let Some((queue, packet, segments)) = nic.next_packet() else { return };
            nic.engine = now + nic.packet;
            let base = nic.queues[queue as usize].base;
            self.fetch_packets(queue);
            for (segment, desc) in (0..).zip(&segments) {
                let purpose = Purpose::Payload { queue, packet, segment };
                self.dma_read(base + desc.offset(), u32::from(desc.len()), 1, purpose);
            }
            if segments.is_empty() {
                self.transmit(queue); // dropped: its descriptors are done when those before them are
            }
        }
    }

    /// The engine's time has come.
    pub(crate) fn wake_engine(&mut self) {
        if let Some(nic) = self.nic() {
            nic.engine_due = false;
        }
        self.run_engine();
    }

    /// Packets that have been read, in order, go out; they come back after the wire and the pipeline.
    fn transmit(&mut self, queue: u16) {
        let now = self.now;
        while let Some(nic) = self.nic()
            && let q = &mut nic.queues[queue as usize]
            && q.sending.front().is_some_and(|s| s.segments.iter().all(Option::is_some))
            && let Some(sent) = q.sending.pop_front()
        {
            q.first += 1;
            q.transmitted += sent.descs;
            if sent.dropped {
                continue;
            }
            let data: Vec<u8> = sent.segments.into_iter().flatten().flatten().collect();
            nic.wire = nic.wire.max(now) + (data.len() as f64 * nic.per_byte) as Ps;
            let back = nic.wire + nic.pipeline;
            self.later(back, Action::Received { queue, packet: Packet { data, meta: sent.meta } });
        }
        let Some(nic) = self.nic() else { return };
        let q = &mut nic.queues[queue as usize];
        // Nothing more on the way: the host should not wait for what it has sent.
        let idle = q.sending.is_empty() && q.packets.taken == q.packets.tail;
        if q.transmitted - q.told >= nic.tx_writeback || (idle && q.told < q.transmitted) {
            q.told = q.transmitted;
            let (head, told, scale) = (q.place.tx.head, q.told, nic.descriptor / 8);
            self.dma_write(head, &told.to_le_bytes(), scale);
        }
    }

    /// A packet has come back.
    pub(crate) fn received(&mut self, queue: u16, packet: Packet) {
        let Some(nic) = self.nic() else { return };
        nic.counts.packets += 1;
        nic.counts.bytes += packet.data.len() as u64;
        nic.queues[queue as usize].received.push_back(packet);
        self.deliver(queue);
        self.run_engine();
    }

    /// Writes packets into blank buffers.
    fn deliver(&mut self, queue: u16) {
        loop {
            let Some(nic) = self.nic() else { return };
            let Some(packet) = nic.queues[queue as usize].received.front() else { break };
            let len = packet.data.len() as u32;
            let Some(blanks) = nic.take_blanks(queue as usize, len) else {
                nic.counts.no_blank += 1;
                break;
            };
            let q = &mut nic.queues[queue as usize];
            q.inside -= 1;
            let base = q.base;
            let Some(packet) = q.received.pop_front() else { break };
            let mut rest = packet.data.as_slice();
            for blank in blanks {
                let (size, flag) = if blank.small() { (SMALL_BUF, FLAG_SMALL) } else { (LARGE_BUF, 0) };
                let (now, later) = rest.split_at(rest.len().min(size as usize));
                rest = later;
                let more = if rest.is_empty() { 0 } else { FLAG_MORE };
                let desc = Desc::new(blank.offset(), now.len() as u16, flag | more).with_meta(packet.meta);
                self.dma_write(base + blank.offset(), now, 1);
                if let Some(nic) = self.nic() {
                    nic.queues[queue as usize].filled.push(desc);
                }
            }
            self.write_back_soon(queue);
        }
        self.fetch_blanks(queue);
    }

    /// Receive descriptors are written back when there are enough, or when the link has sent what is before them.
    fn write_back_soon(&mut self, queue: u16) {
        let Some(pcie) = &mut self.pcie else { return };
        let (free, Some(nic)) = (pcie.up.free.max(self.now), &mut pcie.nic) else { return };
        let q = &mut nic.queues[queue as usize];
        if q.filled.len() >= nic.rx_writeback {
            self.write_back(queue);
        } else if !std::mem::replace(&mut q.writeback_due, true) {
            self.later(free, Action::WriteBack(queue));
        }
    }

    /// The link has sent what was before the receive descriptors.
    pub(crate) fn write_back_due(&mut self, queue: u16) {
        if let Some(nic) = self.nic() {
            nic.queues[queue as usize].writeback_due = false;
        }
        self.write_back(queue);
    }

    fn write_back(&mut self, queue: u16) {
        let Some(nic) = self.nic() else { return };
        let scale = nic.descriptor / DESC;
        let q = &mut nic.queues[queue as usize];
        let (first, ring) = (q.published, q.place.rx);
        let filled = std::mem::take(&mut q.filled);
        if filled.is_empty() {
            return;
        }
        q.published += filled.len() as u64;
        let published = q.published;
        nic.counts.writebacks += 1;
        let bytes: Vec<u8> = filled.iter().flat_map(|d| words(*d)).flat_map(u64::to_le_bytes).collect();
        let slot = (first % u64::from(ring.count)) as u32;
        let before_end = (((ring.count - slot) * DESC) as usize).min(bytes.len());
        let (now, wrapped) = bytes.split_at(before_end);
        self.dma_write(ring.units + slot * DESC, now, scale);
        self.dma_write(ring.units, wrapped, scale);
        self.dma_write(ring.tail, &published.to_le_bytes(), 1);
    }
}
