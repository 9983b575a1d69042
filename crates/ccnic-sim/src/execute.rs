//! What cores do: loads, stores, exchanges, hints, polling; and what the events that they wait for bring.
//!
//! Every access is a function that either has its effect and answers [`Poll::Ready`], or says what the core waits for and
//! answers [`Poll::Pending`]; it is called again when the core is resumed. Between two events a core runs ahead of the
//! world's time, up to its *horizon*: the soonest moment at which another agent could take something from its caches.

use std::task::Poll;

use ccnic::port::LINE;

use crate::core::{Miss, Store, Stored, WATCH, Wait};
use crate::counters::Source;
use crate::events::Event;
use crate::lines::NONE;
use crate::protocol::{Request, State};
use crate::time::Ps;
use crate::world::World;

/// Micro-operations of a word's access and of a payload line's, in the reorder buffer.
pub(crate) const UOPS: u64 = 6;
/// How many lines a core reads ahead of a load that decides, when the loads before went on to the next line at once: its branch
/// predictor expects that it will again.
const RUN_AHEAD: u32 = 2;

/// Turns that a polling loop really makes before it sleeps: programs count turns, to tell whether they wait.
const SPINS: u32 = 16;

/// Kinds of accesses, for the prefetcher that goes by instruction.
#[derive(Debug, Clone, Copy)]
enum Site {
    Decide,
    Load,
    Payload,
}

impl World {
    /// Handles events until a core can go on; returns it. `None` when nothing happens any more until then.
    pub fn step(&mut self, until: Ps) -> Option<u8> {
        loop {
            let (at, event) = self.events.pop_until(until)?;
            debug_assert!(at >= self.now, "time runs backwards");
            self.now = at;
            match event {
                Event::Arrive(txn) => self.arrive(txn),
                Event::AtHome(txn) => self.at_home(txn),
                Event::Snoop(txn, core) => self.snooped(txn, core),
                Event::Fill(txn) if self.is_for_device(txn) => self.root_filled(txn),
                Event::Fill(txn) => self.filled(txn),
                Event::Demote(line, core) => self.demoted(line, core),
                Event::Device(action) => self.device(action),
                Event::Resume(core) => {
                    if self.resume(core) {
                        return Some(core);
                    }
                }
            }
        }
    }

    /// A program has been put on a core: it begins now.
    pub fn start(&mut self, core: u8) {
        let c = &mut self.cores[core as usize];
        c.clock = c.clock.max(self.now);
        self.events.push(c.clock, Event::Resume(core));
    }

    /// A program has ended: what it has stored reaches memory all the same.
    pub fn finish(&mut self, core: u8) {
        self.close(core);
        self.drain(core);
    }

    /// A core's turn. False when the event is stale: something else has woken it before.
    fn resume(&mut self, core: u8) -> bool {
        let c = &mut self.cores[core as usize];
        match c.wait {
            // A deadline.
            Wait::Line if c.deadline.is_some_and(|d| d <= self.now) => self.wake_now(core),
            Wait::Nothing if c.clock == self.now => {}
            _ => return false,
        }
        self.look_ahead(core);
        true
    }

    /// Sets how far a core may run ahead: nothing that happens later than now can reach it sooner.
    fn look_ahead(&mut self, core: u8) {
        let k = &self.costs;
        let soonest = self.now + k.mesh + k.lookup.min(k.snoop + k.mesh);
        let c = &mut self.cores[core as usize];
        c.horizon = c.snoops.iter().copied().min().unwrap_or(soonest).min(soonest);
    }

    /// Ends a core's wait at a time.
    pub(crate) fn wake(&mut self, core: u8, at: Ps) {
        let c = &mut self.cores[core as usize];
        let end = at.max(c.clock);
        self.note_wait(core, end);
        let c = &mut self.cores[core as usize];
        let waited = end - c.since.min(end);
        match c.wait {
            Wait::Nothing => return,
            Wait::Load(_) | Wait::Exchange(..) | Wait::Addresses => c.counters.load_stall += waited,
            Wait::Window | Wait::Loads | Wait::Misses => c.counters.window_stall += waited,
            Wait::Stores(_) | Wait::Device => c.counters.store_stall += waited,
            Wait::Line => c.counters.idle += waited,
        }
        c.wait = Wait::Nothing;
        c.clock = end;
        self.events.push(end, Event::Resume(core));
    }

    fn wake_now(&mut self, core: u8) {
        self.note_wait(core, self.now);
        let c = &mut self.cores[core as usize];
        c.counters.idle += self.now - c.since.min(self.now);
        (c.wait, c.clock) = (Wait::Nothing, self.now.max(c.clock));
    }

    pub(crate) fn wait(&mut self, core: u8, wait: Wait) {
        self.close(core);
        let c = &mut self.cores[core as usize];
        (c.wait, c.since) = (wait, c.clock);
    }

    /// True when a core may dispatch its next access now. Otherwise it has been told what it waits for.
    #[inline]
    pub(crate) fn ready(&mut self, core: u8) -> bool {
        let c = &self.cores[core as usize];
        if c.clock >= c.horizon {
            let clock = c.clock;
            if self.events.next_at().is_some_and(|at| at <= clock) {
                self.events.push(clock, Event::Resume(core));
                return false;
            }
            self.now = clock;
            self.look_ahead(core);
        }
        let c = &self.cores[core as usize];
        if c.window_full(&self.costs) {
            self.wait(core, Wait::Window);
            return false;
        }
        true
    }

    #[inline]
    pub(crate) fn charge(&mut self, core: u8, time: Ps, uops: u64) {
        let c = &mut self.cores[core as usize];
        c.clock += time;
        c.counters.software += time;
        c.position += uops;
    }

    /// Time that a program's own instructions take.
    pub fn work(&mut self, core: u8, time: Ps) -> Poll<()> {
        if !self.ready(core) {
            return Poll::Pending;
        }
        self.close(core);
        self.charge(core, time, time / 100); // some ten micro-operations a nanosecond: what full dispatch gives
        Poll::Ready(())
    }

    /// Reads a word. Most loads hand over the word at once and charge the line's way to what the core has under way. A load that
    /// decides waits for its line when it brings news; otherwise the core goes on as it did after the last look at that word,
    /// as a branch predictor makes it do.
    pub fn load(&mut self, core: u8, at: u32, decides: bool) -> Poll<u64> {
        if let Some(Ok(value)) = self.cores[core as usize].bound.take() {
            return Poll::Ready(value);
        }
        if self.is_mapped(at / LINE) {
            return self.mmio_read(core, at, LINE / 8);
        }
        if !self.ready(core) {
            return Poll::Pending;
        }
        self.close(core);
        self.charge(core, self.costs.access, UOPS);
        let (line, current) = (at / LINE, self.word(at));
        let c = &mut self.cores[core as usize];
        if decides {
            c.clock += std::mem::take(&mut c.owed);
            watch(c, line);
        }
        if !c.stores.is_empty()
            && let Some(value) = c.forwarded(at)
        {
            return Poll::Ready(value);
        }
        if let Some((_, value)) = c.news.take_if(|(word, _)| decides && *word == at)
            && value == current
        {
            c.looks.expected(at, value);
            return Poll::Ready(value);
        }
        let run_ahead = decides && c.decided != NONE && line == c.decided + 1;
        if decides {
            c.decided = line;
        }
        let missed = !self.touch(core, line, if decides { Site::Decide } else { Site::Load });
        let value = self.word(at);
        let expected = decides && self.cores[core as usize].looks.expected(at, value);
        if missed && expected {
            self.cores[core as usize].guessed = Some(at);
        }
        if !missed || !decides || expected {
            return Poll::Ready(value);
        }
        if run_ahead {
            (1..=RUN_AHEAD).for_each(|n| self.fetch(core, line + n, Request::Read, false));
        }
        self.wait(core, Wait::Load(at));
        Poll::Pending
    }

    /// A load's use of a line: true when the caches have it; otherwise it has been asked for.
    fn touch(&mut self, core: u8, line: u32, site: Site) -> bool {
        let l2 = self.costs.l2;
        let c = &mut self.cores[core as usize];
        let found = c.find(line);
        match found {
            Some((_, true)) => c.counters.l1_hits += 1,
            Some((_, false)) => {
                c.counters.l2_hits += 1;
                if matches!(site, Site::Decide) {
                    c.clock += l2;
                }
            }
            None => {}
        }
        let prefetch = c.prefetch;
        if prefetch.adjacent || prefetch.streamer || prefetch.ip {
            let level = found.map_or(3, |(_, near)| if near { 1 } else { 2 });
            let next = c.streams.after(prefetch, site as usize, line, level);
            next.into_iter().flatten().for_each(|line| self.prefetch_in_hardware(core, line));
        }
        if found.is_none() {
            let position = self.cores[core as usize].position;
            let address = matches!(site, Site::Load);
            self.request(core, Miss { load: Some(position), address, ..Miss::new(line, Request::Read) });
        }
        found.is_some()
    }

    fn prefetch_in_hardware(&mut self, core: u8, line: u32) {
        let room = self.costs.super_queue;
        let c = &self.cores[core as usize];
        if c.misses.len() >= room || c.state(line).readable() || c.expects(line) {
            return;
        }
        self.cores[core as usize].counters.prefetches += 1;
        self.request(core, Miss { hardware: true, ..Miss::new(line, Request::Read) });
    }

    /// Uses a line of payload to read. Its bytes belong to this core, so nothing waits for them but the window.
    pub fn read_line(&mut self, core: u8, line: u32) -> Poll<()> {
        if !self.ready(core) {
            return Poll::Pending;
        }
        if self.load_queue_full(core) || !self.addresses_known(core) {
            return Poll::Pending;
        }
        self.close(core);
        self.charge(core, self.costs.payload_line, UOPS);
        self.touch(core, line, Site::Payload);
        Poll::Ready(())
    }

    /// True when the addresses that the program goes by are known: loads that do not decide hand over their words at once, but
    /// what they say (a descriptor's buffer) can only be used when their lines have come.
    fn addresses_known(&mut self, core: u8) -> bool {
        let known = self.cores[core as usize].addresses == 0;
        if !known {
            self.wait(core, Wait::Addresses);
        }
        known
    }

    fn load_queue_full(&mut self, core: u8) -> bool {
        let c = &self.cores[core as usize];
        let full = c.queued.len() + c.misses.len() >= self.costs.load_queue;
        if full {
            self.wait(core, Wait::Misses);
        }
        full
    }

    /// Stores a line of payload, all of it or (`whole` is false) a part.
    pub fn write_line(&mut self, core: u8, line: u32, whole: bool) -> Poll<()> {
        if !self.ready(core) || !self.store_room(core) {
            return Poll::Pending;
        }
        self.close(core);
        self.charge(core, self.costs.payload_line, UOPS);
        if !self.stored_at_once(core, line, Stored::Payload) {
            let whole = whole && self.costs.dataless;
            self.fetch(core, line, if whole { Request::OwnWhole } else { Request::Own }, true);
        }
        Poll::Ready(())
    }

    /// Stores a word.
    pub fn store(&mut self, core: u8, at: u32, value: u64) -> Poll<()> {
        if self.is_mapped(at / LINE) {
            return self.store_uncached(core, at, value);
        }
        if !self.ready(core) || !self.store_room(core) {
            return Poll::Pending;
        }
        self.charge(core, self.costs.access, UOPS);
        let (line, bit) = (at / LINE, 1u8 << (at / 8 % 8));
        let opened = self.cores[core as usize].open;
        if opened.is_some_and(|(open, _)| open != line) {
            self.close(core);
        }
        if !self.stored_at_once(core, line, Stored::Word(at, value)) {
            let open = &mut self.cores[core as usize].open;
            *open = Some((line, open.map_or(0, |(_, mask)| mask) | bit));
        }
        Poll::Ready(())
    }

    pub(crate) fn store_room(&mut self, core: u8) -> bool {
        let room = self.cores[core as usize].stores.len() < self.costs.store_queue;
        if !room {
            self.wait(core, Wait::Stores(false));
        }
        room
    }

    /// Stores when nothing is before it and the line is owned; otherwise it waits in the store buffer.
    fn stored_at_once(&mut self, core: u8, line: u32, what: Stored) -> bool {
        let c = &mut self.cores[core as usize];
        let store = Store { line, what, position: c.position };
        let owned = c.find(store.line).is_some_and(|(state, _)| state.owned());
        if owned {
            c.counters.l1_hits += 1;
        }
        if c.stores.is_empty() && owned && store.position < c.oldest {
            self.commit(core, store);
            return true;
        }
        c.stores.push_back(store);
        owned
    }

    fn commit(&mut self, core: u8, store: Store) {
        self.cores[core as usize].set_state(store.line, State::Modified);
        if let Stored::Word(at, value) = store.what {
            self.commit_word(core, at, value);
        }
    }

    /// The words of a line have been stored: asks for its ownership; without data, if it was all of them.
    pub(crate) fn close(&mut self, core: u8) {
        let Some((line, mask)) = self.cores[core as usize].open.take() else { return };
        let whole = mask == u8::MAX && self.costs.dataless;
        self.fetch(core, line, if whole { Request::OwnWhole } else { Request::Own }, true);
    }

    /// Stores what is at the front of the store buffer, owned, and after no load that is still under way (x86-TSO: instructions
    /// retire in order, and stores reach the cache after they have retired).
    pub(crate) fn drain(&mut self, core: u8) {
        while let Some(store) = self.cores[core as usize].stores.front().copied() {
            let c = &mut self.cores[core as usize];
            if store.position >= c.oldest {
                break;
            }
            if store.what == Stored::Demote {
                c.stores.pop_front();
                self.send_demote(core, store.line);
                continue;
            }
            if let Stored::Uncached(at, value) = store.what {
                self.post(core, at, value, self.now);
                break;
            }
            if c.state(store.line).owned() {
                c.stores.pop_front();
                self.commit(core, store);
                continue;
            }
            // Asked for and lost again, or never asked for.
            if c.open.is_none_or(|(open, _)| open != store.line) {
                self.fetch(core, store.line, Request::Own, true);
            }
            break;
        }
        let (room, c) = (self.costs.store_queue, &self.cores[core as usize]);
        let wakes = match c.wait {
            Wait::Stores(true) => c.stores.is_empty(),
            Wait::Stores(false) => c.stores.len() < room,
            _ => false,
        };
        if wakes {
            self.wake(core, self.now);
        }
    }

    /// Replaces a word if it is `current`; what was there otherwise.
    pub fn exchange(&mut self, core: u8, at: u32, current: u64, new: u64) -> Poll<Result<u64, u64>> {
        if let Some(result) = self.cores[core as usize].bound.take() {
            return Poll::Ready(result);
        }
        if !self.ready(core) {
            return Poll::Pending;
        }
        self.close(core);
        let c = &self.cores[core as usize];
        if !c.stores.is_empty() {
            self.wait(core, Wait::Stores(true));
            return Poll::Pending;
        }
        self.charge(core, self.costs.exchange, UOPS);
        let line = at / LINE;
        if self.cores[core as usize].state(line).owned() {
            return Poll::Ready(self.exchange_now(core, at, current, new));
        }
        self.fetch(core, line, Request::Own, true);
        self.wait(core, Wait::Exchange(at, current, new));
        Poll::Pending
    }

    fn exchange_now(&mut self, core: u8, at: u32, current: u64, new: u64) -> Result<u64, u64> {
        self.cores[core as usize].set_state(at / LINE, State::Modified);
        let found = self.word(at);
        if found != current {
            return Err(found);
        }
        self.commit_word(core, at, new);
        Ok(found)
    }

    /// Waits until every load and store so far is done.
    pub fn fence(&mut self, core: u8) -> Poll<()> {
        if !self.ready(core) {
            return Poll::Pending;
        }
        self.close(core);
        let c = &self.cores[core as usize];
        if !c.stores.is_empty() {
            self.wait(core, Wait::Stores(true));
            return Poll::Pending;
        }
        self.settle(core)
    }

    /// Stores a whole line around the caches, into the memory that it is at home in (a non-temporal store). It takes a fill buffer
    /// until its home has it, and is in no order with other stores before a [`fence`](World::fence).
    pub fn store_around(&mut self, core: u8, line: u32) -> Poll<()> {
        self.around(core, line, Request::Put, self.costs.payload_line)
    }

    /// Takes a line out of all caches, into memory if that is out of date (CLFLUSHOPT). In no order with accesses to other lines
    /// before a [`fence`](World::fence).
    pub fn flush(&mut self, core: u8, line: u32) -> Poll<()> {
        self.around(core, line, Request::Flush, self.costs.access)
    }

    fn around(&mut self, core: u8, line: u32, request: Request, time: Ps) -> Poll<()> {
        if !self.ready(core) || self.load_queue_full(core) {
            return Poll::Pending;
        }
        self.close(core);
        // What was stored in the line, or asked for, comes first.
        let c = &self.cores[core as usize];
        let wait = if c.stores.iter().any(|s| s.line == line) {
            Wait::Stores(true)
        } else if c.expects(line) {
            Wait::Misses
        } else {
            self.charge(core, time, UOPS);
            self.request(core, Miss { around: true, ..Miss::new(line, request) });
            return Poll::Ready(());
        };
        self.wait(core, wait);
        Poll::Pending
    }

    /// Waits until every load so far has its value.
    pub fn settle(&mut self, core: u8) -> Poll<()> {
        if !self.cores[core as usize].is_settled() {
            self.wait(core, Wait::Loads);
            return Poll::Pending;
        }
        Poll::Ready(())
    }

    /// A hint to fetch a line: to read, to own, or to write all of it.
    pub fn hint(&mut self, core: u8, line: u32, request: Request) -> Poll<()> {
        if !self.ready(core) || self.load_queue_full(core) || !self.addresses_known(core) {
            return Poll::Pending;
        }
        self.close(core);
        self.charge(core, self.costs.access, 1);
        let dataless = request == Request::OwnWhole && self.costs.dataless;
        let request = if request == Request::OwnWhole && !dataless { Request::Own } else { request };
        self.fetch(core, line, request, request != Request::Read);
        Poll::Ready(())
    }

    /// A hint to move a line towards its reader, after the stores before it.
    pub fn demote(&mut self, core: u8, line: u32) -> Poll<()> {
        if !self.costs.demote {
            return Poll::Ready(());
        }
        if !self.ready(core) || !self.store_room(core) {
            return Poll::Pending;
        }
        self.close(core);
        self.charge(core, self.costs.access, 1);
        let c = &mut self.cores[core as usize];
        if c.stores.is_empty() {
            self.send_demote(core, line);
        } else {
            let position = c.position;
            c.stores.push_back(Store { line, what: Stored::Demote, position });
        }
        Poll::Ready(())
    }

    fn send_demote(&mut self, core: u8, line: u32) {
        let at = self.now.max(self.cores[core as usize].clock) + self.costs.mesh;
        self.events.push(at, Event::Demote(line, core));
    }

    /// Asks for a line unless the core has it, well enough, or has asked already.
    fn fetch(&mut self, core: u8, line: u32, request: Request, own: bool) {
        let state = self.cores[core as usize].state(line);
        if if own { state.owned() } else { state.readable() } {
            return;
        }
        self.request(core, Miss::new(line, request));
    }

    fn request(&mut self, core: u8, miss: Miss) {
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
    fn filled(&mut self, txn: u32) {
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
        if let Some(slot) = c.l2.set_state(line, state) {
            c.l2.touch(slot);
            return;
        }
        let ways = c.l2.ways();
        let expected: &[Miss] = &c.misses;
        let keep = |line| lines.busy(line) || expected.iter().any(|m| m.line == line);
        let (_, gone) = c.l2.insert(line, state, ways, keep);
        c.l1.insert(line, (), u32::MAX, |_| false);
        let Some((gone, state)) = gone else { return };
        if self.cores[core as usize].miss(gone).is_some_and(|m| m.granted) {
            // Its ownership is on the way, and brings it back: for the home nothing has changed.
            self.cores[core as usize].l1.remove(gone);
            return;
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

    /// A turn of a polling loop that found nothing: sleeps until one of the lines that it has loaded is taken away, or its
    /// deadline comes; the result is that of spinning.
    pub fn relax(&mut self, core: u8) -> Poll<()> {
        let c = &mut self.cores[core as usize];
        if std::mem::take(&mut c.slept) {
            c.turned = c.clock;
            c.spun = 0;
            c.disturbed = false;
            c.watched.clear();
            return Poll::Ready(());
        }
        if !self.ready(core) {
            return Poll::Pending;
        }
        self.close(core);
        let poll = self.costs.poll;
        let c = &mut self.cores[core as usize];
        c.clock += poll;
        c.counters.idle += poll;
        c.decided = NONE;
        // The shortest turn is one of polling alone.
        c.turn = c.turn.min(c.clock.saturating_sub(c.turned));
        c.turned = c.clock;
        let due = c.deadline.is_some_and(|deadline| deadline <= c.clock);
        c.spun += 1;
        if c.disturbed || c.watched.len() > WATCH {
            c.disturbed = false;
            c.watched.clear();
            return Poll::Ready(());
        }
        if due || c.spun < SPINS || c.watched.is_empty() {
            return Poll::Ready(());
        }
        if let Some(deadline) = c.deadline {
            self.events.push(deadline, Event::Resume(core));
        }
        c.slept = true;
        self.wait(core, Wait::Line);
        Poll::Pending
    }

    /// Where a core's last miss was answered.
    pub fn last_source(&self, core: u8) -> Source {
        self.cores[core as usize].last_source
    }
}

/// Remembers a line that a polling loop waits for.
fn watch(c: &mut crate::core::Core, line: u32) {
    if c.watched.last() != Some(&line) && c.watched.len() <= WATCH && !c.watched.contains(&line) {
        c.watched.push(line);
    }
}
