//! The fuzzer's bytes as numbers.

use std::cell::Cell;

/// An input that is read from both ends: what the sides of a region do from the front, what the hostile peer
/// does to the memory from the back. So a change of one leaves the other as it was. Zeros when it is used up.
#[derive(Debug)]
pub(crate) struct Input {
    bytes: Box<[u8]>,
    front: Cell<usize>,
    back: Cell<usize>,
}

impl Input {
    pub(crate) fn new(bytes: &[u8]) -> Input {
        Input { bytes: bytes.into(), front: Cell::new(0), back: Cell::new(bytes.len()) }
    }

    /// True when every byte has been read.
    pub(crate) fn is_used_up(&self) -> bool {
        self.front.get() >= self.back.get()
    }

    /// The next byte from the front.
    pub(crate) fn byte(&self) -> u8 {
        if self.is_used_up() {
            return 0;
        }
        let at = self.front.get();
        self.front.set(at + 1);
        self.bytes[at]
    }

    /// Two bytes from the front.
    pub(crate) fn short(&self) -> u16 {
        u16::from_le_bytes([self.byte(), self.byte()])
    }

    /// A number below `n` from one byte of the front.
    pub(crate) fn below(&self, n: usize) -> usize {
        usize::from(self.byte()) % n
    }

    /// The next byte from the back.
    pub(crate) fn change(&self) -> u8 {
        if self.is_used_up() {
            return 0;
        }
        let at = self.back.get() - 1;
        self.back.set(at);
        self.bytes[at]
    }

    /// A number of `bytes` bytes from the back.
    pub(crate) fn change_number(&self, bytes: u32) -> u64 {
        (0..bytes).fold(0, |number, _| number << 8 | u64::from(self.change()))
    }
}
