//! `ccnic completions`: what a shell completes on the command lines of `ccnic` and `ccnicd`.

use std::io::Write;

use anyhow::Context;
use clap::{Args, CommandFactory, ValueEnum};
use clap_complete::{Shell, generate};

/// Options of `completions`.
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// The shell that reads it
    #[arg(value_enum)]
    shell: Shell,
    /// The program whose command line is completed
    #[arg(value_enum, default_value_t = Program::Ccnic)]
    program: Program,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Program {
    Ccnic,
    Ccnicd,
}

/// Prints a script for the shell.
pub fn run(args: &CompletionsArgs) -> anyhow::Result<()> {
    let mut script = Vec::new();
    match args.program {
        Program::Ccnic => generate(args.shell, &mut crate::Args::command(), "ccnic", &mut script),
        Program::Ccnicd => {
            generate(args.shell, &mut ccnicd::command::Args::command(), "ccnicd", &mut script);
        }
    }
    std::io::stdout().write_all(&script).context("could not write the script")
}
