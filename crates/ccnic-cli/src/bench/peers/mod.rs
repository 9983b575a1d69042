//! `ccnic bench peers`: one load generator over the drivers that a program could use instead, and over ours, in one run.
//!
//! The generator is `ccnic-peers` (`dpdk/app/peers`, C on the ethdev API). Drivers are interleaved: each repetition runs every driver
//! at a size before the next size, and what is shown are medians over the repetitions.

mod driver;
mod process;
mod program;
mod table;

use std::path::PathBuf;

use anyhow::ensure;
use clap::Args;
use serde::Serialize;

use crate::cpus::warn_if_disturbed;
use crate::print::{self, Progress};
use crate::stats::median;
use driver::{Ran, Run};
use program::Setup;

pub use driver::Driver;

/// Options of `bench peers`.
#[derive(Debug, Args)]
pub struct PeersArgs {
    /// Drivers to compare; several with commas
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Driver::ALL)]
    drivers: Vec<Driver>,
    /// Bytes of each packet, 16 to 9600; several with commas
    #[arg(long, value_delimiter = ',', default_values_t = [64, 256, 1500, 9000], value_name = "BYTES")]
    size: Vec<u16>,
    /// Packets in flight, 1 to 1024; several with commas
    #[arg(long, value_delimiter = ',', default_values_t = [1, 64, 512], value_name = "PACKETS")]
    inflight: Vec<usize>,
    /// Seconds of each run of a driver at a load
    #[arg(long, default_value_t = 0.5)]
    seconds: f64,
    /// Runs of every driver at every load; medians are shown
    #[arg(long, default_value_t = 3)]
    repeat: usize,
    /// The load generator [default: ccnic-peers in the folder of this program, or in dpdk there]
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// The folder of net_ccnic and its mempool driver [default: dpdk in the folder of this program, or target/dpdk/plugins]
    #[arg(long, value_name = "FOLDER")]
    plugins: Option<PathBuf>,
    /// Use pages of 4 KiB even if pages of 2 MiB are free
    #[arg(long)]
    small_pages: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A driver at a load: medians over the repetitions, or why there are none.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    pub driver: &'static str,
    pub size: u16,
    pub inflight: usize,
    #[serde(flatten)]
    pub result: Measured,
}

/// What a row says.
#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
pub enum Measured {
    Median(Median),
    Not {
        /// Why there are no figures.
        skipped: String,
    },
}

/// Medians over the repetitions; losses and damage of all of them.
#[derive(Debug, Clone, Serialize)]
pub struct Median {
    pub mpps: f64,
    pub gbps: f64,
    pub rtt_p50_ns: u64,
    pub rtt_p99_ns: u64,
    pub lost: u64,
    pub corrupt: u64,
    pub runs: usize,
    /// The least share of its time that the generator's thread had its CPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_share: Option<f64>,
}

/// What is known of a driver at a size.
#[derive(Debug, Default)]
struct Cell {
    runs: Vec<Run>,
    skipped: Option<String>,
}

/// Runs the comparison; false when a driver failed or a packet came back damaged.
pub fn run(args: &PeersArgs) -> anyhow::Result<bool> {
    check(args)?;
    let setup = Setup::new(args.program.as_deref(), args.plugins.as_deref(), args.small_pages)?;
    setup.announce(&args.drivers);
    let steps = args.repeat * args.size.len() * args.drivers.len();
    let progress = Progress::of_measurements("peers", steps, args.json);
    let mut good = true;
    let mut cells: Vec<Vec<Cell>> =
        args.size.iter().map(|_| args.drivers.iter().map(|_| Cell::default()).collect()).collect();
    for repetition in 1..=args.repeat {
        for (&size, cells) in args.size.iter().zip(&mut cells) {
            for (&driver, cell) in args.drivers.iter().zip(cells) {
                if cell.skipped.is_some() {
                    progress.step();
                    continue;
                }
                progress.say(format!("run {repetition}: {}, {size} B", driver.name()));
                let load = driver::Load { size, inflight: &args.inflight, seconds: args.seconds };
                match driver.measure(&setup, &load) {
                    Ok(Ran::Runs(runs)) => cell.runs.extend(runs),
                    Ok(Ran::Not(why)) => cell.skipped = Some(why),
                    Err(e) => {
                        print::warn(&format!("{} failed at {size} B: {}", driver.name(), print::message(&e)));
                        cell.skipped = Some("failed, see above".to_owned());
                        good = false;
                    }
                }
                progress.step();
            }
        }
    }
    drop(progress);
    let rows = rows(args, &cells);
    warn_if_disturbed(cells.iter().flatten().flat_map(|cell| &cell.runs).filter_map(|run| run.cpu_share));
    good &= rows.iter().all(|row| !matches!(&row.result, Measured::Median(m) if m.corrupt > 0));
    print::result(args.json, &rows, || table::table(&rows, args.repeat).text())?;
    Ok(good)
}

fn check(args: &PeersArgs) -> anyhow::Result<()> {
    for size in &args.size {
        ensure!((16..=9600).contains(size), "--size is {size}; choose 16 to 9600");
    }
    for inflight in &args.inflight {
        ensure!((1..=1024).contains(inflight), "--inflight is {inflight}; choose 1 to 1024");
    }
    ensure!(args.inflight.len() <= 16, "--inflight has {} numbers; choose up to 16", args.inflight.len());
    let seconds = args.seconds;
    ensure!(seconds > 0.0 && seconds <= 3600.0, "--seconds is {seconds}; choose up to 3600");
    ensure!((1..=1000).contains(&args.repeat), "--repeat is {}; choose 1 to 1000", args.repeat);
    Ok(())
}

/// One row per driver and load, by size.
fn rows(args: &PeersArgs, cells: &[Vec<Cell>]) -> Vec<Row> {
    let mut rows = Vec::new();
    for (&size, cells) in args.size.iter().zip(cells) {
        for (driver, cell) in args.drivers.iter().zip(cells) {
            for &inflight in &args.inflight {
                let result = match &cell.skipped {
                    Some(why) => Measured::Not { skipped: why.clone() },
                    None => Measured::Median(Median::of(size, inflight, &cell.runs)),
                };
                rows.push(Row { driver: driver.name(), size, inflight, result });
            }
        }
    }
    rows
}

impl Median {
    fn of(size: u16, inflight: usize, runs: &[Run]) -> Median {
        let mine = || runs.iter().filter(|run| run.inflight == inflight);
        let mpps = median(mine().map(|run| run.mpps));
        let ns = |of: fn(&Run) -> u64| median(mine().map(|run| of(run) as f64)) as u64;
        Median {
            mpps,
            gbps: mpps * f64::from(size) * 8.0 / 1e3,
            rtt_p50_ns: ns(|run| run.rtt_p50_ns),
            rtt_p99_ns: ns(|run| run.rtt_p99_ns),
            lost: mine().map(|run| run.lost).sum(),
            corrupt: mine().map(|run| run.corrupt).sum(),
            runs: mine().count(),
            cpu_share: mine().filter_map(|run| run.cpu_share).reduce(f64::min),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_are_of_the_same_load_and_losses_add_up() {
        let run = |inflight, mpps, lost| Run {
            inflight,
            mpps,
            rtt_p50_ns: 7,
            rtt_p99_ns: 9,
            lost,
            corrupt: 0,
            cpu_share: Some(mpps / 100.0),
        };
        let runs = [run(1, 5.0, 1), run(64, 90.0, 0), run(1, 1.0, 2), run(1, 2.0, 0)];
        let m = Median::of(125, 1, &runs);
        assert_eq!((m.mpps, m.gbps, m.lost, m.runs, m.rtt_p50_ns), (2.0, 2.0, 3, 3, 7));
        assert_eq!(m.cpu_share, Some(0.01));
    }
}
