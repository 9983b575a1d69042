//! Misses: the core asks for lines, as many at once as it has fill buffers, and takes in what comes.

use ccnic::memory::LINE;

use super::mshr::{Mshr, NO_LOAD};
use super::{Core, Wait};
use crate::kernel::time::Ps;
use crate::machine::ids::TxnId;
use crate::machine::uncore::Uncore;
use crate::protocols::table::{Request, State};

impl Core {
    /// Asks for a line, to read or (any other request) to own, unless the core has it or has asked already.
    pub(super) fn fetch(&mut self, u: &mut Uncore, line: u32, request: Request) {
        if !suffices(self.state(line), request) {
            self.request(u, Mshr::new(line, request));
        }
    }

    /// True when a line has been asked for, or waits to be.
    pub fn expects(&self, line: u32) -> bool {
        self.mshrs.iter().chain(&self.queued).any(|m| m.line == line)
    }

    /// The request under way for a line.
    #[inline]
    pub fn mshr(&mut self, line: u32) -> Option<&mut Mshr> {
        self.mshrs.iter_mut().find(|m| m.line == line)
    }

    /// Fill buffers that are taken.
    pub(super) fn buffers(&self) -> usize {
        self.mshrs.len() - self.prefetches
    }

    /// A miss: merges with one of the same line, takes a fill buffer, or waits for one.
    pub(super) fn request(&mut self, u: &mut Uncore, miss: Mshr) {
        if (miss.line + 1) as usize * LINE as usize > u.ram.len() {
            return; // a prefetch beyond the end of memory
        }
        if u.address_map.is_register(miss.line) {
            return; // a prefetch of a device's register: those are in no cache
        }
        self.oldest_load = self.oldest_load.min(miss.load);
        if let Some(before) = self.mshrs.iter_mut().find(|m| m.line == miss.line) {
            self.addresses += usize::from(miss.address && !before.address);
            before.merge(&miss);
            return;
        }
        if let Some(before) = self.queued.iter_mut().find(|m| m.line == miss.line) {
            before.merge(&miss);
            return;
        }
        if !miss.prefetch && self.buffers() >= u.costs.fill_buffers {
            self.queued.push_back(miss);
            return;
        }
        self.issue(u, miss, self.clock.max(u.now));
    }

    /// Sends a request to the home agent.
    fn issue(&mut self, u: &mut Uncore, miss: Mshr, at: Ps) {
        let txn = u.request(self.id, self.socket, miss.line, miss.request, at);
        self.mshrs.push(Mshr { txn, ..miss });
        self.prefetches += usize::from(miss.prefetch);
        self.addresses += usize::from(miss.address);
        if self.full_since.is_none() && self.buffers() >= u.costs.fill_buffers {
            self.full_since = Some(at);
        }
        if miss.non_temporal {
            self.counters.non_temporal += 1;
        } else if miss.request == Request::Read {
            self.counters.reads += 1;
        } else {
            self.counters.owns += 1;
        }
    }

    /// The answer to a request has come. Returns a snoop that waited for it, to be answered now; [`NONE`](crate::machine::ids::NONE)
    /// for no snoop, and `None` if no request waits for the answer. Call [`wake_after_fill`](Core::wake_after_fill) then.
    pub fn filled(&mut self, u: &mut Uncore, txn: TxnId) -> Option<TxnId> {
        let t = u.end(txn, self.socket);
        let line = t.line;
        let i = self.mshrs.iter().position(|m| m.txn == txn)?;
        let miss = self.mshrs.swap_remove(i);
        self.prefetches -= usize::from(miss.prefetch);
        self.addresses -= usize::from(miss.address);
        if miss.load == self.oldest_load && miss.load != NO_LOAD {
            self.find_oldest_load();
        }
        self.counters.answered[t.source as usize] += 1;
        self.last_source = t.source;
        if t.crossed && !miss.non_temporal {
            let c = &mut self.counters;
            *(if t.request == Request::Read { &mut c.remote_reads } else { &mut c.remote_owns }) += 1;
        }
        // A later reader may have become the forwarder while this answer was on its way.
        let overtaken = t.grant == State::Forward && u.directory.get(line).forward != self.id;
        self.install(u, line, if overtaken { State::Shared } else { t.grant });
        self.complete(u, line);
        // A polling loop that has gone on as if a value had not changed has to go back if it has.
        let mispredicted = self.predictor.changed.is_some_and(|(at, _)| at / LINE == line);
        self.trigger(u, line, if mispredicted { u.costs.mispredict } else { 0 });
        self.issue_queued(u);
        self.drain(u);
        self.upgrade(u, line, miss.upgrade);
        Some(miss.deferred)
    }

    /// Ends a wait that an answer has ended.
    pub fn wake_after_fill(&mut self, u: &mut Uncore) {
        let wakes = match self.wait {
            Wait::Window => !self.is_window_full(&u.costs),
            Wait::Loads => self.is_settled(),
            Wait::Addresses => self.addresses == 0,
            _ => false,
        };
        if wakes {
            self.wake(u, u.now);
        }
    }

    /// Puts a line into the private caches.
    pub fn install(&mut self, u: &mut Uncore, line: u32, state: State) {
        if state == State::Invalid {
            return;
        }
        let (directory, mshrs) = (&u.directory, &self.mshrs);
        let keep = |line| directory.is_busy(line) || mshrs.iter().any(|m| m.line == line);
        let Some((victim, state)) = self.caches.insert(line, state, keep) else { return };
        if self.mshr(victim).is_some_and(|m| m.granted) {
            return; // its ownership is on the way, and brings it back: for the home agent nothing has changed
        }
        self.evict(u, victim, state);
    }

    /// Completes the load or exchange that waits for a line.
    fn complete(&mut self, u: &mut Uncore, line: u32) {
        if let Some(at) = self.predictor.speculated.take_if(|at| *at / LINE == line) {
            // The load is done now, and its value is known, even if the line is taken away again at once.
            let value = u.ram.word(at);
            self.predictor.changed = Some((at, value)).filter(|_| !self.predictor.values.is(at, value));
        }
        let result = match self.wait {
            Wait::Load(at) if at / LINE == line => {
                let value = u.ram.word(at);
                self.predictor.values.observe(at, value);
                Ok(value)
            }
            Wait::Exchange(at, current, new) if at / LINE == line => {
                if !self.state(line).writable() {
                    self.fetch(u, line, Request::ReadOwn);
                    return;
                }
                self.exchange_owned(u, at, current, new)
            }
            _ => return,
        };
        self.completed = Some(result);
        self.wake(u, u.now);
    }

    /// A store wants to own a line that was asked for to read.
    fn upgrade(&mut self, u: &mut Uncore, line: u32, wanted: bool) {
        if wanted {
            self.fetch(u, line, Request::ReadOwn);
        }
    }

    /// Sends misses that have waited for a fill buffer.
    fn issue_queued(&mut self, u: &mut Uncore) {
        loop {
            if self.buffers() >= u.costs.fill_buffers {
                return;
            }
            if let Some(since) = self.full_since.take() {
                self.counters.buffers_full += u.now.saturating_sub(since);
            }
            let Some(miss) = self.queued.pop_front() else { break };
            if suffices(self.state(miss.line), miss.request) {
                self.find_oldest_load();
                self.upgrade(u, miss.line, miss.upgrade);
                continue;
            }
            self.issue(u, miss, u.now);
        }
        if self.wait == Wait::Misses {
            self.wake(u, u.now);
        }
    }

    /// Looks again which load is the oldest.
    fn find_oldest_load(&mut self) {
        let oldest = |old: u64, m: &Mshr| old.min(m.load);
        self.oldest_load = self.queued.iter().fold(self.mshrs.iter().fold(NO_LOAD, oldest), oldest);
    }
}

/// True when a line in a state serves a request.
#[inline]
pub(super) fn suffices(state: State, request: Request) -> bool {
    if request == Request::Read { state.readable() } else { state.writable() }
}
