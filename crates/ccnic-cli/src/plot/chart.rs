//! One chart: lines through points, or groups of bars.

use plotters::prelude::DrawingBackend;

use super::axis::Axis;
use super::canvas::{Anchor, COLOURS, Canvas, GREY, INK, PALE, SMALL, TEXT, text_width};
use crate::print::units::number;

/// A chart.
#[derive(Debug)]
pub struct Chart {
    pub title: String,
    pub x_label: String,
    pub y: Axis,
    pub content: Content,
    /// Written in the middle of an empty chart.
    pub note: Option<String>,
}

/// What a chart shows.
#[derive(Debug)]
pub enum Content {
    Lines(Lines),
    Bars(Bars),
}

/// Lines over an axis of numbers.
#[derive(Debug)]
pub struct Lines {
    pub x: Axis,
    pub lines: Vec<Line>,
    pub marks: Vec<Mark>,
}

/// One line.
#[derive(Debug)]
pub struct Line {
    /// Its index in the legend.
    pub legend: usize,
    pub points: Vec<(f64, f64)>,
}

/// A dashed line at a published value.
#[derive(Debug)]
pub struct Mark {
    pub x: Option<f64>,
    pub y: Option<f64>,
    pub label: String,
}

/// Groups of bars; of points, where the axis of values is logarithmic.
#[derive(Debug)]
pub struct Bars {
    pub groups: Vec<String>,
    /// For each series its index in the legend, and its value in each group.
    pub series: Vec<(usize, Vec<Option<f64>>)>,
    /// Published values: the series' place in `series`, the group, the value. A dark line across the bar.
    pub published: Vec<(usize, usize, f64)>,
}

type Point = (f64, f64);

/// Room to the left and to the right of a chart's frame.
const LEFT: f64 = 66.0;
const RIGHT: f64 = 16.0;
/// Height of a line of a group's name.
const LINE: f64 = 14.0;
/// Gap between the names of two groups.
const APART: f64 = 8.0;
/// Between values that stand above each other.
const ROW: f64 = 10.0;
/// From this width on, the value of a bar may reach over its neighbours.
const WIDE: f64 = 20.0;

/// The frame of a chart within its area.
struct Frame {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

impl Frame {
    fn x(&self, share: f64) -> f64 {
        self.left + share * (self.right - self.left)
    }

    fn y(&self, share: f64) -> f64 {
        self.bottom - share * (self.bottom - self.top)
    }

    /// Within the frame, or at its border.
    fn inside(&self, x: f64, y: f64) -> Point {
        (self.x(x.clamp(0.0, 1.0)), self.y(y.clamp(0.0, 1.0)))
    }
}

impl Chart {
    /// Points of width that the names below its bars need, none over another.
    pub fn least_width(&self) -> f64 {
        match &self.content {
            Content::Bars(bars) => LEFT + RIGHT + bars.groups.len() as f64 * (bars.longest_word() + APART),
            Content::Lines(_) => 0.0,
        }
    }

    /// Draws it into an area.
    pub fn draw<B: DrawingBackend>(
        &self,
        canvas: &Canvas<'_, B>,
        (x, y): Point,
        (width, height): Point,
    ) -> anyhow::Result<()> {
        let below = match &self.content {
            Content::Lines(_) => 48.0,
            Content::Bars(bars) => 34.0 + LINE * bars.label_lines(width - LEFT - RIGHT) as f64,
        };
        let frame =
            Frame { left: x + LEFT, right: x + width - RIGHT, top: y + 34.0, bottom: y + height - below };
        let middle = (frame.left + frame.right) / 2.0;
        canvas.bold(&self.title, (middle, y + 18.0), TEXT, Anchor::Centre)?;
        canvas.text(&self.x_label, (middle, y + height - 12.0), TEXT, Anchor::Centre)?;
        let centre = (frame.top + frame.bottom) / 2.0;
        canvas.text(&self.y.label, (x + 14.0, centre), TEXT, Anchor::Upwards)?;
        self.y_ticks(canvas, &frame)?;
        match &self.content {
            Content::Lines(lines) => lines.draw(canvas, &frame, &self.y)?,
            Content::Bars(bars) => bars.draw(canvas, &frame, &self.y)?,
        }
        let corners = [
            (frame.left, frame.top),
            (frame.right, frame.top),
            (frame.right, frame.bottom),
            (frame.left, frame.bottom),
            (frame.left, frame.top),
        ];
        canvas.line(&corners, INK, 1.0)?;
        match &self.note {
            Some(note) => canvas.coloured(note, (middle, centre), TEXT, Anchor::Centre, GREY),
            None => Ok(()),
        }
    }

    fn y_ticks<B: DrawingBackend>(&self, canvas: &Canvas<'_, B>, frame: &Frame) -> anyhow::Result<()> {
        let (written, fine) = self.y.ticks();
        for value in fine {
            let y = frame.y(self.y.place(value));
            canvas.line(&[(frame.left, y), (frame.left + 4.0, y)], INK, 1.0)?;
        }
        for value in written {
            let y = frame.y(self.y.place(value));
            canvas.line(&[(frame.left, y), (frame.right, y)], PALE, 1.0)?;
            canvas.text(&number(value), (frame.left - 6.0, y), SMALL, Anchor::Right)?;
        }
        Ok(())
    }
}

impl Lines {
    fn draw<B: DrawingBackend>(&self, canvas: &Canvas<'_, B>, frame: &Frame, y: &Axis) -> anyhow::Result<()> {
        let (written, fine) = self.x.ticks();
        for value in fine {
            let x = frame.x(self.x.place(value));
            canvas.line(&[(x, frame.bottom), (x, frame.bottom - 4.0)], INK, 1.0)?;
        }
        for value in written {
            let x = frame.x(self.x.place(value));
            canvas.line(&[(x, frame.top), (x, frame.bottom)], PALE, 1.0)?;
            canvas.text(&number(value), (x, frame.bottom + 6.0), SMALL, Anchor::Below)?;
        }
        for mark in &self.marks {
            mark.draw(canvas, frame, &self.x, y)?;
        }
        // The first series is drawn last, on top of the others.
        for line in self.lines.iter().rev() {
            let points: Vec<Point> =
                line.points.iter().map(|(px, py)| frame.inside(self.x.place(*px), y.place(*py))).collect();
            canvas.curve(&points, COLOURS[line.legend % COLOURS.len()], 2.0)?;
            for point in points {
                canvas.marker(line.legend, point)?;
            }
        }
        Ok(())
    }
}

impl Mark {
    fn draw<B: DrawingBackend>(
        &self,
        canvas: &Canvas<'_, B>,
        frame: &Frame,
        x: &Axis,
        y: &Axis,
    ) -> anyhow::Result<()> {
        if let Some(value) = self.x {
            let at = frame.x(x.place(value));
            canvas.dashes((at, frame.top), (at, frame.bottom), GREY)?;
            // To the left of its line, unless there is no room.
            let left = at - text_width(&self.label, SMALL) > frame.left + 8.0;
            let (at, place) = if left { (at - 5.0, Anchor::Right) } else { (at + 5.0, Anchor::Left) };
            canvas.coloured(&self.label, (at, frame.top + 11.0), SMALL, place, GREY)?;
        }
        if let Some(value) = self.y {
            let at = frame.y(y.place(value));
            canvas.dashes((frame.left, at), (frame.right, at), GREY)?;
            canvas.coloured(&self.label, (frame.left + 8.0, at - 8.0), SMALL, Anchor::Left, GREY)?;
        }
        Ok(())
    }
}

/// Points of the value on a bar.
const VALUE: f64 = 11.5;

impl Bars {
    fn longest_word(&self) -> f64 {
        let words = self.groups.iter().flat_map(|name| name.split(' '));
        words.map(|word| text_width(word, SMALL)).fold(0.0, f64::max)
    }

    /// Lines that the longest name of a group needs.
    fn label_lines(&self, width: f64) -> usize {
        let each = width / self.groups.len().max(1) as f64;
        self.groups.iter().map(|name| wrapped(name, each - APART).len()).max().unwrap_or_default()
    }

    fn draw<B: DrawingBackend>(&self, canvas: &Canvas<'_, B>, frame: &Frame, y: &Axis) -> anyhow::Result<()> {
        let each = (frame.right - frame.left) / self.groups.len().max(1) as f64;
        let bar = (each * 0.76 / self.series.len().max(1) as f64).min(56.0);
        let zero = frame.y(y.place(0.0).clamp(0.0, 1.0));
        for (group, name) in self.groups.iter().enumerate() {
            let middle = frame.left + each * (group as f64 + 0.5);
            for (i, line) in wrapped(name, each - APART).iter().enumerate() {
                canvas.text(line, (middle, frame.bottom + 6.0 + LINE * i as f64), SMALL, Anchor::Below)?;
            }
            let first = middle - bar * self.series.len() as f64 / 2.0;
            let mut before = None;
            for (i, (legend, values)) in self.series.iter().enumerate() {
                let Some(value) = values.get(group).copied().flatten() else { continue };
                let (left, top) = (first + bar * i as f64, frame.y(y.place(value).clamp(0.0, 1.0)));
                // The length of a bar on a logarithmic axis would say nothing: it depends on where the axis begins.
                if y.log {
                    canvas.marker(*legend, (left + bar / 2.0, top))?;
                } else {
                    canvas.rectangle(
                        (left + 1.0, top),
                        (left + bar - 1.0, zero),
                        COLOURS[legend % COLOURS.len()],
                    )?;
                }
                let published = |&&(series, at, _): &&(usize, usize, f64)| (series, at) == (i, group);
                let published = self.published.iter().filter(published);
                let marks: Vec<f64> =
                    published.map(|(.., value)| frame.y(y.place(*value).clamp(0.0, 1.0))).collect();
                for &at in &marks {
                    canvas.line(&[(left - 1.0, at), (left + bar + 1.0, at)], INK, 2.0)?;
                }
                let text = number(value);
                let width = text_width(&text, VALUE);
                if width < bar + if bar < WIDE { 6.0 } else { 12.0 } {
                    let x = left + bar / 2.0;
                    let y = beside(before, x - width / 2.0, above(top, marks) - 7.0);
                    if y < frame.top + ROW / 2.0 {
                        continue; // no room above the frame: the table has the value
                    }
                    canvas.coloured(&text, (x, y), VALUE, Anchor::Centre, GREY)?;
                    before = Some((x + width / 2.0, y));
                }
            }
        }
        Ok(())
    }
}

/// The height of a value that begins at `x`, if it may be written at `y`: above that of the bar before, which ends at a place, where the
/// two would touch.
fn beside(before: Option<Point>, x: f64, y: f64) -> f64 {
    match before {
        Some((end, other)) if x < end + 1.0 && (y - other).abs() < ROW => other - ROW,
        _ => y,
    }
}

/// Where a bar's value stands on: the bar's top, or the highest of the marks that would go through the text.
fn above(top: f64, mut marks: Vec<f64>) -> f64 {
    marks.sort_by(|a, b| b.total_cmp(a)); // downwards is positive: from the lowest on
    let hidden = |foot: f64, mark: f64| (foot - VALUE - 3.0..=foot).contains(&mark);
    marks.into_iter().fold(top, |foot, mark| if hidden(foot, mark) { mark } else { foot })
}

/// A text wrapped between words to a width in points.
fn wrapped(text: &str, width: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if text_width(&format!("{line} {word}"), SMALL) <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_written_where_no_mark_goes_through_it() {
        assert_eq!(above(100.0, vec![]), 100.0);
        assert_eq!(above(100.0, vec![95.0]), 95.0, "just above the bar");
        assert_eq!(above(100.0, vec![60.0, 140.0]), 100.0, "far above, and across the bar");
        assert_eq!(above(100.0, vec![84.0, 92.0]), 84.0, "each in the way of the other's text");
    }

    #[test]
    fn values_side_by_side_do_not_touch() {
        assert_eq!(beside(None, 10.0, 50.0), 50.0);
        assert_eq!(beside(Some((9.0, 50.0)), 10.0, 50.0), 50.0, "it ends before");
        assert_eq!(beside(Some((12.0, 50.0)), 10.0, 45.0), 50.0 - ROW);
        assert_eq!(beside(Some((12.0, 50.0)), 10.0, 30.0), 30.0, "far above already");
    }
}
