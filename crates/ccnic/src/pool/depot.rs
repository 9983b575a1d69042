//! The shared free list: a lock-free magazine of batches of free buffers, used by both sides.
//!
//! A *batch* is up to 32 buffers: the first, its *node*, is linked into the list and holds the offsets of the others in
//! its own memory, which nobody else uses while it is free. Moving a batch costs one compare-exchange and a few
//! lines, whatever it holds. A side that dies at any instruction leaves the list whole (a Treiber magazine with a tag
//! against reuse).
//!
//! ```text
//! head:  63           32 31            0        link of a node:  63           32 31            0
//!       |      tag      |  node + 1     |                       |  buffers      |  next node + 1 |
//! ```
//! Nodes are numbered in units of 128 bytes from the first buffer; 0 says "none".

use crate::layout::{PoolLayout, SMALL_BUF};
use crate::memory::SharedMemory;

/// The most buffers in a batch: what the node's link and 128 bytes can name.
pub(super) const BATCH: usize = 32;

/// Attempts at a compare-exchange before giving up: a hostile peer could keep changing the head, an honest one makes
/// progress whenever we fail.
const ATTEMPTS: usize = 64;

/// One of the two free lists (small, large) of a pool.
#[derive(Debug, Clone, Copy)]
pub(super) struct Depot {
    head: u32,
    links: u32,
    buffers: u32,
    nodes: u32,
    /// Bytes of each buffer on this list.
    size: u32,
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

    /// Fills the batch by `f`, which says how many buffers it wrote.
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

impl Depot {
    pub(super) fn new(layout: &PoolLayout, head: u32, size: u32) -> Depot {
        let nodes = (layout.end - layout.buffers) / SMALL_BUF;
        Depot { head, links: layout.links, buffers: layout.buffers, nodes, size }
    }

    /// True for the offset of a buffer that this list could hold: all that is ever believed of shared memory.
    fn holds(&self, buffer: u32) -> bool {
        let at = buffer.wrapping_sub(self.buffers);
        at < self.nodes * SMALL_BUF && at.is_multiple_of(self.size)
    }

    fn link(&self, node: u32) -> u32 {
        self.links + node * 8
    }

    /// Puts a batch on the list. False when the list could not be changed; the buffers are then still the caller's.
    pub(super) fn push<M: SharedMemory>(&self, mem: &M, batch: &Batch) -> bool {
        let Some((&first, others)) = batch.as_slice().split_first() else { return true };
        let node = first.wrapping_sub(self.buffers) / SMALL_BUF;
        if node >= self.nodes {
            return true; // not a buffer of this pool: there is nothing to keep
        }
        let mut bytes = [0u8; 4 * BATCH];
        for (to, buffer) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(others) {
            *to = buffer.to_le_bytes();
        }
        mem.write(first, bytes.get(..4 * others.len()).unwrap_or_default());
        let mut head = mem.load(self.head);
        for _ in 0..ATTEMPTS {
            mem.store(self.link(node), head & 0xffff_ffff | (batch.len as u64) << 32);
            let new = next_tag(head) | u64::from(node + 1);
            match mem.compare_exchange(self.head, head, new) {
                Ok(_) => return true, // F1
                Err(found) => head = found,
            }
        }
        false
    }

    /// Takes a batch off the list. What a broken peer left there comes back as `None` or without the bad offsets.
    pub(super) fn pop<M: SharedMemory>(&self, mem: &M) -> Option<Batch> {
        let mut head = mem.load_acquire(self.head); // F2
        for _ in 0..ATTEMPTS {
            let node = (head as u32).wrapping_sub(1);
            if node >= self.nodes {
                return None;
            }
            // Stale when another agent pops this node first; then the tag has moved on and the exchange fails.
            let link = mem.load(self.link(node));
            match mem.compare_exchange(self.head, head, next_tag(head) | link & 0xffff_ffff) {
                Ok(_) => return Some(self.open(mem, node, link)), // F2
                Err(found) => head = found,
            }
        }
        None
    }

    /// Reads the batch of a node that is this agent's (or, in recovery, nobody's).
    fn open<M: SharedMemory>(&self, mem: &M, node: u32, link: u64) -> Batch {
        let first = self.buffers + node * SMALL_BUF;
        let mut batch = Batch::new();
        if self.holds(first) {
            batch.push(first);
        }
        let others = ((link >> 32) as usize).clamp(1, BATCH) - 1;
        let mut bytes = [0u8; 4 * BATCH];
        let bytes = bytes.get_mut(..4 * others).unwrap_or_default();
        mem.read(first, bytes);
        for buffer in bytes.as_chunks::<4>().0.iter().map(|b| u32::from_le_bytes(*b)) {
            if self.holds(buffer) {
                batch.push(buffer);
            }
        }
        batch
    }

    /// Shows every buffer on the list. For recovery and for counting, while nobody changes it; ends even on a list
    /// that a broken peer has tied into a loop.
    pub(super) fn walk<M: SharedMemory>(&self, mem: &M, mut see: impl FnMut(u32)) {
        let mut next = mem.load_acquire(self.head) as u32; // F2
        for _ in 0..self.nodes {
            let node = next.wrapping_sub(1);
            if node >= self.nodes {
                break;
            }
            let link = mem.load(self.link(node));
            self.open(mem, node, link).as_slice().iter().copied().for_each(&mut see);
            next = link as u32;
        }
    }
}

/// The head's tag, one further: a head that was read before another agent's change never matches again.
fn next_tag(head: u64) -> u64 {
    ((head >> 32).wrapping_add(1) & 0xffff_ffff) << 32
}
