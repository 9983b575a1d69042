//! Loads, and what runs ahead of them: prefetches by software and by hardware.
//!
//! Most loads return their word at once; the core pays for the line in its window. A *control-dependent* load, one that the program
//! branches on, stalls only if the value changed since the last look: otherwise the branch predictor goes on as it did then. A load of
//! a line that a device is home of always stalls on a miss.

use std::task::Poll;

use ccnic::memory::LINE;

use super::misses::suffices;
use super::mshr::Mshr;
use super::prefetch::Access;
use super::{Core, Wait};
use crate::machine::ids::NONE;
use crate::machine::uncore::Uncore;
use crate::protocols::table::Request;

/// Kinds of loads, for the prefetcher that goes by instruction.
#[derive(Debug, Clone, Copy)]
enum Site {
    Control,
    Data,
    Payload,
}

impl Core {
    /// Loads a word; `control` says that the program branches on it.
    pub fn load(&mut self, u: &mut Uncore, at: u32, control: bool) -> Poll<u64> {
        if let Some(Ok(value)) = self.completed.take() {
            return Poll::Ready(value);
        }
        if u.address_map.is_register(at / LINE) {
            return self.read_device(u, at, 8);
        }
        self.charge.load(at);
        if !self.can_dispatch(u) {
            return Poll::Pending;
        }
        self.close(u);
        let line = at / LINE;
        self.one_instruction(u);
        if control {
            self.clock += self.monitor.take_penalty();
            self.monitor.watch(line);
        }
        if !self.stores.is_empty()
            && let Some(value) = self.forwarded(at)
        {
            return Poll::Ready(value);
        }
        let value = u.ram.word(at);
        if let Some((_, changed)) = self.predictor.changed.take_if(|(word, _)| control && *word == at)
            && changed == value
        {
            self.predictor.values.observe(at, value);
            return Poll::Ready(value);
        }
        let ahead = if control { self.run_ahead(u, line) } else { 0 };
        let miss = !self.touch(u, line, if control { Site::Control } else { Site::Data });
        let expected = control && self.predictor.values.observe(at, value);
        if !miss {
            return Poll::Ready(value);
        }
        // A device decides what the line holds when it answers: nothing is known of it before.
        let of_device = u.address_map.home(line).is_some();
        if expected && !of_device {
            self.predictor.speculated = Some(at);
        }
        if !of_device && (!control || expected) {
            return Poll::Ready(value);
        }
        (1..=ahead).for_each(|n| self.fetch(u, line + n, Request::Read));
        self.wait_for(u, Wait::Load(at));
        Poll::Pending
    }

    /// How many lines the core reads ahead of a control-dependent load: as many as its reorder buffer reaches, if the program has
    /// gone from line to line before, since the branch predictor expects that it will again. Whole lines: while the load waits at the
    /// head of a full reorder buffer, the load of a line beyond its end has not been dispatched. The instructions between two lines of a
    /// ring are dispatched here.
    fn run_ahead(&mut self, u: &Uncore, line: u32) -> u32 {
        let (before, at) = self.predictor.last_line;
        if line == before {
            return 0;
        }
        let next = before != NONE && line == before + 1;
        if next {
            let rest = self.code.ring_line.saturating_sub(self.position - at);
            self.dispatch(u, rest);
            self.charge.count(rest);
        }
        self.predictor.last_line = (line, self.position);
        if !next || self.code.ring_line == 0 {
            return 0; // not a ring whose lines the program goes through
        }
        // Of what does not find a fill buffer, most would not be executed before the branch is decided.
        let free = u.costs.fill_buffers.saturating_sub(self.buffers() + 1) as u32;
        let apart = self.code.apart.max(self.position - at);
        free.min((u.costs.rob / apart) as u32)
    }

    /// Accesses a line to read. True for a hit; otherwise it has been asked for.
    fn touch(&mut self, u: &mut Uncore, line: u32, site: Site) -> bool {
        let found = self.caches.access(line);
        match found {
            Some((_, true)) => self.counters.l1_hits += 1,
            Some((_, false)) => {
                self.counters.l2_hits += 1;
                if matches!(site, Site::Control) {
                    self.clock += u.costs.l2;
                }
            }
            None => {}
        }
        let level = found.map_or(3, |(_, l1)| if l1 { 1 } else { 2 });
        self.prefetch_after(u, Access::Load(site as usize), line, level, Request::Read);
        if found.is_none() {
            let (load, address) = (self.position, matches!(site, Site::Data));
            self.request(u, Mshr { load, address, ..Mshr::new(line, Request::Read) });
        }
        found.is_some()
    }

    /// A store or a software prefetch asks for a line.
    pub(super) fn ask(&mut self, u: &mut Uncore, access: Access, line: u32, request: Request) {
        let state = self.state(line);
        // What the first level has, and what merges with a request under way, the second does not see.
        let seen = access.is_followed(self.prefetch) && !suffices(state, request) && !self.expects(line);
        self.fetch(u, line, request);
        if seen {
            let kind = if request == Request::Read { Request::Read } else { Request::ReadOwn };
            self.prefetch_after(u, access, line, if state.readable() { 2 } else { 3 }, kind);
        }
    }

    /// What the hardware prefetchers ask for after an access to a line, which the cache of this level had (3: neither).
    #[inline]
    fn prefetch_after(&mut self, u: &mut Uncore, access: Access, line: u32, level: u8, request: Request) {
        let on = self.prefetch;
        if on.adjacent || on.streamer || on.ip {
            let next = self.prefetchers.after(on, access, line, level);
            next.into_iter().flatten().for_each(|line| self.prefetch_in_hardware(u, line, request));
        }
    }

    fn prefetch_in_hardware(&mut self, u: &mut Uncore, line: u32, request: Request) {
        if self.mshrs.len() >= u.costs.super_queue || self.state(line).readable() || self.expects(line) {
            return;
        }
        self.counters.prefetches += 1;
        self.request(u, Mshr { prefetch: true, ..Mshr::new(line, request) });
    }

    /// Loads a line of payload. Its bytes belong to this core by the program's own protocol, so only the window waits for them.
    pub fn read_line(&mut self, u: &mut Uncore, line: u32) -> Poll<()> {
        self.charge.read(line, &self.code.stages);
        if !self.can_access(u, line) || self.is_load_queue_full(u) || !self.are_addresses_known(u) {
            return Poll::Pending;
        }
        self.close(u);
        self.dispatch_line(u);
        self.touch(u, line, Site::Payload);
        Poll::Ready(())
    }

    /// A software prefetch: to read, to own, or to overwrite. Not of software that has none.
    pub fn prefetch(&mut self, u: &mut Uncore, line: u32, request: Request) -> Poll<()> {
        if !self.code.prefetch {
            return Poll::Ready(());
        }
        if !self.can_dispatch(u) || self.is_load_queue_full(u) || !self.are_addresses_known(u) {
            return Poll::Pending;
        }
        self.close(u);
        self.one_instruction(u);
        let with_data = request == Request::OwnNoData && !u.costs.dataless;
        self.ask(u, Access::Prefetch, line, if with_data { Request::ReadOwn } else { request });
        Poll::Ready(())
    }

    /// Waits until every load so far has its value (LFENCE).
    pub fn load_fence(&mut self, u: &mut Uncore) -> Poll<()> {
        if !self.is_settled() {
            self.wait_for(u, Wait::Loads);
            return Poll::Pending;
        }
        Poll::Ready(())
    }

    /// True when the addresses that the program uses are known: loads that are not control-dependent return their words at once, but
    /// an address in one (a descriptor's buffer) can be used only when the line has come.
    fn are_addresses_known(&mut self, u: &mut Uncore) -> bool {
        let known = self.addresses == 0;
        if !known {
            self.wait_for(u, Wait::Addresses);
        }
        known
    }

    pub(super) fn is_load_queue_full(&mut self, u: &mut Uncore) -> bool {
        let full = self.queued.len() + self.mshrs.len() >= u.costs.load_queue;
        if full {
            self.wait_for(u, Wait::Misses);
        }
        full
    }
}
