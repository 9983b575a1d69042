//! What is asked of a system, what a run shows, and why there may be none.

use ccnic::{Config, ConfigError, Design};
use ccnic_load::{Load, LoadError, Outcome};

use crate::kernel::time::Ps;
use crate::machine::MachineError;
use crate::observe::counters::{Counters, NicCounts, PcieTraffic, Traffic};
use crate::observe::trace::Trace;

/// What is simulated: a queue pair for each host core.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// The regions; the number of queues is the number of cores on each side.
    pub config: Config,
    /// What each program sends. Seconds are simulated ones.
    pub load: Load,
}

/// Rates after the load's own, one after the other on the machine that is warm from it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sweep {
    /// Shares of the rate. From low to high: then each begins with fewer packets in flight than it has in the end, as in a run of its own.
    pub shares: Vec<f64>,
    /// Packets per second that they are shares of; none: those that came back of the load itself.
    pub of: Option<f64>,
}

/// How a plan is run.
#[derive(Debug, Default)]
pub struct Options {
    /// All queue pairs share one region and its pool, as the queues of one program do. Otherwise each has its own.
    pub shared: bool,
    /// Traces the run; changes no result.
    pub trace: Option<Trace>,
    /// Ends the run after so many events, with [`RunError::Cut`]; what has been traced until then is kept.
    pub events: Option<u64>,
    /// Further rates, after the plan's load.
    pub sweep: Sweep,
}

/// What a run showed.
#[derive(Debug, Clone)]
pub struct Run {
    /// What each program saw.
    pub outcomes: Vec<Outcome>,
    /// Counters over the measured time, of each host core and of each NIC core; a PCIe NIC has none.
    pub host: Vec<Counters>,
    /// See `host`.
    pub nic: Vec<Counters>,
    /// Traffic over the measured time, by the socket that it leaves or whose memory it meets.
    pub traffic: Vec<Traffic>,
    /// Simulated time measured.
    pub measured: Ps,
    /// Packets that programs wrote or checked in its first half, and in its second.
    pub halves: [u64; 2],
    /// What a PCIe NIC did over the measured time, and what went over its link.
    pub pcie: Option<(NicCounts, PcieTraffic)>,
}

/// Why a run could not be made.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// More cores than the platform has, or none.
    #[error("{asked} cores a side, the platform has {host} and {nic}; choose 1 to {}", host.min(nic))]
    Cores {
        /// Cores asked for.
        asked: u16,
        /// Host cores of the platform.
        host: u32,
        /// NIC cores of the platform.
        nic: u32,
    },
    /// More memory than offsets reach.
    #[error("{regions} regions of {size} bytes do not fit in 4 GiB; lower buffers or ring")]
    Memory {
        /// Regions asked for.
        regions: u16,
        /// Bytes of each.
        size: u32,
    },
    /// An invalid configuration of a region.
    #[error("{0}")]
    Config(#[from] ConfigError),
    /// A design whose instructions nobody has counted.
    #[error(
        "the instructions of {0} have not been counted: add the design to crates/ccnic-load/benches/counts.py, then make counts"
    )]
    Instructions(&'static str),
    /// A machine that cannot be built.
    #[error("{0}")]
    Machine(#[from] MachineError),
    /// A program's load failed.
    #[error("{0}")]
    Load(#[from] LoadError),
    /// There is no memory for a stack.
    #[error("no memory for a simulated program's stack: {0}")]
    Stack(#[from] std::io::Error),
    /// A trace could not be written.
    #[error("could not write the trace: {0}; is there room on the disk?")]
    Trace(std::io::Error),
    /// A NIC that serves only its own rings.
    #[error("the platform's NIC is a PCIe device: choose the design {} and a host-managed pool", Design::Doorbell.name())]
    Device,
    /// The run was to end after so many events.
    #[error("cut after {events} events, {at:.0} ns of simulated time; nothing was summed up")]
    Cut {
        /// Events handled.
        events: u64,
        /// Simulated nanoseconds.
        at: f64,
    },
    /// An application did not answer what was asked, or the overlay lost packets.
    #[error("{wrong} answers were wrong, {dropped} requests were lost: a defect of ccnic")]
    Answers {
        /// Answers that were none to what had been asked.
        wrong: u64,
        /// Requests for which there was no room.
        dropped: u64,
    },
    /// Every program waits for something that never comes.
    #[error("the simulated programs stand still after {0:.0} ns: a defect of ccnic")]
    Stuck(f64),
}
