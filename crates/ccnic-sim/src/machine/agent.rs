//! Agents: programs that run on simulated cores. Each is a coroutine; what it does to memory goes through its [`Agent`], which is
//! a [`SharedMemory`].
//!
//! The engine resumes the core whose time has come ([`Sim::run`]); a core that must wait gives control back. Everything is
//! single-threaded and happens in an order that depends on nothing but the platform and the programs: runs repeat bit
//! for bit.

use std::cell::RefCell;
use std::rc::Rc;
use std::task::Poll;

use ccnic::SharedMemory;
use ccnic::memory::{LINE, lines};
use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};

use crate::kernel::time::{Ps, ns, ps};
use crate::machine::World;
use crate::protocols::Request;

/// Bytes of an agent's stack.
const STACK: usize = 128 * 1024;

type Program = Coroutine<(), (), ()>;

/// A machine and the programs on its cores.
pub struct Sim {
    world: Rc<RefCell<World>>,
    programs: Vec<Option<Program>>,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Every program is done, or waits for something that never comes.
    Quiet,
    /// The time is up.
    Time,
    /// So many events have been handled.
    Events,
}

impl std::fmt::Debug for Sim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sim").field("programs", &self.programs.len()).finish_non_exhaustive()
    }
}

impl Sim {
    /// A machine without programs.
    pub fn new(world: World) -> Sim {
        let programs = world.cores.iter().map(|_| None).collect();
        Sim { world: Rc::new(RefCell::new(world)), programs }
    }

    /// Puts a program on a core; it starts at time zero.
    ///
    /// # Errors
    /// When there is no memory for its stack.
    pub fn spawn(&mut self, core: u8, program: impl FnOnce(Agent<'_>) + 'static) -> std::io::Result<()> {
        let world = Rc::clone(&self.world);
        let stack = DefaultStack::new(STACK)?;
        let coroutine = Coroutine::with_stack(stack, move |yielder: &Yielder<(), ()>, ()| {
            program(Agent { world: &world, yielder, core, base: 0 });
            world.borrow_mut().finish(core);
        });
        self.programs[core as usize] = Some(coroutine);
        self.world.borrow_mut().start(core);
        Ok(())
    }

    /// Runs until nothing happens any more, or until a time.
    pub fn run(&mut self, until: Ps) -> End {
        self.run_events(until, u64::MAX)
    }

    /// As [`run`](Sim::run), but at most so many events: for a look at the machine in the middle of something.
    pub fn run_events(&mut self, until: Ps, mut events: u64) -> End {
        loop {
            let core = self.world.borrow_mut().step(until, &mut events);
            let Some(core) = core else {
                let more = self.world.borrow().events.next_at().is_some();
                return match more {
                    true if events == 0 => End::Events,
                    true => End::Time,
                    false => End::Quiet,
                };
            };
            let program = &mut self.programs[core as usize];
            if let Some(coroutine) = program
                && let CoroutineResult::Return(()) = coroutine.resume(())
            {
                *program = None;
            }
        }
    }

    /// The machine, to look at.
    pub fn world(&self) -> std::cell::Ref<'_, World> {
        self.world.borrow()
    }

    /// A view of memory from an address on that takes no time, to lay out regions before a run.
    pub fn untimed(&self, base: u32) -> Untimed<'_> {
        Untimed(&self.world, base)
    }

    /// The machine, to set up.
    pub fn world_mut(&mut self) -> std::cell::RefMut<'_, World> {
        self.world.borrow_mut()
    }

    /// True when a core's program has ended.
    pub fn is_done(&self, core: u8) -> bool {
        self.programs[core as usize].is_none()
    }
}

impl Drop for Sim {
    fn drop(&mut self) {
        // Programs that have not ended are unwound; what they still do to memory on the way takes no time.
        self.world.borrow_mut().ended = true;
        self.programs.clear();
    }
}

/// A program's hold on the core that it runs on, and its view of memory.
#[derive(Clone, Copy)]
pub struct Agent<'a> {
    world: &'a Rc<RefCell<World>>,
    yielder: &'a Yielder<(), ()>,
    core: u8,
    /// Where the region begins that addresses are offsets into.
    base: u32,
}

impl std::fmt::Debug for Agent<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Agent").field("core", &self.core).finish_non_exhaustive()
    }
}

impl Agent<'_> {
    /// Does something that may take time: `step` is tried until it is done.
    #[inline]
    pub(crate) fn act<T>(&self, mut step: impl FnMut(&mut World, u8) -> Poll<T>) -> T {
        loop {
            if let Poll::Ready(value) = step(&mut self.world.borrow_mut(), self.core) {
                return value;
            }
            self.yielder.suspend(());
        }
    }

    /// The same agent, for a region that begins elsewhere in the machine's memory.
    #[must_use]
    pub fn at(self, base: u32) -> Self {
        Agent { base, ..self }
    }

    /// Where its view begins.
    pub(crate) fn base(&self) -> u32 {
        self.base
    }

    /// This core's time.
    pub fn now(&self) -> Ps {
        self.world.borrow().cores[self.core as usize].clock
    }

    /// This core's time in nanoseconds.
    pub fn now_ns(&self) -> f64 {
        ns(self.now())
    }

    /// Spends time in the program's own instructions.
    pub fn work(&self, nanoseconds: f64) {
        let time = ps(nanoseconds);
        self.act(|w, core| if w.ended { Poll::Ready(()) } else { w.work(core, time) });
    }

    /// Polling loops end their sleep at this time, whatever their lines say.
    pub fn set_deadline(&self, deadline: Option<Ps>) {
        self.world.borrow_mut().cores[self.core as usize].deadline = deadline;
    }

    /// Waits until every load and store so far is done (MFENCE).
    pub fn fence(&self) {
        self.act(|w, core| if w.ended { Poll::Ready(()) } else { w.fence(core) });
    }

    /// Waits until every load so far has its value (LFENCE).
    pub fn settle(&self) {
        self.act(|w, core| if w.ended { Poll::Ready(()) } else { w.settle(core) });
    }

    /// Stores whole lines of payload around the caches; `at` and `len` are multiples of a line.
    pub fn store_around(&self, at: u32, len: u32) {
        let at = self.base + at;
        for line in lines(at, len) {
            self.act(|w, core| if w.ended { Poll::Ready(()) } else { w.store_around(core, line / LINE) });
        }
    }

    /// Takes the lines of payload out of all caches (CLFLUSHOPT).
    pub fn flush(&self, at: u32, len: u32) {
        let at = self.base + at;
        for line in lines(at, len) {
            self.act(|w, core| if w.ended { Poll::Ready(()) } else { w.flush(core, line / LINE) });
        }
    }

    /// The machine, to look at its counters.
    pub fn with_world<R>(&self, f: impl FnOnce(&World) -> R) -> R {
        f(&self.world.borrow())
    }

    /// The core that it runs on.
    pub fn core(&self) -> u8 {
        self.core
    }

    /// Stores lines of payload, without saying what.
    pub fn write_lines(&self, at: u32, len: u32) {
        let at = self.base + at;
        for line in lines(at, len) {
            let whole = at <= line && line + LINE <= at + len;
            self.act(
                |w, core| {
                    if w.ended { Poll::Ready(()) } else { w.write_line(core, line / LINE, whole) }
                },
            );
        }
    }

    /// Loads lines of payload, without looking at them.
    pub fn read_lines(&self, at: u32, len: u32) {
        let at = self.base + at;
        for line in lines(at, len) {
            self.act(|w, core| if w.ended { Poll::Ready(()) } else { w.read_line(core, line / LINE) });
        }
    }
}

impl SharedMemory for Agent<'_> {
    #[inline]
    fn load(&self, at: u32) -> u64 {
        let at = self.base + at;
        self.act(|w, core| if w.ended { Poll::Ready(w.word(at)) } else { w.load(core, at, false) })
    }

    #[inline]
    fn store(&self, at: u32, value: u64) {
        let at = self.base + at;
        self.act(|w, core| {
            if w.ended {
                w.set_word(at, value);
                return Poll::Ready(());
            }
            w.store(core, at, value)
        });
    }

    #[inline]
    fn load_acquire(&self, at: u32) -> u64 {
        let at = self.base + at;
        self.act(|w, core| if w.ended { Poll::Ready(w.word(at)) } else { w.load(core, at, true) })
    }

    #[inline]
    fn store_release(&self, at: u32, value: u64) {
        self.store(at, value); // stores are done in order
    }

    fn compare_exchange(&self, at: u32, current: u64, new: u64) -> Result<u64, u64> {
        let at = self.base + at;
        self.act(|w, core| {
            if !w.ended {
                return w.exchange(core, at, current, new);
            }
            Poll::Ready(w.swap_word(at, current, new))
        })
    }

    fn read(&self, at: u32, to: &mut [u8]) {
        self.read_lines(at, to.len() as u32);
        to.copy_from_slice(self.world.borrow().bytes(self.base + at, to.len()));
    }

    fn write(&self, at: u32, from: &[u8]) {
        self.write_lines(at, from.len() as u32);
        self.world.borrow_mut().bytes_mut(self.base + at, from.len()).copy_from_slice(from);
    }

    fn with<R>(&self, at: u32, len: u32, f: impl FnOnce(&[u8]) -> R) -> R {
        self.read_lines(at, len);
        f(self.world.borrow().bytes(self.base + at, len as usize))
    }

    fn with_mut<R>(&self, at: u32, len: u32, f: impl FnOnce(&mut [u8]) -> R) -> R {
        self.write_lines(at, len);
        f(self.world.borrow_mut().bytes_mut(self.base + at, len as usize))
    }

    fn prefetch_read(&self, at: u32) {
        self.hint(at, Request::Read);
    }

    fn prefetch_own(&self, at: u32) {
        self.hint(at, Request::Own);
    }

    fn prefetch_overwrite(&self, at: u32) {
        self.hint(at, Request::OwnWhole);
    }

    fn demote(&self, at: u32) {
        let at = self.base + at;
        self.act(|w, core| if w.ended { Poll::Ready(()) } else { w.demote(core, at / LINE) });
    }

    fn relax(&self) {
        self.act(|w, core| if w.ended { Poll::Ready(()) } else { w.relax(core) });
    }
}

impl Agent<'_> {
    fn hint(&self, at: u32, request: Request) {
        let at = self.base + at;
        self.act(|w, core| if w.ended { Poll::Ready(()) } else { w.hint(core, at / LINE, request) });
    }
}

/// Memory without time: see [`Sim::untimed`].
#[derive(Clone, Copy)]
pub struct Untimed<'a>(&'a RefCell<World>, u32);

impl std::fmt::Debug for Untimed<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Untimed").finish_non_exhaustive()
    }
}

impl SharedMemory for Untimed<'_> {
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
        self.0.borrow_mut().swap_word(self.1 + at, current, new)
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
