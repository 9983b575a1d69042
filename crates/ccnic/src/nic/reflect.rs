//! Packets that go back to their program without a copy, and completion of fetched packets.

use crate::desc::Desc;
use crate::memory::SharedMemory;
use crate::pool::Class;
use crate::ring::Ring;

use super::NicQueue;
use super::fetched::first;

/// True when a segment comes without a buffer that the program could be given: the packet can only be copied.
#[inline(always)]
fn has_borrowed(packets: &[Desc]) -> bool {
    let mut any = false;
    for desc in packets {
        any |= desc.borrowed();
    }
    any
}

impl<M: SharedMemory, R: Ring> NicQueue<M, R> {
    /// Sends fetched packets of this region back to their program without a copy, as many whole ones as the
    /// ring has room for; returns the number of their descriptors. Only with the shared pool: with the
    /// host-managed one the host frees what it has sent.
    ///
    /// Packets with inline or kept segments are copied. Where there is no buffer for the copy they are dropped and counted
    /// ([`dropped_no_buffer`](super::NicCounters::dropped_no_buffer)): the buffers that they wait for may be those that the program keeps.
    #[inline(always)]
    pub fn reflect(&mut self, packets: &[Desc]) -> usize {
        let n = self.reflect_most(packets);
        self.done(n);
        self.counters.ring_full += u64::from(n < packets.len());
        n
    }

    /// Sends packets in buffers that this side holds (not fetched ones: those are [`reflect`](NicQueue::reflect)ed), as many whole ones as
    /// the ring has room for; returns the number of their buffers. Only with the shared pool.
    #[inline(always)]
    pub fn send_buffers(&mut self, packets: &[Desc]) -> usize {
        let n = self.reflect_most(packets);
        self.counters.ring_full += u64::from(n < packets.len());
        n
    }

    /// `reflect` without completion and without counting waits.
    #[inline(always)]
    pub(super) fn reflect_most(&mut self, packets: &[Desc]) -> usize {
        if has_borrowed(packets) {
            return self.reflect_each(packets);
        }
        let mut room = self.room(packets.len());
        while room < packets.len() && room > 0 && packets.get(room - 1).is_some_and(|d| d.more()) {
            room -= 1;
        }
        for desc in packets.iter().take(room) {
            self.stage_desc(*desc);
            self.counters.rx_packets += u64::from(!desc.more());
            self.counters.rx_bytes += u64::from(desc.len());
        }
        room
    }

    /// `reflect_most` packet by packet, where some are inline or have kept segments.
    #[cold]
    #[inline(never)]
    fn reflect_each(&mut self, packets: &[Desc]) -> usize {
        let mut n = 0;
        while let Some(rest) = packets.get(n..).filter(|rest| !rest.is_empty()) {
            let packet = first(rest);
            if !has_borrowed(packet) {
                if self.reflect_most(packet) < packet.len() {
                    break;
                }
            } else {
                match self.reflect_copy(packet) {
                    None => break,
                    Some(true) => {}
                    Some(false) => {
                        self.free_all(packet);
                        self.counters.dropped_no_buffer += 1;
                    }
                }
            }
            n += packet.len();
        }
        n
    }

    /// Completes fetched packets of this region: frees their buffers (with the host-managed pool, the host
    /// frees them when the ring hands their units back).
    #[inline(always)]
    pub fn complete(&mut self, packets: &[Desc]) {
        self.done(packets.len());
        self.free_all(packets);
    }

    /// So many of the descriptors that this queue has fetched are completed: their units may be handed back.
    #[inline(always)]
    pub(super) fn done(&mut self, descs: usize) {
        self.open = self.open.saturating_sub(descs);
        if self.has_areas() {
            self.taken.complete(descs);
        }
    }

    /// Frees buffers, unless the host does.
    #[inline(always)]
    pub(super) fn free_all(&mut self, packets: &[Desc]) {
        if self.config.shared_pool {
            self.pool.free_many(&self.mem, packets);
        }
    }

    /// Frees a buffer, unless the host does. An inline packet has none, and a kept one is the host's.
    #[inline(always)]
    pub(super) fn free(&mut self, desc: Desc) {
        if self.config.shared_pool && !desc.borrowed() {
            self.pool.free(&self.mem, desc.offset(), Class::of(desc));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::ring::{GroupedEpoch, Packed};
    use crate::testing::{Sides, config};

    #[test]
    fn reflected_packets_keep_their_buffers() {
        let mut sides = Sides::<GroupedEpoch>::new(&config::<GroupedEpoch>());
        assert_eq!(sides.send(9000, 6, 3), 6);
        let fetched = sides.fetch();
        assert_eq!(sides.nic.reflect(fetched.rest()), 6);
        sides.nic.flush();
        let mut burst = crate::Burst::new();
        assert_eq!(sides.host.rx_burst(&mut burst, 32), 6);
        assert!(
            burst
                .as_slice()
                .iter()
                .map(|buf| buf.desc().offset())
                .eq(fetched.rest().iter().map(|d| d.offset()))
        );
        assert_eq!(sides.nic.counters().rx_packets, 2);
        sides.host.free(&mut burst);
    }

    #[test]
    fn a_full_ring_takes_whole_packets_only() {
        let mut sides = Sides::<Packed>::new(&config::<Packed>());
        for _ in 0..2 {
            assert_eq!(sides.send(64, 31, 1), 31);
            let fetched = sides.fetch();
            assert_eq!(sides.nic.reflect(fetched.rest()), 31);
            sides.nic.flush();
        }
        assert_eq!(sides.send(9000, 3, 1), 3);
        let fetched = sides.fetch();
        assert_eq!(
            (sides.nic.reflect(fetched.rest()), sides.nic.counters().ring_full),
            (0, 1),
            "room for two"
        );
        assert_eq!(sides.receive(1, |_, _| ()), 1);
        assert_eq!(sides.nic.reflect(fetched.rest()), 3);
    }
}
