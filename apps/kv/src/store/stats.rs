//! What a shard counts. The names are memcached's.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::classes::CLASSES;

macro_rules! counters {
    ($(#[$what:meta])* $type:ident: $($name:ident)*) => {
        $(#[$what])*
        #[derive(Clone, Copy, Debug, Default)]
        #[allow(missing_docs, reason = "each is the statistic of its name in memcached's documentation")]
        pub struct $type {
            $(pub $name: u64,)*
        }

        impl $type {
            /// Every counter with its name.
            pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name),)*].into_iter()
            }

            fn add(&mut self, other: &$type) {
                $(self.$name += other.$name;)*
            }
        }
    };
}

counters! {
    /// Counters of one shard, or their sum.
    Counters: cmd_get cmd_flush cmd_touch cmd_meta get_misses get_expired get_flushed delete_misses incr_misses decr_misses cas_misses
    touch_misses store_too_large store_no_memory total_items
}

counters! {
    /// What each class of sizes counts by itself: what happened to its items.
    ClassCounters: get_hits cmd_set delete_hits incr_hits decr_hits cas_hits cas_badval touch_hits evicted evicted_nonzero outofmemory
    reclaimed expired_unfetched evicted_unfetched evicted_active crawler_reclaimed crawler_items_checked moves_within_lru direct_reclaims
}

/// What `stats items` and `stats slabs` tell of one class.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClassTotals {
    /// Items there are.
    pub items: u64,
    /// Their bytes as memcached counts them.
    pub bytes: u64,
    /// There has been one, now or before.
    pub used: bool,
    /// What happened to them.
    pub counters: ClassCounters,
    /// When the last one was evicted, Unix time; 0: none was.
    pub evicted_at: u32,
    /// For how many seconds that one had not been used.
    pub evicted_time: u32,
}

impl ClassTotals {
    fn add(&mut self, other: &ClassTotals) {
        self.items += other.items;
        self.bytes += other.bytes;
        self.used |= other.used;
        self.counters.add(&other.counters);
        if other.evicted_at > self.evicted_at {
            (self.evicted_at, self.evicted_time) = (other.evicted_at, other.evicted_time);
        }
    }

    /// Forgets what happened.
    pub(super) fn reset(&mut self) {
        let ClassTotals { items, bytes, used, .. } = *self;
        *self = ClassTotals { items, bytes, used, ..ClassTotals::default() };
    }
}

/// Everything a store tells about itself.
#[derive(Clone, Debug)]
pub struct Totals {
    /// Sums of the shards' counters.
    pub counters: Counters,
    /// Items there are; those that expired and that nobody has met since are among them, as in memcached.
    pub items: u64,
    /// Memory of the items. What replies alone refer to is not among it, as in memcached.
    pub bytes: u64,
    /// Its limit.
    pub limit: u64,
    /// Bytes of the index.
    pub index_bytes: u64,
    /// Items that the index has room for before it grows.
    pub index_items: u64,
    /// For how many seconds the item at the end of a shard's list has not been used: the highest of all shards.
    pub age: u32,
    /// The Unix time before which `flush_all` has taken everything away, 0: it has not been called.
    pub flushed_before: u32,
    /// By class of size.
    pub classes: [ClassTotals; CLASSES],
}

impl Totals {
    pub(super) fn new() -> Totals {
        Totals {
            counters: Counters::default(),
            items: 0,
            bytes: 0,
            limit: 0,
            index_bytes: 0,
            index_items: 0,
            age: 0,
            flushed_before: 0,
            classes: [ClassTotals::default(); CLASSES],
        }
    }

    pub(super) fn add_counters(&mut self, counters: &Counters) {
        self.counters.add(counters);
    }

    pub(super) fn add_classes(&mut self, classes: &[ClassTotals; CLASSES]) {
        for (sum, more) in self.classes.iter_mut().zip(classes) {
            sum.add(more);
        }
    }

    /// The counters of all classes together.
    pub fn all_classes(&self) -> ClassCounters {
        let mut all = ClassCounters::default();
        self.classes.iter().for_each(|class| all.add(&class.counters));
        all
    }
}

/// How many bytes apart the sizes are that `Sizes` tells.
pub const SIZE_STEP: usize = 32;

/// How many items there are of each size, counted from when `stats sizes_enable` was said, as in memcached: those before it are unknown.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sizes {
    /// Which items are counted: those whose slots have this number, which is not 0.
    number: u32,
    /// By size in steps, rounded up, those that there are: no more of them than items.
    counts: BTreeMap<usize, u64>,
}

impl Sizes {
    pub(super) fn new(number: u32) -> Sizes {
        Sizes { number, counts: BTreeMap::new() }
    }

    /// A new item of this size; returns the number for its slot.
    pub(super) fn add(&mut self, total: usize) -> u32 {
        *self.counts.entry(total.div_ceil(SIZE_STEP)).or_default() += 1;
        self.number
    }

    /// An item that had this number is gone.
    pub(super) fn remove(&mut self, total: usize, number: u32) {
        if number == self.number
            && let Entry::Occupied(mut count) = self.counts.entry(total.div_ceil(SIZE_STEP))
        {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }

    /// The sizes from a step on, each with its number of items.
    pub(super) fn from(&self, step: usize) -> impl Iterator<Item = (usize, u64)> {
        self.counts.range(step..).map(|(step, count)| (*step, *count))
    }
}
