//! What the fuzz targets of `fuzz/` run. Each target is a function of bytes; it panics when something is
//! wrong. The tests of this crate run the targets on the corpora of `fuzz/corpus`, without a fuzzer.
//!
//! | file | contents |
//! |---|---|
//! | `input.rs` | the fuzzer's bytes as numbers |
//! | `memory.rs` | [`Region`]: a memory that a hostile peer changes between any two accesses |
//! | `nic_region.rs` | the NIC side over such a memory |
//! | `host_region.rs` | the host side over such a memory |
//! | `recovery.rs` | what the host does when such a NIC has died, and whether a successor can go on |
//! | `control_messages.rs` | control messages and region headers |
//! | `configuration.rs` | configuration files, and changes that operators ask for |
//! | `frames.rs`, `segments.rs` | frames, their offloads and their segmentation |
//! | `kv.rs` | the key-value store of `apps/kv` |
//! | `switch/` | frames through the switch of the daemon |
//! | `reference.rs` | what etherparse knows of a frame |

#![allow(clippy::expect_used, reason = "a fuzz target reports by panics")]

mod configuration;
mod control_messages;
mod frames;
mod host_region;
mod input;
mod kv;
mod memory;
mod nic_region;
mod recovery;
mod reference;
mod segments;
mod setup;
mod switch;

pub use configuration::{changes, configuration};
pub use control_messages::control_messages;
pub use frames::frames;
pub use host_region::host_region;
pub use kv::{kv_datagrams, kv_snapshot, kv_stream};
pub use memory::{Region, View};
pub use nic_region::nic_region;
pub use recovery::recovery;
pub use segments::segments;
pub use switch::switch;

/// A fuzz target.
pub type Target = fn(&[u8]);

/// Every target with its name, which is also that of its corpus.
pub const TARGETS: [(&str, Target); 12] = [
    ("changes", changes),
    ("configuration", configuration),
    ("control_messages", control_messages),
    ("frames", frames),
    ("host_region", host_region),
    ("kv_datagrams", kv_datagrams),
    ("kv_snapshot", kv_snapshot),
    ("kv_stream", kv_stream),
    ("nic_region", nic_region),
    ("recovery", recovery),
    ("segments", segments),
    ("switch", switch),
];
