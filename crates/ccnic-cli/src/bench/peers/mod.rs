//! `ccnic bench peers`: one load generator over the drivers that a program could use instead, and over ours,
//! in one run.
//!
//! The generator is `ccnic-peers` (`dpdk/app/peers`, C on the ethdev API). Drivers are interleaved: each
//! repetition runs every driver at a size before the next size, and what is shown are medians over the
//! repetitions.

mod driver;
mod process;
mod program;
mod rows;
mod table;

use std::path::PathBuf;

use anyhow::ensure;
use ccnic_load::payload;
use clap::{Args, ValueEnum};

use crate::cpus::warn_if_disturbed;
use crate::print::{self, Progress};
use driver::Ran;
use process::PeerRun;
use rows::{Measured, Median, PeerRow};

pub use driver::Driver;
pub use program::Setup;

/// Options of `bench peers`.
#[derive(Debug, Args)]
pub struct PeersArgs {
    /// Drivers to compare; several with commas
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Driver::ALL)]
    drivers: Vec<Driver>,
    /// Who returns the packets
    #[arg(long, value_enum, default_value_t = Through::Nic)]
    through: Through,
    /// Bytes of each packet, 16 (through a switch 32) to 9600; several with commas
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
    /// The folder of net_ccnic and its mempool driver [default: dpdk in the folder of this program, or
    /// target/dpdk/plugins]
    #[arg(long, value_name = "FOLDER")]
    plugins: Option<PathBuf>,
    /// Use pages of 4 KiB even if pages of 2 MiB are free
    #[arg(long)]
    small_pages: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Who returns the packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Through {
    /// the NIC itself
    Nic,
    /// a second program, behind a switch: ccnicd's for ccnic, for other drivers testpmd as a bridge between two ports
    Switch,
}

impl Through {
    /// How often each packet passes what is between.
    fn passes(self) -> f64 {
        match self {
            Through::Nic => 1.0,
            Through::Switch => 2.0,
        }
    }
}

/// The runs of a driver at a packet size, and why it is skipped, if so.
#[derive(Debug, Default)]
struct Attempts {
    runs: Vec<PeerRun>,
    skipped: Option<String>,
}

/// Runs the comparison; false when a driver failed, our own could not be loaded, or a packet came back damaged.
pub fn run(args: &PeersArgs) -> anyhow::Result<bool> {
    check(args)?;
    let setup = Setup::new(args.program.as_deref(), args.plugins.as_deref(), args.small_pages)?;
    let needed = args.drivers.iter().any(|driver| driver.needs_plugin());
    setup.announce(needed);
    let steps = args.repeat * args.size.len() * args.drivers.len();
    let progress = Progress::of_measurements("peers", steps, args.json);
    let mut good = !needed || setup.no_plugin().is_none();
    let mut cells: Vec<Vec<Attempts>> =
        args.size.iter().map(|_| args.drivers.iter().map(|_| Attempts::default()).collect()).collect();
    for repetition in 1..=args.repeat {
        for (&size, cells) in args.size.iter().zip(&mut cells) {
            for (&driver, cell) in args.drivers.iter().zip(cells) {
                if cell.skipped.is_some() {
                    progress.step();
                    continue;
                }
                progress.say(format!("run {repetition}: {}, {size} B", driver.name()));
                let PeersArgs { through, inflight, seconds, .. } = args;
                let load = driver::PeerLoad { through: *through, size, inflight, seconds: *seconds };
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
    print::result(args.json, &rows, || table::table(&rows, args.repeat, args.through).text())?;
    Ok(good)
}

fn check(args: &PeersArgs) -> anyhow::Result<()> {
    let least = if args.through == Through::Switch { payload::MIN_ETHERNET } else { 16 };
    for size in &args.size {
        ensure!((least..=9600).contains(size), "--size is {size}; choose {least} to 9600");
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
fn rows(args: &PeersArgs, cells: &[Vec<Attempts>]) -> Vec<PeerRow> {
    let mut rows = Vec::new();
    for (&size, cells) in args.size.iter().zip(cells) {
        for (driver, cell) in args.drivers.iter().zip(cells) {
            for &inflight in &args.inflight {
                let result = match &cell.skipped {
                    Some(why) => Measured::Not { skipped: why.clone() },
                    None => Measured::Median(Median::of(size, inflight, &cell.runs)),
                };
                rows.push(PeerRow { driver: driver.name(), size, inflight, result });
            }
        }
    }
    rows
}
