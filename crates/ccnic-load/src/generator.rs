//! The loop of a load: what one thread does in each turn, with a ring of any type, on any memory.
//!
//! Everything in [`Generator::turn`] is inlined, so that the measured loop has no calls or branches that a program of one ring type would
//! not have. It is compiled for each ring type, memory and register width, so it stands in one place.

use ccnic::host::QueuePair;
use ccnic::ring::Ring;
use ccnic::{Burst, SharedMemory};

use crate::payload::{self, Header};
use crate::tracker::{self, Tracker};
use crate::{Clock, Frames, Load, LoadError, Outcome, Steps};

/// With at most this many packets in flight, round trips are measured precisely: a packet's ends when its receiver has
/// read it, so the clock is read then, after a fence. With more, a fence in every burst would dominate the measurement.
const PRECISE: usize = 16;

/// Seconds between two looks at what is still in flight at the end.
const DRAIN_STEP: f64 = 1e-3;

/// Of turns that neither receive nor send, one in so many reads the clock.
const IDLE_TURNS: u32 = 64;

/// A thread's state while it runs.
pub(crate) struct Generator<'a, M: SharedMemory, R: Ring, C: Clock, const N: usize> {
    pair: &'a mut QueuePair<M, R>,
    load: Load,
    clock: &'a C,
    tx: Burst,
    rx: Burst,
    /// Buffers of one packet.
    segments: usize,
    /// Packets of a transmit burst.
    burst: usize,
    /// Packets are written and read where they lie, without buffers that this program holds.
    in_place: bool,
    /// Packets that were lent in this turn.
    lent: usize,
    /// Round trips are measured precisely while few packets are in flight.
    few: bool,
    pub(crate) tracker: Tracker<N>,
    /// What packets that are sent begin with.
    header: Header<N>,
    /// The clock when it was last read, and the packets received since.
    now: u64,
    since: usize,
    /// Turns in a row that neither received nor sent anything.
    idle: u32,
}

/// When a loop ends, and what is sent until then.
struct Plan {
    start: u64,
    end: u64,
    /// Ticks between two packets; `None`: as many as possible.
    gap: Option<f64>,
    /// Packets that this thread begins later.
    late: f64,
    /// The first packet of this loop, and the number that are to be received in the whole run when it ends.
    first: u64,
    last: u64,
}

impl<'a, M: SharedMemory, R: Ring, C: Clock, const N: usize> Generator<'a, M, R, C, N> {
    pub(crate) fn new(
        pair: &'a mut QueuePair<M, R>,
        load: Load,
        frames: Frames<N>,
        clock: &'a C,
    ) -> Generator<'a, M, R, C, N> {
        let segments = usize::from(load.size).div_ceil(4096);
        Generator {
            load,
            tx: Burst::new(),
            rx: Burst::new(),
            segments,
            burst: load.burst.min(load.inflight).min(Burst::CAPACITY / segments),
            // Without areas a program allocates and receives buffers, as the paper's does.
            in_place: segments == 1 && pair.config().has_areas(),
            lent: 0,
            few: load.rate.is_some() || load.inflight <= PRECISE,
            tracker: Tracker::new(load.size, frames.back),
            header: frames.sent,
            now: clock.now(),
            since: 0,
            idle: 0,
            pair,
            clock,
        }
    }

    /// Offers so many packets per second from now on.
    pub(crate) fn offer(&mut self, rate: f64) {
        (self.load.rate, self.few) = (Some(rate), true);
    }

    /// Measures the load; what is lost is not known before the end.
    pub(crate) fn measure(&mut self, steps: &mut impl Steps) -> Result<Outcome, LoadError> {
        self.tracker.forget();
        let (before, start) = (self.tracker.received, self.clock.now());
        steps.started();
        self.phase(self.load.seconds, self.load.packets);
        let (packets, end) = (self.tracker.received - before, self.clock.now());
        let seconds = self.clock.nanoseconds(end - start) as f64 / 1e9;
        steps.ended(packets as f64 / seconds);
        let rtt = self.tracker.rtt(&|ticks| self.clock.nanoseconds(ticks))?;
        Ok(Outcome { packets, seconds, lost: 0, corrupt: 0, rtt })
    }

    /// Sends and receives for some seconds, or until `packets` packets have been received.
    pub(crate) fn phase(&mut self, seconds: f64, packets: Option<u64>) {
        let start = self.clock.now();
        self.follow(&Plan {
            start,
            end: start + self.clock.ticks(seconds),
            gap: self.load.rate.map(|rate| self.clock.ticks(1.0) as f64 / rate),
            late: if self.load.whole_bursts { self.burst as f64 * self.load.phase } else { self.load.phase },
            first: self.tracker.next,
            last: packets.map_or(u64::MAX, |n| self.tracker.received.saturating_add(n)),
        });
    }

    /// Sends and receives as planned.
    #[inline(never)]
    fn follow(&mut self, plan: &Plan) {
        self.now = plan.start; // no burst of this plan is older
        let clock = self.clock;
        clock.compile_for_it(
            #[inline(always)]
            || while self.turn(plan) {},
        );
    }

    /// Receives a burst and sends one; false when the phase is over.
    ///
    /// What lies in buffers is read after the transmit burst, during which its lines arrive. What is lent is read at
    /// once, and so is everything while few packets are in flight that wait for each other: then the clock is read as
    /// soon as the packets have been, and again when the next ones are made.
    #[inline(always)]
    fn turn(&mut self, plan: &Plan) -> bool {
        let precise = self.precise();
        let at_once = precise && (self.in_place() || plan.gap.is_none());
        let received = self.receive();
        if received == 0 && self.waits(plan) {
            self.wait(plan);
            return true;
        }
        if at_once && received > 0 {
            self.read();
            self.clock.settle();
            self.tracker.finish(self.clock.now());
            self.release();
        }
        let mut want = if plan.gap.is_none() { self.want(usize::MAX) } else { 0 };
        let now = self.time(received, precise, want > 0 || plan.gap.is_some());
        if let Some(gap) = plan.gap {
            want = self.want(self.due(plan, gap, now));
        }
        let sent = self.send(want, now);
        if !at_once && received > 0 {
            self.read();
            let end = if self.precise() {
                self.clock.settle();
                self.clock.now()
            } else {
                now
            };
            self.tracker.finish(end);
            self.release();
        }
        if sent + received == 0 {
            self.wait(plan);
        } else {
            self.idle = 0;
        }
        now < plan.end && self.tracker.received < plan.last
    }

    /// Packets are written and read where they lie. Known when this is compiled for rings without areas.
    #[inline(always)]
    fn in_place(&self) -> bool {
        R::AREAS && self.in_place
    }

    /// True when round trips are measured precisely.
    #[inline(always)]
    fn precise(&self) -> bool {
        self.few && self.tracker.outstanding() <= PRECISE
    }

    /// Receives a burst; returns its buffers. What was lent has been read, the rest lies in `rx`.
    #[inline(always)]
    fn receive(&mut self) -> usize {
        let max = self.load.rx_burst.min(tracker::BURST);
        if self.in_place() {
            let tracker = &mut self.tracker;
            let lent = self.pair.rx_lend(
                max,
                #[inline(always)]
                |_, bytes, _| tracker.packet(bytes),
            );
            if let Ok(n) = lent {
                self.lent = n;
                return n;
            }
        }
        self.pair.rx_burst(&mut self.rx, max)
    }

    /// Reads and checks every byte of what lies in `rx`.
    #[inline(always)]
    fn read(&mut self) {
        if !self.rx.is_empty() {
            self.read_buffers();
        }
    }

    /// Out of line: [`turn`](Generator::turn) reads in two places.
    #[inline(never)]
    fn read_buffers(&mut self) {
        let clock = self.clock;
        clock.compile_for_it(
            #[inline(always)]
            || self.check_buffers(),
        );
    }

    #[inline(always)]
    fn check_buffers(&mut self) {
        let tracker = &mut self.tracker;
        for buf in self.rx.as_slice() {
            let (whole, more) = (self.segments == 1, buf.more());
            self.pair.with(
                buf,
                #[inline(always)]
                |bytes| if whole && !more { tracker.packet(bytes) } else { tracker.segment(bytes, more) },
            );
        }
    }

    /// Done with what was received.
    #[inline(always)]
    fn release(&mut self) {
        self.clock.spend(self.lent + self.rx.len().div_ceil(self.segments));
        self.lent = 0;
        if !self.rx.is_empty() {
            self.free_buffers();
        }
    }

    /// Out of line, as `read_buffers`.
    #[inline(never)]
    fn free_buffers(&mut self) {
        self.pair.free(&mut self.rx);
    }

    /// The time, after a receive burst of `received` packets. `fresh` asks for one that was read in this turn.
    ///
    /// Reading the clock costs as much as a small packet, so it is read once for several small bursts, as long as
    /// their packets are a small share of those in flight: the error of a round trip is at most 3 %. While nothing
    /// comes and nothing is sent, only the end of the phase depends on it.
    #[inline(always)]
    fn time(&mut self, received: usize, precise: bool, fresh: bool) -> u64 {
        self.since += received;
        let old = if received > 0 {
            !precise && self.since * 32 < self.tracker.outstanding()
        } else {
            !fresh && !self.idle.is_multiple_of(IDLE_TURNS)
        };
        if !old {
            (self.now, self.since) = (self.clock.now(), 0);
        }
        self.now
    }

    /// True when all is as in the last turn, which found nothing to do, and the clock need not be read yet.
    #[inline(always)]
    fn waits(&self, plan: &Plan) -> bool {
        !self.idle.is_multiple_of(IDLE_TURNS) && plan.gap.is_none() && self.tx.is_empty()
    }

    /// Nothing was received or sent.
    #[inline(always)]
    fn wait(&mut self, plan: &Plan) {
        self.idle = self.idle.wrapping_add(1);
        if self.clock.give_way() {
            return;
        }
        let next = plan.gap.map_or(plan.end, |gap| {
            let ahead = if self.load.whole_bursts { self.burst as u64 - 1 } else { 0 };
            let next = self.tracker.next - plan.first + ahead;
            plan.start + ((next as f64 + plan.late) * gap) as u64 + 1
        });
        self.clock.sleep_until(next.min(plan.end));
        self.pair.relax();
    }

    /// Packets that are due. Open loop: the rate determines that, not the packets received.
    #[inline(always)]
    fn due(&self, plan: &Plan, gap: f64, now: u64) -> usize {
        let due = ((now - plan.start) as f64 / gap + 1.0 - plan.late) as u64;
        due.saturating_sub(self.tracker.next - plan.first) as usize
    }

    /// Packets of the next transmit burst, as the window and those that are due allow.
    #[inline(always)]
    fn want(&self, due: usize) -> usize {
        if !self.tx.is_empty() {
            return self.tx.len(); // the ring was full
        }
        let room = self.load.inflight.saturating_sub(self.tracker.outstanding()).min(due);
        // Without a rate, only whole bursts are sent.
        let whole = due == usize::MAX || self.load.whole_bursts;
        if whole && room < self.burst { 0 } else { self.burst.min(room) }
    }

    /// A transmit burst of so many packets; returns the buffers that were sent.
    #[inline(always)]
    fn send(&mut self, want: usize, now: u64) -> usize {
        if want == 0 {
            return 0;
        }
        if self.in_place() {
            return self.fill(want, now);
        }
        let first = self.tracker.next;
        if self.tx.is_empty() {
            self.make(want, now);
        }
        let sent = self.pair.tx_burst(&mut self.tx);
        if self.tracker.next > first {
            self.clock.spend((self.tracker.next - first) as usize);
        }
        sent
    }

    /// Writes every byte of packets in the ring, and sends them.
    #[inline(always)]
    fn fill(&mut self, want: usize, now: u64) -> usize {
        let (first, header) = (self.tracker.next, self.header);
        let sent = self.pair.tx_fill(
            self.load.size,
            want,
            &mut self.tx,
            #[inline(always)]
            |i, bytes| {
                payload::fill_after(&header, bytes, 0, first + i as u64, now);
                0
            },
        );
        self.tracker.sent(sent, now);
        self.clock.spend(sent);
        sent
    }

    /// Makes packets in `tx`: writes every byte.
    #[inline(always)]
    fn make(&mut self, want: usize, now: u64) {
        self.pair.alloc(self.load.size, want * self.segments, &mut self.tx);
        let (first, header) = (self.tracker.next, self.header);
        if self.segments == 1 {
            for (buf, seq) in self.tx.iter_mut().zip(first..) {
                self.pair.with_mut(
                    buf,
                    #[inline(always)]
                    |bytes| payload::fill_after(&header, bytes, 0, seq, now),
                );
            }
            self.tracker.sent(self.tx.len(), now);
        } else {
            self.make_chains(now);
        }
    }

    /// `make` for packets of several buffers.
    #[inline(always)]
    fn make_chains(&mut self, now: u64) {
        let (mut seq, mut at, header) = (self.tracker.next, 0, self.header);
        for buf in self.tx.iter_mut() {
            let more = buf.more();
            self.pair.with_mut(
                buf,
                #[inline(always)]
                |bytes| payload::fill_after(&header, bytes, at, seq, now),
            );
            (seq, at) = if more { (seq, at + 4096) } else { (seq + 1, 0) };
        }
        self.tracker.next = seq;
    }

    /// Sends nothing for some seconds: packets in flight come back.
    pub(crate) fn pause(&mut self, seconds: f64) {
        self.only_receive(self.clock.ticks(seconds).max(1), u64::MAX);
    }

    fn only_receive(&mut self, ticks: u64, last: u64) {
        let start = self.clock.now();
        self.follow(&Plan {
            start,
            end: start + ticks,
            gap: Some(2.0 * ticks as f64), // nothing is due before the end
            late: 1.0,
            first: self.tracker.next,
            last,
        });
    }

    /// Waits for the packets still in flight. After a second without progress the rest count as lost.
    pub(crate) fn drain(&mut self) {
        let (patience, step) = (self.clock.ticks(1.0), self.clock.ticks(DRAIN_STEP));
        let unsent = self.tx.as_slice().iter().filter(|buf| !buf.more()).count();
        self.tracker.next -= unsent as u64; // the ring was full: never sent, so not lost
        self.pair.free(&mut self.tx);
        let mut start = self.clock.now();
        let mut last = start;
        while self.tracker.outstanding() > 0 && start - last < patience {
            let received = self.tracker.received;
            self.only_receive(step, received + self.tracker.outstanding() as u64);
            start = self.clock.now();
            if self.tracker.received > received {
                last = start;
            }
        }
        self.tracker.lost += self.tracker.outstanding() as u64;
    }
}
