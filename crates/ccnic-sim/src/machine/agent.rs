//! A program's view of the core that it runs on and of memory: the simulated [`SharedMemory`].
//!
//! An access is tried on the core; when the core has to wait, the program gives control back, and tries again when it is resumed.

use std::cell::RefCell;
use std::ops::Range;
use std::task::Poll;

use ccnic::SharedMemory;
use ccnic::memory::{LINE, lines};

use super::Machine;
use super::core::charge::Rings;
use super::core::{AT_ONCE, Core};
use super::ids::AgentId;
use super::ram::Ram;
use super::uncore::Uncore;
use crate::kernel::coroutines::Suspend;
use crate::kernel::time::{Ps, ns, ps};
use crate::platform::Code;
use crate::protocols::table::Request;

/// A program's hold on its core, and its view of memory from an address on.
#[derive(Clone, Copy)]
pub struct Agent<'a> {
    machine: &'a RefCell<Machine>,
    suspend: &'a Suspend,
    core: AgentId,
    /// Where the region begins that addresses are offsets into.
    base: u32,
}

impl std::fmt::Debug for Agent<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Agent").field("core", &self.core).finish_non_exhaustive()
    }
}

impl<'a> Agent<'a> {
    pub(super) fn new(machine: &'a RefCell<Machine>, suspend: &'a Suspend, core: AgentId) -> Agent<'a> {
        Agent { machine, suspend, core, base: 0 }
    }
}

impl Agent<'_> {
    /// Makes an access that may take time: `step` is tried until it is done. When the run has ended, `untimed` takes its place.
    #[inline]
    fn access<T>(
        &self,
        untimed: impl FnOnce(&mut Ram) -> T,
        mut step: impl FnMut(&mut Core, &mut Uncore) -> Poll<T>,
    ) -> T {
        loop {
            let mut machine = self.machine.borrow_mut();
            let (core, uncore) = machine.core_and_uncore(self.core);
            if uncore.ended {
                return untimed(&mut uncore.ram);
            }
            if let Poll::Ready(value) = step(core, uncore) {
                return value;
            }
            drop(machine);
            self.suspend.suspend(());
        }
    }

    /// An access without a value.
    #[inline]
    fn act(&self, step: impl FnMut(&mut Core, &mut Uncore) -> Poll<()>) {
        self.access(|_| (), step);
    }

    /// The same agent, for a region that begins elsewhere in memory.
    #[must_use]
    pub fn at(self, base: u32) -> Self {
        Agent { base, ..self }
    }

    /// The core that it runs on.
    pub fn core(&self) -> AgentId {
        self.core
    }

    /// This core's time.
    pub fn now(&self) -> Ps {
        self.machine.borrow().cores[self.core as usize].clock
    }

    /// This core's time in nanoseconds.
    pub fn now_ns(&self) -> f64 {
        ns(self.now())
    }

    /// The machine, to look at.
    pub fn with_machine<R>(&self, f: impl FnOnce(&Machine) -> R) -> R {
        f(&self.machine.borrow())
    }

    /// Spends time in the program's own instructions.
    pub fn work(&self, nanoseconds: f64) {
        let time = ps(nanoseconds);
        self.act(|core, u| core.work(u, time));
    }

    /// Says what the program executes between its accesses.
    pub fn set_code(&self, code: Code) {
        self.machine.borrow_mut().cores[self.core as usize].code = code;
    }

    /// Says which rings it takes packets from and publishes them in; without, its code has no stages.
    pub fn set_rings(&self, taken: Range<u32>, published: Range<u32>) {
        let absolute = |ring: Range<u32>| self.base + ring.start..self.base + ring.end;
        let rings = Rings { taken: absolute(taken), published: absolute(published) };
        self.machine.borrow_mut().cores[self.core as usize].charge.set_rings(rings);
    }

    /// True when it has polled often in vain before it took the last packets, and they were few.
    pub fn is_idle(&self) -> bool {
        self.machine.borrow().cores[self.core as usize].charge.is_idle()
    }

    /// The program has dealt with a burst, and executed so many instructions since the last call, its accesses to words included: those
    /// that no access has been charged for are charged now.
    pub fn has_executed(&self, instructions: u64) {
        let mut rest = self.machine.borrow_mut().cores[self.core as usize].end_burst(instructions);
        while rest > 0 {
            let some = rest.min(AT_ONCE);
            self.act(|core, u| core.instructions(u, some));
            rest -= some;
        }
    }

    /// A polling loop that sleeps wakes at this time, whatever its lines hold.
    pub fn set_deadline(&self, deadline: Option<Ps>) {
        self.machine.borrow_mut().cores[self.core as usize].monitor.deadline = deadline;
    }

    /// Does something in no time, to set up what a program works on. Before: a [`fence`](Agent::fence), if it has stored anything.
    pub fn in_no_time<R>(&self, f: impl FnOnce() -> R) -> R {
        let was = std::mem::replace(&mut self.machine.borrow_mut().uncore.ended, true);
        let result = f();
        self.machine.borrow_mut().uncore.ended = was;
        result
    }

    /// Waits until every load and store so far is done (MFENCE).
    pub fn fence(&self) {
        self.act(|core, u| core.fence(u));
    }

    /// Waits until every load so far has its value (LFENCE).
    pub fn load_fence(&self) {
        self.act(|core, u| core.load_fence(u));
    }

    /// Waits until write-combining buffers and non-temporal stores have reached their homes (SFENCE). Other stores are in order anyway.
    pub fn store_fence(&self) {
        self.act(|core, u| core.store_fence(u));
    }

    /// Stores whole lines of payload around the caches; `at` and `len` are multiples of a line.
    pub fn store_non_temporal(&self, at: u32, len: u32) {
        for line in lines(self.base + at, len) {
            self.act(|core, u| core.store_non_temporal(u, line / LINE));
        }
    }

    /// Takes the lines of payload out of all caches (CLFLUSHOPT).
    pub fn flush(&self, at: u32, len: u32) {
        for line in lines(self.base + at, len) {
            self.act(|core, u| core.flush(u, line / LINE));
        }
    }

    /// Stores lines of payload; their contents do not change.
    pub fn write_lines(&self, at: u32, len: u32) {
        let at = self.base + at;
        for line in lines(at, len) {
            let whole = at <= line && line + LINE <= at + len;
            self.act(|core, u| core.write_line(u, line / LINE, whole));
        }
    }

    /// Loads lines of payload; their contents are not looked at.
    pub fn read_lines(&self, at: u32, len: u32) {
        for line in lines(self.base + at, len) {
            self.act(|core, u| core.read_line(u, line / LINE));
        }
    }

    /// Loads 8 bytes of a device's registers, or (`bytes` above 8) 64; returns the first word. A line that is not mapped to a device is
    /// read in no time.
    pub fn mmio_read(&self, at: u32, bytes: u32) -> u64 {
        let at = self.base + at;
        self.access(|ram| ram.word(at), |core, u| core.read_device(u, at, bytes))
    }

    /// Stores a word to a device's register, uncached. Nothing happens for a line that is not mapped to a device.
    pub fn mmio_store_uncached(&self, at: u32, value: u64) {
        let at = self.base + at;
        self.act(|core, u| core.store_device(u, at, value));
    }

    /// Stores bytes to a device through write-combining buffers; their contents are not modelled. Nothing happens for lines that are
    /// not mapped to a device.
    pub fn mmio_store(&self, at: u32, len: u32) {
        let at = self.base + at;
        let end = at.saturating_add(len);
        for line in lines(at, len) {
            let (from, to) = (at.max(line) - line, end.min(line + LINE) - line);
            let mask = u64::MAX >> (LINE - (to - from)) << from;
            self.act(|core, u| core.store_combining(u, line / LINE, mask));
        }
    }

    fn prefetch(&self, at: u32, request: Request) {
        let line = (self.base + at) / LINE;
        self.act(|core, u| core.prefetch(u, line, request));
    }
}

impl SharedMemory for Agent<'_> {
    type Adopt = ();

    #[inline]
    fn load(&self, at: u32) -> u64 {
        let at = self.base + at;
        self.access(|ram| ram.word(at), |core, u| core.load(u, at, false))
    }

    #[inline]
    fn store(&self, at: u32, value: u64) {
        let at = self.base + at;
        self.access(|ram| ram.set_word(at, value), |core, u| core.store(u, at, value));
    }

    /// A control-dependent load: the callers of `load_acquire` branch on its value.
    #[inline]
    fn load_acquire(&self, at: u32) -> u64 {
        let at = self.base + at;
        self.access(|ram| ram.word(at), |core, u| core.load(u, at, true))
    }

    #[inline]
    fn store_release(&self, at: u32, value: u64) {
        self.store(at, value); // stores are committed in order
    }

    fn compare_exchange(&self, at: u32, current: u64, new: u64) -> Result<u64, u64> {
        let at = self.base + at;
        self.access(|ram| ram.swap_word(at, current, new), |core, u| core.exchange(u, at, current, new))
    }

    fn read(&self, at: u32, to: &mut [u8]) {
        self.read_lines(at, to.len() as u32);
        to.copy_from_slice(self.machine.borrow().bytes(self.base + at, to.len()));
    }

    fn write(&self, at: u32, from: &[u8]) {
        self.write_lines(at, from.len() as u32);
        self.machine.borrow_mut().bytes_mut(self.base + at, from.len()).copy_from_slice(from);
    }

    fn with<R>(&self, at: u32, len: u32, f: impl FnOnce(&[u8]) -> R) -> R {
        self.read_lines(at, len);
        f(self.machine.borrow().bytes(self.base + at, len as usize))
    }

    fn with_mut<R>(&self, at: u32, len: u32, f: impl FnOnce(&mut [u8]) -> R) -> R {
        self.write_lines(at, len);
        f(self.machine.borrow_mut().bytes_mut(self.base + at, len as usize))
    }

    fn prefetch_read(&self, at: u32) {
        self.prefetch(at, Request::Read);
    }

    fn prefetch_own(&self, at: u32) {
        self.prefetch(at, Request::ReadOwn);
    }

    fn prefetch_overwrite(&self, at: u32) {
        self.prefetch(at, Request::OwnNoData);
    }

    fn demote(&self, at: u32) {
        let line = (self.base + at) / LINE;
        self.act(|core, u| core.demote(u, line));
    }

    fn relax(&self) {
        self.act(|core, u| core.relax(u));
    }
}
