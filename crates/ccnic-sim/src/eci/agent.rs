//! A program's view of its node: the simulated [`SharedMemory`] of the machine with a coherent link.

use std::cell::RefCell;

use ccnic::SharedMemory;

use super::line::{LINE, number};
use super::machine::Machine;
use crate::kernel::coroutines::Suspend;
use crate::kernel::time::Ps;

/// A program's hold on its core.
#[derive(Clone, Copy)]
pub struct Agent<'a> {
    machine: &'a RefCell<Machine>,
    suspend: &'a Suspend,
    core: usize,
}

impl std::fmt::Debug for Agent<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Agent").field("core", &self.core).finish_non_exhaustive()
    }
}

impl<'a> Agent<'a> {
    pub(super) fn new(machine: &'a RefCell<Machine>, suspend: &'a Suspend, core: usize) -> Agent<'a> {
        Agent { machine, suspend, core }
    }

    fn on<R>(&self, f: impl FnOnce(&mut Machine) -> R) -> R {
        f(&mut self.machine.borrow_mut())
    }

    /// Lets everything happen that happens before this core's time.
    fn settle(&self) {
        while self.on(|machine| machine.must_wait(self.core)) {
            self.suspend.suspend(());
        }
    }

    fn touch(&self, at: u32, own: bool) {
        self.settle();
        if self.on(|machine| machine.access(self.core, number(at), own)) {
            self.suspend.suspend(());
        }
    }

    /// The parts of a range that lie in one line each.
    fn parts(at: u32, len: usize) -> impl Iterator<Item = (u32, std::ops::Range<usize>)> {
        let end = at + len as u32;
        (number(at)..end.div_ceil(LINE)).map(move |line| {
            let (from, to) = (at.max(line * LINE), end.min((line + 1) * LINE));
            (from, (from - at) as usize..(to - at) as usize)
        })
    }

    /// Its time.
    pub fn now(&self) -> Ps {
        self.on(|machine| machine.cores[self.core].clock)
    }

    /// Spends time.
    pub fn spend(&self, time: Ps) {
        self.on(|machine| machine.cores[self.core].clock += time);
    }

    /// Spends time in the program's own instructions.
    pub fn work(&self, cycles: u32) {
        self.on(|machine| machine.cores[self.core].clock += machine.costs.cycle * Ps::from(cycles));
    }

    /// Copies bytes between registers and what has been accessed already.
    pub fn copied(&self, len: usize) {
        let words = (len as Ps).div_ceil(8);
        self.on(|machine| machine.cores[self.core].clock += machine.costs.word * words);
    }

    /// Waits until all earlier stores have reached the L2 (DMB).
    pub fn barrier(&self) {
        self.settle();
        if self.on(|machine| machine.barrier(self.core)) {
            self.suspend.suspend(());
            self.on(|machine| machine.synced(self.core));
        }
    }

    /// Fails when both nodes could write a line, or one while the other reads it.
    #[cfg(test)]
    pub fn check_lines(&self) {
        use super::line::State;
        self.on(|machine| {
            for (number, line) in machine.lines.iter().enumerate() {
                let writers =
                    line.state.iter().filter(|s| matches!(s, State::Exclusive | State::Modified)).count();
                let readers = line.state.iter().filter(|s| **s == State::Shared).count();
                assert!(writers == 0 || writers + readers == 1, "line {number}: {:?}", line.state);
            }
        });
    }

    /// The caches lose a line.
    pub fn evict(&self, at: u32) {
        self.settle();
        self.on(|machine| machine.evict(self.core, number(at)));
    }
}

impl SharedMemory for Agent<'_> {
    type Adopt = ();

    fn load(&self, at: u32) -> u64 {
        self.touch(at, false);
        self.on(|machine| machine.ram.word(at))
    }

    fn store(&self, at: u32, value: u64) {
        self.touch(at, true);
        self.on(|machine| machine.ram.set_word(at, value));
        self.copied(8);
    }

    fn load_acquire(&self, at: u32) -> u64 {
        self.load(at)
    }

    fn store_release(&self, at: u32, value: u64) {
        self.store(at, value);
    }

    fn compare_exchange(&self, at: u32, current: u64, new: u64) -> Result<u64, u64> {
        self.touch(at, true);
        self.on(|machine| machine.ram.swap_word(at, current, new))
    }

    fn read(&self, at: u32, to: &mut [u8]) {
        for (from, range) in Agent::parts(at, to.len()) {
            self.touch(from, false);
            let part = &mut to[range];
            self.on(|machine| part.copy_from_slice(machine.ram.bytes(from, part.len())));
            self.copied(part.len());
        }
    }

    fn write(&self, at: u32, from: &[u8]) {
        for (to, range) in Agent::parts(at, from.len()) {
            self.touch(to, true);
            let part = &from[range];
            self.on(|machine| machine.ram.bytes_mut(to, part.len()).copy_from_slice(part));
            self.copied(part.len());
        }
    }

    fn with<R>(&self, at: u32, len: u32, f: impl FnOnce(&[u8]) -> R) -> R {
        Agent::parts(at, len as usize).for_each(|(part, _)| self.touch(part, false));
        self.on(|machine| f(machine.ram.bytes(at, len as usize)))
    }

    fn with_mut<R>(&self, at: u32, len: u32, f: impl FnOnce(&mut [u8]) -> R) -> R {
        Agent::parts(at, len as usize).for_each(|(part, _)| self.touch(part, true));
        self.on(|machine| f(machine.ram.bytes_mut(at, len as usize)))
    }

    // A core that waits for every miss has no use for requests ahead of time: its prefetch instructions are left out.
    fn prefetch_read(&self, _: u32) {}
    fn prefetch_own(&self, _: u32) {}
    fn demote(&self, _: u32) {}

    fn relax(&self) {
        self.on(|machine| machine.cores[self.core].clock += machine.costs.poll);
    }
}
