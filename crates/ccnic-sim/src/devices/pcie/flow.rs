//! How packets go through the NIC: doorbells, fetches, the engine, the wire, and back into the host's memory.

use ccnic::desc::{Desc, FLAG_MORE, FLAG_SMALL};
use ccnic::layout::{LARGE_BUF, SMALL_BUF};

use super::nic::{DESC, Packet, Purpose, Service, words};
use super::{Action, Pcie};
use crate::devices::Port;
use crate::kernel::time::Ps;

impl Pcie {
    /// A register of the device has a new value.
    pub(super) fn doorbell(&mut self, port: &mut Port<'_>, at: u32, value: u64) {
        let Some(nic) = &mut self.nic else { return };
        let Some(&(_, queue, fill)) = nic.registers.iter().find(|r| r.0 == at) else { return };
        let q = &mut nic.queues[queue as usize];
        let valid = if fill { q.buffers.set_tail(value) } else { q.packets.set_tail(value) };
        nic.counts.doorbells += u64::from(valid);
        nic.counts.bad += u64::from(!valid);
        if fill { self.fetch_buffers(port, queue) } else { self.fetch_packets(port, queue) }
    }

    fn fetch_packets(&mut self, port: &mut Port<'_>, queue: u16) {
        while let Some(nic) = &mut self.nic
            && nic.may_fetch(queue)
            && let (hold, scale) = (nic.fetch, nic.descriptor / DESC)
            && let q = &mut nic.queues[queue as usize]
            && let Some((position, n)) = q.packets.next(hold)
        {
            if let Service::Active(asked) = &mut q.service {
                *asked += u64::from(n);
            }
            let at = q.packets.slot(position);
            nic.counts.fetches += 1;
            self.dma_read(port, at, n * DESC, scale, Purpose::Packets { queue, position });
        }
        if let Some(next) = self.nic.as_mut().and_then(|nic| nic.end_service(queue)) {
            self.fetch_packets(port, next);
            self.fetch_packets(port, queue); // what else it has waits for its next context
        }
    }

    fn fetch_buffers(&mut self, port: &mut Port<'_>, queue: u16) {
        while let Some(nic) = &mut self.nic
            && let (hold, scale) = (nic.fetch, nic.descriptor / DESC)
            && let fetch = &mut nic.queues[queue as usize].buffers
            && let Some((position, n)) = fetch.next(hold)
        {
            let (at, head, taken) = (fetch.slot(position), fetch.ring.head, fetch.taken);
            nic.counts.fetches += 1;
            if taken > 0 {
                self.dma_write(port, head, &taken.to_le_bytes(), 1);
            }
            self.dma_read(port, at, n * DESC, scale, Purpose::Buffers { queue, position });
        }
    }

    /// What the NIC has read has come.
    pub(super) fn read_done(&mut self, port: &mut Port<'_>, purpose: Purpose, data: &[u8]) {
        match purpose {
            Purpose::Packets { queue, position } => {
                if let Some(nic) = &mut self.nic {
                    nic.queues[queue as usize].packets.arrived(position, data);
                }
                self.fetch_packets(port, queue);
            }
            Purpose::Buffers { queue, position } => {
                if let Some(nic) = &mut self.nic {
                    nic.queues[queue as usize].buffers.arrived(position, data);
                }
                self.deliver(port, queue);
            }
            Purpose::Payload { queue, packet, segment } => {
                if let Some(nic) = &mut self.nic
                    && let q = &mut nic.queues[queue as usize]
                    && let Some(sending) = q.sending.get_mut((packet - q.first) as usize)
                    && let Some(slot) = sending.segments.get_mut(usize::from(segment))
                {
                    *slot = Some(data.to_vec());
                }
                self.transmit(port, queue);
            }
            Purpose::Probe => self.reads.push((port.now(), data.to_vec())),
        }
    }

    /// The engine takes packets, one after the other, while there are tags to read them.
    pub(super) fn run_engine(&mut self, port: &mut Port<'_>) {
        loop {
            let now = port.now();
            if self.dma.is_short_of_tags() {
                return; // called again when there are some
            }
            let Some(nic) = &mut self.nic else { return };
            if nic.engine > now {
                let at = nic.engine;
                if !std::mem::replace(&mut nic.engine_due, true) {
                    self.later(port, at, Action::Engine);
                }
                return;
            }
            let Some((queue, packet, segments)) = nic.next_packet() else { return };
            nic.engine = now + nic.packet + nic.segment * (segments.len() as Ps).saturating_sub(1);
            let base = nic.queues[queue as usize].base;
            self.fetch_packets(port, queue);
            for (segment, desc) in (0..).zip(&segments) {
                let purpose = Purpose::Payload { queue, packet, segment };
                self.dma_read(port, base + desc.offset(), u32::from(desc.len()), 1, purpose);
            }
            if segments.is_empty() {
                self.transmit(port, queue); // dropped: its descriptors are done when those before them are
            }
        }
    }

    /// The engine is free.
    pub(super) fn engine_free(&mut self, port: &mut Port<'_>) {
        if let Some(nic) = &mut self.nic {
            nic.engine_due = false;
        }
        self.run_engine(port);
    }

    /// Packets that have been read are sent in order; they come back after the wire and the pipeline.
    fn transmit(&mut self, port: &mut Port<'_>, queue: u16) {
        let now = port.now();
        while let Some(nic) = &mut self.nic
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
            match nic.leaves(now, queue, data) {
                Some((back, data)) => {
                    let packet = Packet { data, meta: sent.meta };
                    self.later(port, back, Action::Received { queue, packet });
                }
                None => nic.queues[queue as usize].inside -= 1,
            }
        }
        let Some(nic) = &mut self.nic else { return };
        let q = &mut nic.queues[queue as usize];
        // Nothing more is on the way: the host should not wait for what it has sent.
        let idle = q.sending.is_empty() && q.packets.taken == q.packets.tail;
        if q.transmitted - q.reported >= nic.tx_writeback || (idle && q.reported < q.transmitted) {
            q.reported = q.transmitted;
            let (head, reported, scale) = (q.rings.tx.head, q.reported, nic.descriptor / 8);
            self.dma_write(port, head, &reported.to_le_bytes(), scale);
        }
    }

    /// A packet has come back.
    pub(super) fn received(&mut self, port: &mut Port<'_>, queue: u16, packet: Packet) {
        let Some(nic) = &mut self.nic else { return };
        nic.counts.packets += 1;
        nic.counts.bytes += packet.data.len() as u64;
        nic.queues[queue as usize].received.push_back(packet);
        self.deliver(port, queue);
        self.run_engine(port);
    }

    /// Writes packets into posted receive buffers.
    fn deliver(&mut self, port: &mut Port<'_>, queue: u16) {
        loop {
            let Some(nic) = &mut self.nic else { return };
            let Some(packet) = nic.queues[queue as usize].received.front() else { break };
            let len = packet.data.len() as u32;
            let Some(buffers) = nic.take_buffers(queue as usize, len) else {
                nic.counts.no_buffer += 1;
                break;
            };
            let q = &mut nic.queues[queue as usize];
            q.inside -= 1;
            let base = q.base;
            let Some(packet) = q.received.pop_front() else { break };
            let mut rest = packet.data.as_slice();
            for buffer in buffers {
                let (size, flag) = if buffer.small() { (SMALL_BUF, FLAG_SMALL) } else { (LARGE_BUF, 0) };
                let (now, later) = rest.split_at(rest.len().min(size as usize));
                rest = later;
                let more = if rest.is_empty() { 0 } else { FLAG_MORE };
                let desc = Desc::new(buffer.offset(), now.len() as u16, flag | more).with_meta(packet.meta);
                self.dma_write(port, base + buffer.offset(), now, 1);
                if let Some(nic) = &mut self.nic {
                    nic.queues[queue as usize].filled.push(desc);
                }
            }
            self.write_back_soon(port, queue);
        }
        self.fetch_buffers(port, queue);
    }

    /// Receive descriptors are written back when there are enough, or when the link has sent what is before them.
    fn write_back_soon(&mut self, port: &mut Port<'_>, queue: u16) {
        let (free, Some(nic)) = (self.up.free.max(port.now()), &mut self.nic) else { return };
        let q = &mut nic.queues[queue as usize];
        if q.filled.len() >= nic.rx_writeback {
            self.write_back(port, queue);
        } else if !std::mem::replace(&mut q.writeback_due, true) {
            self.later(port, free, Action::WriteBack(queue));
        }
    }

    /// The link has sent what was before the receive descriptors.
    pub(super) fn write_back_due(&mut self, port: &mut Port<'_>, queue: u16) {
        if let Some(nic) = &mut self.nic {
            nic.queues[queue as usize].writeback_due = false;
        }
        self.write_back(port, queue);
    }

    fn write_back(&mut self, port: &mut Port<'_>, queue: u16) {
        let Some(nic) = &mut self.nic else { return };
        let scale = nic.descriptor / DESC;
        let q = &mut nic.queues[queue as usize];
        let (first, ring) = (q.published, q.rings.rx);
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
        self.dma_write(port, ring.units + slot * DESC, now, scale);
        self.dma_write(port, ring.units, wrapped, scale);
        self.dma_write(port, ring.tail, &published.to_le_bytes(), 1);
    }
}
