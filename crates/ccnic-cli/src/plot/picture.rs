//! A picture: charts side by side, or one below the other where they are wide, under one legend.

use std::path::Path;

use plotters::prelude::DrawingBackend;

use super::canvas::{Anchor, COLOURS, Canvas, TEXT, text_width};
use super::chart::{Chart, Content};
use super::save;

/// Charts of one legend.
#[derive(Debug)]
pub struct Picture {
    /// From left to right, or from top to bottom.
    pub charts: Vec<Chart>,
    /// The names of the colours, in the order of [`COLOURS`].
    pub legend: Vec<String>,
}

const CHART_WIDTH: f64 = 470.0;
const CHART_HEIGHT: f64 = 330.0;
/// A picture of one chart is a little wider than one of two.
const SINGLE_WIDTH: f64 = 600.0;
const LEGEND_LINE: f64 = 22.0;
/// Width of a legend entry besides its text: the line or box, and gaps.
const LEGEND_GAP: f64 = 52.0;

impl Picture {
    /// The width of each chart, and how many are side by side.
    fn layout(&self) -> (f64, usize) {
        let usual = if self.charts.len() == 1 { SINGLE_WIDTH } else { CHART_WIDTH };
        let each = self.charts.iter().map(Chart::least_width).fold(usual, f64::max);
        (each, if each > SINGLE_WIDTH { 1 } else { self.charts.len().max(1) })
    }

    fn size(&self) -> (f64, f64) {
        let (each, columns) = self.layout();
        let (width, rows) = (each * columns as f64, self.charts.len().div_ceil(columns));
        let legend = LEGEND_LINE * self.legend_lines(width).len() as f64;
        (width, CHART_HEIGHT * rows as f64 + legend)
    }

    /// The legend's entries by line.
    fn legend_lines(&self, width: f64) -> Vec<Vec<usize>> {
        let (mut lines, mut used) = (Vec::<Vec<usize>>::new(), f64::MAX);
        for (i, name) in self.legend.iter().enumerate() {
            let wanted = text_width(name, TEXT) + LEGEND_GAP;
            if used + wanted > width {
                lines.push(Vec::new());
                used = 0.0;
            }
            used += wanted;
            if let Some(line) = lines.last_mut() {
                line.push(i);
            }
        }
        lines
    }

    fn draw<B: DrawingBackend>(&self, canvas: &Canvas<'_, B>) -> anyhow::Result<()> {
        let (width, _) = self.size();
        canvas.clear()?;
        let lines = self.legend_lines(width);
        for (row, line) in lines.iter().enumerate() {
            let wide = |i: &usize| text_width(&self.legend[*i], TEXT) + LEGEND_GAP;
            let mut x = (width - line.iter().map(wide).sum::<f64>()) / 2.0 + 14.0;
            let y = LEGEND_LINE * (row as f64 + 0.5);
            for &i in line {
                self.legend_key(canvas, i, x, y)?;
                canvas.text(&self.legend[i], (x + 30.0, y), TEXT, Anchor::Left)?;
                x += wide(&i);
            }
        }
        let top = LEGEND_LINE * lines.len() as f64;
        let (each, columns) = self.layout();
        for (i, chart) in self.charts.iter().enumerate() {
            let at = (each * (i % columns) as f64, top + CHART_HEIGHT * (i / columns) as f64);
            chart.draw(canvas, at, (each, CHART_HEIGHT))?;
        }
        Ok(())
    }

    fn legend_key<B: DrawingBackend>(
        &self,
        canvas: &Canvas<'_, B>,
        i: usize,
        x: f64,
        y: f64,
    ) -> anyhow::Result<()> {
        if self.charts.iter().any(|c| matches!(c.content, Content::Lines(_))) {
            canvas.line(&[(x, y), (x + 24.0, y)], COLOURS[i % COLOURS.len()], 2.0)?;
            return canvas.marker(i, (x + 12.0, y));
        }
        canvas.rectangle((x + 6.0, y - 6.0), (x + 20.0, y + 6.0), COLOURS[i % COLOURS.len()])
    }

    /// Writes `stem.svg` and `stem.png`; returns the SVG.
    pub fn save(&self, stem: &Path) -> anyhow::Result<String> {
        save::write(self.size(), stem, |canvas| self.draw(canvas), |canvas| self.draw(canvas))
    }
}
