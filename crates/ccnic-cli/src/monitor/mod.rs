//! Watching a running NIC: `stats` prints its counters, `top` shows them live; `rates` says what they rose by between two readings.

pub mod rates;
pub mod stats;
pub mod top;
