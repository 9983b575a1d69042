//! Programs that compute something on all nodes, and check the result: the macrobenchmarks of CNI section 4.2. Two of its five are here,
//! written from its description: their sources are not public.
//!
//! The arithmetic is done by the host; its time is charged by the operation, and every block of the data that it touches is accessed in
//! the processor's cache. What crosses the network are the real bytes.

use super::micro::MicroError;
use super::nodes::Outcome;
use super::{em3d, gauss};
use crate::platform::BusPlatform;
use crate::systems::cni::Interface;

/// A program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Program {
    /// Gaussian elimination, 512 x 512: every pivot row, 2 KB, goes from its node to all others.
    Gauss,
    /// Electromagnetic waves on a bipartite graph, 1024 nodes of degree 5: many messages of 12 bytes.
    Em3d,
}

impl Program {
    /// Every one.
    pub const ALL: [Program; 2] = [Program::Gauss, Program::Em3d];

    /// Its name in the paper.
    pub fn name(self) -> &'static str {
        match self {
            Program::Gauss => "gauss",
            Program::Em3d => "em3d",
        }
    }

    /// Runs it; a result that is not the sequential program's is an error.
    ///
    /// # Errors
    /// When the interface cannot be there, or the result is wrong.
    pub fn run(self, platform: &BusPlatform, interface: Interface) -> Result<Outcome, MicroError> {
        match self {
            Program::Gauss => gauss::run(platform, interface, gauss::SIZE),
            Program::Em3d => em3d::run(platform, interface, em3d::Graph::PAPER),
        }
    }
}
