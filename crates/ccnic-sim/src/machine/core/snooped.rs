//! What others do to a core's lines: snoops take them, and evictions make room. The directory learns of both.

use ccnic::memory::LINE;

use super::Core;
use crate::machine::ids::TxnId;
use crate::machine::uncore::Uncore;
use crate::observe::trace::Hop;
use crate::protocols::table::State;

impl Core {
    /// A snoop has arrived. True when it has to wait, because the answer to the core's own request for the line is on its way: the
    /// home agent has ordered that one first.
    pub fn defer_snoop(&mut self, u: &mut Uncore, txn: TxnId, line: u32) -> bool {
        self.lookahead.arrived(u.now);
        let Some(mshr) = self.mshr(line).filter(|m| m.granted) else { return false };
        mshr.deferred = txn;
        u.hop(txn, Hop::Deferred(self.id), u.now);
        true
    }

    /// A line is invalidated, or may no longer be written.
    pub fn downgrade(&mut self, u: &mut Uncore, line: u32, next: State) {
        self.caches.set_state(line, next);
        let what = if next == State::Invalid { "lose" } else { "share" };
        u.observer.instant(self.socket, self.id, what, line * LINE, u.now);
        if next == State::Invalid {
            self.trigger(u, line, u.costs.machine_clear);
        }
    }

    /// A line has left the private caches for want of room: the last-level cache takes it.
    pub(super) fn evict(&mut self, u: &mut Uncore, line: u32, state: State) {
        u.directory.get(line).remove(self.id);
        let mask = u.llcs[self.socket as usize].mask(self.class);
        u.fill_llc(self.socket, line, state == State::Modified, mask);
        self.trigger(u, line, 0);
    }

    /// The line has left the socket's snoop filter: the private caches give it up, and the last-level cache takes it.
    pub fn back_invalidated(&mut self, u: &mut Uncore, line: u32) {
        let state = self.state(line);
        if state == State::Invalid {
            return;
        }
        self.counters.back_invalidations += 1;
        self.downgrade(u, line, State::Invalid);
        self.evict(u, line, state);
    }

    /// A hint to demote a line has reached the home agent: the line moves to the last-level cache, unless it is being requested.
    pub fn demoted(&mut self, u: &mut Uncore, line: u32) {
        let state = self.state(line);
        if !state.writable() || u.directory.get(line).busy || self.expects(line) {
            return;
        }
        self.caches.set_state(line, State::Invalid);
        u.observer.instant(self.socket, self.id, "demote", line * LINE, u.now);
        self.evict(u, line, state);
    }
}
