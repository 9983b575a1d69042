//! `ccnic`: demo, benchmarks and status of the CC-NIC interface. One file per subcommand.

mod bench;
mod clock;
mod cpus;
mod demo;
mod explore;
mod loopback;
mod micro;
mod nic_process;
mod peers;
mod plot;
mod report;
mod reproduce;
mod sim;
mod status;

use std::io::IsTerminal;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tracing_subscriber::EnvFilter;

/// A packet interface over cache-coherent memory.
#[derive(Debug, Parser)]
#[command(name = "ccnic", version)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Start a NIC, send packets through it in three designs, show what was measured
    Demo(demo::DemoArgs),
    /// Measure the interface, or the machine under it
    #[command(subcommand)]
    Bench(bench::BenchCommand),
    /// Simulate the interface on machines with coherent interconnects
    #[command(subcommand)]
    Sim(sim::SimCommand),
    /// Reproduce the CC-NIC paper's figures by simulation
    Reproduce(reproduce::ReproduceArgs),
    /// Vary a simulated machine, and see which design wins where
    Explore(explore::ExploreArgs),
    /// Show what a running NIC does
    Status(status::StatusArgs),
}

fn main() -> ExitCode {
    // A bad option ends with status 2 by clap's own convention; everything else that fails does the same.
    let args = Args::parse();
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
    let done = match &args.command {
        Command::Demo(args) => demo::run(args).map(|()| true),
        Command::Bench(command) => bench::run(command),
        Command::Sim(command) => sim::run(command),
        Command::Reproduce(args) => reproduce::run(args).map(|()| true),
        Command::Explore(args) => explore::run(args).map(|()| true),
        Command::Status(args) => status::run(args).map(|()| true),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        // A check has failed and said so.
        Ok(false) => ExitCode::FAILURE,
        Err(e) => {
            eprintln!("ccnic: {e:#}");
            ExitCode::from(2)
        }
    }
}
