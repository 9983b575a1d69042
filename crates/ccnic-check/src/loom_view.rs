//! The loom `SharedMemory`: every interleaving, and every value that a weak memory may return, of a small
//! configuration.
//!
//! Words are loom atomics. The bytes of buffers are loom cells, one for each 64-byte line, so that loom
//! reports a data race on payload: a hand-over that lacks its release or acquire. `relax` yields to another
//! thread.
//!
//! loom wants every atomic to exist before the threads that share it. A region is therefore *declared*: the
//! lines that hold words, then those that hold bytes. To touch another line is a defect of the test, and
//! panics.
//!
//! loom runs its threads as coroutines of one thread, hence `Rc`.

use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;

use ccnic::SharedMemory;
use ccnic::memory::LINE;
use loom::cell::Cell;
use loom::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use loom::sync::atomic::{AtomicU64, fence};

type Line = [u8; LINE as usize];

/// The declared memory of a model.
#[derive(Debug, Default)]
pub struct LoomMemory {
    words: HashMap<u32, AtomicU64>,
    lines: HashMap<u32, Cell<Line>>,
}

impl LoomMemory {
    /// No memory yet. Only inside a model.
    pub fn new() -> LoomMemory {
        LoomMemory::default()
    }

    /// Declares zeroed words.
    #[must_use]
    pub fn words(mut self, range: Range<u32>) -> LoomMemory {
        for at in range.step_by(8) {
            self.words.insert(at, AtomicU64::new(0));
        }
        self
    }

    /// Declares one zeroed word.
    #[must_use]
    pub fn word(self, at: u32) -> LoomMemory {
        self.words(at..at + 8)
    }

    /// Declares zeroed payload bytes, by whole lines.
    #[must_use]
    pub fn bytes(mut self, range: Range<u32>) -> LoomMemory {
        assert!(range.start.is_multiple_of(LINE), "payload starts on a line");
        for at in range.step_by(LINE as usize) {
            self.lines.insert(at, Cell::new([0; LINE as usize]));
        }
        self
    }

    /// Ends the declaration. Clones see the same memory.
    pub fn memory(self) -> LoomView {
        LoomView(Rc::new(self))
    }
}

/// One agent's access to a [`LoomMemory`].
#[derive(Debug, Clone)]
pub struct LoomView(Rc<LoomMemory>);

impl LoomView {
    fn word(&self, at: u32) -> &AtomicU64 {
        self.0.words.get(&at).unwrap_or_else(|| panic!("the model has no word at {at}"))
    }

    /// Calls `f` for each line of `len` bytes from `at`: the line, the part of it, the part of the bytes.
    fn lines(&self, at: u32, len: usize, mut f: impl FnMut(&Cell<Line>, Range<usize>, Range<usize>)) {
        let (mut at, mut done) = (at, 0);
        while done < len {
            let line = at & !(LINE - 1);
            let skip = (at - line) as usize;
            let n = (LINE as usize - skip).min(len - done);
            let cell = self.0.lines.get(&line).unwrap_or_else(|| panic!("the model has no bytes at {line}"));
            f(cell, skip..skip + n, done..done + n);
            at += n as u32;
            done += n;
        }
    }
}

impl SharedMemory for LoomView {
    type Adopt = ();

    fn load(&self, at: u32) -> u64 {
        self.word(at).load(Relaxed)
    }

    fn store(&self, at: u32, value: u64) {
        self.word(at).store(value, Relaxed);
    }

    fn load_acquire(&self, at: u32) -> u64 {
        self.word(at).load(Acquire)
    }

    fn store_release(&self, at: u32, value: u64) {
        self.word(at).store(value, Release);
    }

    fn compare_exchange(&self, at: u32, current: u64, new: u64) -> Result<u64, u64> {
        self.word(at).compare_exchange(current, new, AcqRel, Acquire)
    }

    fn read(&self, at: u32, to: &mut [u8]) {
        self.lines(at, to.len(), |cell, part, bytes| to[bytes].copy_from_slice(&cell.get()[part]));
    }

    fn write(&self, at: u32, from: &[u8]) {
        self.lines(at, from.len(), |cell, part, bytes| {
            let mut line = cell.get();
            line[part].copy_from_slice(&from[bytes]);
            cell.set(line);
        });
    }

    fn with<R>(&self, at: u32, len: u32, f: impl FnOnce(&[u8]) -> R) -> R {
        let mut bytes = vec![0; len as usize];
        self.read(at, &mut bytes);
        f(&bytes)
    }

    fn with_mut<R>(&self, at: u32, len: u32, f: impl FnOnce(&mut [u8]) -> R) -> R {
        let mut bytes = vec![0; len as usize];
        self.read(at, &mut bytes);
        let result = f(&mut bytes);
        self.write(at, &bytes);
        result
    }

    fn prefetch_read(&self, _: u32) {}
    fn prefetch_own(&self, _: u32) {}
    fn demote(&self, _: u32) {}

    fn light_barrier(&self) {
        fence(SeqCst);
    }

    fn heavy_barrier(&self) {
        fence(SeqCst);
    }

    fn relax(&self) {
        loom::thread::yield_now();
    }
}
