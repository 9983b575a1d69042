//! Places of keys: the shard by a hash that callers of the RPC compute, too; the line and tag in its index by a hash with a secret key.

use std::hash::{BuildHasher, Hasher, RandomState};

use super::Store;

/// The hash that names a key's shard: XXH3-64, seed 0. Callers of the binary get and set compute it to reach the right thread, so it is no
/// secret. Keys chosen to meet in one shard share its part of the memory; they are spread over its index all the same.
pub fn shard_hash(key: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(key)
}

/// The shard of a key, and the hash by which that shard finds it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    pub(super) shard: usize,
    pub(crate) hash: u64,
}

impl Place {
    /// The number of the shard.
    pub fn shard(&self) -> usize {
        self.shard
    }
}

/// The hash of the indexes: SipHash-1-3, the keyed function of the standard library, with a key drawn for each store. Faster hashes with a
/// secret seed have collisions that do not depend on it (XXH3), or none that are known but no analysis either. 16 bytes take
/// 18 ns where XXH3 takes 4 (EPYC VM, shared).
#[derive(Debug, Default)]
pub(super) struct Secret(RandomState);

impl Secret {
    fn hash(&self, key: &[u8]) -> u64 {
        let mut hasher = self.0.build_hasher();
        hasher.write(key);
        hasher.finish()
    }
}

impl Store {
    /// The place of a key.
    pub fn place(&self, key: &[u8]) -> Place {
        let shard = match self.shards() {
            1 => 0,
            shards => (shard_hash(key) % shards as u64) as usize,
        };
        Place { shard, hash: self.secret.hash(key) }
    }
}
