//! The depot as a lock-free free list: a stack of batches of free buffers that both sides push and pop.
//!
//! A *batch* is up to 32 buffers: the first, its *node*, is linked into the list and holds the offsets of the
//! others in its own memory, which is unused while it is free. Moving a batch costs one compare-exchange and
//! a few lines, whatever its size. A side that dies at any instruction leaves the list intact (a Treiber
//! stack with a tag against the ABA problem).
//!
//! ```text
//! head:  63           32 31            0        link of a node:  63           32 31            0
//!       |      tag      |  node + 1     |                       |  buffers      |  next node + 1 |
//! ```
//! Nodes are numbered in units of 128 bytes from the first buffer; 0 means none.

use crate::layout::{PoolLayout, SMALL_BUF};
use crate::memory::SharedMemory;

use super::depot::{BATCH, Batch, Range};

/// Attempts at a compare-exchange before giving up: a hostile peer could change a word forever. When an
/// attempt fails because of an honest peer, that peer has made progress.
const ATTEMPTS: usize = 64;

/// The free list of one class.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stack {
    /// Word: tag and first node.
    head: u32,
    /// First link word.
    links: u32,
    /// First byte of the buffers.
    buffers: u32,
    /// Number of nodes: one per 128 bytes of buffers.
    nodes: u32,
    /// The buffers that may be on this list.
    range: Range,
}

impl Stack {
    pub(super) fn new(layout: &PoolLayout, head: u32, range: Range) -> Stack {
        let nodes = (layout.end - layout.buffers) / SMALL_BUF;
        Stack { head, links: layout.links, buffers: layout.buffers, nodes, range }
    }

    fn link(&self, node: u32) -> u32 {
        self.links + node * 8
    }

    /// Pushes a batch. False when the head kept changing; the buffers are then still the caller's.
    pub(super) fn push<M: SharedMemory>(&self, mem: &M, batch: &Batch) -> bool {
        let Some((&first, others)) = batch.as_slice().split_first() else { return true };
        let node = first.wrapping_sub(self.buffers) / SMALL_BUF;
        if node >= self.nodes {
            return true; // not a buffer of this pool: nothing to push
        }
        let mut bytes = [0u8; 4 * BATCH];
        for (to, buffer) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(others) {
            *to = buffer.to_le_bytes();
        }
        mem.write(first, bytes.get(..4 * others.len()).unwrap_or_default());
        let mut head = mem.load(self.head);
        for _ in 0..ATTEMPTS {
            mem.store(self.link(node), head & 0xffff_ffff | (batch.as_slice().len() as u64) << 32);
            let new = next_tag(head) | u64::from(node + 1);
            match mem.compare_exchange(self.head, head, new) {
                Ok(_) => return true, // F1
                Err(found) => head = found,
            }
        }
        false
    }

    /// Pops a batch. From a list that a broken peer has damaged: `None`, or a batch without the bad offsets.
    pub(super) fn pop<M: SharedMemory>(&self, mem: &M) -> Option<Batch> {
        let mut head = mem.load_acquire(self.head); // F2
        for _ in 0..ATTEMPTS {
            let node = (head as u32).wrapping_sub(1);
            if node >= self.nodes {
                return None;
            }
            // Stale when another agent pops this node first; then the tag has changed and the exchange fails.
            let link = mem.load(self.link(node));
            match mem.compare_exchange(self.head, head, next_tag(head) | link & 0xffff_ffff) {
                Ok(_) => return Some(self.open(mem, node, link)), // F2
                Err(found) => head = found,
            }
        }
        None
    }

    /// Reads the batch of a node that this agent has popped, or that no agent uses (recovery).
    fn open<M: SharedMemory>(&self, mem: &M, node: u32, link: u64) -> Batch {
        let first = self.buffers + node * SMALL_BUF;
        let mut batch = Batch::new();
        if self.range.holds(first) {
            batch.push(first);
        }
        let others = ((link >> 32) as usize).clamp(1, BATCH) - 1;
        let mut bytes = [0u8; 4 * BATCH];
        let bytes = bytes.get_mut(..4 * others).unwrap_or_default();
        mem.read(first, bytes);
        for buffer in bytes.as_chunks::<4>().0.iter().map(|b| u32::from_le_bytes(*b)) {
            if self.range.holds(buffer) {
                batch.push(buffer);
            }
        }
        batch
    }

    /// Empties the list. For recovery, while no agent uses it.
    pub(super) fn clear<M: SharedMemory>(&self, mem: &M) {
        mem.store_release(self.head, next_tag(mem.load_acquire(self.head))); // F1
    }

    /// Calls `see` for every buffer on the list. For recovery, while no agent changes it; ends even on a list
    /// that a broken peer has made circular.
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

/// The head's next tag: a head that was read before another agent's change never matches again.
fn next_tag(head: u64) -> u64 {
    ((head >> 32).wrapping_add(1) & 0xffff_ffff) << 32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heap::HeapMemory;
    use crate::layout::LARGE_BUF;
    use crate::pool::Class;
    use crate::ring::GroupedEpoch;
    use crate::testing::{config, region};

    fn depot() -> (HeapMemory, Stack, PoolLayout) {
        let (mem, layout) = region(&config::<GroupedEpoch>());
        let pool = *layout.pool();
        (mem, Stack::new(&pool, pool.small, Range::new(&pool, Class::Small)), pool)
    }

    fn batch(buffers: impl Iterator<Item = u32>) -> Batch {
        let mut batch = Batch::new();
        buffers.for_each(|buffer| batch.push(buffer));
        batch
    }

    #[test]
    fn batches_come_back_last_in_first_out() {
        let (mem, depot, pool) = depot();
        let buffers = |from: u32, n: u32| (from..from + n).map(move |i| pool.buffers + i * SMALL_BUF);
        assert!(depot.push(&mem, &batch(buffers(0, 32))) && depot.push(&mem, &batch(buffers(40, 1))));
        assert!(depot.push(&mem, &Batch::new()), "nothing to push");
        let mut seen = 0;
        depot.walk(&mem, |_| seen += 1);
        assert_eq!(seen, 33);
        assert!(depot.pop(&mem).unwrap().as_slice().iter().copied().eq(buffers(40, 1)));
        assert!(depot.pop(&mem).unwrap().as_slice().iter().copied().eq(buffers(0, 32)));
        assert!(depot.pop(&mem).is_none());
    }

    #[test]
    fn a_head_that_was_read_before_a_change_does_not_match() {
        let (mem, depot, pool) = depot();
        let one = batch([pool.buffers].into_iter());
        depot.push(&mem, &one);
        let before = mem.load(pool.small);
        depot.pop(&mem);
        depot.push(&mem, &one);
        assert_eq!((mem.load(pool.small) as u32, mem.load(pool.small) == before), (before as u32, false));
    }

    #[test]
    fn a_damaged_list_yields_no_foreign_buffer_and_has_an_end() {
        let (mem, depot, pool) = depot();
        depot.push(&mem, &batch([0, 1, 2].map(|i| pool.buffers + i * SMALL_BUF).into_iter()));
        mem.write(pool.buffers, &1u32.to_le_bytes()); // the second buffer's offset
        mem.write(pool.buffers + 4, &(pool.end).to_le_bytes());
        mem.store(pool.links, mem.load(pool.links) | 1); // the node's next is itself
        let mut seen = 0;
        depot.walk(&mem, |buffer| seen += u32::from(buffer == pool.buffers));
        assert_eq!(seen, (pool.end - pool.buffers) / SMALL_BUF, "as many nodes as there can be");
        assert_eq!(depot.pop(&mem).unwrap().as_slice(), [pool.buffers]);
        mem.store(pool.small, u64::from(64 * (LARGE_BUF / SMALL_BUF) + 1));
        assert!(depot.pop(&mem).is_none(), "a node beyond the pool");
    }
}
