//! A handle on a region's pool that belongs to no queue pair: for a program whose buffers are allocated and
//! freed by other threads than those that send and receive (a DPDK mempool).

use crate::buf::{Buf, Burst, RegionTag};
use crate::desc::Desc;
use crate::layout::Layout;
use crate::memory::SharedMemory;
use crate::pool::{Allocator, Class};

/// Allocates and frees buffers of a region. Belongs to one thread at a time. Keeps magazines and a ledger as
/// a queue pair does, so what it holds counts as the program's when a NIC dies.
///
/// ```
/// use ccnic::{Burst, Config, Layout, heap::HeapMemory, host};
///
/// let layout = Layout::new(&Config::default())?;
/// let mem = HeapMemory::new(layout.size());
/// host::format(&mem, &layout);
/// let mut pool = host::Pool::new(mem, &layout);
/// let mut burst = Burst::new();
/// assert_eq!(pool.alloc(32, &mut burst), 32);
/// let descs: Vec<_> = burst.disown().collect();
/// assert_eq!(pool.free(descs.into_iter(), &mut burst, ()), 32);
/// pool.retire(); // others can have what its magazines keep
/// # Ok::<(), ccnic::ConfigError>(())
/// ```
#[derive(Debug)]
pub struct Pool<M: SharedMemory> {
    mem: M,
    pool: Allocator,
}

impl<M: SharedMemory> Pool<M> {
    /// A new handle, which holds nothing yet. Example: [`Pool`].
    pub fn new(mem: M, layout: &Layout) -> Pool<M> {
        Pool { mem, pool: Allocator::handle(layout) }
    }

    /// Adds up to `max` large buffers without data to `burst`; returns their number. Fewer when the pool is
    /// dry or the burst full. Nothing is prefetched: the caller knows which lines it will write, and when.
    /// Example: [`Pool`].
    pub fn alloc(&mut self, max: usize, burst: &mut Burst) -> usize {
        let mut n = 0;
        let region = RegionTag::of(&self.mem);
        for slot in burst.spare(max) {
            let Some((at, _)) = self.pool.alloc(&self.mem, Class::Large) else { break };
            *slot = Buf::new(Desc::new(at, 0, 0), region);
            n += 1;
        }
        burst.added(n);
        n
    }

    /// Frees the buffers of `descs` up to the first that names none, or until `burst`, which must be empty
    /// and stays so, is full; returns their number. Lengths do not matter. Example: [`Pool`].
    pub fn free(&mut self, descs: impl Iterator<Item = Desc>, burst: &mut Burst, _: M::Adopt) -> usize {
        let n = self.pool.contains(burst.take_up(descs, RegionTag::of(&self.mem)));
        burst.added(n);
        self.pool.free_many(&self.mem, burst.as_slice());
        burst.clear();
        n
    }

    /// Returns the buffers that this handle keeps to the region's pool. Dropping it does the same.
    /// Example: [`Pool`].
    pub fn retire(&mut self) {
        self.pool.drain(&self.mem);
    }

    /// Tells the handles of one region from those of others: [`SharedMemory::region`].
    pub fn region(&self) -> usize {
        self.mem.region()
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

#[cfg(test)]
mod tests {
    extern crate alloc;
    use super::*;
    use crate::ring::GroupedEpoch;
    use crate::testing::{config, region};

    #[test]
    fn buffers_pass_between_handles() {
        let (mem, layout) = region(&config::<GroupedEpoch>());
        let [mut one, mut other] = [(); 2].map(|()| Pool::new(mem.clone(), &layout));
        let mut burst = Burst::new();
        assert_eq!(one.alloc(64, &mut burst), 64);
        assert!(burst.as_slice().iter().all(|buf| buf.is_empty() && buf.capacity() == 4096));
        let mut descs = [Desc::default(); 64];
        descs.iter_mut().zip(burst.disown()).for_each(|(slot, desc)| *slot = desc);
        assert_eq!(other.alloc(1, &mut burst), 0, "the pool is dry");
        assert_eq!(other.free(descs.into_iter(), &mut burst, ()), 64);
        assert_eq!(one.alloc(64, &mut burst), 60, "a handle keeps a sixteenth of the pool at most");
        assert_eq!(
            one.free(burst.disown().collect::<alloc::vec::Vec<_>>().into_iter(), &mut Burst::new(), ()),
            60
        );
    }

    #[test]
    fn freeing_stops_at_what_is_no_buffer() {
        let (mem, layout) = region(&config::<GroupedEpoch>());
        let mut pool = Pool::new(mem, &layout);
        let (first, end) = (layout.pool().buffers, layout.pool().end);
        let descs = [first, end - 1, end, first].map(|at| Desc::new(at, u16::MAX, 0));
        assert_eq!(pool.free(descs.into_iter(), &mut Burst::new(), ()), 2);
        assert_eq!(pool.free(descs.into_iter().skip(2), &mut Burst::new(), ()), 0);
    }
}
