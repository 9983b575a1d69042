//! Coherent programmed I/O and what it is compared with (Ruzhanskaia et al. 2024), on the machine in `eci/`.
//!
//! | file | what |
//! |---|---|
//! | [`protocol`] | the four message protocols, without time or data: what is model-checked |
//! | [`call`] | remote procedure calls by them: the program and the device |
//! | [`fastforward`] | the same between two processors that poll |
//! | [`nic`] | a network interface with lines of its own |
//! | [`pcie`] | programmed I/O over PCIe, and a DMA engine with its driver |
//! | [`dataflow`] | batches through a graph of operators, here or on the device |

pub mod call;
pub mod dataflow;
pub mod fastforward;
pub mod nic;
pub mod pcie;
pub mod protocol;
#[cfg(test)]
mod tests;

use crate::eci::{End, Sim};
use crate::platform::PioPlatform;

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum PioError {
    /// The platform lacks a part.
    #[error("{platform} has no [{part}]")]
    Lacks {
        /// The platform.
        platform: String,
        /// The part.
        part: &'static str,
    },
    /// There is no memory for a program's stack.
    #[error("no memory for a program's stack: {0}")]
    Memory(#[from] std::io::Error),
    /// A load was not answered in time.
    #[error("machine check: a load was not answered before the link's timeout, after {0:.0} us")]
    MachineCheck(f64),
    /// No program can go on.
    #[error("the programs wait for each other")]
    Stuck,
    /// What came back is not what was computed: a defect of the simulator.
    #[error("{0} gave wrong bytes")]
    Wrong(&'static str),
}

/// A part of a platform that not every one has.
fn part<'p, T>(platform: &PioPlatform, part: &'static str, found: &'p Option<T>) -> Result<&'p T, PioError> {
    found.as_ref().ok_or_else(|| PioError::Lacks { platform: platform.name.clone(), part })
}

/// Runs a simulation to its end.
pub(crate) fn finish(mut sim: Sim) -> Result<(), PioError> {
    match sim.run() {
        End::Done => Ok(()),
        End::MachineCheck(at) => Err(PioError::MachineCheck(at as f64 / 1e6)),
        End::Stuck => Err(PioError::Stuck),
    }
}
