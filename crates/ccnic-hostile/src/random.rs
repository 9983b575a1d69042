//! Random numbers that can be repeated.

/// xorshift64*: enough to be anywhere at any time.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// The same seed, the same numbers.
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// Any word.
    pub fn word(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// 0 to `n` - 1; `n` is at least 1.
    pub fn below(&mut self, n: u64) -> u64 {
        (self.word() >> 11) % n
    }

    /// One of `from`, which has at least one.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }
}
