//! `ccnic sim`: the interface and the paper's microbenchmarks on simulated machines.

mod calibrate;
pub mod loopback;
mod machine;
mod micro;
mod platforms;
mod run;

use clap::Subcommand;

pub use machine::{Changes, MachineArgs};

/// What to simulate.
#[derive(Debug, Subcommand)]
pub enum SimCommand {
    /// Throughput and round trips of packets from simulated programs through the NIC and back
    Loopback(loopback::LoopbackArgs),
    /// Latency of a load, by where the cache line is (CC-NIC figure 7)
    Access(micro::MicroArgs),
    /// Round trip of one word between two cores, by where the words are homed (CC-NIC figure 8)
    Pingpong(micro::MicroArgs),
    /// Throughput of data between sockets, with caching and with non-temporal stores (CC-NIC figure 9)
    Stream(micro::StreamArgs),
    /// Latency of MMIO reads and throughput of MMIO writes of a PCIe device (CC-NIC figures 2 and 3)
    Mmio(micro::MicroArgs),
    /// A message there and back, and messages per second, by a published system
    Run(run::RunArgs),
    /// List the published systems, and the platforms that each can be on
    Systems(run::SystemsArgs),
    /// List the platforms that can be simulated, or show one's values and their sources
    Platforms(platforms::PlatformsArgs),
    /// Compare simulated latencies and rates with the targets in the platform files
    Calibrate(calibrate::CalibrateArgs),
}

/// Runs a simulation and prints what it showed. False when a check has failed.
pub fn run(command: &SimCommand) -> anyhow::Result<bool> {
    match command {
        SimCommand::Loopback(args) => loopback::run(args)?,
        SimCommand::Access(args) => micro::access(args)?,
        SimCommand::Pingpong(args) => micro::pingpong(args)?,
        SimCommand::Stream(args) => micro::stream(args)?,
        SimCommand::Mmio(args) => micro::mmio(args)?,
        SimCommand::Run(args) => run::run(args)?,
        SimCommand::Systems(args) => run::list(args)?,
        SimCommand::Platforms(args) => platforms::run(args)?,
        SimCommand::Calibrate(args) => return calibrate::run(args),
    }
    Ok(true)
}
