//! `ccnic-kv-load`: see `command.rs`.

use std::process::ExitCode;

use ccnic_kv_load::command::{Args, measure};
use clap::Parser;

fn main() -> ExitCode {
    match measure(&Args::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("ccnic-kv-load: {error:#}");
            ExitCode::from(2)
        }
    }
}
