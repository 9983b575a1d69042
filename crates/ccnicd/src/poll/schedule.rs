//! How a worker shares its time among clients: deficit round robin, in time.
//!
//! After Shreedhar and Varghese, "Efficient Fair Queueing using Deficit Round Robin" (SIGCOMM '95), with the time that a poll took in
//! place of the bytes of a packet: what a poll costs is only known afterwards, and only time counts everything alike (large copies, bad
//! descriptors, page faults, notifications, the steps of an end).
//!
//! ```text
//!            ┌───────────────── a round ─────────────────┐
//!   busy:    └► A ───────────► B ───────────► C ─────────┘   each in its turn: its credit grows by a quantum; it is polled
//!                     ▲                       │              while it has credit and finds packets; the time is taken off
//!      found packets, │                       │ found none
//!      or took long   │                       ▼ for a while
//!   idle:       D ──► E ──► F ──► D             one poll of one client, then none for 15 times as long;
//!                                               all the time while nobody is busy
//! ```
//!
//! * **Busy clients** get equal time. One that took more than its credit is in debt and is passed over until the rounds have paid for it.
//!   One that finds nothing more gives up the credit that it has left: time is not saved up. When all are in debt, the one with the least
//!   debt is next at once: no time is wasted.
//! * **Idle clients** together get at most one part in [`SHARE`] while anybody is busy, client by client, so that a program with many
//!   queues delays no other. What one of them takes beyond a quantum is its own debt.
//! * **Commands** of the control thread get at most one part in [`SHARE`] too ([`Scheduler::attend`]).
//! * **A client alone** is polled without any of this: no clock is read, but in a few stretches of polls that are
//!   [timed](super::busy).
//!
//! Generic over the clients and over the core with its clock, so that tests compute every share exactly.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;

use super::busy::{BusyTime, Load};

/// Idle clients, and commands, get at most one part in so many of the time.
pub(crate) const SHARE: u64 = 16;

/// Polls of a client alone between two rests of the core, if it found packets in one of the last [`AWAKE`] polls, some tens of
/// microseconds. A rest lasts 40 to 140 cycles (PAUSE), a poll that finds nothing some 20: with a rest after each, a lone packet would
/// come during one more often than not.
const SPIN: usize = 16;
const AWAKE: usize = 4096;

/// Polls of a client alone between two looks at the commands, if they find nothing; those that find packets count as [`SPIN`], for they
/// take several hundred nanoseconds. A look waits until this core's stores are done.
const POLLS_ALONE: usize = 64 * SPIN;

/// Turns, and commands, in a row at most, should the clock stand still.
const STEPS: usize = 256;

/// The most empty polls before a core rests.
const SWEEP_MAX: usize = 1024;

/// The core that a scheduler shares out.
pub(crate) trait Core {
    /// The time, in ticks of any length.
    fn now(&mut self) -> u64;

    /// The time since `from` that what this thread did meanwhile is to be charged with, and the time now.
    fn since(&mut self, from: u64) -> (u64, u64) {
        let now = self.now();
        (now.saturating_sub(from), now)
    }

    /// Nothing has been found anywhere: lets others have the core, or its resources.
    fn relax(&mut self);
}

/// What a scheduler polls.
pub(crate) trait Polled {
    /// What all of them reach while they are polled.
    type Shared;

    /// Up to so many polls in a row, until one has found something; returns how much that one did for packets. A poll does a bounded
    /// amount of work.
    fn spin(&mut self, polls: usize, shared: &mut Self::Shared) -> usize;

    /// Empty polls in a row after which there is nothing to do at present: every queue that has been in use lately has been looked at.
    fn round(&self, shared: &Self::Shared) -> usize;

    /// Empty polls in a row after which every queue has been looked at. Never changes.
    fn sweep(&self, shared: &Self::Shared) -> usize;

    /// The core has slept since the last poll, or tried to.
    fn awoke(&mut self, _shared: &mut Self::Shared) {}

    /// True when it is not to be polled any more.
    fn has_left(&self) -> bool;
}

/// The scheduler's times, in ticks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times {
    /// A microsecond.
    microsecond: u64,
    /// What a busy client gets in a round: about as long as a poll that copies as much as one may. A program with few packets in flight
    /// has nothing waiting for a moment when they are done, and waits so long for each other one. Were it shorter, looks at clients that
    /// find nothing would take more of each round.
    pub(crate) quantum: u64,
    /// What a look at an idle client costs at most: it is busy if it takes longer.
    pub(crate) look: u64,
    /// A busy client that finds nothing for so long is idle.
    pub(crate) idle_after: u64,
    /// More than this is not owed. It is far more than a client can make a poll cost; a machine that stood still for longer was not its
    /// fault.
    pub(crate) debt: u64,
    /// Between two looks at the commands.
    pub(crate) batch: u64,
    /// A busy client that waits longer for its turn than this is served late: see [`Waits`].
    pub(crate) late: u64,
}

impl Times {
    /// The times of the daemon, for a clock of so many ticks in a microsecond.
    pub(crate) const fn new(microsecond: u64) -> Times {
        Times {
            microsecond,
            quantum: microsecond,
            look: 2 * microsecond,
            idle_after: 50 * microsecond,
            debt: 100_000 * microsecond,
            batch: 16 * microsecond,
            late: 1000 * microsecond,
        }
    }
}

/// How long a busy client has waited for its turns, while others had theirs and commands were executed. Without the time in which this
/// thread had no CPU, as far as the core can tell. Only commands are in the way of a client alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Waits {
    /// The longest time between two turns, in ticks.
    pub(crate) longest: u64,
    /// Turns that came later after the one before than [`Times::late`].
    pub(crate) late: u64,
}

impl Waits {
    #[inline(always)]
    fn note(&mut self, waited: u64, times: &Times) {
        self.longest = self.longest.max(waited);
        self.late += u64::from(waited > times.late);
    }
}

/// A client in the schedule.
struct Entry<C> {
    client: C,
    /// Ticks that it may still use in this round; negative: a debt.
    credit: i64,
    /// When it found packets last.
    found: u64,
    /// When it was polled last, in time that this thread had its CPU; none while it is alone.
    left: Option<u64>,
    waits: Waits,
}

/// The clients of one worker, and who is next.
pub(crate) struct Scheduler<C, K> {
    core: K,
    times: Times,
    /// In the order of their turns.
    busy: VecDeque<Entry<C>>,
    idle: VecDeque<Entry<C>>,
    /// No idle client is looked at before, while others are busy.
    idle_due: u64,
    /// No command is executed before.
    commands_due: Option<u64>,
    /// Busy clients in a row that were passed over.
    passed: usize,
    /// Ticks in which this thread had no CPU, or that nobody is charged with for another reason.
    lost: u64,
    /// When the last turns ended.
    ended: u64,
    /// Empty polls in a row, and how many of them look at every queue of all clients.
    empty: usize,
    sweep: usize,
    load: Load,
    /// Packets have been found since the last question.
    moved: bool,
    /// Since when none has been, as far as anybody has asked.
    quiet: Option<u64>,
}

impl<C: Polled, K: Core> Scheduler<C, K> {
    pub(crate) fn new(core: K, times: Times) -> Scheduler<C, K> {
        let (busy, idle, load) = Default::default();
        Scheduler {
            core,
            times,
            busy,
            idle,
            idle_due: 0,
            commands_due: None,
            passed: 0,
            lost: 0,
            ended: 0,
            empty: 0,
            sweep: 1,
            load,
            moved: true,
            quiet: None,
        }
    }

    /// Shows there how long the core was busy, from now on.
    pub(crate) fn show_load(&mut self, to: Arc<BusyTime>) {
        self.load.show(to);
    }

    /// Polls a client from now on.
    pub(crate) fn add(&mut self, client: C, shared: &C::Shared) {
        if self.is_empty() {
            self.load.begin(self.core.now());
        }
        let waits = Waits::default();
        self.busy.push_back(Entry { client, credit: 0, found: 0, left: None, waits });
        self.measure(shared);
    }

    /// The core's time.
    pub(crate) fn now(&mut self) -> u64 {
        self.core.now()
    }

    /// Ticks of the core's clock in microseconds.
    pub(crate) fn microseconds(&self, ticks: u64) -> u64 {
        ticks / self.times.microsecond.max(1)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.busy.is_empty() && self.idle.is_empty()
    }

    /// All clients, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &C> {
        self.busy.iter().chain(&self.idle).map(|entry| &entry.client)
    }

    /// True when no packet has been found for so many ticks, and no command is left. The clock is read only when there was none since the last
    /// question.
    pub(crate) fn is_idle_for(&mut self, after: u64) -> bool {
        if std::mem::take(&mut self.moved) || self.commands_due.is_some() {
            self.quiet = None;
            return false;
        }
        let now = self.core.now();
        now.saturating_sub(*self.quiet.get_or_insert(now)) >= after
    }

    /// The core has slept, or tried to: time begins anew.
    pub(crate) fn awake(&mut self, shared: &mut C::Shared) {
        self.clients().for_each(|client| client.awoke(shared));
        self.quiet = None;
        self.empty = 0;
        self.ended = self.core.now();
        self.load.begin(self.ended); // what the last polls before were busy says nothing of the sleep
    }

    /// All clients, in no order.
    pub(crate) fn clients(&mut self) -> impl Iterator<Item = &mut C> {
        self.busy.iter_mut().chain(&mut self.idle).map(|entry| &mut entry.client)
    }

    /// A client, and how long it has waited.
    pub(crate) fn find(&self, is: impl Fn(&C) -> bool) -> Option<(&C, Waits)> {
        let entry = self.busy.iter().chain(&self.idle).find(|entry| is(&entry.client))?;
        Some((&entry.client, entry.waits))
    }

    fn measure(&mut self, shared: &C::Shared) {
        let clients = self.busy.len() + self.idle.len();
        let most = self.clients().map(|client| client.sweep(shared)).max().unwrap_or(1);
        self.sweep = if clients == 1 { most } else { most.saturating_mul(clients).min(SWEEP_MAX) };
    }

    /// Polls for a while; returns when it is time to look at the commands.
    pub(crate) fn run(&mut self, shared: &mut C::Shared) {
        if self.busy.len() + self.idle.len() != 1 {
            self.run_shared(shared);
        } else if self.load.is_timed() {
            self.run_alone::<true>(shared);
        } else {
            self.run_alone::<false>(shared);
        }
    }

    /// The only client, if there is one only.
    fn alone(&mut self) -> Option<&mut Entry<C>> {
        let one = self.busy.len() + self.idle.len() == 1;
        self.busy.front_mut().or(self.idle.front_mut()).filter(|_| one)
    }

    /// `TIMED`: with the clock read for each poll.
    fn run_alone<const TIMED: bool>(&mut self, shared: &mut C::Shared) {
        let Some(entry) = self.busy.front_mut().or(self.idle.front_mut()) else { return };
        let (from, mut took) = if TIMED { (self.core.now(), 0) } else { (0, 0) };
        entry.left = None;
        let mut left = POLLS_ALONE;
        while left > 0 {
            let polls = if self.empty < AWAKE { self.sweep.max(SPIN) } else { self.sweep };
            left = left.saturating_sub(polls.max(SPIN));
            let found = if TIMED {
                spin_timed(&mut entry.client, &mut self.core, polls, shared, &mut took)
            } else {
                entry.client.spin(polls, shared)
            };
            if found > 0 {
                (self.empty, self.moved) = (0, true);
                continue;
            }
            self.empty = self.empty.saturating_add(polls);
            self.core.relax();
        }
        if TIMED {
            self.load.sampled(took, from, self.core.now());
        }
        if entry.client.has_left() {
            self.busy.clear();
            self.idle.clear();
        }
    }

    fn run_shared(&mut self, shared: &mut C::Shared) {
        // The thread may have lost its CPU since, too.
        let (passed, mut now) = self.core.since(self.ended);
        self.lost += now.saturating_sub(self.ended).saturating_sub(passed);
        let end = now + self.times.batch;
        for _ in 0..STEPS {
            if self.busy.is_empty() || now >= self.idle_due {
                now = self.look_at_idle(now, shared);
            }
            now = self.turn(now, shared);
            if now >= end || self.is_empty() {
                break;
            }
        }
        self.ended = now;
        self.load.measured(now);
    }

    /// Polls a client, up to so many times until it finds something; returns what it found and the time afterwards.
    #[inline(always)]
    fn poll(
        &mut self,
        entry: &mut Entry<C>,
        from: u64,
        polls: usize,
        shared: &mut C::Shared,
    ) -> (usize, u64) {
        let found = entry.client.spin(polls, shared);
        let (took, mut now) = self.core.since(from);
        self.lost += now.saturating_sub(from).saturating_sub(took);
        entry.credit -= took.min(self.times.debt) as i64;
        self.empty = self.empty.saturating_add(polls);
        if found > 0 {
            (entry.found, self.empty, self.moved) = (now, 0, true);
            self.load.add(took);
        } else if self.empty >= self.sweep {
            self.empty = 0;
            self.core.relax();
            let rested = self.core.now();
            self.lost += rested.saturating_sub(now);
            now = rested;
        }
        (found, now)
    }

    /// The turn of the next busy client.
    fn turn(&mut self, mut now: u64, shared: &mut C::Shared) -> u64 {
        let Some(mut entry) = self.busy.pop_front() else { return now };
        let quantum = self.times.quantum as i64;
        entry.credit = (entry.credit + quantum).min(quantum);
        if entry.credit <= 0 {
            self.busy.push_back(entry);
            self.pass();
            return now;
        }
        self.passed = 0;
        self.note_wait(&mut entry, now);
        // The only busy one need not look at the clock after each poll: a few empty ones delay the idle ones by little.
        let polls = if self.busy.is_empty() { SPIN } else { 1 };
        let mut empty = 0;
        while entry.credit > 0 {
            let (found, then) = self.poll(&mut entry, now, polls, shared);
            now = then;
            if found > 0 {
                empty = 0;
                continue;
            }
            empty += polls;
            if empty >= entry.client.round(shared) {
                entry.credit = entry.credit.min(0);
            }
        }
        entry.credit = entry.credit.max(-(self.times.debt as i64));
        entry.left = Some(now.saturating_sub(self.lost));
        if entry.client.has_left() {
            drop(entry);
            self.measure(shared);
        } else if entry.credit >= -(self.times.look as i64)
            && now.saturating_sub(entry.found) > self.times.idle_after
        {
            self.idle.push_back(entry);
        } else {
            self.busy.push_back(entry);
        }
        now
    }

    /// The turn of a busy client begins.
    #[inline(always)]
    fn note_wait(&self, entry: &mut Entry<C>, now: u64) {
        let own = now.saturating_sub(self.lost);
        entry.waits.note(own.saturating_sub(entry.left.unwrap_or(own)), &self.times);
    }

    /// A busy client was passed over. When all are in debt, so many rounds pass at once that one of them is not.
    fn pass(&mut self) {
        self.passed += 1;
        if self.passed < self.busy.len() {
            return;
        }
        self.passed = 0;
        let most = self.busy.iter().map(|entry| entry.credit).max().unwrap_or(0);
        self.busy.iter_mut().for_each(|entry| entry.credit -= most);
    }

    /// One poll of the next idle client.
    fn look_at_idle(&mut self, from: u64, shared: &mut C::Shared) -> u64 {
        let Some(mut entry) = self.idle.pop_front() else { return from };
        entry.credit = 0;
        let (found, now) = self.poll(&mut entry, from, 1, shared);
        let took = entry.credit.unsigned_abs();
        self.idle_due = now + (SHARE - 1) * took.min(self.times.look);
        if entry.client.has_left() {
            drop(entry);
            self.measure(shared);
        } else if found > 0 || took > self.times.look {
            entry.left = Some(now.saturating_sub(self.lost));
            self.busy.push_back(entry);
        } else {
            entry.credit = 0;
            self.idle.push_back(entry);
        }
        now
    }

    /// Executes commands that `receive` gives, if it is time: for about a part in [`SHARE`] of the time between two calls. One that
    /// takes longer is followed by none for [`SHARE`] - 1 times as long. The clock is read only when there are commands.
    pub(crate) fn attend<T>(
        &mut self,
        mut receive: impl FnMut() -> Option<T>,
        mut execute: impl FnMut(&mut Self, T),
    ) {
        if self.commands_due.is_some_and(|due| self.core.now() < due) {
            return;
        }
        self.commands_due = None;
        let mut took = 0;
        for _ in 0..STEPS {
            let Some(command) = receive() else { break };
            let from = self.core.now();
            execute(self, command);
            let (this, now) = self.core.since(from);
            self.lost += now.saturating_sub(from).saturating_sub(this);
            took += this;
            self.commands_due = Some(now + (SHARE - 1) * took);
            if took >= self.times.batch / SHARE {
                break;
            }
        }
        let times = self.times;
        if let Some(entry) = self.alone().filter(|_| took > 0) {
            entry.waits.note(took, &times);
        }
    }
}

/// As [`Polled::spin`], poll by poll; adds the time of the one that has found something to `took`.
#[cold]
#[inline(never)]
fn spin_timed<C: Polled, K: Core>(
    client: &mut C,
    core: &mut K,
    polls: usize,
    shared: &mut C::Shared,
    took: &mut u64,
) -> usize {
    let mut from = core.now();
    for _ in 0..polls {
        let found = client.spin(1, shared);
        let (this, now) = core.since(from);
        if found > 0 {
            *took += this;
            return found;
        }
        from = now;
    }
    0
}
