//! The page: for each figure its picture, and the paper's statements beside the simulated values.

use std::fmt::Write;
use std::time::Duration;

use ccnic_sim::figures::run::Simulated;
use ccnic_sim::figures::statement::Verdict;

use super::text::{self, file_name};
use crate::print::html::{self, escape, prose};
use crate::print::units;

/// What the page tells about the run itself.
#[derive(Debug)]
pub struct About {
    pub quick: bool,
    /// What of the platforms is changed; empty if nothing is.
    pub changes: String,
    pub simulations: usize,
    pub took: Duration,
}

/// Rules in addition to those of all pages. On a narrow screen a picture is as wide as that; each has a link to itself.
const STYLE: &str = "td.what{min-width:16rem}.in{color:#00704f}.out{color:#b03a00;font-weight:600}.no{color:#666}\
.cause{color:#666;font-size:.88rem}.tag{font-size:.8rem;color:#666}nav{columns:2 18rem;margin:1rem 0}nav a{display:block}";

/// The whole page. `pictures` are SVGs, one for each figure.
pub fn page(figures: &[Simulated], pictures: &[String], about: &About) -> String {
    let mut html = String::new();
    let title = if figures.iter().all(|f| f.figure.id.starts_with("cni-")) {
        "Coherent network interfaces of 1996, reproduced by simulation"
    } else if figures.iter().all(|f| f.figure.id.starts_with("pio-")) {
        "Coherent programmed I/O, reproduced by simulation"
    } else {
        "CC-NIC, reproduced by simulation"
    };
    let verdicts: Vec<&Verdict> = figures.iter().flat_map(|f| &f.verdicts).collect();
    let _ = write!(
        html,
        "<h1>{title}</h1>\
         <p class=\"sub\">{} in {:.0} s{}{}. {}.</p>\n{}\n<p>Statements of the paper are compared with the simulation. \
         <i>Predicted</i>: the simulator did not know the value. <i>Calibrated</i>: the value was used to choose numbers of a \
         platform, so that its agreement shows nothing. <i>Own</i>: how many times better this project's default design is than the paper's; nobody has \
         published that. The values of all points are in the CSV files beside this page, the statements \
         in <a href=\"summary.json\">summary.json</a>. Broken lines, and dark ones across bars, are published values.</p>\n<nav>",
        units::count(about.simulations, "simulation"),
        about.took.as_secs_f64(),
        if about.quick { ", with a tenth of the simulated time: the values are less precise" } else { "" },
        if about.changes.is_empty() { String::new() } else { format!(", with {}", escape(&about.changes)) },
        escape(&text::count(&verdicts)),
        convergence(figures)
    );
    for Simulated { figure, verdicts, .. } in figures {
        let out = verdicts.iter().filter(|v| v.within == Some(false)).count();
        let note = if out > 0 { format!(" <span class=\"out\">{out} out</span>") } else { String::new() };
        let (id, title) = (file_name(&figure.id), escape(&figure.title));
        let _ = writeln!(html, "<a href=\"#f{id}\">{}: {title}{note}</a>", escape(&number(&figure.id)));
    }
    html.push_str("</nav>\n");
    for (figure, picture) in figures.iter().zip(pictures) {
        section(&mut html, figure, picture);
    }
    html::page(title, STYLE, &html)
}

/// The loopbacks that have not converged, folded away: there may be many.
fn convergence(figures: &[Simulated]) -> String {
    let Some(drifting) = text::drifting(figures) else { return String::new() };
    if drifting.is_empty() {
        return format!("<p>{}</p>", text::CONVERGED);
    }
    format!(
        "<details><summary>{} whose rate in the second half of the measured time is more than 5 % from that in the first</summary>\
         <p>{}.</p></details>",
        units::count(drifting.len(), "point"),
        escape(&drifting.join(", "))
    )
}

/// A figure's name: not every result of a paper has a figure number.
fn number(id: &str) -> String {
    if id.starts_with(|c: char| c.is_ascii_digit()) {
        format!("Figure {id}")
    } else if let Some(id) = id.strip_prefix("cni-") {
        format!("CNI figure {id}")
    } else if let Some(id) = id.strip_prefix("pio-") {
        format!("PIO figure {id}")
    } else {
        format!("Section, {id}")
    }
}

fn section(html: &mut String, simulated: &Simulated, picture: &str) {
    let Simulated { figure, series, verdicts } = simulated;
    let id = file_name(&figure.id);
    let _ = write!(
        html,
        "<h2 id=\"f{id}\">{}: {}</h2><p class=\"sub\">{}</p><p>{}</p>\n<figure class=\"scroll\">{picture}</figure>\n\
         <p class=\"tag\"><a href=\"figure-{id}.svg\">SVG</a> <a href=\"figure-{id}.png\">PNG</a> \
         <a href=\"figure-{id}.csv\">CSV</a></p>\n",
        escape(&number(&figure.id)),
        escape(&figure.title),
        prose(&figure.cites),
        prose(&figure.about)
    );
    let labels = figure.series.iter().map(|s| &s.label);
    let mut missing: Vec<String> = labels
        .zip(series)
        .filter_map(|(label, curve)| Some(format!("{label}: {}", curve.missing.as_ref()?)))
        .collect();
    missing.dedup();
    if !missing.is_empty() {
        let _ = writeln!(html, "<p class=\"no\">{}.</p>", prose(&missing.join("; ")));
    }
    if verdicts.is_empty() {
        return;
    }
    html.push_str(
        "<div class=\"scroll\"><table><tr><th>statement<th class=\"n\">published<th class=\"n\">simulated<th class=\"n\">error<th>tolerance<th></tr>\n",
    );
    verdicts.iter().for_each(|v| row(html, v));
    html.push_str("</table></div>\n");
}

fn row(html: &mut String, v: &Verdict) {
    let class = match v.within {
        Some(true) => "in",
        Some(false) => "out",
        None => "no",
    };
    let cause = if v.cause.is_empty() {
        String::new()
    } else {
        format!("<br><span class=\"cause\">{}</span>", prose(&v.cause))
    };
    let section =
        if v.section.is_empty() { String::new() } else { format!("section {}, ", escape(&v.section)) };
    let _ = writeln!(
        html,
        "<tr><td class=\"what\">{} <span class=\"tag\">({}{})</span>{cause}<td class=\"n\">{}<td class=\"n\">{}<td class=\"n\">{}\
         <td>{}<td class=\"{class}\">{}</tr>",
        prose(&v.text),
        section,
        v.calibration,
        escape(&text::published(v)),
        escape(&text::simulated(v)),
        escape(&text::error(v)),
        v.tolerance.name(),
        text::verdict(v)
    );
}
