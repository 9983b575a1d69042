//! Simulated time: picoseconds since the start of a run.

/// A time, or a span of time, in picoseconds.
pub type Ps = u64;

/// Nanoseconds as picoseconds, rounded.
pub fn ps(ns: f64) -> Ps {
    (ns * 1000.0).round().max(0.0) as Ps
}

/// Picoseconds as nanoseconds.
pub fn ns(ps: Ps) -> f64 {
    ps as f64 / 1000.0
}
