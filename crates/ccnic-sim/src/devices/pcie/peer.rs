//! What is at the other end of a NIC's wire: by default nothing, packets come back as they are (a loopback).

use std::fmt::Debug;

/// Programs on other machines.
pub trait Peer: Debug {
    /// Packets that they send at first, each to a queue.
    fn begin(&mut self) -> Vec<(u16, Vec<u8>)>;

    /// A packet from a queue has reached them: what they send to that queue then.
    fn answered(&mut self, queue: u16, packet: &[u8]) -> Option<Vec<u8>>;
}

/// Packets that a NIC has sent to its peer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Answers {
    pub packets: u64,
    /// Bytes on the wire.
    pub bytes: u64,
}
