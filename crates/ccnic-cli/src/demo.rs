//! `ccnic demo`: starts a NIC, measures three designs side by side, prints one table and writes a report.

use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use indicatif::ProgressBar;

use crate::bench::{measure_limit, spinner, table, warn_if_crowded};
use crate::loopback::{Bench, DesignName, InterfaceArgs, Outcomes, TrafficArgs, sweep};
use crate::micro::limit::Limit;
use crate::report::{self, Curve, Report};

/// Options of `demo`.
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// Where to write the report
    #[arg(long, default_value = "report.html")]
    report: PathBuf,
    /// Seconds per measured point
    #[arg(long, default_value_t = 0.4)]
    seconds: f64,
}

/// The designs that are shown, and what they are called.
const DESIGNS: [(DesignName, &str); 3] =
    [(DesignName::Ccnic, "ccnic"), (DesignName::Paper, "CC-NIC paper"), (DesignName::E810, "E810 doorbells")];

/// Packet sizes that are shown.
const SMALL: u16 = 64;
const LARGE: u16 = 1500;

/// One design's figures.
#[derive(Debug, Clone)]
pub struct Row {
    pub name: &'static str,
    pub small: Vec<Outcomes>,
    pub large: Vec<Outcomes>,
}

/// Runs the demo.
pub fn run(args: &DemoArgs) -> anyhow::Result<()> {
    warn_if_crowded(1)?;
    let limit = measure_limit(3.0)?;
    let bench = Bench::new(None, 1, false)?;
    let bar = spinner("measuring");
    let rows = DESIGNS
        .iter()
        .map(|&(design, name)| {
            Ok(Row {
                name,
                small: curve(&bench, &bar, design, name, SMALL, &limit, args.seconds)?,
                large: curve(&bench, &bar, design, name, LARGE, &limit, args.seconds)?,
            })
        })
        .collect::<anyhow::Result<Vec<_>>>()?;
    bar.finish_and_clear();
    show(&rows, &limit);
    let curves = rows
        .iter()
        .flat_map(|row| {
            [(SMALL, &row.small), (LARGE, &row.large)].map(|(size, points)| Curve {
                name: row.name,
                size,
                points: points.clone(),
            })
        })
        .collect();
    let page = report::page(&Report { limit, curves, alone: bench.alone(1) });
    std::fs::write(&args.report, page)
        .with_context(|| format!("could not write {}; choose another --report", args.report.display()))?;
    println!("\nThroughput-latency curves: {}", args.report.display());
    let damaged: u64 =
        rows.iter().flat_map(|r| r.small.iter().chain(&r.large)).map(|o| o.lost + o.corrupt).sum();
    anyhow::ensure!(
        damaged == 0,
        "{damaged} packets were lost or damaged: this is a defect, please report it"
    );
    Ok(())
}

fn curve(
    bench: &Bench,
    bar: &ProgressBar,
    design: DesignName,
    name: &str,
    size: u16,
    limit: &Limit,
    seconds: f64,
) -> anyhow::Result<Vec<Outcomes>> {
    let inflight = if size == SMALL { 512 } else { 128 };
    let traffic = TrafficArgs {
        size,
        burst: 32,
        rx_burst: 32,
        inflight,
        queues: 1,
        seconds,
        rate: None,
        whole_bursts: false,
    };
    let config = InterfaceArgs::of(design).config(1);
    sweep(bench, &config, &traffic, Some(limit), |p| {
        bar.set_message(format!("{name}, {size} B: {:.2} Mpps, p50 {} ns", p.mpps, p.rtt_ns.p50));
        bar.tick();
    })
}

/// The table: peak at the end of a sweep, one packet in flight at its beginning.
fn show(rows: &[Row], limit: &Limit) {
    println!(
        "This machine hands over {:.0} M single lines/s and {:.0} M lines/s in runs, each way at once;",
        limit.line_mlps, limit.run_mlps
    );
    println!(
        "a word there and back takes {:.0} ns on one line, {:.0} ns on two.\n",
        limit.word_rtt_ns.shared, limit.word_rtt_ns.separate
    );
    let header = [
        "one program core, one NIC core",
        "64 B Mpps",
        "Gb/s",
        "of limit",
        "p50 ns",
        "p99 ns",
        "1.5 KB Gb/s",
        "of limit",
    ];
    let mut table = table(&header);
    for row in rows {
        let (Some(single), Some(peak), Some(large)) = (row.small.first(), row.small.last(), row.large.last())
        else {
            continue;
        };
        let percent = |share: Option<f64>| format!("{:.0} %", share.unwrap_or(0.0) * 100.0);
        table.add_row(vec![
            row.name.to_owned(),
            format!("{:.1}", peak.mpps),
            format!("{:.1}", peak.gbps),
            percent(peak.limit_share),
            single.rtt_ns.p50.to_string(),
            single.rtt_ns.p99.to_string(),
            format!("{:.1}", large.gbps),
            percent(large.limit_share),
        ]);
    }
    println!("{table}");
    println!(
        "p50, p99: round trip of one packet in flight. Every byte was written, copied by the NIC, read and checked."
    );
}
