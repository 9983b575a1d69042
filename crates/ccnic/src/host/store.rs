//! A handle on a region's pool that belongs to no queue pair: for a program whose buffers are allocated and freed by other
//! threads than those that send and receive (a DPDK mempool).

use crate::buf::{Buf, Burst};
use crate::desc::Desc;
use crate::layout::Layout;
use crate::pool::{Class, Pool};
use crate::port::Port;

/// Allocates and frees buffers of a region. Belongs to one thread at a time. Keeps a private stack and a ledger as a queue
/// pair does, so what it holds counts as the program's when a NIC dies.
#[derive(Debug)]
pub struct Store<P: Port> {
    port: P,
    pool: Pool,
}

impl<P: Port> Store<P> {
    /// A new handle, which holds nothing yet.
    pub fn new(port: P, layout: &Layout) -> Store<P> {
        Store { port, pool: Pool::host(layout) }
    }

    /// Adds up to `want` large buffers to `burst`, empty; returns their number. Fewer when the pool is dry or the burst full.
    /// Nothing is fetched: whoever writes them knows where, and when.
    pub fn alloc(&mut self, want: usize, burst: &mut Burst) -> usize {
        let mut n = 0;
        for place in burst.places(want) {
            let Some((at, _)) = self.pool.alloc(&self.port, Class::Large) else { break };
            *place = Buf::new(Desc::new(at, 0, 0));
            n += 1;
        }
        burst.added(n);
        n
    }

    /// Frees the buffers of `descs` up to the first that names none, or until `burst`, which must be empty and stays so, is
    /// full; returns their number. What else the descriptors say does not matter.
    pub fn free(&mut self, descs: impl Iterator<Item = Desc>, burst: &mut Burst) -> usize {
        let n = self.pool.contains(burst.take_up(descs));
        burst.added(n);
        self.pool.free_many(&self.port, burst.as_slice());
        burst.clear();
        n
    }

    /// Returns what this handle keeps to the region's pool. Dropping it does the same.
    pub fn retire(&mut self) {
        self.pool.drain(&self.port);
    }

    pub(crate) fn pool(&self) -> &Pool {
        &self.pool
    }
}

impl<P: Port> Drop for Store<P> {
    fn drop(&mut self) {
        self.retire();
    }
}
