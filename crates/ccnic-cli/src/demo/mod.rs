//! `ccnic demo`: starts a NIC, measures three designs in turn, prints one table and writes a page with
//! curves.

mod curves;
mod report;
mod row;

use std::path::PathBuf;

use anyhow::Context;
use ccnic::Design;
use ccnic_control::files;
use clap::Args;

use row::{DESIGNS, DesignFigures, LARGE, SHARES, SMALL};

use crate::bench::measure_limit;
use crate::cpus::{warn_if_crowded, warn_if_disturbed};
use crate::loopback::rounds::{Outcomes, ROUNDS, Rounds, Workload};
use crate::loopback::{Bench, notes};
use crate::options::{self, InterfaceArgs, TrafficArgs};
use crate::print::{self, Column, Progress, Table, units};

/// Options of `demo`.
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// Where to write the page with throughput-latency curves
    #[arg(long, default_value = "report.html", value_name = "FILE")]
    report: PathBuf,
    /// Rounds that each load is measured in; medians are shown
    #[arg(long, default_value_t = ROUNDS)]
    rounds: usize,
    /// Seconds to measure each load in each round
    #[arg(long, default_value_t = 0.05)]
    seconds: f64,
    /// Print JSON, with every round
    #[arg(long)]
    json: bool,
}

/// Seconds that the limit is measured before the first round.
const LIMIT_SECONDS: f64 = 2.0;

/// Runs the demo.
pub fn run(args: &DemoArgs) -> anyhow::Result<()> {
    options::seconds(args.seconds)?;
    options::rounds(args.rounds)?;
    let bench = Bench::new(None, 1, false)?;
    warn_if_crowded(1)?;
    // A report that cannot be written is an error before anything is measured.
    let cannot = || format!("could not write {}; choose another --report", args.report.display());
    files::write(&args.report, "").with_context(cannot)?;
    let limit = measure_limit(LIMIT_SECONDS, args.json)?;
    let workloads: Vec<Workload> = DESIGNS
        .iter()
        .flat_map(|(design, _)| [SMALL, LARGE].map(|size| workload(*design, size, args)))
        .collect();
    let progress = Progress::of_measurements("demo", Rounds::steps(args.rounds, &workloads), args.json);
    let rounds = Rounds { bench: &bench, number: args.rounds, limit: Some(&limit) };
    let mut outcomes = rounds.measure(&workloads, &progress)?.into_iter();
    drop(progress);
    let mut next = || outcomes.next().unwrap_or_default();
    let rows: Vec<DesignFigures> =
        DESIGNS.iter().map(|&(_, name)| DesignFigures { name, small: next(), large: next() }).collect();
    let points: Vec<Outcomes> = rows.iter().flat_map(|r| r.small.iter().chain(&r.large)).cloned().collect();
    warn_if_disturbed(points.iter().flat_map(Outcomes::cpu_shares));
    let mut table = table(&rows, args);
    table.note(notes::damage(&points));
    table.note(format!("Throughput-latency curves: {}", args.report.display()));
    let page = report::page(&rows, &limit, bench.alone(1));
    files::write(&args.report, page).with_context(cannot)?;
    print::result(args.json, &rows, || table.text())?;
    let damaged: u64 = points.iter().map(|o| o.lost + o.corrupt).sum();
    anyhow::ensure!(
        damaged == 0,
        "{damaged} packets were lost or damaged: this is a defect, please report it"
    );
    Ok(())
}

fn workload(design: Design, size: u16, args: &DemoArgs) -> Workload {
    let traffic = TrafficArgs {
        size,
        burst: 32,
        rx_burst: 32,
        inflight: if size == SMALL { 512 } else { 128 },
        queues: 1,
        seconds: args.seconds,
        rate: None,
        whole_bursts: false,
    };
    Workload::sweep(InterfaceArgs::of(design).config(1), traffic, &SHARES)
}

/// The table: throughput at the end of a sweep, round trips at its beginning.
fn table(rows: &[DesignFigures], args: &DemoArgs) -> Table {
    let title = format!(
        "One program core and one NIC core, two processes: medians of {} of {} s",
        units::count(args.rounds, "round"),
        args.seconds
    );
    let columns = [
        Column::text("design"),
        Column::number("64 B\nMpps"),
        Column::number("64 B\nmin\u{2013}max"),
        Column::number("of\nref."),
        Column::number("p50\nns"),
        Column::number("p99\nns"),
        Column::number("1500 B\nGb/s"),
        Column::number("1500 B\nmin\u{2013}max"),
        Column::number("of\nref."),
    ];
    let mut table = Table::new(title, columns);
    for row in rows {
        let (Some(single), Some(peak), Some(large)) = (row.small.first(), row.small.last(), row.large.last())
        else {
            continue;
        };
        table.row([
            row.name.to_owned(),
            units::rate(peak.mpps),
            units::range(&peak.spread.mpps, units::rate),
            units::percent(peak.limit_share),
            units::ns(single.rtt_ns.p50 as f64),
            units::ns(single.rtt_ns.p99 as f64),
            units::rate(large.gbps),
            units::range(&large.spread.gbps, units::rate),
            units::percent(large.limit_share),
        ]);
    }
    table.note(
        "Every byte is written by the program, copied by the NIC, read back and checked. p50, p99: median and 99th percentile of \
         the round trip with one 64-byte packet in flight. min\u{2013}max: of the rounds. of ref.: share of the reference, median of the rounds, each by \
         its own.",
    );
    let peaks = |f: fn(&DesignFigures) -> &Vec<Outcomes>| rows.first().and_then(|row| f(row).last());
    for peak in [peaks(|row| &row.small), peaks(|row| &row.large)].into_iter().flatten() {
        if let Some(limit) = peak.limit_mpps {
            let gbps = limit * f64::from(peak.size) * 8.0 / 1e3;
            let text = notes::limit(peak.size, limit);
            table.note(if peak.size == SMALL {
                text
            } else {
                format!("{text} That is {} Gb/s.", units::rate(gbps))
            });
        }
    }
    let placement = rows.first().and_then(|row| row.small.last()).map(notes::placement);
    placement.unwrap_or_default().into_iter().for_each(|note| table.note(note));
    table
}

#[cfg(test)]
mod tests {
    use super::row::samples;
    use super::*;
    use crate::print::longest_line;

    #[test]
    fn the_table_fits_80_columns() {
        let args = DemoArgs { report: PathBuf::new(), rounds: 9, seconds: 0.05, json: false };
        let text = table(&samples::rows(), &args).in_width(80);
        assert!(longest_line(&text) <= 80, "{text}");
        for (_, name) in DESIGNS {
            let row = text.lines().find(|line| line.starts_with(name)).unwrap();
            assert!(row.contains("9.90\u{2013}24.3") && row.contains("50 %"), "{text}");
        }
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            words.contains("reference: 40.0 Mpps of 64 bytes") && words.contains("That is 480 Gb/s"),
            "{text}"
        );
    }
}
