//! What charts are drawn with: lines, boxes, markers and text, in points of a picture.

use std::sync::OnceLock;

use anyhow::anyhow;
use plotters::coord::Shift;
use plotters::element::{Circle, PathElement, Polygon, Rectangle, Text};
use plotters::prelude::{DrawingArea, DrawingBackend, IntoFont, RGBColor};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, FontStyle, FontTransform, ShapeStyle, TextStyle, WHITE, register_font};

/// Colours that colour-blind readers can distinguish (Okabe and Ito), without the pale yellow.
pub const COLOURS: [(u8, u8, u8); 7] = [
    (0x00, 0x72, 0xb2),
    (0xd5, 0x5e, 0x00),
    (0x00, 0x9e, 0x73),
    (0xcc, 0x79, 0xa7),
    (0xe6, 0x9f, 0x00),
    (0x56, 0xb4, 0xe9),
    (0x55, 0x55, 0x55),
];

/// The name of the registered font; viewers of the SVG use their own font of this family.
pub const FONT: &str = "sans-serif";
/// Sizes of text.
pub const TEXT: f64 = 14.5;
pub const SMALL: f64 = 13.0;

pub const INK: (u8, u8, u8) = (0x22, 0x22, 0x22);
pub const PALE: (u8, u8, u8) = (0xdd, 0xdd, 0xdd);
pub const GREY: (u8, u8, u8) = (0x77, 0x77, 0x77);

/// The position of a text relative to its point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Anchor {
    Left,
    Centre,
    Right,
    /// Centred, below the point.
    Below,
    /// Centred and rotated by 90 degrees, to be read upwards.
    Upwards,
}

/// A surface to draw on.
pub struct Canvas<'a, B: DrawingBackend> {
    area: &'a DrawingArea<B, Shift>,
    scale: f64,
}

type Point = (f64, f64);
type Rgb = (u8, u8, u8);

impl<'a, B: DrawingBackend> Canvas<'a, B> {
    /// A surface with `scale` pixels for each point of the picture.
    pub fn new(area: &'a DrawingArea<B, Shift>, scale: f64) -> Canvas<'a, B> {
        Canvas { area, scale }
    }

    fn at(&self, (x, y): Point) -> (i32, i32) {
        ((x * self.scale).round() as i32, (y * self.scale).round() as i32)
    }

    fn stroke(&self, (r, g, b): Rgb, width: f64) -> ShapeStyle {
        RGBColor(r, g, b).stroke_width(((width * self.scale).round() as u32).max(1))
    }

    /// Fills it with white.
    pub fn clear(&self) -> anyhow::Result<()> {
        self.area.fill(&WHITE).map_err(failed)
    }

    pub fn line(&self, points: &[Point], colour: Rgb, width: f64) -> anyhow::Result<()> {
        let points: Vec<_> = points.iter().map(|p| self.at(*p)).collect();
        self.area.draw(&PathElement::new(points, self.stroke(colour, width))).map_err(failed)
    }

    /// A series of points, stretch by stretch: a path's corner would reach far beyond its point where the path turns nearly back.
    pub fn curve(&self, points: &[Point], colour: Rgb, width: f64) -> anyhow::Result<()> {
        points.windows(2).try_for_each(|stretch| self.line(stretch, colour, width))
    }

    /// A dashed straight line.
    pub fn dashes(&self, from: Point, to: Point, colour: Rgb) -> anyhow::Result<()> {
        let length = (to.0 - from.0).hypot(to.1 - from.1);
        let at = |d: f64| (from.0 + (to.0 - from.0) * d / length, from.1 + (to.1 - from.1) * d / length);
        let mut d = 0.0;
        while d < length {
            self.line(&[at(d), at((d + 5.0).min(length))], colour, 1.0)?;
            d += 9.0;
        }
        Ok(())
    }

    pub fn rectangle(&self, from: Point, to: Point, (r, g, b): Rgb) -> anyhow::Result<()> {
        let corners = [self.at(from), self.at(to)];
        self.area.draw(&Rectangle::new(corners, RGBColor(r, g, b).filled())).map_err(failed)
    }

    /// The mark of a series: colour and shape.
    pub fn marker(&self, series: usize, (x, y): Point) -> anyhow::Result<()> {
        let (r, g, b) = COLOURS[series % COLOURS.len()];
        let style = RGBColor(r, g, b).filled();
        let polygon = |points: &[Point]| {
            let points: Vec<_> = points.iter().map(|(dx, dy)| self.at((x + dx, y + dy))).collect();
            self.area.draw(&Polygon::new(points, style)).map_err(failed)
        };
        match series % 4 {
            0 => {
                let radius = (3.4 * self.scale).round() as i32;
                self.area.draw(&Circle::new(self.at((x, y)), radius, style)).map_err(failed)
            }
            1 => polygon(&[(-3.2, -3.2), (3.2, -3.2), (3.2, 3.2), (-3.2, 3.2)]),
            2 => polygon(&[(0.0, -4.2), (4.0, 3.2), (-4.0, 3.2)]),
            _ => polygon(&[(0.0, -4.4), (4.4, 0.0), (0.0, 4.4), (-4.4, 0.0)]),
        }
    }

    pub fn text(&self, text: &str, at: Point, size: f64, place: Anchor) -> anyhow::Result<()> {
        self.styled(text, at, size, place, FontStyle::Normal, INK)
    }

    pub fn bold(&self, text: &str, at: Point, size: f64, place: Anchor) -> anyhow::Result<()> {
        self.styled(text, at, size, place, FontStyle::Bold, INK)
    }

    pub fn coloured(
        &self,
        text: &str,
        at: Point,
        size: f64,
        place: Anchor,
        colour: Rgb,
    ) -> anyhow::Result<()> {
        self.styled(text, at, size, place, FontStyle::Normal, colour)
    }

    fn styled(
        &self,
        text: &str,
        at: Point,
        size: f64,
        place: Anchor,
        style: FontStyle,
        (r, g, b): Rgb,
    ) -> anyhow::Result<()> {
        let font = (FONT, size * self.scale).into_font().style(style);
        let font = if place == Anchor::Upwards { font.transform(FontTransform::Rotate270) } else { font };
        let anchor = match place {
            Anchor::Left => Pos::new(HPos::Left, VPos::Center),
            Anchor::Centre | Anchor::Upwards => Pos::new(HPos::Center, VPos::Center),
            Anchor::Right => Pos::new(HPos::Right, VPos::Center),
            Anchor::Below => Pos::new(HPos::Center, VPos::Top),
        };
        let colour = RGBColor(r, g, b);
        let style = TextStyle::from(font).color(&colour).pos(anchor);
        self.area.draw(&Text::new(text.to_owned(), self.at(at), style)).map_err(failed)
    }
}

fn failed(error: impl std::fmt::Display) -> anyhow::Error {
    anyhow!("could not draw: {error}")
}

/// The width of a text.
pub fn text_width(text: &str, size: f64) -> f64 {
    let measured = fonts().and_then(|()| {
        let measured = (FONT, size).into_font().layout_box(text).map_err(failed)?;
        Ok(f64::from(measured.1.0 - measured.0.0))
    });
    measured.unwrap_or(text.chars().count() as f64 * size * 0.6)
}

/// Registers the font, once.
pub fn fonts() -> anyhow::Result<()> {
    static DONE: OnceLock<bool> = OnceLock::new();
    let register = |style, bytes| register_font(FONT, style, bytes).is_ok();
    let done = DONE.get_or_init(|| {
        register(FontStyle::Normal, dejavu::sans::regular())
            && register(FontStyle::Bold, dejavu::sans::bold())
    });
    anyhow::ensure!(done, "the font cannot be used");
    Ok(())
}

#[cfg(test)]
mod tests {
    use plotters::prelude::{BitMapBackend, IntoDrawingArea};

    use super::*;

    const WIDTH: u32 = 400;

    /// The columns of a picture that have been drawn on.
    fn inked(draw: impl Fn(&Canvas<'_, BitMapBackend<'_>>) -> anyhow::Result<()>) -> (usize, usize) {
        let mut pixels = vec![255; (WIDTH * 100 * 3) as usize];
        {
            let area = BitMapBackend::with_buffer(&mut pixels, (WIDTH, 100)).into_drawing_area();
            draw(&Canvas::new(&area, 2.0)).unwrap();
            area.present().unwrap();
        }
        let columns = (0..pixels.len() / 3).filter(|at| pixels[at * 3] < 255).map(|at| at % WIDTH as usize);
        columns.fold((WIDTH as usize, 0), |(first, last), column| (first.min(column), last.max(column)))
    }

    #[test]
    fn a_curve_that_turns_nearly_back_stays_between_its_points() {
        let points = [(20.0, 25.0), (60.0, 22.0), (30.0, 25.0)];
        let (first, last) = inked(|canvas| canvas.curve(&points, INK, 2.0));
        assert!(first >= 36 && (118..=124).contains(&last), "{first} to {last}");
        let (_, last) = inked(|canvas| canvas.line(&points, INK, 2.0));
        assert!(
            last > 130,
            "the corner of a path reaches beyond its point, or curves are not needed: {last}"
        );
    }
}
