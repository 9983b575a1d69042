//! The two halves of every cache: an index by line number, and sets of ways with least-recently-used replacement.

use super::mask::WayMask;

/// Where a line is kept: its way and its set in one number.
pub type Slot = u32;

/// A line's state in three bits.
pub trait Packed: Copy + Default {
    /// As a number below eight.
    fn pack(self) -> u16;
    /// Back again.
    fn unpack(bits: u16) -> Self;
}

/// Bits of a state in an index entry. The way plus one stands above it; zero is a line that is not cached.
pub const STATE: u32 = 3;
/// Mask of the state.
pub const STATE_MASK: u16 = (1 << STATE) - 1;
/// An index entry has room for so many ways.
pub const WAYS_MAX: u32 = (u16::MAX >> STATE) as u32 - 1;
/// A cache of so many sets at most is small: a first level.
const SMALL: u32 = 128;
/// Lines of a page of the index.
const PAGE: usize = 64;

/// The entry of a line that is cached.
pub fn entry<S: Packed>(way: u32, state: S) -> u16 {
    ((way + 1) as u16) << STATE | state.pack()
}

/// The way and the state of an entry; none for a line that is not cached.
#[inline]
pub fn decode<S: Packed>(entry: u16) -> Option<(u32, S)> {
    Some((u32::from(entry >> STATE).checked_sub(1)?, S::unpack(entry & STATE_MASK)))
}

/// An entry for each line, zero for most.
#[derive(Debug)]
pub struct Index<T> {
    /// Pages from `base` on: a core uses a small part of a large memory.
    pages: Vec<Option<Box<[T; PAGE]>>>,
    base: u32,
}

impl<T: Copy + Default> Index<T> {
    /// An index of zeros.
    pub fn new() -> Index<T> {
        Index { pages: Vec::new(), base: 0 }
    }

    /// A line's entry.
    #[inline]
    pub fn get(&self, line: u32) -> T {
        match self.pages.get((line / PAGE as u32).wrapping_sub(self.base) as usize) {
            Some(Some(page)) => page[line as usize % PAGE],
            _ => T::default(),
        }
    }

    /// A line's entry, to change.
    #[inline]
    pub fn get_mut(&mut self, line: u32) -> &mut T {
        let page = (line / PAGE as u32).wrapping_sub(self.base) as usize;
        if !matches!(self.pages.get(page), Some(Some(_))) {
            self.extend_to(line / PAGE as u32);
        }
        let page = (line / PAGE as u32 - self.base) as usize;
        &mut self.pages[page].get_or_insert_with(|| Box::new([T::default(); PAGE]))[line as usize % PAGE]
    }

    /// Makes room for a page.
    #[cold]
    fn extend_to(&mut self, page: u32) {
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

/// Which set a line is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spread {
    /// The line number's low bits.
    Plain,
    /// A hash of the line number.
    Hashed,
    /// One of so many slices, which a hash of the line number chooses; in it the line number's low bits.
    Sliced(u32),
}

/// Sets of ways: which lines are in them, and when each was used last.
#[derive(Debug)]
pub struct Sets {
    ways: u32,
    /// Of a slice; all, where there are none.
    sets_of_slice: u32,
    /// For a power of two of sets in a slice, the bits of a line number that select one; otherwise zero.
    mask: u32,
    spread: Spread,
    /// Line number plus one; zero is empty.
    tags: Vec<u32>,
    ages: Vec<u32>,
    /// How far apart the ways of a set are in both, and the first ways of two sets.
    apart: (u32, u32),
    /// For each set the empty ways, a bit each; not kept for sets of 32 ways or more.
    empty: Vec<u32>,
    clock: u32,
}

impl Sets {
    /// Sets for so many lines, which the slices share evenly.
    pub fn new(lines: u32, ways: u32, spread: Spread) -> Sets {
        let ways = ways.min(WAYS_MAX);
        let slices = if let Spread::Sliced(slices) = spread { slices.max(1) } else { 1 };
        let sets_of_slice = (lines / ways / slices).max(1);
        let sets = sets_of_slice * slices;
        // A small cache is full: the ways of a set are adjacent. Of a large one most sets hold few lines, and those of consecutive lines
        // are adjacent: the first way of each set, then the second of each, and so on, not a power of two apart, so that a full set finds
        // room in the caches of the computer that simulates.
        let apart = if sets <= SMALL { (1, ways) } else { (sets + 16, 1) };
        let n = ((ways - 1) * apart.0 + (sets - 1) * apart.1 + 1) as usize;
        Sets {
            ways,
            sets_of_slice,
            mask: if sets_of_slice.is_power_of_two() { sets_of_slice - 1 } else { 0 },
            spread,
            tags: vec![0; n],
            ages: vec![0; n],
            apart,
            empty: vec![if ways < u32::BITS { (1 << ways) - 1 } else { 0 }; sets as usize],
            clock: 0,
        }
    }

    #[inline]
    fn set(&self, line: u32) -> u32 {
        // The high half of the product: the low bits of multiples of a page would be alike.
        let hash = || (u64::from(line).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32;
        let within = |index| if self.mask != 0 { index & self.mask } else { index % self.sets_of_slice };
        match self.spread {
            Spread::Plain => within(line),
            Spread::Hashed => within(hash()),
            Spread::Sliced(slices) => {
                let slice = ((u64::from(hash()) * u64::from(slices)) >> 32) as u32;
                slice * self.sets_of_slice + within(line)
            }
        }
    }

    /// True if a line's set certainly has an empty way; for sets of 32 ways or more it is not known.
    #[inline]
    pub fn has_room(&self, line: u32) -> bool {
        self.empty[self.set(line) as usize] != 0
    }

    /// The lines of a line's set.
    pub fn beside(&self, line: u32) -> impl Iterator<Item = u32> + '_ {
        let set = self.set(line);
        (0..self.ways).filter_map(move |way| self.tags[self.at(set, way) as usize].checked_sub(1))
    }

    #[inline]
    fn at(&self, set: u32, way: u32) -> Slot {
        way * self.apart.0 + set * self.apart.1
    }

    /// The slot of a line in a way.
    #[inline]
    pub fn slot(&self, line: u32, way: u32) -> Slot {
        self.at(self.set(line), way)
    }

    /// Marks a slot as used just now.
    #[inline]
    pub fn touch(&mut self, slot: Slot) {
        self.clock = self.clock.wrapping_add(1);
        self.ages[slot as usize] = self.clock;
    }

    /// A way for a line among those of the mask, and the line that has to leave it: an empty way, else the least recently used
    /// one. Lines for which `keep` holds stay, as long as there is another.
    pub fn victim(&self, line: u32, mask: WayMask, keep: impl Fn(u32) -> bool) -> (u32, Option<u32>) {
        let set = self.set(line);
        let empty = self.empty[set as usize] & mask.low();
        if empty != 0 {
            return (empty.trailing_zeros(), None);
        }
        let tag = |way: u32| self.tags[self.at(set, way) as usize];
        let age = |way: &u32| self.clock.wrapping_sub(self.ages[self.at(set, *way) as usize]);
        let ways = || (0..self.ways).filter(|way| mask.has(*way));
        if self.ways >= u32::BITS
            && let Some(way) = ways().find(|way| tag(*way) == 0)
        {
            return (way, None);
        }
        // Whether a line has to stay is asked of the oldest one first, and seldom of another.
        let oldest = ways().max_by_key(age);
        let way = oldest
            .filter(|way| !keep(tag(*way) - 1))
            .or_else(|| ways().filter(|way| !keep(tag(*way) - 1)).max_by_key(age))
            .or(oldest)
            .unwrap_or(0);
        (way, tag(way).checked_sub(1))
    }

    /// Puts a line into an empty way of its set.
    #[inline]
    pub fn fill(&mut self, line: u32, way: u32) -> Slot {
        let (set, slot) = (self.set(line), self.slot(line, way));
        self.tags[slot as usize] = line + 1;
        if self.ways < u32::BITS {
            self.empty[set as usize] &= !(1 << way);
        }
        self.touch(slot);
        slot
    }

    /// Empties a line's way.
    #[inline]
    pub fn clear(&mut self, line: u32, way: u32) {
        let (set, slot) = (self.set(line), self.slot(line, way));
        self.tags[slot as usize] = 0;
        if self.ways < u32::BITS {
            self.empty[set as usize] |= 1 << way;
        }
    }

    /// Every line.
    pub fn lines(&self) -> impl Iterator<Item = u32> + '_ {
        self.tags.iter().filter_map(|tag| tag.checked_sub(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_grows_to_both_sides() {
        let mut index: Index<u16> = Index::new();
        for line in [1000, 10, 500_000] {
            *index.get_mut(line) = line as u16;
        }
        assert_eq!(
            [10, 1000, 500_000, 0, 11, 600_000].map(|l| index.get(l)),
            [10, 1000, 500_000u32 as u16, 0, 0, 0]
        );
    }

    #[test]
    fn a_victim_is_one_of_the_mask() {
        let mut sets = Sets::new(4, 4, Spread::Plain);
        let mask = WayMask::of(0b0110).unwrap();
        assert_eq!(sets.victim(9, mask, |_| false), (1, None));
        for way in 0..4 {
            sets.fill(10 + way, way);
        }
        assert_eq!(sets.victim(9, WayMask::ALL, |_| false), (0, Some(10)));
        assert_eq!(sets.victim(9, mask, |_| false), (1, Some(11)));
        assert_eq!(sets.victim(9, mask, |line| line == 11), (2, Some(12)));
        assert_eq!(
            sets.victim(9, mask, |_| true),
            (1, Some(11)),
            "all are kept: the oldest goes all the same"
        );
        sets.clear(13, 3);
        assert_eq!(sets.victim(9, mask, |_| false).0, 1, "way 3 is empty, and not of the mask");
        assert_eq!((sets.victim(9, WayMask::ALL, |_| false), sets.lines().count()), ((3, None), 3));
    }

    /// All published results depend on this hash: another one would change them a little.
    #[test]
    fn the_hash_of_a_last_level_cache_without_slices_stays() {
        let sets = |n: u32| [0, 1, 2, 64, 12_345].map(|line| Sets::new(4 * n, 4, Spread::Hashed).set(line));
        assert_eq!(sets(1024), [0, 441, 882, 607, 555]);
        assert_eq!(sets(1000), [0, 769, 242, 703, 259]);
    }

    /// Lines a page apart share sets, in every slice.
    #[test]
    fn slices_spread_lines_and_their_sets_do_not() {
        let sets_of = |spread| {
            let sets = Sets::new(64 * 8 * 4, 4, spread);
            assert_eq!(sets.empty.len(), 64 * 8);
            let mut found: Vec<u32> = (0..1000).map(|page| sets.set(page * 64)).collect();
            found.sort_unstable();
            found.dedup();
            found
        };
        assert_eq!(sets_of(Spread::Plain), [0, 64, 128, 192, 256, 320, 384, 448]);
        assert_eq!(sets_of(Spread::Sliced(8)), [0, 64, 128, 192, 256, 320, 384, 448]);
        assert_eq!(sets_of(Spread::Sliced(64)), (0..64).map(|slice| slice * 8).collect::<Vec<_>>());
        // Consecutive lines are spread evenly.
        let (sets, mut lines) = (Sets::new(64 * 24 * 4, 4, Spread::Sliced(24)), [0; 24]);
        (0..24_000).for_each(|line| lines[(sets.set(line) / 64) as usize] += 1);
        assert!(lines.iter().all(|n| (900..1100).contains(n)), "{lines:?}");
    }

    /// Sets with more ways than the mask of empty ones has bits.
    #[test]
    fn many_ways_are_filled_before_any_is_emptied() {
        let mut sets = Sets::new(40, 40, Spread::Plain);
        for line in 0..40 {
            let (way, gone) = sets.victim(line, WayMask::ALL, |_| false);
            assert_eq!((way, gone), (line, None));
            sets.fill(line, way);
        }
        assert_eq!(sets.victim(40, WayMask::ALL, |_| false), (0, Some(0)));
    }
}
