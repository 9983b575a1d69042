//! The CC-NIC packet interface: how a program and its network interface exchange packets through
//! cache-coherent memory.
//!
//! The design is CC-NIC (Schuh et al., "CC-NIC: a Cache-Coherent Interface to the NIC", ASPLOS '24), with the
//! epoch signals of Mukherjee et al. ("Coherent Network Interfaces for Fine-Grain Communication", ISCA '96).
//!
//! Everything here runs on both sides of the interface, over any memory that implements [`SharedMemory`]:
//! mapped memory, the loom model checker, a simulated interconnect. It uses no `unsafe`, no operating system,
//! no threads and no clock.
//!
//! A program uses the crate `ccnic-client`, which adds mapped memory, the connection to a NIC and waiting.
//!
//! # Reading order
//! 1. [`memory`]: the operations of an agent on shared memory.
//! 2. [`layout`]: every shared byte, and which side writes it. [`Config`]: what can be chosen;
//!    [`Tuning`]: what the machine decides.
//! 3. [`desc`]: the 16-byte descriptor of a packet's segment.
//! 4. [`ring`]: bursts of descriptors from one side to the other, and **the ordering diagram**.
//! 5. `pool`: buffers that both sides allocate and free.
//! 6. [`host`]: what a program calls. [`nic`]: what a NIC calls. [`rss`]: which queue a packet goes to.
//!    [`heap`]: a memory for tests.
//! 7. [`call`]: a request of a line and an answer of a line, without rings.
//! 8. `notify`: how a program stops polling and is notified. [`recovery`]: what happens to buffers when a NIC
//!    dies.
#![no_std]

mod buf;
pub mod call;
mod config;
pub mod desc;
pub mod heap;
pub mod host;
pub mod layout;
pub mod memory;
pub mod nic;
mod notify;
mod pool;
mod queue_error;
pub mod recovery;
pub mod ring;
pub mod rss;
#[doc(hidden)]
pub mod testing;
mod tuning;

pub use buf::{Buf, Burst, TooLong};
pub use config::{Config, ConfigError, Demote, Design};
pub use desc::Desc;

pub use layout::{HEADER_BYTES, Layout};
pub use memory::{LINE, SharedMemory};
pub use queue_error::QueueError;
pub use tuning::{FetchMode, IdleMode, Tuning};
