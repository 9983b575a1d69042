//! Snoops: a home agent asks the cores that have a line, and they answer it, or the requester directly.

use crate::kernel::events::Event;
use crate::kernel::time::Ps;
use crate::machine::World;
use crate::machine::directory::NOBODY;
use crate::observe::counters::Source;
use crate::observe::trace::Station;
use crate::protocols::{Ask, Data, Grant, Known, Request, State, cache, directory};

impl World {
    pub(crate) fn send_snoop(&mut self, txn: u32, core: u8, at: Ps) {
        let t = &self.txns[txn as usize];
        let (from, to) = (t.at, self.cores[core as usize].socket);
        let at = if from == to {
            at
        } else {
            self.txns[txn as usize].crossed = true;
            self.send_control(from, at) + self.costs.lookup
        };
        let arrival = at + self.costs.mesh;
        let c = &mut self.cores[core as usize];
        c.snoops.push(arrival);
        c.horizon = c.horizon.min(arrival);
        self.events.push(arrival, Event::Snoop(txn, core));
    }

    /// A snoop reaches a core.
    pub(crate) fn snooped(&mut self, txn: u32, core: u8) {
        let (now, line) = (self.now, self.txns[txn as usize].line);
        let c = &mut self.cores[core as usize];
        if let Some(i) = c.snoops.iter().position(|at| *at == now) {
            c.snoops.swap_remove(i);
        }
        if let Some(miss) = c.miss(line).filter(|m| m.granted) {
            // The answer to its own request is on the way: whoever comes later waits until it is there and used.
            miss.deferred = txn;
            self.note_station(txn, Station::Deferred(core), now);
            return;
        }
        self.answer(txn, core);
    }

    /// A core answers a snoop.
    pub(crate) fn answer(&mut self, txn: u32, core: u8) {
        let t = self.txns[txn as usize];
        self.note_station(txn, Station::Snooped(core), self.now);
        let known = *self.lines.get(t.line);
        let c = &self.cores[core as usize];
        let (state, socket) = (c.state(t.line), c.socket);
        if state == State::Invalid {
            // It had to make room while the snoop was on its way, and has told the directory.
            self.acknowledged(txn, socket);
            return;
        }
        let row = directory(known.known(), t.request);
        let (snoop, sole) = match row.ask {
            Ask::Owner(s) => (s, true),
            Ask::Sharers(s) => (s, false),
            Ask::Nobody => {
                self.rows.missing += 1;
                return;
            }
        };
        let requester = self.cores[t.core as usize].socket;
        let migratory =
            if socket == requester { self.costs.migratory_local } else { self.costs.migratory_remote };
        let Some(answer) = cache(state, snoop, migratory) else {
            self.rows.missing += 1;
            return;
        };
        self.rows.cache[answer.number()] += 1;
        self.cores[core as usize].counters.snoops += 1;
        if answer.next != state {
            self.lose(core, t.line, answer.next);
        }
        let out = self.now + self.costs.snoop;
        if sole {
            self.owner_answered(txn, core, answer.next, answer.gives, answer.writes_back, out);
        } else {
            let line = self.lines.get(t.line);
            line.sharers &= !(1 << core);
            if line.forward == core {
                line.forward = NOBODY;
            }
            self.acknowledged(txn, socket);
        }
    }

    /// A core has no copy of a line any more, and says so to the home agent that asked. When all have, the transaction goes on
    /// with what is known of the line then.
    fn acknowledged(&mut self, txn: u32, socket: u8) {
        let (out, at) = (self.now + self.costs.snoop, self.txns[txn as usize].at);
        let ack = self.reach(at, socket, out + self.costs.mesh, false);
        let t = &mut self.txns[txn as usize];
        t.latest = t.latest.max(ack);
        t.pending -= 1;
        if t.pending > 0 {
            return;
        }
        let (line, at, latest) = (t.line, t.at, t.latest);
        if at == self.lines.home(line) {
            self.supply(txn, latest);
            return;
        }
        // A socket that is not its home may have lost the line in the meantime.
        self.lines.get(line).busy = false;
        self.order(txn, latest);
        self.go_on(line, latest);
    }

    fn owner_answered(&mut self, txn: u32, owner: u8, next: State, gives: State, writes_back: bool, out: Ps) {
        let t = self.txns[txn as usize];
        let row = directory(Known::Owned, t.request);
        let from = self.cores[owner as usize].socket;
        let to = self.cores[t.core as usize].socket;
        let sent = out + self.costs.mesh;
        let data = row.data == Data::Owner;
        // Within a socket the answer goes straight to the requester.
        let there = if from == to { out } else { self.reach(to, from, sent, data) };
        // The home agent that ordered the transaction is done when the answer passes it, or word of it arrives.
        let free = match (t.at == from, t.at == to) {
            (true, _) => sent,
            (false, true) => there,
            (false, false) => self.reach(t.at, from, sent, false),
        };
        let line = self.lines.get(t.line);
        if next == State::Invalid {
            (line.owner, line.sharers, line.forward) = (NOBODY, 0, NOBODY);
        } else if next == State::Shared {
            (line.owner, line.sharers, line.forward) = (NOBODY, 1 << owner, NOBODY);
        }
        if writes_back {
            self.keep_in_llc(from, t.line, true);
        }
        if t.request == Request::Flush {
            self.write_memory(t.line, from, sent);
        }
        let grant = match row.grant {
            Grant::Answered => gives,
            Grant::Is(state) => state,
            Grant::Sole | Grant::Nothing => State::Invalid,
        };
        let source = match (data, from == to) {
            (false, _) => Source::Nowhere,
            (true, true) => Source::LocalCore,
            (true, false) => Source::RemoteCore,
        };
        let there = if t.request == Request::Put { self.put(t.line, t.core, there) } else { there };
        self.grant(txn, grant, source, there);
        self.release(t.line, free);
    }
}
