//! Accesses that order others, and those that go around the caches: exchanges, fences, non-temporal stores, flushes.

use std::task::Poll;

use ccnic::memory::LINE;

use crate::kernel::time::Ps;
use crate::machine::World;
use crate::machine::core::{Miss, Wait};
use crate::machine::step::UOPS;
use crate::protocols::{Request, State};

impl World {
    /// Replaces a word if it is `current`; what was there otherwise.
    pub fn exchange(&mut self, core: u8, at: u32, current: u64, new: u64) -> Poll<Result<u64, u64>> {
        if let Some(result) = self.cores[core as usize].bound.take() {
            return Poll::Ready(result);
        }
        if !self.all_stored(core) {
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

    /// True when the core may go on and has no store that is not done; otherwise it waits for that.
    fn all_stored(&mut self, core: u8) -> bool {
        if !self.ready(core) {
            return false;
        }
        self.close(core);
        let drained = self.cores[core as usize].stores.is_empty();
        if !drained {
            self.wait(core, Wait::Stores(true));
        }
        drained
    }

    pub(crate) fn exchange_now(&mut self, core: u8, at: u32, current: u64, new: u64) -> Result<u64, u64> {
        self.cores[core as usize].caches.set_state(at / LINE, State::Modified);
        let found = self.word(at);
        if found != current {
            return Err(found);
        }
        self.commit_word(core, at, new);
        Ok(found)
    }

    /// Waits until every load and store so far is done.
    pub fn fence(&mut self, core: u8) -> Poll<()> {
        if !self.all_stored(core) {
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
}
