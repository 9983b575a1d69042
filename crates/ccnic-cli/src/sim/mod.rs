//! `ccnic sim`: the interface and the paper's microbenchmarks on simulated machines.

mod calibrate;
pub mod loopback;
mod micro;
mod platforms;

use std::time::Duration;

use anyhow::Context;
use ccnic_sim::platform::Platform;
use clap::{Args, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};

/// What to simulate.
#[derive(Debug, Subcommand)]
pub enum SimCommand {
    /// Packets from simulated programs through the NIC and back
    Loopback(loopback::LoopbackArgs),
    /// What a load costs, by where its line is (CC-NIC figure 7)
    Access(micro::MicroArgs),
    /// A word there and back, by where the words lie (CC-NIC figure 8)
    Pingpong(micro::MicroArgs),
    /// Streams of data, with caching and with non-temporal stores (CC-NIC figure 9)
    Stream(micro::StreamArgs),
    /// Reads and stores of a PCIe device (CC-NIC figures 2 and 3)
    Mmio(micro::MicroArgs),
    /// The platforms that can be simulated, and where their numbers come from
    Platforms(platforms::PlatformsArgs),
    /// Probes of platforms against what they must show
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
        SimCommand::Platforms(args) => platforms::run(args)?,
        SimCommand::Calibrate(args) => return calibrate::run(args),
    }
    Ok(true)
}

/// The machine.
#[derive(Debug, Clone, Args)]
pub struct MachineArgs {
    /// A built-in platform (`ccnic sim platforms`), or a file
    #[arg(long, default_value = "spr")]
    platform: String,
    /// Another value for this run, e.g. link.one_way=60; a switch takes 0 or 1
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
}

impl MachineArgs {
    /// What the platform was called by.
    pub fn name(&self) -> &str {
        &self.platform
    }

    /// Reads the platform and changes what shall be changed.
    pub fn platform(&self) -> anyhow::Result<Platform> {
        self.set.iter().try_fold(Platform::named(&self.platform)?, |platform, set| {
            let (key, value) =
                set.split_once('=').with_context(|| format!("--set {set}: write KEY=VALUE"))?;
            let value: f64 =
                value.trim().parse().ok().with_context(|| format!("--set {set}: {value:?} is no number"))?;
            platform.overridden(key.trim(), value).with_context(|| format!("--set {set}"))
        })
    }
}

/// A progress bar on the terminal; nothing when there is none.
pub fn bar(steps: usize, name: &'static str) -> ProgressBar {
    let bar = ProgressBar::new(steps as u64).with_prefix(name);
    let template = "{spinner} {prefix} {bar:30} {pos}/{len} {elapsed} {msg}";
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}
