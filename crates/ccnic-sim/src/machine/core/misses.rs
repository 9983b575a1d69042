//! Misses: a core asks for lines, as many at once as it has fill buffers, and takes in what comes.

use ccnic::memory::LINE;

use crate::kernel::time::Ps;
use crate::machine::World;
use crate::machine::core::{Miss, Wait};
use crate::machine::directory::NONE;
use crate::protocols::{Request, State};

impl World {
    /// Asks for a line unless the core has it, well enough, or has asked already.
    pub(crate) fn fetch(&mut self, core: u8, line: u32, request: Request, own: bool) {
        let state = self.cores[core as usize].state(line);
        if if own { state.owned() } else { state.readable() } {
            return;
        }
        self.request(core, Miss::new(line, request));
    }

    pub(crate) fn request(&mut self, core: u8, miss: Miss) {
        if (miss.line + 1) as usize * LINE as usize > self.memory.len() {
            return; // a guess that leaves memory
        }
        if self.is_mapped(miss.line) {
            return; // a hint, or a guess: the device's lines are in no cache
        }
        let full = self.costs.fill_buffers;
        let c = &mut self.cores[core as usize];
        if let Some(load) = miss.load {
            c.oldest = c.oldest.min(load);
        }
        let own = miss.request != Request::Read;
        if let Some(before) = c.misses.iter_mut().find(|m| m.line == miss.line) {
            c.addresses += usize::from(miss.address && !before.address);
            before.join(&miss, own);
            return;
        }
        if let Some(before) = c.queued.iter_mut().find(|m| m.line == miss.line) {
            before.join(&miss, own);
            return;
        }
        if !miss.hardware && c.buffers() >= full {
            c.queued.push_back(miss);
            return;
        }
        let at = c.clock.max(self.now);
        self.send(core, miss, at);
    }

    /// Sends a request.
    fn send(&mut self, core: u8, miss: Miss, at: Ps) {
        let txn = self.ask(core, miss.line, miss.request, at);
        let full = self.costs.fill_buffers;
        let c = &mut self.cores[core as usize];
        c.misses.push(Miss { txn, ..miss });
        c.hardware += usize::from(miss.hardware);
        c.addresses += usize::from(miss.address);
        if c.full_since.is_none() && c.buffers() >= full {
            c.full_since = Some(at);
        }
        if miss.around {
            c.counters.stores_around += 1;
        } else if miss.request == Request::Read {
            c.counters.reads += 1;
        } else {
            c.counters.owns += 1;
        }
    }

    /// What a core asked for has come.
    pub(crate) fn filled(&mut self, txn: u32) {
        let t = self.txns[txn as usize];
        self.end_txn(txn);
        let (core, line) = (t.core, t.line);
        if let Some(trace) = &mut self.trace {
            let (socket, home) = (self.cores[core as usize].socket, self.lines.home(line));
            trace.answered(txn, &t, socket, home, self.now);
        }
        let c = &mut self.cores[core as usize];
        let Some(i) = c.misses.iter().position(|m| m.txn == txn) else { return };
        let miss = c.misses.swap_remove(i);
        c.hardware -= usize::from(miss.hardware);
        c.addresses -= usize::from(miss.address);
        if miss.load == Some(c.oldest) {
            c.find_oldest();
        }
        c.counters.answered[t.source as usize] += 1;
        c.last_source = t.source;
        if t.crossed && !miss.around {
            let remote = if t.request == Request::Read {
                &mut c.counters.remote_reads
            } else {
                &mut c.counters.remote_owns
            };
            *remote += 1;
        }
        // A later reader may have become the forwarder while this answer was on its way.
        let overtaken = t.grant == State::Forward && self.lines.get(line).forward != core;
        self.place(core, line, if overtaken { State::Shared } else { t.grant });
        self.bind(core, line);
        // A polling loop that went on as if there were no news has to go back, if there are.
        let news = self.cores[core as usize].news.is_some_and(|(at, _)| at / LINE == line);
        self.disturb(core, line, if news { self.costs.mispredict } else { 0 });
        self.send_queued(core);
        self.drain(core);
        self.ask_again(core, line, miss.wanted);
        if miss.deferred != NONE {
            self.answer(miss.deferred, core);
        }
        let c = &self.cores[core as usize];
        let wakes = match c.wait {
            Wait::Window => !c.window_full(&self.costs),
            Wait::Loads => c.is_settled(),
            Wait::Addresses => c.addresses == 0,
            _ => false,
        };
        if wakes {
            self.wake(core, self.now);
        }
    }

    /// Puts a line into the private caches.
    pub(crate) fn place(&mut self, core: u8, line: u32, state: State) {
        if state == State::Invalid {
            return;
        }
        let World { cores, lines, .. } = self;
        let c = &mut cores[core as usize];
        let expected: &[Miss] = &c.misses;
        let keep = |line| lines.busy(line) || expected.iter().any(|m| m.line == line);
        let Some((gone, state)) = c.caches.place(line, state, keep) else { return };
        if c.miss(gone).is_some_and(|m| m.granted) {
            return; // its ownership is on the way, and brings it back: for the home nothing has changed
        }
        self.evict(core, gone, state);
    }

    /// Hands a line that has come to the access that waits for it.
    fn bind(&mut self, core: u8, line: u32) {
        let guessed = self.cores[core as usize].guessed.take_if(|at| *at / LINE == line);
        if let Some(at) = guessed {
            // The load is done now, and what it says is known, even if the line is taken away again at once.
            let value = self.word(at);
            let c = &mut self.cores[core as usize];
            c.news = Some((at, value)).filter(|_| !c.looks.is(at, value));
        }
        let c = &self.cores[core as usize];
        let (wait, state) = (c.wait, c.state(line));
        let result = match wait {
            Wait::Load(at) if at / LINE == line => Ok(self.word(at)),
            Wait::Exchange(at, current, new) if at / LINE == line => {
                if !state.owned() {
                    self.fetch(core, line, Request::Own, true);
                    return;
                }
                self.exchange_now(core, at, current, new)
            }
            _ => return,
        };
        let c = &mut self.cores[core as usize];
        c.bound = Some(result);
        if let (Wait::Load(at), Ok(value)) = (wait, result) {
            c.looks.expected(at, value);
        }
        self.wake(core, self.now);
    }

    /// A store wants to own what was asked for to read.
    fn ask_again(&mut self, core: u8, line: u32, wanted: bool) {
        if wanted {
            self.fetch(core, line, Request::Own, true);
        }
    }

    /// A fill buffer is free.
    fn send_queued(&mut self, core: u8) {
        let (full, now) = (self.costs.fill_buffers, self.now);
        loop {
            let c = &mut self.cores[core as usize];
            if c.buffers() >= full {
                return;
            }
            if let Some(since) = c.full_since.take() {
                c.counters.buffers_full += now.saturating_sub(since);
            }
            let Some(miss) = c.queued.pop_front() else { break };
            let state = c.state(miss.line);
            if if miss.request == Request::Read { state.readable() } else { state.owned() } {
                c.find_oldest();
                self.ask_again(core, miss.line, miss.wanted);
                continue;
            }
            self.send(core, miss, now);
        }
        if self.cores[core as usize].wait == Wait::Misses {
            self.wake(core, now);
        }
    }
}
