//! Work: the unit in which turns are bounded. One is a byte that is copied or sent; what else takes time counts as the bytes that are copied
//! meanwhile, at some 5 GB/s. A turn of a client, or of the datagrams of a socket, ends with the step that uses [`TURN`] up; the shard is
//! let go of, and others have theirs. A step is at most one item, 24 keys of a get, or 1024 evictions.
//!
//! | what | counts |
//! |---|---|
//! | a command | [`COMMAND`], the bytes of its line, of its data and of its answer |
//! | a key that is looked up, found or not | [`KEY`], and the lines of the index behind the first |
//! | an item that is stored | its bytes twice: put together, then copied |
//! | an item that is evicted, moved or over | [`KEY`] |
//! | a slot that is looked at for what is over, a value that a reply may still refer to | [`LOOK`] |
//! | a shard whose counters are told, reset or changed | [`SHARD`] |
//! | a connection that `stats conns` tells of | [`KEY`] |

/// Work that a turn may do: some 0.2 ms, 1 ms when every access misses all caches.
pub const TURN: usize = 1 << 20;
/// A command.
pub(crate) const COMMAND: usize = 256;
/// A key that is looked up.
pub(crate) const KEY: usize = 1024;
/// A look at one cache line.
pub(crate) const LOOK: usize = 64;
/// A shard's counters: 40 classes of 24 numbers.
pub(crate) const SHARD: usize = 8 << 10;
