//! Delivery into the areas beside the receive ring's units: packets that take no buffer of the program.

use crate::desc::Desc;
use crate::memory::{Fetch, LINE, SharedMemory, copy, prefetch_payload};
use crate::pool::move_to_buffer;
use crate::ring::{Producer, Ring};

use super::deliver::Busy;
use super::fetched::{Segments, Shape, bytes, first};
use super::{Fetched, NicQueue};

impl<M: SharedMemory, R: Ring> NicQueue<M, R> {
    /// As `deliver_most`, where the ring has areas: packets that fit are written there, others to buffers of the pool.
    #[inline(always)]
    pub(super) fn deliver_inline<Q: SharedMemory>(
        &mut self,
        from: &Q,
        packets: &[Desc],
        ahead: &[Desc],
    ) -> (usize, Option<Busy>) {
        let (shape, most) = (Shape::of(packets), self.inline_max());
        if shape.shortest > most {
            return self.deliver_pool(from, packets, ahead, &shape);
        }
        if shape.chains || shape.longest > most {
            return self.deliver_anywhere(from, packets, ahead);
        }
        self.publish(false); // what is staged comes first
        self.rx.begin(self.demotes(), if self.idle { 0 } else { self.tuning.ahead });
        let n = if shape.longest <= LINE {
            self.deliver_lines(from, packets, ahead)
        } else {
            self.deliver_areas(from, packets, ahead)
        };
        self.counters.rx_packets += n as u64;
        self.counters.rx_bytes += shape.bytes_of(packets, n);
        (n, (n < packets.len()).then_some(Busy::RingFull))
    }

    /// Packets of one segment of at most a line.
    #[inline(always)]
    fn deliver_lines<Q: SharedMemory>(&mut self, from: &Q, packets: &[Desc], ahead: &[Desc]) -> usize {
        let (mem, rx) = (&self.mem, &mut self.rx);
        let (mut next, mut ahead) = (packets.iter(), ahead.iter());
        rx.push_lines(
            mem,
            packets.len(),
            #[inline(always)]
            |_, at| {
                if let Some(desc) = ahead.next() {
                    from.prefetch_read(desc.offset());
                }
                let Some(desc) = next.next() else { return (0, 0) };
                copy(from, desc.offset(), mem, at, desc.len().into());
                (desc.len(), desc.meta)
            },
        )
    }

    /// Packets of one segment that fit into an area.
    #[inline(always)]
    fn deliver_areas<Q: SharedMemory>(&mut self, from: &Q, packets: &[Desc], ahead: &[Desc]) -> usize {
        let (mut n, mut ahead) = (0, ahead.iter());
        for desc in packets {
            if let Some(next) = ahead.next() {
                prefetch_payload(from, next.offset(), next.len().into(), Fetch::Read);
            }
            let Some(at) = self.rx.place(&self.mem, desc.len().into()) else { break };
            copy(from, desc.offset(), &self.mem, at, desc.len().into());
            self.rx.add(&self.mem, at, desc.len(), desc.meta);
            n += 1;
        }
        n
    }

    /// Packets of any number of segments and any length.
    #[inline(never)]
    fn deliver_anywhere<Q: SharedMemory>(
        &mut self,
        from: &Q,
        packets: &[Desc],
        ahead: &[Desc],
    ) -> (usize, Option<Busy>) {
        let (mut n, mut ahead) = (0, ahead);
        while let Some(rest) = packets.get(n..).filter(|rest| !rest.is_empty()) {
            let long = rest.iter().take_while(|desc| u32::from(desc.len()) > self.inline_max()).count();
            if long > 0 {
                let long = rest.get(..long).unwrap_or_default();
                let whole = long.iter().rposition(|desc| !desc.more()).map_or(0, |last| last + 1);
                let (now, later) = ahead.split_at(ahead.len().min(whole));
                ahead = later;
                let long = long.get(..whole).unwrap_or_default();
                let (done, busy) = self.deliver_pool(from, long, now, &Shape::of(long));
                n += done;
                if busy.is_some() {
                    return (n, busy);
                }
                if whole > 0 {
                    continue;
                }
            }
            let packet = first(rest);
            match self.deliver_one(from, packet) {
                None => n += packet.len(),
                busy => return (n, busy),
            }
        }
        (n, None)
    }

    /// One packet of any number of segments.
    fn deliver_one<Q: SharedMemory>(&mut self, from: &Q, packet: &[Desc]) -> Option<Busy> {
        let total = bytes(packet) as u32;
        if total > self.inline_max() {
            return self.deliver_pool(from, packet, &[], &Shape::of(packet)).1;
        }
        self.publish(false);
        let Some(at) = self.rx.place(&self.mem, total) else { return Some(Busy::RingFull) };
        Segments { descs: packet, within: 0 }.copy_to(from, &self.mem, at, total);
        self.add_inline(at, total, packet.first().map_or(0, |desc| desc.meta));
        None
    }

    /// Counts and adds a packet that was written where `place` said.
    #[inline(always)]
    pub(super) fn add_inline(&mut self, at: u32, len: u32, meta: u64) {
        self.rx.add(&self.mem, at, len as u16, meta);
        self.counters.rx_packets += 1;
        self.counters.rx_bytes += u64::from(len);
    }

    /// For a NIC that keeps what it has fetched: copies inline and kept segments among those fetched into buffers of the pool. Their units may be
    /// handed back then, and the buffers belong to the caller, who gives them back or sends them ([`send_buffers`](NicQueue::send_buffers)).
    /// Returns how many of the descriptors that are left, from the first, name buffers: fewer than all when the pool is dry, to be tried
    /// again.
    #[inline(always)]
    pub fn copy_to_pool(&mut self, fetched: &mut Fetched) -> usize {
        if self.has_areas() && fetched.moved < fetched.len {
            self.move_to_pool(fetched);
        }
        if self.has_areas() {
            fetched.moved.saturating_sub(fetched.next)
        } else if self.kept_until != 0 {
            self.move_kept_to_pool(fetched)
        } else {
            fetched.rest().len()
        }
    }

    #[inline(never)]
    fn move_to_pool(&mut self, fetched: &mut Fetched) {
        let from = fetched.moved;
        for slot in fetched.descs.iter_mut().take(fetched.len).skip(from) {
            if slot.borrowed() {
                let class = self.pool.class(slot.len().into());
                let Some(buffer) = self.pool.alloc(&self.mem, class) else { break };
                move_to_buffer(&self.mem, slot, buffer);
            }
            fetched.moved += 1;
        }
        self.done(fetched.moved - from);
    }
}
