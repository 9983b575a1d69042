//! The answer of a home agent: data from a last-level cache, a core that shares the line, memory or a device; and the state that
//! the requester is granted.

use super::Home;
use crate::kernel::time::Ps;
use crate::machine::directory::Line;
use crate::machine::event::Event;
use crate::machine::ids::{AgentId, NOBODY, SocketId, TxnId};
use crate::machine::transactions::Transaction;
use crate::observe::counters::Source;
use crate::observe::trace::Hop;
use crate::protocols::table::{Data, Grant, Request, State};

/// Where a line is supplied from: the socket, the time at which it leaves there, and what supplies it.
type Supply = (SocketId, Ps, Source);

impl Home<'_> {
    /// Answers a request that needs no snoop (any more).
    pub(super) fn supply(&mut self, txn: TxnId, at: Ps) {
        let t = self.u.txns[txn];
        let line = *self.u.directory.get(t.line);
        let row = self.u.protocol.home_row(line.sharing(), t.request);
        let to = self.cores[t.agent as usize].socket;
        let has = line.sharers & 1 << t.agent != 0 || line.owner == t.agent;
        let (from, ready, source) = if row.data == Data::None || has {
            (t.at, self.clear_llcs(t.at, &line, at), Source::Nowhere)
        } else if let Some(supply) = self.nearest(&t, &line, at) {
            supply
        } else {
            self.ask_device(txn, at);
            return;
        };
        let there = self.send(from, to, ready, source != Source::Nowhere);
        let source = if from == to { source } else { source.remote() };
        match t.request {
            Request::ReadOwn | Request::OwnNoData => {
                self.u.drop_from_llcs(t.line);
                self.u.directory.get(t.line).set_uncached();
            }
            Request::WriteInvalidate | Request::Flush => self.clear_copies(&t, &line, ready),
            Request::Read | Request::ReadCurrent => {}
        }
        let grant = match row.grant {
            Grant::Is(state) => state,
            Grant::Sole => {
                self.u.drop_from_llcs(t.line);
                if line.dirty != 0 { State::Modified } else { State::Exclusive }
            }
            Grant::Answered | Grant::Nothing => State::Invalid,
        };
        let there = self.store_granted(&t, there);
        self.grant(txn, grant, source, there);
        self.release(t.line, ready);
    }

    /// When the last-level caches of other sockets that have a line have confirmed that they drop it.
    fn clear_llcs(&mut self, at: SocketId, line: &Line, when: Ps) -> Ps {
        let mut others = line.llc & !(1 << at);
        let mut confirmed = when;
        while others != 0 {
            let other = others.trailing_zeros() as SocketId;
            let there = self.u.send_control(at, other, when) + self.u.costs.lookup;
            confirmed = confirmed.max(self.u.send_control(other, at, there));
            others &= others - 1;
        }
        confirmed
    }

    /// The nearest copy of a line that no cache owns. None when that is a device's, which has to be asked.
    fn nearest(&mut self, t: &Transaction, line: &Line, at: Ps) -> Option<Supply> {
        let here = t.at;
        if line.llc & 1 << here != 0 {
            return Some((here, at + self.u.costs.llc_data, Source::LocalLlc));
        }
        if let Some(other) = self.u.fabric.topology.nearest(here, line.llc) {
            let there = self.u.send_control(here, other, at) + self.u.costs.lookup + self.u.costs.llc_data;
            return Some((other, there, Source::LocalLlc));
        }
        if self.has_sharer(here, line.sharers, t.agent) {
            return Some((here, at + self.u.costs.mesh + self.u.costs.snoop, Source::LocalCore));
        }
        debug_assert_eq!(here, self.u.directory.home(t.line));
        if self.u.address_map.home(t.line).is_some() {
            return t.supplied.then_some((here, at, Source::LocalMemory));
        }
        Some((here, self.u.read_memory(here, at), Source::LocalMemory))
    }

    /// Asks the device that is home of a line for its data. The line stays busy until the device answers.
    fn ask_device(&mut self, txn: TxnId, at: Ps) {
        if let Some(device) = self.u.address_map.home(self.u.txns[txn].line) {
            self.u.hop(txn, Hop::Device(device), at);
            self.u.tell_device(device, at, Event::Read(txn, device));
        }
    }

    /// A device has given the data of a line that it is home of; it is at the home agent at a time.
    pub fn device_answered(&mut self, txn: TxnId, at: Ps) {
        self.u.txns[txn].supplied = true;
        self.supply(txn, at);
    }

    /// A line is written around the caches or flushed: no cache keeps a copy, the requester's own included.
    fn clear_copies(&mut self, t: &Transaction, line: &Line, ready: Ps) {
        self.u.drop_from_llcs(t.line);
        let requester = &mut self.cores[t.agent as usize];
        let own = requester.state(t.line);
        if own.readable() {
            requester.downgrade(self.u, t.line, State::Invalid);
            self.u.directory.get(t.line).set_uncached();
        }
        if t.request == Request::Flush && (line.dirty != 0 || own == State::Modified) {
            self.u.write_back(t.line, t.at, ready);
        }
    }

    /// When the requester learns that its request is done: for a write around the caches, when the line has reached its home.
    pub(super) fn store_granted(&mut self, t: &Transaction, there: Ps) -> Ps {
        if t.request != Request::WriteInvalidate {
            return there;
        }
        self.u.store_non_temporal(t.line, self.cores[t.agent as usize].socket, there)
    }

    /// A core is granted a line: it needs an entry in its socket's snoop filter, which another line may have to leave.
    #[inline]
    fn enter_filter(&mut self, line: u32, agent: AgentId) {
        let core = &self.cores[agent as usize];
        let Some(filter) = self.u.filters.get_mut(core.socket as usize) else { return };
        if core.device.is_some() {
            return;
        }
        let directory = &self.u.directory;
        let gone = filter.put(line, |line| directory.look(line).sharers, |line| directory.is_busy(line));
        if let Some(gone) = gone {
            let holders = filter.members(directory.look(gone).sharers);
            super::members(holders).for_each(|agent| self.back_invalidate(gone, agent));
        }
    }

    /// Tells a core to give a line up.
    fn back_invalidate(&mut self, line: u32, agent: AgentId) {
        let arrival = self.u.now + self.u.costs.lookup + self.u.costs.mesh;
        self.cores[agent as usize].lookahead.expect(arrival);
        self.u.events.push(arrival, Event::BackInvalidate(line, agent));
    }

    /// A core is told to give a line up. While the line is being requested it is told again later; when the line is in the filter once
    /// more it keeps it.
    pub fn back_invalidated(&mut self, line: u32, agent: AgentId) {
        let core = &mut self.cores[agent as usize];
        core.lookahead.arrived(self.u.now);
        if self.u.filters[core.socket as usize].has(line) {
            return;
        }
        if self.u.directory.is_busy(line) || core.expects(line) {
            self.back_invalidate(line, agent);
        } else {
            core.back_invalidated(self.u, line);
        }
    }

    /// Enters what the requester is granted into the directory, and sends it.
    pub(super) fn grant(&mut self, txn: TxnId, grant: State, source: Source, there: Ps) {
        let t = &mut self.u.txns[txn];
        (t.grant, t.source) = (grant, source);
        let (agent, number) = (t.agent, t.line);
        let line = self.u.directory.get(number);
        match grant {
            State::Invalid => {}
            State::Shared | State::Forward => {
                let before = std::mem::replace(&mut line.forward, agent);
                line.sharers |= 1 << agent;
                if before != NOBODY && before != agent {
                    self.cores[before as usize].caches.set_state(number, State::Shared);
                }
            }
            State::Exclusive | State::Modified => line.set_owner(agent),
        }
        if let Some(mshr) = self.cores[agent as usize].mshrs.iter_mut().find(|m| m.txn == txn) {
            mshr.granted = true;
        }
        if grant != State::Invalid {
            self.enter_filter(number, agent);
        }
        self.u.hop(txn, Hop::Answered, there);
        let arrival = there + self.u.costs.mesh + self.u.costs.fill;
        let passed = match source {
            Source::Nowhere => arrival,
            _ => self.cores[agent as usize].pass_line(self.u, arrival),
        };
        self.u.events.push(passed, Event::Fill(txn));
    }
}
