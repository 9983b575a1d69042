//! `ccnic bench apps`: a key-value store over the interface's designs and over the kernel's sockets, and memcached, under one load.
//!
//! One server thread on one CPU, the generator (`ccnic-kv-load`) on another. Over ccnic the generator is the NIC of the server's queue
//! pair, so that nothing else is between them. Each row: a closed loop for the most that is answered, an open loop at half of that for
//! latencies, and one request at a time.

mod measure;
mod picture;
mod programs;
mod rows;

use std::path::PathBuf;

use anyhow::Context;
use ccnic::Design;
use clap::Args;
use clap::builder::PossibleValuesParser;
use serde::Serialize;

use self::measure::{LeftOut, Outcome};
use self::programs::Programs;
use self::rows::{NAMES, Protocol, Server};
use crate::cpus::warn_if_crowded;
use crate::options;
use crate::print::{self, Column, Table, units};
use crate::stats::median;

/// Options of `bench apps`.
#[derive(Debug, Args)]
pub struct AppsArgs {
    /// Sizes of the values: those of Google's ads and geo, as in section 5.7 of the paper
    #[arg(long, value_name = "SIZES", value_delimiter = ',', default_values = ["ads", "geo"],
        value_parser = PossibleValuesParser::new(["ads", "geo", "geo-small"]))]
    workloads: Vec<String>,
    /// Servers: ccnic-kv over a design of the interface (ccnic, paper, e810) or the kernel's sockets (kernel), its store over drivers of DPDK
    /// (net_ccnic, vhost, memif), and memcached [default: all that there are here]
    #[arg(long, value_name = "SERVERS", value_delimiter = ',', value_parser = PossibleValuesParser::new(NAMES))]
    servers: Vec<String>,
    /// Objects in the store
    #[arg(long, default_value_t = 1_000_000)]
    objects: u32,
    /// Requests in flight in the closed loop
    #[arg(long, default_value_t = 64, value_name = "REQUESTS")]
    inflight: usize,
    /// Seconds to measure each load in each round
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// Rounds that each load is measured in; medians are shown
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Million requests/s of the NIC that server threads are counted for [default: of the paper's NIC, ads 37.0, geo 17.8]
    #[arg(long, value_name = "RATE")]
    nic_peak: Option<f64>,
    /// Bytes of the longest frame, and so of the mbufs, over drivers of DPDK; memif takes 1518 at most. Larger values are cut. Mbufs of up
    /// to 4096 bytes are sent over net_ccnic without a copy
    #[arg(long, default_value_t = 9600, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(256..=9600))]
    frame: u32,
    /// Draw pictures into this folder: apps-WORKLOAD.svg and .png
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Print JSON, with every round
    #[arg(long)]
    json: bool,
}

/// One row in one round.
#[derive(Debug, Clone, Copy, Default, Serialize)]
struct Round {
    /// Requests a second in the closed loop.
    peak: f64,
    /// Nanoseconds of the server for a request, at the peak: of polls that brought some over ccnic, of the process over the kernel.
    server_ns: f64,
    /// Of it, in the interface; over ccnic only.
    interface_ns: Option<f64>,
    /// In an open loop at half of the peak, from when each request was due.
    half_p50_ns: f64,
    half_p99_ns: f64,
    /// Gets only, one at a time: requests a second, and nanoseconds of the server for each.
    lone: f64,
    lone_server_ns: f64,
    lone_p50_ns: f64,
    /// Without an answer in all of these, refused, and due and not sent at half of the peak.
    lost: u64,
    refused: u64,
    unsent: u64,
}

/// One row: medians over the rounds.
#[derive(Debug, Clone, Serialize)]
struct Row {
    workload: String,
    server: &'static str,
    protocol: Protocol,
    median: Round,
    /// Cycles of the processor's time-stamp counter in the interface for a request.
    interface_cycles: Option<f64>,
    /// Server threads for 95 % of the NIC's peak, computed: from nanoseconds of the server for a request.
    threads: Option<f64>,
    rounds: Vec<Round>,
}

/// What is told of a row.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Told<'a> {
    Row(&'a Row),
    LeftOut(&'a LeftOut),
}

impl Row {
    /// `nic_peak`: of the NIC that threads are counted for, in million requests a second.
    fn of(
        workload: &str,
        (server, protocol): (Server, Protocol),
        ghz: f64,
        nic_peak: Option<f64>,
        rounds: Vec<Round>,
    ) -> Row {
        let of = |field: fn(&Round) -> f64| median(rounds.iter().map(field));
        let interface = rounds.iter().all(|round| round.interface_ns.is_some());
        let middle = Round {
            peak: of(|round| round.peak),
            server_ns: of(|round| round.server_ns),
            interface_ns: interface.then(|| median(rounds.iter().filter_map(|round| round.interface_ns))),
            half_p50_ns: of(|round| round.half_p50_ns),
            half_p99_ns: of(|round| round.half_p99_ns),
            lone: of(|round| round.lone),
            lone_server_ns: of(|round| round.lone_server_ns),
            lone_p50_ns: of(|round| round.lone_p50_ns),
            lost: rounds.iter().map(|round| round.lost).sum(),
            refused: rounds.iter().map(|round| round.refused).sum(),
            unsent: rounds.iter().map(|round| round.unsent).sum(),
        };
        Row {
            workload: workload.to_owned(),
            server: server.name(),
            protocol,
            median: middle,
            interface_cycles: middle.interface_ns.map(|ns| ns * ghz),
            threads: nic_peak.map(|peak| threads(peak, middle.server_ns)),
            rounds,
        }
    }
}

/// The peak of the NIC of section 5.7, a ConnectX-6, in million requests a second (table 2): an input here.
fn published_peak(workload: &str) -> Option<f64> {
    match workload {
        "ads" => Some(37.0),
        "geo" => Some(17.8),
        _ => None,
    }
}

/// The fewest threads that answer 95 % of a NIC's peak, as section 5.7 counts them, where one takes so many nanoseconds for a request and
/// threads share nothing.
fn threads(peak: f64, server_ns: f64) -> f64 {
    (0.95 * peak * server_ns / 1e3).ceil()
}

/// Measures and prints. False when a row failed, or is left out though its server was named.
pub fn run(args: &AppsArgs) -> anyhow::Result<bool> {
    check(args)?;
    let programs = Programs::find()?;
    warn_if_crowded(1)?;
    let Outcome { rows, missing, notes, good } = measure::all(&programs, args);
    for name in &args.workloads {
        let of = of_workload(&rows, name);
        if let Some(out) = args.out.as_deref().filter(|_| !of.is_empty()) {
            picture::save(&of, name, out)?;
        }
    }
    let told: Vec<Told<'_>> = rows.iter().map(Told::Row).chain(missing.iter().map(Told::LeftOut)).collect();
    print::result(args.json, &told, || {
        args.workloads.iter().map(|name| table(args, name, &rows, &notes).text()).collect()
    })?;
    Ok(good)
}

fn check(args: &AppsArgs) -> anyhow::Result<()> {
    options::rounds(args.rounds)?;
    let holds = args.seconds > 0.0 && args.seconds <= 3600.0;
    anyhow::ensure!(holds, "--seconds is {}; choose more than 0, up to 3600", args.seconds);
    if let Some(peak) = args.nic_peak {
        let holds = peak > 0.0 && peak <= 1e6;
        anyhow::ensure!(holds, "--nic-peak is {peak}; choose more than 0, up to 1000000 million requests/s");
    }
    if let Some(out) = &args.out {
        std::fs::create_dir_all(out)
            .with_context(|| format!("could not make {}; choose another --out", out.display()))?;
    }
    Ok(())
}

fn of_workload<'a>(rows: &'a [Row], name: &str) -> Vec<&'a Row> {
    rows.iter().filter(|row| row.workload == name).collect()
}

/// How many times as many requests the default design answers as others, for those that were measured.
fn ratios(rows: &[&Row]) -> Option<String> {
    let peak = |server: &str, protocol: Protocol| {
        let row = rows.iter().find(|row| row.server == server && row.protocol == protocol)?;
        (row.median.peak > 0.0).then_some(row.median.peak)
    };
    let ours = peak(Design::default().name(), Protocol::Rpc)?;
    let others = [
        ("paper", Protocol::Rpc),
        ("e810", Protocol::Rpc),
        ("vhost", Protocol::Rpc),
        ("memif", Protocol::Rpc),
        ("memcached", Protocol::Udp),
        ("memcached", Protocol::Tcp),
    ];
    let said = others.into_iter().filter_map(|(server, protocol)| {
        Some(format!("{:.2} of {server} ({})", ours / peak(server, protocol)?, protocol.name()))
    });
    let said: Vec<String> = said.collect();
    (!said.is_empty())
        .then(|| format!("ccnic (rpc) answers, at the peak, as a multiple: {}.", said.join(", ")))
}

/// What the column of threads says, and how many the default design saves.
fn threads_note(args: &AppsArgs, workload: &str, rows: &[&Row]) -> Option<String> {
    let (peak, whose) = match (args.nic_peak, published_peak(workload)) {
        (Some(peak), _) => (peak, "--nic-peak"),
        (None, Some(peak)) => (peak, "the NIC's peak in the paper's table 2, an input"),
        (None, None) => return None,
    };
    let of = |server: &str| {
        let row = rows.iter().find(|row| row.server == server && row.protocol == Protocol::Rpc)?;
        row.threads
    };
    let saved = match (of("e810"), of(Design::default().name())) {
        (Some(before), Some(after)) => format!(" rpc, e810 to ccnic: {before:.0} to {after:.0} threads."),
        _ => String::new(),
    };
    Some(format!(
        "threads: server threads for 95 % of {peak:.1} M/s ({whose}). Computed from the server's time for a request, as if threads \
         shared nothing, not measured: there is one.{saved}"
    ))
}

fn table(args: &AppsArgs, workload: &str, rows: &[Row], lacking: &[String]) -> Table {
    let title = format!(
        "{workload}: {} objects, 95 % gets, Zipf 0.75, one server thread; medians of {} of {} s",
        args.objects,
        units::count(args.rounds, "round"),
        args.seconds
    );
    let columns = [
        Column::text("server"),
        Column::text("over"),
        Column::number("peak\nM/s"),
        Column::number("server\nns"),
        Column::number("interface\ncycles"),
        Column::number("threads\nfor 95 %"),
        Column::number("half\np50 \u{b5}s"),
        Column::number("load\np99 \u{b5}s"),
        Column::number("lone get\nM/s"),
        Column::number("its\nserver ns"),
        Column::number("lost"),
    ];
    let mut table = Table::new(title, columns);
    let mut unwell = 0;
    let rows = of_workload(rows, workload);
    for row in &rows {
        let round = &row.median;
        unwell += round.refused + round.unsent;
        table.row([
            row.server.to_owned(),
            row.protocol.name().to_owned(),
            format!("{:.3}", round.peak / 1e6),
            format!("{:.0}", round.server_ns),
            row.interface_cycles.map_or("-".to_owned(), |cycles| format!("{cycles:.0}")),
            row.threads.map_or("-".to_owned(), |threads| format!("{threads:.0}")),
            format!("{:.1}", round.half_p50_ns / 1e3),
            format!("{:.1}", round.half_p99_ns / 1e3),
            format!("{:.3}", round.lone / 1e6),
            format!("{:.0}", round.lone_server_ns),
            round.lost.to_string(),
        ]);
    }
    table.note(format!(
        "ccnic, paper, e810: ccnic-kv over that design, the generator is the NIC. net_ccnic, vhost, memif: its store in a program of DPDK on that \
         driver, the generator at the other end (memif: values of up to 1400 bytes only). kernel: ccnic-kv over the kernel's loopback. \
         peak: closed loop, {} in flight. server: its CPU's time for a request at the peak, of polls that brought some; interface: \
         what of that is not the store's (sampled), in cycles of the time-stamp counter. half load: open loop at half of the peak, \
         Poisson, from when each request was due.",
        args.inflight
    ));
    if let Some(note) = threads_note(args, workload, &rows) {
        table.note(note);
    }
    lacking.iter().for_each(|why| table.note(why.clone()));
    if let Some(ratios) = ratios(&rows) {
        table.note(ratios);
    }
    table.note(if unwell == 0 {
        "Every value was verified.".to_owned()
    } else {
        format!("Every value was verified. {unwell} requests were refused, or due and not sent: see --json.")
    });
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::print::longest_line;
    use clap::Parser;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        args: AppsArgs,
    }

    #[test]
    fn the_table_fits_and_tells_what_was_lost() {
        let args = Command::parse_from(["x", "--servers", "ccnic,memcached", "--workloads", "geo"]).args;
        let round = |peak, lost| Round {
            peak,
            server_ns: 300.0,
            interface_ns: Some(100.0),
            lost,
            ..Round::default()
        };
        let pair = (Server::Ccnic(ccnic::Design::default()), Protocol::Rpc);
        let row = Row::of(
            "geo",
            pair,
            2.5,
            published_peak("geo"),
            vec![round(1e6, 0), round(3e6, 7), round(2e6, 0)],
        );
        assert_eq!((row.median.peak, row.interface_cycles, row.threads), (2e6, Some(250.0), Some(6.0)));
        let lacking = [measure::left_out("vhost", "not there")];
        let text = table(&args, "geo", &[row], &lacking).in_width(100);
        assert!(text.contains("vhost: SKIPPED, not there."), "{text}");
        assert!(longest_line(&text) <= 100, "{text}");
        let cells: Vec<&str> =
            text.lines().find(|l| l.trim_start().starts_with("ccnic ")).unwrap().split_whitespace().collect();
        assert_eq!(cells[..6], ["ccnic", "rpc", "2.000", "300", "250", "6"], "{text}");
        assert_eq!(cells.last(), Some(&"7"));
    }

    #[test]
    fn threads_are_the_fewest_for_95_percent_of_a_peak() {
        assert_eq!((threads(20.0, 1000.0), threads(20.1, 1000.0), threads(20.0, 10.0)), (19.0, 20.0, 1.0));
        let row = |server, protocol, ns| {
            let round = Round { server_ns: ns, ..Round::default() };
            Row::of("geo-small", (server, protocol), 2.5, Some(20.0), vec![round])
        };
        let rows = [
            row(Server::Ccnic(ccnic::Design::Doorbell), Protocol::Rpc, 1000.0),
            row(Server::Ccnic(ccnic::Design::default()), Protocol::Rpc, 500.0),
            row(Server::Ccnic(ccnic::Design::default()), Protocol::Udp, 700.0),
        ];
        let rows: Vec<&Row> = rows.iter().collect();
        let args = |options: &[&str]| Command::parse_from([&["x"], options].concat()).args;
        let note = threads_note(&args(&["--nic-peak", "20"]), "geo-small", &rows).unwrap();
        assert!(note.contains("20.0 M/s (--nic-peak)") && note.contains("19 to 10 threads"), "{note}");
        assert_eq!(threads_note(&args(&[]), "geo-small", &rows), None, "the paper has no peak for it");
        assert!(threads_note(&args(&[]), "ads", &rows[..1]).unwrap().contains("37.0 M/s"));
    }
}
