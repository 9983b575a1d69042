//! Coherence protocols. Each is a table ([`table::Protocol`]): what the home agent does with a request, and what a private cache
//! answers to a snoop. A platform names the one that its caches follow (`protocol.kind`); the engine in `machine/home/` carries
//! out whichever it is given, and knows no protocol by name.
//!
//! | file | protocol |
//! |---|---|
//! | [`mesif`] | MESIF with a directory at each line's home agent: UPI, CXL.cache |
//!
//! A further protocol is a file with its two tables beside `mesif.rs` and a line in [`ALL`]. Tables whose home agent keeps no
//! directory (a snooping bus) need one more [`table::Snoops`]: every cache but the requester's.

pub mod mesif;
pub mod table;

use table::Protocol;

/// Every protocol.
pub const ALL: &[&Protocol] = &[&mesif::MESIF];

/// The protocol of a name.
pub fn named(name: &str) -> Option<&'static Protocol> {
    ALL.iter().find(|p| p.name == name).copied()
}
