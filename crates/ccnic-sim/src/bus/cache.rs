//! A direct-mapped cache: tags and states. An invalid block keeps its tag, so that it can be snarfed.

use crate::protocols::snooping::State;

/// Which set a block belongs to.
#[derive(Debug, Clone)]
enum Indexing {
    /// As in any direct-mapped cache.
    Modulo,
    /// Only some blocks are cached, those of each region in sets of their own.
    Regions(Vec<Region>),
}

/// Blocks that share sets.
#[derive(Debug, Clone, Copy)]
pub struct Region {
    /// The first block.
    pub first: u32,
    /// How many there are.
    pub blocks: u32,
    /// How many of them the cache holds at a time.
    pub sets: u32,
}

/// A cache.
#[derive(Debug, Clone)]
pub struct Cache {
    indexing: Indexing,
    entries: Vec<(u32, State)>,
}

/// No block has this number.
const NONE: u32 = u32::MAX;

impl Cache {
    /// A cache of so many blocks.
    pub fn new(blocks: u32) -> Cache {
        Cache { indexing: Indexing::Modulo, entries: vec![(NONE, State::Invalid); blocks as usize] }
    }

    /// A cache of a device, which holds blocks of its queues only.
    pub fn of_regions(regions: &[Region]) -> Cache {
        let sets: u32 = regions.iter().map(|r| r.sets).sum();
        Cache {
            indexing: Indexing::Regions(regions.to_vec()),
            entries: vec![(NONE, State::Invalid); sets as usize],
        }
    }

    /// The block's set; none if it is not to be cached.
    #[inline]
    fn set(&self, block: u32) -> Option<usize> {
        match &self.indexing {
            Indexing::Modulo => Some(block as usize % self.entries.len()),
            Indexing::Regions(regions) => {
                let mut base = 0;
                for region in regions {
                    if (region.first..region.first + region.blocks).contains(&block) {
                        return Some((base + (block - region.first) % region.sets) as usize);
                    }
                    base += region.sets;
                }
                None
            }
        }
    }

    /// The block's state.
    #[inline]
    pub fn state(&self, block: u32) -> State {
        match self.set(block).map(|set| self.entries[set]) {
            Some((tag, state)) if tag == block => state,
            _ => State::Invalid,
        }
    }

    /// The block's tag is there, whatever its state.
    pub fn has_tag(&self, block: u32) -> bool {
        self.set(block).is_some_and(|set| self.entries[set].0 == block)
    }

    /// Changes the state of a block whose tag is there.
    #[inline]
    pub fn change(&mut self, block: u32, state: State) {
        if let Some(set) = self.set(block)
            && self.entries[set].0 == block
        {
            self.entries[set].1 = state;
        }
    }

    /// The block that has to leave before `block` can be put in, if it has to be written back.
    pub fn victim(&self, block: u32) -> Option<u32> {
        let (tag, state) = self.entries[self.set(block)?];
        (tag != block && state.owns()).then_some(tag)
    }

    /// Puts a block in; what was in its place is gone.
    pub fn install(&mut self, block: u32, state: State) {
        if let Some(set) = self.set(block) {
            self.entries[set] = (block, state);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_one_set_replace_each_other() {
        let mut cache = Cache::new(16);
        cache.install(3, State::Modified);
        assert_eq!((cache.state(3), cache.state(19)), (State::Modified, State::Invalid));
        assert_eq!((cache.victim(19), cache.victim(3), cache.victim(4)), (Some(3), None, None));
        cache.install(19, State::Shared);
        assert_eq!((cache.state(3), cache.state(19)), (State::Invalid, State::Shared));
        cache.change(19, State::Invalid);
        assert!(cache.has_tag(19) && !cache.has_tag(3) && cache.state(19) == State::Invalid);
    }

    #[test]
    fn regions_have_sets_of_their_own() {
        let region = |first, blocks, sets| Region { first, blocks, sets };
        let mut cache = Cache::of_regions(&[region(100, 64, 4), region(200, 8, 8)]);
        cache.install(100, State::Owned);
        cache.install(200, State::Owned);
        cache.install(500, State::Owned);
        assert_eq!((cache.victim(104), cache.victim(208), cache.victim(101)), (Some(100), None, None));
        assert_eq!((cache.state(200), cache.state(500)), (State::Owned, State::Invalid));
    }
}
