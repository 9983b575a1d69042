//! Programs that compute something on all nodes, and check the result: the macrobenchmarks of CNI section 4.2. They are
//! written from its description: the sources of its own are not public.
//!
//! The arithmetic is done by the host; its time is charged by the operation, and every block of the data that it touches is accessed in
//! the processor's cache. What crosses the network are the real bytes.

use super::micro::MicroError;
use super::nodes::Outcome;
use super::{appbt, em3d, gauss, moldyn, spsolve};
use crate::platform::BusPlatform;
use crate::systems::cni::Interface;

/// One of the five macrobenchmarks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Macrobenchmark {
    /// A sparse triangular system of 3720 unknowns: messages of 12 bytes down a directed acyclic graph.
    Spsolve,
    /// Gaussian elimination, 512 x 512: every pivot row, 2 KB, goes from its node to all others.
    Gauss,
    /// Electromagnetic waves on a bipartite graph, 1024 nodes of degree 5: many messages of 12 bytes.
    Em3d,
    /// Molecular dynamics of 2048 particles: bulk reductions, 1.5 KB to the same neighbour as many times as there are nodes.
    Moldyn,
    /// A flow through 24 x 24 x 24 cells: blocks of 128 bytes from neighbours, by requests, responses and invalidations.
    Appbt,
}

impl Macrobenchmark {
    /// Every one.
    pub const ALL: [Macrobenchmark; 5] = [
        Macrobenchmark::Spsolve,
        Macrobenchmark::Gauss,
        Macrobenchmark::Em3d,
        Macrobenchmark::Moldyn,
        Macrobenchmark::Appbt,
    ];

    /// Its name in the paper.
    pub fn name(self) -> &'static str {
        match self {
            Macrobenchmark::Spsolve => "spsolve",
            Macrobenchmark::Gauss => "gauss",
            Macrobenchmark::Em3d => "em3d",
            Macrobenchmark::Moldyn => "moldyn",
            Macrobenchmark::Appbt => "appbt",
        }
    }

    /// Runs it; a result that is not the sequential program's is an error.
    ///
    /// # Errors
    /// When the interface cannot be there, or the result is wrong.
    pub fn run(self, platform: &BusPlatform, interface: Interface) -> Result<Outcome, MicroError> {
        match self {
            Macrobenchmark::Gauss => gauss::run(platform, interface, gauss::SIZE),
            Macrobenchmark::Em3d => em3d::run(platform, interface, em3d::Graph::PAPER),
            Macrobenchmark::Spsolve => spsolve::run(platform, interface, spsolve::Size::PAPER),
            Macrobenchmark::Moldyn => moldyn::run(platform, interface, moldyn::Size::PAPER),
            Macrobenchmark::Appbt => appbt::run(platform, interface, appbt::Size::PAPER),
        }
    }
}
