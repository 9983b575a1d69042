//! The simulations that a set of figures needs, each run once, in parallel.

use std::collections::{BTreeMap, HashMap};

use super::expr::{Place, Source};
use super::plan::{Figure, Kind, Series, Settings};
use super::point::{Effort, Measured, Offered, Point, Work};
use super::statement::Verdict;
use crate::run::cni::programs::Macrobenchmark;
use crate::run::cni::work::CniWork;
use crate::run::micro::{Held, Stores, Words};
use crate::run::parallel;
use crate::run::pio::work::{PioWork, What};

/// A figure as it was simulated.
#[derive(Debug, Clone)]
pub struct Simulated {
    /// Its plan.
    pub figure: Figure,
    /// Its series, in the plan's order.
    pub series: Vec<Curve>,
    /// Its statements.
    pub verdicts: Vec<Verdict>,
}

/// A series as it was simulated.
#[derive(Debug, Clone)]
pub struct Curve {
    /// Its name in statements.
    pub id: String,
    /// Its points.
    pub points: Vec<(Place, Measured)>,
    /// Why points are missing.
    pub missing: Option<String>,
}

/// The simulations of a set of figures.
#[derive(Debug)]
pub struct Batch {
    figures: Vec<(Figure, Vec<Planned>)>,
    sweeps: Vec<Sweep>,
}

/// A point, and shares of its rate, from low to high, on the machine that it leaves warm.
#[derive(Debug)]
struct Sweep {
    first: Point,
    shares: Vec<(f64, Point)>,
}

type Planned = Result<Vec<(Place, Point)>, String>;
type Results = HashMap<String, Result<Measured, String>>;

/// Default shares of the highest rate at which a series of loads is simulated.
const LOADS: [f64; 12] = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0];

impl Batch {
    /// What the figures need.
    pub fn new(figures: Vec<Figure>) -> Batch {
        let plan = |figure: Figure| {
            let planned: Vec<Planned> = figure.series.iter().map(expand).collect();
            (figure, planned)
        };
        let figures: Vec<_> = figures.into_iter().map(plan).collect();
        let points =
            figures.iter().flat_map(|(_, planned)| planned).filter_map(|p| p.as_ref().ok()).flatten();
        let mut sweeps = BTreeMap::new();
        for (_, point) in points {
            let (first, share) = point.of_peak();
            let sweep = sweeps.entry(first.key()).or_insert(Sweep { first, shares: Vec::new() });
            if let Some(share) = share
                && !sweep.shares.iter().any(|(other, _)| *other == share)
            {
                sweep.shares.push((share, point.clone()));
            }
        }
        Batch { figures, sweeps: longest_first(sweeps) }
    }

    /// How many points these are.
    pub fn len(&self) -> usize {
        self.sweeps.iter().map(|sweep| 1 + sweep.shares.len()).sum()
    }

    /// True when there is nothing to simulate.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Runs them; `done` is called after each.
    pub fn run(self, effort: Effort, done: impl Fn() + Sync) -> Vec<Simulated> {
        let results = parallel::map(&self.sweeps, |sweep| {
            let results = sweep.run(effort);
            results.iter().for_each(|_| done());
            results
        });
        let results: Results = results.into_iter().flatten().collect();
        let judged = effort == Effort::FULL;
        self.figures.into_iter().map(|(figure, planned)| collect(figure, planned, &results, judged)).collect()
    }
}

impl Sweep {
    fn points(&self) -> impl Iterator<Item = &Point> {
        std::iter::once(&self.first).chain(self.shares.iter().map(|(_, point)| point))
    }

    fn cost(&self) -> f64 {
        self.first.cost() * (1.0 + self.shares.iter().map(|(share, _)| share).sum::<f64>())
    }

    /// The results by the points' keys.
    fn run(&self, effort: Effort) -> Vec<(String, Result<Measured, String>)> {
        let keys = self.points().map(Point::key);
        let shares: Vec<f64> = self.shares.iter().map(|(share, _)| *share).collect();
        let measured = if shares.is_empty() {
            self.first.run(effort).map(|measured| vec![measured])
        } else {
            self.first.run_sweep(&shares, effort)
        };
        match measured {
            Ok(measured) => keys.zip(measured.into_iter().map(Ok)).collect(),
            Err(reason) => keys.map(|key| (key, Err(reason.clone()))).collect(),
        }
    }
}

/// In a fixed order.
fn longest_first(sweeps: BTreeMap<String, Sweep>) -> Vec<Sweep> {
    let mut sweeps: Vec<Sweep> = sweeps.into_values().collect();
    sweeps.iter_mut().for_each(|sweep| sweep.shares.sort_by(|(a, _), (b, _)| a.total_cmp(b)));
    sweeps.sort_by(|a, b| b.cost().total_cmp(&a.cost()));
    sweeps
}

/// `judged`: it was simulated long enough to say whether values are within their tolerance.
fn collect(figure: Figure, planned: Vec<Planned>, results: &Results, judged: bool) -> Simulated {
    let series = figure.series.iter().zip(planned).map(|(series, planned)| curve(series, planned, results));
    let mut simulated = Simulated { series: series.collect(), verdicts: Vec::new(), figure };
    simulated.verdicts =
        simulated.figure.statements.iter().map(|s| s.judge(&simulated.figure.id, &simulated)).collect();
    if !judged {
        simulated.verdicts.iter_mut().for_each(Verdict::withdraw);
    }
    simulated
}

fn curve(series: &Series, planned: Planned, results: &Results) -> Curve {
    let mut curve = Curve { id: series.id.clone(), points: Vec::new(), missing: None };
    match planned {
        Err(reason) => curve.missing = Some(reason),
        Ok(points) => {
            for (place, point) in points {
                match results.get(&point.key()) {
                    Some(Ok(measured)) => curve.points.push((place, measured.clone())),
                    Some(Err(reason)) => curve.missing = Some(format!("{}: {reason}", place.name)),
                    None => curve.missing = Some(format!("{}: it was not simulated", place.name)),
                }
            }
        }
    }
    curve
}

impl Source for Simulated {
    fn values(&self, series: &str, metric: &str) -> Result<Vec<(Place, f64)>, String> {
        self.chosen(series, metric, |measured| &measured.values)
    }

    fn neighbours(&self, series: &str, metric: &str, which: usize) -> Result<Vec<(Place, f64)>, String> {
        self.chosen(series, metric, |measured| measured.neighbours.get(which).unwrap_or(&measured.values))
    }
}

/// Loopbacks whose rate changes by more than this between the halves of the measured time have not converged. Bursts alone make up 2 %
/// where one core sends for 50 µs.
const CONVERGED: f64 = 0.05;

impl Simulated {
    /// True if a loopback is among its points.
    pub fn has_loopbacks(&self) -> bool {
        self.series.iter().flat_map(|s| &s.points).any(|(_, measured)| measured.values.contains_key("drift"))
    }

    /// Points that have not converged: series, point, and by how much the rate changed. Their warm-up is too short, or they fall from one
    /// rate to another and back.
    pub fn drifting(&self) -> impl Iterator<Item = (&str, &str, f64)> {
        let points = self.series.iter().flat_map(|s| s.points.iter().map(move |(place, m)| (s, place, m)));
        points.filter_map(|(series, place, measured)| {
            let drift = *measured.values.get("drift")?;
            (drift.abs() > CONVERGED).then_some((series.id.as_str(), place.name.as_str(), drift))
        })
    }

    fn chosen(
        &self,
        series: &str,
        metric: &str,
        choose: impl Fn(&Measured) -> &BTreeMap<String, f64>,
    ) -> Result<Vec<(Place, f64)>, String> {
        let curve = self.series.iter().find(|c| c.id == series).ok_or(format!("there is no {series}"))?;
        if curve.points.is_empty() {
            return Err(curve.missing.clone().unwrap_or_else(|| format!("{series} has no points")));
        }
        let value = |(place, measured): &(Place, Measured)| {
            let value = choose(measured).get(metric).copied();
            Ok((place.clone(), value.ok_or(format!("{series} has no {metric}"))?))
        };
        curve.points.iter().map(value).collect()
    }
}

impl Point {
    /// The point whose rate it is a share of, and the share; itself if it is none.
    fn of_peak(&self) -> (Point, Option<f64>) {
        match &self.work {
            Work::Loopback(settings, Offered::Share(share)) => {
                let work = Work::Loopback(settings.clone(), Offered::All);
                (Point { work, ..self.clone() }, Some(*share))
            }
            _ => (self.clone(), None),
        }
    }
}

/// The points of a series.
fn expand(series: &Series) -> Planned {
    if let Some(needs) = &series.needs {
        return Err(format!("not simulated yet: needs {needs}"));
    }
    let settings = &series.base;
    let fixed = |works: Vec<(&'static str, Work)>| {
        let place = |(i, (name, work)): (usize, (&str, Work))| {
            (Place { name: name.into(), number: i as f64 }, Point::new(settings, work))
        };
        works.into_iter().enumerate().map(place).collect()
    };
    Ok(match series.kind {
        Kind::Access => fixed(Held::ALL.map(|h| (h.name(), Work::Access(h))).into()),
        Kind::Pingpong => fixed(Words::ALL.map(|w| (w.name(), Work::Pingpong(w))).into()),
        Kind::Stream => fixed(Stores::ALL.map(|s| (s.name(), Work::Stream(s))).into()),
        Kind::MmioRead => fixed([("8 B", Work::MmioRead(8)), ("64 B", Work::MmioRead(64))].into()),
        Kind::MmioBurst => numbered(series, |value| Work::MmioBurst(value as u32)),
        Kind::MmioWrite => {
            let target = series.target.ok_or("it does not say what is written to")?.target();
            numbered(series, |value| Work::MmioWrite(target, value as u32))
        }
        Kind::CniLocalQueue => fixed(vec![("244 B", Work::Cni(CniWork::LocalQueue))]),
        Kind::CniPrograms => {
            let interface = series.interface.ok_or("it names no network interface")?.interface();
            fixed(
                Macrobenchmark::ALL
                    .map(|p| (p.name(), Work::Cni(CniWork::Macrobenchmark(interface, p))))
                    .into(),
            )
        }
        Kind::CniAcross => {
            let queue = series.queue.ok_or("it names no queue")?;
            let point = |(i, variant): (usize, &super::plan::Variant)| {
                let settings = variant.settings.over(&series.base);
                let place = Place { name: variant.name.clone(), number: i as f64 };
                (place, Point::new(&settings, Work::Across(queue)))
            };
            series.variants.iter().enumerate().map(point).collect()
        }
        Kind::CniRoundTrip | Kind::CniBandwidth => {
            let interface = series.interface.ok_or("it names no network interface")?.interface();
            let work =
                if series.kind == Kind::CniRoundTrip { CniWork::RoundTrip } else { CniWork::Bandwidth };
            numbered(series, |bytes| Work::Cni(work(interface, bytes as usize)))
        }
        Kind::Pio => {
            let pio = series.pio.ok_or("it does not say what happens")?;
            match pio.act {
                What::Fit => fixed(vec![("fit", Work::Pio(PioWork { series: pio, bytes: 0 }))]),
                _ => numbered(series, |bytes| Work::Pio(PioWork { series: pio, bytes: bytes as usize })),
            }
        }
        Kind::Load => loads(series),
        Kind::Application => {
            let app = series.app.ok_or("it does not say what is served")?;
            varied(series, |settings| Work::Application(settings, app))?
        }
        Kind::Loopback if series.variants.is_empty() => {
            varied(series, |settings| Work::Loopback(settings, Offered::All))?
        }
        Kind::Loopback => {
            let point = |(i, variant): (usize, &super::plan::Variant)| {
                let settings = variant.settings.over(&series.base);
                let place = Place { name: variant.name.clone(), number: i as f64 };
                (place, Point::new(&settings, Work::Loopback(settings.clone(), Offered::All)))
            };
            series.variants.iter().enumerate().map(point).collect()
        }
    })
}

fn numbered(series: &Series, work: impl Fn(f64) -> Work) -> Vec<(Place, Point)> {
    let place = |number: f64| Place { name: number.to_string(), number };
    series.values.iter().map(|&value| (place(value), Point::new(&series.base, work(value)))).collect()
}

fn loads(series: &Series) -> Vec<(Place, Point)> {
    let shares = if series.values.is_empty() { &LOADS[..] } else { &series.values };
    let point = |&share: &f64| {
        let (name, offered) = match share {
            0.0 => ("one packet".to_owned(), Offered::One),
            1.0 => ("all".to_owned(), Offered::All),
            share => (format!("{:.0} %", share * 100.0), Offered::Share(share)),
        };
        let work = Work::Loopback(series.base.clone(), offered);
        (Place { name, number: share }, Point::new(&series.base, work))
    };
    shares.iter().map(point).collect()
}

fn varied(series: &Series, work: impl Fn(Settings) -> Work) -> Planned {
    let over = series.over.as_deref().ok_or("it does not say what its values are of")?;
    let point = |&value: &f64| {
        let mut settings = series.base.clone();
        vary(&mut settings, over, value);
        let place = Place { name: value.to_string(), number: value };
        (place, Point::new(&settings, work(settings.clone())))
    };
    Ok(series.values.iter().map(point).collect())
}

fn vary(settings: &mut Settings, over: &str, value: f64) {
    match over {
        "cores" => settings.cores = Some(value as u16),
        "burst" => settings.burst = Some(value as usize),
        "rx-burst" => settings.rx_burst = Some(value as usize),
        "size" => settings.size = Some(value as u16),
        "inflight" => settings.inflight = Some(value as usize),
        key => {
            settings.set.insert(key.to_owned(), value);
        }
    }
}
