//! The load generator: one thread per queue pair sends packets through the NIC's loopback and measures what comes back
//! (CC-NIC section 5.1). Every packet carries a time and a sequence number; its whole payload is written, copied by the
//! NIC, read and checked.
//!
//! It runs over any memory, real or simulated, and goes by a [`Clock`], so that `ccnic bench` and `ccnic sim` send the same load.

mod book;
pub mod payload;
mod totals;

use ccnic::host::QueuePair;
use ccnic::ring::Ring;
use ccnic::{Burst, SharedMemory};
use hdrhistogram::Histogram;

use book::Book;
pub use totals::{Rtt, Totals};

/// Time, and what else a generator knows of the machine that it runs on.
pub trait Clock {
    /// The time in ticks.
    fn now(&self) -> u64;
    /// Waits until every load so far has its value: the time may be read earlier than that otherwise.
    fn settle(&self);
    /// Ticks as nanoseconds.
    fn nanoseconds(&self, ticks: u64) -> u64;
    /// Gives the CPU away if the other side needs it to make progress; false: poll on.
    fn give_way(&self) -> bool;
    /// The next turn of polling may last until this time, whatever comes. Real machines spin.
    fn sleep_until(&self, _: u64) {}
    /// So many packets have been made or examined. Real machines have spent the time on it already.
    fn spend(&self, _: usize) {}

    /// Seconds as ticks.
    fn ticks(&self, seconds: f64) -> u64 {
        // The clock tells nanoseconds of ticks; a long span keeps the rounding small.
        let span = 1u64 << 40;
        (seconds * span as f64 / self.nanoseconds(span) as f64 * 1e9) as u64
    }
}

/// Why a load could not be run.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// No packet came back.
    #[error("the NIC returned no packet; is it still running?")]
    NoPacket,
    /// A round trip that the histogram cannot hold.
    #[error("could not record round trips: {0}")]
    Histogram(String),
}

/// With few packets under way, at most so many, round trips are measured precisely: see `examine`.
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
    /// At a given rate, whole bursts go when all their packets are due; otherwise each packet goes when it is due.
    pub whole_bursts: bool,
    /// At a given rate: when this thread begins, from 0 to 1, of the time from one burst to the next. Threads that all began at
    /// once would send at the same moments ever after, and queue for each other.
    pub phase: f64,
    /// Seconds to measure, after `warmup`.
    pub seconds: f64,
    /// Seconds to run before measuring.
    pub warmup: f64,
    /// The measured time ends with so many packets received, if that is sooner.
    pub packets: Option<u64>,
}

impl Load {
    /// The same for thread `i` of `threads`: they begin one after the other.
    pub fn of_thread(self, i: u16, threads: u16) -> Load {
        Load { phase: f64::from(i) / f64::from(threads.max(1)), ..self }
    }
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
struct Generator<'a, M: SharedMemory, R: Ring, C: Clock> {
    pair: &'a mut QueuePair<M, R>,
    load: Load,
    clock: &'a C,
    tx: Burst,
    rx: Burst,
    /// Buffers of one packet.
    segments: usize,
    book: Book,
    /// The clock when it was last read, and the packets received since.
    now: u64,
    since: usize,
}

/// Runs a load on a queue pair. `started` is called when the measured time begins, and `ended` when it is over.
///
/// # Errors
/// When the histogram cannot be made, or the NIC stops answering.
pub fn run<M: SharedMemory, R: Ring, C: Clock>(
    pair: &mut QueuePair<M, R>,
    load: Load,
    clock: &C,
    started: impl FnOnce(),
    ended: impl FnOnce(),
) -> Result<Outcome, LoadError> {
    let mut generator = Generator {
        pair,
        load,
        tx: Burst::new(),
        rx: Burst::new(),
        segments: usize::from(load.size).div_ceil(4096),
        book: Book::new()?,
        now: clock.now(),
        since: 0,
        clock,
    };
    generator.phase(load.warmup, None);
    generator.book.forget();
    let (before, start) = (generator.book.received, clock.now());
    started();
    generator.phase(load.seconds, load.packets);
    let (after, end) = (generator.book.received, clock.now());
    ended();
    let rtt = generator.book.rtt(|ticks| clock.nanoseconds(ticks))?;
    let seconds = clock.nanoseconds(end - start) as f64 / 1e9;
    generator.drain();
    let Book { received, lost, corrupt, .. } = generator.book;
    if received == 0 {
        return Err(LoadError::NoPacket);
    }
    Ok(Outcome { packets: after - before, seconds, lost, corrupt, rtt })
}

impl<M: SharedMemory, R: Ring, C: Clock> Generator<'_, M, R, C> {
    /// Sends and receives for some seconds, or until so many packets have been received.
    #[inline(never)]
    fn phase(&mut self, seconds: f64, packets: Option<u64>) {
        let start = self.clock.now();
        self.now = start; // no burst of this phase is older
        let end = start + self.clock.ticks(seconds);
        let gap = self.load.rate.map(|rate| self.clock.ticks(1.0) as f64 / rate);
        let late =
            if self.load.whole_bursts { self.burst() as f64 * self.load.phase } else { self.load.phase };
        let first = self.book.next;
        let last = packets.map_or(u64::MAX, |n| self.book.received.saturating_add(n));
        loop {
            // Receive, transmit, then read what was received: its lines arrive while we write.
            let received = self.pair.rx_burst(&mut self.rx, self.load.rx_burst);
            let now = self.time(received);
            // Open loop: as many packets are due as the rate says, whatever has come back.
            let due = gap.map_or(usize::MAX, |gap| {
                (((now - start) as f64 / gap + 1.0 - late) as u64).saturating_sub(self.book.next - first)
                    as usize
            });
            let sent = self.send(now, due);
            self.examine(now);
            if sent + received == 0 {
                let ahead = if self.load.whole_bursts { self.burst() as u64 - 1 } else { 0 };
                let next = self.book.next - first + ahead;
                let next = gap.map_or(end, |gap| start + ((next as f64 + late) * gap) as u64 + 1);
                self.wait(next.min(end));
            }
            if now >= end || self.book.received >= last {
                break;
            }
        }
    }

    /// The time, after a receive burst of so many packets.
    ///
    /// Reading the clock costs as much as a small packet, so it is read once for the packets of several small bursts: for
    /// so few of those under way that round trips are at most 3 % out.
    #[inline(always)]
    fn time(&mut self, received: usize) -> u64 {
        let outstanding = self.book.outstanding();
        self.since += received;
        if outstanding > PRECISE && received > 0 && self.since * 32 < outstanding {
            return self.now;
        }
        (self.now, self.since) = (self.clock.now(), 0);
        self.now
    }

    #[inline(always)]
    fn wait(&self, until: u64) {
        if !self.clock.give_way() {
            self.clock.sleep_until(until);
            self.pair.relax();
        }
    }

    /// Packets of a transmit burst.
    #[inline(always)]
    fn burst(&self) -> usize {
        self.load.burst.min(self.load.inflight).min(Burst::CAPACITY / self.segments)
    }

    /// One transmit burst, if the window and the rate allow it.
    #[inline(always)]
    fn send(&mut self, now: u64, due: usize) -> usize {
        if self.tx.is_empty() {
            let window = self.load.inflight.saturating_sub(self.book.outstanding());
            let (burst, room) = (self.burst(), window.min(due));
            // As many packets as go through go in whole bursts.
            let whole = due == usize::MAX || self.load.whole_bursts;
            let want = if whole && room < burst { 0 } else { burst.min(room) };
            if want == 0 {
                return 0;
            }
            self.pair.alloc(self.load.size, want * self.segments, &mut self.tx);
            let (mut seq, mut at) = (self.book.next, 0);
            for buf in self.tx.iter_mut() {
                let more = buf.more();
                self.pair.with_mut(buf, |bytes| payload::fill(bytes, at, seq, now));
                (seq, at) = if more { (seq, at + 4096) } else { (seq + 1, 0) };
            }
            self.clock.spend((seq - self.book.next) as usize);
            self.book.next = seq;
        }
        self.pair.tx_burst(&mut self.tx)
    }

    /// Reads and checks every byte of what has been received.
    ///
    /// A packet's round trip ends when its receiver has read it. With few packets under way, because so many are asked for,
    /// the clock is read then, behind a fence. Otherwise the time of the receive burst will do: a fence in every burst
    /// would be what is measured.
    #[inline(always)]
    fn examine(&mut self, now: u64) {
        if self.rx.is_empty() {
            return;
        }
        let few = self.load.rate.is_some() || self.load.inflight <= PRECISE;
        if !few || self.book.outstanding() > PRECISE {
            self.check(|book, seq, time| book.arrived(seq, now.saturating_sub(time)));
        } else {
            self.examine_few();
        }
        self.clock.spend(self.rx.len().div_ceil(self.segments));
        self.pair.free(&mut self.rx);
    }

    #[inline(never)]
    fn examine_few(&mut self) {
        let (mut heads, mut n) = ([(0, 0); PRECISE], 0);
        self.check(|_, seq, time| {
            if let Some(head) = heads.get_mut(n) {
                *head = (seq, time);
                n += 1;
            }
        });
        self.clock.settle();
        let now = self.clock.now();
        for (seq, time) in heads.into_iter().take(n) {
            self.book.arrived(seq, now.saturating_sub(time));
        }
    }

    /// Reads and checks the packets of a receive burst; tells `arrived` the number and the time of each.
    #[inline(always)]
    fn check(&mut self, mut arrived: impl FnMut(&mut Book, u64, u64)) {
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
                arrived(&mut self.book, seq, time);
            }
            self.book.corrupt += u64::from(!intact);
            at = if buf.more() { at + usize::from(buf.len()) } else { 0 };
        }
    }

    /// Waits for what is still under way. What has not come after a second without progress is lost.
    fn drain(&mut self) {
        let patience = self.clock.ticks(1.0);
        let mut last = self.clock.now();
        let unsent = self.tx.as_slice().iter().filter(|buf| !buf.more()).count();
        self.book.next -= unsent as u64; // the ring was full: never sent, so not lost
        self.pair.free(&mut self.tx);
        while self.book.outstanding() > 0 && self.clock.now() - last < patience {
            if self.pair.rx_burst(&mut self.rx, self.load.rx_burst) > 0 {
                last = self.clock.now();
                self.examine(last);
            } else {
                self.wait(last + patience);
            }
        }
        self.book.lost += self.book.outstanding() as u64;
    }
}
