//! Polling: a loop that finds nothing sleeps until one of its lines is taken, and wakes as if it had spun.

use std::task::Poll;

use crate::kernel::events::Event;
use crate::machine::World;
use crate::machine::core::{Core, WATCH, Wait};
use crate::machine::directory::NONE;

/// Turns that a polling loop really makes before it sleeps: programs count turns, to tell whether they wait.
const SPINS: u32 = 16;

impl World {
    /// A turn of a polling loop that found nothing: sleeps until one of the lines that it has loaded is taken away, or its
    /// deadline comes; the result is that of spinning.
    pub fn relax(&mut self, core: u8) -> Poll<()> {
        let c = &mut self.cores[core as usize];
        if std::mem::take(&mut c.slept) {
            c.turned = c.clock;
            c.spun = 0;
            c.disturbed = false;
            c.watched.clear();
            return Poll::Ready(());
        }
        if !self.ready(core) {
            return Poll::Pending;
        }
        self.close(core);
        let poll = self.costs.poll;
        let c = &mut self.cores[core as usize];
        c.clock += poll;
        c.counters.idle += poll;
        c.decided.0 = NONE;
        // The shortest turn is one of polling alone.
        c.turn = c.turn.min(c.clock.saturating_sub(c.turned));
        c.turned = c.clock;
        let due = c.deadline.is_some_and(|deadline| deadline <= c.clock);
        c.spun += 1;
        if c.disturbed || c.watched.len() > WATCH {
            c.disturbed = false;
            c.watched.clear();
            return Poll::Ready(());
        }
        if due || c.spun < SPINS || c.watched.is_empty() {
            return Poll::Ready(());
        }
        if let Some(deadline) = c.deadline {
            self.events.push(deadline, Event::Resume(core));
        }
        c.slept = true;
        self.wait(core, Wait::Line);
        Poll::Pending
    }
}

/// Remembers a line that a polling loop waits for.
pub(crate) fn watch(c: &mut Core, line: u32) {
    if c.watched.last() != Some(&line) && c.watched.len() <= WATCH && !c.watched.contains(&line) {
        c.watched.push(line);
    }
}
