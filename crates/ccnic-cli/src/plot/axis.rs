//! Axes: where a value lies, and which values are written at an axis.

/// An axis: its label and its range.
#[derive(Debug, Clone)]
pub struct Axis {
    pub label: String,
    pub log: bool,
    pub from: f64,
    pub to: f64,
    /// The values to write at the axis, instead of round numbers.
    pub written: Option<Vec<f64>>,
}

impl Axis {
    /// An axis that holds all values, with some room above them. A linear axis starts at zero if `zero` is
    /// set or if zero is near.
    pub fn around(label: &str, log: bool, zero: bool, values: impl Iterator<Item = f64>) -> Axis {
        let ends = values.filter(|v| v.is_finite() && (!log || *v > 0.0)).fold(
            None,
            |ends: Option<(f64, f64)>, v| {
                let (low, high) = ends.unwrap_or((v, v));
                Some((low.min(v), high.max(v)))
            },
        );
        let nothing = if log { (1.0, 10.0) } else { (0.0, 1.0) };
        let (low, high) = ends.filter(|ends| *ends != (0.0, 0.0)).unwrap_or(nothing);
        let (from, to) = if log {
            let room = (high / low).max(1.5).powf(0.06);
            (low / room, high * room)
        } else if zero || low < (high - low) * 2.0 {
            (low.min(0.0), if high > 0.0 { high * 1.09 } else { 1.0 })
        } else {
            let room = (high - low).max(high.abs() * 0.05) * 0.08;
            (low - room, high + room)
        };
        Axis { label: label.to_owned(), log, from, to, written: None }
    }

    /// The same axis with more room above for text, as a share of its length.
    pub fn with_room(self, share: f64) -> Axis {
        let more = 1.0 + share;
        let to = if self.log {
            self.from * (self.to / self.from).powf(more)
        } else {
            self.from + (self.to - self.from) * more
        };
        Axis { to, ..self }
    }

    /// The position of a value: 0 at the beginning, 1 at the end.
    pub fn place(&self, value: f64) -> f64 {
        let map = |v: f64| if self.log { v.max(f64::MIN_POSITIVE).ln() } else { v };
        (map(value) - map(self.from)) / (map(self.to) - map(self.from))
    }

    /// The values that are written at ticks, and those of finer ticks without a number.
    pub fn ticks(&self) -> (Vec<f64>, Vec<f64>) {
        if let Some(written) = &self.written {
            return (written.clone(), Vec::new());
        }
        if self.log { self.log_ticks() } else { (self.linear_ticks(), Vec::new()) }
    }

    fn linear_ticks(&self) -> Vec<f64> {
        let step = step((self.to - self.from) / 6.0);
        let first = (self.from / step).ceil() as i64;
        (first..).map(|n| n as f64 * step).take_while(|v| *v <= self.to * (1.0 + 1e-9)).collect()
    }

    fn log_ticks(&self) -> (Vec<f64>, Vec<f64>) {
        let within = |v: &f64| *v >= self.from * 0.999 && *v <= self.to * 1.001;
        let decades = self.from.log10().floor() as i32..=self.to.log10().ceil() as i32;
        let times = |steps: &[f64]| -> Vec<f64> {
            decades
                .clone()
                .flat_map(|d| steps.iter().map(move |s| s * 10f64.powi(d)))
                .filter(within)
                .collect()
        };
        let fine = times(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]);
        // An axis of few decades gets more numbers.
        let written = [&[1.0][..], &[1.0, 3.0], &[1.0, 2.0, 5.0], &[1.0, 2.0, 3.0, 4.0, 6.0, 8.0]];
        let written = written.map(times).into_iter().find(|t| t.len() >= 4).unwrap_or_else(|| fine.clone());
        (written, fine)
    }
}

/// The smallest round number that is at least `least`.
fn step(least: f64) -> f64 {
    let decade = 10f64.powf(least.log10().floor());
    [1.0, 2.0, 2.5, 5.0, 10.0].map(|s| s * decade).into_iter().find(|s| *s >= least * 0.999).unwrap_or(decade)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_a_share_of_the_axis() {
        for log in [false, true] {
            let axis = Axis::around("x", log, false, [3.0, 500.0].into_iter());
            let end = axis.to;
            let place = axis.with_room(0.25).place(end);
            assert!((place - 0.8).abs() < 1e-9, "{place}");
        }
    }

    #[test]
    fn ticks_are_few_and_lie_within() {
        for (low, high, log) in
            [(0.0, 330.0, false), (400.0, 20_000.0, true), (490.0, 716.0, true), (0.2, 1.0, false)]
        {
            let axis = Axis::around("x", log, !log, [low, high].into_iter());
            let (written, _) = axis.ticks();
            assert!((3..=9).contains(&written.len()), "{low} {high}: {written:?}");
            assert!(written.iter().all(|v| (-0.001..=1.001).contains(&axis.place(*v))), "{written:?}");
        }
    }

    #[test]
    fn an_axis_without_values_has_a_range() {
        for log in [false, true] {
            let axis = Axis::around("x", log, false, std::iter::empty());
            assert!(axis.to > axis.from && !axis.ticks().0.is_empty());
        }
        for flat in [0.0, 5.0] {
            let flat = Axis::around("x", false, false, [flat, flat].into_iter());
            assert!(flat.to > flat.from && flat.ticks().0.len() < 20);
        }
    }
}
