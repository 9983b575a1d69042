//! A handle on a region's pool that belongs to no queue pair: for a program whose buffers are allocated and freed by other
//! threads than those that send and receive (a DPDK mempool).

use crate::buf::{Buf, Burst, RegionTag};
use crate::desc::Desc;
use crate::layout::Layout;
use crate::memory::SharedMemory;
use crate::pool::{Allocator, Class};

/// Allocates and frees buffers of a region. Belongs to one thread at a time. Keeps a private stack and a ledger as a queue
/// pair does, so what it holds counts as the program's when a NIC dies.
#[derive(Debug)]
pub struct Pool<M: SharedMemory> {
    mem: M,
    pool: Allocator,
}

impl<M: SharedMemory> Pool<M> {
    /// A new handle, which holds nothing yet.
    pub fn new(mem: M, layout: &Layout) -> Pool<M> {
        Pool { mem, pool: Allocator::host(layout) }
    }

    /// Adds up to `want` large buffers to `burst`, empty; returns their number. Fewer when the pool is dry or the burst full.
    /// Nothing is fetched: whoever writes them knows where, and when.
    pub fn alloc(&mut self, want: usize, burst: &mut Burst) -> usize {
        let mut n = 0;
        let region = RegionTag::of(&self.mem);
        for slot in burst.spare(want) {
            let Some((at, _)) = self.pool.alloc(&self.mem, Class::Large) else { break };
            *slot = Buf::new(Desc::new(at, 0, 0), region);
            n += 1;
        }
        burst.added(n);
        n
    }

    /// Frees the buffers of `descs` up to the first that names none, or until `burst`, which must be empty and stays so, is
    /// full; returns their number. What else the descriptors say does not matter.
    pub fn free(&mut self, descs: impl Iterator<Item = Desc>, burst: &mut Burst) -> usize {
        let n = self.pool.contains(burst.take_up(descs, RegionTag::of(&self.mem)));
        burst.added(n);
        self.pool.free_many(&self.mem, burst.as_slice());
        burst.clear();
        n
    }

    /// Returns what this handle keeps to the region's pool. Dropping it does the same.
    pub fn retire(&mut self) {
        self.pool.drain(&self.mem);
    }

    pub(crate) fn pool(&self) -> &Allocator {
        &self.pool
    }
}

impl<M: SharedMemory> Drop for Pool<M> {
    fn drop(&mut self) {
        self.retire();
    }
}
