//! `struct ccnic_nic_queue`: the NIC's side of a queue pair, packets that were fetched and not received yet, counters.
//! `exports.rs` makes slices of pointers.

use std::mem::MaybeUninit;

use ccnic::layout::LARGE_BUF;
use ccnic::nic::{BadPacket, FETCH, Fetched};
use ccnic::rss::START;
use ccnic::{Config, Desc};
use ccnic_control::Notifier;
use rustix::io::Errno;

use super::abi::{CcnicNicStats, CcnicSegment, SEGMENT_MORE};
use super::pair::NicPair;
use super::shared::{QueueLink, Steering};
use super::sleep::Sleep;
use crate::abi::{CcnicBuf, CcnicView};
use crate::errno::{BAD_BUFFER, CLOSED, Failure, NO_END, TOO_FEW_ENTRIES, TOO_LONG};
use crate::handle::{OpenState, Reopen};

/// The most segments of a packet in the NIC's own memory: `CCNIC_SEGMENTS_MAX`.
const PARTS: usize = 64;

const NOT_SHARED: Failure = Failure::new(
    Errno::OPNOTSUPP,
    c"this program manages its buffers itself (CCNIC_HOST_MANAGED, e810): only ccnic_nic_tx_copy reaches it",
);
const NOT_ONE_ROOM: Failure = Failure::new(
    Errno::MSGSIZE,
    c"the next packet is longer than a room, or a chain: use ccnic_nic_rx_burst()",
);
const EMPTY: Failure = Failure::new(Errno::INVAL, c"a packet has no bytes, or a segment without data");

/// `struct ccnic_nic_queue`. One thread uses it at a time; its memory stays until the program is released.
#[derive(Debug)]
#[repr(C)]
pub struct CcnicNicQueue {
    /// First: the inline functions of `ccnic_nic.h` read it here.
    view: CcnicView,
    state: OpenState,
    mtu: u16,
    shared_pool: bool,
    pair: NicPair,
    fetched: Fetched,
    stats: CcnicNicStats,
    link: QueueLink,
    notifier: Option<Notifier>,
    steering: Steering,
    sleep: Sleep,
}

impl Reopen for CcnicNicQueue {
    fn state(&mut self) -> &mut OpenState {
        &mut self.state
    }
}

impl CcnicNicQueue {
    pub(crate) fn new(view: CcnicView, config: &Config, pair: NicPair, link: QueueLink) -> CcnicNicQueue {
        CcnicNicQueue {
            view,
            state: OpenState::new(),
            mtu: config.mtu,
            shared_pool: config.shared_pool,
            pair,
            fetched: Fetched::default(),
            stats: CcnicNicStats::default(),
            link,
            notifier: None,
            steering: None,
            sleep: Sleep::default(),
        }
    }

    #[inline(always)]
    fn check_open(&self) -> Result<(), Failure> {
        if self.state.is_open() { Ok(()) } else { Err(CLOSED) }
    }

    /// Ends a burst: publishes the counters, and notifies the program if it waits for a notification.
    #[inline(always)]
    fn finish(&mut self) {
        self.link.published.set(&self.pair.counters());
        if let Some(notifier) = &mut self.notifier {
            self.pair.notify_if_armed(notifier);
        } else if self.link.notifier.is_full() {
            self.notifier = self.link.notifier.take();
        }
    }

    #[inline(always)]
    fn check_shared(&self) -> Result<(), Failure> {
        self.check_open()?;
        if self.shared_pool { Ok(()) } else { Err(NOT_SHARED) }
    }

    /// Drops packets that were fetched and not received, and frees the buffers of the NIC's magazine.
    pub(crate) fn close(&mut self) -> Result<(), Failure> {
        self.check_open()?;
        let rest = self.fetched.rest();
        self.stats.rx_dropped_close += rest.iter().filter(|desc| !desc.more()).count() as u64;
        for packet in rest.split(|desc| desc.inline()) {
            self.pair.free(packet);
        }
        self.fetched = Fetched::default();
        self.pair.disarm();
        self.pair.retire();
        self.link.published.set(&self.pair.counters());
        self.state.set(false);
        Ok(())
    }

    /// Receives as many whole packets of the program as there are and as `out` has entries for; returns the number of buffers.
    #[inline(always)]
    pub(crate) fn receive(&mut self, out: &mut [MaybeUninit<CcnicBuf>]) -> Result<usize, Failure> {
        self.check_open()?;
        let mut done = 0;
        loop {
            let full = self.fetched.is_full();
            if self.fetched.is_empty() && (done > 0 && !full || self.pair.fetch(&mut self.fetched) == 0) {
                break;
            }
            let ready = self.pair.copy_to_pool(&mut self.fetched);
            let rest = self.fetched.rest();
            let Some(free) = out.get_mut(done..) else { break };
            let most = free.len().min(ready);
            let n = rest.iter().take(most).rposition(|desc| !desc.more()).map_or(0, |i| i + 1);
            for (to, desc) in free.iter_mut().zip(rest.iter().take(n)) {
                to.write((*desc).into());
            }
            self.fetched.advance(n);
            done += n;
            if n == 0 || done == out.len() {
                break;
            }
        }
        self.finish();
        Ok(done)
    }

    /// Sends packets in the program's own buffers, as many whole ones as the ring has room for. A packet that can never be sent
    /// ends the burst; if it is the first one, it is an error.
    #[inline(always)]
    pub(crate) fn transmit(&mut self, bufs: &[CcnicBuf]) -> Result<usize, Failure> {
        self.check_shared()?;
        let mut done = 0;
        let mut bad = None;
        while let Some(rest) = bufs.get(done..).filter(|rest| !rest.is_empty()) {
            let mut descs = [Desc::default(); FETCH];
            let mut n = 0;
            for (to, buf) in descs.iter_mut().zip(rest) {
                *to = Desc::from(*buf);
                n += 1;
            }
            let (sent, whole, why) = self.pair.reflect(descs.get(..n).unwrap_or_default());
            done += sent;
            // `descs` may end within a packet, which then comes whole in the next round.
            let cut = why == Some(BadPacket::NoEnd) && whole > 0 && n < rest.len();
            if sent < whole || why.is_some() && !cut {
                bad = why.filter(|_| sent == whole);
                break;
            }
        }
        self.pair.flush();
        self.finish();
        match bad {
            Some(why) if done == 0 => Err(self.cannot_go(why)),
            _ => Ok(done),
        }
    }

    #[cold]
    fn cannot_go(&mut self, why: BadPacket) -> Failure {
        let (counter, failure) = match why {
            BadPacket::NoBuffer => (&mut self.stats.tx_bad_buffer, BAD_BUFFER),
            BadPacket::TooLong => (&mut self.stats.tx_bad_packet, TOO_LONG),
            BadPacket::NoEnd => (&mut self.stats.tx_bad_packet, NO_END),
        };
        *counter += 1;
        failure
    }

    /// Receives at most `max` packets of one buffer and at most `longest` bytes as copies; returns their number. `room` says where to
    /// copy each. It is an error if the next packet is longer or a chain.
    #[inline(always)]
    pub(crate) fn receive_copies<'a>(
        &mut self,
        max: usize,
        longest: u16,
        room: impl FnMut(usize, Desc) -> &'a mut [u8],
    ) -> Result<usize, Failure> {
        self.check_open()?;
        let n = self.pair.receive_copies(&mut self.fetched, max, longest, room);
        self.finish();
        if n == 0 && max > 0 && !self.fetched.is_empty() { Err(NOT_ONE_ROOM) } else { Ok(n) }
    }

    /// Copies as many whole packets to the program as there is room for; returns the number of their segments.
    ///
    /// # Safety
    /// Each segment's `data` points to `len` readable bytes.
    #[inline(always)]
    pub(crate) unsafe fn copy(&mut self, segments: &[CcnicSegment]) -> Result<usize, Failure> {
        self.check_open()?;
        let (mut done, mut bad) = (0, None);
        while let Some(rest) = segments.get(done..).filter(|rest| !rest.is_empty()) {
            let want = self.singles(rest.get(..FETCH).unwrap_or(rest));
            let singles = rest.get(..want).unwrap_or_default();
            // SAFETY: guaranteed by the caller.
            match unsafe { if want > 0 { Ok(self.copy_singles(singles)) } else { self.copy_packet(rest) } } {
                Ok(n) => {
                    done += n;
                    if n == 0 || n < want {
                        break;
                    }
                }
                Err(failure) => {
                    bad = Some(failure);
                    break;
                }
            }
        }
        self.pair.flush();
        self.finish();
        match bad {
            Some(failure) if done == 0 => {
                self.stats.tx_bad_packet += 1;
                Err(failure)
            }
            _ => Ok(done),
        }
    }

    /// How many of the first segments are a packet each, not empty and within the MTU.
    #[inline(always)]
    fn singles(&self, segments: &[CcnicSegment]) -> usize {
        let mtu = u32::from(self.mtu);
        let bad = |s: &CcnicSegment| {
            (s.flags & SEGMENT_MORE != 0) | (s.len.wrapping_sub(1) >= mtu) | s.data.is_null()
        };
        // Usually there is none: no early exit.
        if segments.iter().fold(false, |any, segment| any | bad(segment)) {
            return segments.iter().position(bad).unwrap_or(segments.len());
        }
        segments.len()
    }

    /// Copies packets of one segment, at most [`FETCH`]; returns how many there was room for.
    ///
    /// # Safety
    /// As [`copy`](CcnicNicQueue::copy); no `data` is null.
    #[inline(always)]
    unsafe fn copy_singles(&mut self, segments: &[CcnicSegment]) -> usize {
        let (mut shortest, mut longest) = (u32::MAX, 0);
        for segment in segments {
            shortest = segment.len.min(shortest);
            longest = segment.len.max(longest);
        }
        let packets = segments.iter().map(
            #[inline(always)]
            |segment| {
                // SAFETY: not null; the caller guarantees readable bytes.
                let bytes =
                    unsafe { std::slice::from_raw_parts(segment.data.cast::<u8>(), segment.len as usize) };
                (bytes, segment.meta)
            },
        );
        self.pair.deliver_slices(shortest, longest, packets)
    }

    /// Copies the first packet; returns the number of its segments, 0 when there is no room for it.
    ///
    /// # Safety
    /// As [`copy`](CcnicNicQueue::copy).
    #[inline(never)]
    unsafe fn copy_packet(&mut self, segments: &[CcnicSegment]) -> Result<usize, Failure> {
        let mut parts: [&[u8]; PARTS] = [&[]; PARTS];
        // SAFETY: guaranteed by the caller.
        let n = unsafe { self.gather(segments, &mut parts)? };
        let meta = segments.first().map_or(0, |segment| segment.meta);
        let gone = self.pair.deliver_bytes(parts.get(..n).unwrap_or_default(), meta);
        Ok(if gone { n } else { 0 })
    }

    /// Collects the segments of the first packet; returns their number.
    ///
    /// # Safety
    /// As [`copy`](CcnicNicQueue::copy).
    #[cold]
    unsafe fn gather<'a>(
        &self,
        segments: &'a [CcnicSegment],
        parts: &mut [&'a [u8]; PARTS],
    ) -> Result<usize, Failure> {
        let mut total = 0u64;
        for (i, segment) in segments.iter().enumerate() {
            let Some(part) = parts.get_mut(i) else { return Err(TOO_LONG) };
            if segment.data.is_null() && segment.len > 0 {
                return Err(EMPTY);
            }
            total += u64::from(segment.len);
            if total > u64::from(self.mtu) {
                return Err(TOO_LONG);
            }
            if segment.len > 0 {
                // SAFETY: not null; the caller guarantees readable bytes.
                *part = unsafe { std::slice::from_raw_parts(segment.data.cast(), segment.len as usize) };
            }
            if segment.flags & SEGMENT_MORE == 0 {
                return if total == 0 { Err(EMPTY) } else { Ok(i + 1) };
            }
        }
        Err(NO_END)
    }

    /// By the program's RSS: the queue of each packet, of which these are the first segments, and the metadata that it is received with.
    /// False if the program has none.
    ///
    /// # Safety
    /// Each segment's `data` is null, or points to `len` readable bytes.
    #[inline(always)]
    pub(crate) unsafe fn steer(
        &mut self,
        packets: &mut [CcnicSegment],
        to: &mut [u16],
    ) -> Result<bool, Failure> {
        self.check_open()?;
        if self.link.steering.is_full() {
            self.steering = self.link.steering.take().flatten();
        }
        let Some(spreader) = &self.steering else { return Ok(false) };
        for (packet, to) in packets.iter_mut().zip(to) {
            let len = if packet.data.is_null() { 0 } else { START.min(packet.len as usize) };
            let start = if len == 0 {
                &[]
            } else {
                // SAFETY: not null, and readable (guaranteed by the caller).
                unsafe { std::slice::from_raw_parts(packet.data.cast::<u8>(), len) }
            };
            let hash = spreader.hash(start);
            *to = spreader.queue(hash);
            packet.meta = spreader.meta(packet.meta, hash);
        }
        Ok(true)
    }

    /// Counts packets that were for this queue and were dropped because it had no room.
    pub(crate) fn missed(&mut self, packets: u64) -> Result<usize, Failure> {
        self.check_open()?;
        self.pair.count_missed(packets);
        Ok(0)
    }

    /// What becomes readable when the program wakes the NIC.
    pub(crate) fn fd(&mut self) -> Result<i32, Failure> {
        self.check_open()?;
        self.sleep.fd()
    }

    /// Asks the program to wake the NIC with its next packet. True when there is something to do now.
    pub(crate) fn arm(&mut self) -> Result<bool, Failure> {
        self.check_open()?;
        self.finish();
        Ok(!self.fetched.is_empty() || !self.sleep.arm(&mut self.pair, &mut self.notifier)?)
    }

    /// Withdraws the request.
    pub(crate) fn disarm(&mut self) -> Result<(), Failure> {
        self.check_open()?;
        self.pair.disarm();
        Ok(())
    }

    /// Allocates as many whole packets of `len` bytes as `out` has entries for; returns the number of buffers.
    #[inline(always)]
    pub(crate) fn alloc(&mut self, len: u16, out: &mut [MaybeUninit<CcnicBuf>]) -> Result<usize, Failure> {
        self.check_shared()?;
        if len > self.mtu {
            return Err(TOO_LONG);
        }
        let segments = usize::from(len).div_ceil(LARGE_BUF as usize).max(1);
        if (1..segments).contains(&out.len()) {
            return Err(TOO_FEW_ENTRIES);
        }
        let (all, mut done) = (out.len() / segments * segments, 0);
        for out in out.chunks_mut(FETCH / segments * segments) {
            let want = out.len() / segments * segments;
            let mut descs = [Desc::default(); FETCH];
            let got = self.pair.alloc(len, descs.get_mut(..want).unwrap_or_default());
            for (to, desc) in out.iter_mut().zip(descs.iter().take(got)) {
                to.write((*desc).into());
            }
            done += got;
            if got < want {
                self.stats.alloc_failed += (all - done) as u64;
                break;
            }
        }
        Ok(done)
    }

    /// Frees all buffers. Handles that name no buffer are skipped; they are an error.
    #[inline(always)]
    pub(crate) fn free(&mut self, bufs: &[CcnicBuf]) -> Result<usize, Failure> {
        self.check_open()?;
        let mut bad = 0;
        for bufs in bufs.chunks(FETCH) {
            let mut descs = [Desc::default(); FETCH];
            descs.iter_mut().zip(bufs).for_each(|(to, buf)| *to = Desc::from(*buf));
            let mut rest = descs.get(..bufs.len()).unwrap_or_default();
            while !rest.is_empty() {
                let n = self.pair.free(rest);
                let skip = usize::from(n < rest.len());
                bad += skip as u64;
                rest = rest.get(n + skip..).unwrap_or_default();
            }
        }
        if !self.shared_pool {
            self.pair.flush(); // the program reads from the ring which buffers it may reuse
        }
        if bad > 0 {
            self.stats.free_bad_buffer += bad;
            return Err(BAD_BUFFER);
        }
        Ok(0)
    }

    pub(crate) fn stats(&self) -> Result<CcnicNicStats, Failure> {
        self.check_open()?;
        let c = self.pair.counters();
        Ok(CcnicNicStats {
            rx_packets: c.tx_packets,
            rx_bytes: c.tx_bytes,
            tx_packets: c.rx_packets,
            tx_bytes: c.rx_bytes,
            rx_bad_descriptor: c.bad_descriptor,
            rx_bad_chain: c.bad_chain,
            rx_too_long: c.too_long,
            tx_ring_full: c.ring_full,
            tx_no_buffer: c.no_buffer,
            ..self.stats
        })
    }
}

#[cfg(test)]
mod tests;
