//! A network message: 256 bytes, 12 of them a header (CNI section 5.1).

use crate::bus::network::{MESSAGE, Message};

pub use super::header::{ENTRY, HEADER, Header, PAYLOAD};

const _: () = assert!(ENTRY as usize == MESSAGE);

impl Header {
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
