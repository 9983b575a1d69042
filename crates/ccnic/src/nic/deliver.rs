//! Delivery: copies of packets, from this region or another program's, into buffers that the NIC allocates.
//!
//! The fastest of three loops that a burst allows: all packets alike (of one segment, in buffers of one
//! class), one by one, or with chains on either side of the copy.

use crate::desc::{CHAIN_MAX, Desc};
use crate::memory::{SharedMemory, copy, prefetch_payload};
use crate::pool::{Class, data_offset};
use crate::ring::Ring;

use super::NicQueue;
use super::fetched::{Segments, Shape, first};

/// Why a packet cannot be delivered now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Busy {
    RingFull,
    NoBuffer,
}

impl<M: SharedMemory, R: Ring> NicQueue<M, R> {
    /// Delivers copies of packets that lie in `from` (this region, or another program's) to the program: as
    /// many whole packets of `packets`, in order, as there is room for. Returns the number of their
    /// descriptors. The program sees them after [`flush`](NicQueue::flush).
    ///
    /// Between the copies the lines of `ahead`, the packets of the next burst, are prefetched: a core has 16
    /// fill buffers, and prefetching a whole burst at once would stall on them.
    #[inline(always)]
    pub fn deliver<Q: SharedMemory>(&mut self, from: &Q, packets: &[Desc], ahead: &[Desc]) -> usize {
        let (n, busy) = self.deliver_most(from, packets, ahead);
        match busy {
            None => {}
            Some(Busy::RingFull) => self.counters.ring_full += 1,
            Some(Busy::NoBuffer) => self.counters.no_buffer += 1,
        }
        n
    }

    /// `deliver` without counting waits: says why it stopped.
    #[inline(always)]
    pub(super) fn deliver_most<Q: SharedMemory>(
        &mut self,
        from: &Q,
        packets: &[Desc],
        ahead: &[Desc],
    ) -> (usize, Option<Busy>) {
        if self.has_areas() {
            self.deliver_inline(from, packets, ahead)
        } else {
            self.deliver_pool(from, packets, ahead, &Shape::of(packets))
        }
    }

    /// `deliver_most` into buffers of the pool.
    #[inline(always)]
    pub(super) fn deliver_pool<Q: SharedMemory>(
        &mut self,
        from: &Q,
        packets: &[Desc],
        ahead: &[Desc],
        shape: &Shape,
    ) -> (usize, Option<Busy>) {
        if self.deliver_alike(from, packets, ahead, shape) {
            return (packets.len(), None);
        }
        let n = self.deliver_singles(from, packets, ahead);
        if n < packets.len() {
            let (left, ahead) = (packets.get(n..).unwrap_or_default(), ahead.get(n..).unwrap_or_default());
            let (more, busy) = from.in_wide_registers(
                #[inline(always)]
                || self.deliver_chains(from, left, ahead),
            );
            return (n + more, busy);
        }
        (n, None)
    }

    /// Delivers packets of one segment that all take buffers of the same class, if there is room for all, as
    /// for most bursts. Otherwise does nothing and returns false.
    #[inline(always)]
    fn deliver_alike<Q: SharedMemory>(
        &mut self,
        from: &Q,
        packets: &[Desc],
        ahead: &[Desc],
        shape: &Shape,
    ) -> bool {
        let (n, class) = (packets.len(), self.pool.class(shape.longest));
        if shape.chains || class != self.pool.class(shape.shortest) {
            return false;
        }
        if self.fill.is_some() || self.room(n) < n {
            return false;
        }
        let fetch = self.payload_fetch(ahead);
        let Some(staged) = self.staged.get_mut(self.staged_len..self.staged_len + n) else { return false };
        let Some(buffers) = self.pool.alloc_many(class, n) else { return false };
        let flags = class.flag();
        let mut ahead = ahead.iter();
        for ((slot, desc), &at) in staged.iter_mut().zip(packets).zip(buffers) {
            if let Some(next) = ahead.next() {
                prefetch_payload(from, next.offset(), u32::from(next.len()), fetch);
            }
            let at = data_offset(at, u32::from(desc.len()), class);
            copy(from, desc.offset(), &self.mem, at, u32::from(desc.len()));
            *slot = Desc::new(at, desc.len(), flags).with_meta(desc.meta);
        }
        self.staged_len += n;
        self.counters.rx_packets += n as u64;
        self.counters.rx_bytes += shape.bytes;
        true
    }

    /// Delivers packets of one segment one by one, until there is one of several, or no room.
    #[inline(always)]
    fn deliver_singles<Q: SharedMemory>(&mut self, from: &Q, packets: &[Desc], ahead: &[Desc]) -> usize {
        let room = self.room(packets.len());
        let fetch = self.payload_fetch(ahead);
        let mut ahead = ahead.iter();
        let mut n = 0;
        for desc in packets.iter().take(room) {
            if let Some(next) = ahead.next() {
                prefetch_payload(from, next.offset(), u32::from(next.len()), fetch);
            }
            let len = u32::from(desc.len());
            if desc.more() {
                break;
            }
            let Some((at, class)) = self.take_buffer(len) else { break };
            if len > class.size() {
                self.put_back(at, class);
                break;
            }
            copy(from, desc.offset(), &self.mem, at, len);
            self.stage(at, desc.len(), class, false, desc.meta);
            self.counters.rx_bytes += u64::from(len);
            n += 1;
        }
        self.counters.rx_packets += n as u64;
        n
    }

    /// What the other loops leave: chains on either side of the copy, and the reasons to stop.
    #[inline(always)]
    fn deliver_chains<Q: SharedMemory>(
        &mut self,
        from: &Q,
        packets: &[Desc],
        ahead: &[Desc],
    ) -> (usize, Option<Busy>) {
        let fetch = self.payload_fetch(ahead);
        let mut n = 0;
        loop {
            let packet = first(packets.get(n..).unwrap_or_default());
            if packet.is_empty() {
                return (n, None);
            }
            for next in ahead.iter().skip(n).take(packet.len()) {
                prefetch_payload(from, next.offset(), u32::from(next.len()), fetch);
            }
            match self.deliver_chain(from, packet) {
                Ok(()) => n += packet.len(),
                Err(busy) => return (n, Some(busy)),
            }
        }
    }

    /// Delivers one packet of any number of segments, or nothing.
    #[inline(always)]
    fn deliver_chain<Q: SharedMemory>(&mut self, from: &Q, packet: &[Desc]) -> Result<(), Busy> {
        let total: u32 = packet.iter().map(|d| u32::from(d.len())).sum();
        let mut buffers = [(0, Class::Large); CHAIN_MAX];
        let n = self.take_room(total, &mut buffers)?;
        let mut source = Segments { descs: packet, within: 0 };
        let (mut left, meta) = (total, packet.first().map_or(0, |d| d.meta));
        for &(at, class) in buffers.get(..n).unwrap_or_default() {
            let part = left.min(class.size());
            source.copy_to(from, &self.mem, at, part);
            left -= part;
            self.stage(at, part as u16, class, left > 0, meta);
        }
        self.counters.rx_packets += 1;
        self.counters.rx_bytes += u64::from(total);
        Ok(())
    }

    /// Takes buffers that hold `total` bytes together, and room in the ring for them, or nothing; returns how
    /// many.
    pub(super) fn take_room(
        &mut self,
        total: u32,
        buffers: &mut [(u32, Class); CHAIN_MAX],
    ) -> Result<usize, Busy> {
        if let Some(fill) = &mut self.fill {
            fill.load(&self.mem, CHAIN_MAX); // of one pop, so that they can be put back below
        }
        let (mut n, mut held) = (0, 0);
        for slot in buffers.iter_mut() {
            if held >= total {
                break;
            }
            let Some(buffer) = self.take_loaded(total - held) else { break };
            *slot = buffer;
            held += buffer.1.size();
            n += 1;
        }
        let room = if held < total {
            Err(Busy::NoBuffer)
        } else if self.room(n) < n {
            Err(Busy::RingFull)
        } else {
            Ok(n)
        };
        if room.is_err() {
            let taken = buffers.get(..n).unwrap_or_default();
            taken.iter().rev().for_each(|&(at, class)| self.put_back(at, class));
        }
        room
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::ring::{GroupedEpoch, Packed};
    use crate::testing::{Sides, config};

    /// Sends with `from` and delivers to `to`, the host of another region.
    fn across(from: &mut Sides<GroupedEpoch>, to: &mut Sides<GroupedEpoch>, len: u16, buffers: usize) {
        assert_eq!(from.send(len, buffers, len as u8), buffers);
        let fetched = from.fetch();
        assert_eq!(to.nic.deliver(&from.mem, fetched.rest(), &[]), buffers);
        from.nic.complete(fetched.rest());
        from.nic.flush();
        to.nic.flush();
    }

    #[test]
    fn packets_of_every_shape_cross_regions() {
        let [mut from, mut to] = [(); 2].map(|()| Sides::<GroupedEpoch>::new(&config::<GroupedEpoch>()));
        let [mut bytes, mut packets] = [0; 2];
        for (len, buffers, segments) in [(64, 9, 1), (129, 3, 1), (4096, 2, 1), (9600, 6, 3)] {
            across(&mut from, &mut to, len, buffers);
            let mut burst = crate::Burst::new();
            assert_eq!(to.host.rx_burst(&mut burst, 32), buffers);
            for packet in burst.as_slice().chunks(segments) {
                assert_eq!(packet.iter().map(|buf| u32::from(buf.len())).sum::<u32>(), u32::from(len));
                assert!(packet.iter().all(|buf| to.host.with(buf, |b| b.iter().all(|b| *b == len as u8))));
                (bytes, packets) = (bytes + u64::from(len), packets + 1);
            }
            to.host.free(&mut burst);
        }
        let counters = to.nic.counters();
        assert_eq!((counters.rx_packets, counters.rx_bytes), (packets, bytes));
    }

    #[test]
    fn short_segments_become_one_buffer() {
        let mut sides = Sides::<GroupedEpoch>::new(&config::<GroupedEpoch>());
        let mut burst = crate::Burst::new();
        assert_eq!(sides.host.alloc(100, 2, &mut burst), 2);
        burst.iter_mut().next().unwrap().set_more(true);
        assert_eq!(sides.host.tx_burst(&mut burst), 2);
        assert_eq!((sides.poll(), sides.receive(32, |len, _| assert_eq!(len, 200))), (2, 1));
    }

    #[test]
    fn a_full_ring_and_a_dry_pool_are_counted_apart() {
        let mut sides = Sides::<Packed>::new(&config::<Packed>());
        for (n, delivered) in [(32, 32), (32, 32), (9, 0)] {
            assert_eq!(sides.send(64, n, 1), n);
            assert_eq!(sides.poll(), delivered);
        }
        assert_eq!((sides.nic.counters().ring_full, sides.nic.counters().no_buffer), (1, 0));
        let mut sides = Sides::<Packed>::new(&Config { buffers: 16, ..config::<Packed>() });
        let mut burst = crate::Burst::new();
        sides.host.alloc(4096, 16, &mut burst);
        assert!(!sides.nic.deliver_bytes(&[&[1; 64]], 0));
        assert_eq!((sides.nic.counters().ring_full, sides.nic.counters().no_buffer), (0, 1));
        let mut buffers = [(0, Class::Large); CHAIN_MAX];
        assert_eq!(sides.nic.take_room(9000, &mut buffers), Err(Busy::NoBuffer));
        sides.host.free(&mut burst);
    }
}
