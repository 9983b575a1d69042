//! The demo's report: one HTML file with throughput-latency curves as inline SVG, as in CC-NIC figure 11.

use std::fmt::Write;

use crate::loopback::Outcomes;
use crate::micro::limit::Limit;

/// One design at one packet size.
#[derive(Debug)]
pub struct Curve {
    pub name: &'static str,
    pub size: u16,
    pub points: Vec<Outcomes>,
}

/// What the report shows.
#[derive(Debug)]
pub struct Report {
    pub limit: Limit,
    pub curves: Vec<Curve>,
    /// Each side had a CPU of its own.
    pub alone: bool,
}

/// Colours that stay apart for colour-blind readers (Okabe and Ito).
const COLOURS: [&str; 3] = ["#0072b2", "#d55e00", "#009e73"];

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#222}\
h1{font-size:1.6rem;margin-bottom:0}p.sub{color:#666;margin-top:.2rem}\
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}\
th,td{padding:.35rem .6rem;text-align:right;border-bottom:1px solid #ddd}th:first-child,td:first-child{text-align:left}\
svg{width:100%;height:auto}svg text{font:13px system-ui,sans-serif;fill:#333}figure{margin:1.5rem 0}\
figcaption{color:#555;font-size:.9rem}";

/// The whole page.
pub fn page(report: &Report) -> String {
    let mut html = String::new();
    let limit = &report.limit;
    let _ = write!(
        html,
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>ccnic demo</title><style>{STYLE}</style>\n\
         <h1>ccnic: packets through coherent memory</h1>\
         <p class=\"sub\">One program core and one NIC core, two processes, on {}{}.</p>\n\
         <p>The machine itself hands over <b>{:.0} M</b> single lines per second each way, both ways at once, <b>{:.0} M</b> \
         when they lie in runs; a word there and back takes <b>{:.0} ns</b> on one line and {:.0} ns on two. A packet of \
         64 bytes needs 1.25 lines each way; <i>of limit</i> is the share of what that allows.</p>\n",
        escape(&machine()),
        if report.alone { "" } else { " (taking turns on one CPU)" },
        limit.line_mlps,
        limit.run_mlps,
        limit.word_rtt_ns.shared,
        limit.word_rtt_ns.separate
    );
    html.push_str(&summary(report));
    let mut sizes: Vec<u16> = report.curves.iter().map(|c| c.size).collect();
    sizes.dedup();
    sizes.sort_unstable();
    sizes.dedup();
    for size in sizes {
        let curves: Vec<&Curve> = report.curves.iter().filter(|c| c.size == size).collect();
        let _ = writeln!(
            html,
            "<figure>{}<figcaption>{size}-byte packets: median round trip (line) and 99th percentile (dots) against \
             throughput, from one packet in flight to saturation. Every byte is written, copied by the NIC, read and \
             checked.</figcaption></figure>",
            plot(&curves)
        );
    }
    html.push_str("</html>\n");
    html
}

fn summary(report: &Report) -> String {
    let mut html = String::from(
        "<table><tr><th>design<th>packet<th>Mpps<th>Gb/s<th>of limit<th>one in flight: p50<th>p99<th>lost<th>corrupt</tr>\n",
    );
    for curve in &report.curves {
        let (Some(single), Some(peak)) = (curve.points.first(), curve.points.last()) else { continue };
        let sum = |f: fn(&Outcomes) -> u64| curve.points.iter().map(f).sum::<u64>();
        let _ = writeln!(
            html,
            "<tr><td>{}<td>{} B<td>{:.1}<td>{:.1}<td>{:.0} %<td>{} ns<td>{} ns<td>{}<td>{}</tr>",
            escape(curve.name),
            curve.size,
            peak.mpps,
            peak.gbps,
            peak.limit_share.unwrap_or(0.0) * 100.0,
            single.rtt_ns.p50,
            single.rtt_ns.p99,
            sum(|o| o.lost),
            sum(|o| o.corrupt)
        );
    }
    html.push_str("</table>\n");
    html
}

/// The plot's frame in SVG units.
const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 380.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 16.0;
const BOTTOM: f64 = 48.0;
/// The names of the curves stand in the lower right corner, where none runs: latency rises with the load.
const NAMES: f64 = 160.0;

/// Throughput to the right, latency up on a logarithmic scale.
struct Axes {
    most_mpps: f64,
    least_ns: f64,
    most_ns: f64,
}

impl Axes {
    fn of(curves: &[&Curve]) -> Axes {
        let points = || curves.iter().flat_map(|c| &c.points);
        let most_mpps = points().map(|p| p.mpps).fold(0.1, f64::max) * 1.05;
        let least = points().map(|p| p.rtt_ns.p50 as f64).fold(f64::MAX, f64::min).clamp(1.0, 1e12);
        let most = points().map(|p| p.rtt_ns.p99 as f64).fold(10.0, f64::max);
        let floor = 10f64.powf(least.log10().floor());
        Axes { most_mpps, least_ns: floor, most_ns: 10f64.powf(most.log10().ceil()).max(floor * 10.0) }
    }

    fn x(&self, mpps: f64) -> f64 {
        LEFT + mpps / self.most_mpps * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, ns: f64) -> f64 {
        let share = (ns.max(self.least_ns) / self.least_ns).log10() / (self.most_ns / self.least_ns).log10();
        HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)
    }

    fn draw(&self, svg: &mut String) {
        let (bottom, right) = (HEIGHT - BOTTOM, WIDTH - RIGHT);
        let mut ns = self.least_ns;
        while ns <= self.most_ns * 1.01 {
            let y = self.y(ns);
            let label = if ns >= 1e6 {
                format!("{} ms", ns / 1e6)
            } else if ns >= 1e3 {
                format!("{} µs", ns / 1e3)
            } else {
                format!("{ns} ns")
            };
            let _ = write!(
                svg,
                "<line x1=\"{LEFT}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"#ddd\"/>\
                 <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>",
                LEFT - 8.0,
                y + 4.0
            );
            ns *= 10.0;
        }
        let step = tick(self.most_mpps);
        let mut mpps = 0.0;
        while mpps <= self.most_mpps {
            let x = self.x(mpps);
            let _ = write!(
                svg,
                "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{bottom}\" y2=\"{}\" stroke=\"#888\"/>\
                 <text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                bottom + 5.0,
                bottom + 20.0,
                (mpps * 100.0).round() / 100.0
            );
            mpps += step;
        }
        let _ = write!(
            svg,
            "<line x1=\"{LEFT}\" x2=\"{right}\" y1=\"{bottom}\" y2=\"{bottom}\" stroke=\"#888\"/>\
             <text x=\"{}\" y=\"{}\" text-anchor=\"middle\">million packets per second</text>",
            (LEFT + right) / 2.0,
            HEIGHT - 8.0
        );
    }
}

/// A round step that gives four to ten ticks.
fn tick(most: f64) -> f64 {
    let decade = 10f64.powf(most.log10().floor());
    [0.1, 0.2, 0.5, 1.0, 2.0].map(|f| f * decade).into_iter().find(|s| most / s <= 10.0).unwrap_or(decade)
}

fn plot(curves: &[&Curve]) -> String {
    let axes = Axes::of(curves);
    let mut svg = format!(
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"throughput against latency\">"
    );
    axes.draw(&mut svg);
    for (i, (curve, colour)) in curves.iter().zip(COLOURS.iter().cycle()).enumerate() {
        let mut points = curve.points.clone();
        points.sort_by(|a, b| a.mpps.total_cmp(&b.mpps));
        let line: Vec<String> = points
            .iter()
            .map(|p| format!("{:.1},{:.1}", axes.x(p.mpps), axes.y(p.rtt_ns.p50 as f64)))
            .collect();
        let _ = write!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2.5\"/>",
            line.join(" ")
        );
        for p in &points {
            let (x, y) = (axes.x(p.mpps), axes.y(p.rtt_ns.p99 as f64));
            let _ = write!(
                svg,
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\" fill-opacity=\".45\"/>"
            );
        }
        let (x, y) = (WIDTH - RIGHT - NAMES, HEIGHT - BOTTOM - 14.0 - 20.0 * (curves.len() - 1 - i) as f64);
        let _ = write!(
            svg,
            "<line x1=\"{}\" x2=\"{}\" y1=\"{y}\" y2=\"{y}\" stroke=\"{colour}\" stroke-width=\"2.5\"/>\
             <text x=\"{}\" y=\"{}\">{}</text>",
            x,
            x + 28.0,
            x + 36.0,
            y + 4.0,
            escape(curve.name)
        );
    }
    svg.push_str("</svg>");
    svg
}

/// The processor's name, as the kernel tells it.
fn machine() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = info.lines().find_map(|l| l.strip_prefix("model name")).and_then(|l| l.split_once(": "));
    name.map_or_else(|| "this machine".to_owned(), |(_, name)| name.trim().to_owned())
}

/// A text as part of a page.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_few() {
        for most in [0.13, 1.0, 4.2, 37.8, 99.0] {
            let n = most / tick(most);
            assert!((2.0..=10.0).contains(&n), "{most}: {n}");
        }
    }

    #[test]
    fn names_cannot_break_the_page() {
        assert_eq!(escape("<a&b>"), "&lt;a&amp;b&gt;");
    }
}
