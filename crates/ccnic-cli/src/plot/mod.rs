//! Pictures: charts side by side under one legend, and maps, as SVG and as PNG.
//!
//! The font is part of the program, since measuring text must not depend on what a machine has installed.

mod axis;
mod canvas;
mod chart;
mod heat;
mod picture;
mod save;

pub use axis::Axis;
pub use chart::{Bars, Chart, Content, Line, Lines, Mark};
pub use heat::{Cell, Heat};
pub use picture::Picture;
