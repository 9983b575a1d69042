//! Where the items of a shard are found: a table of cache lines, each with up to ten slots and a part of their hashes, so that a lookup
//! reads one line of it.
//!
//! A slot is in the line that its hash names, its home, or in the first line behind that with a place. Each line counts the slots that found
//! it full: a search goes on behind it only while there are some, and nothing is left in the place of a slot that was removed (Bronson and
//! Shi, F14, 2019).

/// Slots of a line.
const PLACES: usize = 10;
/// Slots of a line on average at most: then one of ten lines has slots behind it.
const LOAD: usize = 7;

/// A line. Place `i` has the slot `ids[i]` with a hash of `tags[i]`, which is 0 where there is none.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(super) struct Line {
    tags: [u16; PLACES],
    ids: [u32; PLACES],
    /// Slots that are in lines behind this one because it was full when they passed it.
    passed: u32,
}

const _: () = assert!(size_of::<Line>() == 64);

impl Line {
    const EMPTY: Line = Line { tags: [0; PLACES], ids: [0; PLACES], passed: 0 };

    /// The places with this tag, as bits.
    #[inline]
    fn places(&self, tag: u16) -> u32 {
        self.tags.iter().enumerate().fold(0, |bits, (i, other)| bits | u32::from(*other == tag) << i)
    }

    /// The slots that may have this tag.
    #[inline]
    fn tagged(&self, tag: u16) -> impl Iterator<Item = (usize, u32)> {
        let mut bits = self.places(tag);
        std::iter::from_fn(move || {
            let place = bits.trailing_zeros() as usize;
            let id = *self.ids.get(place)?;
            bits &= bits - 1;
            Some((place, id))
        })
    }
}

/// A table. The number of its lines is a power of two.
#[derive(Debug)]
struct Table {
    lines: Vec<Line>,
    len: usize,
}

/// A table of twice the size, which takes the place of one that is full. Each insertion makes some of its lines, as long as some are
/// missing, then moves the slots of some lines of the other one.
#[derive(Debug)]
struct Growth {
    larger: Table,
    /// Lines of the other one whose slots are here.
    moved: usize,
}

/// Lines that an insertion makes, and lines whose slots it moves. Until all are moved, the full table gets fuller by a few of a hundred.
const MADE: usize = 64;
const MOVED: usize = 2;

/// The table of a shard, and while it grows the one that takes its place.
#[derive(Debug)]
pub(super) struct Index {
    table: Table,
    growth: Option<Growth>,
}

/// The part of a hash that a line keeps: not the one that chooses the line, and never 0.
fn tag(hash: u64) -> u16 {
    ((hash >> 48) as u16).max(1)
}

impl Table {
    /// The line in which the search for a hash begins. Other bits of it are its tag.
    #[inline]
    fn home(&self, hash: u64) -> usize {
        (hash >> 16) as usize & (self.lines.len() - 1)
    }

    /// The lines from the home of a hash on, each once.
    #[inline]
    fn probes(&self, hash: u64) -> impl Iterator<Item = usize> + use<> {
        let (home, mask) = (self.home(hash), self.lines.len() - 1);
        (0..=mask).map(move |distance| (home + distance) & mask)
    }

    /// The slot of this hash that is the wanted one, and the number of lines that the search has read.
    #[inline]
    fn find(&self, hash: u64, is_it: &impl Fn(u32) -> bool) -> (Option<u32>, usize) {
        for (before, at) in self.probes(hash).enumerate() {
            let line = &self.lines[at];
            let found = line.tagged(tag(hash)).find(|(_, id)| is_it(*id));
            if found.is_some() || line.passed == 0 {
                return (found.map(|(_, id)| id), before + 1);
            }
        }
        (None, self.lines.len())
    }

    fn capacity(&self) -> usize {
        self.lines.len() * LOAD
    }

    /// There is room.
    fn put(&mut self, hash: u64, id: u32) {
        for at in self.probes(hash) {
            let line = &mut self.lines[at];
            if let Some(place) = line.tags.iter().position(|tag| *tag == 0) {
                (line.tags[place], line.ids[place]) = (tag(hash), id);
                self.len += 1;
                return;
            }
            line.passed += 1;
        }
    }

    /// Takes a slot out; true if it was in it.
    fn remove(&mut self, hash: u64, id: u32) -> bool {
        let (mut passed, mut found) = (0, None);
        for at in self.probes(hash) {
            let line = &self.lines[at];
            found = line.tagged(tag(hash)).find(|(_, other)| *other == id).map(|(place, _)| (at, place));
            if found.is_some() || line.passed == 0 {
                break;
            }
            passed += 1;
        }
        let Some((at, place)) = found else { return false };
        self.lines[at].tags[place] = 0;
        self.len -= 1;
        for before in self.probes(hash).take(passed) {
            self.lines[before].passed -= 1;
        }
        true
    }
}

impl Index {
    /// An index that need not grow for so many slots.
    pub(super) fn with_capacity(slots: usize) -> Index {
        let lines = vec![Line::EMPTY; slots.div_ceil(LOAD).next_power_of_two()];
        Index { table: Table { lines, len: 0 }, growth: None }
    }

    /// Slots in it.
    pub(super) fn len(&self) -> usize {
        self.table.len + self.growth.as_ref().map_or(0, |growth| growth.larger.len)
    }

    /// Slots that it has room for before it grows, or grows again.
    pub(super) fn capacity(&self) -> usize {
        self.table.capacity() * if self.growth.is_some() { 2 } else { 1 }
    }

    /// Its memory.
    pub(super) fn bytes(&self) -> usize {
        let larger = self.growth.as_ref().map_or(0, |growth| growth.larger.lines.len());
        (self.table.lines.len() + larger) * size_of::<Line>()
    }

    /// The line that a search for this hash reads first.
    #[inline]
    pub(super) fn line(&self, hash: u64) -> &Line {
        &self.table.lines[self.table.home(hash)]
    }

    /// The slot of this hash that is the wanted one, and the number of lines that the search has read.
    #[inline]
    pub(super) fn find(&self, hash: u64, is_it: impl Fn(u32) -> bool) -> (Option<u32>, usize) {
        let found = self.table.find(hash, &is_it);
        match &self.growth {
            Some(growth) if found.0.is_none() && growth.moved > 0 => {
                let (id, lines) = growth.larger.find(hash, &is_it);
                (id, found.1 + lines)
            }
            _ => found,
        }
    }

    /// Adds a slot that is not in it. `hash_of` tells the hashes of others when it grows.
    pub(super) fn insert(&mut self, hash: u64, id: u32, hash_of: impl Fn(u32) -> u64) {
        if self.growth.is_some() || self.table.len == self.table.capacity() {
            self.grow(hash_of);
        }
        match &mut self.growth {
            Some(growth) if growth.moved > 0 => growth.larger.put(hash, id),
            _ => self.table.put(hash, id),
        }
    }

    /// Grows by a step. Growing all at once would take the shard seconds when it is large.
    #[cold]
    fn grow(&mut self, hash_of: impl Fn(u32) -> u64) {
        let lines = self.table.lines.len();
        let table = &mut self.table;
        let new = || Growth { larger: Table { lines: Vec::with_capacity(2 * lines), len: 0 }, moved: 0 };
        let Growth { larger, moved } = self.growth.get_or_insert_with(new);
        if larger.lines.len() < 2 * lines {
            larger.lines.resize((larger.lines.len() + MADE).min(2 * lines), Line::EMPTY);
            return;
        }
        for at in *moved..lines.min(*moved + MOVED) {
            let line = table.lines[at];
            for (_, id) in line.tags.iter().zip(line.ids).filter(|(tag, _)| **tag != 0) {
                let hash = hash_of(id);
                table.remove(hash, id);
                larger.put(hash, id);
            }
            *moved += 1;
        }
        if *moved == lines
            && let Some(growth) = self.growth.take()
        {
            self.table = growth.larger;
        }
    }

    /// Takes a slot out, if it is in it.
    pub(super) fn remove(&mut self, hash: u64, id: u32) {
        if !self.table.remove(hash, id)
            && let Some(growth) = self.growth.as_mut().filter(|growth| growth.moved > 0)
        {
            growth.larger.remove(hash, id);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    /// An index and a map, with hashes of so many different homes and tags.
    fn against_a_map(homes: u64, tags: u64, steps: u32) {
        let hash_of = |id: u32| {
            let mixed = u64::from(id).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23);
            (mixed % homes) << 16 | (mixed / homes % tags) << 48
        };
        let (mut index, mut map) = (Index::with_capacity(0), HashMap::new());
        let mut random = 1_u64;
        for step in 0..steps {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let id = (random >> 33) as u32 % 2000;
            // It fills, then empties.
            let adds = (random >> 20) % 8 < if step < steps / 2 { 5 } else { 3 };
            if adds && map.insert(id, ()).is_none() {
                index.insert(hash_of(id), id, hash_of);
            } else if !adds {
                map.remove(&id);
                index.remove(hash_of(id), id);
            }
            let asked = (random >> 40) as u32 % 2000;
            assert_eq!(index.find(hash_of(asked), |id| id == asked).0.is_some(), map.contains_key(&asked));
            assert_eq!(index.len(), map.len());
        }
        for id in 0..2000 {
            assert_eq!(index.find(hash_of(id), |found| found == id).0.is_some(), map.contains_key(&id));
            index.remove(hash_of(id), id);
        }
        assert_eq!(index.len(), 0);
        let tables = std::iter::once(&index.table).chain(index.growth.as_ref().map(|growth| &growth.larger));
        assert!(
            tables.flat_map(|table| &table.lines).all(|line| line.passed == 0 && line.tags == [0; PLACES]),
            "nothing is left"
        );
    }

    #[test]
    fn it_is_a_map() {
        against_a_map(u64::MAX >> 40, 1 << 16, 60_000);
        against_a_map(3, 1 << 16, 20_000);
        against_a_map(1, 1, 5000);
    }

    #[test]
    fn it_grows_when_it_is_full_and_not_before() {
        let mut index = Index::with_capacity(56);
        assert_eq!((index.capacity(), index.bytes()), (56, 8 * 64));
        (0..56).for_each(|id| index.insert(u64::from(id) << 16, id, |_| 0));
        assert_eq!((index.len(), index.capacity()), (56, 56));
        index.insert(56 << 16, 56, |id| u64::from(id) << 16);
        assert_eq!((index.len(), index.capacity()), (57, 112));
        assert!((0..57).all(|id| index.find(u64::from(id) << 16, |found| found == id).0 == Some(id)));
    }
    #[test]
    fn it_grows_in_steps() {
        let hash_of = |id: u32| u64::from(id).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut index = Index::with_capacity(1 << 16);
        let first = index.capacity() as u32;
        let asked = std::cell::Cell::new(0);
        for id in 0..3 * first {
            asked.set(0);
            index.insert(hash_of(id), id, |id| {
                asked.set(asked.get() + 1);
                hash_of(id)
            });
            assert!(asked.get() <= 20, "an insertion moves few");
            for other in [id, id / 2, id / 3 * 2] {
                assert_eq!(index.find(hash_of(other), |found| found == other).0, Some(other));
            }
            if id % 5 == 0 {
                index.remove(hash_of(id / 2), id / 2);
                assert_eq!(index.find(hash_of(id / 2), |found| found == id / 2).0, None);
                index.insert(hash_of(id / 2), id / 2, hash_of);
            }
        }
        assert!(index.growth.is_none() && index.len() == 3 * first as usize);
        assert_eq!(index.capacity(), 4 * first as usize);
    }
}
