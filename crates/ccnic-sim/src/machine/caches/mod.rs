//! Caches: set-associative, least recently used line evicted first.
//!
//! They hold no data. A line has one value at any time, since it has one writer, and its bytes are kept once, in the machine's
//! memory ([`super::ram`]).
//!
//! A line is found by its number in an [`index`](sets::Index), not by a search of its set: the entries of lines that are used
//! together are adjacent in the memory of the computer that simulates, while their sets are far apart.
//! [`tags`] is a cache by itself, [`private`] the two levels of a core, which share one index.

pub mod mask;
pub mod private;
pub mod sets;
pub mod tags;
