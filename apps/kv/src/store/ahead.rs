//! The cache misses of a burst of requests, all at once.
//!
//! In a store that is larger than the caches, an item is three misses, each of which needs what the one before has brought: its place in
//! the index, its slot, its bytes. Requests that wait together are independent of each other, so each step is taken for all of them before
//! the next one (group prefetching: Chen et al., ICDE 2004; MICA, NSDI 2014). Then they are executed, one after another, by code that knows
//! nothing of this. What is requested here is a hint: an item that another key's hash resembles, or that is gone meanwhile, costs time only.

#[cfg(feature = "server")]
pub(super) use ccnic_shm::prefetch;

use super::shard::Shard;
use super::slot::{KEPT, Slot};
use super::{Place, Session};

/// Requests of a step: their lines fit into the first-level cache together.
pub const GROUP: usize = 32;

/// Bytes of an item that are requested. The processor itself goes on with a longer one.
const MOST: usize = 512;

#[cfg(not(feature = "server"))]
pub(super) fn prefetch<T: ?Sized>(_: &T) {}

impl Session<'_> {
    /// Requests what commands for keys of these places will read. Changes the order of `places`: each shard is held once.
    pub fn fetch_ahead(&mut self, places: &mut [Place]) {
        if self.store.shards() > 1 {
            places.sort_unstable_by_key(Place::shard);
        }
        for same in places.chunk_by(|a, b| a.shard == b.shard) {
            for group in same.chunks(GROUP) {
                self.shard(group[0]).fetch_ahead(group);
            }
        }
    }
}

impl Shard {
    /// At most [`GROUP`] places, all of this shard.
    fn fetch_ahead(&self, places: &[Place]) {
        let (index, slots) = self.looked_up();
        places.iter().for_each(|place| prefetch(index.line(place.hash)));
        let mut found: [Option<&Slot>; GROUP] = [None; GROUP];
        for (slot, place) in found.iter_mut().zip(places) {
            // The first slot of this tag: nearly always the one of the key, if there is one.
            *slot = index.find(place.hash, |_| true).0.and_then(|id| slots.get(id as usize));
            slot.inspect(|slot| prefetch(*slot));
        }
        let mut kept = 0;
        for slot in found.into_iter().flatten() {
            let Some(bytes) = slot.body.as_deref() else { continue };
            prefetch(&bytes[..bytes.len().min(MOST)]);
            kept += u32::from(slot.has(KEPT));
        }
        if kept > 0 {
            let numbers = found.into_iter().flatten().filter_map(Slot::kept);
            numbers.for_each(|number| self.kept.prefetch(number));
        }
    }
}
