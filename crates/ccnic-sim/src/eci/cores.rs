//! In-order cores: an access that misses waits for its line, and everything after it as well.

use crate::kernel::time::Ps;

use super::core::Core;
use super::line::{Line, Node, Request, State};
use super::link::{Event, Message};
use super::machine::Machine;

impl Machine {
    /// True when something happens before a core's time: the core has to wait for it, and not for what happens at the same time, which may
    /// be another core that would wait for this one.
    pub(super) fn must_wait(&mut self, core: usize) -> bool {
        let clock = self.cores[core].clock;
        let waits = self.events.next_at().is_some_and(|at| at < clock);
        if waits {
            self.events.push_resume(clock, Event::Resume(core), core as u8);
        } else {
            self.now = clock;
        }
        waits
    }

    /// Accesses a line. True when the core has to wait until it is resumed; the access is done then.
    pub(super) fn access(&mut self, core: usize, line: u32, own: bool) -> bool {
        let costs = self.costs;
        let Core { node, .. } = self.cores[core];
        let at = &mut self.lines[line as usize];
        let state = at.state[node];
        if own && matches!(state, State::Exclusive | State::Modified) {
            at.state[node] = State::Modified; // written through to the L2, behind the core's back
            self.cores[core].near.insert(line);
            return false;
        }
        if !own && state != State::Invalid {
            let near = !self.cores[core].near.insert(line);
            self.cores[core].clock += if near { costs.l1 } else { costs.l2 };
            return false;
        }
        self.cores[core].waits = Some((line, own));
        self.cores[core].asked |= own && at.home != node;
        // One core waits for one line, so that there is always a place.
        self.units[node].take(line);
        let (Line { home, .. }, sent) = (&self.lines[line as usize], self.cores[core].clock + costs.l2 / 2);
        if *home == node {
            self.now = sent;
            self.request(line, Request { node, own });
        } else {
            self.send(node, if own { Message::Own } else { Message::Load }, line, sent);
        }
        true
    }

    /// A line has come to a node: the core that waits for it goes on.
    pub(super) fn fill_cores(&mut self, node: Node, line: u32, after: Ps) {
        let at = self.now + after + self.costs.l2 / 2;
        for (number, core) in self.cores.iter_mut().enumerate() {
            let Some((_, own)) = core.waits.filter(|(l, _)| core.node == node && *l == line) else {
                continue;
            };
            if at - core.clock > self.costs.timeout {
                self.machine_check = Some(core.clock + self.costs.timeout);
                return;
            }
            (core.waits, core.clock) = (None, at);
            core.near.insert(line);
            if own {
                self.lines[line as usize].state[node] = State::Modified;
            }
            self.events.push(at, Event::Resume(number));
            self.unblock(node, line);
            return;
        }
    }

    /// Waits until all stores are done. True when the core has to wait until it is resumed.
    pub(super) fn barrier(&mut self, core: usize) -> bool {
        let costs = self.costs;
        let this = &mut self.cores[core];
        this.clock += costs.barrier;
        let asked = std::mem::take(&mut this.asked) && costs.gsync;
        if asked {
            let (node, at) = (this.node, this.clock);
            self.send(node, Message::Sync, core as u32, at);
        }
        asked
    }

    /// A core's barrier is answered.
    pub(super) fn synced(&mut self, core: usize) {
        self.cores[core].clock = self.cores[core].clock.max(self.now);
    }

    /// A node's caches lose a line, as if it had been evicted.
    pub(super) fn evict(&mut self, core: usize, line: u32) {
        let Core { node, clock, .. } = self.cores[core];
        let at = &mut self.lines[line as usize];
        let (state, home) = (at.state[node], at.home);
        at.state[node] = State::Invalid;
        self.forget(node, line);
        if state == State::Modified && home != node {
            self.send(node, Message::WriteBack, line, clock);
        }
    }

    /// When the first of the cores that wait will have waited for too long.
    pub(super) fn times_out(&self) -> Option<Ps> {
        let waiting = self.cores.iter().filter(|core| core.waits.is_some());
        waiting.map(|core| core.clock.saturating_add(self.costs.timeout)).min()
    }
}
