//! Writing a picture as SVG and as PNG.

use std::path::Path;

use anyhow::{Context, anyhow};
use plotters::prelude::{BitMapBackend, IntoDrawingArea, SVGBackend};

use super::canvas::{self, Canvas};

/// Pixels of the PNG for each point of a picture.
const SCALE: f64 = 2.0;

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
