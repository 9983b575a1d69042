//! A network message: 256 bytes, 12 of them a header (CNI section 5.1).

use crate::bus::network::{MESSAGE, Message};

/// Bytes of a header.
pub const HEADER: usize = 12;
/// Bytes of payload of a network message at most.
pub const PAYLOAD: usize = MESSAGE - HEADER;
/// Bytes of a place in a queue.
pub const ENTRY: u32 = MESSAGE as u32;

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

    /// From a message's bytes.
    pub fn read(bytes: &[u8; MESSAGE]) -> Header {
        let mut word = [0; 8];
        word.copy_from_slice(&bytes[..8]);
        Header {
            tag: u32::from_le_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]),
            ..Header::of(u64::from_le_bytes(word))
        }
    }

    /// Bytes of the message, header included.
    pub fn size(&self) -> usize {
        HEADER + self.len.min(PAYLOAD)
    }

    /// Blocks that it takes.
    pub fn blocks(&self) -> usize {
        self.size().div_ceil(64)
    }

    /// The message.
    pub fn with(&self, payload: &[u8]) -> Message {
        let mut bytes = [0; MESSAGE];
        bytes[..8].copy_from_slice(&self.word().to_le_bytes());
        bytes[8..HEADER].copy_from_slice(&self.tag.to_le_bytes());
        bytes[HEADER..HEADER + payload.len()].copy_from_slice(payload);
        Message { to: self.to, from: self.from, len: self.size(), bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_survive() {
        let header = Header { handler: 200, from: 15, to: 3, len: 244, tag: 0xdead_beef };
        assert_eq!(Header::read(&header.with(&[1; 244]).bytes), header);
        assert_eq!((header.blocks(), Header { len: 52, ..header }.blocks()), (4, 1));
    }
}
