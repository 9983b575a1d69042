//! From a simulated figure to a picture.

use ccnic_sim::figures::expr::{Argument, Expr, Function, Place};
use ccnic_sim::figures::plan::{Figure, Panel, PanelKind, Relative, Series};
use ccnic_sim::figures::point::Measured;
use ccnic_sim::figures::run::{Curve, Simulated};
use ccnic_sim::figures::statement::Published;

use crate::plot::{Axis, Bars, Chart, Content, Line, Lines, Mark, Picture};

/// The picture of a figure.
pub fn of(simulated: &Simulated) -> Picture {
    let mut legend: Vec<String> = Vec::new();
    let shown = simulated.figure.series.iter().zip(&simulated.series);
    for (series, _) in shown.filter(|(s, c)| s.panel.is_some() && !c.points.is_empty()) {
        if !legend.contains(&series.label) {
            legend.push(series.label.clone());
        }
    }
    Picture { charts: simulated.figure.panels.iter().map(|p| chart(simulated, p, &legend)).collect(), legend }
}

/// A series with its place in the legend and its points.
type Drawn<'a> = (usize, Vec<(&'a Place, f64, f64)>);

fn chart(simulated: &Simulated, panel: &Panel, legend: &[String]) -> Chart {
    let drawn: Vec<Drawn<'_>> = simulated
        .figure
        .series
        .iter()
        .zip(&simulated.series)
        .filter(|(series, curve)| series.panel.as_ref() == Some(&panel.id) && !curve.points.is_empty())
        .map(|(series, curve)| {
            let place = legend.iter().position(|name| *name == series.label).unwrap_or_default();
            (place, points(series, curve, panel))
        })
        .collect();
    let bars = panel.kind == PanelKind::Bars;
    let shown = simulated.figure.series.iter().zip(&simulated.series);
    let shown = shown.filter(|(s, c)| s.panel.as_ref() == Some(&panel.id) && !c.points.is_empty());
    let published: Vec<Vec<(String, f64)>> =
        shown.map(|(s, _)| published(&simulated.figure, s, panel)).collect();
    let ys = drawn.iter().flat_map(|(_, points)| points.iter().map(|p| p.2));
    let marked = panel.marks.iter().filter_map(|m| m.y);
    let zero = bars || panel.y.relative == Some(Relative::Peak);
    let beside = published.iter().flatten().map(|p| p.1);
    let y = Axis::around(&panel.y.label, panel.y.log, zero, ys.chain(marked).chain(beside));
    // The texts of marks are written above the curves.
    let y = if panel.marks.iter().any(|m| m.x.is_some()) { y.with_room(0.06) } else { y };
    let note = drawn.is_empty().then(|| "not simulated yet".to_owned());
    let content = if bars {
        Content::Bars(groups(&drawn, &published))
    } else {
        Content::Lines(lines(&drawn, panel, simulated.figure.panels.len()))
    };
    Chart { title: panel.title.clone(), x_label: panel.x.label.clone(), y, content, note }
}

/// The points of a series that have both values.
fn points<'a>(series: &Series, curve: &'a Curve, panel: &Panel) -> Vec<(&'a Place, f64, f64)> {
    let metric = series.y.as_ref().or(panel.y.metric.as_ref());
    let value = |measured: &Measured, key: &str| measured.values.get(key).copied();
    let mut points: Vec<(&Place, f64, f64)> = curve
        .points
        .iter()
        .filter_map(|(place, measured)| {
            let x = match &panel.x.metric {
                Some(key) => value(measured, key)?,
                None => place.number,
            };
            Some((place, x, value(measured, metric?)?))
        })
        .collect();
    let base = match panel.y.relative {
        None => None,
        Some(Relative::First) => points.first().map(|p| p.2),
        Some(Relative::Peak) => points.iter().map(|p| p.2).reduce(f64::max),
    };
    if let Some(base) = base {
        points.iter_mut().for_each(|p| p.2 /= base);
    }
    points
}

fn lines(drawn: &[Drawn<'_>], panel: &Panel, panels: usize) -> Lines {
    let xs = drawn.iter().flat_map(|(_, points)| points.iter().map(|p| p.1));
    let marked = panel.marks.iter().filter_map(|m| m.x);
    let line = |(legend, points): &Drawn<'_>| Line {
        legend: *legend,
        points: points.iter().map(|p| (p.1, p.2)).collect(),
    };
    let mut x = Axis::around(&panel.x.label, panel.x.log, false, xs.clone().chain(marked));
    // Values at a constant factor from each other are written at the axis.
    let mut steps: Vec<f64> = xs.collect();
    steps.sort_by(f64::total_cmp);
    steps.dedup();
    x.written = (panel.x.log && panel.x.metric.is_none() && steps.len() <= 12).then(|| apart(&steps, panels));
    Lines {
        x,
        lines: drawn.iter().map(line).collect(),
        marks: panel.marks.iter().map(|m| Mark { x: m.x, y: m.y, label: m.label.clone() }).collect(),
    }
}

/// As many of the steps as can be written without touching each other, in one of so many panels.
fn apart(steps: &[f64], panels: usize) -> Vec<f64> {
    let each = steps.len().div_ceil(24 / (panels + 1)).max(1);
    let mut written: Vec<f64> = Vec::new();
    for &step in steps.iter().step_by(each) {
        if written.last().is_none_or(|last| step >= last * 1.4) {
            written.push(step);
        }
    }
    written
}

/// What the paper says of single bars of a series: their names, and the values.
fn published(figure: &Figure, series: &Series, panel: &Panel) -> Vec<(String, f64)> {
    let shown = series.y.as_ref().or(panel.y.metric.as_ref());
    let said = |ours: &str, value| match (Expr::parse(ours), value) {
        (Ok(Expr::Call(Function::At, id, metric, Argument::Name(name))), Some(Published::Value(value)))
            if id == series.id && Some(&metric) == shown && panel.y.relative.is_none() =>
        {
            Some((name, value))
        }
        _ => None,
    };
    figure.statements.iter().filter_map(|s| said(&s.ours, s.published)).collect()
}

fn groups(drawn: &[Drawn<'_>], published: &[Vec<(String, f64)>]) -> Bars {
    let mut groups: Vec<String> = Vec::new();
    for (_, points) in drawn {
        for (place, ..) in points {
            if !groups.contains(&place.name) {
                groups.push(place.name.clone());
            }
        }
    }
    let values = |points: &[(&Place, f64, f64)]| {
        groups.iter().map(|name| points.iter().find(|p| p.0.name == *name).map(|p| p.2)).collect()
    };
    let series = drawn.iter().map(|(legend, points)| (*legend, values(points))).collect();
    let place = |(i, said): (usize, &Vec<(String, f64)>)| {
        let at = |(name, value): &(String, f64)| {
            groups.iter().position(|group| group == name).map(|group| (i, group, *value))
        };
        said.iter().filter_map(at).collect::<Vec<_>>()
    };
    let published = published.iter().enumerate().flat_map(place).collect();
    Bars { groups, series, published }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_written_as_densely_as_there_is_room() {
        let steps = [64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 9600.0];
        assert_eq!(apart(&steps, 1), steps[..8]);
        assert_eq!(apart(&steps, 3), [64.0, 256.0, 1024.0, 4096.0, 9600.0]);
        assert_eq!(apart(&[], 2), [0.0; 0]);
    }
}
