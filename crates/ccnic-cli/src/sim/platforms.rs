//! `ccnic sim platforms`: what can be simulated, and where its numbers come from.

use ccnic_sim::platform::{Entry, Platform};
use clap::Args;

use crate::print::{self, Column, Table, units};

/// Options of `sim platforms`.
#[derive(Debug, Args)]
pub struct PlatformsArgs {
    /// Platform files to check and list beside the built-in platforms
    files: Vec<String>,
    /// Print a platform as TOML: every value with its unit and its source, a file to begin with
    #[arg(long, value_name = "NAME | FILE")]
    show: Option<String>,
    /// Show the values of a platform and their sources as a table
    #[arg(long, value_name = "NAME | FILE", conflicts_with = "show")]
    values: Option<String>,
}

/// Lists platforms, or shows one. All are checked.
pub fn run(args: &PlatformsArgs) -> anyhow::Result<()> {
    if let Some(name) = &args.show {
        print::line(Platform::text(name)?.trim_end());
        return Ok(());
    }
    let shown = match &args.values {
        Some(name) => values(&Platform::named(name)?),
        None => {
            let files = args.files.iter().map(Platform::load);
            let built_in = Platform::names().iter().map(|name| Platform::named(name));
            list(&built_in.chain(files).collect::<Result<Vec<_>, _>>()?)
        }
    };
    print::line(&shown.text());
    Ok(())
}

fn list(platforms: &[Platform]) -> Table {
    let columns = [
        Column::text("platform"),
        Column::number("cores\nper side"),
        Column::number("link\nGb/s"),
        Column::number("one way\nns"),
        Column::number("values"),
        Column::number("assumed"),
        Column::number("fitted"),
        Column::prose("description"),
    ];
    let mut table = Table::new("Platforms that can be simulated", columns);
    for platform in platforms {
        let entries = platform.entries();
        let marked = |mark: fn(&Entry) -> bool| entries.iter().filter(|e| mark(e)).count().to_string();
        let (host, nic) = (platform.topology.host_cores.get(), platform.topology.nic_cores.get());
        let link = platform.link.as_ref();
        let number = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |x| format!("{x:.0}"));
        table.row([
            platform.name.clone(),
            if host == nic { host.to_string() } else { format!("{host}, {nic}") },
            number(link.map(|l| l.rate.get() / f64::from(l.data_flits.get()) * 512.0)),
            link.map_or_else(|| "-".to_owned(), |l| l.one_way.get().to_string()),
            entries.len().to_string(),
            marked(|e| e.assumed),
            marked(|e| e.fitted),
            platform.about.clone(),
        ]);
    }
    table.note(format!("cores per side: of the host, of the NIC. link: its data rate in each direction, and its latency one way. {MARKS}"));
    table
}

/// What the marks of values mean.
const MARKS: &str = "assumed: general knowledge that has not been verified. fitted: chosen so that the calibration probes meet their \
                     targets. Other values have a source (`--values` names it).";

fn values(platform: &Platform) -> Table {
    let columns = [
        Column::text("key"),
        Column::number("value"),
        Column::text("unit"),
        Column::text("mark"),
        Column::prose("source"),
    ];
    let mut table = Table::new(format!("{}: {}", platform.name, platform.about), columns);
    for entry in platform.entries() {
        let mark = match (entry.assumed, entry.fitted) {
            (true, _) => "assumed",
            (_, true) => "fitted",
            _ => "",
        };
        let unit = units::of_platform(&entry.unit).to_owned();
        table.row([entry.key, entry.value, unit, mark.to_owned(), entry.source]);
    }
    table.note(MARKS);
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::print::longest_line;

    #[test]
    fn every_platform_fits_80_columns_and_140() {
        let platforms: Vec<Platform> =
            Platform::names().iter().map(|name| Platform::named(name).unwrap()).collect();
        for width in [80, 140] {
            let text = list(&platforms).in_width(width);
            assert!(longest_line(&text) <= width, "{text}");
            for platform in &platforms {
                assert!(text.contains(&platform.name), "{text}");
                let text = values(platform).in_width(width);
                assert!(longest_line(&text) <= width, "{text}");
            }
        }
    }
}
