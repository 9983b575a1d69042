//! Published systems. Each module builds a machine, and puts the programs of the host side and of the NIC side on it.
//!
//! | module | system |
//! |---|---|
//! | [`cc_nic`] | a coherent NIC on cores, over every ring design (CC-NIC, ASPLOS '24) |
//! | [`cni`] | the coherent network interfaces of 1996, on the machine in `bus/` (CNI, ISCA '96) |
//! | [`pio`] | coherent programmed I/O, on the machine in `eci/` (Ruzhanskaia et al. 2024) |
//! | [`applications`] | a key-value store and small calls over a PCIe NIC, directly and by the overlay (CC-NIC section 5.7) |
//! | [`pcie`] | a PCIe NIC: E810, ConnectX-6 (CC-NIC section 5.1) |
//!
//! [`plan`] has what is asked of a system and what a run shows, [`regions`] where the interface's regions lie in memory, [`host`] the
//! program that every system's host cores run, and what a built system is.

pub mod applications;
pub mod cc_nic;
pub mod cni;
pub mod host;
pub mod pcie;
pub mod pio;
pub mod plan;
pub mod regions;

use crate::platform::Platform;
use host::Built;
use plan::{Options, Plan, RunError};

/// Builds the system that a platform has the hardware of.
///
/// # Errors
/// When the platform has not so many cores, or the configuration is invalid or not the system's.
pub fn build(platform: &Platform, plan: &Plan, options: Options) -> Result<Built, RunError> {
    if platform.device.is_some() {
        pcie::build(platform, plan, options)
    } else {
        cc_nic::build(platform, plan, options)
    }
}
