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

pub use devices::pcie::{Lane, NicCounts, Traffic as PcieTraffic};
pub use kernel::time;
pub use machine::World;
pub use machine::agent::{Agent, End, Sim};
pub use observe::{counters, summary, trace, witness};
pub use run::{calibrate, figures, micro, mmio, parallel};
pub use systems::cc_nic as loopback;
