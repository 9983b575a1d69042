//! Reserve and commit: `tx_fill` in two calls, for callers in other languages, which cannot be called back.

use crate::buf::Burst;
use crate::layout::LARGE_BUF;
use crate::memory::{LINE, SharedMemory};
use crate::ring::{Producer, Ring};

use super::QueuePair;
use super::transmit::Pace;

/// Places for packets that [`QueuePair::tx_reserve`] gave and that are not committed yet: in the ring or in buffers of the pool.
/// Give it to [`QueuePair::tx_commit`] in the end, if only with 0 packets; one that is dropped loses its buffers.
/// Example: [`QueuePair::tx_reserve`].
#[derive(Debug, Default)]
pub struct Reserved {
    /// Places in the ring.
    lines: usize,
    /// The ring's position when they were reserved, where they begin.
    position: u64,
    /// Places in buffers.
    buffers: Burst,
    /// Bytes of each place.
    len: u16,
    pace: Pace,
}

impl Reserved {
    /// The number of places. Example: [`QueuePair::tx_reserve`].
    #[inline(always)]
    pub fn places(&self) -> usize {
        self.lines + self.buffers.len()
    }

    /// Bytes of each place. Example: [`QueuePair::tx_reserve`].
    #[inline(always)]
    pub fn place_len(&self) -> u16 {
        self.len
    }
}

impl<M: SharedMemory, R: Ring> QueuePair<M, R> {
    /// Reserves places for `n` packets of at most `len` bytes, which is at most 4096, or for as many as there is room and are
    /// buffers for, at most [`Burst::CAPACITY`]; returns their number. Calls `place` with the index and the offset of each. The
    /// places lie in the ring if packets of this length do, otherwise in buffers of the pool. They hold old data. Those of an
    /// earlier call are given back.
    ///
    /// ```
    /// # use ccnic::{testing::{Sides, config}, ring::GroupedEpoch};
    /// # let mut sides = Sides::<GroupedEpoch>::new(&config::<GroupedEpoch>());
    /// use ccnic::{SharedMemory, host::Reserved};
    ///
    /// let (mut places, mut reserved) = (Vec::new(), Reserved::default());
    /// assert_eq!(sides.host.tx_reserve(64, 3, &mut reserved, |_, at| places.push(at)), 3);
    /// assert_eq!((reserved.places(), reserved.place_len()), (3, 64));
    /// places.iter().for_each(|&at| sides.mem.write(at, &[7; 60]));
    /// assert_eq!(sides.host.tx_commit(&mut reserved, 2, |_| (60, 0)), Some(2)); // the third is given back
    /// # sides.poll();
    /// assert_eq!(sides.receive(32, |len, byte| assert_eq!((len, byte), (60, Some(7)))), 2); // a loopback
    /// ```
    #[inline(always)]
    pub fn tx_reserve(
        &mut self,
        len: u16,
        n: usize,
        reserved: &mut Reserved,
        mut place: impl FnMut(usize, u32),
    ) -> usize {
        if !reserved.buffers.is_empty() {
            self.free(&mut reserved.buffers);
        }
        (reserved.lines, reserved.position, reserved.len) = (0, self.tx.position(), len);
        if u32::from(len) > LARGE_BUF {
            return 0;
        }
        let mut room = self.tx.room(&self.mem, n.min(Burst::CAPACITY));
        reserved.pace = self.pace(n);
        if u32::from(len) > self.inline_max(reserved.pace).min(LINE) {
            if self.managed.is_some() {
                room = room.min(self.managed_room(room));
            }
            room = self.alloc(len, room, &mut reserved.buffers);
            reserved.buffers.as_slice().iter().enumerate().for_each(|(i, buf)| place(i, buf.desc().offset()));
        } else {
            reserved.lines = room;
            (0..room).for_each(|i| place(i, self.tx.line(i)));
        }
        room
    }

    /// Sends the packets in the first `n` places, in order, and gives the others back; returns their number. `packet` is called with
    /// the index of each and returns its bytes (longer ones than [`place_len`](Reserved::place_len) are cut) and its metadata.
    /// `None`, and nothing is sent, if there are not so many places, or if other packets were sent meanwhile: those took the
    /// room in the ring. Example: [`tx_reserve`](QueuePair::tx_reserve).
    #[inline(always)]
    pub fn tx_commit(
        &mut self,
        reserved: &mut Reserved,
        n: usize,
        mut packet: impl FnMut(usize) -> (u16, u64),
    ) -> Option<usize> {
        let valid = n <= reserved.places() && (n == 0 || reserved.position == self.tx.position());
        if !valid {
            return None;
        }
        reserved.lines = 0;
        if !reserved.buffers.is_empty() {
            return Some(self.commit_buffers(reserved, n, packet));
        }
        if n == 0 {
            return Some(0);
        }
        self.begin_inline(reserved.pace);
        let sent = self.tx.push_lines(
            &self.mem,
            n,
            #[inline(always)]
            |i, _| {
                let (len, meta) = packet(i);
                (len.min(reserved.len), meta)
            },
        );
        self.tx.close(&self.mem);
        self.published();
        Some(sent)
    }

    /// `tx_commit` of places in buffers.
    #[inline(always)]
    fn commit_buffers(
        &mut self,
        reserved: &mut Reserved,
        n: usize,
        mut packet: impl FnMut(usize) -> (u16, u64),
    ) -> usize {
        let Reserved { buffers, len: most, pace, .. } = reserved;
        while buffers.len() > n
            && let Some(buf) = buffers.pop()
        {
            self.free_one(buf);
        }
        for (i, buf) in buffers.iter_mut().enumerate() {
            let (len, meta) = packet(i);
            buf.set_meta(meta);
            let _ = buf.set_len(len.min(*most)); // which fits, since it was allocated
        }
        let sent = if self.tx.has_areas() {
            // Not `tx_burst`, which would copy those into the ring that turned out to be short.
            self.begin_inline(*pace);
            let sent = self.append_buffers(buffers.as_slice());
            self.tx.close(&self.mem);
            self.published();
            buffers.remove_front(sent);
            sent
        } else {
            self.tx_burst(buffers)
        };
        if !buffers.is_empty() {
            self.free(buffers); // does not happen: there was room
        }
        sent
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::ring::{Doorbell, GroupedClear, GroupedEpoch};
    use crate::testing::{Sides, config, rounds};
    use std::vec::Vec;

    /// Reserves `n` places of `len` bytes, fills each with its index and commits `k` of them, of lengths that differ.
    fn send<R: Ring>(sides: &mut Sides<R>, len: u16, n: usize, k: usize) -> Option<usize> {
        let (mut places, mut reserved) = (Vec::new(), Reserved::default());
        assert_eq!(sides.host.tx_reserve(len, n, &mut reserved, |i, at| places.push((i as u8, at))), n);
        places.iter().for_each(|&(i, at)| sides.mem.write(at, &std::vec![i; len.into()]));
        sides.host.tx_commit(&mut reserved, k, |i| (len - i as u16 % 8, i as u64))
    }

    fn committed_packets_come_back<R: Ring>() {
        let mut sides = Sides::<R>::new(&config::<R>());
        for n in (1..=20).cycle().take(rounds(60, 2)) {
            for len in [8, 64, 65, 128, 129, 4096] {
                assert_eq!(send(&mut sides, len, n, n), Some(n), "{:?} {len}", R::DESIGN);
                let mut back = 0;
                for _ in 0..99 {
                    sides.poll();
                    sides.receive(32, |got, byte| {
                        assert_eq!((got, byte), (len - back % 8, Some(back as u8)));
                        back += 1;
                    });
                }
                assert_eq!(usize::from(back), n, "{:?} {len}", R::DESIGN);
            }
        }
    }

    #[test]
    fn packets_written_where_they_were_reserved_come_back() {
        committed_packets_come_back::<GroupedEpoch>();
        committed_packets_come_back::<GroupedClear>();
        committed_packets_come_back::<Doorbell>();
    }

    #[test]
    fn places_that_are_not_committed_are_given_back() {
        let mut sides = Sides::<GroupedEpoch>::new(&config::<GroupedEpoch>());
        for len in [64, 1500] {
            // More often than there are places: none is lost.
            for round in 0..50 {
                assert_eq!(send(&mut sides, len, 9, round % 4), Some(round % 4));
                while sides.poll() > 0 {}
                assert_eq!(sides.receive(32, |_, _| ()), round % 4);
            }
        }
        let mut reserved = Reserved::default();
        for _ in 0..50 {
            assert_eq!(sides.host.tx_reserve(1500, 20, &mut reserved, |_, _| ()), 20, "not committed");
        }
        assert_eq!(sides.host.tx_commit(&mut reserved, 0, |_| (1, 0)), Some(0));
        assert_eq!(sides.host.tx_commit(&mut reserved, 1, |_| (1, 0)), None, "they are given back");
    }

    #[test]
    fn other_packets_take_the_room_in_the_ring() {
        let mut sides = Sides::<GroupedEpoch>::new(&config::<GroupedEpoch>());
        let mut reserved = Reserved::default();
        assert_eq!(sides.host.tx_reserve(64, 4, &mut reserved, |_, _| ()), 4);
        assert_eq!(sides.host.tx_commit(&mut reserved, 5, |_| (64, 0)), None, "more than there are");
        assert_eq!(sides.send(64, 1, 1), 1);
        assert_eq!(sides.host.tx_commit(&mut reserved, 4, |_| (64, 0)), None);
        assert_eq!((sides.poll(), sides.host.tx_waiting()), (1, 0));
        // Also the room of places in buffers.
        assert_eq!(sides.host.tx_reserve(65, 4, &mut reserved, |_, _| ()), 4);
        assert_eq!(sides.send(64, 1, 1), 1);
        assert_eq!(sides.host.tx_commit(&mut reserved, 4, |_| (65, 0)), None);
        assert_eq!(sides.host.tx_reserve(65, 4, &mut reserved, |_, _| ()), 4);
        assert_eq!(sides.host.tx_commit(&mut reserved, 4, |_| (99, 0)), Some(4), "cut to 65 bytes");
        assert_eq!(sides.poll(), 5);
        let mut lens = Vec::new();
        assert_eq!(sides.receive(32, |len, _| lens.push(len)), 6);
        assert_eq!(lens, [64, 64, 65, 65, 65, 65]);
    }

    #[test]
    fn a_full_ring_or_an_empty_pool_leaves_fewer_places() {
        let mut sides = Sides::<GroupedEpoch>::new(&config::<GroupedEpoch>());
        let mut reserved = Reserved::default();
        assert_eq!(sides.host.tx_reserve(64, 100, &mut reserved, |_, _| ()), 64);
        assert_eq!(sides.host.tx_commit(&mut reserved, 64, |_| (64, 0)), Some(64));
        for len in [64, 1000] {
            assert_eq!(sides.host.tx_reserve(len, 1, &mut reserved, |_, _| ()), 0, "the ring is full");
        }
        assert_eq!(sides.host.tx_reserve(4097, 1, &mut reserved, |_, _| ()), 0, "no place is so long");
    }
}
