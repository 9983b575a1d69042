//! Coherence protocols. Each is a table ([`table::Protocol`]): what the home agent does with a request, and what a private cache
//! answers to a snoop. A platform names the one that its caches follow (`protocol.kind`); the engine in `machine/home/` carries
//! out whichever it is given, and knows no protocol by name.
//!
//! | file | protocol |
//! |---|---|
//! | [`mesif`] | MESIF with a directory at each line's home agent: UPI, CXL.cache |
//! | [`moesi`] | MOESI on a snooping bus: MBus |
//!
//! A further protocol is a file with its two tables beside `mesif.rs` and a line in [`ALL`]. On a snooping bus there is no home agent
//! and no directory: tables of this kind ([`snooping::Snooping`]) are carried out by the machine in `bus/`, and stand in [`SNOOPING`].

pub mod mesif;
pub mod moesi;
pub mod snooping;
pub mod table;

use snooping::Snooping;
use table::Protocol;

/// Every protocol.
pub const ALL: &[&Protocol] = &[&mesif::MESIF];

/// Every protocol of a snooping bus.
pub const SNOOPING: &[&Snooping] = &[&moesi::MOESI];

/// The protocol of a name.
pub fn named(name: &str) -> Option<&'static Protocol> {
    ALL.iter().find(|p| p.name == name).copied()
}
