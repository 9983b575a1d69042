//! The asymmetric fence of `ccnic`'s notifications: one side pays for both.
//!
//! The light half keeps the compiler from moving a load before a store. The heavy half, `membarrier(2)`, has every running thread of
//! every process that has asked for it execute a full fence. A kernel may lack it, or forbid it: then a look that comes too early is
//! possible, and a NIC that sleeps looks for itself from time to time anyway.

use std::sync::Once;
use std::sync::atomic::{Ordering, compiler_fence, fence};

use rustix::thread::{MembarrierCommand, membarrier};

/// Has heavy barriers of other processes reach the threads of this one. Once in each process that shares memory with a NIC that sleeps.
pub fn take_part_in_barriers() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        if let Err(e) = membarrier(MembarrierCommand::RegisterGlobalExpedited) {
            tracing::debug!(
                "no membarrier: a NIC that sleeps may find packets up to ten milliseconds late: {e}"
            );
        }
    });
}

#[inline(always)]
pub(crate) fn light() {
    compiler_fence(Ordering::SeqCst);
}

/// The heavy half, for all regions: see [`SharedMemory::heavy_barrier`](ccnic::SharedMemory::heavy_barrier).
#[cold]
pub fn heavy_barrier() {
    fence(Ordering::SeqCst);
    // The light halves of threads that it does not reach are weaker: see above.
    let _ = membarrier(MembarrierCommand::GlobalExpedited);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn barriers_work_where_the_kernel_has_them_and_do_no_harm_elsewhere() {
        take_part_in_barriers();
        take_part_in_barriers();
        heavy_barrier();
        light();
    }
}
