//! `ccnic-kv`: the command line.

use std::process::ExitCode;

use ccnic_kv::server::{Options, run};
use clap::Parser;

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ccnic-kv: {error:#}");
            ExitCode::from(2)
        }
    }
}
