//! A deterministic, execution-driven, transaction-level simulator of cache-coherent interconnects.
//!
//! The rings, pools and the NIC of `ccnic` run on it unchanged, through a simulated [`SharedMemory`](ccnic::SharedMemory): every access is
//! timed by a core's window of operations, its caches, a coherence protocol, links and memory. Time is in picoseconds.

mod devices;
mod kernel;
mod machine;
mod observe;
pub mod platform;
pub mod protocols;
mod run;
mod systems;

pub use kernel::time;
pub use machine::agent::Agent;
pub use machine::caches::mask::{Class, WayMask};
pub use machine::device::{Device, Port};
pub use machine::sim::{End, Sim, Untimed};
pub use machine::topology::{Link, Topology};
pub use machine::uncached::{Access, Kind};
pub use machine::{Attachment, Machine, MachineError, Seat};
pub use observe::{counters, summary, trace, witness};
pub use run::{calibrate, figures, loopback, micro, mmio, parallel};
