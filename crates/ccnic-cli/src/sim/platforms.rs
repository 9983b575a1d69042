//! `ccnic sim platforms`: what can be simulated, and where its numbers come from.

use std::io::Write;

use ccnic_sim::platform::{Entry, Platform};
use clap::Args;
use comfy_table::{CellAlignment, ContentArrangement, Table};

use crate::bench::long_table;

/// Options of `sim platforms`.
#[derive(Debug, Args)]
pub struct PlatformsArgs {
    /// Files to check, beside the built-in platforms
    files: Vec<String>,
    /// Show a platform's values and their sources
    #[arg(long, value_name = "PLATFORM")]
    show: Option<String>,
}

/// Lists platforms, or shows one. All are checked.
pub fn run(args: &PlatformsArgs) -> anyhow::Result<()> {
    let shown = match &args.show {
        Some(name) => values(&Platform::named(name)?),
        None => list(&args.files)?,
    };
    // A reader that has gone (`| head`) is no failure.
    let _ = writeln!(std::io::stdout(), "{shown}");
    Ok(())
}

fn list(files: &[String]) -> anyhow::Result<Table> {
    let mut table = long_table(&[
        "platform",
        "cores a side",
        "link Gb/s",
        "one way ns",
        "assumed",
        "fitted",
        "what it is",
    ]);
    let files = files.iter().map(Platform::load);
    let platforms = Platform::names().iter().map(|name| Platform::named(name)).chain(files);
    for platform in platforms {
        let platform = platform?;
        let entries = platform.entries();
        let marked = |mark: fn(&Entry) -> bool| {
            format!("{} of {}", entries.iter().filter(|e| mark(e)).count(), entries.len())
        };
        let (host, nic) = (platform.topology.host_cores.get(), platform.topology.nic_cores.get());
        let link = platform.link.as_ref();
        let number = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |x| format!("{x:.0}"));
        table.add_row([
            platform.name.clone(),
            if host == nic { host.to_string() } else { format!("{host}, {nic}") },
            number(link.map(|l| l.rate.get() / f64::from(l.data_flits.get()) * 512.0)),
            link.map_or_else(|| "-".to_owned(), |l| l.one_way.get().to_string()),
            marked(|e| e.assumed),
            marked(|e| e.fitted),
            platform.about.clone(),
        ]);
    }
    table.set_content_arrangement(ContentArrangement::Dynamic);
    if let Some(about) = table.column_mut(6) {
        about.set_cell_alignment(CellAlignment::Left);
    }
    Ok(table)
}

fn values(platform: &Platform) -> Table {
    let mut table = long_table(&["value", "", "unit", "mark", "source"]);
    for entry in platform.entries() {
        let mark = match (entry.assumed, entry.fitted) {
            (true, _) => "assumed",
            (_, true) => "fitted",
            _ => "",
        };
        table.add_row([entry.key, entry.value, entry.unit, mark.to_owned(), entry.source]);
    }
    table.set_content_arrangement(ContentArrangement::Dynamic);
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Left);
    }
    table
}
