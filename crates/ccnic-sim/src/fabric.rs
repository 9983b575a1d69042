//! How requests travel: from a core to the home agent of its socket, where what the socket can settle is settled; else to the
//! line's home; from there to whoever must be asked; and back.
//!
//! The transactions of one line come one after the other. One that finds the line taken waits at the home agent that it
//! has reached, in order of arrival. Each step is an event at the time when the message arrives, so that what a request
//! meets is what is there then.

use ccnic::port::LINE;

use crate::counters::Source;
use crate::events::Event;
use crate::lines::{NOBODY, NONE};
use crate::protocol::{Ask, Data, Grant, Known, Request, State, cache, directory};
use crate::time::Ps;
use crate::trace::Station;
use crate::world::World;

/// A request under way.
#[derive(Debug, Clone, Copy)]
pub struct Transaction {
    pub line: u32,
    pub request: Request,
    pub core: u8,
    /// The socket whose home agent orders it.
    pub at: u8,
    /// It has been to the other socket.
    pub crossed: bool,
    /// Answers still to come, and when the last so far is there.
    pub pending: u16,
    pub latest: Ps,
    /// What the requester gets, and from where.
    pub grant: State,
    pub source: Source,
    /// The next one that waits for the same line.
    pub next: u32,
}

impl World {
    /// A core asks for a line at a time; returns the transaction.
    pub fn ask(&mut self, core: u8, line: u32, request: Request, at: Ps) -> u32 {
        let socket = self.cores[core as usize].socket;
        let txn = self.new_txn(Transaction {
            line,
            request,
            core,
            at: socket,
            crossed: false,
            pending: 0,
            latest: 0,
            grant: State::Invalid,
            source: Source::Nowhere,
            next: NONE,
        });
        if let Some(trace) = &mut self.trace {
            trace.asked(txn, at);
        }
        let arrival = at + self.costs.miss + self.costs.mesh;
        self.events.push(arrival, Event::Arrive(txn));
        txn
    }

    /// A request reaches the home agent of its core's socket.
    pub(crate) fn arrive(&mut self, txn: u32) {
        let start = self.now + self.costs.lookup;
        self.note_station(txn, Station::Agent, self.now);
        if !self.queue(txn) {
            self.order(txn, start);
        }
    }

    /// A request reaches its line's home in the other socket.
    pub(crate) fn at_home(&mut self, txn: u32) {
        let home = self.lines.home(self.txns[txn as usize].line);
        let t = &mut self.txns[txn as usize];
        (t.at, t.crossed) = (home, true);
        let start = self.now + self.costs.lookup;
        self.note_station(txn, Station::Home, self.now);
        if !self.queue(txn) {
            self.decide(txn, start);
        }
    }

    /// Makes a request wait when another of its line is under way.
    fn queue(&mut self, txn: u32) -> bool {
        let line = self.lines.get(self.txns[txn as usize].line);
        if !line.busy {
            return false;
        }
        let last = line.waiting.1;
        line.waiting.1 = txn;
        if line.waiting.0 == NONE {
            line.waiting.0 = txn;
        } else {
            self.txns[last as usize].next = txn;
        }
        true
    }

    /// The turn of a request has come, at the home agent that it has reached.
    fn order(&mut self, txn: u32, start: Ps) {
        let t = self.txns[txn as usize];
        let home = self.lines.home(t.line);
        if t.at == home || self.settled_within(t.at, &t) {
            self.decide(txn, start);
            return;
        }
        let arrival = self.send_control(t.at, start);
        self.events.push(arrival, Event::AtHome(txn));
    }

    /// True when a socket that is not the line's home can settle a request all the same: it has the line for itself, or has a
    /// copy to read.
    fn settled_within(&mut self, socket: u8, t: &Transaction) -> bool {
        let line = *self.lines.get(t.line);
        let bit = 1u8 << socket;
        match (line.known(), t.request) {
            (Known::Owned, _) => self.cores[line.owner as usize].socket == socket,
            (Known::Uncached, Request::Read | Request::Own | Request::Peek) => {
                line.llc & bit != 0 && line.llc == bit
            }
            (Known::Uncached, Request::OwnWhole) => line.llc == bit && line.dirty == bit,
            (Known::Shared, Request::Read | Request::Peek) => {
                line.llc & bit != 0 || self.sharer_in(socket, line.sharers, t.core)
            }
            _ => false,
        }
    }

    fn sharer_in(&self, socket: u8, sharers: u128, but: u8) -> bool {
        bits(sharers & !(1 << but)).any(|c| self.cores[c as usize].socket == socket)
    }

    /// Carries out a request at the home agent that has authority over the line: asks whom it must, or answers.
    fn decide(&mut self, txn: u32, start: Ps) {
        let t = self.txns[txn as usize];
        let (home, line) = (self.lines.home(t.line), *self.lines.get(t.line));
        let mut start = start.max(line.free_at);
        let row = directory(line.known(), t.request);
        self.rows.directory[row.number()] += 1;
        self.lines.get(t.line).busy = true;
        match row.ask {
            Ask::Owner(_) if line.owner != t.core => {
                if t.at == home && self.cores[line.owner as usize].socket != home {
                    start += self.costs.home_extra;
                    if self.costs.speculative_read {
                        self.read_memory(home, start);
                    }
                }
                self.txns[txn as usize].pending = 1;
                self.send_snoop(txn, line.owner, start);
            }
            Ask::Sharers(_) if line.sharers & !(1 << t.core) != 0 => {
                let others = line.sharers & !(1 << t.core);
                self.txns[txn as usize].pending = others.count_ones() as u16;
                self.txns[txn as usize].latest = start;
                bits(others).for_each(|core| self.send_snoop(txn, core, start));
            }
            _ => self.supply(txn, start),
        }
    }

    fn send_snoop(&mut self, txn: u32, core: u8, at: Ps) {
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

    /// When a message from a socket's mesh is at the home agent of another, or of the same.
    fn reach(&mut self, to: u8, from: u8, at: Ps, line: bool) -> Ps {
        match (from == to, line) {
            (true, _) => at,
            (false, true) => self.send_line(from, at),
            (false, false) => self.send_control(from, at),
        }
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
        match t.request {
            Request::Flush => self.write_memory(t.line, from, sent),
            Request::Put => self.write_memory(t.line, t.at, free),
            _ => {}
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
        self.grant(txn, grant, source, there);
        self.release(t.line, free);
    }

    /// Answers a request for which nobody has to be asked (any more).
    fn supply(&mut self, txn: u32, at: Ps) {
        let t = self.txns[txn as usize];
        let (home, line) = (self.lines.home(t.line), *self.lines.get(t.line));
        let row = directory(line.known(), t.request);
        let to = self.cores[t.core as usize].socket;
        let has = line.sharers & 1 << t.core != 0 || line.owner == t.core;
        let (source_socket, ready, source) = if row.data == Data::None || has {
            (t.at, self.clear_llcs(t.at, &line, at), Source::Nowhere)
        } else {
            self.nearest(&t, &line, home, at)
        };
        let data = source != Source::Nowhere;
        let there = self.reach(to, source_socket, ready, data);
        let source = if source_socket == to { source } else { source.across() };
        let dirty = line.dirty != 0;
        match t.request {
            Request::Own | Request::OwnWhole => {
                self.drop_from_llc(t.line);
                let l = self.lines.get(t.line);
                (l.owner, l.sharers, l.forward) = (NOBODY, 0, NOBODY);
            }
            Request::Put | Request::Flush => {
                self.drop_from_llc(t.line);
                // Its own copy goes, too.
                let own = self.cores[t.core as usize].state(t.line);
                if own.readable() {
                    self.lose(t.core, t.line, State::Invalid);
                    let l = self.lines.get(t.line);
                    (l.owner, l.sharers, l.forward) = (NOBODY, 0, NOBODY);
                }
                if t.request == Request::Put || dirty || own == State::Modified {
                    self.write_memory(t.line, t.at, ready);
                }
            }
            Request::Read | Request::Peek => {}
        }
        let grant = match row.grant {
            Grant::Is(state) => state,
            Grant::Sole => {
                self.drop_from_llc(t.line);
                if dirty { State::Modified } else { State::Exclusive }
            }
            Grant::Answered | Grant::Nothing => State::Invalid,
        };
        self.grant(txn, grant, source, there);
        self.release(t.line, ready);
    }

    /// When the last-level cache of the other socket, if it has the line, has confirmed that it forgot it.
    fn clear_llcs(&mut self, at: u8, line: &crate::lines::Line, when: Ps) -> Ps {
        if line.llc & !(1 << at) == 0 || self.sockets.len() == 1 {
            return when;
        }
        let other = 1 - at;
        let there = self.send_control(at, when) + self.costs.lookup;
        self.send_control(other, there)
    }

    /// The nearest copy of a line that nobody owns: the socket that has it, when it is read there, what it is.
    fn nearest(&mut self, t: &Transaction, line: &crate::lines::Line, home: u8, at: Ps) -> (u8, Ps, Source) {
        let (here, bit) = (t.at, 1u8 << t.at);
        if line.llc & bit != 0 {
            return (here, at + self.costs.llc_data, Source::LocalLlc);
        }
        if line.llc != 0 {
            let other = 1 - here;
            let there = self.send_control(here, at) + self.costs.lookup + self.costs.llc_data;
            return (other, there, Source::LocalLlc);
        }
        if self.sharer_in(here, line.sharers, t.core) {
            return (here, at + self.costs.mesh + self.costs.snoop, Source::LocalCore);
        }
        debug_assert_eq!(here, home);
        (home, self.read_memory(home, at), Source::LocalMemory)
    }

    /// Books what the requester gets, and sends it.
    fn grant(&mut self, txn: u32, grant: State, source: Source, there: Ps) {
        let core = self.txns[txn as usize].core;
        let line_number = self.txns[txn as usize].line;
        let line = self.lines.get(line_number);
        match grant {
            State::Invalid => {}
            State::Shared | State::Forward => {
                let before = std::mem::replace(&mut line.forward, core);
                line.sharers |= 1 << core;
                if before != NOBODY && before != core {
                    self.cores[before as usize].set_state(line_number, State::Shared);
                }
            }
            State::Exclusive | State::Modified => {
                (line.owner, line.sharers, line.forward) = (core, 1 << core, NOBODY);
            }
        }
        let t = &mut self.txns[txn as usize];
        (t.grant, t.source) = (grant, source);
        if let Some(miss) = self.cores[core as usize].misses.iter_mut().find(|m| m.txn == txn) {
            miss.granted = true;
        }
        self.note_station(txn, Station::Answered, there);
        self.events.push(there + self.costs.mesh + self.costs.fill, Event::Fill(txn));
    }

    /// A line's transaction is over; the next one that waits begins at `free`.
    fn release(&mut self, number: u32, free: Ps) {
        let line = self.lines.get(number);
        line.busy = false;
        line.free_at = free;
        let next = line.waiting.0;
        if next == NONE {
            return;
        }
        line.waiting.0 = self.txns[next as usize].next;
        if line.waiting.0 == NONE {
            line.waiting.1 = NONE;
        }
        self.txns[next as usize].next = NONE;
        self.order(next, free);
        self.go_on(number, free);
    }

    /// A transaction that had to travel on has left the line free for the one behind it.
    fn go_on(&mut self, number: u32, free: Ps) {
        let line = self.lines.get(number);
        if !line.busy && line.waiting.0 != NONE {
            self.release(number, free);
        }
    }

    /// A core's line goes, or may no longer be written.
    fn lose(&mut self, core: u8, line: u32, next: State) {
        self.cores[core as usize].set_state(line, next);
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
        if c.wait != crate::core::Wait::Line {
            c.owed = c.owed.max(penalty);
        } else {
            // Spinning, it would notice at the end of the turn that it is in.
            let turn = c.turn.max(1); // of polling alone
            let turns = now.saturating_sub(c.clock).div_ceil(turn);
            let at = c.clock + turns * turn + penalty;
            self.wake(core, at);
        }
    }

    /// A core's line goes from its private caches for want of room.
    pub(crate) fn evict(&mut self, core: u8, number: u32, state: State) {
        let socket = self.cores[core as usize].socket;
        self.cores[core as usize].l1.remove(number);
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
        self.cores[core as usize].set_state(number, State::Invalid);
        self.note(core, "demote", number * LINE);
        self.evict(core, number, state);
    }
}

impl Source {
    /// The same, seen from the other socket.
    fn across(self) -> Source {
        match self {
            Source::LocalLlc => Source::RemoteLlc,
            Source::LocalCore => Source::RemoteCore,
            Source::LocalMemory => Source::RemoteMemory,
            other => other,
        }
    }
}

/// The members of a set of cores.
fn bits(mut set: u128) -> impl Iterator<Item = u8> {
    std::iter::from_fn(move || {
        let bit = set.checked_ilog2()? as u8;
        set &= !(1 << bit);
        Some(bit)
    })
}
