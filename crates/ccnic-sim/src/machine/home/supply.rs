//! Answers of a home agent: from a last-level cache, a core that shares the line, or memory; and what the requester may do.

use crate::kernel::events::Event;
use crate::kernel::time::Ps;
use crate::machine::World;
use crate::machine::directory::{Line, NOBODY};
use crate::observe::counters::Source;
use crate::observe::trace::Station;
use crate::protocols::{Data, Grant, Request, State, directory};

use super::Transaction;

impl World {
    /// Answers a request for which nobody has to be asked (any more).
    pub(crate) fn supply(&mut self, txn: u32, at: Ps) {
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
                if t.request == Request::Flush && (dirty || own == State::Modified) {
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
        let there = if t.request == Request::Put { self.put(t.line, t.core, there) } else { there };
        self.grant(txn, grant, source, there);
        self.release(t.line, ready);
    }

    /// When the last-level cache of the other socket, if it has the line, has confirmed that it forgot it.
    fn clear_llcs(&mut self, at: u8, line: &Line, when: Ps) -> Ps {
        if line.llc & !(1 << at) == 0 || self.sockets.len() == 1 {
            return when;
        }
        let other = 1 - at;
        let there = self.send_control(at, when) + self.costs.lookup;
        self.send_control(other, there)
    }

    /// The nearest copy of a line that nobody owns: the socket that has it, when it is read there, what it is.
    fn nearest(&mut self, t: &Transaction, line: &Line, home: u8, at: Ps) -> (u8, Ps, Source) {
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
    pub(crate) fn grant(&mut self, txn: u32, grant: State, source: Source, there: Ps) {
        let core = self.txns[txn as usize].core;
        let line_number = self.txns[txn as usize].line;
        let line = self.lines.get(line_number);
        match grant {
            State::Invalid => {}
            State::Shared | State::Forward => {
                let before = std::mem::replace(&mut line.forward, core);
                line.sharers |= 1 << core;
                if before != NOBODY && before != core {
                    self.cores[before as usize].caches.set_state(line_number, State::Shared);
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
