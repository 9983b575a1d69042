//! Accesses that order others, and those around the caches: compare-and-exchange, fences, non-temporal stores, flushes.

use std::task::Poll;

use ccnic::memory::LINE;

use super::mshr::Mshr;
use super::{Core, Wait};
use crate::machine::uncore::Uncore;
use crate::protocols::table::{Request, State};

impl Core {
    /// Replaces a word if it is `current`, and returns what it was; an error is what it is otherwise.
    pub fn exchange(&mut self, u: &mut Uncore, at: u32, current: u64, new: u64) -> Poll<Result<u64, u64>> {
        if let Some(result) = self.completed.take() {
            return Poll::Ready(result);
        }
        if !self.has_drained(u) {
            return Poll::Pending;
        }
        self.dispatch_for(u.costs.exchange, 1);
        let line = at / LINE;
        if self.state(line).writable() {
            return Poll::Ready(self.exchange_owned(u, at, current, new));
        }
        self.fetch(u, line, Request::ReadOwn);
        self.wait_for(u, Wait::Exchange(at, current, new));
        Poll::Pending
    }

    /// True when the core may go on and its store buffer is empty; otherwise it waits for that.
    fn has_drained(&mut self, u: &mut Uncore) -> bool {
        if !self.can_dispatch(u) {
            return false;
        }
        self.close(u);
        let drained = self.stores.is_empty();
        if !drained {
            self.wait_for(u, Wait::Stores(true));
        }
        drained
    }

    /// The exchange itself, with the line owned.
    pub(super) fn exchange_owned(
        &mut self,
        u: &mut Uncore,
        at: u32,
        current: u64,
        new: u64,
    ) -> Result<u64, u64> {
        self.caches.set_state(at / LINE, State::Modified);
        let found = u.ram.word(at);
        if found != current {
            return Err(found);
        }
        u.commit_word(self.id, self.socket, at, new);
        Ok(found)
    }

    /// Waits until every load and store so far is done (MFENCE).
    pub fn fence(&mut self, u: &mut Uncore) -> Poll<()> {
        if !self.has_drained(u) {
            return Poll::Pending;
        }
        self.load_fence(u)
    }

    /// Stores a whole line to its home, around the caches. It takes a fill buffer until the home has it, and is ordered with other
    /// stores only by a [fence](Core::fence).
    pub fn store_non_temporal(&mut self, u: &mut Uncore, line: u32) -> Poll<()> {
        self.around_caches(u, line, Request::WriteInvalidate, self.code.line)
    }

    /// Takes a line out of all caches, into memory if memory is out of date (CLFLUSHOPT). Ordered with accesses to other lines only
    /// by a [fence](Core::fence).
    pub fn flush(&mut self, u: &mut Uncore, line: u32) -> Poll<()> {
        self.around_caches(u, line, Request::Flush, 1)
    }

    fn around_caches(&mut self, u: &mut Uncore, line: u32, request: Request, instructions: u64) -> Poll<()> {
        if !self.can_dispatch(u) || self.is_load_queue_full(u) {
            return Poll::Pending;
        }
        self.close(u);
        // Earlier stores and requests of the line come first.
        let wait = if self.stores.iter().any(|s| s.line == line) {
            Wait::Stores(true)
        } else if self.expects(line) {
            Wait::Misses
        } else {
            self.dispatch(u, instructions);
            self.request(u, Mshr { non_temporal: true, ..Mshr::new(line, request) });
            return Poll::Ready(());
        };
        self.wait_for(u, wait);
        Poll::Pending
    }
}
