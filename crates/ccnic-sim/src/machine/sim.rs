//! A machine and the programs on its cores, and the loop that resumes whichever core is next.
//!
//! Everything is single-threaded, and happens in an order that depends on nothing but the platform and the programs: runs repeat
//! bit for bit.

use std::cell::{Ref, RefCell, RefMut};
use std::rc::Rc;

use ccnic::SharedMemory;

use super::Machine;
use super::agent::Agent;
use super::ids::AgentId;
use crate::kernel::coroutines::Coroutines;
use crate::kernel::time::Ps;

/// A machine and the programs on its cores.
#[derive(Debug)]
pub struct Sim {
    machine: Rc<RefCell<Machine>>,
    programs: Coroutines,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Every program has ended, or waits for something that never comes.
    Quiet,
    /// The time is up.
    Time,
    /// So many events have been handled.
    Events,
}

impl Sim {
    /// A machine without programs.
    pub fn new(machine: Machine) -> Sim {
        Sim { machine: Rc::new(RefCell::new(machine)), programs: Coroutines::default() }
    }

    /// Puts a program on a core. It starts at the machine's current time.
    ///
    /// # Errors
    /// When there is no memory for its stack.
    pub fn spawn(&mut self, core: AgentId, program: impl FnOnce(Agent<'_>) + 'static) -> std::io::Result<()> {
        let machine = Rc::clone(&self.machine);
        self.programs.add(core as usize, move |suspend| {
            program(Agent::new(&machine, suspend, core));
            let mut machine = machine.borrow_mut();
            let (core, uncore) = machine.core_and_uncore(core);
            core.finish(uncore);
        })?;
        let mut machine = self.machine.borrow_mut();
        let (core, uncore) = machine.core_and_uncore(core);
        core.start(uncore);
        Ok(())
    }

    /// Runs until nothing happens any more, or until a time.
    pub fn run(&mut self, until: Ps) -> End {
        self.run_events(until, u64::MAX)
    }

    /// As [`run`](Sim::run), but handles at most so many events: to look at the machine in the middle of a run.
    pub fn run_events(&mut self, until: Ps, mut events: u64) -> End {
        loop {
            let core = self.machine.borrow_mut().step(until, &mut events);
            let Some(core) = core else {
                let more = self.machine.borrow().uncore.events.next_at().is_some();
                return match more {
                    true if events == 0 => End::Events,
                    true => End::Time,
                    false => End::Quiet,
                };
            };
            self.programs.resume(core as usize);
        }
    }

    /// The machine, to look at.
    pub fn machine(&self) -> Ref<'_, Machine> {
        self.machine.borrow()
    }

    /// The machine, to set up.
    pub fn machine_mut(&mut self) -> RefMut<'_, Machine> {
        self.machine.borrow_mut()
    }

    /// The machine, for a test that holds on to the simulation.
    #[cfg(test)]
    pub fn machine_cell(&self) -> &RefCell<Machine> {
        &self.machine
    }

    /// Memory from an address on, accessed in no time: to lay out regions before a run.
    pub fn untimed(&self, base: u32) -> Untimed<'_> {
        Untimed(&self.machine, base)
    }

    /// True when a core's program has ended.
    pub fn is_done(&self, core: AgentId) -> bool {
        self.programs.is_done(core as usize)
    }
}

impl Drop for Sim {
    fn drop(&mut self) {
        // Programs that have not ended are unwound; what they still do to memory on the way takes no time.
        self.machine.borrow_mut().uncore.ended = true;
        self.programs.unwind();
    }
}

/// Memory without time: see [`Sim::untimed`].
#[derive(Clone, Copy)]
pub struct Untimed<'a>(&'a RefCell<Machine>, u32);

impl std::fmt::Debug for Untimed<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Untimed").finish_non_exhaustive()
    }
}

impl SharedMemory for Untimed<'_> {
    type Adopt = ();

    fn load(&self, at: u32) -> u64 {
        self.0.borrow().word(self.1 + at)
    }

    fn store(&self, at: u32, value: u64) {
        self.0.borrow_mut().set_word(self.1 + at, value);
    }

    fn load_acquire(&self, at: u32) -> u64 {
        self.load(at)
    }

    fn store_release(&self, at: u32, value: u64) {
        self.store(at, value);
    }

    fn compare_exchange(&self, at: u32, current: u64, new: u64) -> Result<u64, u64> {
        self.0.borrow_mut().uncore.ram.swap_word(self.1 + at, current, new)
    }

    fn read(&self, at: u32, to: &mut [u8]) {
        to.copy_from_slice(self.0.borrow().bytes(self.1 + at, to.len()));
    }

    fn write(&self, at: u32, from: &[u8]) {
        self.0.borrow_mut().bytes_mut(self.1 + at, from.len()).copy_from_slice(from);
    }

    fn with<R>(&self, at: u32, len: u32, f: impl FnOnce(&[u8]) -> R) -> R {
        f(self.0.borrow().bytes(self.1 + at, len as usize))
    }

    fn with_mut<R>(&self, at: u32, len: u32, f: impl FnOnce(&mut [u8]) -> R) -> R {
        f(self.0.borrow_mut().bytes_mut(self.1 + at, len as usize))
    }

    fn prefetch_read(&self, _: u32) {}
    fn prefetch_own(&self, _: u32) {}
    fn demote(&self, _: u32) {}
    fn relax(&self) {}
}
