//! `ccnic bench apps`: a key-value store over the interface's designs and over the kernel's sockets, and memcached, under one load.
//!
//! One server thread on one CPU, the generator (`ccnic-kv-load`) on another. Over ccnic the generator is the NIC of the server's queue
//! pair, so that nothing else is between them. Each row: a closed loop for the most that is answered, an open loop at half of that for
//! latencies, and one request at a time.

mod picture;
mod programs;
mod rows;

use std::path::PathBuf;

use anyhow::Context;
use ccnic::Design;
use ccnic_load::Clock;
use clap::Args;
use clap::builder::PossibleValuesParser;
use serde::Serialize;

use self::programs::{Load, Measured, Programs};
use self::rows::{NAMES, Protocol, Server, pairs};
use crate::clock::MachineClock;
use crate::cpus::warn_if_crowded;
use crate::options;
use crate::print::{self, Column, Progress, Table, units};
use crate::stats::median;

/// As many as tell how fast the time-stamp counter goes.
const TICKS: u64 = 1 << 40;

/// Options of `bench apps`.
#[derive(Debug, Args)]
pub struct AppsArgs {
    /// Sizes of the values: those of Google's ads and geo, as in section 5.7 of the paper
    #[arg(long, value_name = "SIZES", value_delimiter = ',', default_values = ["ads", "geo"],
        value_parser = PossibleValuesParser::new(["ads", "geo", "geo-small"]))]
    workloads: Vec<String>,
    /// Servers: ccnic-kv over a design of the interface (ccnic, paper, e810) or the kernel's sockets (kernel), its store over drivers of DPDK
    /// (net_ccnic, vhost, memif), and memcached
    #[arg(long, value_name = "SERVERS", value_delimiter = ',', default_values = NAMES,
        value_parser = PossibleValuesParser::new(NAMES))]
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

/// Nanoseconds of the server for a request: in all, and in the interface where that is known.
fn server_time(server: Server, measured: &Measured) -> (f64, Option<f64>) {
    if !server.tells_time() {
        return (measured.stat("cpu_ns") / measured.answered.max(1) as f64, None);
    }
    let (requests, sampled) = (measured.stat("nic_requests").max(1.0), measured.stat("nic_sampled").max(1.0));
    let busy = measured.stat("nic_busy_ns") / requests;
    (busy, Some(busy - measured.stat("nic_sampled_store_ns") / sampled))
}

/// Measures and prints.
pub fn run(args: &AppsArgs) -> anyhow::Result<()> {
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
    let programs = Programs::find()?;
    warn_if_crowded(1)?;
    let mut pairs = pairs(&args.servers);
    let mut lacking: Vec<String> = pairs
        .iter()
        .filter_map(|(server, _)| Some((server.name(), programs.lacks(*server)?)))
        .map(lacks)
        .collect();
    lacking.dedup();
    lacking.iter().for_each(|why| print::warn(why));
    pairs.retain(|(server, _)| programs.lacks(*server).is_none());
    if programs.small_pages() && pairs.iter().any(|(server, _)| matches!(server, Server::Dpdk(_))) {
        lacking.push("Programs of DPDK use pages of 4 KiB: too few of 2 MiB are free.".to_owned());
    }
    let steps = args.rounds * args.workloads.len() * pairs.len();
    let progress = Progress::of_measurements("apps", steps, args.json);
    let mut rows = Vec::new();
    for workload in &args.workloads {
        let mut rounds = vec![Vec::new(); pairs.len()];
        for number in 1..=args.rounds {
            for ((server, protocol), rounds) in pairs.iter().zip(&mut rounds) {
                progress.say(format!("round {number}: {workload}, {}, {}", server.name(), protocol.name()));
                rounds.push(round(&programs, args, workload, *server, *protocol)?);
                progress.step();
            }
        }
        let ghz = TICKS as f64 / MachineClock::new(true).nanoseconds(TICKS).max(1) as f64;
        let peak = args.nic_peak.or(published_peak(workload));
        rows.extend(
            pairs.iter().zip(rounds).map(|(pair, rounds)| Row::of(workload, *pair, ghz, peak, rounds)),
        );
    }
    drop(progress);
    for name in &args.workloads {
        if let Some(out) = &args.out {
            picture::save(&of_workload(&rows, name), name, out)?;
        }
    }
    print::result(args.json, &rows, || {
        args.workloads.iter().map(|name| table(args, name, &rows, &lacking).text()).collect()
    })
}

/// The three loads of a row.
fn round(
    programs: &Programs,
    args: &AppsArgs,
    workload: &str,
    server: Server,
    protocol: Protocol,
) -> anyhow::Result<Round> {
    let load = Load {
        workload,
        objects: args.objects,
        inflight: args.inflight,
        rate: None,
        gets_only: false,
        frame: server.frame(args.frame),
        largest: server.largest(server.frame(args.frame)),
        seconds: args.seconds,
    };
    let peak = programs.measure(server, protocol, &load)?;
    let half_load = Load { rate: Some((peak.requests_per_s / 2.0).max(1.0)), ..load.clone() };
    let half = programs.measure(server, protocol, &half_load)?;
    let lone = programs.measure(server, protocol, &Load { inflight: 1, gets_only: true, ..load })?;
    let (server_ns, interface_ns) = server_time(server, &peak);
    let at = |measured: &Measured, get: fn(&programs::Latency) -> f64| {
        measured.latency_ns.as_ref().map_or(0.0, get)
    };
    let all = [&peak, &half, &lone];
    Ok(Round {
        peak: peak.requests_per_s,
        server_ns,
        interface_ns,
        half_p50_ns: at(&half, |latency| latency.p50),
        half_p99_ns: at(&half, |latency| latency.p99),
        lone: lone.requests_per_s,
        lone_server_ns: server_time(server, &lone).0,
        lone_p50_ns: at(&lone, |latency| latency.p50),
        lost: all.iter().map(|measured| measured.lost).sum(),
        refused: all.iter().map(|measured| measured.refused).sum(),
        unsent: half.unsent,
    })
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

/// Why a server is missing.
fn lacks((name, why): (&str, String)) -> String {
    format!("{name}: SKIPPED, {why}.")
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

    fn measured(stats: &[(&str, f64)]) -> Measured {
        Measured {
            requests_per_s: 1e6,
            answered: 1000,
            latency_ns: None,
            lost: 0,
            unsent: 0,
            refused: 0,
            server_stats: Some(stats.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()),
        }
    }

    #[test]
    fn the_store_s_time_is_not_the_interface_s() {
        let ccnic = Server::Ccnic(ccnic::Design::default());
        let stats = [
            ("nic_requests", 200.0),
            ("nic_busy_ns", 1e5),
            ("nic_sampled", 10.0),
            ("nic_sampled_store_ns", 3e3),
        ];
        assert_eq!(server_time(ccnic, &measured(&stats)), (500.0, Some(200.0)));
        assert_eq!(server_time(Server::Memcached, &measured(&[("cpu_ns", 7e6)])), (7000.0, None));
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
        let lacking = [lacks(("vhost", "not there".to_owned()))];
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
