//! Memories with injected faults: those that tests must detect, and those that the interface must survive.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;

use ccnic::SharedMemory;

use crate::memory::Memory;

/// A fault: how a faulty memory differs from the memory that it wraps.
pub trait Fault: Clone {
    /// Called before every change of shared memory.
    fn before_write(&self) {}
    /// What an acquire load of `at` returns when the word is `now`.
    fn see(&self, _at: u32, now: u64) -> u64 {
        now
    }
    /// Called after every store of a word.
    fn stored(&self, _at: u32, _value: u64) {}
    /// Whether releases are weakened to plain stores.
    fn weak_release(&self) -> bool {
        false
    }
    /// Whether a compare-exchange fails, as when the peer keeps changing the word.
    fn contended(&self) -> bool {
        false
    }
}

/// A memory with a fault.
#[derive(Debug, Clone)]
pub struct Faulty<S, F>(pub S, pub F);

impl<S: SharedMemory, F: Fault> SharedMemory for Faulty<S, F> {
    type Adopt = S::Adopt;

    fn load(&self, at: u32) -> u64 {
        self.0.load(at)
    }

    fn store(&self, at: u32, value: u64) {
        self.1.before_write();
        self.0.store(at, value);
        self.1.stored(at, value);
    }

    fn load_acquire(&self, at: u32) -> u64 {
        self.1.see(at, self.0.load_acquire(at))
    }

    fn store_release(&self, at: u32, value: u64) {
        self.1.before_write();
        if self.1.weak_release() {
            self.0.store(at, value)
        } else {
            self.0.store_release(at, value)
        }
        self.1.stored(at, value);
    }

    fn compare_exchange(&self, at: u32, current: u64, new: u64) -> Result<u64, u64> {
        self.1.before_write();
        if self.1.contended() { Err(self.0.load(at)) } else { self.0.compare_exchange(at, current, new) }
    }

    fn read(&self, at: u32, to: &mut [u8]) {
        self.0.read(at, to);
    }

    fn write(&self, at: u32, from: &[u8]) {
        self.1.before_write();
        self.0.write(at, from);
    }

    fn with<R>(&self, at: u32, len: u32, f: impl FnOnce(&[u8]) -> R) -> R {
        self.0.with(at, len, f)
    }

    fn with_mut<R>(&self, at: u32, len: u32, f: impl FnOnce(&mut [u8]) -> R) -> R {
        self.1.before_write();
        self.0.with_mut(at, len, f)
    }

    fn prefetch_read(&self, at: u32) {
        self.0.prefetch_read(at);
    }

    fn prefetch_own(&self, at: u32) {
        self.0.prefetch_own(at);
    }

    fn demote(&self, at: u32) {
        self.0.demote(at);
    }

    fn relax(&self) {
        self.0.relax();
    }
}

/// Releases are plain stores: an ordering bug, which loom and ThreadSanitizer must find.
#[derive(Debug, Clone, Copy)]
pub struct WeakRelease;

impl Fault for WeakRelease {
    fn weak_release(&self) -> bool {
        true
    }
}

/// Every compare-exchange fails while the switch is on: a peer that keeps changing the depot.
#[derive(Debug, Clone, Default)]
pub struct Contended(pub Rc<Cell<bool>>);

impl Fault for Contended {
    fn contended(&self) -> bool {
        self.0.get()
    }
}

/// Stale loads: while switched on, acquire loads return what this side last loaded or stored there, as if the
/// peer's later stores became visible between this load and the next.
#[derive(Debug, Clone, Default)]
pub struct Late {
    /// How many more acquire loads are stale.
    pub loads: Rc<Cell<u32>>,
    /// What this side has seen of each word since [`watch`](Late::watch).
    seen: Rc<RefCell<Option<HashMap<u32, u64>>>>,
}

impl Late {
    /// Begins to remember words: only what is remembered can be stale.
    pub fn watch(&self) {
        self.seen.replace(Some(HashMap::new()));
    }
}

impl Fault for Late {
    fn see(&self, at: u32, now: u64) -> u64 {
        let mut seen = self.seen.borrow_mut();
        let Some(seen) = seen.as_mut() else { return now };
        if let (left @ 1.., Some(&old)) = (self.loads.get(), seen.get(&at)) {
            self.loads.set(left - 1);
            return old;
        }
        seen.insert(at, now);
        now
    }

    fn stored(&self, at: u32, value: u64) {
        self.seen.borrow_mut().as_mut().and_then(|seen| seen.insert(at, value));
    }
}

/// Dies before its n-th change of shared memory, as a process that gets SIGKILL does, at a chosen
/// instruction.
#[derive(Debug, Clone)]
pub struct Mortal(Rc<Cell<u64>>);

/// The payload of the unwinding.
struct Died;

impl Mortal {
    /// Never dies.
    pub fn new() -> Mortal {
        Mortal(Rc::new(Cell::new(u64::MAX)))
    }

    /// Runs `f` and dies before the write number `writes` (from 0) that it makes. `None` when it died.
    ///
    /// # Panics
    /// When `f` does, for another reason.
    pub fn run<T>(&self, writes: u64, f: impl FnOnce() -> T) -> Option<T> {
        self.0.set(writes);
        let result = catch_unwind(AssertUnwindSafe(f));
        self.0.set(u64::MAX);
        match result {
            Ok(value) => Some(value),
            Err(cause) if cause.is::<Died>() => None,
            Err(cause) => resume_unwind(cause),
        }
    }
}

impl Default for Mortal {
    fn default() -> Mortal {
        Mortal::new()
    }
}

impl Fault for Mortal {
    fn before_write(&self) {
        match self.0.get() {
            u64::MAX => {}
            0 => resume_unwind(Box::new(Died)), // not panic!: nothing is printed
            left => self.0.set(left - 1),
        }
    }
}

/// The faults that the interface must survive, all off until a test switches one on. One type has them all, so that the interface is
/// compiled for one faulty memory and not for three.
#[derive(Debug, Clone, Default)]
pub struct Faults {
    /// A depot that cannot be changed.
    pub contended: Contended,
    /// Stale loads.
    pub late: Late,
    /// A death at a chosen write.
    pub mortal: Mortal,
}

impl Fault for Faults {
    fn before_write(&self) {
        self.mortal.before_write();
    }

    fn see(&self, at: u32, now: u64) -> u64 {
        self.late.see(at, now)
    }

    fn stored(&self, at: u32, value: u64) {
        self.late.stored(at, value);
    }

    fn contended(&self) -> bool {
        self.contended.contended()
    }
}

/// A memory with faults of each side.
#[derive(Debug)]
pub struct FaultyMemory<M> {
    inner: M,
    /// What the host suffers.
    pub host: Faults,
    /// What the NIC suffers.
    pub nic: Faults,
}

impl<M: Memory> Memory for FaultyMemory<M> {
    type Side = Faulty<M::Side, Faults>;

    fn new(size: u32) -> Self {
        FaultyMemory { inner: M::new(size), host: Faults::default(), nic: Faults::default() }
    }

    fn host(&self) -> Self::Side {
        Faulty(self.inner.host(), self.host.clone())
    }

    fn nic(&self) -> Self::Side {
        Faulty(self.inner.nic(), self.nic.clone())
    }
}
