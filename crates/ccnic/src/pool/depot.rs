//! The depot: what both sides share of the free buffers, one of each class. Either our stack of batches, which gives back what was freed
//! last, or a ring as DPDK's, which gives back what was freed first ([`Config::mempool`](crate::Config)).

use crate::layout::{Layout, PoolLayout};
use crate::memory::SharedMemory;

use super::Class;
use super::fifo::Fifo;
use super::stack::Stack;

/// The most buffers in a batch: as many as a stack's node can name with its link and its 128 bytes.
pub(super) const BATCH: usize = 32;

/// The shared free buffers of one class.
#[derive(Debug, Clone, Copy)]
pub(super) enum Depot {
    /// Last in, first out.
    Stack(Stack),
    /// First in, first out.
    Fifo(Fifo),
}

impl Depot {
    pub(super) fn new(layout: &Layout, class: Class) -> Depot {
        let pool = layout.pool();
        let range = Range::new(pool, class);
        if layout.config().mempool {
            return Depot::Fifo(Fifo::new(pool, class, range));
        }
        let head = match class {
            Class::Small => pool.small,
            Class::Large => pool.large,
        };
        Depot::Stack(Stack::new(pool, head, range))
    }

    /// Gives it a batch. False when a peer kept changing it; the buffers are then still the caller's.
    pub(super) fn push<M: SharedMemory>(&self, mem: &M, batch: &Batch) -> bool {
        match self {
            Depot::Stack(stack) => stack.push(mem, batch),
            Depot::Fifo(fifo) => fifo.push(mem, batch),
        }
    }

    /// Takes a batch: of a stack as it was pushed, of a ring up to `most` buffers. From one that a broken peer has damaged: `None`, or a
    /// batch without the bad offsets.
    pub(super) fn pop<M: SharedMemory>(&self, mem: &M, most: usize) -> Option<Batch> {
        match self {
            Depot::Stack(stack) => stack.pop(mem),
            Depot::Fifo(fifo) => fifo.pop(mem, most),
        }
    }

    /// Empties it. For recovery, while no agent uses it.
    pub(super) fn clear<M: SharedMemory>(&self, mem: &M) {
        match self {
            Depot::Stack(stack) => stack.clear(mem),
            Depot::Fifo(fifo) => fifo.clear(mem),
        }
    }

    /// Calls `see` for every buffer in it. For recovery, while no agent changes it; ends whatever a broken peer has left.
    pub(super) fn walk<M: SharedMemory>(&self, mem: &M, see: impl FnMut(u32)) {
        match self {
            Depot::Stack(stack) => stack.walk(mem, see),
            Depot::Fifo(fifo) => fifo.walk(mem, see),
        }
    }
}

/// The buffers that a depot may hold.
#[derive(Debug, Clone, Copy)]
pub(super) struct Range {
    first: u32,
    bytes: u32,
    size: u32,
}

impl Range {
    pub(super) fn new(layout: &PoolLayout, class: Class) -> Range {
        Range { first: layout.buffers, bytes: layout.end - layout.buffers, size: class.size() }
    }

    /// True for the offset of one of these buffers. Every offset read from shared memory is checked with it.
    pub(super) fn holds(&self, buffer: u32) -> bool {
        let at = buffer.wrapping_sub(self.first);
        at < self.bytes && at.is_multiple_of(self.size)
    }
}

/// Up to [`BATCH`] buffers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Batch {
    buffers: [u32; BATCH],
    len: usize,
}

impl Batch {
    pub(super) const fn new() -> Batch {
        Batch { buffers: [0; BATCH], len: 0 }
    }

    pub(super) fn push(&mut self, buffer: u32) {
        if let Some(slot) = self.buffers.get_mut(self.len) {
            *slot = buffer;
            self.len += 1;
        }
    }

    /// Fills the batch with `f`, which returns how many buffers it wrote.
    pub(super) fn fill(&mut self, f: impl FnOnce(&mut [u32]) -> usize) {
        self.len = f(&mut self.buffers).min(BATCH);
    }

    pub(super) fn is_full(&self) -> bool {
        self.len == BATCH
    }

    pub(super) fn as_slice(&self) -> &[u32] {
        self.buffers.get(..self.len).unwrap_or_default()
    }
}
