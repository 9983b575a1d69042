//! `ccnic sim run` and `ccnic sim systems`: every published system by its name.

use ccnic_sim::parallel;
use ccnic_sim::platform::AnyPlatform;
use ccnic_sim::published::{Seen, System};
use clap::Args;
use serde::Serialize;

use super::machine::Changes;
use crate::print::{self, Column, Progress, Table, units};

/// Options of `sim run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// System to simulate; `ccnic sim systems` lists them
    #[arg(long, value_name = "NAME")]
    system: String,
    /// Platform to simulate it on: a built-in one or a TOML file [default: the system's first]
    #[arg(long, value_name = "NAME | FILE")]
    platform: Option<String>,
    #[command(flatten)]
    changes: Changes,
    /// Bytes of each message; several with commas
    #[arg(long, value_delimiter = ',', default_values_t = [64], value_name = "BYTES")]
    size: Vec<usize>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A line of the result.
#[derive(Debug, Serialize)]
struct Row {
    system: &'static str,
    platform: String,
    size: usize,
    #[serde(flatten)]
    seen: Seen,
}

/// Simulates a system and prints.
pub fn run(args: &RunArgs) -> anyhow::Result<()> {
    let system = System::named(&args.system)?;
    let name = args.platform.as_deref().or_else(|| system.platforms().first().copied()).unwrap_or_default();
    let platform = args.changes.of_any(AnyPlatform::named(name)?)?;
    // What cannot be is reported before anything is simulated.
    args.size.iter().try_for_each(|size| system.check(&platform, *size))?;
    let progress = Progress::of_simulations("run", args.size.len(), args.json);
    let found = parallel::map(&args.size, |&size| {
        let seen = system.run(&platform, size);
        progress.step();
        seen.map(|seen| Row { system: system.name, platform: platform.name().to_owned(), size, seen })
    });
    drop(progress);
    let rows = found.into_iter().collect::<Result<Vec<_>, _>>()?;
    print::result(args.json, &rows, || table(&system, &platform, &rows).text())
}

fn table(system: &System, platform: &AnyPlatform, rows: &[Row]) -> Table {
    let columns = [
        Column::number("bytes"),
        Column::number("round trip\nns"),
        Column::number("million\nmessages/s"),
        Column::number("Gb/s"),
    ];
    let title = format!("{} on {}, simulated: {}", system.name, platform.name(), system.about);
    let mut table = Table::new(title, columns);
    for Row { size, seen, .. } in rows {
        let rtt = units::number(seen.round_trip_ns);
        let gbps = seen.mpps * *size as f64 * 8.0 / 1e3;
        table.row([size.to_string(), rtt, units::number(seen.mpps), units::number(gbps)]);
    }
    table.note(format!("round trip: {}. messages/s: {}", system.round_trip(), system.rate()));
    table
}

/// Options of `sim systems`.
#[derive(Debug, Args)]
pub struct SystemsArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Lists the systems, and the built-in platforms that each can be on.
pub fn list(args: &SystemsArgs) -> anyhow::Result<()> {
    #[derive(Serialize)]
    struct Listed {
        system: &'static str,
        paper: &'static str,
        about: &'static str,
        platforms: Vec<&'static str>,
    }
    let listed: Vec<Listed> = System::all()
        .iter()
        .map(|s| Listed { system: s.name, paper: s.paper, about: s.about, platforms: s.platforms() })
        .collect();
    print::result(args.json, &listed, || {
        let columns = [
            Column::text("system"),
            Column::text("paper"),
            Column::text("platforms"),
            Column::prose("description"),
        ];
        let mut table = Table::new("Systems that can be simulated", columns);
        for Listed { system, paper, about, platforms } in &listed {
            let paper = if paper.is_empty() { "-" } else { paper };
            let row = [(*system).to_owned(), paper.to_owned(), platforms.join(", "), (*about).to_owned()];
            table.row(row);
        }
        table.note("`ccnic sim run --system NAME --platform NAME` simulates one, `ccnic explore --systems` compares some.");
        table.text()
    })
}
