//! Published systems: each module builds a machine, its host side and its NIC side.

pub mod cc_nic;
pub mod pcie;
pub mod regions;
