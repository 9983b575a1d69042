//! Tests of the interface: one oracle and one conformance suite for every memory.
//!
//! # Reading order
//! 1. [`oracle`]: what must always hold: order, every packet once and whole, no buffer held twice.
//! 2. [`Memory`]: what a region can be made of here: the heap ([`HeapMemory`]), mapped memory
//!    ([`MappedMemory`]), memory that fails on purpose ([`faulty`]).
//! 3. [`rig`]: a host, a NIC and an oracle over one region, driven by a list of operations.
//!    What its NIC does with packets is a [`wire`].
//! 4. [`suite`]: the tests, each a function over any memory and any ring; [`faults`]: those with faults.
//! 5. [`sides`]: host and NIC each on its own; [`threads`]: on two threads, over mapped memory. (`ccnic-sim`
//!    runs them on two simulated cores.)
//! 6. [`loom_view`]: the loom memory, for every interleaving of a small configuration.

pub mod faults;
pub mod faulty;
#[cfg(feature = "loom")]
pub mod loom_view;
mod memory;
pub mod oracle;
pub mod rig;
pub mod sides;
pub mod suite;
pub mod threads;
pub mod wire;

pub use ccnic::heap::HeapMemory;
pub use memory::{MappedMemory, Memory};
