//! `ccnic reproduce`: the paper's figures, simulated and drawn, and its statements beside the simulated
//! values.

mod markdown;
mod page;
mod picture;
mod text;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Context;
use ccnic_sim::figures::plan::Figure;
use ccnic_sim::figures::point::Effort;
use ccnic_sim::figures::run::{Batch, Simulated};
use ccnic_sim::figures::statement::Verdict;
use ccnic_sim::figures::{all, cni, named, pio};
use ccnic_sim::platform::AnyPlatform;
use clap::Args;

use crate::print::{self, Column, Progress, Table, units};
use crate::sim::Changes;

/// Options of `reproduce`.
#[derive(Debug, Args)]
pub struct ReproduceArgs {
    /// Figures by their numbers, plan files (TOML), `all` of the CC-NIC paper's, `cni`: those of the CNI paper (1996), or `pio`: those of
    /// the paper on coherent programmed I/O (2024); `list` shows which figures there are
    #[arg(required = true, value_name = "list | all | cni | pio | FIGURE")]
    figures: Vec<String>,
    /// Folder for pictures (SVG, PNG), values (CSV), statements (summary.json, statements.md) and a page (index.html)
    #[arg(long, default_value = "reproduced", value_name = "FOLDER")]
    out: PathBuf,
    /// Simulate a tenth of the time: faster, with less precise values that are not judged
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    changes: Changes,
    /// Print JSON: the statements
    #[arg(long)]
    json: bool,
}

/// Reproduces figures, or lists them.
pub fn run(args: &ReproduceArgs) -> anyhow::Result<()> {
    if args.figures == ["list"] {
        return list();
    }
    let mut figures = Vec::new();
    for name in &args.figures {
        match name.as_str() {
            "all" => figures.extend(all()?),
            "cni" => figures.extend(cni()?),
            "pio" => figures.extend(pio()?),
            name => figures.push(named(name)?),
        }
    }
    change(&mut figures, &args.changes)?;
    // A figure that is named twice is simulated once.
    let mut ids = BTreeSet::new();
    figures.retain(|figure| ids.insert(figure.id.clone()));
    std::fs::create_dir_all(&args.out)
        .with_context(|| format!("could not make {}; choose another --out", args.out.display()))?;
    let begun = Instant::now();
    let batch = Batch::new(figures);
    let progress = Progress::of_simulations("reproduce", batch.len(), args.json);
    let effort = if args.quick { Effort::QUICK } else { Effort::FULL };
    let simulations = batch.len();
    let simulated = batch.run(effort, || progress.step());
    drop(progress);
    let mut pictures = Vec::new();
    for figure in &simulated {
        let stem = args.out.join(format!("figure-{}", text::file_name(&figure.figure.id)));
        write(&stem.with_extension("csv"), &csv(figure))?;
        pictures.push(picture::of(figure).save(&stem)?);
    }
    let verdicts: Vec<&Verdict> = simulated.iter().flat_map(|f| &f.verdicts).collect();
    write(&args.out.join("summary.json"), &serde_json::to_string_pretty(&verdicts)?)?;
    write(&args.out.join("statements.md"), &markdown::tables(&verdicts))?;
    let changes = args.changes.to_string();
    let about = page::About { quick: args.quick, changes, simulations, took: begun.elapsed() };
    write(&args.out.join("index.html"), &page::page(&simulated, &pictures, &about))?;
    let mut table = table(&verdicts);
    table.note(text::count(&verdicts) + ".");
    if let Some(convergence) = text::convergence(&simulated) {
        table.note(convergence);
    }
    table.note(format!(
        "{} in {:.0} s. Pictures, values and statements: {}",
        units::count(simulations, "simulation"),
        begun.elapsed().as_secs_f64(),
        args.out.join("index.html").display()
    ));
    print::result(args.json, &verdicts, || table.text())
}

/// Changes values of every platform; what a plan changes itself stays.
///
/// # Errors
/// When a platform of the figures has no such value.
fn change(figures: &mut [Figure], changes: &Changes) -> anyhow::Result<()> {
    if changes.is_empty() {
        return Ok(());
    }
    let pairs = changes.pairs().collect::<anyhow::Result<Vec<_>>>()?;
    let series = || figures.iter().flat_map(|figure| &figure.series);
    let platforms: BTreeSet<&String> = series().filter_map(|series| series.base.platform.as_ref()).collect();
    for name in platforms {
        changes.of_any(AnyPlatform::named(name)?)?;
    }
    for series in figures.iter_mut().flat_map(|figure| &mut figure.series) {
        for (key, value) in &pairs {
            series.base.set.entry((*key).to_owned()).or_insert(*value);
        }
    }
    Ok(())
}

fn list() -> anyhow::Result<()> {
    print::line(&figures("Figures of the CC-NIC paper (ASPLOS '24) that can be reproduced", all()?).text());
    print::line(
        &figures("Figures of the CNI paper (ISCA '96): all of them by `ccnic reproduce cni`", cni()?).text(),
    );
    let title = "Figures on coherent programmed I/O (Ruzhanskaia et al. 2024): `ccnic reproduce pio`";
    print::line(&figures(title, pio()?).text());
    Ok(())
}

fn figures(title: &str, figures: Vec<Figure>) -> Table {
    let columns = [
        Column::text("figure"),
        Column::number("statements"),
        Column::text("title"),
        Column::text("section"),
    ];
    let mut table = Table::new(title, columns);
    for Figure { id, title, cites, statements, .. } in figures {
        // The paper is named above, the figure in the first column.
        let section =
            cites.rsplit_once("section").map_or("", |(_, section)| section).trim_start_matches('s').trim();
        table.row([id, statements.len().to_string(), title, section.replace(" and ", ", ")]);
    }
    table.note(
        "statements: those of the paper's text that are compared with the simulation, and the leads of the default design over the paper's.",
    );
    table
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    ccnic_control::files::write(path, text)
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
fn table(verdicts: &[&Verdict]) -> Table {
    let columns = [
        Column::text("figure"),
        Column::number("published"),
        Column::number("simulated"),
        Column::number("error"),
        Column::text(""),
        Column::text("kind"),
        Column::prose("statement"),
    ];
    let mut table = Table::new("", columns);
    for v in verdicts {
        table.row([
            v.figure.clone(),
            text::published(v),
            text::simulated(v),
            text::error(v),
            text::verdict(v).to_owned(),
            v.calibration.to_owned(),
            v.text.clone(),
        ]);
    }
    table.note(
        "predicted: the simulator did not know the value. calibrated: the value was used to choose a platform's numbers, so that its \
         agreement shows nothing. own: how many times better the default design is than the paper's. In brackets: the range with paths \
         1 % shorter and longer, of runs with few cores; a tie is on either side of its tolerance there, and counted as out.",
    );
    table
}

#[cfg(test)]
mod tests {
    use ccnic_sim::figures::statement::{Published, Tolerance};

    use super::*;
    use crate::print::longest_line;

    #[test]
    fn tables_fit_80_columns() {
        let text = figures("Figures", all().unwrap()).in_width(80);
        assert!(longest_line(&text) <= 80, "{text}");
        assert!(text.lines().any(|line| line.starts_with("14b") && line.ends_with("  5.4")), "{text}");
        let verdict = Verdict {
            figure: "cores".to_owned(),
            statement: "N17".to_owned(),
            text: "a statement of some length, longer than what is left in a line of a terminal".to_owned(),
            section: "5.3".to_owned(),
            published: Published::Range([1000.0, 1520.0]),
            simulated: Some(1424.0),
            unit: "Mpps".to_owned(),
            error: Some(-0.123),
            tolerance: Tolerance::Ratio,
            range: None,
            within: None,
            tie: false,
            calibration: "calibrated",
            cause: String::new(),
        };
        let text = table(&[&verdict]).in_width(80);
        assert!(longest_line(&text) <= 80, "{text}");
        assert!(text.contains("\n    a statement of some length"), "{text}");
    }
}
