//! `ccnic explore`: which design is best where, over a grid of machines or loads.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context;
use ccnic::{Demote, Design};
use ccnic_sim::loopback::Plan;
use ccnic_sim::parallel;
use ccnic_sim::platform::Platform;
use ccnic_sim::summary::Summary;
use clap::{Args, ValueEnum};

use crate::options::{InterfaceArgs, demote_parser, design_parser};
use crate::plot::{Axis, Cell, Chart, Content, Heat, Line, Lines, Picture};
use crate::print::units::{self, number};
use crate::print::{self, Column, Progress, Table};
use crate::sim::MachineArgs;
use crate::sim::loopback::{SimTraffic, point};

/// Options of `explore`.
#[derive(Debug, Args)]
pub struct ExploreArgs {
    #[command(flatten)]
    machine: MachineArgs,
    #[command(flatten)]
    traffic: SimTraffic,
    /// Vary a parameter: a value of the platform (`ccnic sim platforms --show NAME` lists them), or cores,
    /// size, burst, rx-burst, inflight. Takes FROM:TO:HOW-MANY, or a list with commas. May be given twice,
    /// for a map
    #[arg(long, required = true, value_name = "KEY=VALUES")]
    sweep: Vec<String>,
    /// Designs to compare; several with commas
    #[arg(long, value_parser = design_parser(), value_delimiter = ',', default_values_t = [Design::GroupedEpoch, Design::GroupedClear, Design::Doorbell])]
    designs: Vec<Design>,
    /// When to demote written cache lines towards the reader (CLDEMOTE)
    #[arg(long, value_parser = demote_parser(), default_value_t)]
    demote: Demote,
    /// What to compare the designs by
    #[arg(long, value_enum, default_value_t = Metric::Mpps)]
    metric: Metric,
    /// Folder for explored.csv, explored.svg and explored.png
    #[arg(long, default_value = "explored", value_name = "FOLDER")]
    out: PathBuf,
    /// Print JSON: every simulation
    #[arg(long)]
    json: bool,
}

/// The metric that designs are compared by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Metric {
    /// Million packets per second; the highest is best
    Mpps,
    /// Median round trip in nanoseconds; the lowest is best
    P50,
    /// 99th percentile of the round trips in nanoseconds; the lowest is best
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

    /// A value as it is written in tables and maps.
    fn text(self, value: f64) -> String {
        if self == Metric::Mpps { units::rate(value) } else { units::ns(value) }
    }

    /// The lead of the first over the second: 0.1 is 10 %.
    fn lead(self, first: f64, second: f64) -> f64 {
        if self == Metric::Mpps { first / second - 1.0 } else { second / first - 1.0 }
    }
}

/// A parameter that varies, and its values.
#[derive(Debug)]
struct Sweep {
    key: String,
    values: Vec<f64>,
}

/// The most points of a sweep, and simulations of a grid.
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

    /// The label of its axis: the parameter with its unit, which `platform` has for its own values.
    fn label(&self, platform: &Platform) -> String {
        let words = match self.key.as_str() {
            "cores" => "cores on each side",
            "size" => "packet size [bytes]",
            "burst" => "transmit burst [packets]",
            "rx-burst" => "receive burst [buffers]",
            "inflight" => "in flight per core [packets]",
            key => {
                let entry = platform.entries().into_iter().find(|entry| entry.key == key);
                let unit = entry.as_ref().map_or("", |entry| units::of_platform(&entry.unit));
                return if unit.is_empty() { key.to_owned() } else { format!("{key} [{unit}]") };
            }
        };
        words.to_owned()
    }

    /// The label as a heading of several lines.
    fn heading(&self, platform: &Platform) -> String {
        self.label(platform).replace(" [", "\n[").replace(" on each side", "\nper side").replace('.', ".\n")
    }
}

/// A point of the grid: its values, and the result of each design.
#[derive(Debug)]
struct Spot {
    values: Vec<f64>,
    shown: Vec<Summary>,
}

impl Spot {
    /// The best design, and its lead over the second.
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

/// Simulates the grid and shows it.
pub fn run(args: &ExploreArgs) -> anyhow::Result<()> {
    let sweeps = args.sweep.iter().map(|text| Sweep::parse(text)).collect::<anyhow::Result<Vec<_>>>()?;
    anyhow::ensure!(sweeps.len() <= 2, "--sweep is given {} times; choose one or two", sweeps.len());
    let points: Vec<Vec<f64>> = match sweeps.as_slice() {
        [x] => x.values.iter().map(|x| vec![*x]).collect(),
        [x, y] => y.values.iter().flat_map(|y| x.values.iter().map(|x| vec![*x, *y])).collect(),
        _ => Vec::new(),
    };
    let jobs: Vec<(&Vec<f64>, Design)> =
        points.iter().flat_map(|values| args.designs.iter().map(move |d| (values, *d))).collect();
    anyhow::ensure!(jobs.len() <= MOST, "{} simulations are asked for; choose at most {MOST}", jobs.len());
    std::fs::create_dir_all(&args.out)
        .with_context(|| format!("could not make {}; choose another --out", args.out.display()))?;
    // Invalid values are reported before anything is simulated.
    let prepared = jobs
        .iter()
        .map(|(values, design)| prepare(args, &sweeps, values, *design))
        .collect::<Result<Vec<_>, _>>()?;
    let progress = Progress::of_simulations("explore", jobs.len(), args.json);
    let shown = parallel::map(&prepared, |(platform, plan)| point(platform, plan, &progress));
    drop(progress);
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
    design: Design,
) -> anyhow::Result<(Platform, Plan)> {
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
    let plan = traffic.plan(&platform, &interface)?;
    Ok((platform, plan))
}

fn names(args: &ExploreArgs) -> Vec<String> {
    args.designs.iter().map(|design| design.to_string()).collect()
}

fn report(args: &ExploreArgs, sweeps: &[Sweep], spots: &[Spot]) -> anyhow::Result<()> {
    let platform = args.machine.platform()?;
    write(&args.out.join("explored.csv"), &csv(sweeps, spots))?;
    let stem = args.out.join("explored");
    match sweeps {
        [x] => lines(args, &platform, x, spots).save(&stem)?,
        _ => map(args, &platform, sweeps, spots).save(&stem)?,
    };
    let points: Vec<&Summary> = spots.iter().flat_map(|spot| &spot.shown).collect();
    let mut table = table(args, &platform, sweeps, spots)?;
    table.note(format!("Values and picture: {}", args.out.join("explored.csv, .svg, .png").display()));
    print::result(args.json, &points, || table.text())
}

fn table(args: &ExploreArgs, platform: &Platform, sweeps: &[Sweep], spots: &[Spot]) -> anyhow::Result<Table> {
    let names = names(args);
    let keys = sweeps.iter().map(|sweep| Column::number(&sweep.heading(platform)));
    let designs = names.iter().map(|name| Column::number(name));
    let columns = keys.chain(designs).chain([Column::text("best"), Column::number("lead")]);
    let mut table = Table::new(format!("{}: {}", title(args, sweeps), args.metric.label()), columns);
    for spot in spots {
        let mut row: Vec<String> = spot.values.iter().map(|v| number(*v)).collect();
        row.extend(spot.shown.iter().map(|summary| args.metric.text(args.metric.of(summary))));
        let (winner, lead) = spot.winner(args.metric).context("no design was simulated")?;
        row.extend([names[winner].clone(), format!("{:.1} %", lead * 100.0)]);
        table.row(row);
    }
    table.note("lead: of the best design over the second.");
    Ok(table)
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

/// One parameter varies: a line for each design.
fn lines(args: &ExploreArgs, platform: &Platform, sweep: &Sweep, spots: &[Spot]) -> Picture {
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
    let label = sweep.label(platform);
    let x = Axis::around(&label, false, false, values().map(|p| p.0));
    let content = Content::Lines(Lines { x, lines, marks: Vec::new() });
    let title = title(args, std::slice::from_ref(sweep));
    let chart = Chart { title, x_label: label, y, content, note: None };
    Picture { charts: vec![chart], legend: names(args) }
}

/// The parameters that do not vary.
fn title(args: &ExploreArgs, sweeps: &[Sweep]) -> String {
    let SimTraffic { size, cores, .. } = args.traffic;
    let varies = |key: &str| sweeps.iter().any(|sweep| sweep.key == key);
    let mut title = args.machine.name().to_owned();
    if !varies("size") {
        let _ = write!(title, ", {size}-byte packets");
    }
    if !varies("cores") {
        let _ = write!(title, ", {} on each side", units::count(cores.into(), "core"));
    }
    title
}

/// Two parameters vary: the best design in each cell.
fn map(args: &ExploreArgs, platform: &Platform, sweeps: &[Sweep], spots: &[Spot]) -> Heat {
    let values = |i: usize| sweeps.get(i).map(|s| s.values.clone()).unwrap_or_default();
    let label = |i: usize| sweeps.get(i).map(|s| s.label(platform)).unwrap_or_default();
    let cell = |spot: &Spot| {
        let (winner, lead) = spot.winner(args.metric)?;
        Some(Cell { winner, lead, text: args.metric.text(args.metric.of(spot.shown.get(winner)?)) })
    };
    Heat {
        title: format!("{}: {} of the best design", title(args, sweeps), args.metric.label()),
        note: "second line: lead over the second-best design".to_owned(),
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
    use ccnic_sim::platform::Platform;

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

    #[test]
    fn axes_have_units() {
        let platform = Platform::named("icx").unwrap();
        let label = |text| Sweep::parse(text).unwrap().label(&platform);
        assert_eq!(label("link.one_way=1"), "link.one_way [ns]");
        assert_eq!(label("size=64"), "packet size [bytes]");
        assert_eq!(label("l1.size=48"), "l1.size [KiB]");
        assert_eq!(label("core.rob=1"), "core.rob", "a count has no unit");
        assert_eq!(Sweep::parse("link.one_way=1").unwrap().heading(&platform), "link.\none_way\n[ns]");
    }
}
