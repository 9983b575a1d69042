//! A heat map: a cell for each pair of values, coloured by the design that is best there.

use std::path::Path;

use plotters::prelude::DrawingBackend;

use super::canvas::{Anchor, COLOURS, Canvas, GREY, INK, SMALL, TEXT, text_width};
use super::save;
use crate::print::units::number;

/// A map.
#[derive(Debug)]
pub struct Heat {
    pub title: String,
    /// Written below the legend: explains the texts of a cell.
    pub note: String,
    pub x_label: String,
    pub y_label: String,
    pub x: Vec<f64>,
    /// Empty when only one parameter varies.
    pub y: Vec<f64>,
    /// The names of the colours.
    pub legend: Vec<String>,
    /// Rows of cells, by `y` from below.
    pub cells: Vec<Vec<Option<Cell>>>,
}

/// A cell.
#[derive(Debug, Clone)]
pub struct Cell {
    /// The best design, as an index of the legend.
    pub winner: usize,
    /// Its lead over the second: 0.1 is 10 %.
    pub lead: f64,
    /// Its value.
    pub text: String,
}

/// The lead that is drawn in full colour.
const FULL: f64 = 0.5;
const LEFT: f64 = 76.0;
const TOP: f64 = 82.0;
const BOTTOM: f64 = 52.0;
const CELL: (f64, f64) = (86.0, 46.0);

impl Heat {
    fn size(&self) -> (f64, f64) {
        let legend = self.legend.iter().map(|name| text_width(name, TEXT) + 40.0).sum::<f64>();
        let texts = [
            legend + 20.0,
            text_width(&self.note, SMALL) + 40.0,
            text_width(&self.title, TEXT) * 1.1 + 40.0,
            LEFT + text_width(&self.x_label, TEXT) + 20.0,
        ];
        let cells = CELL.0 * self.x.len() as f64;
        let width = texts.into_iter().fold(LEFT + cells + 20.0, f64::max);
        (width, TOP + self.rows() + BOTTOM)
    }

    /// Height of all rows, which is at least that of the label beside them.
    fn rows(&self) -> f64 {
        let label = text_width(&self.y_label, TEXT) - BOTTOM / 2.0;
        (CELL.1 * self.cells.len() as f64).max(label)
    }

    /// Writes `stem.svg` and `stem.png`; returns the SVG.
    pub fn save(&self, stem: &Path) -> anyhow::Result<String> {
        save::write(self.size(), stem, |canvas| self.draw(canvas), |canvas| self.draw(canvas))
    }

    fn draw<B: DrawingBackend>(&self, canvas: &Canvas<'_, B>) -> anyhow::Result<()> {
        canvas.clear()?;
        let (width, height) = self.size();
        canvas.bold(&self.title, (width / 2.0, 18.0), TEXT, Anchor::Centre)?;
        let mut x = 20.0;
        for (i, name) in self.legend.iter().enumerate() {
            canvas.rectangle((x, 34.0), (x + 14.0, 48.0), COLOURS[i % COLOURS.len()])?;
            canvas.text(name, (x + 20.0, 41.0), TEXT, Anchor::Left)?;
            x += text_width(name, TEXT) + 40.0;
        }
        canvas.coloured(&self.note, (20.0, 64.0), SMALL, Anchor::Left, GREY)?;
        let bottom = TOP + self.rows();
        for (row, cells) in self.cells.iter().enumerate() {
            let top = bottom - CELL.1 * (row as f64 + 1.0);
            for (column, cell) in cells.iter().enumerate() {
                let left = LEFT + CELL.0 * column as f64;
                if let Some(cell) = cell {
                    cell.draw(canvas, (left, top))?;
                }
            }
            if let Some(value) = self.y.get(row) {
                canvas.text(&number(*value), (LEFT - 8.0, top + CELL.1 / 2.0), SMALL, Anchor::Right)?;
            }
        }
        for (column, value) in self.x.iter().enumerate() {
            let middle = LEFT + CELL.0 * (column as f64 + 0.5);
            canvas.text(&number(*value), (middle, bottom + 6.0), SMALL, Anchor::Below)?;
        }
        let middle = LEFT + CELL.0 * self.x.len() as f64 / 2.0;
        canvas.text(&self.x_label, (middle, height - 14.0), TEXT, Anchor::Centre)?;
        canvas.text(&self.y_label, (16.0, (TOP + bottom) / 2.0), TEXT, Anchor::Upwards)
    }
}

impl Cell {
    fn draw<B: DrawingBackend>(&self, canvas: &Canvas<'_, B>, (left, top): (f64, f64)) -> anyhow::Result<()> {
        let (r, g, b) = COLOURS[self.winner % COLOURS.len()];
        // Paler for a smaller lead, never white.
        let share = 0.25 + 0.6 * (self.lead / FULL).clamp(0.0, 1.0);
        let mix = |c: u8| (255.0 - (255.0 - f64::from(c)) * share).round() as u8;
        let colour = (mix(r), mix(g), mix(b));
        canvas.rectangle((left + 1.0, top + 1.0), (left + CELL.0 - 1.0, top + CELL.1 - 1.0), colour)?;
        let middle = left + CELL.0 / 2.0;
        canvas.text(&self.text, (middle, top + CELL.1 * 0.34), SMALL, Anchor::Centre)?;
        let lead = format!("+{:.0} %", self.lead * 100.0);
        canvas.coloured(&lead, (middle, top + CELL.1 * 0.70), 11.5, Anchor::Centre, INK)
    }
}
