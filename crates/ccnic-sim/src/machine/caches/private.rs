//! The two private caches of a core, first and second level. The first has nothing that the second does not have.

use super::mask::WayMask;
use super::sets::{Index, Packed, STATE_MASK, Sets, Spread, decode, entry};
use crate::machine::ids::NONE;
use crate::protocols::table::State;

/// The private caches of a core.
#[derive(Debug)]
pub struct Private {
    l1: Sets,
    l2: Sets,
    /// For each line an entry for the second level and, in the upper half, its way plus one in the first.
    index: Index<u32>,
    /// The lines found last and their ways in the second level, by low bits of the line number.
    recent: Vec<(u32, u32)>,
}

/// Entries of `recent`.
const RECENT: usize = 512;
/// Where the first level's way stands in an entry.
const L1: u32 = 16;

impl Packed for State {
    #[inline]
    fn pack(self) -> u16 {
        self as u16
    }

    #[inline]
    fn unpack(bits: u16) -> State {
        match bits {
            1 => State::Shared,
            2 => State::Forward,
            3 => State::Exclusive,
            4 => State::Modified,
            _ => State::Invalid,
        }
    }
}

impl Private {
    /// Caches of so many lines and ways: the first level, the second.
    pub fn new(l1: (u32, u32), l2: (u32, u32)) -> Private {
        Private {
            l1: Sets::new(l1.0, l1.1, Spread::Plain),
            l2: Sets::new(l2.0, l2.1, Spread::Plain),
            index: Index::new(),
            recent: vec![(NONE, 0); RECENT],
        }
    }

    /// Looks a line up for an access: its state, and whether the first level has it.
    #[inline]
    pub fn access(&mut self, line: u32) -> Option<(State, bool)> {
        let entry = self.index.get(line);
        let (way, state) = decode(entry as u16)?;
        let recent = &mut self.recent[line as usize % RECENT];
        if *recent == (line, way) {
            return Some((state, true));
        }
        *recent = (line, way);
        self.l2.touch(self.l2.slot(line, way));
        let l1 = (entry >> L1).checked_sub(1);
        match l1 {
            Some(way) => self.l1.touch(self.l1.slot(line, way)),
            None => *self.index.get_mut(line) = self.fill_l1(line) | entry,
        }
        Some((state, l1.is_some()))
    }

    /// Puts a line of the second level into the first, too; returns the upper half of its entry.
    fn fill_l1(&mut self, line: u32) -> u32 {
        let (way, gone) = self.l1.victim(line, WayMask::ALL, |_| false);
        if let Some(gone) = gone {
            self.l1.clear(gone, way);
            *self.index.get_mut(gone) &= (1 << L1) - 1;
        }
        self.l1.fill(line, way);
        (way + 1) << L1
    }

    /// The state of a line; does not count as an access.
    #[inline]
    pub fn state(&self, line: u32) -> State {
        decode(self.index.get(line) as u16).map_or(State::Invalid, |(_, state)| state)
    }

    /// Changes the state of a line, or takes it out.
    pub fn set_state(&mut self, line: u32, state: State) {
        if state == State::Invalid {
            self.remove(line);
        } else if self.state(line) != State::Invalid {
            let entry = self.index.get_mut(line);
            *entry = *entry & !u32::from(STATE_MASK) | u32::from(state.pack());
        }
    }

    fn remove(&mut self, line: u32) -> Option<State> {
        let entry = self.index.get(line);
        let (way, state) = decode(entry as u16)?;
        *self.index.get_mut(line) = 0;
        self.l2.clear(line, way);
        if let Some(way) = (entry >> L1).checked_sub(1) {
            self.l1.clear(line, way);
        }
        Some(state)
    }

    /// Puts a line into both levels; returns the line that was evicted. Lines for which `keep` holds stay, as long as there is
    /// another.
    pub fn insert(&mut self, line: u32, state: State, keep: impl Fn(u32) -> bool) -> Option<(u32, State)> {
        if let Some((way, _)) = decode::<State>(self.index.get(line) as u16) {
            self.set_state(line, state);
            self.l2.touch(self.l2.slot(line, way));
            return None;
        }
        let (way, gone) = self.l2.victim(line, WayMask::ALL, keep);
        let gone = gone.and_then(|line| Some((line, self.remove(line)?)));
        self.l2.fill(line, way);
        *self.index.get_mut(line) = self.fill_l1(line) | u32::from(entry(way, state));
        gone
    }

    /// Every line and its state.
    pub fn iter(&self) -> impl Iterator<Item = (u32, State)> + '_ {
        self.l2.lines().map(|line| (line, self.state(line)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_survive_packing() {
        assert!(State::ALL.into_iter().all(|s| State::unpack(s.pack()) == s && s.pack() <= STATE_MASK));
    }

    #[test]
    fn the_first_level_has_what_was_used_last() {
        // One set of two ways before one of four.
        let mut p = Private::new((2, 2), (4, 4));
        for line in [0, 1, 2, 3] {
            assert_eq!(p.insert(line, State::Exclusive, |_| false), None);
        }
        assert_eq!([3, 2, 0].map(|line| p.access(line).unwrap().1), [true, true, false]);
        assert_eq!(p.access(3), Some((State::Exclusive, true)), "found there shortly before");
        p.set_state(0, State::Modified);
        assert_eq!((p.state(0), p.state(4)), (State::Modified, State::Invalid));
        assert_eq!(p.insert(4, State::Shared, |line| line == 1), Some((3, State::Exclusive)));
        assert_eq!((p.access(3), p.access(4)), (None, Some((State::Shared, true))));
        p.set_state(4, State::Invalid);
        assert_eq!((p.state(4), p.iter().count()), (State::Invalid, 3));
        assert_eq!(p.insert(4, State::Shared, |_| false), None);
        assert_eq!(p.insert(5, State::Shared, |_| false), Some((1, State::Exclusive)));
    }
}
