//! The results of all threads of a load together, as `--json` prints them.

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::{LoadError, Outcome};

/// The sum of several threads' outcomes.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Totals {
    /// Packets that came back in the measured time.
    pub packets: u64,
    /// Million packets per second.
    pub mpps: f64,
    /// Gigabits of packet data per second, each way.
    pub gbps: f64,
    /// Packets that never came back.
    pub lost: u64,
    /// Packets that came back damaged, twice or out of order.
    pub corrupt: u64,
    /// Round trips.
    pub rtt_ns: Rtt,
}

/// Quantiles of the round trip in nanoseconds.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Rtt {
    /// The shortest.
    pub min: u64,
    /// The median.
    pub p50: u64,
    /// Nine of ten are at most this long.
    pub p90: u64,
    /// 99 of 100.
    pub p99: u64,
    /// 999 of 1000.
    pub p999: u64,
    /// The longest.
    pub max: u64,
}

impl Rtt {
    /// The quantiles of a histogram.
    pub fn of(h: &Histogram<u64>) -> Rtt {
        let q = |q| h.value_at_quantile(q);
        Rtt { min: h.min(), p50: q(0.5), p90: q(0.9), p99: q(0.99), p999: q(0.999), max: h.max() }
    }
}

impl Totals {
    /// The sum of the results of threads that sent packets of `size` bytes.
    ///
    /// # Errors
    /// When the histograms cannot be added.
    pub fn of(size: u16, outcomes: &[Outcome]) -> Result<Totals, LoadError> {
        let fault = |e: &dyn std::fmt::Display| LoadError::Histogram(e.to_string());
        let mut rtt = Histogram::new(3).map_err(|e| fault(&e))?;
        for outcome in outcomes {
            rtt.add(&outcome.rtt).map_err(|e| fault(&e))?;
        }
        let mpps = outcomes.iter().map(|o| o.packets as f64 / o.seconds / 1e6).sum::<f64>();
        Ok(Totals {
            packets: outcomes.iter().map(|o| o.packets).sum(),
            mpps,
            gbps: mpps * f64::from(size) * 8.0 / 1e3,
            lost: outcomes.iter().map(|o| o.lost).sum(),
            corrupt: outcomes.iter().map(|o| o.corrupt).sum(),
            rtt_ns: Rtt::of(&rtt),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_histograms_of_threads_add_up() {
        let outcome = |packets, rtt| {
            let mut histogram = Histogram::new(3).unwrap();
            histogram.record_n(rtt, packets).unwrap();
            Outcome { packets, seconds: 0.5, lost: 1, corrupt: 2, rtt: histogram }
        };
        let totals = Totals::of(125, &[outcome(1_000_000, 500), outcome(3_000_000, 900)]).unwrap();
        assert_eq!((totals.packets, totals.lost, totals.corrupt), (4_000_000, 2, 4));
        assert!((totals.mpps - 8.0).abs() < 1e-9 && (totals.gbps - 8.0).abs() < 1e-9);
        assert_eq!((totals.rtt_ns.min, totals.rtt_ns.p50, totals.rtt_ns.max), (500, 900, 900));
    }
}
