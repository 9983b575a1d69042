//! `struct ccnic_queue`: a queue pair, a burst to work in, counters. Safe code: `bursts.rs` makes slices of pointers.

use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use ccnic::host::Reserved;
use ccnic::layout::{LARGE_BUF, SMALL_BUF};
use ccnic::{Burst, Desc};
use ccnic_client::QueuePair;
use rustix::io::Errno;

use super::packets::{length_bound, whole_packets};
use super::parked::{Parked, RECEIVE};
use crate::abi::{ADOPT, CcnicBuf, CcnicStats, CcnicView, hand_out};
use crate::errno::{BAD_BUFFER, Failure, TOO_FEW_ENTRIES, TOO_LONG};
use crate::handle::handles;
use crate::held::{Fate, Held};

pub(super) const TX_NOT_SMALL: Failure = Failure::new(
    Errno::MSGSIZE,
    c"a packet is longer than CCNIC_SMALL_SIZE or the MTU: use ccnic_tx_burst()",
);
const RX_NOT_SMALL: Failure =
    Failure::new(Errno::MSGSIZE, c"the next packet is not a small one: use ccnic_rx_burst()");
pub(super) const NO_BYTES: Failure = Failure::new(Errno::INVAL, c"a packet has no bytes");
pub(super) const NO_BUFFER: Failure =
    Failure::new(Errno::NOBUFS, c"the pool is empty: receive or free some buffers");

/// `struct ccnic_queue`. One thread uses it at a time; its memory stays until the attachment is closed.
#[derive(Debug)]
#[repr(C)]
pub struct CcnicQueue {
    /// First: the inline functions of `ccnic.h` read it here.
    pub(super) view: CcnicView,
    pub(super) mtu: u16,
    pub(crate) pair: QueuePair,
    pub(super) burst: Burst,
    pub(super) reserved: Reserved,
    pub(super) stats: CcnicStats,
    parked: Parked,
    /// In the debug mode.
    pub(super) held: Option<Arc<Held>>,
}

handles!(CcnicQueue);

impl CcnicQueue {
    pub(crate) fn new(view: CcnicView, mtu: u16, pair: QueuePair, held: Option<Arc<Held>>) -> CcnicQueue {
        CcnicQueue {
            view,
            mtu,
            pair,
            burst: Burst::new(),
            reserved: Reserved::default(),
            stats: CcnicStats::default(),
            parked: Parked::new(),
            held,
        }
    }

    /// Frees the parked packets, what is reserved and the buffers of the magazine. The queue can be opened again.
    pub(crate) fn close(&mut self) {
        let bufs = self.parked.bufs().iter().map(|buf| Desc::from(*buf));
        self.pair.free_descs(bufs, &mut self.burst, ADOPT);
        self.parked.clear();
        self.cancel();
        self.pair.disarm();
        self.pair.retire();
    }

    /// Allocates as many whole packets of `len` bytes as `out` has entries for; returns the number of buffers.
    #[inline(always)]
    pub(crate) fn alloc(&mut self, len: u16, out: &mut [MaybeUninit<CcnicBuf>]) -> Result<usize, Failure> {
        let n = self.alloc_out(len, out)?;
        if let Some(held) = &self.held {
            held.take_written(out, n);
        }
        Ok(n)
    }

    #[inline(always)]
    fn alloc_out(&mut self, len: u16, out: &mut [MaybeUninit<CcnicBuf>]) -> Result<usize, Failure> {
        if len > self.mtu {
            return Err(TOO_LONG);
        }
        if u32::from(len) > LARGE_BUF {
            return self.alloc_chains(len, out);
        }
        let (want, mut done) = (out.len(), 0);
        for out in out.chunks_mut(Burst::CAPACITY) {
            let got = self.pair.alloc(len, out.len(), &mut self.burst);
            done += hand_out(&mut self.burst, out);
            if got < out.len() {
                self.stats.alloc_failed += (want - done) as u64;
                break;
            }
        }
        Ok(done)
    }

    #[cold]
    #[inline(never)]
    fn alloc_chains(&mut self, len: u16, out: &mut [MaybeUninit<CcnicBuf>]) -> Result<usize, Failure> {
        let segments = u32::from(len).div_ceil(LARGE_BUF) as usize;
        if (1..segments).contains(&out.len()) {
            return Err(TOO_FEW_ENTRIES);
        }
        let (want, mut done) = (out.len() / segments * segments, 0);
        for out in out.chunks_exact_mut(segments) {
            if self.pair.alloc(len, segments, &mut self.burst) == 0 {
                self.stats.alloc_failed += (want - done) as u64;
                break;
            }
            done += hand_out(&mut self.burst, out);
        }
        Ok(done)
    }

    /// Frees all buffers. Handles that name no buffer are skipped; they are an error.
    #[inline(always)]
    pub(crate) fn free(&mut self, mut bufs: &[CcnicBuf]) -> Result<usize, Failure> {
        if let Some(held) = &self.held {
            held.give("ccnic_buf_free", Fate::Freed, bufs)?;
        }
        let mut bad = 0;
        while !bufs.is_empty() {
            let n = self.pair.free_descs(bufs.iter().map(|buf| Desc::from(*buf)), &mut self.burst, ADOPT);
            // A bad handle ends the burst before it, so it is the first one of the next burst.
            let skip = usize::from(n == 0);
            bad += skip as u64;
            bufs = bufs.get(n + skip..).unwrap_or_default();
        }
        if bad > 0 {
            self.stats.free_bad_buffer += bad;
            return Err(BAD_BUFFER);
        }
        Ok(0)
    }

    /// Sends as many whole packets as the ring has room for; returns the number of their buffers. A packet that can never be
    /// sent ends the burst; if it is the first one, it is an error.
    #[inline(always)]
    pub(crate) fn transmit(&mut self, bufs: &[CcnicBuf]) -> Result<usize, Failure> {
        if let Some(held) = &self.held {
            held.give("ccnic_tx_burst", Fate::Sent, bufs)?;
        }
        let sent = self.transmit_given(bufs);
        if let Some(held) = &self.held {
            held.take_back(bufs, &sent);
        }
        sent
    }

    #[inline(always)]
    fn transmit_given(&mut self, bufs: &[CcnicBuf]) -> Result<usize, Failure> {
        let mut done = 0;
        while let Some(rest) = bufs.get(done..).filter(|rest| !rest.is_empty()) {
            let last = rest.len() <= Burst::CAPACITY;
            let rest = rest.get(..Burst::CAPACITY).unwrap_or(rest);
            let (mut whole, mut why) = (rest.len(), None);
            let (mut longest, mut chains) = (0, false);
            for buf in rest {
                longest = buf.len().max(longest);
                chains |= buf.more();
            }
            if chains || longest > self.mtu {
                (whole, why) = whole_packets(rest, self.mtu, last);
            }
            let descs = rest.iter().take(whole).map(|buf| Desc::from(*buf));
            let (adopted, sent) = self.pair.tx_descs(descs, &mut self.burst, ADOPT);
            let (mut bytes, mut ends) = (0, 0);
            for buf in rest.iter().take(sent) {
                bytes += u64::from(buf.len());
                ends += u64::from(!buf.more());
            }
            self.stats.tx_bytes += bytes;
            self.stats.tx_packets += ends;
            done += sent;
            if sent < whole || why.is_some() {
                let adopted = rest.get(..adopted).unwrap_or_default();
                return self.stopped(bufs.len(), done, sent, adopted, (whole, why));
            }
        }
        Ok(done)
    }

    /// Why a transmit burst of `all` buffers stopped after `done` of them, `sent` of the last `whole`. It is an error only if nothing has
    /// been sent; otherwise the next burst begins with the packet in question and reports it.
    #[cold]
    #[inline(never)]
    fn stopped(
        &mut self,
        all: usize,
        done: usize,
        sent: usize,
        adopted: &[CcnicBuf],
        (whole, why): (usize, Option<Failure>),
    ) -> Result<usize, Failure> {
        let good = adopted.iter().rposition(|buf| !buf.more()).map_or(0, |i| i + 1);
        if sent < good {
            // What lies behind a packet that can never be sent does not wait for room.
            let waits = if good == whole && why.is_none() { all - done } else { good - sent };
            self.stats.tx_ring_full += waits as u64;
            return Ok(done);
        }
        let (counter, failure) = match why {
            _ if good < whole => (&mut self.stats.tx_bad_buffer, BAD_BUFFER),
            Some(failure) => (&mut self.stats.tx_bad_packet, failure),
            None => return Ok(done),
        };
        if done > 0 {
            return Ok(done);
        }
        *counter += 1;
        Err(failure)
    }

    /// Receives as many whole packets as there are and as `out` has entries for; returns the number of their buffers. A first
    /// packet that has more buffers than `out` has entries is dropped, so that it does not block the queue.
    #[inline(always)]
    pub(crate) fn receive(&mut self, out: &mut [MaybeUninit<CcnicBuf>]) -> Result<usize, Failure> {
        let n = self.receive_out(out);
        if let Some(held) = &self.held {
            held.take_written(out, n);
        }
        Ok(n)
    }

    #[inline(always)]
    fn receive_out(&mut self, out: &mut [MaybeUninit<CcnicBuf>]) -> usize {
        if !self.parked.is_empty() {
            return self.unpark(out);
        }
        let mut done = 0;
        for out in out.chunks_mut(RECEIVE) {
            let got = self.pair.rx_burst(&mut self.burst, out.len());
            if got > out.len() {
                // One packet of more buffers than are left of `out`.
                self.parked.fill(&mut self.burst);
                return if done > 0 { done } else { self.unpark(out) };
            }
            let (mut bytes, mut ends) = (0u64, 0u64);
            for buf in self.burst.as_slice() {
                bytes += u64::from(buf.len());
                ends += u64::from(!buf.more());
            }
            self.stats.rx_bytes += bytes;
            self.stats.rx_packets += ends;
            done += hand_out(&mut self.burst, out);
            if got < out.len() {
                break;
            }
        }
        done
    }

    /// The longest packet that takes one small buffer.
    #[inline(always)]
    pub(super) fn small(&self) -> u16 {
        self.mtu.min(SMALL_BUF as u16)
    }

    /// Sends copies of small packets, as many as the ring has room for; returns their number. `packet` makes a slice of an
    /// address and a length. A packet that is not small ends the burst; if it is the first one, it is an error.
    #[inline(always)]
    pub(crate) fn transmit_small<'a>(
        &mut self,
        addresses: &[*const u8],
        lens: &[u16],
        packet: impl Fn(*const u8, u16) -> &'a [u8],
    ) -> Result<usize, Failure> {
        let mut done = 0;
        while let Some(rest) = lens.get(done..).filter(|rest| !rest.is_empty()) {
            let all = rest.get(..Burst::CAPACITY).unwrap_or(rest);
            let (mut chunk, mut longest) = (all, length_bound(all));
            if longest > self.small() {
                chunk = self.first_small(all, done)?;
                longest = length_bound(chunk);
            }
            let addresses = addresses.get(done..).unwrap_or_default();
            let packets = addresses.iter().zip(chunk).map(|(&at, &len)| (packet(at, len), 0));
            let sent = self.pair.tx_small(longest, packets, &mut self.burst);
            let bytes = chunk.iter().take(sent).map(|&len| u64::from(len)).sum::<u64>();
            self.stats.tx_bytes += bytes;
            self.stats.tx_packets += sent as u64;
            done += sent;
            if sent < chunk.len() {
                // Behind a packet that is not small none waits for room.
                let waits = if chunk.len() == all.len() { lens.len() - done } else { chunk.len() - sent };
                let none = self.why_none(longest, waits);
                return if done == 0 { none } else { Ok(done) };
            }
            if chunk.len() < all.len() {
                return Ok(done);
            }
        }
        Ok(done)
    }

    /// No packet was sent, or none has a place: because the ring is full (no error) or because the pool is empty.
    #[cold]
    #[inline(never)]
    pub(super) fn why_none(&mut self, longest: u16, packets: usize) -> Result<usize, Failure> {
        if self.ring_is_full(longest) {
            self.stats.tx_ring_full += packets as u64;
            return Ok(0);
        }
        self.stats.alloc_failed += packets as u64;
        Err(NO_BUFFER)
    }

    /// True if a copy of this many bytes was not sent because the ring was full; otherwise the pool was empty.
    pub(super) fn ring_is_full(&mut self, len: u16) -> bool {
        // The ring may have room again by now; then the pool tells.
        let full = !self.pair.takes_buffers(len)
            || self.pair.tx_room() == 0
            || self.pair.alloc(len, 1, &mut self.burst) > 0;
        self.pair.free(&mut self.burst);
        full
    }

    /// The packets before the first that is not small. It is an error if there are none and none has been sent before (`done`).
    #[cold]
    #[inline(never)]
    fn first_small<'a>(&mut self, lens: &'a [u16], done: usize) -> Result<&'a [u16], Failure> {
        let n = lens.iter().position(|len| !(1..=self.small()).contains(len)).unwrap_or(lens.len());
        if n + done > 0 {
            return Ok(lens.get(..n).unwrap_or_default());
        }
        self.stats.tx_bad_packet += 1;
        Err(if lens.first() == Some(&0) { NO_BYTES } else { TX_NOT_SMALL })
    }

    /// Receives at most `max` small packets, calls `read` with each and frees its buffer; returns their number. It is an error if
    /// the next packet is not small.
    #[inline(always)]
    pub(crate) fn receive_small(
        &mut self,
        max: usize,
        mut read: impl FnMut(usize, &[u8], u64),
    ) -> Result<usize, Failure> {
        let mut total = 0;
        let n = if self.parked.is_empty() {
            self.pair.rx_small(
                max,
                #[inline(always)]
                |i, bytes, meta| {
                    total += bytes.len() as u64;
                    read(i, bytes, meta);
                },
            )
        } else {
            self.receive_parked(max, |i, bytes, meta| {
                total += bytes.len() as u64;
                read(i, bytes, meta);
            })
        };
        let n = n.map_err(|_| RX_NOT_SMALL)?;
        self.stats.rx_bytes += total;
        self.stats.rx_packets += n as u64;
        Ok(n)
    }

    /// `receive_small` of packets that are parked.
    #[cold]
    #[inline(never)]
    fn receive_parked(
        &mut self,
        max: usize,
        read: impl FnMut(usize, &[u8], u64),
    ) -> Result<usize, ccnic::host::NotSmall> {
        let n = self.parked.small_packets(max);
        let bufs = self.parked.bufs().iter().take(n);
        self.pair.read_descs(bufs.map(|buf| Desc::from(*buf)), &mut self.burst, ADOPT, read);
        self.parked.remove(n);
        if n > 0 || max == 0 { Ok(n) } else { Err(ccnic::host::NotSmall) }
    }

    /// Returns whole packets of those that are parked; drops those that have more buffers than `out` has entries.
    #[cold]
    #[inline(never)]
    fn unpark(&mut self, out: &mut [MaybeUninit<CcnicBuf>]) -> usize {
        while !out.is_empty() && self.parked.first_packet().len() > out.len() {
            let bufs = self.parked.first_packet();
            let n = bufs.len();
            self.pair.free_descs(bufs.iter().map(|buf| Desc::from(*buf)), &mut self.burst, ADOPT);
            self.parked.remove(n);
            self.stats.rx_too_few_entries += 1;
        }
        let bufs = self.parked.copy_packets(out);
        for buf in bufs {
            self.stats.rx_bytes += u64::from(buf.len());
            self.stats.rx_packets += u64::from(!buf.more());
        }
        let n = bufs.len();
        self.parked.remove(n);
        n
    }

    /// Parks a burst of received packets unless some are parked; returns the number of parked buffers.
    pub(crate) fn park(&mut self) -> usize {
        if self.parked.is_empty() {
            self.pair.rx_burst(&mut self.burst, RECEIVE);
            self.parked.fill(&mut self.burst);
        }
        self.parked.bufs().len()
    }

    /// The descriptor that becomes readable when the NIC notifies this queue.
    pub(crate) fn rx_fd(&self) -> Result<i32, Failure> {
        Ok(self.pair.fd()?.as_raw_fd())
    }

    /// Requests a notification, unless buffers can be received now: then returns how many.
    pub(crate) fn arm(&mut self) -> Result<usize, Failure> {
        if self.parked.is_empty() && self.pair.arm()? {
            return Ok(0);
        }
        // At least one: a packet may have come after `arm` saw it and before it is counted here.
        Ok(self.rx_ready().max(1))
    }

    /// Withdraws the request.
    pub(crate) fn disarm(&mut self) {
        self.pair.disarm();
    }

    /// Makes the descriptor readable, as the NIC does.
    pub(crate) fn notify(&self) -> Result<(), Failure> {
        Ok(self.pair.waiter().wake()?)
    }

    /// Buffers that can be received now.
    pub(crate) fn rx_ready(&self) -> usize {
        self.parked.bufs().len() + self.pair.rx_ready()
    }

    /// The address of the word that the NIC writes with the next packet, and what it holds; `None` when buffers can be received now.
    pub(crate) fn monitor(&self) -> Option<(*const u64, u64)> {
        let watched = self.pair.rx_watch().filter(|_| self.parked.is_empty());
        watched.map(|(at, value)| (self.view.base.wrapping_add(at as usize).cast_const().cast(), value))
    }

    /// Buffers sent that the NIC has not taken yet.
    pub(crate) fn tx_waiting(&self) -> usize {
        self.pair.tx_waiting()
    }

    pub(crate) fn stats(&self) -> CcnicStats {
        let drops = self.pair.drops();
        CcnicStats {
            rx_bad_descriptor: drops.bad_descriptor,
            rx_bad_chain: drops.bad_chain,
            rx_dropped: drops.rx_dropped,
            rx_too_long: drops.too_long,
            rx_no_buffer: drops.no_buffer,
            ..self.stats
        }
    }
}

#[cfg(test)]
mod tests;
