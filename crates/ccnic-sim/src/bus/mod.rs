//! A machine of nodes with snooping buses: each a processor with a direct-mapped cache, a memory bus, an I/O bus behind a bridge and a
//! network interface; between them a network. It is the parallel machine of the CNI paper (ISCA '96); `platforms/cni-1996.toml` has
//! its numbers.
//!
//! It shares the kernel and the idea with `machine/`: programs are coroutines over simulated memory. It is a machine of its own, since
//! nothing else is alike: processors wait for every miss, a bus orders everything, and nodes share no memory.
//!
//! | file | what |
//! |---|---|
//! | [`buses`] | which operation occupies which bus, and when |
//! | [`cache`] | direct-mapped tags and states |
//! | [`node`] | accesses by the protocol's table; agents, events, registers of a node |
//! | [`network`] | messages, events, windows |
//! | [`machine`] | all nodes, and which program goes on |
//! | [`sim`] | a machine and its programs |
//! | [`agent`] | a program's view: `SharedMemory`, registers, waiting |
//!
//! Nodes can reach each other no faster than the network, so that each runs alone through a span of time as long as the network's
//! latency; then messages are exchanged.

pub mod agent;
pub mod buses;
pub mod cache;
pub mod machine;
pub mod network;
pub mod node;
pub mod sim;
#[cfg(test)]
mod tests;

pub use sim::{End, Sim};
