//! Throughput-latency curves as SVG, drawn for a wide screen and for a narrow one, where their text is
//! larger.

use std::fmt::Write;

use crate::loopback::rounds::Outcomes;
use crate::print::html::escape;

/// Colours that colour-blind readers can distinguish (Okabe and Ito).
const COLOURS: [&str; 3] = ["#0072b2", "#d55e00", "#009e73"];

/// The plot's frame in SVG units.
const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 380.0;
const LEFT: f64 = 92.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 44.0;
const BOTTOM: f64 = 64.0;
/// The names of the curves are in a row above the frame, with enough space for the larger text of narrow
/// screens.
const NAMES: f64 = 212.0;

/// Throughput on the horizontal axis, latency on a logarithmic vertical axis.
struct Axes {
    most_mpps: f64,
    least_ns: f64,
    most_ns: f64,
}

impl Axes {
    fn of(curves: &[(&str, &[Outcomes])]) -> Axes {
        let points = || curves.iter().flat_map(|(_, points)| *points);
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
                y + 5.0
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
                bottom + 24.0,
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

/// A round step that gives at most seven ticks.
fn tick(most: f64) -> f64 {
    let decade = 10f64.powf(most.log10().floor());
    [0.1, 0.2, 0.5, 1.0, 2.0].map(|f| f * decade).into_iter().find(|s| most / s <= 7.0).unwrap_or(decade)
}

/// The curves of several designs, from one packet in flight to saturation.
pub fn plot(curves: &[(&str, &[Outcomes])]) -> String {
    let axes = Axes::of(curves);
    let mut svg = format!(
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"throughput against latency\">"
    );
    axes.draw(&mut svg);
    for (i, ((name, points), colour)) in curves.iter().zip(COLOURS.iter().cycle()).enumerate() {
        let mut points = points.to_vec();
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
        let (x, y) = (LEFT + NAMES * i as f64, TOP / 2.0);
        let _ = write!(
            svg,
            "<line x1=\"{}\" x2=\"{}\" y1=\"{y}\" y2=\"{y}\" stroke=\"{colour}\" stroke-width=\"2.5\"/>\
             <text x=\"{}\" y=\"{}\">{}</text>",
            x,
            x + 28.0,
            x + 36.0,
            y + 4.0,
            escape(name)
        );
    }
    svg.push_str("</svg>");
    svg
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_few() {
        for most in [0.13, 1.0, 4.2, 37.8, 99.0] {
            let n = most / tick(most);
            assert!((2.0..=7.0).contains(&n), "{most}: {n}");
        }
    }
}
