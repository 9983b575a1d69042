//! Write-combining buffers, and the uncached store under way.

/// What a core has under way to devices.
#[derive(Debug, Default)]
pub struct CombiningBuffers {
    /// The store at the head of the store buffer has been sent.
    pub posted: bool,
    /// Write-combining buffers that take stores, oldest first: line, bytes.
    pub combining: Vec<(u32, u64)>,
    /// Write-combining buffers that have been sent and are not free yet.
    pub draining: usize,
}
