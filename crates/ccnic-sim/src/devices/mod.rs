//! Devices: what answers at addresses that are not memory. A device implements [`Device`], the machine's seam, and is added to a
//! machine with [`Machine::add_device`](crate::machine::Machine::add_device).
//!
//! | module | device |
//! |---|---|
//! | [`pcie`] | PCIe NICs: an Intel E810, a ConnectX-6 |

pub mod pcie;

pub use crate::machine::device::{Device, Port};
