//! The shared free list: a lock-free stack of bundles of free buffers, used by both sides.
//!
//! A *bundle* is up to 32 buffers: the first, its *node*, is linked into the list and holds the offsets of the others in
//! its own memory, which nobody else uses while it is free. Moving a bundle costs one compare-exchange and a few
//! lines, whatever it holds. A side that dies at any instruction leaves the list whole (a Treiber stack with a tag
//! against reuse).
//!
//! ```text
//! head:  63           32 31            0        link of a node:  63           32 31            0
//!       |      tag      |  node + 1     |                       |  buffers      |  next node + 1 |
//! ```
//! Nodes are numbered in units of 128 bytes from the first buffer; 0 says "none".

use crate::layout::{PoolPlace, SMALL};
use crate::port::Port;

/// The most buffers in a bundle: what the node's link and 128 bytes can name.
pub(super) const BUNDLE: usize = 32;

/// Attempts at a compare-exchange before giving up: a hostile peer could keep changing the head, an honest one makes
/// progress whenever we fail.
const ATTEMPTS: usize = 64;

/// One of the two free lists (small, large) of a pool.
#[derive(Debug, Clone, Copy)]
pub(super) struct FreeList {
    head: u32,
    links: u32,
    buffers: u32,
    nodes: u32,
    /// Bytes of each buffer on this list.
    size: u32,
}

/// Up to [`BUNDLE`] buffers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bundle {
    buffers: [u32; BUNDLE],
    len: usize,
}

impl Bundle {
    pub(super) const fn new() -> Bundle {
        Bundle { buffers: [0; BUNDLE], len: 0 }
    }

    pub(super) fn push(&mut self, buffer: u32) {
        if let Some(slot) = self.buffers.get_mut(self.len) {
            *slot = buffer;
            self.len += 1;
        }
    }

    /// Fills the bundle by `f`, which says how many buffers it wrote.
    pub(super) fn fill(&mut self, f: impl FnOnce(&mut [u32]) -> usize) {
        self.len = f(&mut self.buffers).min(BUNDLE);
    }

    pub(super) fn is_full(&self) -> bool {
        self.len == BUNDLE
    }

    pub(super) fn as_slice(&self) -> &[u32] {
        self.buffers.get(..self.len).unwrap_or_default()
    }
}

impl FreeList {
    pub(super) fn new(place: &PoolPlace, head: u32, size: u32) -> FreeList {
        let nodes = (place.end - place.buffers) / SMALL;
        FreeList { head, links: place.links, buffers: place.buffers, nodes, size }
    }

    /// True for the offset of a buffer that this list could hold: all that is ever believed of shared memory.
    fn holds(&self, buffer: u32) -> bool {
        let at = buffer.wrapping_sub(self.buffers);
        at < self.nodes * SMALL && at.is_multiple_of(self.size)
    }

    fn link(&self, node: u32) -> u32 {
        self.links + node * 8
    }

    /// Puts a bundle on the list. False when the list could not be changed; the buffers are then still the caller's.
    pub(super) fn push<P: Port>(&self, port: &P, bundle: &Bundle) -> bool {
        let Some((&first, others)) = bundle.as_slice().split_first() else { return true };
        let node = first.wrapping_sub(self.buffers) / SMALL;
        if node >= self.nodes {
            return true; // not a buffer of this pool: there is nothing to keep
        }
        let mut bytes = [0u8; 4 * BUNDLE];
        for (to, buffer) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(others) {
            *to = buffer.to_le_bytes();
        }
        port.write(first, bytes.get(..4 * others.len()).unwrap_or_default());
        let mut head = port.load(self.head);
        for _ in 0..ATTEMPTS {
            port.store(self.link(node), head & 0xffff_ffff | (bundle.len as u64) << 32);
            let new = next_tag(head) | u64::from(node + 1);
            match port.compare_exchange(self.head, head, new) {
                Ok(_) => return true, // F1
                Err(found) => head = found,
            }
        }
        false
    }

    /// Takes a bundle off the list. What a broken peer left there comes back as `None` or without the bad offsets.
    pub(super) fn pop<P: Port>(&self, port: &P) -> Option<Bundle> {
        let mut head = port.load_acquire(self.head); // F2
        for _ in 0..ATTEMPTS {
            let node = (head as u32).wrapping_sub(1);
            if node >= self.nodes {
                return None;
            }
            // Stale when another agent pops this node first; then the tag has moved on and the exchange fails.
            let link = port.load(self.link(node));
            match port.compare_exchange(self.head, head, next_tag(head) | link & 0xffff_ffff) {
                Ok(_) => return Some(self.open(port, node, link)), // F2
                Err(found) => head = found,
            }
        }
        None
    }

    /// Reads the bundle of a node that is this agent's (or, in recovery, nobody's).
    fn open<P: Port>(&self, port: &P, node: u32, link: u64) -> Bundle {
        let first = self.buffers + node * SMALL;
        let mut bundle = Bundle::new();
        if self.holds(first) {
            bundle.push(first);
        }
        let others = ((link >> 32) as usize).clamp(1, BUNDLE) - 1;
        let mut bytes = [0u8; 4 * BUNDLE];
        let bytes = bytes.get_mut(..4 * others).unwrap_or_default();
        port.read(first, bytes);
        for buffer in bytes.as_chunks::<4>().0.iter().map(|b| u32::from_le_bytes(*b)) {
            if self.holds(buffer) {
                bundle.push(buffer);
            }
        }
        bundle
    }

    /// Shows every buffer on the list. For recovery and for counting, while nobody changes it; ends even on a list
    /// that a broken peer has tied into a loop.
    pub(super) fn walk<P: Port>(&self, port: &P, mut see: impl FnMut(u32)) {
        let mut next = port.load_acquire(self.head) as u32; // F2
        for _ in 0..self.nodes {
            let node = next.wrapping_sub(1);
            if node >= self.nodes {
                break;
            }
            let link = port.load(self.link(node));
            self.open(port, node, link).as_slice().iter().copied().for_each(&mut see);
            next = link as u32;
        }
    }
}

/// The head's tag, one further: a head that was read before another agent's change never matches again.
fn next_tag(head: u64) -> u64 {
    ((head >> 32).wrapping_add(1) & 0xffff_ffff) << 32
}
