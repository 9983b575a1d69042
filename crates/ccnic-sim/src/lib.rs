//! A deterministic, execution-driven, transaction-level simulator of cache-coherent interconnects.
//!
//! The rings, pools and the NIC of `ccnic` run on it unchanged, through a simulated [`SharedMemory`](ccnic::SharedMemory): every access is
//! timed by a core's window of operations, its caches, a coherence protocol, links and memory. Time is in picoseconds.
//!
//! Reading order: [`platform`] (what a machine is), [`protocol`] (what homes and caches answer), `fabric` (how requests
//! travel), `core.rs` and `execute` (what a core has under way), [`agent`] (programs on cores, and the engine's loop).

pub mod agent;
mod audit;
pub mod calibrate;
mod core;
mod costs;
pub mod counters;
mod events;
mod execute;
mod fabric;
pub mod figures;
mod lines;
pub mod loopback;
pub mod micro;
pub mod parallel;
pub mod pcie;
pub mod platform;
mod prefetch;
pub mod protocol;
mod regions;
mod server;
pub mod summary;
mod tags;
pub mod time;
pub mod trace;
pub mod witness;
mod world;

pub use agent::{Agent, End, Sim};
pub use world::World;
