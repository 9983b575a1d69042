//! Pictures: charts side by side under one legend, as SVG and as PNG.
//!
//! The font travels with the program, since measuring text must not depend on what a machine has installed.

mod axis;
mod canvas;
mod chart;
mod heat;

use std::path::Path;

use anyhow::{Context, anyhow};
use plotters::prelude::{BitMapBackend, DrawingBackend, IntoDrawingArea, SVGBackend};

pub use axis::Axis;
use canvas::{Canvas, Place, TEXT};
pub use chart::{Bars, Chart, Content, Line, Lines, Mark};
pub use heat::{Cell, Heat};

/// Colours that stay apart for colour-blind readers (Okabe and Ito), the pale yellow left out.
pub const COLOURS: [(u8, u8, u8); 7] = [
    (0x00, 0x72, 0xb2),
    (0xd5, 0x5e, 0x00),
    (0x00, 0x9e, 0x73),
    (0xcc, 0x79, 0xa7),
    (0xe6, 0x9f, 0x00),
    (0x56, 0xb4, 0xe9),
    (0x55, 0x55, 0x55),
];

/// Charts side by side.
#[derive(Debug)]
pub struct Picture {
    /// From left to right.
    pub charts: Vec<Chart>,
    /// The names of the colours, in the order of [`COLOURS`].
    pub legend: Vec<String>,
}

/// Points on a screen for each point of a picture, in the PNG.
const SCALE: f64 = 2.0;
const CHART_WIDTH: f64 = 470.0;
const CHART_HEIGHT: f64 = 330.0;
/// A picture of one chart is a little wider than one of two.
const SINGLE_WIDTH: f64 = 600.0;
const LEGEND_LINE: f64 = 22.0;
/// From one name of the legend to the next: its line or box, and what lies between.
const LEGEND_GAP: f64 = 52.0;

impl Picture {
    fn size(&self) -> (f64, f64) {
        let width =
            if self.charts.len() == 1 { SINGLE_WIDTH } else { CHART_WIDTH * self.charts.len() as f64 };
        (width, CHART_HEIGHT + LEGEND_LINE * self.legend_lines(width).len() as f64)
    }

    /// The legend's entries by line.
    fn legend_lines(&self, width: f64) -> Vec<Vec<usize>> {
        let (mut lines, mut used) = (Vec::<Vec<usize>>::new(), f64::MAX);
        for (i, name) in self.legend.iter().enumerate() {
            let wanted = canvas::text_width(name, TEXT) + LEGEND_GAP;
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
            let wide = |i: &usize| canvas::text_width(&self.legend[*i], TEXT) + LEGEND_GAP;
            let mut x = (width - line.iter().map(wide).sum::<f64>()) / 2.0 + 14.0;
            let y = LEGEND_LINE * (row as f64 + 0.5);
            for &i in line {
                self.legend_key(canvas, i, x, y)?;
                canvas.text(&self.legend[i], (x + 30.0, y), TEXT, Place::Left)?;
                x += wide(&i);
            }
        }
        let top = LEGEND_LINE * lines.len() as f64;
        let each = width / self.charts.len() as f64;
        for (i, chart) in self.charts.iter().enumerate() {
            chart.draw(canvas, (each * i as f64, top), (each, CHART_HEIGHT))?;
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
        write(self.size(), stem, |canvas| self.draw(canvas), |canvas| self.draw(canvas))
    }
}

/// Draws a picture twice, and writes it.
pub fn write(
    (width, height): (f64, f64),
    stem: &Path,
    vector: impl Fn(&Canvas<'_, SVGBackend<'_>>) -> anyhow::Result<()>,
    bitmap: impl Fn(&Canvas<'_, BitMapBackend<'_>>) -> anyhow::Result<()>,
) -> anyhow::Result<String> {
    canvas::fonts()?;
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (width as u32, height as u32)).into_drawing_area();
        vector(&Canvas::new(&area, 1.0))?;
        area.present().map_err(|e| anyhow!("could not draw: {e}"))?;
    }
    let (wide, high) = ((width * SCALE) as u32, (height * SCALE) as u32);
    let mut pixels = vec![0; wide as usize * high as usize * 3];
    {
        let area = BitMapBackend::with_buffer(&mut pixels, (wide, high)).into_drawing_area();
        bitmap(&Canvas::new(&area, SCALE))?;
        area.present().map_err(|e| anyhow!("could not draw: {e}"))?;
    }
    let save = |extension, bytes: &[u8]| {
        let path = stem.with_extension(extension);
        std::fs::write(&path, bytes).with_context(|| format!("could not write {}", path.display()))
    };
    save("svg", svg.as_bytes())?;
    save("png", &png(&pixels, wide, high)?)?;
    Ok(svg)
}

fn png(pixels: &[u8], width: u32, height: u32) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(pixels)?;
    writer.finish()?;
    Ok(bytes)
}
