//! `ccnic apply`, `ccnic config`: a configuration file for a NIC that runs, and the configuration that it runs with.

use std::path::PathBuf;

use anyhow::Context;
use clap::Args;

use super::NicArgs;
use crate::print;

/// Options of `apply`.
#[derive(Debug, Args)]
pub struct ApplyArgs {
    /// The configuration file (docs/configuration.md)
    file: PathBuf,
    /// Say what would change, and change nothing. Ports are not opened, so opening them may fail yet
    #[arg(long)]
    check: bool,
    #[command(flatten)]
    nic: NicArgs,
}

/// Options of `config`.
#[derive(Debug, Args)]
pub struct ConfigArgs {
    #[command(flatten)]
    nic: NicArgs,
}

/// Has the NIC be as the file says, and prints what has changed.
pub fn apply(args: &ApplyArgs) -> anyhow::Result<()> {
    let name = args.file.display().to_string();
    let text = std::fs::read_to_string(&args.file).with_context(|| format!("could not read {name}"))?;
    let applied = args.nic.open()?.apply(&name, &text, args.check)?;
    args.nic.print(&applied, args.check)
}

/// Prints the running configuration: as a file that can be used, or as JSON of the same keys.
pub fn config(args: &ConfigArgs) -> anyhow::Result<()> {
    let text = args.nic.open()?.config()?;
    let table: toml::Table = toml::from_str(&text).context("the NIC's configuration is no TOML")?;
    print::result(args.nic.json, &table, || text.trim_end().to_owned())
}
