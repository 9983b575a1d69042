//! The CC-NIC packet interface: how a program and its network interface exchange packets through cache-coherent memory.
//!
//! The design is CC-NIC (Schuh et al., "CC-NIC: a Cache-Coherent Interface to the NIC", ASPLOS '24), with the epoch
//! signals of Mukherjee et al. ("Coherent Network Interfaces for Fine-Grain Communication", ISCA '96).
//!
//! Everything here runs on both sides of the interface, over any memory that implements [`Port`]: mapped memory, the loom
//! model checker, a simulated interconnect. There is no `unsafe`, no operating system, no thread and no clock.
//!
//! # Reading order
//! 1. [`port`]: what an agent can do to shared memory.
//! 2. [`layout`]: every shared byte, and who writes it. [`Config`] is what can be chosen.
//! 3. [`desc`]: sixteen bytes that say where a packet lies.
//! 4. [`ring`]: bursts of descriptors from one side to the other, and **the ordering diagram**.
//! 5. [`pool`]: buffers that both sides allocate and free.
//! 6. [`QueuePair`], what a program calls, and [`NicQueue`], what a wire calls. [`rss`]: which queue a packet goes to.
//! 7. [`sleep`]: how a program stops polling and is woken.
#![no_std]

mod buf;
mod config;
pub mod desc;
mod host;
pub mod layout;
mod nic;
pub mod pool;
pub mod port;
pub mod recovery;
pub mod ring;
pub mod rss;
pub mod sleep;

pub use buf::{Buf, Burst};
pub use config::{Config, ConfigError, Demote, Design};
pub use desc::Desc;
pub use host::{HostDrops, NotSmall, QueuePair, Store};
pub use layout::Layout;
pub use nic::{BadPacket, FETCH, Fetched, NicCounters, NicQueue, Pipeline, loopback, spread};
pub use port::{LINE, Port};
