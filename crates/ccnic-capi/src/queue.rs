//! A queue as C holds it: a queue pair, a burst to work in, counters. Safe code: `bursts.rs` makes slices of pointers first.

use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ccnic::desc::CHAIN_MAX;
use ccnic::layout::{LARGE_BUF, SMALL_BUF};
use ccnic::{Burst, Desc};
use ccnic_client::QueuePair;
use rustix::io::Errno;

use crate::abi::{CcnicBuf, CcnicStats, View};
use crate::errno::Failure;
use crate::owned::Openable;

/// Buffers that one receive burst of a queue pair gives at most.
const RECEIVE: usize = Burst::CAPACITY / 2;

pub(crate) const CLOSED: Failure = Failure::new(Errno::BADF, c"the queue or pool has been closed");
pub(crate) const BAD_BUFFER: Failure =
    Failure::new(Errno::FAULT, c"a buffer handle names no bytes of this NIC's buffers");
pub(crate) const NO_END: Failure =
    Failure::new(Errno::INVAL, c"the last packet has no end: its last buffer must not be marked `more`");
pub(crate) const NO_PLACE: Failure =
    Failure::new(Errno::INVAL, c"n has no place for one packet: CCNIC_SEGMENTS(len) buffers");
pub(crate) const TOO_LONG: Failure =
    Failure::new(Errno::MSGSIZE, c"a packet is longer than the MTU, or has more than 8 buffers");

const NOT_SMALL: Failure =
    Failure::new(Errno::MSGSIZE, c"a packet is longer than CCNIC_SMALL or the MTU: use ccnic_tx_burst()");
const NO_BYTES: Failure = Failure::new(Errno::INVAL, c"a packet has no bytes");
const NO_BUFFER: Failure = Failure::new(Errno::NOBUFS, c"the pool is dry: receive or free some buffers");
const WAITS: Failure =
    Failure::new(Errno::MSGSIZE, c"the packet that waits is not a small one: use ccnic_rx_burst()");

/// `struct ccnic_queue`. Belongs to the thread that uses it; its memory stays until the NIC is closed.
#[derive(Debug)]
#[repr(C)]
pub struct Queue {
    /// First: the inline functions of `ccnic.h` look here.
    view: View,
    /// False between closing and opening again.
    open: bool,
    /// The same, for the NIC to look at while the queue's thread is at work.
    in_use: Arc<AtomicBool>,
    mtu: u16,
    pub(crate) pair: QueuePair,
    burst: Burst,
    stats: CcnicStats,
    waiting: Waiting,
}

/// Buffers that `ccnic_wait` has received and that no receive burst has handed out yet.
#[derive(Debug)]
struct Waiting {
    bufs: [CcnicBuf; RECEIVE],
    next: usize,
    len: usize,
}

impl Waiting {
    fn rest(&self) -> &[CcnicBuf] {
        self.bufs.get(self.next..self.len).unwrap_or_default()
    }

    /// How many of the first, at most `max`, are small packets.
    fn small(&self, max: usize) -> usize {
        let rest = self.rest().iter().take(max);
        rest.take_while(|&&buf| !buf.more() && Desc::from(buf).small()).count()
    }

    fn handed_out(&mut self, n: usize) {
        self.next += n;
        if self.next == self.len {
            (self.next, self.len) = (0, 0);
        }
    }
}

impl Openable for Queue {
    fn in_use(&self) -> &Arc<AtomicBool> {
        &self.in_use
    }

    fn reopen(&mut self) {
        self.open = true;
        self.in_use.store(true, Ordering::Release);
    }
}

impl Queue {
    pub(crate) fn new(view: View, mtu: u16, pair: QueuePair) -> Queue {
        let none = CcnicBuf::from(Desc::default());
        Queue {
            view,
            open: true,
            in_use: Arc::new(AtomicBool::new(true)),
            mtu,
            pair,
            burst: Burst::new(),
            stats: CcnicStats::default(),
            waiting: Waiting { bufs: [none; RECEIVE], next: 0, len: 0 },
        }
    }

    #[inline(always)]
    fn check_open(&self) -> Result<(), Failure> {
        if self.open { Ok(()) } else { Err(CLOSED) }
    }

    /// Returns what this queue keeps to the pool. It can be opened again.
    pub(crate) fn close(&mut self) -> Result<(), Failure> {
        self.check_open()?;
        let rest = self.waiting.rest().iter().map(|buf| Desc::from(*buf));
        self.pair.free_descs(rest, &mut self.burst);
        (self.waiting.next, self.waiting.len) = (0, 0);
        self.pair.disarm();
        self.pair.retire();
        self.open = false;
        self.in_use.store(false, Ordering::Release);
        Ok(())
    }

    /// Allocates packets of `len` bytes into `out`, as many whole ones as it has places for; returns the buffers.
    #[inline(always)]
    pub(crate) fn alloc(&mut self, len: u16, out: &mut [MaybeUninit<CcnicBuf>]) -> Result<usize, Failure> {
        self.check_open()?;
        if len > self.mtu {
            return Err(TOO_LONG);
        }
        if u32::from(len) > LARGE_BUF {
            return self.alloc_chains(len, out);
        }
        let mut done = 0;
        for out in out.chunks_mut(Burst::CAPACITY) {
            let want = out.len();
            let got = self.pair.alloc(len, want, &mut self.burst);
            done += write(&mut self.burst, out);
            if got < want {
                self.stats.alloc_failed += (want - got) as u64;
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
            return Err(NO_PLACE);
        }
        let mut done = 0;
        for out in out.chunks_exact_mut(segments) {
            if self.pair.alloc(len, segments, &mut self.burst) == 0 {
                self.stats.alloc_failed += segments as u64;
                break;
            }
            done += write(&mut self.burst, out);
        }
        Ok(done)
    }

    /// Frees all buffers; those that name none are skipped and are an error.
    #[inline(always)]
    pub(crate) fn free(&mut self, mut bufs: &[CcnicBuf]) -> Result<usize, Failure> {
        self.check_open()?;
        let mut bad = 0;
        while !bufs.is_empty() {
            let n = self.pair.free_descs(bufs.iter().map(|buf| Desc::from(*buf)), &mut self.burst);
            // When none was adopted, the first is bad: whatever stops a burst stands first in the next.
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

    /// Sends whole packets, as many as the ring takes; returns their buffers. A packet that can never be sent ends the burst;
    /// it is an error when it stands first.
    #[inline(always)]
    pub(crate) fn transmit(&mut self, bufs: &[CcnicBuf]) -> Result<usize, Failure> {
        self.check_open()?;
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
            let (adopted, sent) = self.pair.tx_descs(descs, &mut self.burst);
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
                return self.stopped(done, sent, adopted, whole, why);
            }
        }
        Ok(done)
    }

    /// A transmit burst has stopped after `sent` of the `whole` buffers it could have taken: why? Says so only when nothing
    /// has been sent; otherwise the next burst begins with the packet in question.
    #[cold]
    #[inline(never)]
    fn stopped(
        &mut self,
        done: usize,
        sent: usize,
        adopted: &[CcnicBuf],
        whole: usize,
        why: Option<Failure>,
    ) -> Result<usize, Failure> {
        let good = adopted.iter().rposition(|buf| !buf.more()).map_or(0, |i| i + 1);
        if sent < good {
            self.stats.tx_ring_full += (good - sent) as u64;
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

    /// Receives whole packets into `out`, as many as there are and as it has places for; returns their buffers.
    #[inline(always)]
    pub(crate) fn receive(&mut self, out: &mut [MaybeUninit<CcnicBuf>]) -> Result<usize, Failure> {
        self.check_open()?;
        if self.waiting.len > 0 {
            return Ok(self.hand_out(out));
        }
        let mut done = 0;
        for out in out.chunks_mut(RECEIVE) {
            let got = self.pair.rx_burst(&mut self.burst, out.len());
            let (mut bytes, mut ends) = (0u64, 0u64);
            for buf in self.burst.as_slice() {
                bytes += u64::from(buf.len());
                ends += u64::from(!buf.more());
            }
            self.stats.rx_bytes += bytes;
            self.stats.rx_packets += ends;
            done += write(&mut self.burst, out);
            if got < out.len() {
                break;
            }
        }
        Ok(done)
    }

    /// The longest packet that takes one small buffer.
    #[inline(always)]
    fn small(&self) -> u16 {
        self.mtu.min(SMALL_BUF as u16)
    }

    /// Sends copies of packets at these places, of these lengths, which `packet` makes slices, as many as the ring takes; returns
    /// their number. A packet that is no small one ends the burst; it is an error when it stands first.
    #[inline(always)]
    pub(crate) fn transmit_small<'a>(
        &mut self,
        places: &[*const u8],
        lens: &[u16],
        packet: impl Fn(*const u8, u16) -> &'a [u8],
    ) -> Result<usize, Failure> {
        self.check_open()?;
        let mut done = 0;
        while let Some(rest) = lens.get(done..).filter(|rest| !rest.is_empty()) {
            let all = rest.get(..Burst::CAPACITY).unwrap_or(rest);
            let (mut chunk, mut longest) = (all, bound(all));
            if longest > self.small() {
                chunk = self.first_small(all, done)?;
                longest = bound(chunk);
            }
            let places = places.get(done..).unwrap_or_default();
            let packets = places.iter().zip(chunk).map(|(&at, &len)| (packet(at, len), 0));
            let sent = self.pair.tx_small(longest, packets, &mut self.burst);
            let bytes = chunk.iter().take(sent).map(|&len| u64::from(len)).sum::<u64>();
            self.stats.tx_bytes += bytes;
            self.stats.tx_packets += sent as u64;
            done += sent;
            if sent < all.len() {
                return if done == 0 { self.why_none(chunk.len()) } else { Ok(done) };
            }
        }
        Ok(done)
    }

    /// None of so many small packets went: is the ring full, or the pool dry?
    #[cold]
    #[inline(never)]
    fn why_none(&mut self, packets: usize) -> Result<usize, Failure> {
        if self.pair.tx_room() == 0 {
            self.stats.tx_ring_full += packets as u64;
            return Ok(0);
        }
        self.stats.alloc_failed += packets as u64;
        Err(NO_BUFFER)
    }

    /// The packets before the first that is not small. An error when there are none in this call, of which `done` are gone.
    #[cold]
    #[inline(never)]
    fn first_small<'a>(&mut self, lens: &'a [u16], done: usize) -> Result<&'a [u16], Failure> {
        let n = lens.iter().position(|len| !(1..=self.small()).contains(len)).unwrap_or(lens.len());
        if n + done > 0 {
            return Ok(lens.get(..n).unwrap_or_default());
        }
        self.stats.tx_bad_packet += 1;
        Err(if lens.first() == Some(&0) { NO_BYTES } else { NOT_SMALL })
    }

    /// Receives small packets, at most `max`, shows each to `read` and frees its buffer; returns their number. It is an error when
    /// the first that waits is not small.
    #[inline(always)]
    pub(crate) fn receive_small(
        &mut self,
        max: usize,
        mut read: impl FnMut(usize, &[u8], u64),
    ) -> Result<usize, Failure> {
        self.check_open()?;
        let mut total = 0;
        let count = |i, bytes: &[u8], meta| {
            total += bytes.len() as u64;
            read(i, bytes, meta);
        };
        let n = if self.waiting.len > 0 {
            let n = self.waiting.small(max);
            let bufs = self.waiting.rest().iter().take(n);
            self.pair.read_descs(bufs.map(|buf| Desc::from(*buf)), &mut self.burst, count);
            self.waiting.handed_out(n);
            if n > 0 || max == 0 { Ok(n) } else { Err(ccnic::host::NotSmall) }
        } else {
            self.pair.rx_small(max, count)
        };
        let n = n.map_err(|_| WAITS)?;
        self.stats.rx_bytes += total;
        self.stats.rx_packets += n as u64;
        Ok(n)
    }

    /// Hands out whole packets of those that `ccnic_wait` has received.
    #[cold]
    #[inline(never)]
    fn hand_out(&mut self, out: &mut [MaybeUninit<CcnicBuf>]) -> usize {
        let rest = self.waiting.rest();
        let most = out.len().min(rest.len());
        let n = rest.iter().take(most).rposition(|buf| !buf.more()).map_or(0, |i| i + 1);
        for (to, buf) in out.iter_mut().zip(rest.iter().take(n)) {
            to.write(*buf);
            self.stats.rx_bytes += u64::from(buf.len());
            self.stats.rx_packets += u64::from(!buf.more());
        }
        self.waiting.handed_out(n);
        n
    }

    /// Buffers that are ready to be received: polls the ring when there are none.
    pub(crate) fn ready(&mut self) -> Result<usize, Failure> {
        self.check_open()?;
        if self.waiting.len == 0 {
            self.pair.rx_burst(&mut self.burst, RECEIVE);
            let mut n = 0;
            for (to, desc) in self.waiting.bufs.iter_mut().zip(self.burst.disown()) {
                *to = desc.into();
                n += 1;
            }
            (self.waiting.next, self.waiting.len) = (0, n);
        }
        Ok(self.waiting.rest().len())
    }

    /// The descriptor that can be read when the NIC wakes this thread.
    pub(crate) fn rx_fd(&self) -> Result<i32, Failure> {
        self.check_open()?;
        Ok(self.pair.fd()?.as_raw_fd())
    }

    /// Asks the NIC to wake this thread, unless buffers can be received now: then returns how many.
    pub(crate) fn arm(&mut self) -> Result<usize, Failure> {
        self.check_open()?;
        if self.waiting.len == 0 && self.pair.arm()? {
            return Ok(0);
        }
        // What came between two looks counts for one.
        Ok(self.rx_ready()?.max(1))
    }

    /// This thread is awake.
    pub(crate) fn disarm(&mut self) -> Result<usize, Failure> {
        self.check_open()?;
        self.pair.disarm();
        Ok(0)
    }

    /// Makes the descriptor readable.
    pub(crate) fn wake(&self) -> Result<usize, Failure> {
        self.check_open()?;
        self.pair.waiter().wake()?;
        Ok(0)
    }

    /// Buffers that can be received now.
    pub(crate) fn rx_ready(&self) -> Result<usize, Failure> {
        self.check_open()?;
        Ok(self.waiting.rest().len() + self.pair.rx_ready())
    }

    /// Buffers sent that the NIC has not taken yet.
    pub(crate) fn tx_waiting(&self) -> Result<usize, Failure> {
        self.check_open()?;
        Ok(self.pair.tx_waiting())
    }

    pub(crate) fn stats(&self) -> Result<CcnicStats, Failure> {
        self.check_open()?;
        let drops = self.pair.drops();
        Ok(CcnicStats {
            rx_bad_descriptor: drops.bad_descriptor,
            rx_bad_chain: drops.bad_chain,
            rx_missed: drops.rx_dropped,
            ..self.stats
        })
    }
}

/// A length that none of some is beyond, below the next power of two; `u16::MAX` when one of them is zero. Cheaper than the longest:
/// processors of the baseline have no maximum of 16-bit words.
#[inline(always)]
fn bound(lens: &[u16]) -> u16 {
    lens.iter().fold(0u16, |any, len| any | len.wrapping_sub(1)).saturating_add(1)
}

/// Hands the buffers of a burst to C; returns their number. `out` has places for all.
#[inline(always)]
pub(crate) fn write(burst: &mut Burst, out: &mut [MaybeUninit<CcnicBuf>]) -> usize {
    let descs = burst.disown();
    let n = descs.len().min(out.len());
    for (to, desc) in out.iter_mut().zip(descs) {
        to.write(desc.into());
    }
    n
}

/// How many of the first buffers make packets that can be sent, and why the next one cannot be. `last`: nothing comes after
/// these buffers, so a packet that goes on has no end.
#[cold]
#[inline(never)]
fn whole_packets(bufs: &[CcnicBuf], mtu: u16, last: bool) -> (usize, Option<Failure>) {
    let (mut whole, mut segments, mut bytes) = (0, 0, 0u32);
    for (i, buf) in bufs.iter().enumerate() {
        segments += 1;
        bytes += u32::from(buf.len());
        if segments > CHAIN_MAX || bytes > u32::from(mtu) {
            return (whole, Some(TOO_LONG));
        }
        if !buf.more() {
            (whole, segments, bytes) = (i + 1, 0, 0);
        }
    }
    (whole, (whole < bufs.len() && last).then_some(NO_END))
}
