//! The page: figure by figure the picture, and the paper's statements beside ours.

use std::fmt::Write;
use std::time::Duration;

use ccnic_sim::figures::run::Simulated;
use ccnic_sim::figures::statement::Verdict;

use super::{file_name, text};
use crate::report::escape;

/// The run itself.
#[derive(Debug)]
pub struct About {
    pub quick: bool,
    pub simulations: usize,
    pub took: Duration,
}

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:66rem;margin:2rem auto;padding:0 1rem;color:#222}\
h1{font-size:1.6rem;margin-bottom:.2rem}h2{font-size:1.25rem;margin:2.6rem 0 .2rem}p.sub{color:#666;margin:.2rem 0 1rem}\
table{border-collapse:collapse;width:100%;font-size:.92rem}\
th,td{padding:.35rem .6rem;text-align:left;border-bottom:1px solid #ddd;vertical-align:top}\
td.n{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}th.n{text-align:right}\
.in{color:#00704f}.out{color:#b03a00;font-weight:600}.no{color:#777}.cause{color:#666;font-size:.88rem}\
figure{margin:1rem 0}figure svg{max-width:100%;height:auto}nav{columns:2;margin:1rem 0}nav a{display:block}\
a{color:#0060a0;text-decoration:none}a:hover{text-decoration:underline}.tag{font-size:.8rem;color:#666}";

/// The whole page. `pictures` are SVGs, one for each figure.
pub fn page(figures: &[Simulated], pictures: &[String], about: &About) -> String {
    let mut html = String::new();
    let verdicts: Vec<&Verdict> = figures.iter().flat_map(|f| &f.verdicts).collect();
    let _ = write!(
        html,
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <title>CC-NIC, reproduced</title><style>{STYLE}</style>\n<h1>CC-NIC, reproduced by simulation</h1>\
         <p class=\"sub\">{} simulations in {:.0} s{}. {}.</p>\n<p>Each statement of the paper stands beside what the simulation \
         says. <i>Calibrated</i> values were used to choose numbers of a platform: that they agree shows nothing. All others \
         are <i>predicted</i>. The values of all points are in the CSV files beside this page, the statements in \
         <a href=\"summary.json\">summary.json</a>.</p>\n<nav>",
        about.simulations,
        about.took.as_secs_f64(),
        if about.quick { ", a tenth of the simulated time: rough figures" } else { "" },
        escape(&text::count(&verdicts))
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
    html.push_str("</html>\n");
    html
}

/// A figure's number in words: not everything in a paper has one.
fn number(id: &str) -> String {
    if id.starts_with(|c: char| c.is_ascii_digit()) {
        format!("Figure {id}")
    } else {
        format!("Section, {id}")
    }
}

fn section(html: &mut String, simulated: &Simulated, picture: &str) {
    let Simulated { figure, series, verdicts } = simulated;
    let id = file_name(&figure.id);
    let _ = write!(
        html,
        "<h2 id=\"f{id}\">{}: {}</h2><p class=\"sub\">{}</p><p>{}</p>\n<figure>{picture}</figure>\n\
         <p class=\"tag\"><a href=\"figure-{id}.svg\">SVG</a> <a href=\"figure-{id}.png\">PNG</a> \
         <a href=\"figure-{id}.csv\">CSV</a></p>\n",
        escape(&number(&figure.id)),
        escape(&figure.title),
        escape(&figure.cites),
        escape(&figure.about)
    );
    let labels = figure.series.iter().map(|s| &s.label);
    let mut missing: Vec<String> = labels
        .zip(series)
        .filter_map(|(label, curve)| Some(format!("{label}: {}", curve.missing.as_ref()?)))
        .collect();
    missing.dedup();
    if !missing.is_empty() {
        let _ = writeln!(html, "<p class=\"no\">{}.</p>", escape(&missing.join("; ")));
    }
    if verdicts.is_empty() {
        return;
    }
    html.push_str(
        "<table><tr><th>the paper says<th class=\"n\">published<th class=\"n\">simulated<th class=\"n\">error<th>tolerance<th></tr>\n",
    );
    verdicts.iter().for_each(|v| row(html, v));
    html.push_str("</table>\n");
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
        format!("<br><span class=\"cause\">{}</span>", escape(&v.cause))
    };
    let _ = writeln!(
        html,
        "<tr><td>{} <span class=\"tag\">(section {}, {})</span>{cause}<td class=\"n\">{}<td class=\"n\">{}<td class=\"n\">{}\
         <td>{}<td class=\"{class}\">{}</tr>",
        escape(&v.text),
        escape(&v.section),
        v.calibration,
        escape(&text::published(v)),
        escape(&text::simulated(v)),
        escape(&text::error(v)),
        v.tolerance.name(),
        text::verdict(v)
    );
}
