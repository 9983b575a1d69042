//! A cache: sets of ways, and a state of each line.

use super::mask::WayMask;
use super::sets::{Index, Packed, STATE_MASK, Sets, Slot, Spread, decode, entry};

/// A cache with a state of type `S` for each line.
#[derive(Debug)]
pub struct Tags<S> {
    sets: Sets,
    index: Index<u16>,
    states: std::marker::PhantomData<S>,
}

impl Packed for bool {
    fn pack(self) -> u16 {
        self.into()
    }

    fn unpack(bits: u16) -> bool {
        bits != 0
    }
}

impl<S: Packed> Tags<S> {
    /// A cache of `lines` lines in sets of `ways`.
    pub fn new(lines: u32, ways: u32, spread: Spread) -> Tags<S> {
        Tags { sets: Sets::new(lines, ways, spread), index: Index::new(), states: std::marker::PhantomData }
    }

    /// The slot and the state of a line that is cached.
    #[inline]
    pub fn get(&self, line: u32) -> Option<(Slot, S)> {
        let (way, state) = decode(self.index.get(line))?;
        Some((self.sets.slot(line, way), state))
    }

    /// Marks a line as used just now.
    #[inline]
    pub fn touch(&mut self, slot: Slot) {
        self.sets.touch(slot);
    }

    /// Sets the state of a line that is cached; returns its slot.
    #[inline]
    pub fn set_state(&mut self, line: u32, state: S) -> Option<Slot> {
        let (slot, _) = self.get(line)?;
        let entry = self.index.get_mut(line);
        *entry = *entry & !STATE_MASK | state.pack();
        Some(slot)
    }

    /// Takes a line out.
    pub fn remove(&mut self, line: u32) -> Option<S> {
        let (way, state) = decode(self.index.get(line))?;
        *self.index.get_mut(line) = 0;
        self.sets.clear(line, way);
        Some(state)
    }

    /// Allocates a way of the mask for a line that is not cached; returns its slot and the line that was evicted. Lines for which
    /// `keep` holds are not evicted, as long as there is another.
    pub fn insert(
        &mut self,
        line: u32,
        state: S,
        mask: WayMask,
        keep: impl Fn(u32) -> bool,
    ) -> (Slot, Option<(u32, S)>) {
        let (way, gone) = self.sets.victim(line, mask, keep);
        let gone = gone.and_then(|line| Some((line, self.remove(line)?)));
        *self.index.get_mut(line) = entry(way, state);
        (self.sets.fill(line, way), gone)
    }

    /// True if a line's set certainly has an empty way.
    #[inline]
    pub fn has_room(&self, line: u32) -> bool {
        self.sets.has_room(line)
    }

    /// The lines that share a line's set.
    pub fn beside(&self, line: u32) -> impl Iterator<Item = u32> + '_ {
        self.sets.beside(line)
    }

    /// Every line and its state.
    #[cfg(test)]
    pub fn iter(&self) -> impl Iterator<Item = (u32, S)> + '_ {
        self.sets.lines().filter_map(|line| Some((line, self.get(line)?.1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_line_is_evicted() {
        let mut t: Tags<bool> = Tags::new(8, 4, Spread::Plain);
        for line in [0, 2, 4, 6] {
            assert_eq!(t.insert(line, line == 2, WayMask::ALL, |_| false).1, None);
        }
        let zero = t.get(0).unwrap().0;
        t.touch(zero);
        assert_eq!(t.insert(8, true, WayMask::ALL, |_| false).1, Some((2, true)));
        assert_eq!(t.insert(10, false, WayMask::ALL, |line| line == 4).1, Some((6, false)));
        assert_eq!((t.remove(8), t.get(8), t.iter().count()), (Some(true), None, 3));
    }

    #[test]
    fn a_way_mask_bounds_what_is_allocated() {
        let mut t: Tags<bool> = Tags::new(16, 8, Spread::Plain);
        for line in (0..20).step_by(2) {
            t.insert(line, false, WayMask::first(2), |_| false);
        }
        assert_eq!(t.iter().count(), 2);
        // Others' lines in other ways stay.
        for line in (100..112).step_by(2) {
            assert_eq!(t.insert(line, true, WayMask::of(0b1111_1100).unwrap(), |_| false).1, None);
        }
        for line in (200..300).step_by(2) {
            t.insert(line, false, WayMask::first(2), |_| false);
        }
        assert_eq!(t.iter().filter(|(_, other)| *other).count(), 6);
    }

    #[test]
    fn a_line_keeps_its_state_and_slot() {
        let mut t: Tags<bool> = Tags::new(64, 16, Spread::Sliced(2));
        for line in (0..6400).step_by(100) {
            let (slot, _) = t.insert(line, false, WayMask::ALL, |_| false);
            assert_eq!(t.get(line), Some((slot, false)));
            assert_eq!(t.set_state(line, true), Some(slot));
            assert_eq!(t.get(line), Some((slot, true)));
        }
        assert_eq!((t.set_state(1, true), t.get(1), t.get(u32::MAX)), (None, None, None));
        assert!(t.iter().count() > 30 && t.iter().all(|(line, state)| state && line % 100 == 0));
    }
}
