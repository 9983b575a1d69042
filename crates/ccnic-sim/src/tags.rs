//! A set-associative store of line numbers with least-recently-used replacement: what every cache is here.
//!
//! Caches hold no data, since a line has one value at any time (there is one writer): the bytes lie once, in the world's memory.
//!
//! Where a line stands is looked up by its number, not by a search of its set: lines that are used together lie together
//! there, while their sets are far apart in this machine's memory.

/// Where a line stands in a [`Tags`].
pub type Slot = u32;

/// What a cache knows of a line, in three bits.
pub trait Packed: Copy + Default {
    /// As a number below eight.
    fn pack(self) -> u16;
    /// Back again.
    fn unpack(bits: u16) -> Self;
}

impl Packed for () {
    fn pack(self) -> u16 {
        0
    }

    fn unpack(_: u16) {}
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

/// Tags, states and ages of a cache.
#[derive(Debug)]
pub struct Tags<S> {
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
    /// For each page from `base` on, what is known of its lines: a core uses a small part of a large memory.
    index: Vec<Option<Box<[u16; PAGE]>>>,
    base: u32,
    clock: u32,
    states: std::marker::PhantomData<S>,
}

impl<S: Packed> Tags<S> {
    /// A cache of `lines` lines in sets of `ways`. A hashed one spreads lines over its sets, as a sliced last-level cache does.
    pub fn new(lines: u32, ways: u32, hashed: bool) -> Tags<S> {
        let ways = ways.min(WAYS_MAX);
        let sets = (lines / ways).max(1);
        let n = (sets * ways) as usize;
        Tags {
            ways,
            sets,
            mask: if sets.is_power_of_two() { sets - 1 } else { 0 },
            hashed,
            tags: vec![0; n],
            ages: vec![0; n],
            empty: vec![if ways < u32::BITS { (1 << ways) - 1 } else { 0 }; sets as usize],
            index: Vec::new(),
            base: 0,
            clock: 0,
            states: std::marker::PhantomData,
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
    fn slot(&self, set: u32, way: u32) -> Slot {
        way * self.sets + set
    }

    #[inline]
    fn entry(&self, line: u32) -> u16 {
        match self.index.get((line / PAGE as u32).wrapping_sub(self.base) as usize) {
            Some(Some(page)) => page[line as usize % PAGE],
            _ => 0,
        }
    }

    fn entry_mut(&mut self, line: u32) -> &mut u16 {
        let page = line / PAGE as u32;
        if self.index.is_empty() {
            self.base = page;
        } else if page < self.base {
            self.index.splice(0..0, (page..self.base).map(|_| None));
            self.base = page;
        }
        let page = (page - self.base) as usize;
        if self.index.len() <= page {
            self.index.resize(page + 1, None);
        }
        &mut self.index[page].get_or_insert_with(|| Box::new([0; PAGE]))[line as usize % PAGE]
    }

    /// Where the line stands, if it is here, and its state.
    #[inline]
    pub fn get(&self, line: u32) -> Option<(Slot, S)> {
        let entry = self.entry(line);
        let way = u32::from(entry >> STATE).checked_sub(1)?;
        Some((self.slot(self.set(line), way), S::unpack(entry & STATE_MASK)))
    }

    /// Where the line stands, if it is here.
    #[inline]
    pub fn find(&self, line: u32) -> Option<Slot> {
        self.get(line).map(|(slot, _)| slot)
    }

    /// Marks a line as used just now.
    #[inline]
    pub fn touch(&mut self, slot: Slot) {
        self.clock = self.clock.wrapping_add(1);
        self.ages[slot as usize] = self.clock;
    }

    /// Sets the state of a line, if it is here; says where it stands.
    #[inline]
    pub fn set_state(&mut self, line: u32, state: S) -> Option<Slot> {
        let slot = self.find(line)?;
        let entry = self.entry_mut(line);
        *entry = *entry & !STATE_MASK | state.pack();
        Some(slot)
    }

    /// Takes a line out.
    pub fn remove(&mut self, line: u32) -> Option<S> {
        let entry = self.entry(line);
        let way = u32::from(entry >> STATE).checked_sub(1)?;
        *self.entry_mut(line) = 0;
        let set = self.set(line);
        let slot = self.slot(set, way);
        self.tags[slot as usize] = 0;
        if self.ways < u32::BITS {
            self.empty[set as usize] |= 1 << way;
        }
        Some(S::unpack(entry & STATE_MASK))
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
        let (set, ways) = (self.set(line), ways.min(self.ways));
        let empty = self.empty[set as usize].trailing_zeros();
        if empty < ways {
            self.stand(line, state, set, empty);
            return (self.slot(set, empty), None);
        }
        let tag = |way: &u32| self.tags[self.slot(set, *way) as usize];
        let age = |way: &u32| self.clock.wrapping_sub(self.ages[self.slot(set, *way) as usize]);
        let victim = (0..ways)
            .find(|way| tag(way) == 0)
            .or_else(|| (0..ways).filter(|way| !keep(tag(way) - 1)).max_by_key(age))
            .or_else(|| (0..ways).max_by_key(age))
            .unwrap_or(0);
        let gone = tag(&victim).checked_sub(1);
        let gone = gone.and_then(|line| Some((line, self.remove(line)?)));
        self.stand(line, state, set, victim);
        (self.slot(set, victim), gone)
    }

    /// Puts a line in an empty place.
    #[inline]
    fn stand(&mut self, line: u32, state: S, set: u32, way: u32) {
        let slot = self.slot(set, way);
        self.tags[slot as usize] = line + 1;
        if self.ways < u32::BITS {
            self.empty[set as usize] &= !(1 << way);
        }
        *self.entry_mut(line) = ((way + 1) as u16) << STATE | state.pack();
        self.touch(slot);
    }

    /// Ways of a set.
    pub fn ways(&self) -> u32 {
        self.ways
    }

    /// Every line that is here, and its state.
    pub fn iter(&self) -> impl Iterator<Item = (u32, S)> + '_ {
        self.tags.iter().filter_map(|tag| {
            let line = tag.checked_sub(1)?;
            Some((line, self.get(line)?.1))
        })
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
        let mut t: Tags<()> = Tags::new(16, 8, false);
        for line in (0..20).step_by(2) {
            t.insert(line, (), 2, |_| false);
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
}
