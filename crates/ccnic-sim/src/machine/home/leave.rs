//! How a line goes from the private caches: taken away, for want of room, or handed on by a hint.

use ccnic::memory::LINE;

use crate::kernel::time::Ps;
use crate::machine::World;
use crate::machine::core::Wait;
use crate::machine::directory::NOBODY;
use crate::protocols::State;

impl World {
    /// A core's line goes, or may no longer be written.
    pub(crate) fn lose(&mut self, core: u8, line: u32, next: State) {
        self.cores[core as usize].caches.set_state(line, next);
        self.note(core, if next == State::Invalid { "lose" } else { "share" }, line * LINE);
        if next == State::Invalid {
            self.disturb(core, line, self.costs.machine_clear);
        }
    }

    /// A line that a core may be watching has been taken away, or has come: its polling loop notices, at a penalty.
    pub(crate) fn disturb(&mut self, core: u8, line: u32, penalty: Ps) {
        let now = self.now;
        let c = &mut self.cores[core as usize];
        if !c.watched.contains(&line) {
            return;
        }
        c.disturbed = true;
        if c.wait != Wait::Line {
            c.owed = c.owed.max(penalty);
        } else {
            // Spinning, it would notice at the end of the turn that it is in.
            let turn = c.turn.max(1); // of polling alone
            let turns = now.saturating_sub(c.clock).div_ceil(turn);
            let at = c.clock + turns * turn + penalty;
            self.wake(core, at);
        }
    }

    /// A core's line has gone from its private caches for want of room.
    pub(crate) fn evict(&mut self, core: u8, number: u32, state: State) {
        let socket = self.cores[core as usize].socket;
        let line = self.lines.get(number);
        line.sharers &= !(1 << core);
        if line.owner == core {
            line.owner = NOBODY;
        }
        if line.forward == core {
            line.forward = NOBODY;
        }
        self.keep_in_llc(socket, number, state == State::Modified);
        self.disturb(core, number, 0);
    }

    /// A hint to move a line towards its readers: out of the private caches, into the last-level cache.
    pub(crate) fn demoted(&mut self, number: u32, core: u8) {
        let state = self.cores[core as usize].state(number);
        if !state.owned() || self.lines.get(number).busy || self.cores[core as usize].expects(number) {
            return;
        }
        self.cores[core as usize].caches.set_state(number, State::Invalid);
        self.note(core, "demote", number * LINE);
        self.evict(core, number, state);
    }
}
