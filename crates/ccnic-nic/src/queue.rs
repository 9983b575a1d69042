//! The NIC's side of a queue pair: bursts, packets that were fetched and not received yet, counters.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use ccnic::layout::LARGE_BUF;
use ccnic::nic::{BadPacket, FETCH, Fetched};
use ccnic::rss::Spreader;
use ccnic::{Config, Desc};
use ccnic_control::Notifier;

use crate::attached::Attached;
use crate::error::{BurstError, Error};
use crate::pair::NicPair;
use crate::segment::{SEGMENTS, Segment};
use crate::shared::{QueueLink, Steering};
use crate::sleep::Sleep;
use crate::stats::QueueStats;

/// The NIC's side of a queue pair. Receive and send are named from its point of view: it receives what the program has sent.
///
/// One thread uses it at a time. A program that waits for a notification gets it from a burst on its queue, so a NIC that only sends keeps
/// receiving, too. `n`, `max` and slices bound the work of every call; none waits for the program.
///
/// A descriptor names a buffer of this program. The NIC holds those that it has received or allocated until it frees or sends them.
/// Descriptors are checked whenever they are given back: a wrong one harms at most this program's packets.
///
/// [The crate](crate) has examples.
#[derive(Debug)]
pub struct Queue {
    mtu: u16,
    shared_pool: bool,
    /// Nothing was done since the last [`retire`](Queue::retire).
    retired: bool,
    pair: NicPair,
    fetched: Fetched,
    stats: QueueStats,
    link: QueueLink,
    notifier: Option<Notifier>,
    steering: Steering,
    sleep: Sleep,
    /// Last: the program is released after everything of it has gone.
    _attached: Arc<Attached>,
}

impl Queue {
    pub(crate) fn new(config: &Config, pair: NicPair, link: QueueLink, attached: Arc<Attached>) -> Queue {
        Queue {
            mtu: config.mtu,
            shared_pool: config.shared_pool,
            retired: true,
            pair,
            fetched: Fetched::default(),
            stats: QueueStats::default(),
            link,
            notifier: None,
            steering: None,
            sleep: Sleep::default(),
            _attached: attached,
        }
    }

    /// Ends a burst: publishes the counters, and notifies the program if it waits for a notification.
    #[inline(always)]
    fn finish(&mut self) {
        self.retired = false;
        self.link.published.set(&self.pair.counters());
        if let Some(notifier) = &mut self.notifier {
            self.pair.notify_if_armed(notifier);
        } else if self.link.notifier.is_full() {
            self.notifier = self.link.notifier.take();
        }
    }

    #[inline(always)]
    fn check_shared(&self) -> Result<(), BurstError> {
        if self.shared_pool { Ok(()) } else { Err(BurstError::NotShared) }
    }

    /// Before a pause or the end: drops packets that were fetched and not received, frees the buffers of the NIC's magazine, withdraws
    /// [`arm`](Queue::arm). Packets in the rings stay, and the queue can be used again. [The crate](crate) has an example.
    pub fn retire(&mut self) {
        let rest = self.fetched.rest();
        self.stats.rx_dropped_close += rest.iter().filter(|desc| !desc.more()).count() as u64;
        for packet in rest.split(|desc| desc.inline()) {
            self.pair.free(packet);
        }
        self.fetched = Fetched::default();
        self.pair.disarm();
        self.pair.retire();
        self.link.published.set(&self.pair.counters());
        self.retired = true;
    }

    /// Receives as many whole packets of the program as there are and as `out` has entries for; returns the number of descriptors: of each
    /// packet one, or several of which all but the last [go on](Desc::more). The NIC holds their buffers.
    /// [The crate](crate) has an example.
    #[inline(always)]
    pub fn rx_burst(&mut self, out: &mut [Desc]) -> usize {
        self.rx_burst_with(
            out.len(),
            #[inline(always)]
            |at, descs| write_from(out, at, descs),
        )
    }

    /// As [`rx_burst`](Queue::rx_burst), at most `max` descriptors, which `take` gets in order, each time with the number of those that it
    /// has got before.
    #[inline(always)]
    pub fn rx_burst_with(&mut self, max: usize, mut take: impl FnMut(usize, &[Desc])) -> usize {
        let mut done = 0;
        loop {
            let full = self.fetched.is_full();
            if self.fetched.is_empty() && (done > 0 && !full || self.pair.fetch(&mut self.fetched) == 0) {
                break;
            }
            let ready = self.pair.copy_to_pool(&mut self.fetched);
            let rest = self.fetched.rest();
            let most = (max - done).min(ready);
            let n = rest.iter().take(most).rposition(|desc| !desc.more()).map_or(0, |i| i + 1);
            take(done, rest.get(..n).unwrap_or_default());
            self.fetched.advance(n);
            done += n;
            if n == 0 || done == max {
                break;
            }
        }
        self.finish();
        done
    }

    /// Receives packets of one buffer and at most `longest` bytes into the NIC's own memory, in order, up to the first that is longer or a
    /// chain, and at most `max`; returns their number. `room` is called once for each, with its index and its descriptor, and returns as
    /// many bytes to copy it to. The buffers are free again at once, and the lines of the next packets are prefetched.
    /// [The crate](crate) has an example.
    ///
    /// # Errors
    /// [`BurstError::NotOneRoom`]: [`rx_burst`](Queue::rx_burst) receives the next packet.
    #[inline(always)]
    pub fn rx_copy<'a>(
        &mut self,
        max: usize,
        longest: u16,
        room: impl FnMut(usize, Desc) -> &'a mut [u8],
    ) -> Result<usize, BurstError> {
        let n = self.pair.receive_copies(&mut self.fetched, max, longest, room);
        self.finish();
        if n == 0 && max > 0 && !self.fetched.is_empty() { Err(BurstError::NotOneRoom) } else { Ok(n) }
    }

    /// Sends packets in the program's own buffers, those that the NIC holds, in order and without a copy: as many whole ones as the ring
    /// has room for. Returns the number of descriptors, whose buffers are the program's again; the NIC still holds the others.
    /// [The crate](crate) has an example.
    ///
    /// # Errors
    /// When the first packet can never be sent. Another one that cannot ends the burst before it.
    #[inline(always)]
    pub fn tx_burst<B: Copy>(&mut self, bufs: &[B]) -> Result<usize, BurstError>
    where
        Desc: From<B>,
    {
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
    fn cannot_go(&mut self, why: BadPacket) -> BurstError {
        let (counter, error) = match why {
            BadPacket::NoBuffer => (&mut self.stats.tx_bad_buffer, BurstError::BadBuffer),
            BadPacket::TooLong => (&mut self.stats.tx_bad_packet, BurstError::TooLong),
            BadPacket::NoEnd => (&mut self.stats.tx_bad_packet, BurstError::NoEnd),
        };
        *counter += 1;
        error
    }

    /// Sends copies of packets in the NIC's own memory, in order: as many whole ones as the program has room and buffers for. Returns the
    /// number of their segments. Works with every program; packets of one segment are the fastest. [The crate](crate) has an example.
    ///
    /// # Errors
    /// When the first packet can never be sent. Another one that cannot ends the burst before it.
    #[inline(always)]
    pub fn tx_copy<S: Segment>(&mut self, segments: &[S]) -> Result<usize, BurstError> {
        let (mut done, mut bad) = (0, None);
        while let Some(rest) = segments.get(done..).filter(|rest| !rest.is_empty()) {
            let want = self.singles(rest.get(..FETCH).unwrap_or(rest));
            let singles = rest.get(..want).unwrap_or_default();
            match if want > 0 { Ok(self.copy_singles(singles)) } else { self.copy_packet(rest) } {
                Ok(n) => {
                    done += n;
                    if n == 0 || n < want {
                        break;
                    }
                }
                Err(error) => {
                    bad = Some(error);
                    break;
                }
            }
        }
        self.pair.flush();
        self.finish();
        match bad {
            Some(error) if done == 0 => {
                self.stats.tx_bad_packet += 1;
                Err(error)
            }
            _ => Ok(done),
        }
    }

    /// How many of the first segments are a packet each, not empty and within the MTU.
    #[inline(always)]
    fn singles<S: Segment>(&self, segments: &[S]) -> usize {
        let mtu = usize::from(self.mtu);
        let bad = |segment: &S| {
            segment.more() | segment.bytes().is_none_or(|bytes| bytes.len().wrapping_sub(1) >= mtu)
        };
        // Usually there is none: no early exit.
        if segments.iter().fold(false, |any, segment| any | bad(segment)) {
            return segments.iter().position(bad).unwrap_or(segments.len());
        }
        segments.len()
    }

    /// Copies packets of one segment, at most [`FETCH`]; returns how many there was room for.
    #[inline(always)]
    fn copy_singles<S: Segment>(&mut self, segments: &[S]) -> usize {
        let (mut shortest, mut longest) = (u32::MAX, 0);
        for segment in segments {
            let len = segment.bytes().unwrap_or_default().len() as u32;
            shortest = len.min(shortest);
            longest = len.max(longest);
        }
        let packets = segments.iter().map(
            #[inline(always)]
            |segment| (segment.bytes().unwrap_or_default(), segment.meta()),
        );
        self.pair.deliver_slices(shortest, longest, packets)
    }

    /// Copies the first packet; returns the number of its segments, 0 when there is no room for it.
    #[inline(never)]
    fn copy_packet<S: Segment>(&mut self, segments: &[S]) -> Result<usize, BurstError> {
        let mut parts: [&[u8]; SEGMENTS] = [&[]; SEGMENTS];
        let n = self.gather(segments, &mut parts)?;
        let meta = segments.first().map_or(0, Segment::meta);
        let gone = self.pair.deliver_bytes(parts.get(..n).unwrap_or_default(), meta);
        Ok(if gone { n } else { 0 })
    }

    /// Collects the segments of the first packet; returns their number.
    #[cold]
    fn gather<'a, S: Segment>(
        &self,
        segments: &'a [S],
        parts: &mut [&'a [u8]; SEGMENTS],
    ) -> Result<usize, BurstError> {
        let mut total = 0;
        for (i, segment) in segments.iter().enumerate() {
            let part = parts.get_mut(i).ok_or(BurstError::TooLong)?;
            let bytes = segment.bytes().ok_or(BurstError::Empty)?;
            total += bytes.len();
            if total > usize::from(self.mtu) {
                return Err(BurstError::TooLong);
            }
            *part = bytes;
            if !segment.more() {
                return if total == 0 { Err(BurstError::Empty) } else { Ok(i + 1) };
            }
        }
        Err(BurstError::NoEnd)
    }

    /// How the program wants its packets spread over its queues, if it does: [`Spreader::queue`] of [`Spreader::hash`] of a packet's first
    /// [`START`](crate::START) bytes is the queue to send it on, [`Spreader::meta`] what to send it with. What that queue has no room for
    /// is [missed](Queue::missed), for no queue may wait for another. A change by the program is followed from the next call on.
    /// [The crate](crate) has an example.
    #[inline(always)]
    pub fn spreader(&mut self) -> Option<&Spreader> {
        if self.link.steering.is_full() {
            self.steering = self.link.steering.take().flatten();
        }
        self.steering.as_deref()
    }

    /// Counts packets that were for this queue and were dropped because it had no room: the program reads it among its drops.
    /// [The crate](crate) has an example.
    pub fn missed(&mut self, packets: u64) {
        self.pair.count_missed(packets);
    }

    /// What can be polled (poll(2), epoll) for the program waking the NIC; it stays the same. Once the program has ended it may stay
    /// readable. [The crate](crate) has an example.
    ///
    /// # Errors
    /// [`Error::NoDescriptor`].
    pub fn fd(&mut self) -> Result<BorrowedFd<'_>, Error> {
        self.sleep.fd()
    }

    /// Has the program wake the NIC with its next packet, by [`fd`](Queue::fd), which this makes unreadable before. False when there is
    /// something to do now. To be called after a burst that found nothing, for all queues that are not polled meanwhile; then sleep ten
    /// milliseconds at most, and look. It makes system calls. [The crate](crate) has an example.
    ///
    /// # Errors
    /// [`Error::Silent`], [`Error::NoDescriptor`].
    pub fn arm(&mut self) -> Result<bool, Error> {
        self.finish();
        Ok(self.fetched.is_empty() && self.sleep.arm(&mut self.pair, &mut self.notifier)?)
    }

    /// Withdraws [`arm`](Queue::arm): not necessary, but it saves the program system calls while the NIC polls.
    /// [The crate](crate) has an example.
    pub fn disarm(&mut self) {
        self.pair.disarm();
    }

    /// Allocates buffers for packets of `len` bytes, as many whole packets as `out` has entries for; returns the number of buffers. Lengths
    /// and chains are set. [The crate](crate) has an example.
    ///
    /// # Errors
    /// [`BurstError::NotShared`], [`BurstError::TooLong`], [`BurstError::TooFewEntries`].
    #[inline(always)]
    pub fn alloc(&mut self, len: u16, out: &mut [Desc]) -> Result<usize, BurstError> {
        self.alloc_with(
            len,
            out.len(),
            #[inline(always)]
            |at, descs| write_from(out, at, descs),
        )
    }

    /// As [`alloc`](Queue::alloc), at most `max` buffers, which `take` gets as in [`rx_burst_with`](Queue::rx_burst_with).
    ///
    /// # Errors
    /// As [`alloc`](Queue::alloc).
    #[inline(always)]
    pub fn alloc_with(
        &mut self,
        len: u16,
        max: usize,
        mut take: impl FnMut(usize, &[Desc]),
    ) -> Result<usize, BurstError> {
        self.check_shared()?;
        if len > self.mtu {
            return Err(BurstError::TooLong);
        }
        let segments = usize::from(len).div_ceil(LARGE_BUF as usize).max(1);
        if (1..segments).contains(&max) {
            return Err(BurstError::TooFewEntries);
        }
        self.retired = false;
        let (all, most) = (max / segments * segments, FETCH / segments * segments);
        let mut done = 0;
        while done < all {
            let want = (all - done).min(most);
            let mut descs = [Desc::default(); FETCH];
            let got = self.pair.alloc(len, descs.get_mut(..want).unwrap_or_default());
            take(done, descs.get(..got).unwrap_or_default());
            done += got;
            if got < want {
                self.stats.alloc_failed += (all - done) as u64;
                break;
            }
        }
        Ok(done)
    }

    /// Frees buffers that the NIC holds: of a chain all, it is not followed. [The crate](crate) has an example.
    ///
    /// # Errors
    /// [`BurstError::BadBuffer`]: some descriptors name no buffer; all others are freed.
    #[inline(always)]
    pub fn free<B: Copy>(&mut self, bufs: &[B]) -> Result<(), BurstError>
    where
        Desc: From<B>,
    {
        self.retired = false;
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
            return Err(BurstError::BadBuffer);
        }
        Ok(())
    }

    /// Copies bytes out of a buffer that the NIC holds, from its byte `at` on. The program may change them meanwhile: decide by the copy.
    /// [The crate](crate) has an example.
    ///
    /// # Errors
    /// [`BurstError::BadBuffer`], with nothing copied: it names no buffer, or its data end before.
    pub fn read(&self, desc: Desc, at: u16, to: &mut [u8]) -> Result<(), BurstError> {
        self.pair.read(desc, at, to)
    }

    /// Copies bytes into a buffer that the NIC holds, from its byte `at` on. [The crate](crate) has an example.
    ///
    /// # Errors
    /// As [`read`](Queue::read).
    pub fn write(&mut self, desc: Desc, at: u16, from: &[u8]) -> Result<(), BurstError> {
        self.pair.write(desc, at, from)
    }

    /// What it has done so far. [The crate](crate) has an example.
    pub fn stats(&self) -> QueueStats {
        let c = self.pair.counters();
        QueueStats {
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
        }
    }
}

impl Drop for Queue {
    /// Not when it is retired already: the program may have gone on to another NIC.
    fn drop(&mut self) {
        if !self.retired {
            self.retire();
        }
    }
}

/// Writes descriptors to the entries from `at` on.
#[inline(always)]
fn write_from(out: &mut [Desc], at: usize, descs: &[Desc]) {
    for (to, desc) in out.get_mut(at..).unwrap_or_default().iter_mut().zip(descs) {
        *to = *desc;
    }
}

#[cfg(test)]
mod tests;
