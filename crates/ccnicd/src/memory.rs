//! Access to regions, those of programs and the daemon's own: one place, since it is a promise.

use ccnic_shm::{NativeMemory, Region};

/// A region that this crate uses as [`Region::agent`] asks.
pub(crate) trait RegionMemory {
    /// Access for one agent.
    fn memory(&self) -> NativeMemory;
}

impl RegionMemory for Region {
    #[expect(unsafe_code, reason = "the promise of this crate")]
    fn memory(&self) -> NativeMemory {
        // SAFETY: this crate reaches a program's region through `ccnic::nic` only, which checks every offset that the program gives
        // against the layout, and the layout against the region; it copies, and lends nothing of it. Regions of its own ports hold
        // frames at places that the port computes from constants; each is used by the thread that it belongs to, and what is lent of
        // one is a frame that this thread has received or copied into it. A queue has one `NicQueue`, its worker's.
        unsafe { self.agent() }
    }
}
