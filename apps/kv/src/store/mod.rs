//! The store: shards, each owned by the thread whose keys it holds, and sessions, through which threads use them.
//!
//! | file | contents |
//! |---|---|
//! | `slot.rs` | one item |
//! | `place.rs` | the shard of a key, and its hash there |
//! | `index.rs` | where items are found |
//! | `shard.rs` | index, LRU list, memory, expiry |
//! | `kept.rs` | values in memory that a NIC reads |
//! | `operations.rs` | what commands do to an item |
//! | `ahead.rs` | the cache misses of a burst of requests, all at once |
//! | `classes.rs`, `stats.rs` | what it tells about itself |
//! | `work.rs` | what a turn costs |
//! | `snapshot.rs` | the store as a file |

mod ahead;
mod classes;
mod index;
pub mod kept;
mod operations;
mod place;
pub(crate) mod shard;
pub(crate) mod slot;
pub mod snapshot;
pub mod stats;
pub(crate) mod work;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

pub use ahead::GROUP;
pub(crate) use classes::{SIZES, class, per_page};
pub use operations::{Counted, Decimal, Delta, Mode, Stored, Update};
use place::Secret;
pub use place::{Place, shard_hash};
use shard::Shard;
pub use slot::{Content, Value};
use stats::Totals;
pub use work::TURN;

/// The longest key.
pub const MAX_KEY: usize = 250;
/// The largest item that a store can be set up for.
pub const LARGEST_ITEM: usize = 1 << 30;

/// As memcached: what is longer than 30 days is a time, not a span.
const LONGEST_SPAN: i64 = 60 * 60 * 24 * 30;

/// How many items an index has room for at first, at most: it grows, but each growth takes its shard's thread some time.
const INDEX_AT_FIRST: usize = 1 << 22;

/// What a store is bounded by.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Bytes of memory for items.
    pub memory: usize,
    /// The largest item, key and value and memcached's header of 56 bytes together.
    pub item: usize,
    /// Items give way when memory is used up; otherwise storing fails.
    pub evict: bool,
    /// Items have CAS ids.
    pub cas: bool,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { memory: 64 << 20, item: 1 << 20, evict: true, cas: true }
    }
}

/// All items, shared by the threads of a server.
#[derive(Debug)]
pub struct Store {
    shards: Box<[Mutex<Shard>]>,
    secret: Secret,
    largest: usize,
    cas: bool,
    /// Values that are still arriving, in bytes, beside the shards' memory.
    arriving: AtomicUsize,
    memory: AtomicUsize,
    started: AtomicU32,
}

impl Store {
    /// An empty store of that many shards. `now` is the Unix time.
    pub fn new(shards: usize, limits: &Limits, now: u32) -> Store {
        let shards = shards.max(1);
        let memory = limits.memory / shards;
        let items = (memory / 256).min(INDEX_AT_FIRST / shards);
        let shard = |number| Mutex::new(Shard::new(number, shards, memory, items, limits));
        Store {
            shards: (0..shards).map(shard).collect(),
            secret: Secret::default(),
            largest: limits.item,
            cas: limits.cas,
            arriving: AtomicUsize::new(0),
            memory: AtomicUsize::new(limits.memory),
            started: AtomicU32::new(now),
        }
    }

    /// How many shards there are.
    pub fn shards(&self) -> usize {
        self.shards.len()
    }

    /// The limit on an item's size.
    pub fn largest(&self) -> usize {
        self.largest
    }

    /// The limit on memory.
    pub fn memory(&self) -> usize {
        self.memory.load(Ordering::Relaxed)
    }

    /// Begins a burst of requests at this Unix time.
    pub fn session(&self, now: u32) -> Session<'_> {
        Session { store: self, held: None, spent: 0, now }
    }

    fn lock(&self, number: usize) -> MutexGuard<'_, Shard> {
        self.shards[number].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Memory for a value that is still arriving: at most as much as a half of the store's, so that clients that send slowly cannot take
    /// more than that. Give it back.
    pub(crate) fn reserve(&self, bytes: usize) -> bool {
        let limit = (self.memory() / 2).max(2 * self.largest);
        let add = |used: usize| used.checked_add(bytes).filter(|sum| *sum <= limit);
        self.arriving.try_update(Ordering::Relaxed, Ordering::Relaxed, add).is_ok()
    }

    pub(crate) fn give_back(&self, bytes: usize) {
        self.arriving.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// One thread's use of a store during a burst of requests. It holds the shard that was used last, so that requests for the same shard
/// take one lock together; it never holds two, so threads that use each other's shards wait for no more than a burst.
#[derive(Debug)]
pub struct Session<'a> {
    store: &'a Store,
    held: Option<(usize, MutexGuard<'a, Shard>)>,
    /// Work that shards have done which are not held any more.
    spent: usize,
    /// Unix time of the burst.
    pub(crate) now: u32,
}

impl<'a> Session<'a> {
    /// The store.
    pub fn store(&self) -> &'a Store {
        self.store
    }

    /// The place of a key.
    pub(crate) fn place(&self, key: &[u8]) -> Place {
        self.store.place(key)
    }

    /// The shard of a place, held until another one is asked for or the session ends.
    pub(crate) fn shard(&mut self, place: Place) -> &mut Shard {
        self.numbered(place.shard)
    }

    /// Lets go of the shard: others may use it.
    pub fn release(&mut self) {
        self.spent = self.spent();
        self.held = None;
    }

    /// The work that this session has done so far: `work.rs`.
    pub(crate) fn spent(&self) -> usize {
        self.spent + self.held.as_ref().map_or(0, |(_, shard)| shard.work)
    }

    /// Counts work that no shard has counted.
    pub(crate) fn charge(&mut self, work: usize) {
        self.spent += work;
    }

    fn numbered(&mut self, number: usize) -> &mut Shard {
        if self.held.as_ref().is_none_or(|(held, _)| *held != number) {
            self.release();
        }
        let lock = || {
            let mut shard = self.store.lock(number);
            shard.work = 0;
            (number, shard)
        };
        &mut self.held.get_or_insert_with(lock).1
    }

    /// A shard whose counters are told, reset or changed.
    fn counted(&mut self, number: usize) -> &mut Shard {
        self.charge(work::SHARD);
        self.numbered(number)
    }

    /// When something expires, of what a client says: 0 never, negative at once, up to 30 days a span, beyond that a Unix time.
    /// None: a time that 32 bits without a sign do not hold.
    pub(crate) fn expiry(&self, said: i64) -> Option<u32> {
        Some(match said {
            0 => 0,
            ..0 => 1,
            span @ ..=LONGEST_SPAN => self.now.saturating_add(span as u32),
            time if time <= i64::from(self.store.started.load(Ordering::Relaxed)) => 1,
            time => time.try_into().ok()?,
        })
    }

    /// The value of a key: what a get answers.
    pub fn get(&mut self, key: &[u8]) -> Option<Value> {
        let (place, now) = (self.place(key), self.now);
        let shard = self.shard(place);
        let id = shard.read(place.hash, key, now)?;
        shard.share(id)
    }

    /// Stores a value, as its mode allows it.
    pub fn update(&mut self, update: &Update<'_>) -> Stored {
        self.update_at(self.place(update.key), update)
    }

    /// As [`Session::update`], where the key's place is known.
    pub(crate) fn update_at(&mut self, place: Place, update: &Update<'_>) -> Stored {
        while !self.make_room(place, update, update.value.len(), work::TURN) {
            self.release();
        }
        let (now, largest) = (self.now, self.store.largest);
        self.shard(place).update(place.hash, update, largest, now)
    }

    /// Makes room for a long value, until so much work is done; false: call it again. What is short takes few items away when it is stored.
    pub(crate) fn make_room(&mut self, place: Place, update: &Update<'_>, len: usize, work: usize) -> bool {
        let now = self.now;
        self.shard(place).prepare(place.hash, update, len, now, work)
    }

    /// Deletes; true if there was something.
    pub fn delete(&mut self, key: &[u8]) -> bool {
        let (place, now) = (self.place(key), self.now);
        let shard = self.shard(place);
        let found = shard.find(place.hash, key, now);
        if let Some(id) = found {
            shard.counters_of(id).delete_hits += 1;
            shard.remove(id);
        } else {
            shard.counters.delete_misses += 1;
        }
        found.is_some()
    }

    /// True if an item of this size can be stored at all.
    pub fn fits(&self, key: usize, flags: u32, value: usize) -> bool {
        value <= self.store.largest && slot::total(self.store.cas, key, flags, value) <= self.store.largest
    }

    /// Counts a `flush_all`, whatever comes of it.
    pub(crate) fn count_flush(&mut self) {
        self.numbered(0).counters.cmd_flush += 1;
    }

    /// Counts a set whose data cannot be stored.
    pub(crate) fn count_set(&mut self, key: &[u8], flags: u32, value: usize) {
        let class = class(slot::total(self.store.cas, key.len(), flags, value));
        self.shard(self.place(key)).class_counters(class).cmd_set += 1;
    }

    /// Counts items by their size from now on, or no longer.
    pub(crate) fn track_sizes(&mut self, on: bool) {
        for number in 0..self.store.shards() {
            self.counted(number).track_sizes(on);
        }
    }

    /// Numbers of items of each size, by steps of [`stats::SIZE_STEP`], rounded up: of the sizes from the step `from` on, at most
    /// `most`. None: nobody has asked to count them.
    pub(crate) fn sizes(&mut self, from: usize, most: usize) -> Option<BTreeMap<usize, u64>> {
        let mut all = BTreeMap::new();
        for number in 0..self.store.shards() {
            self.charge(most * work::LOOK);
            let sizes = self.numbered(number).sizes.as_ref()?;
            sizes.from(from).take(most).for_each(|(step, count)| *all.entry(step).or_default() += count);
        }
        if let Some((beyond, _)) = all.iter().nth(most) {
            let beyond = *beyond;
            all.split_off(&beyond);
        }
        Some(all)
    }

    /// True when they are counted.
    pub(crate) fn tracks_sizes(&mut self) -> bool {
        self.counted(0).sizes.is_some()
    }

    /// What is there at the second `at` is gone from then on.
    pub(crate) fn flush(&mut self, at: u32) {
        for number in 0..self.store.shards() {
            let now = self.now;
            let shard = self.counted(number);
            shard.flush(at, now);
        }
    }

    /// Looks at `count` slots of a shard, and frees what is over: a few hundred at a time, some thousands a second.
    pub fn sweep(&mut self, shard: usize, count: usize) {
        let now = self.now;
        self.numbered(shard).sweep(count, now, shard::Cause::Time);
    }

    /// Another limit on memory; what is beyond it is evicted, until so much work is done. False: call it again.
    pub(crate) fn set_memory(&mut self, bytes: usize, work: usize) -> bool {
        self.store.memory.store(bytes, Ordering::Relaxed);
        let most = self.spent().saturating_add(work);
        for number in 0..self.store.shards() {
            let (now, share) = (self.now, bytes / self.store.shards());
            let left = most.saturating_sub(self.spent());
            if !self.numbered(number).set_limit(share, now, left) {
                return false;
            }
        }
        true
    }

    /// What all shards tell together.
    pub fn totals(&mut self) -> Totals {
        let mut totals = Totals::new();
        for number in 0..self.store.shards() {
            let now = self.now;
            self.counted(number).add_to(&mut totals, now);
        }
        totals
    }

    pub(crate) fn reset_counters(&mut self) {
        for number in 0..self.store.shards() {
            self.counted(number).reset_counters();
        }
    }

    /// Panics when a shard has lost count of something: for tests and fuzzing.
    #[doc(hidden)]
    pub fn check(&mut self) {
        for number in 0..self.store.shards() {
            self.numbered(number).check();
        }
    }
}

impl Shard {
    /// Finds an item for a get, counts and marks it.
    pub(crate) fn read(&mut self, hash: u64, key: &[u8], now: u32) -> Option<u32> {
        Some(self.read_again(hash, key, now)?.0)
    }

    /// As [`Shard::read`], and whether it was read before since it was stored.
    pub(crate) fn read_again(&mut self, hash: u64, key: &[u8], now: u32) -> Option<(u32, bool)> {
        let found = self.find(hash, key, now);
        self.counters.cmd_get += 1;
        let Some(id) = found else {
            self.counters.get_misses += 1;
            return None;
        };
        let again = self.slot(id).has(slot::FETCHED);
        self.counters_of(id).get_hits += 1;
        self.bump(id, now);
        Some((id, again))
    }
}

#[cfg(test)]
mod tests;
