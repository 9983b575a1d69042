//! `ccnic bench`: its subcommands and how their results are printed.

use std::io::Write;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use comfy_table::{CellAlignment, LineStyle, Table};
use indicatif::ProgressBar;
use serde::Serialize;

use crate::cpus::Split;
use crate::loopback::{Bench, InterfaceArgs, Outcomes, TrafficArgs, sweep};
use crate::micro::limit::{self, Limit};
use crate::micro::{pingpong, stream};
use crate::peers;

/// What to measure.
#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    /// Packets from a program through the NIC and back
    Loopback(LoopbackArgs),
    /// What the machine allows, with no protocol: lines per second both ways, round trip of a word
    Limit(MicroArgs),
    /// A word there and back, on one line and on two (CC-NIC figure 8)
    Pingpong(MicroArgs),
    /// A stream of data, with caching and with non-temporal stores (CC-NIC figure 9)
    Stream(MicroArgs),
    /// The DPDK drivers that a program could use instead, and ours: one load generator, one table
    Peers(peers::PeersArgs),
}

/// Options of `bench loopback`.
#[derive(Debug, Args)]
pub struct LoopbackArgs {
    #[command(flatten)]
    traffic: TrafficArgs,
    #[command(flatten)]
    interface: InterfaceArgs,
    /// Raise the offered load from one packet in flight to saturation
    #[arg(long, conflicts_with = "rate")]
    sweep: bool,
    /// The NIC returns the same buffer without a copy
    #[arg(long, conflicts_with = "socket")]
    reflect: bool,
    /// Use the NIC that runs at this socket [default: start one]
    #[arg(long)]
    socket: Option<PathBuf>,
    /// Do not measure what the machine allows first
    #[arg(long)]
    no_limit: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Options of the measurements of the machine.
#[derive(Debug, Args)]
pub struct MicroArgs {
    /// Seconds to measure
    #[arg(long, default_value_t = 4.0)]
    seconds: f64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs a measurement and prints its result; false when it shows that something is broken.
pub fn run(command: &BenchCommand) -> anyhow::Result<bool> {
    match command {
        BenchCommand::Peers(args) => return peers::run(args),
        BenchCommand::Loopback(args) => loopback(args),
        BenchCommand::Limit(args) => {
            let limit = measure_limit(args.seconds)?;
            print(args.json, &limit, || limit_table(&limit))
        }
        BenchCommand::Pingpong(args) => {
            let cases = [
                (pingpong::Words::Shared, false),
                (pingpong::Words::Shared, true),
                (pingpong::Words::Separate, false),
                (pingpong::Words::Separate, true),
            ];
            let each = args.seconds / cases.len() as f64;
            let played =
                cases.iter().map(|&(w, d)| pingpong::measure(w, d, each)).collect::<Result<Vec<_>, _>>()?;
            print(args.json, &played, || pingpong_table(&played))
        }
        BenchCommand::Stream(args) => {
            let kinds = [stream::Stores::Caching, stream::Stores::NonTemporal];
            let streams = kinds
                .iter()
                .map(|&s| stream::measure(s, args.seconds / 2.0))
                .collect::<Result<Vec<_>, _>>()?;
            print(args.json, &streams, || stream_table(&streams))
        }
    }?;
    Ok(true)
}

fn loopback(args: &LoopbackArgs) -> anyhow::Result<()> {
    let config = args.interface.config(args.traffic.queues);
    args.traffic.check(&config)?;
    warn_if_crowded(args.traffic.queues)?;
    let limit = if args.no_limit { None } else { Some(measure_limit(3.0)?) };
    let bench = Bench::new(args.socket.clone(), args.traffic.queues, args.reflect)?;
    if args.sweep {
        let bar = spinner("sweep");
        let points = sweep(&bench, &config, &args.traffic, limit.as_ref(), |p| bar.set_message(point(p)))?;
        bar.finish_and_clear();
        return print(args.json, &points, || outcomes_table(&points));
    }
    let bar = spinner("loopback");
    let outcomes = bench.run(&config, &args.traffic, limit.as_ref())?;
    bar.finish_and_clear();
    print(args.json, &outcomes, || outcomes_table(std::slice::from_ref(&outcomes)))
}

/// Says so when threads must share CPUs: the figures then tell little about the interface.
pub fn warn_if_crowded(queues: u16) -> anyhow::Result<()> {
    let split = Split::of_machine()?;
    if split.host == split.nic {
        eprintln!("ccnic: one CPU only: both sides take turns on it, slowly");
    } else if !split.alone(queues.into()) {
        let (host, nic) = (split.host.len(), split.nic.len());
        eprintln!("ccnic: {queues} queues share {host} program and {nic} NIC CPUs: threads take turns");
    }
    Ok(())
}

/// Measures the limit behind a progress display.
pub fn measure_limit(seconds: f64) -> anyhow::Result<Limit> {
    let bar = spinner("limit");
    let limit = limit::measure(seconds, |step| bar.set_message(step.to_owned()))?;
    bar.finish_and_clear();
    Ok(limit)
}

/// A progress display on the terminal; nothing when there is none.
pub fn spinner(name: &'static str) -> ProgressBar {
    let bar = ProgressBar::new_spinner().with_prefix(name);
    if let Ok(style) = indicatif::ProgressStyle::with_template("{spinner} {prefix}: {msg}") {
        bar.set_style(style);
    }
    // Drawn when a step begins and not from a thread of its own: the cores are being measured.
    bar.tick();
    bar
}

fn point(p: &Outcomes) -> String {
    format!("{:.2} Mpps, p50 {} ns", p.mpps, p.rtt_ns.p50)
}

/// Prints a result.
pub fn print<T: Serialize>(json: bool, value: &T, table: impl FnOnce() -> Table) -> anyhow::Result<()> {
    let text = if json { serde_json::to_string_pretty(value)? } else { table().to_string() };
    // A reader that has gone (`| head`) is no failure.
    let _ = writeln!(std::io::stdout(), "{text}");
    Ok(())
}

/// An empty table with this project's looks; all columns but the first are numbers.
pub fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_HORIZONTAL_ONLY).set_header(header.to_vec());
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// A table of many rows, with no lines between them.
pub fn long_table(header: &[&str]) -> Table {
    let mut table = table(header);
    table.style_mut().row_separator = LineStyle::none();
    table
}

fn outcomes_table(outcomes: &[Outcomes]) -> Table {
    let header = ["design", "bytes", "Mpps", "Gb/s", "of limit", "p50 ns", "p99 ns", "lost", "corrupt"];
    let mut table = table(&header);
    for o in outcomes {
        table.add_row(vec![
            o.design.to_owned(),
            o.size.to_string(),
            format!("{:.2}", o.mpps),
            format!("{:.2}", o.gbps),
            o.limit_share.map_or_else(|| "-".to_owned(), |s| format!("{:.0} %", s * 100.0)),
            o.rtt_ns.p50.to_string(),
            o.rtt_ns.p99.to_string(),
            o.lost.to_string(),
            o.corrupt.to_string(),
        ]);
    }
    table
}

fn limit_table(limit: &Limit) -> Table {
    let mut table = table(&["what two cores can hand each other, both ways at once", "each way"]);
    table.add_row(["single lines, shuffled".to_owned(), format!("{:.1} M lines/s", limit.line_mlps)]);
    table.add_row(["lines in runs".to_owned(), format!("{:.1} M lines/s", limit.run_mlps)]);
    table
        .add_row(["word there and back, one line".to_owned(), format!("{:.0} ns", limit.word_rtt_ns.shared)]);
    table.add_row([
        "word there and back, two lines".to_owned(),
        format!("{:.0} ns", limit.word_rtt_ns.separate),
    ]);
    table
}

fn pingpong_table(played: &[pingpong::PingPong]) -> Table {
    let mut table = table(&["words", "p50 ns", "p99 ns", "round trips"]);
    for p in played {
        let words = match p.words {
            pingpong::Words::Shared => "one line",
            pingpong::Words::Separate => "two lines",
        };
        let name = if p.demote { format!("{words}, demoted") } else { words.to_owned() };
        table.add_row([name, format!("{:.0}", p.p50_ns), format!("{:.0}", p.p99_ns), p.rounds.to_string()]);
    }
    table
}

fn stream_table(streams: &[stream::Stream]) -> Table {
    let mut table = table(&["stores", "Gb/s", "MB"]);
    for s in streams {
        let name = match s.stores {
            stream::Stores::Caching => "through the cache",
            stream::Stores::NonTemporal => "around it",
        };
        table.add_row([name.to_owned(), format!("{:.1}", s.gbps), s.megabytes.to_string()]);
    }
    table
}
