//! Writing a picture as SVG and as PNG.

use std::path::Path;

use anyhow::{Context, anyhow};
use plotters::prelude::{BitMapBackend, IntoDrawingArea, SVGBackend};

use super::canvas::{self, Canvas};

/// Pixels of the PNG for each point of a picture.
const SCALE: f64 = 2.0;
/// So many pixels are drawn, each way, for one of the PNG: corners are rounded to whole pixels, and a thin oblique line would lose a third of
/// its width by that.
const SAMPLES: usize = 2;

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
    let mut drawn = vec![0; wide as usize * high as usize * 3 * SAMPLES * SAMPLES];
    {
        let size = (wide * SAMPLES as u32, high * SAMPLES as u32);
        let area = BitMapBackend::with_buffer(&mut drawn, size).into_drawing_area();
        bitmap(&Canvas::new(&area, SCALE * SAMPLES as f64))?;
        area.present().map_err(|e| anyhow!("could not draw: {e}"))?;
    }
    let save = |extension, bytes: &[u8]| {
        let path = stem.with_extension(extension);
        ccnic_control::files::write(&path, bytes)
            .with_context(|| format!("could not write {}", path.display()))
    };
    save("svg", svg.as_bytes())?;
    save("png", &png(&averages(&drawn, wide as usize), wide, high)?)?;
    Ok(svg)
}

/// The pixels of a picture that is `wide` pixels wide, of those that were drawn: each the mean of its samples.
fn averages(drawn: &[u8], wide: usize) -> Vec<u8> {
    let mut pixels = Vec::with_capacity(drawn.len() / (SAMPLES * SAMPLES));
    for lines in drawn.chunks_exact(wide * 3 * SAMPLES * SAMPLES) {
        for (x, channel) in (0..wide).flat_map(|x| (0..3).map(move |channel| (x, channel))) {
            let sample = |i: usize| {
                let (line, column) = (i / SAMPLES, x * SAMPLES + i % SAMPLES);
                u32::from(lines[(line * wide * SAMPLES + column) * 3 + channel])
            };
            let all = SAMPLES * SAMPLES;
            pixels.push(((0..all).map(sample).sum::<u32>() / all as u32) as u8);
        }
    }
    pixels
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pixel_is_the_mean_of_its_samples() {
        // Two pixels beside each other, of four samples each, in two lines; red, green and blue differ.
        let [one, two] = [|n: u8| [n, 2 * n, 100], |n: u8| [n, 0, 200]];
        let drawn = [one(10), one(20), two(1), two(1), one(30), one(40), two(1), two(4)].concat();
        assert_eq!(averages(&drawn, 2), [25, 50, 100, 1, 0, 200]);
    }
}
