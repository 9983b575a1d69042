//! The machine that is simulated: a platform, and what is changed for one run.

use anyhow::Context;
use ccnic_sim::platform::Platform;
use clap::Args;

/// Options that choose the machine.
#[derive(Debug, Clone, Args)]
pub struct MachineArgs {
    /// Platform to simulate: a built-in one (`ccnic sim platforms` lists them) or a TOML file
    #[arg(long, default_value = "spr", value_name = "NAME | FILE")]
    platform: String,
    /// Change a value of the platform, in its own unit: e.g. link.one_way=60; switches are 0 or 1. A
    /// device on a link is described by link.remote_memory_ns and link.gbytes_per_s. May be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
}

impl MachineArgs {
    /// The platform's name or file, as on the command line.
    pub fn name(&self) -> &str {
        &self.platform
    }

    /// Reads the platform and applies `--set`.
    pub fn platform(&self) -> anyhow::Result<Platform> {
        self.set.iter().try_fold(Platform::named(&self.platform)?, |platform, set| {
            let (key, value) =
                set.split_once('=').with_context(|| format!("--set {set}: write KEY=VALUE"))?;
            let value: f64 = value
                .trim()
                .parse()
                .ok()
                .with_context(|| format!("--set {set}: {value:?} is not a number"))?;
            platform.overridden(key.trim(), value).with_context(|| format!("--set {set}"))
        })
    }
}
