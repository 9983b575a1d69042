//! What cores do to a device (CC-NIC section 2.2): uncached reads, uncached stores, write-combining stores.
//!
//! | access | how |
//! |---|---|
//! | uncached read | after all stores, one at a time; the core waits for the completion |
//! | uncached store | posted, in order with other stores; one under way between core and root complex, and the stores behind it wait for it |
//! | write-combining store | into a buffer of 64 bytes; a full one goes to the root complex at once; when a store finds all taken, the oldest goes, and the store waits for it |
//!
//! A store to a line that is mapped to the device ([`World::map_device`]) is uncached, a load an uncached read: so the rings'
//! code runs unchanged where a register lies in a device.

use std::task::Poll;

use ccnic::memory::LINE;

use super::costs::WORD;
use super::{Action, Down};
use crate::kernel::time::Ps;
use crate::machine::World;
use crate::machine::agent::Agent;
use crate::machine::core::{Store, Stored, Wait};
use crate::machine::step::UOPS;

/// What a core has under way to the device.
#[derive(Debug, Default)]
pub struct Gate {
    /// The store at the front of the store buffer is on its way to the root complex.
    posted: bool,
    /// Write-combining buffers that take stores, oldest first: line, and which of its bytes.
    open: Vec<(u32, u64)>,
    /// Write-combining buffers on their way to the root complex.
    draining: usize,
}

impl Agent<'_> {
    /// Reads 8 bytes of the device, or (`bytes` above 8) 64; returns the first word.
    pub fn mmio_read(&self, at: u32, bytes: u32) -> u64 {
        let at = self.base() + at;
        self.act(|w, core| if w.ended { Poll::Ready(w.word(at)) } else { w.mmio_read(core, at, bytes) })
    }

    /// Stores a word to the device, uncached.
    pub fn mmio_store_uncached(&self, at: u32, value: u64) {
        let at = self.base() + at;
        self.act(|w, core| if w.ended { Poll::Ready(()) } else { w.store_uncached(core, at, value) });
    }

    /// Stores bytes to the device through write-combining buffers, without saying what.
    pub fn mmio_store(&self, at: u32, len: u32) {
        let at = self.base() + at;
        let end = at.saturating_add(len);
        for line in ccnic::memory::lines(at, len) {
            let (from, to) = (at.max(line) - line, end.min(line + LINE) - line);
            let mask = u64::MAX >> (LINE - (to - from)) << from;
            self.act(
                |w, core| {
                    if w.ended { Poll::Ready(()) } else { w.store_combining(core, line / LINE, mask) }
                },
            );
        }
    }

    /// Waits until what write-combining buffers hold, and what was stored around the caches, is where it belongs (SFENCE). Other
    /// stores are in order anyway.
    pub fn sfence(&self) {
        self.act(|w, core| if w.ended { Poll::Ready(()) } else { w.sfence(core) });
    }
}

impl World {
    /// Maps lines to the device: stores to them are uncached.
    pub fn map_device(&mut self, at: u32) {
        let line = (at / LINE) as usize;
        if self.mapped.len() <= line / 64 {
            self.mapped.resize(line / 64 + 1, 0);
        }
        self.mapped[line / 64] |= 1 << (line % 64);
    }

    /// True for a line that is mapped to the device.
    #[inline]
    pub(crate) fn is_mapped(&self, line: u32) -> bool {
        self.mapped.get(line as usize / 64).is_some_and(|lines| lines & 1 << (line % 64) != 0)
    }

    /// Stores a word to the device.
    pub(crate) fn store_uncached(&mut self, core: u8, at: u32, value: u64) -> Poll<()> {
        if self.pcie.is_none() {
            return Poll::Ready(());
        }
        if !self.ready(core) || !self.store_room(core) {
            return Poll::Pending;
        }
        self.close(core);
        self.charge(core, self.costs.access, UOPS);
        let c = &mut self.cores[core as usize];
        let store = Store { line: at / LINE, what: Stored::Uncached(at, value), position: c.position };
        let (first, when) = (c.stores.is_empty() && store.position < c.oldest, c.clock);
        c.stores.push_back(store);
        if first {
            self.post(core, at, value, when);
        }
        Poll::Ready(())
    }

    /// The store at the front of a core's store buffer goes to the device, unless it does already. It stays there until the
    /// root complex has accepted it.
    pub(crate) fn post(&mut self, core: u8, at: u32, value: u64, when: Ps) {
        let Some(pcie) = &mut self.pcie else { return };
        if !std::mem::replace(&mut pcie.gates[core as usize].posted, true) {
            let arrival = when + pcie.costs.to_root;
            self.later(arrival, Action::Down(Down::Word { core, at, value }));
        }
    }

    /// The root complex has accepted a core's uncached store.
    pub(crate) fn accepted(&mut self, core: u8) {
        if let Some(pcie) = &mut self.pcie {
            pcie.gates[core as usize].posted = false;
        }
        self.cores[core as usize].stores.pop_front();
        self.drain(core);
    }

    /// Reads the device.
    pub(crate) fn mmio_read(&mut self, core: u8, at: u32, bytes: u32) -> Poll<u64> {
        if let Some(Ok(value)) = self.cores[core as usize].bound.take() {
            return Poll::Ready(value);
        }
        if self.pcie.is_none() {
            return Poll::Ready(self.word(at));
        }
        if !self.ready(core) {
            return Poll::Pending;
        }
        self.close(core);
        if !self.cores[core as usize].stores.is_empty() {
            self.wait(core, Wait::Stores(true));
            return Poll::Pending;
        }
        if self.flush_combining(core) {
            self.wait(core, Wait::Device);
            return Poll::Pending;
        }
        self.charge(core, self.costs.access, UOPS);
        let bytes = if bytes > WORD { LINE } else { WORD };
        let arrival = self.cores[core as usize].clock + self.pcie.as_ref().map_or(0, |p| p.costs.to_root);
        self.later(arrival, Action::Down(Down::Read { core, at, bytes }));
        self.wait(core, Wait::Device);
        Poll::Pending
    }

    /// The completion of a core's read has come.
    pub(crate) fn read_back(&mut self, core: u8, value: u64) {
        self.cores[core as usize].bound = Some(Ok(value));
        self.wake(core, self.now);
    }

    /// Stores bytes of a line, those of the mask, into a write-combining buffer.
    fn store_combining(&mut self, core: u8, line: u32, mask: u64) -> Poll<()> {
        if !self.ready(core) {
            return Poll::Pending;
        }
        self.close(core);
        let when = self.cores[core as usize].clock;
        let Some(pcie) = &mut self.pcie else { return Poll::Ready(()) };
        let gate = &mut pcie.gates[core as usize];
        let place = match gate.open.iter().position(|(open, _)| *open == line) {
            Some(i) => i,
            None if gate.open.len() + gate.draining < pcie.costs.wc_buffers => {
                gate.open.push((line, 0));
                gate.open.len() - 1
            }
            None => {
                if gate.draining == 0 {
                    self.drain_combining(core, 0, when);
                }
                self.wait(core, Wait::Device);
                return Poll::Pending;
            }
        };
        gate.open[place].1 |= mask;
        let full = gate.open[place].1 == u64::MAX;
        let time = if mask == u64::MAX { self.costs.payload_line } else { pcie.costs.store };
        self.charge(core, time, UOPS);
        if full {
            let when = self.cores[core as usize].clock;
            self.drain_combining(core, place, when);
        }
        Poll::Ready(())
    }

    /// A write-combining buffer goes to the root complex.
    fn drain_combining(&mut self, core: u8, place: usize, when: Ps) {
        let Some(pcie) = &mut self.pcie else { return };
        let gate = &mut pcie.gates[core as usize];
        let (_, mask) = gate.open.remove(place);
        gate.draining += 1;
        let arrival = when + pcie.costs.to_root;
        self.later(arrival, Action::Down(Down::Combined { core, mask }));
    }

    /// A write-combining buffer is free again.
    pub(crate) fn drained(&mut self, core: u8) {
        if let Some(pcie) = &mut self.pcie {
            pcie.gates[core as usize].draining -= 1;
        }
        if self.cores[core as usize].wait == Wait::Device {
            self.wake(core, self.now);
        }
    }

    /// Sends all write-combining buffers; true when some are on their way.
    fn flush_combining(&mut self, core: u8) -> bool {
        let when = self.cores[core as usize].clock;
        while self.pcie.as_ref().is_some_and(|p| !p.gates[core as usize].open.is_empty()) {
            self.drain_combining(core, 0, when);
        }
        self.pcie.as_ref().is_some_and(|p| p.gates[core as usize].draining > 0)
    }

    fn sfence(&mut self, core: u8) -> Poll<()> {
        if !self.ready(core) {
            return Poll::Pending;
        }
        self.close(core);
        if self.flush_combining(core) {
            self.wait(core, Wait::Device);
            return Poll::Pending;
        }
        let c = &self.cores[core as usize];
        if c.misses.iter().chain(&c.queued).any(|m| m.around) {
            return self.settle(core);
        }
        self.charge(core, self.costs.access, 1);
        Poll::Ready(())
    }
}
