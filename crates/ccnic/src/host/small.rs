//! Packets without handles: for programs that keep packets in memory of their own and copy them in and out (an mbuf
//! pool), or make and read them where they lie.
//!
//! A buffer is allocated, filled and sent, or received, read and freed, within one call. The program never
//! holds it, so its descriptor need not be checked.

use crate::buf::{Buf, Burst, RegionTag};
use crate::desc::Desc;
use crate::layout::{self, AREA, LARGE_BUF};
use crate::memory::{Fetch, LINE, SharedMemory, prefetch_payload, write_small};
use crate::pool::{Class, data_offset};
use crate::ring::{Producer, Ring};

use super::QueuePair;
use super::receive::PIECE;
use super::transmit::Pace;

/// Which lines of the transmit ring have been prefetched before the burst that writes them. While a burst is
/// filled, the core's fill buffers are busy with the lines of its packets; when a receive burst begins they
/// are idle.
#[derive(Debug, Default)]
pub(super) struct RingAhead {
    /// Packets of the last burst, as a prediction of the next.
    sent: usize,
    /// Packets of the next burst whose descriptors' lines have been prefetched.
    prefetched: usize,
}

/// The next packet to receive is longer than 128 bytes, or has several segments: [`QueuePair::rx_burst`] receives it.
/// Example: [`QueuePair::rx_small`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotSmall;

/// The next packet to receive has several segments: [`QueuePair::rx_burst`] receives it.
/// Example: [`QueuePair::rx_lend`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segmented;

/// Has `fill` write packet `i`, of `len` bytes at `at`; returns its metadata. Inlined with `fill`, so that the program writes with the
/// registers that its burst is compiled for.
#[inline(always)]
fn write<M: SharedMemory>(
    mem: &M,
    at: u32,
    len: u16,
    i: usize,
    fill: &mut impl FnMut(usize, &mut [u8]) -> u64,
) -> u64 {
    mem.with_mut(
        at,
        len.into(),
        #[inline(always)]
        |to| fill(i, to),
    )
}

impl<M: SharedMemory, R: Ring> QueuePair<M, R> {
    /// Sends copies of packets of 1 to `longest` bytes ([`small_limit`](QueuePair::small_limit) at most), each with its metadata, in
    /// order, as many as there are buffers and room in the ring for; returns their number. `burst` is working space: it
    /// must be empty, and is empty afterwards.
    ///
    /// ```
    /// # use ccnic::{Burst, testing::{Sides, config}, ring::GroupedEpoch};
    /// # let mut sides = Sides::<GroupedEpoch>::new(&config::<GroupedEpoch>());
    /// let (pair, mut burst) = (&mut sides.host, Burst::new());
    /// let packets: [&[u8]; 2] = [b"one", b"three"];
    /// assert!(pair.small_limit() == 128 && pair.takes_buffers(4096)); // long packets go to buffers
    /// assert_eq!(pair.tx_small(5, packets.into_iter().map(|packet| (packet, 0)), &mut burst), 2);
    /// ```
    #[inline(always)]
    pub fn tx_small<'a>(
        &mut self,
        longest: u16,
        mut packets: impl ExactSizeIterator<Item = (&'a [u8], u64)>,
        burst: &mut Burst,
    ) -> usize {
        let pace = self.pace(packets.len());
        if u32::from(longest) <= self.inline_max(pace) {
            return self.tx_inline(longest, packets, pace);
        }
        let room = self.tx.room(&self.mem, packets.len().min(burst.space()));
        if self.pool.class(u32::from(longest)) == Class::Small
            && let Some(sent) = self.send_new(
                (Class::Small, u32::from(longest)),
                room,
                burst,
                pace,
                #[inline(always)]
                |mem, _, at| {
                    let Some((packet, meta)) = packets.next() else { return (0, 0) };
                    write_small(mem, at, packet);
                    (packet.len() as u16, meta)
                },
            )
        {
            return sent;
        }
        self.tx_small_slowly(longest, room, packets, burst, pace)
    }

    /// The longest packet that [`tx_small`](QueuePair::tx_small) sends: 128 bytes, or less where the MTU is less.
    /// Example: [`tx_small`](QueuePair::tx_small).
    pub fn small_limit(&self) -> u16 {
        layout::SMALL_BUF.min(u32::from(self.config().mtu)) as u16
    }

    /// True when [`tx_small`](QueuePair::tx_small) and [`tx_fill`](QueuePair::tx_fill) may send packets of `len` bytes in buffers of the
    /// pool, under load or always; false when they always lie in the ring. Example: [`tx_small`](QueuePair::tx_small).
    pub fn takes_buffers(&self, len: u16) -> bool {
        u32::from(len) > self.tuning().inline_max(false).min(self.tuning().inline_max(true))
    }

    /// `tx_small` into the areas of the ring: no buffers.
    #[inline(always)]
    fn tx_inline<'a>(
        &mut self,
        longest: u16,
        mut packets: impl ExactSizeIterator<Item = (&'a [u8], u64)>,
        pace: Pace,
    ) -> usize {
        let n = packets.len();
        self.begin_inline(pace);
        let mut sent = 0;
        if u32::from(longest) <= LINE {
            let mem = &self.mem;
            sent = self.tx.push_lines(
                mem,
                n,
                #[inline(always)]
                |_, at| {
                    let Some((packet, meta)) = packets.next() else { return (0, 0) };
                    let packet = packet.get(..LINE as usize).unwrap_or(packet);
                    write_small(mem, at, packet);
                    (packet.len() as u16, meta)
                },
            );
        } else {
            for (packet, meta) in packets {
                let packet = packet.get(..AREA as usize).unwrap_or(packet);
                let Some(at) = self.tx.place(&self.mem, packet.len() as u32) else { break };
                self.mem.write(at, packet);
                self.tx.add(&self.mem, at, packet.len() as u16, meta);
                sent += 1;
            }
        }
        self.tx.close(&self.mem);
        self.published();
        sent
    }

    /// Sends `n` packets of `len` bytes, at most 4096 (none if it is more), or as many as there is room for; returns their
    /// number. `fill` is called with the index of a packet and the bytes to write it to, and returns its metadata. The bytes lie in the
    /// ring, where the NIC reads them, so a packet is written once; they hold old data, of which `fill` must overwrite all. Without
    /// inline areas, or when `len` is longer, they lie in buffers of the pool; `burst` is working space for that: it must be empty, and
    /// is empty afterwards.
    ///
    /// ```
    /// # use ccnic::{Burst, testing::{Sides, config}, ring::GroupedEpoch};
    /// # let mut sides = Sides::<GroupedEpoch>::new(&config::<GroupedEpoch>());
    /// let (pair, mut burst) = (&mut sides.host, Burst::new());
    /// let sent = pair.tx_fill(64, 8, &mut burst, |i, bytes| {
    ///     bytes.fill(i as u8);
    ///     0
    /// });
    /// assert_eq!(sent, 8);
    /// ```
    #[inline(always)]
    pub fn tx_fill(
        &mut self,
        len: u16,
        n: usize,
        burst: &mut Burst,
        mut fill: impl FnMut(usize, &mut [u8]) -> u64,
    ) -> usize {
        let pace = self.pace(n);
        if u32::from(len) > self.inline_max(pace) {
            return self.tx_fill_buffers(len, n, burst, fill, pace);
        }
        self.begin_inline(pace);
        let mut sent = 0;
        if u32::from(len) <= LINE {
            let mem = &self.mem;
            sent = self.tx.push_lines(
                mem,
                n,
                #[inline(always)]
                |i, at| (len, write(mem, at, len, i, &mut fill)),
            );
        } else {
            while sent < n
                && let Some(at) = self.tx.place(&self.mem, len.into())
            {
                let meta = write(&self.mem, at, len, sent, &mut fill);
                self.tx.add(&self.mem, at, len, meta);
                sent += 1;
            }
        }
        self.tx.close(&self.mem);
        self.published();
        sent
    }

    /// `tx_fill` into buffers of the pool.
    #[inline(always)]
    fn tx_fill_buffers(
        &mut self,
        len: u16,
        n: usize,
        burst: &mut Burst,
        mut fill: impl FnMut(usize, &mut [u8]) -> u64,
        pace: Pace,
    ) -> usize {
        if u32::from(len) > LARGE_BUF {
            return 0; // a chain, which `fill` cannot write at once
        }
        let room = self.tx.room(&self.mem, n.min(burst.space()));
        let class = self.pool.class(u32::from(len));
        let sent = self.send_new(
            (class, u32::from(len)),
            room,
            burst,
            pace,
            #[inline(always)]
            |mem, i, at| (len, write(mem, at, len, i, &mut fill)),
        );
        sent.unwrap_or_else(|| self.tx_fill_slowly(len, room, burst, &mut fill, pace))
    }

    /// `tx_fill` into buffers of the pool when the magazine has too few, and with the host-managed pool. Compiled once for every `fill`.
    #[cold]
    #[inline(never)]
    fn tx_fill_slowly(
        &mut self,
        len: u16,
        room: usize,
        burst: &mut Burst,
        fill: &mut dyn FnMut(usize, &mut [u8]) -> u64,
        pace: Pace,
    ) -> usize {
        self.alloc(len, room, burst);
        for (i, buf) in burst.iter_mut().enumerate() {
            let meta = self.with_mut(buf, |to| fill(i, to));
            buf.set_meta(meta);
        }
        let sent = self.transmit(burst, None, pace);
        self.free(burst);
        sent
    }

    /// Sends `n` new packets of one segment, for which the ring has room, in buffers of a class from the magazine, and returns their
    /// number. `put` is called with the index of a packet and the offset of its data, writes it, at most `longest` bytes, and returns its
    /// length and metadata. `None` when the magazine has fewer buffers, and with the host-managed pool.
    #[inline(always)]
    fn send_new(
        &mut self,
        (class, longest): (Class, u32),
        n: usize,
        burst: &mut Burst,
        pace: Pace,
        mut put: impl FnMut(&M, usize, u32) -> (u16, u64),
    ) -> Option<usize> {
        if self.managed.is_some() {
            return None;
        }
        let (mem, flags) = (&self.mem, class.flag());
        let buffers = self.pool.alloc_many(class, n)?;
        for &at in buffers {
            prefetch_payload(mem, data_offset(at, longest, class), longest, Fetch::Write);
        }
        if self.ring_ahead.prefetched < n {
            self.tx.prefetch(mem, n);
        }
        self.rx.prefetch(mem);
        let region = RegionTag::of(mem);
        for (i, (slot, &at)) in burst.spare(n).iter_mut().zip(buffers).enumerate() {
            let at = data_offset(at, longest, class);
            let (len, meta) = put(mem, i, at);
            *slot = Buf::new(Desc::new(at, len, flags).with_meta(meta), region);
        }
        burst.added(n);
        let sent = self.transmit(burst, Some(class), pace);
        self.ring_ahead = RingAhead { sent, prefetched: 0 };
        Some(sent)
    }

    /// `tx_small` when the magazine has too few buffers, and with the host-managed pool.
    #[cold]
    #[inline(never)]
    fn tx_small_slowly<'a>(
        &mut self,
        longest: u16,
        room: usize,
        packets: impl Iterator<Item = (&'a [u8], u64)>,
        burst: &mut Burst,
        pace: Pace,
    ) -> usize {
        self.alloc(longest.min(layout::SMALL_BUF as u16), room, burst);
        for (buf, (packet, meta)) in burst.iter_mut().zip(packets) {
            if buf.set_len(packet.len() as u16).is_ok() {
                self.mem.write(buf.desc().offset(), packet);
            }
            buf.set_meta(meta);
        }
        let sent = self.transmit(burst, None, pace);
        self.free(burst);
        sent
    }

    /// Receives up to `max` small packets: calls `read` with the index from 0, the data and the metadata of
    /// each, and frees its buffer. Returns their number. Stops before a packet that is not small;
    /// [`rx_burst`](QueuePair::rx_burst) receives that.
    ///
    /// # Errors
    /// [`NotSmall`] when the next packet is not small.
    ///
    /// ```
    /// # use ccnic::{host::NotSmall, testing::{Sides, config}, ring::GroupedEpoch};
    /// # let mut sides = Sides::<GroupedEpoch>::new(&config::<GroupedEpoch>());
    /// # sides.send(64, 3, 7);
    /// # sides.poll();
    /// let (pair, mut bytes) = (&mut sides.host, 0);
    /// assert_eq!(pair.rx_small(32, |_, packet, _| bytes += packet.len()), Ok(3)); // three packets of 64 bytes have come
    /// assert_eq!(bytes, 192);
    /// # sides.send(1500, 1, 7);
    /// # sides.poll();
    /// # let pair = &mut sides.host;
    /// assert_eq!(pair.rx_small(32, |_, _, _| ()), Err(NotSmall)); // one of 1500 bytes has come
    /// ```
    #[inline(always)]
    pub fn rx_small(&mut self, max: usize, read: impl FnMut(usize, &[u8], u64)) -> Result<usize, NotSmall> {
        self.lend(max, layout::SMALL_BUF, read).ok_or(NotSmall)
    }

    /// As [`rx_small`](QueuePair::rx_small), for packets of any length that lie in one buffer or inline: lends each to `read` where it
    /// lies. Stops before a packet of several segments.
    ///
    /// # Errors
    /// [`Segmented`] when the next packet has several segments: [`rx_burst`](QueuePair::rx_burst) receives it.
    ///
    /// ```
    /// # use ccnic::{host::Segmented, testing::{Sides, config}, ring::GroupedEpoch};
    /// # let mut sides = Sides::<GroupedEpoch>::new(&config::<GroupedEpoch>());
    /// # sides.send(1500, 3, 7);
    /// # sides.poll();
    /// let (pair, mut bytes) = (&mut sides.host, 0);
    /// assert_eq!(pair.rx_lend(32, |_, packet, _| bytes += packet.len()), Ok(3)); // three packets of 1500 bytes have come
    /// assert_eq!(bytes, 4500);
    /// # sides.send(9000, 3, 7);
    /// # sides.poll();
    /// # let pair = &mut sides.host;
    /// assert_eq!(pair.rx_lend(32, |_, _, _| ()), Err(Segmented)); // one of several segments has come
    /// ```
    #[inline(always)]
    pub fn rx_lend(&mut self, max: usize, read: impl FnMut(usize, &[u8], u64)) -> Result<usize, Segmented> {
        self.lend(max, u32::from(u16::MAX), read).ok_or(Segmented)
    }

    /// Lends packets of one segment and at most `longest` bytes. `None` when the next one is another.
    #[inline(always)]
    fn lend(&mut self, max: usize, longest: u32, mut read: impl FnMut(usize, &[u8], u64)) -> Option<usize> {
        if !self.rx_poll() {
            return Some(0);
        }
        self.prefetch_ring();
        let mut done = 0;
        while done < max {
            let want = (max - done).min(PIECE);
            let got = self.rx.lend(
                &self.mem,
                &mut self.pool,
                (want, longest),
                #[inline(always)]
                |i, bytes, meta| read(done + i, bytes, meta),
            );
            if self.managed.is_some() {
                self.manage();
            }
            match got {
                Some(n) => done += n,
                None if done == 0 => return None,
                None => break,
            }
            if got != Some(want) {
                break;
            }
        }
        if done >= PIECE {
            self.rx.take_ahead(&self.mem, &mut self.pool);
        } else {
            self.rx.prefetch(&self.mem);
        }
        Some(done)
    }

    /// Prefetches the lines of the transmit ring that the next burst will write. Only if the NIC has a
    /// backlog: an idle NIC polls the first of these lines, and would take it back.
    #[inline(always)]
    fn prefetch_ring(&mut self) {
        let RingAhead { sent, prefetched } = &mut self.ring_ahead;
        if *prefetched < *sent && self.rx.backlog() {
            self.tx.prefetch(&self.mem, *sent);
            *prefetched = *sent;
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::ring::{Doorbell, GroupedEpoch};
    use crate::testing::{Sides, config, rounds};
    use std::vec::Vec;

    fn round_trip<R: Ring>() {
        let mut sides = Sides::<R>::new(&config::<R>());
        let data: Vec<u8> = (0..128).collect();
        let mut burst = Burst::new();
        for n in 1..=rounds(40, 6) {
            let packets: Vec<_> = (0..n).map(|i| (&data[..1 + i * 3], i as u64)).collect();
            assert_eq!(sides.host.tx_small(128, packets.iter().copied(), &mut burst), n, "{:?}", R::DESIGN);
            assert!(burst.is_empty());
            let mut back = Vec::new();
            for _ in 0..99 {
                sides.poll();
                let read = |_, bytes: &[u8], meta| back.push((bytes.to_vec(), meta));
                if sides.host.rx_small(7, read).is_err() {
                    sides.host.rx_burst(&mut burst, 7);
                    back.extend(
                        burst.as_slice().iter().map(|buf| (sides.host.with(buf, <[u8]>::to_vec), buf.meta())),
                    );
                    sides.host.free(&mut burst);
                }
            }
            assert!(back.iter().map(|(bytes, meta)| (bytes.as_slice(), *meta)).eq(packets));
        }
    }

    #[test]
    fn small_packets_come_back_with_data_and_metadata() {
        round_trip::<GroupedEpoch>();
        round_trip::<Doorbell>(); // host-managed: what is received is large
    }

    #[test]
    fn a_large_packet_stops_the_burst_and_is_an_error_when_it_is_next() {
        let mut sides = Sides::<GroupedEpoch>::new(&config::<GroupedEpoch>());
        for len in [64, 500] {
            assert_eq!((sides.send(len, 2, 1), sides.poll()), (2, 2));
        }
        assert_eq!(sides.host.rx_small(9, |_, _, _| ()), Ok(2));
        assert_eq!(sides.host.rx_small(9, |_, _, _| ()), Err(NotSmall));
        assert_eq!(sides.receive(9, |len, _| assert_eq!(len, 500)), 2);
        assert_eq!(sides.host.rx_small(9, |_, _, _| ()), Ok(0));
    }
}
