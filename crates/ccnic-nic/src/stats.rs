//! What a queue has counted.

/// Counters of the NIC's side of a queue since it was opened. C has them as `struct ccnic_nic_stats`: fields are appended only.
/// [The crate](crate) has an example.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub struct QueueStats {
    /// Packets from the program, including those that were dropped.
    pub rx_packets: u64,
    /// Their bytes.
    pub rx_bytes: u64,
    /// Packets sent to the program.
    pub tx_packets: u64,
    /// Their bytes.
    pub tx_bytes: u64,
    /// From the program and dropped: a descriptor names no bytes of its buffers, or none.
    pub rx_bad_descriptor: u64,
    /// From the program and dropped: descriptors of chains with too many segments.
    pub rx_bad_chain: u64,
    /// From the program and dropped: longer than its MTU.
    pub rx_too_long: u64,
    /// From the program and dropped: fetched, and not received when the queue was [retired](crate::Queue::retire).
    pub rx_dropped_close: u64,
    /// Times that a packet could not be sent because the program's ring was full.
    pub tx_ring_full: u64,
    /// Times that a packet could not be sent because the program's pool was empty.
    pub tx_no_buffer: u64,
    /// Bursts that ended at a descriptor that names no buffer.
    pub tx_bad_buffer: u64,
    /// Bursts that ended at a packet that is too long, empty, or has no end.
    pub tx_bad_packet: u64,
    /// Descriptors given to free that name no buffer.
    pub free_bad_buffer: u64,
    /// Buffers that allocations did not get because the pool was empty.
    pub alloc_failed: u64,
}
