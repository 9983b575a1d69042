//! A set-associative store of line numbers with least-recently-used replacement: what every cache is here.
//!
//! Caches hold no data, since a line has one value at any time (there is one writer): the bytes lie once, in the world's memory.

/// Where a line stands in a [`Tags`].
pub type Slot = u32;

/// Tags, states and ages of a cache.
#[derive(Debug)]
pub struct Tags<S> {
    ways: u32,
    sets: u32,
    hashed: bool,
    /// Line number plus one; zero is empty.
    tags: Vec<u32>,
    ages: Vec<u32>,
    states: Vec<S>,
    clock: u32,
}

impl<S: Copy + Default> Tags<S> {
    /// A cache of `lines` lines in sets of `ways`. A hashed one spreads lines over its sets, as a sliced last-level cache does.
    pub fn new(lines: u32, ways: u32, hashed: bool) -> Tags<S> {
        let sets = (lines / ways).max(1);
        let n = (sets * ways) as usize;
        Tags {
            ways,
            sets,
            hashed,
            tags: vec![0; n],
            ages: vec![0; n],
            states: vec![S::default(); n],
            clock: 0,
        }
    }

    fn set(&self, line: u32) -> Slot {
        let index = if self.hashed { line.wrapping_mul(0x9e37_79b1) ^ (line >> 15) } else { line };
        let set = if self.sets.is_power_of_two() { index & (self.sets - 1) } else { index % self.sets };
        set * self.ways
    }

    /// Where the line stands, if it is here.
    #[inline]
    pub fn find(&self, line: u32) -> Option<Slot> {
        let first = self.set(line);
        let set = &self.tags[first as usize..(first + self.ways) as usize];
        set.iter().position(|tag| *tag == line + 1).map(|way| first + way as u32)
    }

    /// True when the line stands at `slot`.
    #[inline]
    pub fn is_at(&self, slot: Slot, line: u32) -> bool {
        self.tags[slot as usize] == line + 1
    }

    /// Marks a line as used just now.
    #[inline]
    pub fn touch(&mut self, slot: Slot) {
        self.clock = self.clock.wrapping_add(1);
        self.ages[slot as usize] = self.clock;
    }

    /// The state of the line at `slot`.
    #[inline]
    pub fn state(&self, slot: Slot) -> S {
        self.states[slot as usize]
    }

    /// Sets the state of the line at `slot`.
    #[inline]
    pub fn set_state(&mut self, slot: Slot, state: S) {
        self.states[slot as usize] = state;
    }

    /// Takes a line out.
    pub fn remove(&mut self, line: u32) -> Option<S> {
        let slot = self.find(line)?;
        self.tags[slot as usize] = 0;
        Some(self.states[slot as usize])
    }

    /// Puts a line in, among the first `ways` of its set; returns its place and the line that had to go. Lines for which
    /// `keep` holds are not put out, as long as there is another.
    pub fn insert(
        &mut self,
        line: u32,
        state: S,
        ways: u32,
        keep: impl Fn(u32) -> bool,
    ) -> (Slot, Option<(u32, S)>) {
        let first = self.set(line);
        let slots = first..first + ways.min(self.ways);
        let now = self.clock;
        let age = |s: &Slot| now.wrapping_sub(self.ages[*s as usize]);
        let empty = slots.clone().find(|s| self.tags[*s as usize] == 0);
        let victim = empty
            .or_else(|| slots.clone().filter(|s| !keep(self.tags[*s as usize] - 1)).max_by_key(age))
            .or_else(|| slots.clone().max_by_key(age))
            .unwrap_or(first);
        let i = victim as usize;
        let gone = self.tags[i].checked_sub(1).map(|line| (line, self.states[i]));
        (self.tags[i], self.states[i]) = (line + 1, state);
        self.touch(victim);
        (victim, gone)
    }

    /// Ways of a set.
    pub fn ways(&self) -> u32 {
        self.ways
    }

    /// Every line that is here, and its state.
    pub fn iter(&self) -> impl Iterator<Item = (u32, S)> + '_ {
        self.tags.iter().zip(&self.states).filter_map(|(tag, s)| Some((tag.checked_sub(1)?, *s)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_goes() {
        let mut t: Tags<u8> = Tags::new(8, 4, false);
        for line in [0, 2, 4, 6] {
            assert_eq!(t.insert(line, line as u8, 4, |_| false).1, None);
        }
        let zero = t.find(0).unwrap();
        t.touch(zero);
        assert_eq!(t.insert(8, 8, 4, |_| false).1, Some((2, 2)));
        assert_eq!(t.insert(10, 9, 4, |line| line == 4).1, Some((6, 6)));
        assert_eq!((t.remove(8), t.find(8), t.iter().count()), (Some(8), None, 3));
    }

    #[test]
    fn a_limit_on_ways_holds() {
        let mut t: Tags<u8> = Tags::new(16, 8, false);
        for line in (0..20).step_by(2) {
            t.insert(line, 0, 2, |_| false);
        }
        assert_eq!(t.iter().count(), 2);
    }
}
