//! The depots as a whole: filled in a new region, looked through and made anew by recovery.

use crate::layout::{LARGE_BUF, Layout};
use crate::memory::SharedMemory;
use crate::pool::Class;
use crate::pool::depot::{BATCH, Batch, Depot};

use super::{Allocator, alloc};

impl Allocator {
    /// Fills the depot of a new region with all its buffers.
    pub fn fill<M: SharedMemory>(mem: &M, layout: &Layout) {
        let (pool, config) = (layout.pool(), layout.config());
        let list = Depot::new(layout, Class::Large);
        let chunks = config.buffers;
        let step = if config.sequential { 1 } else { stride(chunks) };
        let share = share(layout, chunks).min(BATCH); // no batch may hold most of a small pool
        let mut batch = Batch::new();
        for left in (0..chunks).rev() {
            // What is pushed last on a stack is allocated first; of a ring, last.
            let i = if config.mempool { chunks - 1 - left } else { left };
            let chunk = (u64::from(i) * u64::from(step) % u64::from(chunks)) as u32;
            batch.push(pool.buffers + chunk * LARGE_BUF);
            if batch.as_slice().len() >= share || left == 0 {
                list.push(mem, &batch);
                batch = Batch::new();
            }
        }
    }

    /// Calls `see` for every buffer in the depots of a region that no agent is using.
    pub fn walk<M: SharedMemory>(mem: &M, layout: &Layout, mut see: impl FnMut(u32, Class)) {
        for class in [Class::Small, Class::Large] {
            Depot::new(layout, class).walk(mem, |b| see(b, class));
        }
    }

    /// Makes the depots anew, with these buffers. For recovery, while no agent uses them.
    pub(crate) fn rebuild<M: SharedMemory>(
        mem: &M,
        layout: &Layout,
        free: impl Fn(Class) -> alloc::vec::Vec<u32>,
    ) {
        let chunks = layout.config().buffers;
        for class in [Class::Small, Class::Large] {
            let depot = Depot::new(layout, class);
            depot.clear(mem);
            let per_chunk = LARGE_BUF / class.size();
            let share = share(layout, chunks * per_chunk).min(BATCH); // as in a new region
            for buffers in free(class).chunks(share) {
                let mut batch = Batch::new();
                buffers.iter().for_each(|&buffer| batch.push(buffer));
                depot.push(mem, &batch);
            }
        }
    }
}

/// The most of `buffers` that one agent may keep: each queue has two agents, and all of them together keep at
/// most half.
pub(super) fn share(layout: &Layout, buffers: u32) -> usize {
    (buffers / (4 * u32::from(layout.config().queues))).max(1) as usize
}

/// A step that visits each of `n` buffers once and never goes to a neighbour: near the golden section,
/// coprime to n.
fn stride(n: u32) -> u32 {
    let golden = (u64::from(n) * 618 / 1000) as u32;
    (golden..n).chain(2..golden).find(|&s| gcd(s, n) == 1 && s != n - 1).unwrap_or(1)
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strides_visit_all_and_skip_neighbours() {
        for n in 16..600 {
            let s = stride(n);
            assert_eq!(gcd(s, n), 1, "{n}");
            assert!(s > 1 && s < n - 1, "{n}: {s}");
        }
    }
}
