//! `ccnic sim platforms`: what can be simulated, and where its numbers come from.

use ccnic_sim::platform::{AnyPlatform, Entry};
use clap::Args;
use serde_json::{Value, json};

use super::machine::Changes;
use crate::print::{self, Column, Table, units};

/// Options of `sim platforms`.
#[derive(Debug, Args)]
pub struct PlatformsArgs {
    /// Platform files to check and list beside the built-in platforms
    files: Vec<String>,
    /// Print a platform as TOML, with --set as it is changed: every value with its unit and its source, a
    /// file to begin with
    #[arg(long, value_name = "NAME | FILE")]
    show: Option<String>,
    /// Show the values of a platform and their sources as a table
    #[arg(long, value_name = "NAME | FILE", conflicts_with = "show")]
    values: Option<String>,
    #[command(flatten)]
    changes: Changes,
    /// Print JSON: each platform with its values, their units and their sources
    #[arg(long, conflicts_with = "show")]
    json: bool,
}

/// Lists platforms, or shows one. All are checked.
pub fn run(args: &PlatformsArgs) -> anyhow::Result<()> {
    let changed = |name: &String| args.changes.of_any(AnyPlatform::named(name)?);
    match (&args.show, &args.values) {
        (Some(name), _) if args.changes.is_empty() => {
            print::line(AnyPlatform::text(name)?.trim_end());
            Ok(())
        }
        (Some(name), _) => {
            print::line(changed(name)?.to_toml().trim_end());
            Ok(())
        }
        (None, Some(name)) => {
            let platform = changed(name)?;
            print::result(args.json, &object(&platform), || values(&platform).text())
        }
        (None, None) => {
            anyhow::ensure!(args.changes.is_empty(), "--set changes one platform: add --show or --values");
            let files = args.files.iter().map(|file| AnyPlatform::load(file));
            let built_in = AnyPlatform::names().into_iter().map(AnyPlatform::named);
            let all = built_in.chain(files).collect::<Result<Vec<_>, _>>()?;
            let objects: Vec<_> = all.iter().map(object).collect();
            print::result(args.json, &objects, || list(&all).text())
        }
    }
}

/// A platform for other programs.
fn object(platform: &AnyPlatform) -> Value {
    let value = |entry: Entry| {
        let Entry { key, value, unit, source, assumed, fitted } = entry;
        json!({ "key": key, "value": value, "unit": unit, "source": source, "assumed": assumed, "fitted": fitted })
    };
    let values: Vec<_> = platform.entries().into_iter().map(value).collect();
    json!({ "platform": platform.name(), "machine": platform.machine(), "about": platform.about(), "values": values })
}

fn list(platforms: &[AnyPlatform]) -> Table {
    let columns = [
        Column::text("platform"),
        Column::text("machine"),
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
        let [cores, rate, one_way] = link(platform);
        table.row([
            platform.name().to_owned(),
            platform.machine().to_owned(),
            cores,
            rate,
            one_way,
            entries.len().to_string(),
            marked(|e| e.assumed),
            marked(|e| e.fitted),
            platform.about().to_owned(),
        ]);
    }
    table.note(format!(
        "machine: sockets of cores; buses that snoop; a device link, whose device holds answers back. cores per side: of the host, of the \
         NIC. link: its data rate in each direction, and its latency one way. {MARKS}"
    ));
    table
}

/// Cores of both sides, and the link's rate and latency; a dash for what a machine has not.
fn link(platform: &AnyPlatform) -> [String; 3] {
    let dash = || "-".to_owned();
    match platform {
        AnyPlatform::Sockets(p) => {
            let (host, nic) = (p.topology.host_cores.get(), p.topology.nic_cores.get());
            let cores = if host == nic { host.to_string() } else { format!("{host}, {nic}") };
            let Some(link) = &p.link else { return [cores, dash(), dash()] };
            [cores, format!("{:.0}", link.data_rate() * 8.0), units::number(link.one_way.get())]
        }
        AnyPlatform::Buses(_) => [dash(), dash(), dash()],
        AnyPlatform::Device(p) => p.link.as_ref().map_or([dash(), dash(), dash()], |link| {
            let rate = format!("{:.0}", link.gbytes_per_s.get() * 8.0);
            [dash(), rate, units::number(link.one_way.get())]
        }),
    }
}

/// What the marks of values mean.
const MARKS: &str = "assumed: general knowledge that has not been verified. fitted: chosen so that the calibration probes meet their \
                     targets. Other values have a source (`--values` names it).";

fn values(platform: &AnyPlatform) -> Table {
    let columns = [
        Column::text("key"),
        Column::number("value"),
        Column::text("unit"),
        Column::text("mark"),
        Column::prose("source"),
    ];
    let mut table = Table::new(format!("{}: {}", platform.name(), platform.about()), columns);
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
        let platforms: Vec<AnyPlatform> =
            AnyPlatform::names().iter().map(|name| AnyPlatform::named(name).unwrap()).collect();
        for width in [80, 140] {
            let text = list(&platforms).in_width(width);
            assert!(longest_line(&text) <= width, "{text}");
            for platform in &platforms {
                assert!(text.contains(platform.name()), "{text}");
                let text = values(platform).in_width(width);
                assert!(longest_line(&text) <= width, "{text}");
            }
        }
    }
}
