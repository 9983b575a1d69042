//! What cores do, and what the events that they wait for bring.
//!
//! Every access is a function that either has its effect and answers [`Poll::Ready`], or says what the core waits for and
//! answers [`Poll::Pending`]; it is called again when the core is resumed. Between two events a core runs ahead of the
//! world's time, up to its *horizon*: the soonest moment at which another agent could take something from its caches.
//!
//! `loads`, `stores` and `ordered` (exchanges, fences, accesses around the caches) are what a program calls; `misses` asks for
//! lines and takes them in; `polling` is how a core waits for news. Here are turns, waits and time.

use std::task::Poll;

use crate::kernel::events::Event;
use crate::kernel::time::Ps;
use crate::machine::World;
use crate::machine::core::Wait;
use crate::observe::counters::Source;

/// Micro-operations of a word's access and of a payload line's, in the reorder buffer.
pub(crate) const UOPS: u64 = 6;

impl World {
    /// Handles events until a core can go on; returns it. `None` when nothing happens any more until then, or when `events` are
    /// used up.
    pub fn step(&mut self, until: Ps, events: &mut u64) -> Option<u8> {
        loop {
            *events = events.checked_sub(1)?;
            let (at, event) = self.events.pop_until(until)?;
            debug_assert!(at >= self.now, "time runs backwards");
            self.now = at;
            match event {
                Event::Arrive(txn) => self.arrive(txn),
                Event::AtHome(txn) => self.at_home(txn),
                Event::Snoop(txn, core) => self.snooped(txn, core),
                Event::Fill(txn) if self.is_for_device(txn) => self.root_filled(txn),
                Event::Fill(txn) => self.filled(txn),
                Event::Demote(line, core) => self.demoted(line, core),
                Event::Device(action) => self.device(action),
                Event::Resume(core) => {
                    if self.resume(core) {
                        return Some(core);
                    }
                }
            }
        }
    }

    /// A program has been put on a core: it begins now.
    pub fn start(&mut self, core: u8) {
        let c = &mut self.cores[core as usize];
        c.clock = c.clock.max(self.now);
        self.events.push(c.clock, Event::Resume(core));
    }

    /// A program has ended: what it has stored reaches memory all the same.
    pub fn finish(&mut self, core: u8) {
        self.close(core);
        self.drain(core);
    }

    /// A core's turn. False when the event is stale: something else has woken it before.
    fn resume(&mut self, core: u8) -> bool {
        let c = &mut self.cores[core as usize];
        match c.wait {
            // A deadline.
            Wait::Line if c.deadline.is_some_and(|d| d <= self.now) => self.wake_now(core),
            Wait::Nothing if c.clock == self.now => {}
            _ => return false,
        }
        self.look_ahead(core);
        true
    }

    /// Sets how far a core may run ahead: nothing that happens later than now can reach it sooner.
    fn look_ahead(&mut self, core: u8) {
        let k = &self.costs;
        let soonest = self.now + k.mesh + k.lookup.min(k.snoop + k.mesh);
        let c = &mut self.cores[core as usize];
        c.horizon = c.snoops.iter().copied().min().unwrap_or(soonest).min(soonest);
    }

    /// Ends a core's wait at a time.
    pub(crate) fn wake(&mut self, core: u8, at: Ps) {
        let c = &mut self.cores[core as usize];
        let end = at.max(c.clock);
        self.note_wait(core, end);
        let c = &mut self.cores[core as usize];
        let waited = end - c.since.min(end);
        match c.wait {
            Wait::Nothing => return,
            Wait::Load(_) | Wait::Exchange(..) | Wait::Addresses => c.counters.load_stall += waited,
            Wait::Window | Wait::Loads | Wait::Misses => c.counters.window_stall += waited,
            Wait::Stores(_) | Wait::Device => c.counters.store_stall += waited,
            Wait::Line => c.counters.idle += waited,
        }
        c.wait = Wait::Nothing;
        c.clock = end;
        self.events.push(end, Event::Resume(core));
    }

    fn wake_now(&mut self, core: u8) {
        self.note_wait(core, self.now);
        let c = &mut self.cores[core as usize];
        c.counters.idle += self.now - c.since.min(self.now);
        (c.wait, c.clock) = (Wait::Nothing, self.now.max(c.clock));
    }

    pub(crate) fn wait(&mut self, core: u8, wait: Wait) {
        self.close(core);
        let c = &mut self.cores[core as usize];
        (c.wait, c.since) = (wait, c.clock);
    }

    /// True when a core may dispatch its next access now. Otherwise it has been told what it waits for.
    #[inline]
    pub(crate) fn ready(&mut self, core: u8) -> bool {
        let c = &self.cores[core as usize];
        if c.clock >= c.horizon {
            let clock = c.clock;
            if self.events.next_at().is_some_and(|at| at <= clock) {
                self.events.push(clock, Event::Resume(core));
                return false;
            }
            self.now = clock;
            self.look_ahead(core);
        }
        let c = &self.cores[core as usize];
        if c.window_full(&self.costs) {
            self.wait(core, Wait::Window);
            return false;
        }
        true
    }

    #[inline]
    pub(crate) fn charge(&mut self, core: u8, time: Ps, uops: u64) {
        let c = &mut self.cores[core as usize];
        c.clock += time;
        c.counters.software += time;
        c.position += uops;
    }

    /// Time that a program's own instructions take.
    pub fn work(&mut self, core: u8, time: Ps) -> Poll<()> {
        if !self.ready(core) {
            return Poll::Pending;
        }
        self.close(core);
        self.charge(core, time, time / 100); // some ten micro-operations a nanosecond: what full dispatch gives
        Poll::Ready(())
    }

    /// Where a core's last miss was answered.
    pub fn last_source(&self, core: u8) -> Source {
        self.cores[core as usize].last_source
    }
}
