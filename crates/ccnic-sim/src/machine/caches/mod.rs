//! Set-associative stores of line numbers with least-recently-used replacement: what every cache is here.
//!
//! Caches hold no data, since a line has one value at any time (there is one writer): the bytes lie once, in the world's memory.
//!
//! Where a line stands is looked up by its number, not by a search of its set: lines that are used together lie together
//! there, while their sets are far apart in this machine's memory. [`Tags`] is a cache by itself, [`Private`] the two levels of
//! a core, which share what is looked up.

use crate::machine::directory::NONE;
use crate::protocols::State;

/// Where a line stands in a [`Tags`].
pub type Slot = u32;

/// What a cache knows of a line, in three bits.
pub trait Packed: Copy + Default {
    /// As a number below eight.
    fn pack(self) -> u16;
    /// Back again.
    fn unpack(bits: u16) -> Self;
}

impl Packed for bool {
    fn pack(self) -> u16 {
        self.into()
    }

    fn unpack(bits: u16) -> bool {
        bits != 0
    }
}

/// Bits of a state in an index entry; above it stands the way plus one, or zero for a line that is not here.
const STATE: u32 = 3;
const STATE_MASK: u16 = (1 << STATE) - 1;
/// More ways than this an index entry cannot tell apart.
pub const WAYS_MAX: u32 = (u16::MAX >> STATE) as u32 - 1;
/// Lines of a page of the index.
const PAGE: usize = 64;

fn entry<S: Packed>(way: u32, state: S) -> u16 {
    ((way + 1) as u16) << STATE | state.pack()
}

/// The way and the state that an entry tells.
#[inline]
fn told<S: Packed>(entry: u16) -> Option<(u32, S)> {
    Some((u32::from(entry >> STATE).checked_sub(1)?, S::unpack(entry & STATE_MASK)))
}

/// What is known of each line, zero for most.
#[derive(Debug)]
struct Index<T> {
    /// For each page from `base` on, its lines: a core uses a small part of a large memory.
    pages: Vec<Option<Box<[T; PAGE]>>>,
    base: u32,
}

impl<T: Copy + Default> Index<T> {
    fn new() -> Index<T> {
        Index { pages: Vec::new(), base: 0 }
    }

    #[inline]
    fn get(&self, line: u32) -> T {
        match self.pages.get((line / PAGE as u32).wrapping_sub(self.base) as usize) {
            Some(Some(page)) => page[line as usize % PAGE],
            _ => T::default(),
        }
    }

    #[inline]
    fn at(&mut self, line: u32) -> &mut T {
        let page = (line / PAGE as u32).wrapping_sub(self.base) as usize;
        if !matches!(self.pages.get(page), Some(Some(_))) {
            self.reach(line / PAGE as u32);
        }
        let page = (line / PAGE as u32 - self.base) as usize;
        &mut self.pages[page].get_or_insert_with(|| Box::new([T::default(); PAGE]))[line as usize % PAGE]
    }

    /// Makes a page one of those that are known.
    #[cold]
    fn reach(&mut self, page: u32) {
        if self.pages.is_empty() {
            self.base = page;
        } else if page < self.base {
            self.pages.splice(0..0, (page..self.base).map(|_| None));
            self.base = page;
        }
        let count = (page - self.base) as usize + 1;
        self.pages.resize_with(self.pages.len().max(count), || None);
    }
}

/// The places of a cache: which lines stand there, and when each was used last.
#[derive(Debug)]
struct Sets {
    ways: u32,
    sets: u32,
    /// For a power of two of sets, what of a line number tells the set; otherwise zero.
    mask: u32,
    hashed: bool,
    /// Line number plus one; zero is empty. The first place of each set, the second of each, and so on: most sets hold few lines, and
    /// those of lines that follow each other then lie together.
    tags: Vec<u32>,
    ages: Vec<u32>,
    /// For each set the ways that are empty, a bit each; of a set of more ways than bits, none is known.
    empty: Vec<u32>,
    clock: u32,
}

impl Sets {
    fn new(lines: u32, ways: u32, hashed: bool) -> Sets {
        let ways = ways.min(WAYS_MAX);
        let sets = (lines / ways).max(1);
        let n = (sets * ways) as usize;
        Sets {
            ways,
            sets,
            mask: if sets.is_power_of_two() { sets - 1 } else { 0 },
            hashed,
            tags: vec![0; n],
            ages: vec![0; n],
            empty: vec![if ways < u32::BITS { (1 << ways) - 1 } else { 0 }; sets as usize],
            clock: 0,
        }
    }

    #[inline]
    fn set(&self, line: u32) -> u32 {
        // The high half of the product: the low bits of a multiple of the page would be alike.
        let hash = |line: u32| (u64::from(line).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32;
        let index = if self.hashed { hash(line) } else { line };
        if self.mask != 0 { index & self.mask } else { index % self.sets }
    }

    #[inline]
    fn slot(&self, line: u32, way: u32) -> Slot {
        way * self.sets + self.set(line)
    }

    #[inline]
    fn touch(&mut self, slot: Slot) {
        self.clock = self.clock.wrapping_add(1);
        self.ages[slot as usize] = self.clock;
    }

    /// Among the first `ways` of a line's set, one for it: empty, or that of a line that has to go. Lines for which `keep` holds
    /// stay, as long as there is another.
    fn room(&self, line: u32, ways: u32, keep: impl Fn(u32) -> bool) -> (u32, Option<u32>) {
        let (set, ways) = (self.set(line), ways.min(self.ways));
        let empty = self.empty[set as usize].trailing_zeros();
        if empty < ways {
            return (empty, None);
        }
        let tag = |way: &u32| self.tags[(way * self.sets + set) as usize];
        let age = |way: &u32| self.clock.wrapping_sub(self.ages[(way * self.sets + set) as usize]);
        let way = (0..ways)
            .find(|way| tag(way) == 0)
            .or_else(|| (0..ways).filter(|way| !keep(tag(way) - 1)).max_by_key(age))
            .or_else(|| (0..ways).max_by_key(age))
            .unwrap_or(0);
        (way, tag(&way).checked_sub(1))
    }

    /// Puts a line in its place, which is empty.
    #[inline]
    fn stand(&mut self, line: u32, way: u32) -> Slot {
        let (set, slot) = (self.set(line), self.slot(line, way));
        self.tags[slot as usize] = line + 1;
        if self.ways < u32::BITS {
            self.empty[set as usize] &= !(1 << way);
        }
        self.touch(slot);
        slot
    }

    /// Empties a line's place.
    #[inline]
    fn leave(&mut self, line: u32, way: u32) {
        let (set, slot) = (self.set(line), self.slot(line, way));
        self.tags[slot as usize] = 0;
        if self.ways < u32::BITS {
            self.empty[set as usize] |= 1 << way;
        }
    }

    fn lines(&self) -> impl Iterator<Item = u32> + '_ {
        self.tags.iter().filter_map(|tag| tag.checked_sub(1))
    }
}

/// A cache, and a state of each of its lines.
#[derive(Debug)]
pub struct Tags<S> {
    sets: Sets,
    index: Index<u16>,
    states: std::marker::PhantomData<S>,
}

impl<S: Packed> Tags<S> {
    /// A cache of `lines` lines in sets of `ways`. A hashed one spreads lines over its sets, as a sliced last-level cache does.
    pub fn new(lines: u32, ways: u32, hashed: bool) -> Tags<S> {
        Tags { sets: Sets::new(lines, ways, hashed), index: Index::new(), states: std::marker::PhantomData }
    }

    /// Where the line stands, if it is here, and its state.
    #[inline]
    pub fn get(&self, line: u32) -> Option<(Slot, S)> {
        let (way, state) = told(self.index.get(line))?;
        Some((self.sets.slot(line, way), state))
    }

    /// Where the line stands, if it is here.
    #[inline]
    pub fn find(&self, line: u32) -> Option<Slot> {
        self.get(line).map(|(slot, _)| slot)
    }

    /// Marks a line as used just now.
    #[inline]
    pub fn touch(&mut self, slot: Slot) {
        self.sets.touch(slot);
    }

    /// Sets the state of a line, if it is here; says where it stands.
    #[inline]
    pub fn set_state(&mut self, line: u32, state: S) -> Option<Slot> {
        let slot = self.find(line)?;
        let entry = self.index.at(line);
        *entry = *entry & !STATE_MASK | state.pack();
        Some(slot)
    }

    /// Takes a line out.
    pub fn remove(&mut self, line: u32) -> Option<S> {
        let (way, state) = told(self.index.get(line))?;
        *self.index.at(line) = 0;
        self.sets.leave(line, way);
        Some(state)
    }

    /// Puts a line in that is not here, among the first `ways` of its set; returns its place and the line that had to go.
    /// Lines for which `keep` holds are not put out, as long as there is another.
    pub fn insert(
        &mut self,
        line: u32,
        state: S,
        ways: u32,
        keep: impl Fn(u32) -> bool,
    ) -> (Slot, Option<(u32, S)>) {
        let (way, gone) = self.sets.room(line, ways, keep);
        let gone = gone.and_then(|line| Some((line, self.remove(line)?)));
        *self.index.at(line) = entry(way, state);
        (self.sets.stand(line, way), gone)
    }

    /// Every line that is here, and its state.
    #[cfg(test)]
    pub fn iter(&self) -> impl Iterator<Item = (u32, S)> + '_ {
        self.sets.lines().filter_map(|line| Some((line, self.get(line)?.1)))
    }
}

/// The private caches of a core; the first level has nothing that the second does not have.
#[derive(Debug)]
pub struct Private {
    near: Sets,
    far: Sets,
    /// For each line an entry for the second level and, in the upper half, its way plus one in the first.
    index: Index<u32>,
    /// Which lines were found last in which way, by their low bits.
    recent: Vec<(u32, u32)>,
}

const RECENT: usize = 512;
/// Where the first level's way stands in an entry.
const NEAR: u32 = 16;

impl Private {
    /// Caches of so many lines and ways: the first level, the second.
    pub fn new(near: (u32, u32), far: (u32, u32)) -> Private {
        Private {
            near: Sets::new(near.0, near.1, false),
            far: Sets::new(far.0, far.1, false),
            index: Index::new(),
            recent: vec![(NONE, 0); RECENT],
        }
    }

    /// Finds a line: its state, and whether the first level has it. Counts as a use.
    #[inline]
    pub fn find(&mut self, line: u32) -> Option<(State, bool)> {
        let entry = self.index.get(line);
        let (way, state) = told(entry as u16)?;
        let recent = &mut self.recent[line as usize % RECENT];
        if *recent == (line, way) {
            return Some((state, true));
        }
        *recent = (line, way);
        self.far.touch(self.far.slot(line, way));
        let near = (entry >> NEAR).checked_sub(1);
        match near {
            Some(way) => self.near.touch(self.near.slot(line, way)),
            None => *self.index.at(line) = self.bring_near(line) | entry,
        }
        Some((state, near.is_some()))
    }

    /// Puts a line of the second level into the first, too; returns what its entry says of that.
    fn bring_near(&mut self, line: u32) -> u32 {
        let (way, gone) = self.near.room(line, u32::MAX, |_| false);
        if let Some(gone) = gone {
            self.near.leave(gone, way);
            *self.index.at(gone) &= (1 << NEAR) - 1;
        }
        self.near.stand(line, way);
        (way + 1) << NEAR
    }

    /// The state of a line; does not count as a use.
    #[inline]
    pub fn state(&self, line: u32) -> State {
        told(self.index.get(line) as u16).map_or(State::Invalid, |(_, state)| state)
    }

    /// Changes the state of a line, or takes it out.
    pub fn set_state(&mut self, line: u32, state: State) {
        if state == State::Invalid {
            self.remove(line);
        } else if self.state(line) != State::Invalid {
            let entry = self.index.at(line);
            *entry = *entry & !u32::from(STATE_MASK) | u32::from(state.pack());
        }
    }

    fn remove(&mut self, line: u32) -> Option<State> {
        let entry = self.index.get(line);
        let (way, state) = told(entry as u16)?;
        *self.index.at(line) = 0;
        self.far.leave(line, way);
        if let Some(way) = (entry >> NEAR).checked_sub(1) {
            self.near.leave(line, way);
        }
        Some(state)
    }

    /// Puts a line into both levels; returns the one that had to go. Lines for which `keep` holds stay, as long as there is another.
    pub fn place(&mut self, line: u32, state: State, keep: impl Fn(u32) -> bool) -> Option<(u32, State)> {
        if let Some((way, _)) = told::<State>(self.index.get(line) as u16) {
            self.set_state(line, state);
            self.far.touch(self.far.slot(line, way));
            return None;
        }
        let (way, gone) = self.far.room(line, u32::MAX, keep);
        let gone = gone.and_then(|line| Some((line, self.remove(line)?)));
        self.far.stand(line, way);
        *self.index.at(line) = self.bring_near(line) | u32::from(entry(way, state));
        gone
    }

    /// Every line that is here, and its state.
    pub fn iter(&self) -> impl Iterator<Item = (u32, State)> + '_ {
        self.far.lines().map(|line| (line, self.state(line)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_goes() {
        let mut t: Tags<bool> = Tags::new(8, 4, false);
        for line in [0, 2, 4, 6] {
            assert_eq!(t.insert(line, line == 2, 4, |_| false).1, None);
        }
        let zero = t.find(0).unwrap();
        t.touch(zero);
        assert_eq!(t.insert(8, true, 4, |_| false).1, Some((2, true)));
        assert_eq!(t.insert(10, false, 4, |line| line == 4).1, Some((6, false)));
        assert_eq!((t.remove(8), t.find(8), t.iter().count()), (Some(true), None, 3));
    }

    #[test]
    fn a_limit_on_ways_holds() {
        let mut t: Tags<bool> = Tags::new(16, 8, false);
        for line in (0..20).step_by(2) {
            t.insert(line, false, 2, |_| false);
        }
        assert_eq!(t.iter().count(), 2);
    }

    #[test]
    fn a_line_keeps_its_state_and_place() {
        let mut t: Tags<bool> = Tags::new(64, 16, true);
        for line in (0..6400).step_by(100) {
            let (slot, _) = t.insert(line, false, 16, |_| false);
            assert_eq!(t.get(line), Some((slot, false)));
            assert_eq!(t.set_state(line, true), Some(slot));
            assert_eq!(t.get(line), Some((slot, true)));
        }
        assert_eq!((t.set_state(1, true), t.get(1), t.get(u32::MAX)), (None, None, None));
        assert!(t.iter().count() > 30 && t.iter().all(|(line, state)| state && line % 100 == 0));
    }

    #[test]
    fn the_first_level_holds_what_was_used_last() {
        // One set of two ways before one of four.
        let mut p = Private::new((2, 2), (4, 4));
        for line in [0, 1, 2, 3] {
            assert_eq!(p.place(line, State::Exclusive, |_| false), None);
        }
        assert_eq!([3, 2, 0].map(|line| p.find(line).unwrap().1), [true, true, false]);
        assert_eq!(p.find(3), Some((State::Exclusive, true)), "found there shortly before");
        p.set_state(0, State::Modified);
        assert_eq!((p.state(0), p.state(4)), (State::Modified, State::Invalid));
        assert_eq!(p.place(4, State::Shared, |line| line == 1), Some((3, State::Exclusive)));
        assert_eq!((p.find(3), p.find(4)), (None, Some((State::Shared, true))));
        p.set_state(4, State::Invalid);
        assert_eq!((p.state(4), p.iter().count()), (State::Invalid, 3));
        assert_eq!(p.place(4, State::Shared, |_| false), None);
        assert_eq!(p.place(5, State::Shared, |_| false), Some((1, State::Exclusive)));
    }
}
