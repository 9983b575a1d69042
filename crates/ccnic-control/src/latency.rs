//! How long packets take through a NIC, of bursts that it has sampled.

use serde::{Deserialize, Serialize};

/// The upper ends of the classes that samples are counted in, in nanoseconds, both ends of a class but the lower one included. One more
/// class has all that is longer.
pub const BOUNDS_NS: [u64; 16] = [
    100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000,
    2_000_000, 5_000_000, 10_000_000,
];

/// Classes of samples.
pub const CLASSES: usize = BOUNDS_NS.len() + 1;

/// The class of a time.
pub fn class(ns: u64) -> usize {
    BOUNDS_NS.iter().position(|bound| ns <= *bound).unwrap_or(BOUNDS_NS.len())
}

/// Sampled bursts of a port since it was attached: from the look at its transmit ring before the one that found a burst, until the last
/// packet of the burst was delivered, dropped or handed over to another core. No packet of it that came when the ring was empty was on
/// its way through the NIC for longer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LatencyStatus {
    /// The sum of all samples, in nanoseconds.
    pub sum_ns: u64,
    /// Samples, by class ([`BOUNDS_NS`]).
    pub classes: [u64; CLASSES],
}

impl LatencyStatus {
    /// The number of samples.
    pub fn samples(&self) -> u64 {
        self.classes.iter().fold(0, |sum, n| sum.saturating_add(*n))
    }

    /// The mean, in nanoseconds.
    pub fn mean_ns(&self) -> Option<f64> {
        let samples = self.samples();
        (samples > 0).then(|| self.sum_ns as f64 / samples as f64)
    }

    /// What a share of the samples did not exceed, in nanoseconds: the samples of a class are taken to lie evenly in it, those of the last
    /// one at its lower end, as Prometheus has it.
    pub fn quantile_ns(&self, share: f64) -> Option<f64> {
        let samples = self.samples();
        let wanted = share.clamp(0.0, 1.0) * samples as f64;
        let (mut before, mut low) = (0.0, 0.0);
        for (count, bound) in self.classes.iter().zip(BOUNDS_NS) {
            let (count, bound) = (*count as f64, bound as f64);
            if count > 0.0 && before + count >= wanted {
                return Some(low + (bound - low) * ((wanted - before) / count));
            }
            (before, low) = (before + count, bound);
        }
        (samples > 0).then_some(low)
    }

    /// What has come since an earlier reading. All of it where that does not fit: the port has been attached anew.
    pub fn since(&self, before: &LatencyStatus) -> LatencyStatus {
        let fits = self.sum_ns >= before.sum_ns
            && self.classes.iter().zip(before.classes).all(|(now, then)| *now >= then);
        let before = if fits { *before } else { LatencyStatus::default() };
        let mut classes = self.classes;
        classes.iter_mut().zip(before.classes).for_each(|(now, then)| *now -= then);
        LatencyStatus { sum_ns: self.sum_ns - before.sum_ns, classes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(times: &[u64]) -> LatencyStatus {
        let mut status = LatencyStatus { sum_ns: times.iter().sum(), ..LatencyStatus::default() };
        times.iter().for_each(|ns| status.classes[class(*ns)] += 1);
        status
    }

    #[test]
    fn classes_go_up_to_their_bounds() {
        assert_eq!([0, 100, 101, 200, 10_000_000, 10_000_001].map(class), [0, 0, 1, 1, 15, 16]);
        assert!(BOUNDS_NS.is_sorted_by(|a, b| a < b));
    }

    #[test]
    fn quantiles_lie_evenly_in_their_class() {
        let four = of(&[150, 150, 150, 400]);
        assert_eq!((four.samples(), four.mean_ns()), (4, Some(212.5)));
        assert_eq!(four.quantile_ns(0.75), Some(200.0));
        assert_eq!(four.quantile_ns(0.375), Some(150.0));
        assert_eq!((four.quantile_ns(1.0), four.quantile_ns(0.0)), (Some(500.0), Some(100.0)));
        assert_eq!(of(&[20_000_000]).quantile_ns(0.5), Some(10_000_000.0), "beyond the last bound");
        assert_eq!((of(&[]).quantile_ns(0.5), of(&[]).mean_ns()), (None, None));
    }

    #[test]
    fn what_came_since() {
        let (before, now) = (of(&[50, 300]), of(&[50, 300, 300, 7000]));
        assert_eq!(now.since(&before), of(&[300, 7000]));
        assert_eq!(before.since(&now), before, "another port");
    }

    #[test]
    fn it_survives_json() {
        let status = LatencyStatus { sum_ns: u64::MAX, classes: [u64::MAX; CLASSES] };
        let text = serde_json::to_string(&status).unwrap();
        assert_eq!(serde_json::from_str::<LatencyStatus>(&text).unwrap(), status);
        assert_eq!(status.samples(), u64::MAX);
    }
}
