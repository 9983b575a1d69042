//! A machine of two nodes on a coherent link: a processor, and a device that sees every message and may hold its answers back, or a
//! second processor. It is Enzian's, with its inter-socket interconnect ECI; `platforms/enzian.toml` has its numbers.
//!
//! It shares the kernel and the idea with `machine/` and `bus/`: programs are coroutines over simulated memory. It is a machine of its
//! own, since lines have 128 bytes, cores wait for every miss, and each message on the link is one that a device can interpret.
//!
//! | file | what |
//! |---|---|
//! | [`line`](mod@line) | states of a line, its home's directory, requests |
//! | [`link`] | messages, and when they arrive |
//! | [`units`] | transaction units, which may be too few |
//! | [`device`] | what a device is, and what it can do |
//! | [`machine`] | the home agents: what a message changes |
//! | [`core`] | what an in-order core is doing |
//! | [`cores`] | loads, stores and barriers of the cores |
//! | [`sim`] | a machine and its programs |
//! | [`agent`] | a program's view: `SharedMemory`, barriers |
//!
//! The bytes of a line are kept once: a line has one writer at a time. Caches lose a line only when the other node wants it, or when a
//! test says so: what the programs here use is far less than a cache.

pub mod agent;
pub mod core;
pub mod cores;
pub mod device;
pub mod line;
pub mod link;
pub mod machine;
pub mod sim;
#[cfg(test)]
mod tests;
pub mod units;

pub use agent::Agent;
pub use device::{Device, EciPort};
pub use line::LINE;
pub use sim::{End, Sim};
