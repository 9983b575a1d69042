//! `ccnic sim calibrate`: probes of platforms against what their files say that they must show.

use ccnic_sim::calibrate::{Probe, TOLERANCE, calibrate};
use ccnic_sim::parallel;
use ccnic_sim::platform::Platform;
use clap::Args;
use comfy_table::Table;

use super::bar;
use crate::bench::{long_table, print};

/// Options of `sim calibrate`.
#[derive(Debug, Args)]
pub struct CalibrateArgs {
    /// Built-in platforms or files [default: all built-in ones]
    platforms: Vec<String>,
    /// End with status 1 when a probe is more than 3 % out
    #[arg(long)]
    check: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the probes and prints them. False when they were to be checked and one is out.
pub fn run(args: &CalibrateArgs) -> anyhow::Result<bool> {
    let built_in: Vec<String> = Platform::names().iter().map(|name| (*name).to_owned()).collect();
    let names = if args.platforms.is_empty() { built_in } else { args.platforms.clone() };
    let platforms = names.iter().map(|name| Platform::named(name)).collect::<Result<Vec<_>, _>>()?;
    let bar = bar(platforms.len(), "calibrate");
    let probes = parallel::map(&platforms, |platform| {
        let probes = calibrate(platform);
        bar.inc(1);
        probes
    });
    bar.finish_and_clear();
    let probes = probes.into_iter().collect::<Result<Vec<_>, _>>()?.concat();
    print(args.json, &probes, || probes_table(&probes))?;
    let out = probes.iter().filter(|p| !p.within).count();
    if !args.json && out > 0 {
        eprintln!("ccnic: {out} of {} probes are more than {:.0} % out", probes.len(), TOLERANCE * 100.0);
    }
    Ok(!args.check || out == 0)
}

fn probes_table(probes: &[Probe]) -> Table {
    let mut table = long_table(&["platform", "probe", "wanted", "simulated", "unit", "error", ""]);
    for p in probes {
        table.add_row([
            p.platform.clone(),
            p.target.to_owned(),
            format!("{:.1}", p.wanted),
            format!("{:.1}", p.simulated),
            p.unit.to_owned(),
            format!("{:+.1} %", p.error * 100.0),
            (if p.within { "within" } else { "OUT" }).to_owned(),
        ]);
    }
    table
}
