//! The machine that is simulated: a platform, and what is changed for one run.

use anyhow::Context;
use ccnic_sim::platform::{AnyPlatform, Platform};
use clap::Args;

/// Options that choose the machine.
#[derive(Debug, Clone, Args)]
pub struct MachineArgs {
    /// Platform to simulate: a built-in one (`ccnic sim platforms` lists them) or a TOML file
    #[arg(long, default_value = "spr", value_name = "NAME | FILE")]
    platform: String,
    #[command(flatten)]
    changes: Changes,
}

/// Values of a platform that are changed.
#[derive(Debug, Clone, Args)]
pub struct Changes {
    /// Change a value of the platform, in its own unit: e.g. link.one_way=60; switches are 0 or 1. A
    /// device on a link is told by link.remote_memory_ns and link.gbytes_per_s. May be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
}

impl std::fmt::Display for Changes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.set.join(", "))
    }
}

impl Changes {
    /// Their keys and values.
    pub fn pairs(&self) -> impl Iterator<Item = anyhow::Result<(&str, f64)>> {
        self.set.iter().map(|set| {
            let (key, value) =
                set.split_once('=').with_context(|| format!("--set {set}: write KEY=VALUE"))?;
            let value = value.trim();
            let number = value.parse().with_context(|| format!("--set {set}: {value:?} is not a number"))?;
            Ok((key.trim(), number))
        })
    }

    /// A platform with the changes.
    ///
    /// # Errors
    /// The first change that cannot be, with the option.
    pub fn of<P, E>(&self, platform: P, change: impl Fn(&P, &str, f64) -> Result<P, E>) -> anyhow::Result<P>
    where
        E: std::error::Error + Send + Sync + 'static,
    {
        self.pairs().try_fold(platform, |platform, pair| {
            let (key, value) = pair?;
            change(&platform, key, value).with_context(|| format!("--set {key}={value}"))
        })
    }

    /// A platform of any machine with the changes.
    ///
    /// # Errors
    /// See [`of`](Changes::of).
    pub fn of_any(&self, platform: AnyPlatform) -> anyhow::Result<AnyPlatform> {
        self.of(platform, AnyPlatform::overridden)
    }

    /// True when there are none.
    pub fn is_empty(&self) -> bool {
        self.set.is_empty()
    }
}

impl MachineArgs {
    /// The platform's name or file, as on the command line.
    pub fn name(&self) -> &str {
        &self.platform
    }

    /// Reads the platform and applies `--set`.
    pub fn platform(&self) -> anyhow::Result<Platform> {
        self.changes.of(Platform::named(&self.platform)?, Platform::overridden)
    }

    /// As [`platform`](MachineArgs::platform), of any machine.
    pub fn any_platform(&self) -> anyhow::Result<AnyPlatform> {
        self.changes.of_any(AnyPlatform::named(&self.platform)?)
    }
}
