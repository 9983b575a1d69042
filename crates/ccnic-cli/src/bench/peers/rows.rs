//! What `ccnic bench peers` shows of a driver at a load.

use serde::Serialize;

use super::process::PeerRun;
use crate::stats::median;

/// A driver at a load: medians over the repetitions, or why there are none.
#[derive(Debug, Clone, Serialize)]
pub struct PeerRow {
    pub driver: &'static str,
    pub size: u16,
    pub inflight: usize,
    #[serde(flatten)]
    pub result: Measured,
}

/// The result in a row.
#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
pub enum Measured {
    Median(Median),
    Not {
        /// Why there are no figures.
        skipped: String,
    },
}

/// Medians over the repetitions; losses and damage of all of them.
#[derive(Debug, Clone, Serialize)]
pub struct Median {
    pub mpps: f64,
    /// The most of all runs.
    pub best_mpps: f64,
    pub gbps: f64,
    pub rtt_p50_ns: u64,
    pub rtt_p99_ns: u64,
    pub lost: u64,
    pub corrupt: u64,
    pub runs: usize,
    /// The least share of its time that the generator's thread had its CPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_share: Option<f64>,
}

impl Median {
    /// Sums up the runs at one load.
    pub fn of(size: u16, inflight: usize, runs: &[PeerRun]) -> Median {
        let mine = || runs.iter().filter(|run| run.inflight == inflight);
        let mpps = median(mine().map(|run| run.mpps));
        let ns = |of: fn(&PeerRun) -> u64| median(mine().map(|run| of(run) as f64)) as u64;
        Median {
            mpps,
            best_mpps: mine().map(|run| run.mpps).fold(0.0, f64::max),
            gbps: mpps * f64::from(size) * 8.0 / 1e3,
            rtt_p50_ns: ns(|run| run.rtt_p50_ns),
            rtt_p99_ns: ns(|run| run.rtt_p99_ns),
            lost: mine().map(|run| run.lost).sum(),
            corrupt: mine().map(|run| run.corrupt).sum(),
            runs: mine().count(),
            cpu_share: mine().filter_map(|run| run.cpu_share).reduce(f64::min),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_are_of_the_same_load_and_losses_add_up() {
        let run = |inflight, mpps, lost| PeerRun {
            inflight,
            mpps,
            rtt_p50_ns: 7,
            rtt_p99_ns: 9,
            lost,
            corrupt: 0,
            cpu_share: Some(mpps / 100.0),
        };
        let runs = [run(1, 5.0, 1), run(64, 90.0, 0), run(1, 1.0, 2), run(1, 2.0, 0)];
        let m = Median::of(125, 1, &runs);
        assert_eq!((m.mpps, m.gbps, m.lost, m.runs, m.rtt_p50_ns), (2.0, 2.0, 3, 3, 7));
        assert_eq!((m.best_mpps, m.cpu_share), (5.0, Some(0.01)));
    }
}
