//! `ccnic`: the command line. Subcommands stand on top (`demo`, `bench`, `sim`, `reproduce`, `explore`,
//! `status`, `mac-table`, `flow`, `capture`; `stats` and `top` in `monitor`; `apply`, `config` and `port` in `configure`; `completions`); they use what measures (`loopback`, `micro`), what draws (`plot`) and what prints (`print`),
//! and these use none of the subcommands.

mod bench;
mod capture;
mod clock;
mod completions;
mod configure;
mod cpus;
mod demo;
mod explore;
mod flow;
mod loopback;
mod mac_table;
mod micro;
mod monitor;
mod nic_process;
mod options;
mod plot;
mod print;
mod reproduce;
mod sim;
mod stats;
mod status;

use std::io::IsTerminal;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// Measure, simulate and inspect ccnic, a packet interface over cache-coherent memory
#[derive(Debug, Parser)]
#[command(
    name = "ccnic",
    version,
    after_help = "Start with `ccnic demo`. `ccnic help COMMAND` shows the options of a command."
)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Start a NIC, measure three designs on this machine, print a table and write a page with curves
    Demo(demo::DemoArgs),
    /// Measure the interface, the machine, or DPDK's drivers on this machine
    #[command(subcommand)]
    Bench(bench::BenchCommand),
    /// Simulate the interface on machines with a coherent interconnect (UPI, CXL) or PCIe
    #[command(subcommand)]
    Sim(sim::SimCommand),
    /// Reproduce figures of the CC-NIC paper by simulation, beside the published values
    Reproduce(reproduce::ReproduceArgs),
    /// Simulate designs while one or two parameters vary, and show which design is best where
    Explore(explore::ExploreArgs),
    /// Show the programs and counters of a running NIC
    Status(status::StatusArgs),
    /// Show the addresses that a running switch has learned
    MacTable(mac_table::MacTableArgs),
    /// Show or change the flow rules of a running NIC's programs
    #[command(subcommand)]
    Flow(flow::FlowCommand),
    /// Show every counter of a running NIC's ports and queues; rates, if it is watched
    Stats(monitor::stats::StatsArgs),
    /// Watch the ports and polling cores of a running NIC, live
    Top(monitor::top::TopArgs),
    /// Have a running NIC be as a configuration file says: the difference is applied
    Apply(configure::ApplyArgs),
    /// Print the configuration that a NIC runs with, as a file that can be used
    Config(configure::ConfigArgs),
    /// Show, open, close and change ports of a running NIC that are no programs
    #[command(subcommand)]
    Port(configure::PortCommand),
    /// Write packets of a running switch to a file (pcapng)
    Capture(capture::CaptureArgs),
    /// Print what a shell reads to complete command lines of ccnic or ccnicd
    Completions(completions::CompletionsArgs),
}

fn main() -> ExitCode {
    // A bad option ends with status 2 by clap's own convention; everything else that fails does the same.
    let args = Args::parse();
    let asked = std::env::var("RUST_LOG").ok().and_then(|text| ccnicd::log::filter(&text).ok());
    tracing_subscriber::fmt()
        .with_max_level(LevelFilter::TRACE)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .finish()
        .with(asked.unwrap_or_else(|| Targets::new().with_default(LevelFilter::WARN)))
        .init();
    let done = match &args.command {
        Command::Demo(args) => demo::run(args).map(|()| true),
        Command::Bench(command) => bench::run(command),
        Command::Sim(command) => sim::run(command),
        Command::Reproduce(args) => reproduce::run(args).map(|()| true),
        Command::Explore(args) => explore::run(args).map(|()| true),
        Command::Status(args) => status::run(args).map(|()| true),
        Command::MacTable(args) => mac_table::run(args).map(|()| true),
        Command::Flow(command) => flow::run(command).map(|()| true),
        Command::Stats(args) => monitor::stats::run(args).map(|()| true),
        Command::Top(args) => monitor::top::run(args).map(|()| true),
        Command::Apply(args) => configure::apply(args).map(|()| true),
        Command::Config(args) => configure::config(args).map(|()| true),
        Command::Port(command) => configure::port(command).map(|()| true),
        Command::Capture(args) => capture::run(args).map(|()| true),
        Command::Completions(args) => completions::run(args).map(|()| true),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        // A check has failed, and a message has been printed.
        Ok(false) => ExitCode::FAILURE,
        Err(e) => {
            print::warn(&print::message(&e));
            ExitCode::from(2)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_man_page_names_every_command() {
        let page = include_str!("../../ccnic-capi/man/ccnic.1");
        let named: Vec<&str> = page
            .lines()
            .filter_map(|line| line.strip_prefix(".It Cm ").or_else(|| line.strip_prefix(".Cm ")))
            .filter_map(|rest| rest.split(' ').next())
            .collect();
        for command in Args::command().get_subcommands() {
            for part in std::iter::once(command).chain(command.get_subcommands()) {
                assert!(named.contains(&part.get_name()), "ccnic(1) has no {}", part.get_name());
            }
        }
    }
}
