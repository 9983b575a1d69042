//! `ccnic bench`: measurements on this machine, one file per subcommand.

mod apps;
mod cni;
mod hostile;
mod idle;
mod loopback;
mod machine;
mod peers;
mod pio;
mod switch;
mod trips;

use clap::Subcommand;

pub use machine::measure_limit;

/// What to measure.
#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    /// Measure throughput and round trips of packets from a program through the NIC and back
    Loopback(loopback::LoopbackArgs),
    /// Measure packets between two programs through the switch, both ways, beside the loopback
    Switch(switch::SwitchArgs),
    /// Measure what the NIC uses while nobody sends, and round trips of packets after a pause
    Idle(idle::IdleArgs),
    /// Measure how fast two cores exchange cache lines: the upper limit of any such interface
    Limit(machine::MicrobenchArgs),
    /// Measure the round trip of one word between two cores (CC-NIC figure 8)
    Pingpong(machine::MicrobenchArgs),
    /// Measure one small request and its answer: coherent programmed I/O (ccnic_call) beside a ring
    Pio(pio::PioArgs),
    /// Measure messages over the cachable queues of 1996 (CNI) and over rings: one under way, and many
    Cni(cni::CniArgs),
    /// Measure the throughput of data between two cores, with caching and with non-temporal stores (CC-NIC
    /// figure 9)
    Stream(machine::MicrobenchArgs),
    /// Compare DPDK's software drivers (memif, virtio-user, ring) with net_ccnic under the same load
    Peers(peers::PeersArgs),
    /// Compare a key-value store over the interface's designs and over the kernel's sockets, and memcached, under one load
    Apps(apps::AppsArgs),
    /// Measure what a program feels of hostile ones on the same NIC: its packets, round trips, and others' requests
    Hostile(hostile::HostileArgs),
}

/// Runs a measurement and prints its result; false when it shows that something is broken.
pub fn run(command: &BenchCommand) -> anyhow::Result<bool> {
    match command {
        BenchCommand::Loopback(args) => loopback::run(args)?,
        BenchCommand::Switch(args) => switch::run(args)?,
        BenchCommand::Idle(args) => idle::run(args)?,
        BenchCommand::Limit(args) => machine::limit(args)?,
        BenchCommand::Pingpong(args) => machine::pingpong(args)?,
        BenchCommand::Pio(args) => pio::run(args)?,
        BenchCommand::Cni(args) => cni::run(args)?,
        BenchCommand::Stream(args) => machine::stream(args)?,
        BenchCommand::Apps(args) => return apps::run(args),
        BenchCommand::Peers(args) => return peers::run(args),
        BenchCommand::Hostile(args) => return hostile::run(args),
    }
    Ok(true)
}
