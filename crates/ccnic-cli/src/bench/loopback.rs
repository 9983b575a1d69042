//! `ccnic bench loopback`: packets from programs through the NIC and back (CC-NIC section 5.1).

use std::path::PathBuf;

use clap::Args;

use super::machine::measure_limit;
use crate::cpus::{warn_if_crowded, warn_if_disturbed};
use crate::loopback::Bench;
use crate::loopback::notes;
use crate::loopback::rounds::{Offered, Outcomes, ROUNDS, Rounds, Workload};
use crate::options::{self, InterfaceArgs, SHARES, TrafficArgs};
use crate::print::{self, Column, Progress, Table, units};

/// Seconds that the limit is measured before the first round.
const LIMIT_SECONDS: f64 = 2.0;

/// Options of `bench loopback`.
#[derive(Debug, Args)]
pub struct LoopbackArgs {
    #[command(flatten)]
    traffic: TrafficArgs,
    /// Rounds that each load is measured in; medians are shown
    #[arg(long, default_value_t = ROUNDS)]
    rounds: usize,
    #[command(flatten)]
    interface: InterfaceArgs,
    /// Measure a throughput-latency curve: one packet in flight, then 10 to 90 % of the peak, then the peak
    #[arg(long, conflicts_with = "rate")]
    sweep: bool,
    /// Have the NIC return each packet's own buffer instead of a copy
    #[arg(long, conflicts_with = "socket")]
    reflect: bool,
    /// Use the NIC that listens at this socket [default: start a ccnicd for this measurement]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Do not measure the machine's limit
    #[arg(long)]
    no_limit: bool,
    /// Print JSON, with every round
    #[arg(long)]
    json: bool,
}

/// Measures and prints.
pub fn run(args: &LoopbackArgs) -> anyhow::Result<()> {
    let config = args.interface.config(args.traffic.queues);
    args.traffic.check(&config, "--queues")?;
    options::rounds(args.rounds)?;
    let traffic = args.traffic.clone();
    let workload =
        if args.sweep { Workload::sweep(config, traffic, &SHARES) } else { Workload::point(config, traffic) };
    // A NIC that is not there is reported before anything is measured.
    let bench = Bench::new(args.socket.clone(), args.traffic.queues, args.reflect)?;
    warn_if_crowded(args.traffic.queues)?;
    let limit = if args.no_limit { None } else { Some(measure_limit(LIMIT_SECONDS, args.json)?) };
    let rounds = Rounds { bench: &bench, number: args.rounds, limit: limit.as_ref() };
    let workloads = [workload];
    let progress = Progress::of_measurements("loopback", Rounds::steps(args.rounds, &workloads), args.json);
    let points = rounds.measure(&workloads, &progress)?.concat();
    drop(progress);
    let [workload] = &workloads;
    warn_if_disturbed(points.iter().flat_map(Outcomes::cpu_shares));
    let text = || table(workload, args.rounds, &points).text();
    match points.as_slice() {
        [point] if !args.sweep => print::result(args.json, point, text),
        points => print::result(args.json, &points, text),
    }
}

fn table(workload: &Workload, rounds: usize, points: &[Outcomes]) -> Table {
    let Workload { config, traffic, loads } = workload;
    let title = format!(
        "{}, {} B packets, {}, bursts of {}: medians of {} of {} s",
        config.design.name(),
        traffic.size,
        units::count(config.queues.into(), "queue pair"),
        traffic.burst,
        units::count(rounds, "round"),
        traffic.seconds
    );
    let columns = [
        Column::text("load"),
        Column::number("Mpps"),
        Column::number("Mpps\nmin\u{2013}max"),
        Column::number("Gb/s"),
        Column::number("of\nref."),
        Column::number("p50\nns"),
        Column::number("p50 ns\nmin\u{2013}max"),
        Column::number("p99\nns"),
    ];
    let mut table = Table::new(title, columns);
    for (load, o) in loads.iter().zip(points) {
        table.row([
            load.name(),
            units::rate(o.mpps),
            units::range(&o.spread.mpps, units::rate),
            units::rate(o.gbps),
            units::percent(o.limit_share),
            units::ns(o.rtt_ns.p50 as f64),
            units::range(&o.spread.p50_ns, units::ns),
            units::ns(o.rtt_ns.p99 as f64),
        ]);
    }
    let of_peak = loads.iter().any(|load| matches!(load, Offered::Share(_)));
    let shares = if of_peak { "; %: of the maximum of the same round" } else { "" };
    table.note(format!(
        "load: what is offered, at most {} in flight per queue pair{shares}. p50, p99: median and 99th percentile of the round \
         trip. min\u{2013}max: of the rounds.",
        units::count(traffic.inflight, "packet")
    ));
    if let Some(limit) = points.last().and_then(|o| o.limit_mpps) {
        table.note(notes::limit(traffic.size, limit));
        table.note("of ref.: share of the reference, median of the rounds, each by its own.");
    }
    points.last().map(notes::placement).unwrap_or_default().into_iter().for_each(|note| table.note(note));
    table.note(notes::damage(points));
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loopback::rounds::{Round, samples};
    use crate::print::longest_line;

    fn points(workload: &Workload, rounds: &[Round]) -> Vec<Outcomes> {
        workload.loads.iter().map(|load| Outcomes::of(workload, *load, rounds.to_vec())).collect()
    }

    #[test]
    fn a_sweep_fits_80_columns_and_its_shares_follow_from_the_table() {
        let rounds = [
            samples::round(8.5, 123_456, 100.0),
            samples::round(20.0, 123_456, 100.0),
            samples::round(24.26, 12_345_678, 430.0),
        ];
        let workload = samples::workload(64, &SHARES);
        let text = table(&workload, 9, &points(&workload, &rounds)).in_width(80);
        assert!(longest_line(&text) <= 80, "{text}");
        let row = text.lines().find(|line| line.starts_with("maximum")).unwrap();
        let cells: Vec<&str> = row.split_whitespace().collect();
        assert_eq!(cells[..6], ["maximum", "20.0", "8.50\u{2013}24.3", "10.0", "50", "%"], "{text}");
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains("reference: 40.0 Mpps") && words.contains("50.0 M single"), "{text}");
        assert!(words.contains("virtual CPUs were moved"), "{text}");
    }
}
