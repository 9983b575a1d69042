//! The bytes of memory. A line has one value at any time, so they are kept once, whatever caches have the line.

/// Memory without time.
#[derive(Debug)]
pub struct Ram(Vec<u8>);

impl Ram {
    /// So many bytes, all zero.
    pub fn new(bytes: u32) -> Ram {
        Ram(vec![0; bytes as usize])
    }

    /// How many bytes there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// An aligned word, as the last store to it left it; zero beyond the end.
    #[inline]
    pub fn word(&self, at: u32) -> u64 {
        let at = at as usize & !7;
        self.0.get(at..at + 8).and_then(|w| w.try_into().ok()).map_or(0, u64::from_le_bytes)
    }

    /// Sets an aligned word; nothing happens beyond the end.
    #[inline]
    pub fn set_word(&mut self, at: u32, value: u64) {
        let at = at as usize & !7;
        if let Some(word) = self.0.get_mut(at..at + 8) {
            word.copy_from_slice(&value.to_le_bytes());
        }
    }

    /// Replaces a word if it is `current`, and returns what it was; an error is what it is otherwise.
    pub fn swap_word(&mut self, at: u32, current: u64, new: u64) -> Result<u64, u64> {
        let found = self.word(at);
        if found != current {
            return Err(found);
        }
        self.set_word(at, new);
        Ok(found)
    }

    /// Bytes from `at` on.
    pub fn bytes(&self, at: u32, len: usize) -> &[u8] {
        &self.0[at as usize..at as usize + len]
    }

    /// Bytes from `at` on, to change.
    pub fn bytes_mut(&mut self, at: u32, len: usize) -> &mut [u8] {
        &mut self.0[at as usize..at as usize + len]
    }
}
