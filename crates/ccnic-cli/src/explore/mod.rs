//! `ccnic explore`: which design or which published system is best where, over a grid of machines or loads.

mod designs;
mod sweep;
mod systems;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context;
use ccnic::{Demote, Design};
use ccnic_sim::platform::Entry;
use clap::{Args, ValueEnum};
use serde_json::Value;

use crate::options::{demote_parser, design_parser};
use crate::plot::{Axis, Cell, Chart, Content, Heat, Line, Lines, Picture};
use crate::print::units::{self, number};
use crate::print::{self, Column, Table};
use crate::sim::MachineArgs;
use crate::sim::loopback::SimTraffic;
use sweep::Sweep;

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
    /// Published systems to compare instead of designs, with one program each; several with commas, each
    /// with @PLATFORM if it is not on --platform (`ccnic sim systems` lists them). Then size and values of
    /// platforms can vary
    #[arg(long, value_delimiter = ',', value_name = "SYSTEM[@PLATFORM]", conflicts_with_all = OF_DESIGNS)]
    systems: Vec<String>,
    /// When to demote written cache lines towards the reader (CLDEMOTE)
    #[arg(long, value_parser = demote_parser(), default_value_t)]
    demote: Demote,
    /// What to compare by; of systems p50 is the round trip of a message that is alone
    #[arg(long, value_enum, default_value_t = Metric::Mpps)]
    metric: Metric,
    /// Folder for explored.csv, explored.svg and explored.png
    #[arg(long, default_value = "explored", value_name = "FOLDER")]
    out: PathBuf,
    /// Print JSON: every simulation
    #[arg(long)]
    json: bool,
}

/// Options that systems have not.
const OF_DESIGNS: [&str; 11] = [
    "designs",
    "demote",
    "cores",
    "burst",
    "rx_burst",
    "inflight",
    "rate",
    "whole_bursts",
    "micros",
    "warmup",
    "packets",
];

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

/// The most points of a sweep, and simulations of a grid.
const MOST: usize = 1000;

/// What was simulated for one point of the grid.
#[derive(Debug)]
struct Seen {
    /// By the metric.
    value: f64,
    /// The rest of its line in the CSV.
    csv: String,
    json: Value,
}

/// What is compared.
#[derive(Debug)]
struct Compared {
    /// Names, in the order of [`Spot::shown`].
    names: Vec<String>,
    /// The columns of the CSV after the parameters.
    csv: &'static str,
    /// Of the machine: values and their units.
    entries: Vec<Entry>,
    /// For every point of the grid one after the other, what is compared one after the other.
    seen: Vec<Seen>,
}

/// A point of the grid: its values, and the results.
#[derive(Debug)]
struct Spot {
    values: Vec<f64>,
    shown: Vec<Seen>,
}

impl Spot {
    /// The best, and its lead over the second.
    fn winner(&self, metric: Metric) -> Option<(usize, f64)> {
        let mut order: Vec<(usize, f64)> = self.shown.iter().map(|seen| seen.value).enumerate().collect();
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
    let of_systems = !args.systems.is_empty();
    let many = points.len() * if of_systems { args.systems.len() } else { args.designs.len() };
    anyhow::ensure!(many <= MOST, "{many} simulations are asked for; choose at most {MOST}");
    std::fs::create_dir_all(&args.out)
        .with_context(|| format!("could not make {}; choose another --out", args.out.display()))?;
    let compare = if of_systems { systems::compare } else { designs::compare };
    let Compared { names, csv, entries, seen } = compare(args, &sweeps, &points)?;
    let mut seen = seen.into_iter();
    let spots = points
        .into_iter()
        .map(|values| Spot { values, shown: seen.by_ref().take(names.len()).collect() })
        .collect();
    Report { args, sweeps, spots, names, csv, entries }.show()
}

/// What is told at the end.
struct Report<'a> {
    args: &'a ExploreArgs,
    sweeps: Vec<Sweep>,
    spots: Vec<Spot>,
    names: Vec<String>,
    csv: &'static str,
    entries: Vec<Entry>,
}

impl Report<'_> {
    /// Values, picture and table.
    fn show(&self) -> anyhow::Result<()> {
        let out = &self.args.out;
        write(&out.join("explored.csv"), &self.csv())?;
        let stem = out.join("explored");
        match self.sweeps.as_slice() {
            [x] => self.lines(x).save(&stem)?,
            _ => self.map().save(&stem)?,
        };
        let points: Vec<&Value> = self.spots.iter().flat_map(|spot| &spot.shown).map(|s| &s.json).collect();
        let mut table = self.table()?;
        table.note(format!("Values and picture: {}", out.join("explored.csv, .svg, .png").display()));
        print::result(self.args.json, &points, || table.text())
    }

    fn table(&self) -> anyhow::Result<Table> {
        let Report { args, names, .. } = self;
        let keys = self.sweeps.iter().map(|sweep| Column::number(&sweep.heading(&self.entries)));
        let compared = names.iter().map(|name| Column::number(&name.replace('@', "\n@")));
        let columns = keys.chain(compared).chain([Column::text("best"), Column::number("lead")]);
        let mut table = Table::new(format!("{}: {}", self.title(), args.metric.label()), columns);
        for spot in &self.spots {
            let mut row: Vec<String> = spot.values.iter().map(|v| number(*v)).collect();
            row.extend(spot.shown.iter().map(|seen| args.metric.text(seen.value)));
            let (winner, lead) = spot.winner(args.metric).context("nothing was simulated")?;
            row.extend([names[winner].clone(), format!("{:.1} %", lead * 100.0)]);
            table.row(row);
        }
        table.note("lead: of the best over the second.");
        Ok(table)
    }

    fn csv(&self) -> String {
        let mut csv = String::new();
        self.sweeps.iter().for_each(|sweep| csv.extend([&sweep.key, ","]));
        csv.extend([self.csv, "\n"]);
        for spot in &self.spots {
            for seen in &spot.shown {
                spot.values.iter().for_each(|value| {
                    let _ = write!(csv, "{value},");
                });
                csv.extend([&seen.csv, "\n"]);
            }
        }
        csv
    }

    /// One parameter varies: a line for each that is compared.
    fn lines(&self, sweep: &Sweep) -> Picture {
        let point = |spot: &Spot, which: usize| Some((*spot.values.first()?, spot.shown.get(which)?.value));
        let lines: Vec<Line> = (0..self.names.len())
            .map(|which| Line {
                legend: which,
                points: self.spots.iter().filter_map(|s| point(s, which)).collect(),
            })
            .collect();
        let values = || lines.iter().flat_map(|line| &line.points);
        let y = Axis::around(self.args.metric.label(), false, true, values().map(|p| p.1));
        let label = sweep.label(&self.entries);
        let x = Axis::around(&label, false, false, values().map(|p| p.0));
        let content = Content::Lines(Lines { x, lines, marks: Vec::new() });
        let chart = Chart { title: self.title(), x_label: label, y, content, note: None };
        Picture { charts: vec![chart], legend: self.names.clone() }
    }

    /// The parameters that do not vary.
    fn title(&self) -> String {
        let SimTraffic { size, cores, .. } = self.args.traffic;
        let varies = |key: &str| self.sweeps.iter().any(|sweep| sweep.key == key);
        let mut title = self.args.machine.name().to_owned();
        if !varies("size") {
            let _ = write!(title, ", {size}-byte packets");
        }
        if !varies("cores") {
            let _ = write!(title, ", {} on each side", units::count(cores.into(), "core"));
        }
        title
    }

    /// Two parameters vary: the best in each cell.
    fn map(&self) -> Heat {
        let metric = self.args.metric;
        let values = |i: usize| self.sweeps.get(i).map(|s| s.values.clone()).unwrap_or_default();
        let label = |i: usize| self.sweeps.get(i).map(|s| s.label(&self.entries)).unwrap_or_default();
        let cell = |spot: &Spot| {
            let (winner, lead) = spot.winner(metric)?;
            Some(Cell { winner, lead, text: metric.text(spot.shown.get(winner)?.value) })
        };
        let what = if self.args.systems.is_empty() { "design" } else { "system" };
        Heat {
            title: format!("{}: {} of the best {what}", self.title(), metric.label()),
            note: format!("second line: lead over the second-best {what}"),
            x_label: label(0),
            y_label: label(1),
            x: values(0),
            y: values(1),
            legend: self.names.clone(),
            cells: self
                .spots
                .chunks(values(0).len().max(1))
                .map(|row| row.iter().map(cell).collect())
                .collect(),
        }
    }
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    ccnic_control::files::write(path, text)
        .with_context(|| format!("could not write {}; choose another --out", path.display()))
}
