//! A deterministic, execution-driven, transaction-level simulator of cache-coherent interconnects.
//!
//! The rings, pools and the NIC of `ccnic` run on it unchanged, through a simulated [`SharedMemory`](ccnic::SharedMemory): every access
//! is timed by a core's window of operations, its caches, a coherence protocol, links and memory. Time is in picoseconds.
//!
//! # Layers
//!
//! A file imports files of its own layer and of those below, never in a circle (`tests/layers.rs` checks it).
//!
//! ```text
//!  run/         loopbacks, microbenchmarks, calibration, figures        observe/summary
//!  systems/     one module per published system: machine, host side, NIC side
//!  devices/     what implements the trait Device: PCIe NICs             observe/audit
//!  machine/     cores, caches, home agents, fabric, topology; the trait Device
//!  bus/         the other machine: nodes with snooping buses, and a network
//!  eci/         the third: two nodes on a coherent link, whose messages a device can hold back
//!  observe/     counters, trace, journal: what a machine reports to
//!  platform/    a machine's numbers, from TOML
//!  protocols/   coherence protocols: tables, no code
//!  kernel/      events, time, coroutines, lookahead, servers: knows nothing of caches
//! ```
//!
//! # The path of an access
//!
//! ```text
//!  program        agent.rs            SharedMemory::load -> try it on the core; suspend while it has to wait
//!    | call
//!  core           core/loads.rs       window, store forwarding, speculation on unchanged values
//!    | call
//!  caches         caches/private.rs   hit: done
//!    | miss       core/misses.rs      MSHR, fill buffer; uncore.rs: begin a transaction
//!    | event Arrive
//!  home agent     home/order.rs       wait while the line is busy; here or at the line's home?    event AtHome
//!    | table      protocols/mesif.rs  which caches to snoop, where the data is, what to grant
//!    | event Snoop
//!  other caches   home/snoop.rs       downgrade or invalidate, answer
//!    |
//!  data           home/supply.rs      last-level cache, sharer, memory (fabric.rs), or a device     event Read
//!    | link       fabric.rs           hop by hop along the topology's route
//!    | event Fill
//!  core           core/misses.rs      install the line, complete the load, resume the program
//! ```
//!
//! # Example
//!
//! A word goes from a core of one socket to a core of the other, on the Ice Lake server of the paper:
//!
//! ```
//! use ccnic::SharedMemory;
//! use ccnic_sim::{Machine, Sim, platform::Platform, time::Ps};
//!
//! let icx = Platform::named("icx")?;
//! let machine = Machine::new(&icx, 4096, &[(0, 0), (1, 1)])?; // (socket, side) of each core
//! let mut sim = Sim::new(machine);
//! sim.spawn(0, |agent| agent.store_release(0, 7))?;
//! sim.spawn(1, |agent| {
//!     while agent.load_acquire(0) != 7 {
//!         agent.relax();
//!     }
//!     assert!(agent.now_ns() > 100.0, "the line crosses the link");
//! })?;
//! sim.run(Ps::MAX);
//! assert!(sim.is_done(0) && sim.is_done(1));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! `docs/laboratory-extend.md` shows how to add a machine, a protocol, a device or a system.

pub mod bus;
mod devices;
pub mod eci;
mod kernel;
mod machine;
mod observe;
pub mod platform;
pub mod protocols;
mod run;
mod systems;

pub use kernel::time;
pub use machine::agent::Agent;
pub use machine::caches::mask::{RequesterClass, WayMask};
pub use machine::device::{Device, Port};
pub use machine::sim::{End, Sim, Untimed};
pub use machine::topology::{Link, Topology};
pub use machine::uncached::{Access, AccessKind};
pub use machine::{Attachment, Machine, MachineError, Seat};
pub use observe::{counters, summary, trace, witness};
pub use run::cni as cni_run;
pub use run::pio as pio_run;
pub use run::{applications, calibrate, figures, loopback, micro, mmio, native, parallel, published};
pub use systems::{cni, pio};

/// The worked examples of `docs/laboratory-extend.md`.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/laboratory-extend.md")]
pub struct Laboratory;
