//! The load generator: one thread per queue pair sends packets through the NIC's loopback and measures what
//! comes back (CC-NIC section 5.1). Every packet carries a time and a sequence number; its whole payload is
//! written, copied by the NIC, read and checked.
//!
//! It runs over any memory, real or simulated, and takes the time from a [`Clock`], so `ccnic bench` and
//! `ccnic sim` send the same load.

pub mod payload;
mod totals;
mod tracker;

use ccnic::host::QueuePair;
use ccnic::ring::Ring;
use ccnic::{Burst, SharedMemory};
use hdrhistogram::Histogram;

pub use totals::{Rtt, Totals};
use tracker::Tracker;

/// The machine that a generator runs on: its clock, and the cost of polling and of work.
pub trait Clock {
    /// The time in ticks.
    fn now(&self) -> u64;
    /// Waits until all earlier loads have completed. Otherwise the processor may read the clock before them.
    fn settle(&self);
    /// Ticks as nanoseconds.
    fn nanoseconds(&self, ticks: u64) -> u64;
    /// Yields the CPU if the other side needs it to make progress; false: go on polling.
    fn give_way(&self) -> bool;
    /// The next poll may last until this time. Real machines spin; a simulator can skip the time.
    fn sleep_until(&self, _: u64) {}
    /// This many packets have been written or checked. A simulator adds the time that this takes; on a real
    /// machine it has passed.
    fn spend(&self, _: usize) {}

    /// Seconds as ticks.
    fn ticks(&self, seconds: f64) -> u64 {
        // From the nanoseconds of a long span, so that rounding matters little.
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

/// With at most this many packets in flight, round trips are measured precisely: see `examine`.
const PRECISE: usize = 16;

/// The load of one thread.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    /// Bytes of each packet.
    pub size: u16,
    /// Packets per transmit burst.
    pub burst: usize,
    /// Buffers per receive burst.
    pub rx_burst: usize,
    /// The most packets in flight.
    pub inflight: usize,
    /// Packets per second offered; `None`: as many as possible.
    pub rate: Option<f64>,
    /// At a given rate: send a whole burst when its last packet is due; otherwise each packet when it is due.
    pub whole_bursts: bool,
    /// At a given rate: when this thread begins, as a part (0 to 1) of the time between two bursts. Threads
    /// that begin together would send at the same times, and queue behind each other.
    pub phase: f64,
    /// Seconds to measure, after `warmup`.
    pub seconds: f64,
    /// Seconds to run before measuring.
    pub warmup: f64,
    /// The measured time ends when this many packets have been received, if that is sooner.
    pub packets: Option<u64>,
}

impl Load {
    /// The load of thread `i` of `threads`, which begin one after the other.
    pub fn of_thread(self, i: u16, threads: u16) -> Load {
        Load { phase: f64::from(i) / f64::from(threads.max(1)), ..self }
    }
}

/// The result of one thread.
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
    tracker: Tracker,
    /// The clock when it was last read, and the packets received since.
    now: u64,
    since: usize,
}

/// Runs a load on a queue pair. `started` is called when the measured time begins, and `ended` when it is
/// over.
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
        tracker: Tracker::new()?,
        now: clock.now(),
        since: 0,
        clock,
    };
    generator.phase(load.warmup, None);
    generator.tracker.forget();
    let (before, start) = (generator.tracker.received, clock.now());
    started();
    generator.phase(load.seconds, load.packets);
    let (after, end) = (generator.tracker.received, clock.now());
    ended();
    let rtt = generator.tracker.rtt(|ticks| clock.nanoseconds(ticks))?;
    let seconds = clock.nanoseconds(end - start) as f64 / 1e9;
    generator.drain();
    let Tracker { received, lost, corrupt, .. } = generator.tracker;
    if received == 0 {
        return Err(LoadError::NoPacket);
    }
    Ok(Outcome { packets: after - before, seconds, lost, corrupt, rtt })
}

impl<M: SharedMemory, R: Ring, C: Clock> Generator<'_, M, R, C> {
    /// Sends and receives for some seconds, or until `packets` packets have been received.
    #[inline(never)]
    fn phase(&mut self, seconds: f64, packets: Option<u64>) {
        let start = self.clock.now();
        self.now = start; // no burst of this phase is older
        let end = start + self.clock.ticks(seconds);
        let gap = self.load.rate.map(|rate| self.clock.ticks(1.0) as f64 / rate);
        let late =
            if self.load.whole_bursts { self.burst() as f64 * self.load.phase } else { self.load.phase };
        let first = self.tracker.next;
        let last = packets.map_or(u64::MAX, |n| self.tracker.received.saturating_add(n));
        loop {
            // Receive, transmit, then read what was received: its lines arrive during the transmit burst.
            let received = self.pair.rx_burst(&mut self.rx, self.load.rx_burst);
            let now = self.time(received);
            // Open loop: the rate determines how many packets are due, not the packets received.
            let due = gap.map_or(usize::MAX, |gap| {
                (((now - start) as f64 / gap + 1.0 - late) as u64).saturating_sub(self.tracker.next - first)
                    as usize
            });
            let sent = self.send(now, due);
            self.examine(now);
            if sent + received == 0 {
                let ahead = if self.load.whole_bursts { self.burst() as u64 - 1 } else { 0 };
                let next = self.tracker.next - first + ahead;
                let next = gap.map_or(end, |gap| start + ((next as f64 + late) * gap) as u64 + 1);
                self.wait(next.min(end));
            }
            if now >= end || self.tracker.received >= last {
                break;
            }
        }
    }

    /// The time after a receive burst of `received` packets.
    ///
    /// Reading the clock costs as much as a small packet, so it is read once for several small bursts, as long as
    /// their packets are a small share of those in flight: the error of a round trip is at most 3 %.
    #[inline(always)]
    fn time(&mut self, received: usize) -> u64 {
        let outstanding = self.tracker.outstanding();
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
            let window = self.load.inflight.saturating_sub(self.tracker.outstanding());
            let (burst, room) = (self.burst(), window.min(due));
            // Without a rate, only whole bursts are sent.
            let whole = due == usize::MAX || self.load.whole_bursts;
            let want = if whole && room < burst { 0 } else { burst.min(room) };
            if want == 0 {
                return 0;
            }
            self.pair.alloc(self.load.size, want * self.segments, &mut self.tx);
            let (mut seq, mut at) = (self.tracker.next, 0);
            for buf in self.tx.iter_mut() {
                let more = buf.more();
                self.pair.with_mut(buf, |bytes| payload::fill(bytes, at, seq, now));
                (seq, at) = if more { (seq, at + 4096) } else { (seq + 1, 0) };
            }
            self.clock.spend((seq - self.tracker.next) as usize);
            self.tracker.next = seq;
        }
        self.pair.tx_burst(&mut self.tx)
    }

    /// Reads and checks every byte of what has been received.
    ///
    /// A packet's round trip ends when its receiver has read it. With few packets in flight the clock is read
    /// then, after a fence. Otherwise the time of the receive burst is taken, since a fence in every burst
    /// would dominate the measurement.
    #[inline(always)]
    fn examine(&mut self, now: u64) {
        if self.rx.is_empty() {
            return;
        }
        let few = self.load.rate.is_some() || self.load.inflight <= PRECISE;
        if !few || self.tracker.outstanding() > PRECISE {
            self.check(|tracker, seq, time| tracker.arrived(seq, now.saturating_sub(time)));
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
            self.tracker.arrived(seq, now.saturating_sub(time));
        }
    }

    /// Reads and checks the packets of a receive burst; calls `arrived` with the sequence number and the time
    /// of each.
    #[inline(always)]
    fn check(&mut self, mut arrived: impl FnMut(&mut Tracker, u64, u64)) {
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
                arrived(&mut self.tracker, seq, time);
            }
            self.tracker.corrupt += u64::from(!intact);
            at = if buf.more() { at + usize::from(buf.len()) } else { 0 };
        }
    }

    /// Waits for the packets still in flight. After a second without progress the rest count as lost.
    fn drain(&mut self) {
        let patience = self.clock.ticks(1.0);
        let mut last = self.clock.now();
        let unsent = self.tx.as_slice().iter().filter(|buf| !buf.more()).count();
        self.tracker.next -= unsent as u64; // the ring was full: never sent, so not lost
        self.pair.free(&mut self.tx);
        while self.tracker.outstanding() > 0 && self.clock.now() - last < patience {
            if self.pair.rx_burst(&mut self.rx, self.load.rx_burst) > 0 {
                last = self.clock.now();
                self.examine(last);
            } else {
                self.wait(last + patience);
            }
        }
        self.tracker.lost += self.tracker.outstanding() as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ccnic::heap::HeapMemory;
    use ccnic::ring::GroupedEpoch;
    use ccnic::testing::{Sides, config};
    use ccnic::{Config, nic};
    use std::cell::{Cell, RefCell};

    /// A clock with ticks of one nanosecond. It advances when it is read, and in steps that double while the
    /// generator waits. Each step polls the NIC, which runs on this thread, too.
    struct TestClock {
        now: Cell<u64>,
        step: Cell<u64>,
        nic: RefCell<(nic::NicQueue<HeapMemory, GroupedEpoch>, nic::Pipeline)>,
        /// Damages or drops packets in flight.
        fault: fn(&mut nic::Fetched),
    }

    impl Clock for TestClock {
        fn now(&self) -> u64 {
            self.now.set(self.now.get() + 500);
            self.poll();
            self.now.get()
        }

        fn settle(&self) {}

        fn nanoseconds(&self, ticks: u64) -> u64 {
            ticks
        }

        fn give_way(&self) -> bool {
            self.now.set(self.now.get() + self.step.get());
            self.step.set(self.step.get() * 2);
            self.poll();
            true
        }

        fn spend(&self, _: usize) {
            self.step.set(100);
        }
    }

    impl TestClock {
        fn poll(&self) {
            let (nic, _) = &mut *self.nic.borrow_mut();
            let mut fetched = nic::Fetched::default();
            nic.fetch(&mut fetched);
            (self.fault)(&mut fetched);
            let mem = nic.memory().clone();
            nic.send_back(&mem, fetched.rest(), &[]);
            nic.flush();
        }
    }

    fn run_with(load: Load, fault: fn(&mut nic::Fetched)) -> Result<Outcome, LoadError> {
        let config = Config { ring: 256, buffers: 512, ..config::<GroupedEpoch>() };
        let Sides { mut host, nic, pipeline, .. } = Sides::<GroupedEpoch>::new(&config);
        let clock =
            TestClock { now: Cell::new(0), step: Cell::new(100), nic: RefCell::new((nic, pipeline)), fault };
        run(&mut host, load, &clock, || (), || ())
    }

    fn load(size: u16) -> Load {
        Load {
            size,
            burst: 8,
            rx_burst: 32,
            inflight: 16,
            rate: None,
            whole_bursts: false,
            phase: 0.0,
            seconds: 1e-3,
            warmup: 2e-5,
            packets: None,
        }
    }

    #[test]
    fn whole_packets_come_back_and_are_counted() {
        for size in [64, 1500, 9000] {
            let outcome = run_with(Load { packets: Some(200), ..load(size) }, |_| ()).unwrap();
            assert!((200..240).contains(&outcome.packets), "{size}: {}", outcome.packets);
            assert_eq!((outcome.lost, outcome.corrupt, outcome.rtt.len()), (0, 0, outcome.packets));
        }
    }

    #[test]
    fn packets_are_sent_at_the_rate() {
        let outcome = run_with(Load { rate: Some(1e6), ..load(64) }, |_| ()).unwrap();
        let expected = 1e6 * outcome.seconds;
        assert!((outcome.packets as f64 - expected).abs() < 0.05 * expected, "{}", outcome.packets);
    }

    #[test]
    fn lost_packets_are_counted() {
        let fault = |fetched: &mut nic::Fetched| {
            let first = fetched.rest().first();
            if first.is_some_and(|desc| desc.meta == 0 && desc.offset() % 7 == 3) {
                fetched.advance(1);
            }
        };
        let outcome = run_with(load(64), fault).unwrap();
        assert_eq!((outcome.lost, outcome.corrupt), (0, 0), "offsets are multiples of 128");
        let fault = |fetched: &mut nic::Fetched| {
            if fetched.rest().len() > 4 {
                fetched.advance(1);
            }
        };
        let outcome = run_with(Load { packets: Some(200), ..load(64) }, fault).unwrap();
        assert!(outcome.lost > 10 && outcome.corrupt == 0, "{}", outcome.lost);
    }

    #[test]
    fn a_nic_that_returns_nothing_is_an_error() {
        let drop_all = |fetched: &mut nic::Fetched| fetched.advance(32);
        assert!(matches!(run_with(load(64), drop_all), Err(LoadError::NoPacket)));
    }
}
