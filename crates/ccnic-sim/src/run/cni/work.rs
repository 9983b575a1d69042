//! A point of a figure of the CNI paper: what runs, and the values that it gives.

use std::collections::BTreeMap;

use super::micro::{bandwidth, local_queue, ns, round_trip_ns};
use super::nodes::Outcome;
use super::programs::Macrobenchmark;
use crate::platform::BusPlatform;
use crate::systems::cni::Interface;

/// What runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum CniWork {
    /// Round trips of messages of so many bytes.
    RoundTrip(Interface, usize),
    /// Bandwidth in messages of so many bytes.
    Bandwidth(Interface, usize),
    /// Bandwidth between two processors on one bus.
    LocalQueue,
    /// A program on all nodes.
    Macrobenchmark(Interface, Macrobenchmark),
}

impl CniWork {
    /// An estimate of how long it takes.
    pub fn cost(&self) -> f64 {
        match self {
            CniWork::Macrobenchmark(_, Macrobenchmark::Gauss | Macrobenchmark::Moldyn) => 1e6,
            CniWork::Macrobenchmark(..) => 1e3,
            _ => 10.0,
        }
    }

    /// Simulates it; the values have the keys that plans name.
    ///
    /// # Errors
    /// Why it cannot be simulated.
    pub fn run(&self, platform: &str, set: &BTreeMap<String, f64>) -> Result<BTreeMap<String, f64>, String> {
        let platform = BusPlatform::named(platform).map_err(|e| e.to_string())?;
        let changed =
            set.iter().try_fold(platform, |platform, (key, value)| platform.overridden(key, *value));
        self.run_on(&changed.map_err(|e| e.to_string())?)
    }

    /// As [`run`](CniWork::run), on a platform.
    ///
    /// # Errors
    /// Why it cannot be simulated.
    pub fn run_on(&self, platform: &BusPlatform) -> Result<BTreeMap<String, f64>, String> {
        let found = match *self {
            CniWork::RoundTrip(interface, bytes) => {
                round_trip_ns(platform, interface, bytes).map(|ns| ("round_trip_us", ns / 1e3))
            }
            CniWork::Bandwidth(interface, bytes) => {
                bandwidth(platform, interface, bytes).map(|rate| ("mbytes_per_s", rate))
            }
            CniWork::Macrobenchmark(interface, program) => {
                let outcome = program.run(platform, interface).map_err(|e| e.to_string())?;
                return Ok(values(platform, &outcome));
            }
            CniWork::LocalQueue => local_queue(platform).map(|rate| ("mbytes_per_s", rate)),
        };
        let (key, value) = found.map_err(|e| e.to_string())?;
        Ok([(key.to_owned(), value)].into())
    }
}

fn values(platform: &BusPlatform, outcome: &Outcome) -> BTreeMap<String, f64> {
    let ms = |cycles| ns(platform, cycles) / 1e6;
    let values = [
        ("ms", ms(outcome.cycles)),
        ("memory_bus_ms", ms(outcome.memory_bus)),
        ("io_bus_ms", ms(outcome.io_bus)),
        ("messages", outcome.messages as f64),
        ("kept", outcome.kept as f64),
    ];
    values.map(|(key, value)| (key.to_owned(), value)).into()
}
