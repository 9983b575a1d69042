//! Statistics of repeated measurements.

use serde::Serialize;

/// The median, minimum and maximum of several values.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Spread {
    /// The least.
    pub min: f64,
    /// The median.
    pub median: f64,
    /// The largest.
    pub max: f64,
}

impl Spread {
    /// The spread of some values; zeroes when there are none.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Spread {
        let values: Vec<f64> = values.into_iter().collect();
        let (Some(min), Some(max)) =
            (values.iter().copied().reduce(f64::min), values.iter().copied().reduce(f64::max))
        else {
            return Spread::default();
        };
        Spread { min, median: median(values), max }
    }
}

/// The median: the middle value, or the mean of the two middle values; zero without values.
pub fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    let low = values.len().checked_sub(1).and_then(|last| values.get(last / 2));
    let high = values.get(values.len() / 2);
    low.zip(high).map_or(0.0, |(low, high)| (low + high) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median([4.0, 1.0]), 2.5);
        assert_eq!(median([9.0, 1.0, 2.0]), 2.0);
        assert_eq!(median([]), 0.0);
    }

    #[test]
    fn a_spread_is_of_all_values() {
        assert_eq!(Spread::of([3.0, 1.0, 10.0, 2.0]), Spread { min: 1.0, median: 2.5, max: 10.0 });
        assert_eq!(Spread::of([7.0]), Spread { min: 7.0, median: 7.0, max: 7.0 });
        assert_eq!(Spread::of([]), Spread::default());
    }
}
