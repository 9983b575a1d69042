//! What a shard counts. The names are memcached's.

use super::classes::CLASSES;

macro_rules! counters {
    ($($name:ident)*) => {
        /// Counters of one shard, or their sum.
        #[derive(Clone, Debug, Default)]
        #[allow(missing_docs, reason = "each is the statistic of its name in memcached's documentation")]
        pub struct Counters {
            $(pub $name: u64,)*
        }

        impl Counters {
            /// Every counter with its name.
            pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name),)*].into_iter()
            }

            fn add(&mut self, other: &Counters) {
                $(self.$name += other.$name;)*
            }
        }
    };
}

counters! {
    cmd_get cmd_set cmd_flush cmd_touch cmd_meta get_hits get_misses get_expired get_flushed delete_misses delete_hits
    incr_misses incr_hits decr_misses decr_hits cas_misses cas_hits cas_badval touch_hits touch_misses store_too_large
    store_no_memory total_items expired_unfetched evicted_unfetched evictions reclaimed
}

/// What `stats items` and `stats slabs` tell of one class.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClassTotals {
    /// Items there are.
    pub items: u64,
    /// Their bytes as memcached counts them.
    pub bytes: u64,
    /// Items that had to go.
    pub evicted: u64,
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
            classes: [ClassTotals::default(); CLASSES],
        }
    }

    pub(super) fn add_counters(&mut self, counters: &Counters) {
        self.counters.add(counters);
    }

    pub(super) fn add_classes(&mut self, classes: &[ClassTotals; CLASSES]) {
        for (sum, more) in self.classes.iter_mut().zip(classes) {
            sum.items += more.items;
            sum.bytes += more.bytes;
            sum.evicted += more.evicted;
        }
    }
}
