//! What a network message begins with, and how long it may be (CNI section 5.1). It imports nothing, so that tests that do without the
//! simulator can take in the queue's source.

/// Bytes of a header.
pub const HEADER: usize = 12;
/// Bytes of a place in a queue: a message.
pub const ENTRY: u32 = 256;
/// Bytes of payload of a network message at most.
pub const PAYLOAD: usize = ENTRY as usize - HEADER;

/// A header. Its first word: the valid bit, 8 bits of handler from bit 8 on, 16 each of sender, destination and length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Which handler of the receiver it is for.
    pub handler: u8,
    /// The node that sends it.
    pub from: usize,
    /// The node that it goes to.
    pub to: usize,
    /// Bytes of payload.
    pub len: usize,
    /// A word for the handler.
    pub tag: u32,
}

impl Header {
    /// The first word, without the valid bit.
    pub fn word(&self) -> u64 {
        u64::from(self.handler) << 8
            | (self.from as u64 & 0xffff) << 16
            | (self.to as u64 & 0xffff) << 32
            | (self.len as u64) << 48
    }

    /// From the first word; the tag is not in it.
    pub fn of(word: u64) -> Header {
        let part = |shift: u32| (word >> shift & 0xffff) as usize;
        Header { handler: (word >> 8) as u8, from: part(16), to: part(32), len: part(48), tag: 0 }
    }
}
