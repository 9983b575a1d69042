//! What a core speculates on: that a word which it polls still has the value of the last look. Its branch predictor has learnt the
//! branch that this value led to, so the program goes on without waiting for the line.

use crate::machine::ids::NONE;

/// The values last seen of the words that a core's control-dependent loads read. A word's address and a digest of its value take
/// eight bytes, so that the table stays in the caches of the computer that simulates.
#[derive(Debug)]
pub struct LastValues(Box<[u64; LastValues::WORDS]>);

impl Default for LastValues {
    fn default() -> LastValues {
        LastValues(Box::new([LastValues::entry(NONE, 0); LastValues::WORDS]))
    }
}

impl LastValues {
    const WORDS: usize = 4096;

    /// The first words of consecutive lines are adjacent: a ring's reader goes from line to line.
    #[inline]
    fn slot(at: u32) -> usize {
        const APART: u32 = LastValues::WORDS as u32 / 4;
        (at / 16 % 4 * APART + at / 64 % APART) as usize
    }

    #[inline]
    fn entry(at: u32, value: u64) -> u64 {
        let digest = value.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        u64::from(at) << 32 | digest
    }

    /// Notes a word's value; true when it was the same at the last look.
    #[inline]
    pub fn observe(&mut self, at: u32, value: u64) -> bool {
        let entry = LastValues::entry(at, value);
        std::mem::replace(&mut self.0[LastValues::slot(at)], entry) == entry
    }

    /// True when a word had this value at the last look.
    #[inline]
    pub fn is(&self, at: u32, value: u64) -> bool {
        self.0[LastValues::slot(at)] == LastValues::entry(at, value)
    }
}

/// Speculation of one core.
#[derive(Debug)]
pub struct Predictor {
    pub values: LastValues,
    /// A word whose line has not come, while the program went on as if its value had not changed.
    pub speculated: Option<u32>,
    /// Such a word and its value, which had changed: the load of the next poll returns it.
    pub changed: Option<(u32, u64)>,
    /// The line of the last control-dependent load since the last empty poll, and its position in program order.
    pub last_line: (u32, u64),
}

impl Default for Predictor {
    fn default() -> Predictor {
        Predictor { values: LastValues::default(), speculated: None, changed: None, last_line: (NONE, 0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_expected_after_it_has_been_seen() {
        let mut v = LastValues::default();
        assert!(!v.observe(64, 1) && v.observe(64, 1) && v.is(64, 1) && !v.is(64, 2));
        assert!(!v.observe(64, 2) && !v.is(64, 1));
        // Another word of the same slot replaces it.
        let other = 64 + 64 * 1024;
        assert!(!v.observe(other, 2) && !v.is(64, 2));
    }
}
