//! What a NIC counts.

/// What the NIC side of a queue pair has done since it was opened. Each packet that is not delivered is
/// counted under its reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NicCounters {
    /// Packets fetched from the program.
    pub tx_packets: u64,
    /// Their bytes.
    pub tx_bytes: u64,
    /// Packets delivered to the program.
    pub rx_packets: u64,
    /// Their bytes.
    pub rx_bytes: u64,
    /// Packets dropped because a descriptor named bytes outside the pool's buffers, or none; and posted
    /// receive buffers that are none.
    pub bad_descriptor: u64,
    /// Packets dropped because they were longer than the MTU.
    pub too_long: u64,
    /// Descriptors dropped because their chain had too many segments.
    pub bad_chain: u64,
    /// Times that a packet had to wait because the receive ring was full.
    pub ring_full: u64,
    /// Times that a packet had to wait, or went back without a copy, because the pool had no buffer.
    pub no_buffer: u64,
    /// Packets dropped, with RSS or from other programs, because the receive ring was full.
    pub dropped_ring_full: u64,
    /// Packets dropped, with RSS or from other programs, because the pool had no buffer.
    pub dropped_no_buffer: u64,
    /// Packets from other programs dropped because they were longer than this program's MTU.
    pub dropped_too_long: u64,
    /// Packets fetched here and dropped, with RSS over several cores, because the hand-off queue to the core
    /// of their receive queue was full, or that core has stopped.
    pub dropped_handoff: u64,
    /// Packets dropped because a flow rule of the program says so: fetched here, or, from other programs, at the first queue.
    pub dropped_by_rule: u64,
}
