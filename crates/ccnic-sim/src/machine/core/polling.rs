//! Polling: a core whose polls find nothing sleeps until one of the lines that it has loaded is invalidated, and wakes at the moment and
//! with the state that spinning would have led to. Idle cores then cost no simulation time.

use std::task::Poll;

use super::monitor::LINES_MAX;
use super::{Core, Wait};
use crate::kernel::time::Ps;
use crate::machine::ids::NONE;
use crate::machine::uncore::Uncore;

/// Empty polls that are really made before the core sleeps: programs count them, to tell whether they are idle.
const SPINS: u32 = 16;

impl Core {
    /// An empty poll: sleeps until a line that was loaded since the last one is invalidated, or the deadline comes.
    pub fn relax(&mut self, u: &mut Uncore) -> Poll<()> {
        if std::mem::take(&mut self.monitor.slept) {
            self.monitor.last_poll = self.clock;
            self.monitor.spins = 0;
            self.monitor.reset();
            return Poll::Ready(());
        }
        if !self.can_dispatch(u) {
            return Poll::Pending;
        }
        self.close(u);
        let poll = self.charge.poll(self.code.poll);
        self.position += poll;
        self.clock += poll * u.costs.instruction;
        self.counters.idle += poll * u.costs.instruction;
        self.predictor.last_line.0 = NONE;
        let (clock, m) = (self.clock, &mut self.monitor);
        m.period = m.period.min(clock.saturating_sub(m.last_poll));
        m.last_poll = clock;
        let due = m.deadline.is_some_and(|deadline| deadline <= clock);
        m.spins += 1;
        if m.triggered || m.lines.len() > LINES_MAX {
            m.reset();
            return Poll::Ready(());
        }
        if due || m.spins < SPINS || m.lines.is_empty() {
            return Poll::Ready(());
        }
        if let Some(deadline) = m.deadline {
            u.resume(self.id, deadline);
        }
        self.monitor.slept = true;
        self.wait_for(u, Wait::Line);
        Poll::Pending
    }

    /// A burst has been dealt with by so many instructions; returns those that have not been dispatched. What was loaded before it is no
    /// longer speculative: that it is invalidated costs nothing.
    pub fn end_burst(&mut self, executed: u64) -> u64 {
        self.monitor.reset();
        self.charge.end_burst(executed)
    }

    /// A line has been invalidated, or has come: a polling loop that watches it sees that, at a penalty.
    pub fn trigger(&mut self, u: &mut Uncore, line: u32, penalty: Ps) {
        if !self.monitor.lines.contains(&line) {
            return;
        }
        self.monitor.triggered = true;
        if self.wait != Wait::Line {
            self.monitor.penalty = self.monitor.penalty.max(penalty);
        } else {
            // A spinning core would see it at the end of the poll that it is in.
            let period = self.monitor.period.max(1);
            let polls = u.now.saturating_sub(self.clock).div_ceil(period);
            let at = self.clock + polls * period + penalty;
            self.wake(u, at);
        }
    }
}
