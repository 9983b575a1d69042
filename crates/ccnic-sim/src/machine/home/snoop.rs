//! Snoops: the home agent asks the caches that have a line; they answer it, or the requester directly.

use super::Home;
use crate::kernel::time::Ps;
use crate::machine::event::Event;
use crate::machine::ids::{AgentId, NONE, SocketId, TxnId};
use crate::observe::counters::Source;
use crate::observe::trace::Hop;
use crate::protocols::table::{CacheRow, Data, Grant, Request, Sharing, Snoops, State};

impl Home<'_> {
    pub(super) fn send_snoop(&mut self, txn: TxnId, agent: AgentId, at: Ps) {
        let t = &self.u.txns[txn];
        let (from, to) = (t.at, self.cores[agent as usize].socket);
        let at = if from == to {
            at
        } else {
            self.u.txns[txn].crossed = true;
            self.u.send_control(from, to, at) + self.u.costs.lookup
        };
        let arrival = at + self.u.costs.mesh;
        self.cores[agent as usize].lookahead.expect(arrival);
        self.u.events.push(arrival, Event::Snoop(txn, agent));
    }

    /// A snoop reaches an agent.
    pub fn snooped(&mut self, txn: TxnId, agent: AgentId) {
        let line = self.u.txns[txn].line;
        if !self.cores[agent as usize].defer_snoop(self.u, txn, line) {
            self.answer(txn, agent);
        }
    }

    /// An answer reaches the core that asked; a snoop that has waited for it is answered then.
    pub fn fill(&mut self, txn: TxnId, agent: AgentId) {
        let Some(deferred) = self.cores[agent as usize].filled(self.u, txn) else { return };
        if deferred != NONE {
            self.answer(deferred, agent);
        }
        self.cores[agent as usize].wake_after_fill(self.u);
    }

    /// An agent answers a snoop.
    pub fn answer(&mut self, txn: TxnId, agent: AgentId) {
        let t = self.u.txns[txn];
        self.u.hop(txn, Hop::Snooped(agent), self.u.now);
        let sharing = self.u.directory.get(t.line).sharing();
        let core = &self.cores[agent as usize];
        let (state, socket) = (core.state(t.line), core.socket);
        if state == State::Invalid {
            // Evicted while the snoop was on its way; the directory knows.
            self.acknowledged(txn, socket);
            return;
        }
        let (snoop, owner) = match self.u.protocol.home_row(sharing, t.request).snoops {
            Snoops::Owner(snoop) => (snoop, true),
            Snoops::Sharers(snoop) => (snoop, false),
            Snoops::None => {
                self.u.observer.rows.missing += 1;
                return;
            }
        };
        let costs = &self.u.costs;
        let local = socket == self.cores[t.agent as usize].socket;
        let migratory = if local { costs.migratory_local } else { costs.migratory_remote };
        let Some((number, row)) = self.u.protocol.cache_row(state, snoop, migratory) else {
            self.u.observer.rows.missing += 1;
            return;
        };
        self.u.observer.rows.cache[number] += 1;
        let core = &mut self.cores[agent as usize];
        core.counters.snoops += 1;
        if row.next != state {
            core.downgrade(self.u, t.line, row.next);
        }
        if owner {
            self.owner_answered(txn, agent, row);
        } else {
            self.u.directory.get(t.line).remove(agent);
            self.acknowledged(txn, socket);
        }
    }

    /// An agent tells the home agent that asked that it has no copy of the line any more. When all have, the transaction goes on with
    /// what is known of the line then.
    fn acknowledged(&mut self, txn: TxnId, socket: SocketId) {
        let (out, at) = (self.u.now + self.u.costs.snoop, self.u.txns[txn].at);
        let ack = self.send(socket, at, out + self.u.costs.mesh, false);
        let t = &mut self.u.txns[txn];
        t.latest = t.latest.max(ack);
        t.pending -= 1;
        if t.pending > 0 {
            return;
        }
        let (line, at, latest) = (t.line, t.at, t.latest);
        if at == self.u.directory.home(line) {
            self.supply(txn, latest);
            return;
        }
        // A socket that is not the line's home may have lost it in the meantime.
        self.u.directory.get(line).busy = false;
        self.order(txn, latest);
        self.go_on(line, latest);
    }

    fn owner_answered(&mut self, txn: TxnId, owner: AgentId, answer: &CacheRow) {
        let t = self.u.txns[txn];
        let row = self.u.protocol.home_row(Sharing::Owned, t.request);
        let data = row.data == Data::Owner;
        let now = self.u.now;
        let taken = if data { self.cores[owner as usize].pass_line(self.u, now) } else { now };
        let out = taken + self.u.costs.snoop;
        let from = self.cores[owner as usize].socket;
        let to = self.cores[t.agent as usize].socket;
        let sent = out + self.u.costs.mesh;
        // Within a socket the answer goes straight to the requester.
        let there = if from == to { out } else { self.send(from, to, sent, data) };
        // The home agent that ordered the transaction is done when the answer passes it, or when a message from the owner arrives.
        let free = match (t.at == from, t.at == to) {
            (true, _) => sent,
            (false, true) => there,
            (false, false) => self.send(from, t.at, sent, false),
        };
        let line = self.u.directory.get(t.line);
        match answer.next {
            State::Invalid => line.set_uncached(),
            State::Shared => line.set_shared(owner),
            State::Forward | State::Exclusive | State::Modified => {}
        }
        if answer.writes_back {
            let mask = self.u.llcs[from as usize].mask(self.cores[owner as usize].class);
            self.u.fill_llc(from, t.line, true, mask);
        }
        if t.request == Request::Flush {
            self.u.write_back(t.line, from, sent);
        }
        let grant = match row.grant {
            Grant::Answered => answer.grants,
            Grant::Is(state) => state,
            Grant::Sole | Grant::Nothing => State::Invalid,
        };
        let source = match (data, from == to) {
            (false, _) => Source::Nowhere,
            (true, true) => Source::LocalCore,
            (true, false) => Source::RemoteCore,
        };
        let there = self.store_granted(&t, there);
        self.grant(txn, grant, source, there);
        self.release(t.line, free);
    }
}
