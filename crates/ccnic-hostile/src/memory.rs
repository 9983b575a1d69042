//! Access to the regions of hostile programs.

use ccnic_shm::{NativeMemory, Region};

/// A region that this crate uses as [`Region::agent`] asks.
pub(crate) trait RegionMemory {
    /// Access for one agent.
    fn memory(&self) -> NativeMemory;
}

impl RegionMemory for Region {
    #[expect(unsafe_code, reason = "the promise of this crate")]
    fn memory(&self) -> NativeMemory {
        // SAFETY: whatever nonsense these programs write into their regions, the offsets that they write it at come from the layout
        // that the region was made for. Nothing is lent, words are atomic, and one thread writes the payload of a region.
        unsafe { self.agent() }
    }
}
