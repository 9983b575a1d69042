//! Flow rules: which receive queue of a program a packet goes to, whatever its hash; which packets it does not want; which get a
//! mark.
//!
//! A NIC in hardware has a table for each set of fields that rules name, with one exact-match look-up in each (a *tuple space*:
//! Srinivasan et al., SIGCOMM '99). So has a [`FlowTable`]: what a packet costs is bounded by the number of field sets, which is
//! limited, not by that of the rules.
//!
//! ```text
//!   control thread: FlowBook (rules of a program, by number) ── compiled, one for each worker ──► FlowTable
//!                        ▲ hits                                                                     │ within a Spreader
//!   worker:              └───────────── counts, alone ◄── find ◄── Key of the packet ◄──────────────┘
//! ```
//!
//! 1. [`key`]: the fields of a packet, and those that a rule names, as words.
//! 2. [`table`]: from a key to a rule, on a polling core.
//! 3. [`book`]: the rules of a program, their limits and their counters, on the control thread.
//! 4. [`configured`]: the rules that stand in the configuration.

pub mod book;
pub mod configured;
pub mod key;
pub mod table;
#[cfg(test)]
mod tests;

pub use book::{FlowBook, Owner};
pub use configured::{ConfiguredFlow, ConfiguredFlows};
pub use key::Key;
pub use table::{FlowTable, Hits, TableRule};
