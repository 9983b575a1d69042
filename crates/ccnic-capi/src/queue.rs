//! A queue as C holds it: a queue pair, a burst to work in, counters. Safe code: `exports.rs` makes slices of pointers first.

use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ccnic::desc::CHAIN_MAX;
use ccnic::layout::LARGE;
use ccnic::{Burst, Desc};
use ccnic_shm::Waiter;
use rustix::io::Errno;

use crate::abi::{CcnicBuf, CcnicStats, View};
use crate::errno::Failure;
use crate::owned::Openable;
use crate::pair::Pair;

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
    pub(crate) pair: Pair,
    burst: Burst,
    stats: CcnicStats,
    waiting: Waiting,
    /// What its thread sleeps with.
    pub(crate) waiter: Waiter,
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
    pub(crate) fn new(view: View, mtu: u16, pair: Pair, waiter: Waiter) -> Queue {
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
            waiter,
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
        self.pair.free(rest, &mut self.burst);
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
        if u32::from(len) > LARGE {
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
        let segments = u32::from(len).div_ceil(LARGE) as usize;
        if (1..segments).contains(&out.len()) {
            return Err(NO_PLACE);
        }
        let mut done = 0;
        for out in out.chunks_exact_mut(segments) {
            if self.pair.alloc(len, 1, &mut self.burst) == 0 {
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
            let n = self.pair.free(bufs.iter().map(|buf| Desc::from(*buf)), &mut self.burst);
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
            let (adopted, sent) = self.pair.transmit(descs, &mut self.burst);
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
            let got = self.pair.receive(&mut self.burst, out.len());
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
        self.waiting.next += n;
        if self.waiting.next == self.waiting.len {
            (self.waiting.next, self.waiting.len) = (0, 0);
        }
        n
    }

    /// Buffers that are ready to be received: polls the ring when there are none.
    pub(crate) fn ready(&mut self) -> Result<usize, Failure> {
        self.check_open()?;
        if self.waiting.len == 0 {
            self.pair.receive(&mut self.burst, RECEIVE);
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
        Ok(self.waiter.fd()?.as_raw_fd())
    }

    /// Asks the NIC to wake this thread, unless buffers can be received now: then returns how many.
    pub(crate) fn arm(&mut self) -> Result<usize, Failure> {
        self.check_open()?;
        if self.waiting.len == 0 && self.pair.arm(&self.waiter)? {
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
        self.waiter.wake()?;
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
            rx_missed: drops.missed,
            ..self.stats
        })
    }
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
