//! `ccnic sim calibrate`: simulated latencies and rates of platforms beside the targets in their files, and beside what was measured on
//! the machines themselves.

use ccnic_sim::calibrate::{Probe, TOLERANCE, calibrate};
use ccnic_sim::native::{self, native};
use ccnic_sim::parallel;
use ccnic_sim::platform::Platform;
use clap::Args;

use super::machine::Changes;
use crate::print::{self, Column, Progress, Table, units};

/// Options of `sim calibrate`.
#[derive(Debug, Args)]
pub struct CalibrateArgs {
    /// Built-in platforms or platform files [default: all built-in platforms]
    platforms: Vec<String>,
    /// Compare packet rates and round trips with those of `ccnic bench loopback` on the machine itself, to which
    /// nothing is fitted, instead of calibrated values with their targets
    #[arg(long)]
    native: bool,
    #[command(flatten)]
    changes: Changes,
    /// Exit with status 1 when a simulated value is more than 3 % from its target, with --native 25 %
    #[arg(long)]
    check: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the probes and prints them. False with `--check` when one misses its target.
pub fn run(args: &CalibrateArgs) -> anyhow::Result<bool> {
    let built_in: Vec<String> = Platform::names().iter().map(|name| (*name).to_owned()).collect();
    let names = if args.platforms.is_empty() { built_in } else { args.platforms.clone() };
    let platforms = names
        .iter()
        .map(|name| args.changes.of(Platform::named(name)?, Platform::overridden))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let progress = Progress::of_simulations("calibrate", platforms.len(), args.json);
    let probes = parallel::map(&platforms, |platform| {
        let probes = if args.native { native(platform).map_err(Into::into) } else { calibrate(platform) };
        progress.step();
        probes
    });
    drop(progress);
    let probes = probes.into_iter().collect::<Result<Vec<_>, _>>()?.concat();
    let (kind, tolerance) = if args.native { ("native", native::TOLERANCE) } else { ("targets", TOLERANCE) };
    print::result(args.json, &probes, || probes_table(&probes, kind, tolerance).text())?;
    let out = probes.iter().filter(|p| !p.within).count();
    if !args.json && out > 0 {
        let percent = tolerance * 100.0;
        print::warn(&format!(
            "{out} of {} values are more than {percent:.0} % from their target",
            probes.len()
        ));
    }
    Ok(!args.check || out == 0)
}

fn probes_table(probes: &[Probe], kind: &str, tolerance: f64) -> Table {
    let columns = [
        Column::text("platform"),
        Column::text("target"),
        Column::number("wanted"),
        Column::number("simulated"),
        Column::number("error"),
        Column::text(""),
    ];
    let mut table = Table::new("", columns);
    for p in probes {
        table.row([
            p.platform.clone(),
            format!("{} [{}]", p.target, units::of_platform(p.unit)),
            format!("{:.1}", p.wanted),
            format!("{:.1}", p.simulated),
            format!("{:+.1} %", p.error * 100.0),
            (if p.within { "" } else { "OUT" }).to_owned(),
        ]);
    }
    table.note(format!(
        "wanted: the value in the platform's file, under [{kind}]. OUT: more than {:.0} % from it.",
        tolerance * 100.0
    ));
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::print::longest_line;

    #[test]
    fn the_table_fits_80_columns() {
        let probe = |within| Probe {
            platform: "spr-same-socket".to_owned(),
            target: "remote_hitm_writer_homed",
            wanted: 1020.0,
            simulated: 1023.6,
            unit: "ns",
            error: -0.123,
            within,
            assumed: false,
            source: String::new(),
        };
        let text = probes_table(&[probe(true), probe(false)], "targets", TOLERANCE).in_width(80);
        assert!(longest_line(&text) <= 80, "{text}");
        assert_eq!(text.lines().filter(|line| line.ends_with("OUT")).count(), 1, "{text}");
    }
}
