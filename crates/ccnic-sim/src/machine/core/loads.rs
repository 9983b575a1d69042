//! Loads: those that decide wait for news, the others overlap; hints to fetch lines, and hardware prefetching.

use std::task::Poll;

use ccnic::memory::LINE;

use super::polling::watch;
use crate::machine::World;
use crate::machine::core::{Miss, Wait};
use crate::machine::directory::NONE;
use crate::machine::step::UOPS;
use crate::protocols::Request;

/// Micro-operations of a program for each that is seen here, between the lines of a ring that it goes along: what it does with
/// a descriptor is charged as time. Chosen; it makes an Ice Lake wait for each full line and a Sapphire Rapids read one ahead,
/// and both read ahead lines with one descriptor.
const UNSEEN: u64 = 8;

/// Kinds of accesses, for the prefetcher that goes by instruction.
#[derive(Debug, Clone, Copy)]
enum Site {
    Decide,
    Load,
    Payload,
}

impl World {
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
        let ahead = if decides { self.run_ahead(core, line) } else { 0 };
        let missed = !self.touch(core, line, if decides { Site::Decide } else { Site::Load });
        let value = self.word(at);
        let expected = decides && self.cores[core as usize].looks.expected(at, value);
        if missed && expected {
            self.cores[core as usize].guessed = Some(at);
        }
        if !missed || !decides || expected {
            return Poll::Ready(value);
        }
        (1..=ahead).for_each(|n| self.fetch(core, line + n, Request::Read, false));
        self.wait(core, Wait::Load(at));
        Poll::Pending
    }

    /// How many lines a core reads ahead of one that it decides on: as many as its reorder buffer reaches, when it has gone on from
    /// line to line, since its branch predictor expects that it will again.
    fn run_ahead(&mut self, core: u8, line: u32) -> u32 {
        let c = &mut self.cores[core as usize];
        let (before, at) = c.decided;
        if line == before {
            return 0;
        }
        c.decided = (line, c.position);
        if before == NONE || line != before + 1 {
            return 0;
        }
        (self.costs.rob / UNSEEN / (c.position - at).max(1)) as u32
    }

    /// A load's use of a line: true when the caches have it; otherwise it has been asked for.
    fn touch(&mut self, core: u8, line: u32, site: Site) -> bool {
        let l2 = self.costs.l2;
        let c = &mut self.cores[core as usize];
        let found = c.caches.find(line);
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

    /// Waits until every load so far has its value.
    pub fn settle(&mut self, core: u8) -> Poll<()> {
        if !self.cores[core as usize].is_settled() {
            self.wait(core, Wait::Loads);
            return Poll::Pending;
        }
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

    pub(crate) fn load_queue_full(&mut self, core: u8) -> bool {
        let c = &self.cores[core as usize];
        let full = c.queued.len() + c.misses.len() >= self.costs.load_queue;
        if full {
            self.wait(core, Wait::Misses);
        }
        full
    }
}
