//! How requests travel: from a core to the home agent of its socket, where what the socket can settle is settled; else to the
//! line's home; from there to whoever must be asked; and back.
//!
//! The transactions of one line come one after the other. One that finds the line taken waits at the home agent that it
//! has reached, in order of arrival. Each step is an event at the time when the message arrives, so that what a request
//! meets is what is there then. Here is the order; `snoops` asks cores, `supply` answers from caches and memory, and `leave` is
//! how lines go from private caches.

mod leave;
mod snoops;
mod supply;

use crate::kernel::events::Event;
use crate::kernel::time::Ps;
use crate::machine::World;
use crate::machine::directory::NONE;
use crate::observe::counters::Source;
use crate::observe::trace::Station;
use crate::protocols::{Ask, Known, Request, State, directory};

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

    /// When a message from a socket's mesh is at the home agent of another, or of the same.
    fn reach(&mut self, to: u8, from: u8, at: Ps, line: bool) -> Ps {
        match (from == to, line) {
            (true, _) => at,
            (false, true) => self.send_line(from, at),
            (false, false) => self.send_control(from, at),
        }
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
}

/// The members of a set of cores.
fn bits(mut set: u128) -> impl Iterator<Item = u8> {
    std::iter::from_fn(move || {
        let bit = set.checked_ilog2()? as u8;
        set &= !(1 << bit);
        Some(bit)
    })
}
