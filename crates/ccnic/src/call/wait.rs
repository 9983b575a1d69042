//! Who sleeps, and who has to wake it (`notify.rs` has the argument why no message is missed).

use crate::memory::SharedMemory;

/// Stores whether this side is going to sleep.
pub(super) fn announce<M: SharedMemory>(mem: &M, event: u32, sleeps: bool) {
    mem.store_release(event, sleeps.into()); // L1
}

/// After a message has been published: true when the other side sleeps. A side sends one message and waits for the next, so it looks
/// once for each, and need not remember whom it has woken.
#[inline(always)]
pub(super) fn sleeps<M: SharedMemory>(mem: &M, event: u32) -> bool {
    mem.light_barrier();
    mem.load_acquire(event) != 0 // L2
}
