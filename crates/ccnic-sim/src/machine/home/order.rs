//! The order of a line's transactions, and which caches are snooped for each.

use super::{Home, members};
use crate::kernel::time::Ps;
use crate::machine::event::Event;
use crate::machine::ids::{AgentId, NONE, SocketId, TxnId};
use crate::machine::transactions::Transaction;
use crate::observe::trace::Hop;
use crate::protocols::table::{Request, Sharing, Snoops, home_number};

impl Home<'_> {
    /// A request reaches the home agent of its requester's socket.
    pub fn arrive(&mut self, txn: TxnId) {
        let start = self.u.now + self.u.costs.lookup;
        self.u.hop(txn, Hop::Agent, self.u.now);
        if !self.enqueue(txn) {
            self.order(txn, start);
        }
    }

    /// A request reaches its line's home agent in another socket.
    pub fn at_home(&mut self, txn: TxnId) {
        let home = self.u.directory.home(self.u.txns[txn].line);
        let t = &mut self.u.txns[txn];
        (t.at, t.crossed) = (home, true);
        let start = self.u.now + self.u.costs.lookup;
        self.u.hop(txn, Hop::Home, self.u.now);
        if !self.enqueue(txn) {
            self.decide(txn, start);
        }
    }

    /// Makes a request wait if another one of its line is under way.
    fn enqueue(&mut self, txn: TxnId) -> bool {
        let line = self.u.directory.get(self.u.txns[txn].line);
        if !line.busy {
            return false;
        }
        let last = line.waiting.1;
        line.waiting.1 = txn;
        if line.waiting.0 == NONE {
            line.waiting.0 = txn;
        } else {
            self.u.txns[last].next = txn;
        }
        true
    }

    /// A request is next, at the home agent that it has reached.
    pub(super) fn order(&mut self, txn: TxnId, start: Ps) {
        let t = self.u.txns[txn];
        let home = self.u.directory.home(t.line);
        if t.at == home || self.is_settled_within(t.at, &t) {
            self.decide(txn, start);
            return;
        }
        let arrival = self.u.send_control(t.at, home, start);
        self.u.events.push(arrival, Event::AtHome(txn));
    }

    /// True when a socket that is not the line's home can settle a request alone: no other socket has the line, or it has a copy to
    /// read.
    fn is_settled_within(&mut self, socket: SocketId, t: &Transaction) -> bool {
        let line = *self.u.directory.get(t.line);
        let bit = 1u64 << socket;
        match (line.sharing(), t.request) {
            (Sharing::Owned, _) => self.cores[line.owner as usize].socket == socket,
            (Sharing::Uncached, Request::Read | Request::ReadOwn | Request::ReadCurrent) => line.llc == bit,
            (Sharing::Uncached, Request::OwnNoData) => line.llc == bit && line.dirty == bit,
            (Sharing::Shared, Request::Read | Request::ReadCurrent) => {
                line.llc & bit != 0 || self.has_sharer(socket, line.sharers, t.agent)
            }
            _ => false,
        }
    }

    /// True when a socket has a sharer besides one.
    pub(super) fn has_sharer(&self, socket: SocketId, sharers: u128, but: AgentId) -> bool {
        members(sharers & !(1 << but)).any(|c| self.cores[c as usize].socket == socket)
    }

    /// Carries out a request at the home agent that decides: snoops the caches that the table says, or answers.
    fn decide(&mut self, txn: TxnId, start: Ps) {
        let t = self.u.txns[txn];
        let (home, line) = (self.u.directory.home(t.line), *self.u.directory.get(t.line));
        let mut start = start.max(line.free_at);
        let row = self.u.protocol.home_row(line.sharing(), t.request);
        self.u.observer.rows.home[home_number(row.sharing, row.request)] += 1;
        self.u.directory.get(t.line).busy = true;
        match row.snoops {
            Snoops::Owner(_) if line.owner != t.agent => {
                if t.at == home && self.cores[line.owner as usize].socket != home {
                    let reads = matches!(t.request, Request::Read | Request::ReadCurrent);
                    if reads || !self.u.costs.extra_for_reads_only {
                        start += self.u.costs.home_extra;
                    }
                    if self.u.costs.speculative_read && self.u.address_map.home(t.line).is_none() {
                        self.u.read_memory(home, start);
                    }
                }
                self.u.txns[txn].pending = 1;
                self.send_snoop(txn, line.owner, start);
            }
            Snoops::Sharers(_) if line.sharers & !(1 << t.agent) != 0 => {
                let others = line.sharers & !(1 << t.agent);
                self.u.txns[txn].pending = others.count_ones() as u16;
                self.u.txns[txn].latest = start;
                members(others).for_each(|agent| self.send_snoop(txn, agent, start));
            }
            _ => self.supply(txn, start),
        }
    }

    /// Sends a message from one socket's mesh to another's, or the same; returns when it is there.
    pub(super) fn send(&mut self, from: SocketId, to: SocketId, at: Ps, line: bool) -> Ps {
        if from == to {
            at
        } else if line {
            self.u.send_line(from, to, at)
        } else {
            self.u.send_control(from, to, at)
        }
    }

    /// A line's transaction is over; the next one that waits begins at `free`.
    pub(super) fn release(&mut self, line: u32, free: Ps) {
        let entry = self.u.directory.get(line);
        entry.busy = false;
        entry.free_at = free;
        let next = entry.waiting.0;
        if next == NONE {
            return;
        }
        entry.waiting.0 = self.u.txns[next].next;
        if entry.waiting.0 == NONE {
            entry.waiting.1 = NONE;
        }
        self.u.txns[next].next = NONE;
        self.order(next, free);
        self.go_on(line, free);
    }

    /// A transaction that had to travel on has left the line to the one behind it.
    pub(super) fn go_on(&mut self, line: u32, free: Ps) {
        let entry = self.u.directory.get(line);
        if !entry.busy && entry.waiting.0 != NONE {
            self.release(line, free);
        }
    }
}
