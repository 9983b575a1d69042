//! When requests are sent: the preload, then open or closed loop.

use std::time::Duration;

use anyhow::{Context, bail};
use quanta::Clock;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rand_distr::{Distribution, Exp1};

use crate::book::{Book, Tally};
use crate::preload::Writes;
use crate::protocol::Request;
use crate::silence::{Silence, Turn};
use crate::transport::{MOST_INFLIGHT, Transport};
use crate::value::{self, Version};
use crate::workload::{Draw, Plan};

/// Requests that are sent before replies are taken again.
const TURN: usize = 32;
/// Turns without anything to do before others get the CPU.
const IDLE: u32 = 256;
/// How long a run without a limit waits at its end for answers that cannot be lost.
const PATIENCE: Duration = Duration::from_secs(5);
/// The limits of silence that a run waits at its end, while answers come.
const END: u64 = 4;
/// Requests of a preload in flight: what a socket of the usual size holds of large values.
const PRELOAD: usize = 16;

/// What decides when a request is sent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pace {
    /// The next one when one was answered.
    Closed,
    /// So many a second, whatever the answers do.
    Open {
        /// Requests a second.
        rate: f64,
        /// At random times (a Poisson process), or else at equal distances.
        poisson: bool,
    },
}

/// How requests are sent.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    /// When.
    pub pace: Pace,
    /// Requests in flight, at most.
    pub inflight: usize,
    /// How long to measure.
    pub measured: Duration,
    /// How long to send before that.
    pub warmup: Duration,
    /// When an answer counts as lost.
    pub timeout: Duration,
    /// How long the store may answer nothing before the run ends with an error: at least `timeout`. Nothing: for ever.
    pub patience: Option<Duration>,
    /// Write all objects first.
    pub preload: bool,
    /// The number of this run in versions of values; runs that share a store should have different ones.
    pub run: u32,
}

impl Load {
    /// # Errors
    /// The first field that is out of range, with what it may be.
    pub fn check(&self) -> anyhow::Result<()> {
        let inflight = self.inflight;
        let holds = (1..=MOST_INFLIGHT).contains(&inflight);
        anyhow::ensure!(holds, "--inflight is {inflight}; choose 1 to {MOST_INFLIGHT}");
        if let Pace::Open { rate, .. } = self.pace {
            let holds = (1.0..=1e9).contains(&rate);
            anyhow::ensure!(holds, "--rate is {rate}; choose 1 to 1000000000 requests a second");
        }
        anyhow::ensure!(!self.measured.is_zero(), "--seconds is 0; choose more");
        anyhow::ensure!(!self.timeout.is_zero(), "--timeout is 0; choose more");
        Ok(())
    }

    /// How long the store may be silent. Who waits for a datagram waits for the store.
    fn limit(&self) -> Option<Duration> {
        self.patience.map(|patience| patience.max(self.timeout))
    }
}

/// What a run has shown.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// What was counted.
    pub tally: Tally,
    /// Seconds that were measured.
    pub seconds: f64,
    /// Requests of an open loop that were due and never sent, since the store or this program was too slow.
    pub unsent: u64,
    /// Datagrams that were no answer.
    pub strays: u64,
    /// Seconds that the preload took, with the writes that were sent again.
    pub preload: Option<(f64, u64)>,
}

/// Runs a load.
///
/// # Errors
/// When the load cannot be, when the store can be reached no longer or is silent, or when it does not take the preload.
pub fn run(transport: impl Transport, plan: &Plan, load: &Load) -> anyhow::Result<Outcome> {
    run_between(transport, plan, load, |_| Ok(()))
}

/// When nothing is in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edge {
    /// After the preload, before the warm-up.
    Begin,
    /// After the last answer.
    End,
}

/// As [`run`], with a look at the server before and after the requests that are not the preload's.
///
/// # Errors
/// As [`run`], and those of `look`.
pub fn run_between(
    transport: impl Transport,
    plan: &Plan,
    load: &Load,
    mut look: impl FnMut(Edge) -> anyhow::Result<()>,
) -> anyhow::Result<Outcome> {
    load.check()?;
    let value = vec![0; plan.largest()];
    let mut runner = Runner { transport, plan, book: Book::new(plan, load.run)?, clock: Clock::new(), value };
    let preload = if load.preload { Some(runner.preload(load)?) } else { None };
    look(Edge::Begin)?;
    let (seconds, unsent) = runner.measure(load)?;
    look(Edge::End)?;
    let strays = runner.transport.strays();
    Ok(Outcome { tally: runner.book.tally, seconds, unsent, strays, preload })
}

struct Runner<'a, T> {
    transport: T,
    plan: &'a Plan,
    book: Book<'a>,
    clock: Clock,
    /// Where values are made.
    value: Vec<u8>,
}

impl<T: Transport> Runner<'_, T> {
    /// Ticks of the clock in a time.
    fn ticks(&self, time: Duration) -> u64 {
        // The clock is linear: what a million ticks are says what one is.
        let ns_per_tick = self.clock.delta_as_nanos(0, 1 << 40) as f64 / (1_u64 << 40) as f64;
        (time.as_nanos() as f64 / ns_per_tick) as u64
    }

    /// The silence of a store that was not asked yet.
    fn silence(&self, load: &Load) -> Silence {
        Silence::new(load.limit().map(|limit| self.ticks(limit)))
    }

    /// Sends a request that was due at `due`; false when there is no room for it now.
    #[inline]
    fn send(&mut self, draw: Draw, preload: bool, due: u64, now: u64) -> anyhow::Result<bool> {
        let (number, version) = self.book.next(draw);
        let version: Version = if preload { self.book.first() } else { version };
        let key = value::key(draw.object);
        let request = if draw.set {
            let value = &mut self.value[..self.plan.size(draw.object)];
            value::fill(draw.object, version, value);
            Request::Set(&key, value)
        } else {
            Request::Get(&key)
        };
        let sent = self.transport.send(number, request)?;
        if sent {
            self.book.sent(draw, due, now, preload);
        }
        Ok(sent)
    }

    /// Takes what has come, and gives up what was sent before `limit`. `lost` gets what must be done again.
    #[inline]
    fn receive(&mut self, limit: u64, lost: &mut impl FnMut(Draw)) -> anyhow::Result<usize> {
        let Runner { transport, book, clock, .. } = self;
        let taken = transport.receive(&mut |number, reply| {
            book.answered(number, reply, clock.raw(), |ticks| clock.delta_as_nanos(0, ticks));
        })?;
        book.expire(limit, |number| transport.forget(number), lost);
        Ok(taken)
    }

    /// Does a turn of the preload; returns whether there was anything to do.
    fn preload_turn(
        &mut self,
        writes: &mut Writes<'_>,
        silence: &mut Silence,
        load: &Load,
    ) -> anyhow::Result<bool> {
        let begun = self.clock.raw();
        let mut turn = Turn { now: begun, ..Turn::default() };
        let mut sent = 0;
        while sent < TURN && self.book.inflight() < PRELOAD {
            let Some(object) = writes.next() else { break };
            let now = self.clock.raw();
            turn.tried = true;
            if !self.send(Draw { object, set: true }, true, now, now)? {
                turn.full = true;
                break;
            }
            writes.sent();
            sent += 1;
        }
        self.transport.flush()?;
        let now = self.clock.raw();
        let limit = now.saturating_sub(self.ticks(load.timeout));
        turn.replies = self.receive(limit, &mut |draw| writes.lost(draw.object, now))?;
        (turn.lost, turn.oldest) = (self.book.tally.lost, self.book.oldest());
        let waiting = || self.book.waiting().map(|draw| draw.object);
        if silence.turn(turn) {
            bail!("{}{}", self.silent("the preload", load, turn), writes.hint(waiting()));
        }
        if let Some(limit) = load.limit()
            && let Some(object) = writes.hopeless(now, self.ticks(limit))
        {
            let bytes = self.plan.size(object);
            bail!(
                "the store does not answer to the write of a value of {bytes} bytes, though to others{}",
                writes.hint(waiting())
            );
        }
        Ok(sent + turn.replies > 0)
    }

    /// What is known of a store that is silent; `to` says what it was to answer.
    #[cold]
    fn silent(&self, to: &str, load: &Load, turn: Turn) -> String {
        let seconds = load.limit().unwrap_or_default().as_secs_f64();
        let (waiting, lost) = (self.book.inflight(), turn.lost);
        let mut text = format!("the store does not answer to {to}: nothing has come for {seconds} s");
        if waiting > 0 {
            text += &format!(", {waiting} requests wait");
        }
        if lost > 0 {
            text += &format!(", {lost} were lost");
        }
        if turn.full {
            text += ", there is no room for more";
        }
        if let Some(clue) = self.transport.clue() {
            text = text + ", " + clue;
        }
        text
    }

    /// Writes every object once: the seconds that it took, and the writes that were sent again.
    fn preload(&mut self, load: &Load) -> anyhow::Result<(f64, u64)> {
        let begun = self.clock.raw();
        let (mut writes, mut idle) = (Writes::new(self.plan), Idle::default());
        let mut silence = self.silence(load);
        while writes.next().is_some() || self.book.inflight() > 0 {
            let worked = self.preload_turn(&mut writes, &mut silence, load)?;
            idle.turn(worked);
        }
        let tally = &self.book.tally;
        if let Some(refusal) = &tally.refusal {
            bail!("the store refused {} writes of the preload: {refusal}", tally.refused);
        }
        anyhow::ensure!(tally.is_right(), "the store answered the preload's writes with something else");
        let seconds = self.clock.delta_as_nanos(begun, self.clock.raw()) as f64 / 1e9;
        self.book.loaded()?;
        Ok((seconds, writes.repeated))
    }

    /// Sends what the plan says; the seconds that were measured, and the requests that were due and not sent.
    fn measure(&mut self, load: &Load) -> anyhow::Result<(f64, u64)> {
        let timeout = self.ticks(load.timeout);
        let begun = self.clock.raw();
        let from = begun + self.ticks(load.warmup);
        let until = from + self.ticks(load.measured);
        let most = load.limit().map_or(self.ticks(PATIENCE), |limit| self.ticks(limit).saturating_mul(END));
        let wait = until.saturating_add(timeout.max(most));
        self.book.measure(from, until);
        let mut due = Due::new(load.pace, begun, self.ticks(Duration::from_secs(1)) as f64, load.run);
        let (mut number, mut idle, mut silence) = (0, Idle::default(), self.silence(load));
        loop {
            let mut now = self.clock.raw();
            let mut turn = Turn { now, ..Turn::default() };
            if now >= until && (self.book.inflight() == 0 || now >= wait) {
                break;
            }
            let mut sent = 0;
            while now < until && sent < TURN && self.book.inflight() < load.inflight && due.is_due(now) {
                turn.tried = true;
                if !self.send(self.plan.request(number), false, due.when(now), now)? {
                    turn.full = true;
                    break;
                }
                due.advance();
                (number, sent) = (number + 1, sent + 1);
                now = self.clock.raw();
            }
            self.transport.flush()?;
            // Read once a turn: a request in flight is answered the sooner, the shorter the turns are.
            turn.replies = self.receive(now.saturating_sub(timeout), &mut |_| ())?;
            (turn.lost, turn.oldest) = (self.book.tally.lost, self.book.oldest());
            if silence.turn(turn) {
                let to = if now < until { "the load" } else { "the last requests" };
                bail!(self.silent(to, load, turn));
            }
            idle.turn(sent + turn.replies > 0);
        }
        self.book.close();
        let Tally { answered, lost, .. } = self.book.tally;
        anyhow::ensure!(answered > 0 || lost == 0, "the store has answered none of {lost} requests in time");
        let seconds = self.clock.delta_as_nanos(from, until) as f64 / 1e9;
        Ok((seconds, due.left(until).context("the rate is out of range")?))
    }
}

/// When the next request is due.
struct Due {
    pace: Pace,
    /// Of an open loop, in ticks.
    next: f64,
    /// Ticks between two requests on average.
    gap: f64,
    rng: SmallRng,
}

impl Due {
    fn new(pace: Pace, begun: u64, second: f64, seed: u32) -> Due {
        let gap = if let Pace::Open { rate, .. } = pace { second / rate } else { 0.0 };
        Due { pace, next: begun as f64, gap, rng: SmallRng::seed_from_u64(seed.into()) }
    }

    #[inline]
    fn is_due(&self, now: u64) -> bool {
        self.pace == Pace::Closed || self.next <= now as f64
    }

    /// The time from which the latency of the next request counts.
    #[inline]
    fn when(&self, now: u64) -> u64 {
        if self.pace == Pace::Closed { now } else { self.next as u64 }
    }

    #[inline]
    fn advance(&mut self) {
        self.next += match self.pace {
            Pace::Closed => 0.0,
            Pace::Open { poisson: false, .. } => self.gap,
            Pace::Open { poisson: true, .. } => self.gap * exponential(&mut self.rng),
        };
    }

    /// Requests that are still due before `until`.
    fn left(&mut self, until: u64) -> Option<u64> {
        if self.pace == Pace::Closed {
            return Some(0);
        }
        let left = ((until as f64 - self.next) / self.gap).ceil();
        left.is_finite().then_some(left.max(0.0) as u64)
    }
}

fn exponential(rng: &mut impl Rng) -> f64 {
    Exp1.sample(rng)
}

/// Gives the CPU to others when there is nothing to do.
#[derive(Default)]
struct Idle(u32);

impl Idle {
    #[inline]
    fn turn(&mut self, worked: bool) {
        self.0 = if worked { 0 } else { self.0 + 1 };
        if self.0 >= IDLE {
            self.0 = 0;
            std::thread::yield_now();
        } else if !worked {
            std::hint::spin_loop();
        }
    }
}
