//! `ccnic reproduce`: the paper's figures, simulated, drawn, and its statements beside ours.

mod page;
mod picture;
mod text;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Context;
use ccnic_sim::figures::plan::Figure;
use ccnic_sim::figures::point::Effort;
use ccnic_sim::figures::run::{Batch, Simulated};
use ccnic_sim::figures::statement::Verdict;
use ccnic_sim::figures::{all, named};
use clap::Args;

use crate::bench::long_table;
use crate::sim::bar;

/// Options of `reproduce`.
#[derive(Debug, Args)]
pub struct ReproduceArgs {
    /// Figures by their numbers, plan files, or `all`; `list` shows which there are
    #[arg(required = true, value_name = "list | all | FIGURE")]
    figures: Vec<String>,
    /// Where pictures, tables and the page go
    #[arg(long, default_value = "reproduced")]
    out: PathBuf,
    /// A tenth of the simulated time: rough figures, soon
    #[arg(long)]
    quick: bool,
}

/// Reproduces figures, or lists them.
pub fn run(args: &ReproduceArgs) -> anyhow::Result<()> {
    if args.figures == ["list"] {
        return list();
    }
    let figures = if args.figures.iter().any(|name| name == "all") {
        all()?
    } else {
        args.figures.iter().map(|name| named(name)).collect::<Result<_, _>>()?
    };
    std::fs::create_dir_all(&args.out)
        .with_context(|| format!("could not make {}; choose another --out", args.out.display()))?;
    let begun = Instant::now();
    let batch = Batch::new(figures);
    let bar = bar(batch.len(), "simulating");
    let effort = if args.quick { Effort::QUICK } else { Effort::FULL };
    let simulations = batch.len();
    let simulated = batch.run(effort, || bar.inc(1));
    bar.finish_and_clear();
    let mut pictures = Vec::new();
    for figure in &simulated {
        let stem = args.out.join(format!("figure-{}", file_name(&figure.figure.id)));
        write(&stem.with_extension("csv"), &csv(figure))?;
        pictures.push(picture::of(figure).save(&stem)?);
    }
    let verdicts: Vec<&Verdict> = simulated.iter().flat_map(|f| &f.verdicts).collect();
    write(&args.out.join("summary.json"), &serde_json::to_string_pretty(&verdicts)?)?;
    let about = page::About { quick: args.quick, simulations, took: begun.elapsed() };
    write(&args.out.join("index.html"), &page::page(&simulated, &pictures, &about))?;
    show(&verdicts);
    let seconds = begun.elapsed().as_secs_f64();
    println!(
        "{simulations} simulations, {seconds:.0} s; pictures, tables and statements: {}",
        args.out.join("index.html").display()
    );
    Ok(())
}

fn list() -> anyhow::Result<()> {
    let mut table = long_table(&["figure", "statements", "what it shows", "paper"]);
    for Figure { id, title, cites, statements, .. } in all()? {
        table.add_row([id, statements.len().to_string(), title, cites]);
    }
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(comfy_table::CellAlignment::Left);
    }
    // A reader that has gone (`| head`) is no failure.
    let _ = writeln!(std::io::stdout(), "{table}");
    Ok(())
}

/// A figure's number as part of a file's name.
fn file_name(id: &str) -> String {
    id.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::write(path, text)
        .with_context(|| format!("could not write {}; choose another --out", path.display()))
}

/// Every value of every point.
fn csv(figure: &Simulated) -> String {
    let points = || figure.series.iter().flat_map(|s| s.points.iter().map(move |p| (s, p)));
    let keys: BTreeSet<&String> = points().flat_map(|(_, (_, m))| m.values.keys()).collect();
    let mut csv = String::from("series,point,x");
    keys.iter().for_each(|key| csv.extend([",", key]));
    csv.push('\n');
    for (series, (place, measured)) in points() {
        let _ = write!(csv, "{},\"{}\",{}", series.id, place.name.replace('"', "\"\""), place.number);
        for key in &keys {
            csv.push(',');
            if let Some(value) = measured.values.get(*key) {
                let _ = write!(csv, "{value}");
            }
        }
        csv.push('\n');
    }
    csv
}

/// The statements on the terminal.
fn show(verdicts: &[&Verdict]) {
    let mut table = long_table(&["figure", "statement", "published", "simulated", "error", "", ""]);
    for v in verdicts {
        table.add_row([
            v.figure.clone(),
            v.statement.clone(),
            text::published(v),
            text::simulated(v),
            text::error(v),
            text::verdict(v).to_owned(),
            v.calibration.to_owned(),
        ]);
    }
    let _ = writeln!(std::io::stdout(), "{table}\n{}", text::count(verdicts));
}
