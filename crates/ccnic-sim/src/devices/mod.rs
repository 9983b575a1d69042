//! Devices: what answers at addresses that are not memory.

pub mod pcie;
