//! The NIC's side of a queue as C holds it: packets fetched and not handed out yet, counters. Safe code: `exports.rs` makes slices of
//! pointers first.

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ccnic::layout::LARGE_BUF;
use ccnic::nic::{BadPacket, FETCH, Fetched, NicCounters};
use ccnic::{Config, Desc};
use ccnic_control::Notifier;
use ccnic_control::messages::QueueStatus;
use rustix::io::Errno;

use super::pair::SidePair;
use super::{CcnicNicStats, CcnicSegment, SEGMENT_MORE};
use crate::abi::{CcnicBuf, View};
use crate::errno::Failure;
use crate::owned::Openable;
use crate::queue::{BAD_BUFFER, CLOSED, NO_END, NO_PLACE, TOO_LONG};

/// The most segments that a packet in the NIC's own memory may have.
const PARTS: usize = 64;

const NOT_SHARED: Failure = Failure::new(
    Errno::OPNOTSUPP,
    c"this program manages its buffers itself (CCNIC_HOST_MANAGED, e810): only ccnic_nic_tx_copy reaches it",
);
const EMPTY: Failure = Failure::new(Errno::INVAL, c"a packet has no bytes, or a segment without data");

/// What the control thread sees of a queue's counters.
#[derive(Debug, Default)]
pub(super) struct Published([AtomicUsize; 9]);

impl Published {
    /// Only the queue's thread writes.
    #[inline(always)]
    fn set(&self, c: &NicCounters) {
        let values = [
            c.tx_packets,
            c.tx_bytes,
            c.rx_packets,
            c.rx_bytes,
            c.bad_descriptor,
            c.bad_chain,
            c.too_long,
            c.ring_full,
            c.no_buffer,
        ];
        for (to, value) in self.0.iter().zip(values) {
            to.store(value as usize, Ordering::Relaxed);
        }
    }

    pub(super) fn status(&self, queue: u16) -> QueueStatus {
        let [
            tx_packets,
            tx_bytes,
            rx_packets,
            rx_bytes,
            bad_descriptor,
            bad_chain,
            too_long,
            ring_full,
            no_buffer,
        ] = self.0.each_ref().map(|value| value.load(Ordering::Relaxed) as u64);
        QueueStatus {
            queue,
            core: 0,
            tx_packets,
            tx_bytes,
            rx_packets,
            rx_bytes,
            drop_bad_descriptor: bad_descriptor,
            drop_bad_chain: bad_chain,
            drop_too_long: too_long,
            drop_ring_full: 0,
            drop_no_buffer: 0,
            drop_handoff_full: 0,
            wait_ring_full: ring_full,
            wait_no_buffer: no_buffer,
        }
    }
}

/// What wakes the program, on its way from the control thread to the queue's.
#[derive(Debug, Default)]
pub(super) struct Mailbox {
    full: AtomicBool,
    notifier: Mutex<Option<Notifier>>,
}

impl Mailbox {
    fn notifier(&self) -> MutexGuard<'_, Option<Notifier>> {
        self.notifier.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn put(&self, notifier: Notifier) {
        *self.notifier() = Some(notifier);
        self.full.store(true, Ordering::Release);
    }

    #[cold]
    fn take(&self) -> Option<Notifier> {
        self.full.store(false, Ordering::Relaxed);
        self.notifier().take().inspect(Notifier::confirm)
    }
}

/// `struct ccnic_nic_queue`. Belongs to the thread that uses it; its memory stays until the program is released.
#[derive(Debug)]
#[repr(C)]
pub struct SideQueue {
    /// First: the inline functions of `ccnic_nic.h` look here.
    view: View,
    open: bool,
    in_use: Arc<AtomicBool>,
    mtu: u16,
    shared_pool: bool,
    pair: SidePair,
    fetched: Fetched,
    stats: CcnicNicStats,
    published: Arc<Published>,
    notifier: Option<Notifier>,
    mailbox: Arc<Mailbox>,
}

impl Openable for SideQueue {
    fn in_use(&self) -> &Arc<AtomicBool> {
        &self.in_use
    }

    fn reopen(&mut self) {
        self.open = true;
        self.in_use.store(true, Ordering::Release);
    }
}

impl SideQueue {
    pub(super) fn new(
        view: View,
        config: &Config,
        pair: SidePair,
        published: Arc<Published>,
        mailbox: Arc<Mailbox>,
    ) -> SideQueue {
        SideQueue {
            view,
            open: true,
            in_use: Arc::new(AtomicBool::new(true)),
            mtu: config.mtu,
            shared_pool: config.shared_pool,
            pair,
            fetched: Fetched::default(),
            stats: CcnicNicStats::default(),
            published,
            notifier: None,
            mailbox,
        }
    }

    #[inline(always)]
    fn check_open(&self) -> Result<(), Failure> {
        if self.open { Ok(()) } else { Err(CLOSED) }
    }

    /// At a burst's end: the control thread sees its counters, and a program that sleeps is woken.
    #[inline(always)]
    fn finish(&mut self) {
        self.published.set(&self.pair.counters());
        if let Some(notifier) = &self.notifier {
            self.pair.look(notifier);
        } else if self.mailbox.full.load(Ordering::Acquire) {
            self.notifier = self.mailbox.take();
        }
    }

    #[inline(always)]
    fn check_shared(&self) -> Result<(), Failure> {
        self.check_open()?;
        if self.shared_pool { Ok(()) } else { Err(NOT_SHARED) }
    }

    /// Drops what has not been handed out, and returns what this side keeps to the pool.
    pub(super) fn close(&mut self) -> Result<(), Failure> {
        self.check_open()?;
        let rest = self.fetched.rest();
        self.stats.rx_dropped_close += rest.iter().filter(|desc| !desc.more()).count() as u64;
        self.pair.free(rest);
        self.fetched = Fetched::default();
        self.pair.retire();
        self.published.set(&self.pair.counters());
        self.open = false;
        self.in_use.store(false, Ordering::Release);
        Ok(())
    }

    /// Hands out packets of the program, as many whole ones as there are and as `out` has places for.
    #[inline(always)]
    pub(super) fn receive(&mut self, out: &mut [MaybeUninit<CcnicBuf>]) -> Result<usize, Failure> {
        self.check_open()?;
        let mut done = 0;
        loop {
            let full = self.fetched.is_full();
            if self.fetched.is_empty() && (done > 0 && !full || self.pair.fetch(&mut self.fetched) == 0) {
                break;
            }
            let rest = self.fetched.rest();
            let Some(places) = out.get_mut(done..) else { break };
            let most = places.len().min(rest.len());
            let n = rest.iter().take(most).rposition(|desc| !desc.more()).map_or(0, |i| i + 1);
            for (to, desc) in places.iter_mut().zip(rest.iter().take(n)) {
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

    /// Hands packets in the program's own buffers to it, as many whole ones as the ring takes. A packet that can never be sent ends
    /// the burst; it is an error when it stands first.
    #[inline(always)]
    pub(super) fn transmit(&mut self, bufs: &[CcnicBuf]) -> Result<usize, Failure> {
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
            // A packet that is cut by the end of `descs` only comes with the next ones.
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

    /// Copies packets into buffers of the program, as many whole ones as there is room for; returns their segments.
    ///
    /// # Safety
    /// Each segment's `data` points to `len` readable bytes.
    #[inline(always)]
    pub(super) unsafe fn copy(&mut self, segments: &[CcnicSegment]) -> Result<usize, Failure> {
        self.check_open()?;
        let (mut done, mut bad) = (0, None);
        while let Some(rest) = segments.get(done..).filter(|rest| !rest.is_empty()) {
            // SAFETY: the caller vouches for the segments.
            match unsafe { self.copy_packet(rest) } {
                Ok(0) => break,
                Ok(n) => done += n,
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

    /// Copies the first packet; returns its segments, none when it has to wait.
    ///
    /// # Safety
    /// As [`copy`](SideQueue::copy).
    #[inline(always)]
    unsafe fn copy_packet(&mut self, segments: &[CcnicSegment]) -> Result<usize, Failure> {
        if let [only, ..] = segments
            && only.flags & SEGMENT_MORE == 0
            && (1..=u32::from(self.mtu)).contains(&only.len)
            && !only.data.is_null()
        {
            // SAFETY: not null, readable as the caller vouches.
            let bytes = unsafe { std::slice::from_raw_parts(only.data.cast(), only.len as usize) };
            return Ok(usize::from(self.pair.deliver_bytes(&[bytes], only.meta)));
        }
        let mut parts: [&[u8]; PARTS] = [&[]; PARTS];
        // SAFETY: as the caller vouches.
        let n = unsafe { self.gather(segments, &mut parts)? };
        let meta = segments.first().map_or(0, |segment| segment.meta);
        let gone = self.pair.deliver_bytes(parts.get(..n).unwrap_or_default(), meta);
        Ok(if gone { n } else { 0 })
    }

    /// The parts of the first packet; returns how many.
    ///
    /// # Safety
    /// As [`copy`](SideQueue::copy).
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
                // SAFETY: not null, readable as the caller vouches.
                *part = unsafe { std::slice::from_raw_parts(segment.data.cast(), segment.len as usize) };
            }
            if segment.flags & SEGMENT_MORE == 0 {
                return if total == 0 { Err(EMPTY) } else { Ok(i + 1) };
            }
        }
        Err(NO_END)
    }

    /// Allocates packets of `len` bytes into `out`, as many whole ones as it has places for; returns the buffers.
    #[inline(always)]
    pub(super) fn alloc(&mut self, len: u16, out: &mut [MaybeUninit<CcnicBuf>]) -> Result<usize, Failure> {
        self.check_shared()?;
        if len > self.mtu {
            return Err(TOO_LONG);
        }
        let segments = usize::from(len).div_ceil(LARGE_BUF as usize).max(1);
        if (1..segments).contains(&out.len()) {
            return Err(NO_PLACE);
        }
        let mut done = 0;
        for out in out.chunks_mut(FETCH / segments * segments) {
            let places = out.len() / segments * segments;
            let mut descs = [Desc::default(); FETCH];
            let got = self.pair.alloc(len, descs.get_mut(..places).unwrap_or_default());
            for (to, desc) in out.iter_mut().zip(descs.iter().take(got)) {
                to.write((*desc).into());
            }
            done += got;
            if got < places {
                self.stats.alloc_failed += (places - got) as u64;
                break;
            }
        }
        Ok(done)
    }

    /// Frees all buffers; those that name none are skipped and are an error.
    #[inline(always)]
    pub(super) fn free(&mut self, bufs: &[CcnicBuf]) -> Result<usize, Failure> {
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
            self.pair.flush(); // the program learns from the ring what it may use again
        }
        if bad > 0 {
            self.stats.free_bad_buffer += bad;
            return Err(BAD_BUFFER);
        }
        Ok(0)
    }

    pub(super) fn stats(&self) -> Result<CcnicNicStats, Failure> {
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
