//! `ccnic explore`: which design wins where, over a grid of machines or loads.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context;
use ccnic_sim::parallel;
use ccnic_sim::summary::Summary;
use clap::{Args, ValueEnum};

use crate::bench::long_table;
use crate::loopback::{DemoteName, DesignName, InterfaceArgs};
use crate::plot::{Axis, Cell, Chart, Content, Heat, Line, Lines, Picture, number};
use crate::sim::loopback::{SimTraffic, point};
use crate::sim::{MachineArgs, bar};

/// Options of `explore`.
#[derive(Debug, Args)]
pub struct ExploreArgs {
    #[command(flatten)]
    machine: MachineArgs,
    #[command(flatten)]
    traffic: SimTraffic,
    /// What varies, once or twice: a value of the platform, or cores, size, burst, rx-burst, inflight. From, to, how many; or
    /// a list with commas
    #[arg(long, required = true, value_name = "KEY=A:B:N")]
    sweep: Vec<String>,
    /// The designs that compete
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [DesignName::Ccnic, DesignName::Paper, DesignName::E810])]
    designs: Vec<DesignName>,
    /// When writers demote the lines that they have written
    #[arg(long, value_enum, default_value_t = DemoteName::Auto)]
    demote: DemoteName,
    /// What is compared
    #[arg(long, value_enum, default_value_t = Metric::Mpps)]
    metric: Metric,
    /// Where table and map go
    #[arg(long, default_value = "explored")]
    out: PathBuf,
}

/// What is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Metric {
    /// Packets per second: more is better
    Mpps,
    /// The median round trip: less is better
    P50,
    /// The 99th percentile of round trips: less is better
    P99,
}

impl Metric {
    fn of(self, summary: &Summary) -> f64 {
        let rtt = &summary.totals.rtt_ns;
        match self {
            Metric::Mpps => summary.totals.mpps,
            Metric::P50 => rtt.p50 as f64,
            Metric::P99 => rtt.p99 as f64,
        }
    }

    fn label(self) -> &'static str {
        match self {
            Metric::Mpps => "throughput [Mpps]",
            Metric::P50 => "median round trip [ns]",
            Metric::P99 => "99th percentile of round trips [ns]",
        }
    }

    /// How much better the first is than the second: 0.1 is 10 %.
    fn lead(self, first: f64, second: f64) -> f64 {
        if self == Metric::Mpps { first / second - 1.0 } else { second / first - 1.0 }
    }
}

/// Something that varies, and its values.
#[derive(Debug)]
struct Sweep {
    key: String,
    values: Vec<f64>,
}

/// More points than anybody waits for.
const MOST: usize = 1000;

impl Sweep {
    fn parse(text: &str) -> anyhow::Result<Sweep> {
        let wrong = || format!("--sweep {text}: write KEY=FROM:TO:HOW-MANY, or KEY=A,B,C");
        let (key, values) = text.split_once('=').with_context(wrong)?;
        let number =
            |text: &str| text.trim().parse::<f64>().ok().filter(|x| x.is_finite()).with_context(wrong);
        let values = if let [from, to, n] = values.split(':').collect::<Vec<_>>()[..] {
            let (from, to) = (number(from)?, number(to)?);
            let n: usize = n.trim().parse().ok().filter(|n| (2..=MOST).contains(n)).with_context(wrong)?;
            (0..n).map(|i| from + (to - from) * i as f64 / (n - 1) as f64).collect()
        } else {
            values.split(',').map(number).collect::<anyhow::Result<Vec<_>>>()?
        };
        Ok(Sweep { key: key.trim().to_owned(), values })
    }
}

/// A point of the grid: its values, and what each design showed there.
#[derive(Debug)]
struct Spot {
    values: Vec<f64>,
    shown: Vec<Summary>,
}

impl Spot {
    /// The best design, and how much better it is than the second.
    fn winner(&self, metric: Metric) -> Option<(usize, f64)> {
        let mut order: Vec<(usize, f64)> =
            self.shown.iter().map(|summary| metric.of(summary)).enumerate().collect();
        order.sort_by(|a, b| {
            let ascending = a.1.total_cmp(&b.1);
            if metric == Metric::Mpps { ascending.reverse() } else { ascending }
        });
        let first = order.first()?;
        let lead = order.get(1).map_or(0.0, |second| metric.lead(first.1, second.1));
        Some((first.0, lead))
    }
}

/// Simulates the grid, and shows it.
pub fn run(args: &ExploreArgs) -> anyhow::Result<()> {
    let sweeps = args.sweep.iter().map(|text| Sweep::parse(text)).collect::<anyhow::Result<Vec<_>>>()?;
    anyhow::ensure!(sweeps.len() <= 2, "--sweep is given {} times; choose one or two", sweeps.len());
    let points: Vec<Vec<f64>> = match sweeps.as_slice() {
        [x] => x.values.iter().map(|x| vec![*x]).collect(),
        [x, y] => y.values.iter().flat_map(|y| x.values.iter().map(|x| vec![*x, *y])).collect(),
        _ => Vec::new(),
    };
    let jobs: Vec<(&Vec<f64>, DesignName)> =
        points.iter().flat_map(|values| args.designs.iter().map(move |d| (values, *d))).collect();
    anyhow::ensure!(jobs.len() <= MOST, "{} simulations are asked for; choose at most {MOST}", jobs.len());
    std::fs::create_dir_all(&args.out)
        .with_context(|| format!("could not make {}; choose another --out", args.out.display()))?;
    // What cannot be shall be said before anything is simulated.
    let prepared = jobs
        .iter()
        .map(|(values, design)| prepare(args, &sweeps, values, *design))
        .collect::<Result<Vec<_>, _>>()?;
    let bar = bar(jobs.len(), "exploring");
    let shown = parallel::map(&prepared, |(platform, plan)| point(platform, plan, &bar));
    bar.finish_and_clear();
    let mut shown = shown.into_iter().collect::<Result<Vec<_>, _>>()?.into_iter();
    let spots: Vec<Spot> = points
        .into_iter()
        .map(|values| Spot { values, shown: shown.by_ref().take(args.designs.len()).collect() })
        .collect();
    report(args, &sweeps, &spots)
}

/// A machine and a load with some of their values changed.
fn prepare(
    args: &ExploreArgs,
    sweeps: &[Sweep],
    values: &[f64],
    design: DesignName,
) -> anyhow::Result<(ccnic_sim::platform::Platform, ccnic_sim::loopback::Plan)> {
    let (mut platform, mut traffic) = (args.machine.platform()?, args.traffic.clone());
    for (Sweep { key, .. }, value) in sweeps.iter().zip(values) {
        let whole = value.round();
        match key.as_str() {
            "cores" => traffic.cores = whole as u16,
            "size" => traffic.size = whole as u16,
            "burst" => traffic.burst = whole as usize,
            "rx-burst" => traffic.rx_burst = whole as usize,
            "inflight" => traffic.inflight = whole as usize,
            key => {
                let fault = || format!("--sweep {key}");
                platform = platform.overridden(key, *value).with_context(fault)?;
            }
        }
    }
    let interface = InterfaceArgs { demote: args.demote, ..InterfaceArgs::of(design) };
    Ok((platform, traffic.plan(&interface)?))
}

fn names(args: &ExploreArgs) -> Vec<String> {
    args.designs.iter().map(|design| design.design().name().to_owned()).collect()
}

fn report(args: &ExploreArgs, sweeps: &[Sweep], spots: &[Spot]) -> anyhow::Result<()> {
    let names = names(args);
    let keys = sweeps.iter().map(|s| s.key.clone());
    let header: Vec<String> =
        keys.chain(names.iter().cloned()).chain(["winner".to_owned(), "lead".to_owned()]).collect();
    let mut table = long_table(&header.iter().map(String::as_str).collect::<Vec<_>>());
    for spot in spots {
        let mut row: Vec<String> = spot.values.iter().map(|v| number(*v)).collect();
        row.extend(spot.shown.iter().map(|summary| number(args.metric.of(summary))));
        let (winner, lead) = spot.winner(args.metric).context("no design was simulated")?;
        row.extend([names[winner].clone(), format!("{:.1} %", lead * 100.0)]);
        table.add_row(row);
    }
    write(&args.out.join("explored.csv"), &csv(sweeps, spots))?;
    let stem = args.out.join("explored");
    match sweeps {
        [x] => lines(args, x, spots).save(&stem)?,
        _ => map(args, sweeps, spots).save(&stem)?,
    };
    let _ = writeln!(std::io::stdout(), "{}\n{table}", args.metric.label());
    println!("Table and map: {}", args.out.join("explored.csv, .svg, .png").display());
    Ok(())
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::write(path, text)
        .with_context(|| format!("could not write {}; choose another --out", path.display()))
}

fn csv(sweeps: &[Sweep], spots: &[Spot]) -> String {
    let mut csv = String::new();
    sweeps.iter().for_each(|sweep| csv.extend([&sweep.key, ","]));
    csv.push_str("design,mpps,gbps,p50_ns,p99_ns,lost,corrupt,bound\n");
    for spot in spots {
        for summary in &spot.shown {
            spot.values.iter().for_each(|value| {
                let _ = write!(csv, "{value},");
            });
            let totals = &summary.totals;
            let _ = writeln!(
                csv,
                "{},{},{},{},{},{},{},{}",
                summary.design,
                totals.mpps,
                totals.gbps,
                totals.rtt_ns.p50,
                totals.rtt_ns.p99,
                totals.lost,
                totals.corrupt,
                summary.bound.by.name()
            );
        }
    }
    csv
}

/// One thing varies: a line for each design.
fn lines(args: &ExploreArgs, sweep: &Sweep, spots: &[Spot]) -> Picture {
    let point =
        |spot: &Spot, design: usize| Some((*spot.values.first()?, args.metric.of(spot.shown.get(design)?)));
    let lines: Vec<Line> = (0..args.designs.len())
        .map(|design| Line {
            legend: design,
            points: spots.iter().filter_map(|s| point(s, design)).collect(),
        })
        .collect();
    let values = || lines.iter().flat_map(|line| &line.points);
    let y = Axis::around(args.metric.label(), false, true, values().map(|p| p.1));
    let x = Axis::around(&sweep.key, false, false, values().map(|p| p.0));
    let content = Content::Lines(Lines { x, lines, marks: Vec::new() });
    let chart = Chart { title: title(args), x_label: sweep.key.clone(), y, content, note: None };
    Picture { charts: vec![chart], legend: names(args) }
}

fn title(args: &ExploreArgs) -> String {
    let SimTraffic { size, cores, .. } = args.traffic;
    format!("{}, {size} B packets, {cores} cores a side", args.machine.name())
}

/// Two things vary: who wins in each cell.
fn map(args: &ExploreArgs, sweeps: &[Sweep], spots: &[Spot]) -> Heat {
    let values = |i: usize| sweeps.get(i).map(|s| s.values.clone()).unwrap_or_default();
    let label = |i: usize| sweeps.get(i).map(|s| s.key.clone()).unwrap_or_default();
    let cell = |spot: &Spot| {
        let (winner, lead) = spot.winner(args.metric)?;
        Some(Cell { winner, lead, text: number(args.metric.of(spot.shown.get(winner)?)) })
    };
    Heat {
        title: format!("{}: {}", title(args), args.metric.label()),
        x_label: label(0),
        y_label: label(1),
        x: values(0),
        y: values(1),
        legend: names(args),
        cells: spots.chunks(values(0).len().max(1)).map(|row| row.iter().map(cell).collect()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::Sweep;

    #[test]
    fn sweeps() {
        let values = |text| Sweep::parse(text).map(|s| s.values).ok();
        assert_eq!(values("link.one_way=20:60:5"), Some(vec![20.0, 30.0, 40.0, 50.0, 60.0]));
        assert_eq!(values("cores=1,2,8"), Some(vec![1.0, 2.0, 8.0]));
        assert_eq!(values("size=64"), Some(vec![64.0]));
        for wrong in ["size", "size=", "size=a", "size=1:2", "size=1:2:1", "size=1:2:3:4", "size=1:inf:3"] {
            assert!(values(wrong).is_none(), "{wrong}");
        }
    }
}
