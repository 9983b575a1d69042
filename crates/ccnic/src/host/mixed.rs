//! Bursts of which some packets are copied from the program's memory, and others are sent in the buffers that they lie in.

use crate::buf::{Buf, Burst, RegionTag};
use crate::desc::Desc;
use crate::memory::{SharedMemory, write_packet};
use crate::ring::{Producer, Ring};

use super::QueuePair;

/// A packet of one segment. Example: [`QueuePair::tx_mixed`].
#[derive(Debug, Clone, Copy)]
pub enum Outgoing<'a> {
    /// In the buffer of this descriptor.
    Buffer(Desc),
    /// These bytes, [`small_limit`](QueuePair::small_limit) at most, with this metadata.
    Copy(&'a [u8], u64),
}

/// The packets in buffers that the next ones have to wait for, and what has been sent.
struct Run<'b> {
    buffers: &'b mut Burst,
    /// By index: the buffer was allocated for a copy.
    copies: u64,
    /// Packets sent.
    sent: usize,
    /// Demote what is sent.
    demote: bool,
}

impl<M: SharedMemory, R: Ring> QueuePair<M, R> {
    /// Sends packets in order, as many as there is room and are buffers for, up to the first whose descriptor names no bytes of the pool
    /// or has no data or the flag MORE; returns their number. The caller holds the buffers of the others. A copy goes where
    /// [`tx_small`](QueuePair::tx_small) writes it. `burst` is working space: it must be empty, and is empty afterwards.
    ///
    /// ```
    /// # use ccnic::{Burst, testing::{Sides, config}, ring::GroupedEpoch};
    /// # let mut sides = Sides::<GroupedEpoch>::new(&config::<GroupedEpoch>());
    /// use ccnic::host::Outgoing;
    ///
    /// let mut burst = Burst::new();
    /// sides.host.alloc(1500, 1, &mut burst);
    /// let large = burst.disown().next().map(Outgoing::Buffer);
    /// let packets = [Outgoing::Copy(b"short", 0)].into_iter().chain(large);
    /// assert_eq!(sides.host.tx_mixed(packets, &mut burst, ()), 2);
    /// ```
    #[inline(always)]
    pub fn tx_mixed<'a>(
        &mut self,
        packets: impl Iterator<Item = Outgoing<'a>>,
        burst: &mut Burst,
        _: M::Adopt,
    ) -> usize {
        let pace = self.pace(packets.size_hint().0);
        self.begin_inline(pace);
        let most = self.inline_max(pace);
        let mut run = Run { buffers: burst, copies: 0, sent: 0, demote: pace.demote };
        for packet in packets {
            let fits = match packet {
                Outgoing::Buffer(desc) => self.add_buffer(&mut run, desc),
                Outgoing::Copy(bytes, meta) if bytes.len() > most as usize => {
                    self.add_copy(&mut run, bytes, meta)
                }
                Outgoing::Copy(bytes, meta) => {
                    self.send_run(&mut run) && self.send_inline(&mut run, bytes, meta)
                }
            };
            if !fits {
                break;
            }
        }
        self.send_run(&mut run);
        self.tx.close(&self.mem);
        self.published();
        run.sent
    }

    /// A packet that may be inline, into the ring; false if there is no room.
    #[inline(always)]
    fn send_inline(&mut self, run: &mut Run<'_>, bytes: &[u8], meta: u64) -> bool {
        let Some(at) = self.tx.place(&self.mem, bytes.len() as u32) else { return false };
        write_packet(&self.mem, at, bytes);
        self.tx.add(&self.mem, at, bytes.len() as u16, meta);
        run.sent += 1;
        true
    }

    /// Adds a packet in its buffer; false if its descriptor is not valid.
    #[inline(always)]
    fn add_buffer(&mut self, run: &mut Run<'_>, desc: Desc) -> bool {
        let buf = Buf::new(desc, RegionTag::of(&self.mem));
        let valid = self.holds(desc);
        if !valid || desc.more() || desc.is_empty() || run.buffers.space() == 0 && !self.send_run(run) {
            return false;
        }
        run.buffers.push(buf).is_ok()
    }

    /// Adds a copy in a buffer of the pool; false if there is none.
    #[inline(never)]
    fn add_copy(&mut self, run: &mut Run<'_>, bytes: &[u8], meta: u64) -> bool {
        if run.buffers.space() == 0 && !self.send_run(run)
            || self.alloc(bytes.len() as u16, 1, run.buffers) == 0
        {
            return false;
        }
        let last = run.buffers.len() - 1;
        run.copies |= 1 << last;
        for buf in run.buffers.iter_mut().skip(last) {
            buf.set_meta(meta);
            write_packet(&self.mem, buf.desc().offset(), bytes);
        }
        true
    }

    /// Sends the packets in buffers; false if there is not room for all. Frees the copies among those.
    #[inline(always)]
    fn send_run(&mut self, run: &mut Run<'_>) -> bool {
        let n = run.buffers.len();
        if n == 0 {
            return true;
        }
        let sent = if self.tx.has_areas() {
            if run.demote {
                self.demote_payload(run.buffers);
            }
            let sent = self.append_buffers(run.buffers.as_slice());
            run.buffers.remove_front(sent);
            sent
        } else {
            self.tx_burst(run.buffers)
        };
        run.sent += sent;
        if sent < n {
            self.free_copies(run, sent);
        }
        run.copies = 0;
        run.buffers.clear();
        sent == n
    }

    /// Frees the copies among the buffers that are left after `sent` of them.
    #[cold]
    #[inline(never)]
    fn free_copies(&mut self, run: &mut Run<'_>, sent: usize) {
        let copies = run.copies >> sent;
        for (i, buf) in run.buffers.as_slice().iter().enumerate() {
            if copies & 1 << i != 0 {
                self.pool.free(&self.mem, buf.desc().offset(), buf.class());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::ring::{Doorbell, GroupedClear, GroupedEpoch};
    use crate::testing::{Sides, config, rounds};
    use std::vec::Vec;

    /// Packets of these lengths: those of up to 128 bytes as copies of `bytes`, others in buffers.
    fn packets<'a, R: Ring>(sides: &mut Sides<R>, lens: &[u16], bytes: &'a [u8]) -> Vec<Outgoing<'a>> {
        let mut burst = Burst::new();
        let one = |(i, &len): (usize, &u16)| {
            if len <= 128 {
                return Outgoing::Copy(&bytes[..len.into()], i as u64);
            }
            assert_eq!(sides.host.alloc(len, 1, &mut burst), 1);
            burst.iter_mut().for_each(|buf| {
                buf.set_meta(i as u64);
                sides.host.with_mut(buf, |to| to.fill(7));
            });
            Outgoing::Buffer(burst.disown().next().unwrap())
        };
        lens.iter().enumerate().map(one).collect()
    }

    fn mixed_packets_arrive_in_order<R: Ring>() {
        let mut sides = Sides::<R>::new(&config::<R>());
        let (bytes, mut burst) = ([7; 128], Burst::new());
        for round in 0..rounds(200, 4) {
            let lens: Vec<_> = (0..1 + round % 30)
                .map(|i| [64, 1500, 20, 129, 100, 65, 4096][(i * round + i) % 7])
                .collect();
            let packets = packets(&mut sides, &lens, &bytes);
            assert_eq!(
                sides.host.tx_mixed(packets.into_iter(), &mut burst, ()),
                lens.len(),
                "{:?}",
                R::DESIGN
            );
            let mut got = Vec::new();
            for _ in 0..99 {
                sides.poll();
                sides.host.rx_burst(&mut burst, 32);
                for buf in burst.as_slice() {
                    assert_eq!(buf.meta(), got.len() as u64);
                    assert!(sides.host.with(buf, |bytes| bytes.iter().all(|byte| *byte == 7)));
                    got.push(buf.len());
                }
                sides.host.free(&mut burst);
            }
            assert_eq!(got, lens, "{:?}", R::DESIGN);
        }
    }

    #[test]
    fn copies_and_buffers_arrive_in_order() {
        mixed_packets_arrive_in_order::<GroupedEpoch>();
        mixed_packets_arrive_in_order::<GroupedClear>();
        mixed_packets_arrive_in_order::<Doorbell>();
    }

    #[test]
    fn a_full_ring_leaves_buffers_with_the_caller_and_loses_no_copy() {
        let mut sides = Sides::<GroupedEpoch>::new(&config::<GroupedEpoch>());
        let (bytes, mut burst) = ([7; 128], Burst::new());
        for _ in 0..rounds(100, 4) {
            let packets = packets(&mut sides, &[64, 100, 1500, 100, 64].repeat(20), &bytes);
            let sent = sides.host.tx_mixed(packets.iter().copied(), &mut burst, ());
            assert!((40..=64).contains(&sent) && burst.is_empty(), "{sent}");
            let left = packets[sent..].iter().filter_map(|packet| match packet {
                Outgoing::Buffer(desc) => Some(*desc),
                Outgoing::Copy(..) => None,
            });
            let left: Vec<_> = left.collect();
            assert_eq!(sides.host.free_descs(left.iter().copied(), &mut burst, ()), left.len());
            let mut received = 0;
            while received < sent {
                sides.poll();
                received += sides.receive(32, |_, _| ());
            }
        }
    }

    #[test]
    fn a_descriptor_that_is_not_valid_ends_the_burst() {
        let mut sides = Sides::<GroupedEpoch>::new(&config::<GroupedEpoch>());
        let (bytes, mut burst) = ([7; 64], Burst::new());
        let good = packets(&mut sides, &[1500], &bytes)[0];
        let Outgoing::Buffer(desc) = good else { panic!() };
        for bad in [desc.with_len(0), desc.with_more(true), desc.with_len(5000), Desc::new(0, 64, 0)] {
            let packets = [Outgoing::Copy(&bytes, 0), Outgoing::Buffer(bad), good];
            assert_eq!(sides.host.tx_mixed(packets.into_iter(), &mut burst, ()), 1);
        }
        assert_eq!(sides.host.tx_mixed([good].into_iter(), &mut burst, ()), 1);
    }
}
