//! The load generator: one thread per queue pair sends packets through the NIC's loopback and measures what comes back
//! (CC-NIC section 5.1). Every packet carries a time and a sequence number; its whole payload is written, copied by the
//! NIC, read and checked.

mod book;
pub mod payload;

use anyhow::ensure;
use ccnic::ring::Ring;
use ccnic::{Burst, QueuePair};
use ccnic_shm::NativePort;
use hdrhistogram::Histogram;
use quanta::Clock;

use book::Book;

/// Up to so many packets under way, the clock is read behind a fence.
const PRECISE: usize = 16;

/// What one thread sends.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    /// Bytes of each packet.
    pub size: u16,
    /// Packets per transmit burst.
    pub burst: usize,
    /// Buffers per receive burst.
    pub rx_burst: usize,
    /// Packets under way at once, at most.
    pub inflight: usize,
    /// Packets per second offered, or as many as go through.
    pub rate: Option<f64>,
    /// Seconds to measure, after `warmup`.
    pub seconds: f64,
    /// Seconds to run before measuring.
    pub warmup: f64,
    /// False when the NIC needs this very CPU to make progress.
    pub alone: bool,
}

/// What one thread saw.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Packets that came back within the measured time.
    pub packets: u64,
    /// Length of the measured time.
    pub seconds: f64,
    /// Packets sent and never received, in the whole run.
    pub lost: u64,
    /// Packets that came back damaged, twice or out of order, in the whole run.
    pub corrupt: u64,
    /// Round trips within the measured time, in nanoseconds.
    pub rtt: Histogram<u64>,
}

/// A thread's state while it runs.
struct Generator<'a, R: Ring> {
    pair: &'a mut QueuePair<NativePort, R>,
    load: Load,
    clock: Clock,
    tx: Burst,
    rx: Burst,
    /// Buffers of one packet.
    segments: usize,
    book: Book,
    /// The clock when it was last read, and the packets received since.
    now: u64,
    since: usize,
}

/// Runs a load on a queue pair.
///
/// # Errors
/// When the histogram cannot be made, or the NIC stops answering.
pub fn run<R: Ring>(pair: &mut QueuePair<NativePort, R>, load: Load) -> anyhow::Result<Outcome> {
    let clock = Clock::new();
    let mut generator = Generator {
        pair,
        load,
        tx: Burst::new(),
        rx: Burst::new(),
        segments: usize::from(load.size).div_ceil(4096),
        book: Book::new()?,
        now: clock.raw(),
        since: 0,
        clock,
    };
    generator.phase(load.warmup);
    generator.book.forget();
    let (before, start) = (generator.book.received, generator.clock.raw());
    generator.phase(load.seconds);
    let (after, end) = (generator.book.received, generator.clock.raw());
    let rtt = generator.book.rtt(|ticks| generator.clock.delta_as_nanos(0, ticks))?;
    let seconds = generator.clock.delta(start, end).as_secs_f64();
    generator.drain();
    let Book { received, lost, corrupt, .. } = generator.book;
    ensure!(received > 0, "the NIC returned no packet; is ccnicd still running?");
    Ok(Outcome { packets: after - before, seconds, lost, corrupt, rtt })
}

/// Clock ticks in a number of seconds.
fn ticks(clock: &Clock, seconds: f64) -> u64 {
    // The clock tells nanoseconds of ticks; a long span keeps the rounding small.
    let span = 1u64 << 32;
    (seconds * span as f64 / clock.delta_as_nanos(0, span) as f64 * 1e9) as u64
}

impl<R: Ring> Generator<'_, R> {
    /// Sends and receives for some seconds.
    #[inline(never)]
    fn phase(&mut self, seconds: f64) {
        let start = self.clock.raw();
        let end = start + ticks(&self.clock, seconds);
        let gap = self.load.rate.map(|rate| ticks(&self.clock, 1.0) as f64 / rate);
        let first = self.book.next;
        loop {
            // Receive, transmit, then read what was received: its lines arrive while we write.
            let received = self.pair.rx_burst(&mut self.rx, self.load.rx_burst);
            let now = self.time(received);
            // Open loop: as many packets are due as the rate says, whatever has come back.
            let due = gap.map_or(usize::MAX, |gap| {
                (((now - start) as f64 / gap) as u64 + 1).saturating_sub(self.book.next - first) as usize
            });
            let sent = self.send(now, due);
            self.examine(now);
            if sent + received == 0 {
                self.wait();
            }
            if now >= end {
                break;
            }
        }
    }

    /// The time, after a receive burst of so many packets.
    ///
    /// Reading the clock costs as much as a small packet, so it is read once for the packets of several small bursts: for
    /// so few of those under way that round trips are at most 3 % out. With few packets under way it is read for each burst,
    /// and behind a fence: a plain read may run ahead of the loads that found the packets, by one line transfer.
    #[inline(always)]
    fn time(&mut self, received: usize) -> u64 {
        let outstanding = self.book.outstanding();
        self.since += received;
        if outstanding <= PRECISE {
            ccnic_shm::wait_for_loads();
        } else if received > 0 && self.since * 32 < outstanding {
            return self.now;
        }
        (self.now, self.since) = (self.clock.raw(), 0);
        self.now
    }

    #[inline(always)]
    fn wait(&self) {
        if self.load.alone {
            self.pair.relax();
        } else {
            rustix::thread::sched_yield();
        }
    }

    /// One transmit burst, if the window and the rate allow it.
    #[inline(always)]
    fn send(&mut self, now: u64, due: usize) -> usize {
        if self.tx.is_empty() {
            let window = self.load.inflight.saturating_sub(self.book.outstanding());
            let room = Burst::CAPACITY / self.segments;
            let burst = self.load.burst.min(self.load.inflight).min(room);
            // As many packets as go through go in whole bursts; at a given rate each goes when it is due.
            let want = if due == usize::MAX && window < burst { 0 } else { burst.min(window).min(due) };
            if want == 0 {
                return 0;
            }
            self.pair.alloc(self.load.size, want, &mut self.tx);
            let (mut seq, mut at) = (self.book.next, 0);
            for buf in self.tx.iter_mut() {
                let more = buf.more();
                self.pair.with_mut(buf, |bytes| payload::fill(bytes, at, seq, now));
                (seq, at) = if more { (seq, at + 4096) } else { (seq + 1, 0) };
            }
            self.book.next = seq;
        }
        self.pair.tx_burst(&mut self.tx)
    }

    /// Reads and checks every byte of what has been received.
    #[inline(always)]
    fn examine(&mut self, now: u64) {
        if self.rx.is_empty() {
            return;
        }
        let (mut seq, mut at) = (0, 0);
        for buf in self.rx.as_slice() {
            let (time, intact) = self.pair.with(buf, |bytes| {
                let mut time = None;
                if at == 0 {
                    let (sent, number) = payload::header(bytes).unwrap_or((0, u64::MAX));
                    (time, seq) = (Some(sent), number);
                }
                (time, payload::check(bytes, at, seq))
            });
            if let Some(time) = time {
                self.book.arrived(seq, now.saturating_sub(time));
            }
            self.book.corrupt += u64::from(!intact);
            at = if buf.more() { at + usize::from(buf.len()) } else { 0 };
        }
        self.pair.free(&mut self.rx);
    }

    /// Waits for what is still under way. What has not come after a second without progress is lost.
    fn drain(&mut self) {
        let patience = ticks(&self.clock, 1.0);
        let mut last = self.clock.raw();
        let unsent = self.tx.as_slice().iter().filter(|buf| !buf.more()).count();
        self.book.next -= unsent as u64; // the ring was full: never sent, so not lost
        self.pair.free(&mut self.tx);
        while self.book.outstanding() > 0 && self.clock.raw() - last < patience {
            if self.pair.rx_burst(&mut self.rx, self.load.rx_burst) > 0 {
                last = self.clock.raw();
                self.examine(last);
            } else {
                self.wait();
            }
        }
        self.book.lost += self.book.outstanding() as u64;
    }
}
