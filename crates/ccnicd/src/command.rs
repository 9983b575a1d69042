//! The command line of `ccnicd`.

use std::path::PathBuf;

use clap::Parser;

use crate::config::Config;

/// The ccnic NIC daemon: serves programs over cache-coherent shared memory.
#[derive(Debug, Parser)]
#[command(name = "ccnicd", version)]
pub struct Args {
    /// Read the configuration from a TOML file (docs/configuration.md); flags come before what it says
    #[arg(long = "config", value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Say whether the configuration can be used, and end
    #[arg(long)]
    pub check_config: bool,
    /// With --check-config: print JSON, each error with file, line, key and message
    #[arg(long, requires = "check_config")]
    pub json: bool,
    /// Print the JSON schema of the configuration file, and end
    #[arg(long)]
    pub config_schema: bool,
    #[allow(missing_docs, reason = "what is flattened has no text of its own")]
    #[command(flatten)]
    pub config: Config,
    /// Measure on this machine what --tuning chooses, print a table, keep the result for later starts, and end. Needs a polling CPU
    /// and another one that are idle
    #[arg(long, conflicts_with = "tuning")]
    pub tune: bool,
}
