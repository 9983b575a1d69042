//! Whole bursts between a NIC's own memory and its program: one copy each, from the ring's area or a buffer into the NIC's memory, and
//! from the NIC's memory into the ring's area or a buffer.

use crate::desc::Desc;
use crate::memory::{LINE, SharedMemory, read_packet, write_packet};
use crate::pool::{Class, data_offset};
use crate::ring::{Producer, Ring};

use super::{Fetched, NicQueue};

impl<M: SharedMemory, R: Ring> NicQueue<M, R> {
    /// Receives up to `max` packets of one segment and at most `longest` bytes as copies, in order, up to the first that is longer or
    /// a chain; completes them and returns their number. `room` is called with the index and the descriptor of each and returns as
    /// many bytes to copy it to. `fetched` holds the packets that were fetched and not received; the next burst is fetched, and its
    /// lines are prefetched, when the last one was full.
    ///
    /// 0 with packets left in `fetched`: the first of them is no such packet.
    #[inline(always)]
    pub fn receive_copies<'a>(
        &mut self,
        fetched: &mut Fetched,
        max: usize,
        longest: u16,
        mut room: impl FnMut(usize, Desc) -> &'a mut [u8],
    ) -> usize {
        let mut done = 0;
        while done < max {
            if fetched.is_empty() && (done > 0 && !fetched.is_full() || self.fetch(fetched) == 0) {
                break;
            }
            let n = self.copy_out(
                fetched,
                max - done,
                longest,
                #[inline(always)]
                |i, desc| room(done + i, desc),
            );
            done += n;
            if n == 0 {
                break;
            }
        }
        if fetched.is_empty() && fetched.is_full() && self.may_fetch_ahead() {
            self.fetch(fetched);
        }
        self.flush();
        done
    }

    /// Copies and completes the first of the packets that were fetched.
    #[inline(always)]
    fn copy_out<'a>(
        &mut self,
        fetched: &mut Fetched,
        max: usize,
        longest: u16,
        mut room: impl FnMut(usize, Desc) -> &'a mut [u8],
    ) -> usize {
        let descs = fetched.rest();
        let fits = |desc: &Desc| !desc.more() & (desc.len() <= longest);
        let mut descs = descs.get(..max).unwrap_or(descs);
        if !descs.iter().fold(true, |all, desc| all & fits(desc)) {
            let n = descs.iter().position(|desc| !fits(desc)).unwrap_or(descs.len());
            descs = descs.get(..n).unwrap_or_default();
        }
        for (i, desc) in descs.iter().enumerate() {
            read_packet(&self.mem, desc.offset(), room(i, *desc));
        }
        let n = descs.len();
        // Those that were moved to buffers have handed their units back already.
        self.done(n - n.min(fetched.moved.saturating_sub(fetched.next)));
        self.free_all(descs);
        fetched.advance(n);
        n
    }

    /// Delivers packets of the NIC's own memory, each with its metadata and of `shortest` to `longest` bytes, which is at most the MTU:
    /// as many, in order, as there is room and are buffers for, and at most [`FETCH`](super::FETCH); returns their number. The program
    /// sees them after [`flush`](NicQueue::flush).
    #[inline(always)]
    pub fn deliver_slices<'a>(
        &mut self,
        shortest: u32,
        longest: u32,
        packets: impl ExactSizeIterator<Item = (&'a [u8], u64)>,
    ) -> usize {
        let inline_max = self.inline_max();
        if longest <= inline_max.min(LINE) {
            return self.slices_inline(packets);
        }
        let class = self.pool.class(longest);
        let inline = shortest <= inline_max;
        if inline || class != self.pool.class(shortest) || longest > class.size() {
            return self.slices_one_by_one(packets);
        }
        self.slices_alike(class, packets)
    }

    /// Packets of at most a line, into the areas of the ring.
    #[inline(always)]
    fn slices_inline<'a>(&mut self, mut packets: impl ExactSizeIterator<Item = (&'a [u8], u64)>) -> usize {
        let (n, mut bytes) = (packets.len(), 0);
        self.publish(false); // what is staged comes first
        self.rx.begin(self.demotes(), if self.idle { 0 } else { self.tuning.ahead });
        let mem = &self.mem;
        let done = self.rx.push_lines(
            mem,
            n,
            #[inline(always)]
            |_, at| {
                let Some((packet, meta)) = packets.next() else { return (0, 0) };
                let packet = packet.get(..LINE as usize).unwrap_or(packet);
                write_packet(mem, at, packet);
                bytes += packet.len() as u64;
                (packet.len() as u16, meta)
            },
        );
        self.counters.rx_packets += done as u64;
        self.counters.rx_bytes += bytes;
        self.counters.ring_full += u64::from(done < n);
        done
    }

    /// Packets that take buffers of one class, if there is room for all.
    #[inline(always)]
    fn slices_alike<'a>(
        &mut self,
        class: Class,
        packets: impl ExactSizeIterator<Item = (&'a [u8], u64)>,
    ) -> usize {
        let n = packets.len();
        let room = self.fill.is_none() && self.room(n) >= n;
        let Some(staged) = self.staged.get_mut(self.staged_len..self.staged_len + n).filter(|_| room) else {
            return self.slices_one_by_one(packets);
        };
        let Some(buffers) = self.pool.alloc_many(class, n) else { return self.slices_one_by_one(packets) };
        let flags = class.flag();
        for ((slot, (packet, meta)), &at) in staged.iter_mut().zip(packets).zip(buffers) {
            let packet = packet.get(..class.size() as usize).unwrap_or(packet);
            let at = data_offset(at, packet.len() as u32, class);
            write_packet(&self.mem, at, packet);
            *slot = Desc::new(at, packet.len() as u16, flags).with_meta(meta);
            self.counters.rx_bytes += packet.len() as u64;
        }
        self.staged_len += n;
        self.counters.rx_packets += n as u64;
        n
    }

    /// Packets of any kind, one by one until one has no room.
    #[cold]
    #[inline(never)]
    fn slices_one_by_one<'a>(&mut self, packets: impl Iterator<Item = (&'a [u8], u64)>) -> usize {
        let mut n = 0;
        for (packet, meta) in packets {
            if !self.deliver_bytes(&[packet], meta) {
                break;
            }
            n += 1;
        }
        n
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::config::Config;
    use crate::ring::{Doorbell, GroupedClear, GroupedEpoch};
    use crate::testing::{Sides, config, rounds};
    use std::vec::Vec;

    fn packet(i: usize, len: usize) -> Vec<u8> {
        (0..len).map(|at| (i * 31 + at * 7 + at / 64) as u8).collect()
    }

    /// Delivers packets of these lengths; returns how many there was room for.
    fn deliver<R: Ring>(sides: &mut Sides<R>, lens: &[usize]) -> usize {
        let packets: Vec<_> = lens.iter().enumerate().map(|(i, &len)| packet(i, len)).collect();
        let slices = packets.iter().enumerate().map(|(i, packet)| (packet.as_slice(), i as u64));
        let (shortest, longest) = (lens.iter().min().unwrap(), lens.iter().max().unwrap());
        let n = sides.nic.deliver_slices(*shortest as u32, *longest as u32, slices);
        sides.nic.flush();
        n
    }

    fn slices_arrive<R: Ring>() {
        let mut sides = Sides::<R>::new(&config::<R>());
        sides.receive(0, |_, _| ()); // posts receive buffers
        let mut burst = crate::Burst::new();
        for lens in
            [&[64; 32][..], &[1, 15, 16, 31, 33, 63], &[65, 100, 128], &[1500; 20], &[60, 129, 4096, 5]]
        {
            for _ in 0..rounds(20, 2) {
                assert_eq!(deliver(&mut sides, lens), lens.len(), "{:?}", R::DESIGN);
                let mut got = 0;
                while sides.host.rx_burst(&mut burst, 32) > 0 {
                    for buf in burst.as_slice() {
                        assert_eq!(buf.meta(), got as u64);
                        sides.host.with(buf, |bytes| assert!(bytes == packet(got, lens[got]), "{got}"));
                        got += 1;
                    }
                    sides.host.free(&mut burst);
                }
                assert_eq!(got, lens.len());
            }
        }
        let all = rounds(20, 2) as u64 * (32 + 6 + 3 + 20 + 4);
        let bytes = rounds(20, 2) as u64 * (2048 + 159 + 293 + 30_000 + 4290);
        let counters = sides.nic.counters();
        assert_eq!((counters.rx_packets, counters.rx_bytes), (all, bytes));
    }

    #[test]
    fn bursts_of_slices_arrive_with_data_and_metadata() {
        slices_arrive::<GroupedEpoch>();
        slices_arrive::<GroupedClear>();
        slices_arrive::<Doorbell>();
    }

    #[test]
    fn a_full_ring_takes_what_fits() {
        let mut sides = Sides::<GroupedEpoch>::new(&config::<GroupedEpoch>());
        assert_eq!([64, 64, 64].map(|len| deliver(&mut sides, &[len; 32])), [32, 32, 0]);
        let mut sides = Sides::<GroupedEpoch>::new(&Config { inline: false, ..config::<GroupedEpoch>() });
        assert_eq!([99; 3].map(|len| deliver(&mut sides, &[len; 28])), [28, 28, 8]);
        assert_eq!(sides.nic.counters().ring_full, 1);
    }

    fn copies_are_received<R: Ring>() {
        let mut sides = Sides::<R>::new(&Config { buffers: 128, ..config::<R>() });
        let mut fetched = Fetched::default();
        for round in 0..rounds(30, 2) {
            let lens = [64, 20, 1500, 129, 4096, 9000, 1];
            for len in lens {
                assert!(sides.send(len, 3, len as u8) > 0);
            }
            let mut rooms = std::vec![std::vec![0xee_u8; 4100]; 3];
            let mut seen = Vec::new();
            for max in [1, 2, 3].into_iter().cycle().take(30) {
                let mut room = rooms.iter_mut();
                let n = sides.nic.receive_copies(&mut fetched, max, 1500, |_, desc| {
                    &mut room.next().unwrap()[..desc.len().into()]
                });
                seen.extend(
                    rooms
                        .iter()
                        .take(n)
                        .map(|room| (room[0], room.iter().take_while(|b| **b == room[0]).count())),
                );
                rooms.iter_mut().for_each(|room| room.fill(0xee));
                if n == 0 && !fetched.is_empty() {
                    // Longer, or a chain: taken in another way.
                    let ready = sides.nic.copy_to_pool(&mut fetched);
                    let packet: Vec<_> = fetched.rest()[..ready].to_vec();
                    let len = packet.iter().position(|desc| !desc.more()).unwrap() + 1;
                    sides.nic.give_back(&packet[..len]);
                    fetched.advance(len);
                    sides.nic.flush();
                }
            }
            let short = [64, 20, 1500, 129, 1].map(|len| [(len as u8, len); 3]);
            assert!(seen.iter().eq(short.as_flattened()), "{:?} {round}: {seen:?}", R::DESIGN);
            assert!(fetched.is_empty());
        }
    }

    #[test]
    fn packets_are_received_as_copies_up_to_one_that_is_too_long() {
        copies_are_received::<GroupedEpoch>();
        copies_are_received::<GroupedClear>();
    }
}
