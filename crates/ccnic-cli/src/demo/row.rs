//! What the demo measures: its designs and packet sizes, and the figures of a design.

use ccnic::Design;
use serde::Serialize;

use crate::loopback::rounds::Outcomes;

/// The designs that are shown, and their names.
pub const DESIGNS: [(Design, &str); 3] = [
    (Design::GroupedEpoch, "ccnic"),
    (Design::GroupedClear, "CC-NIC paper"),
    (Design::Doorbell, "E810 doorbells"),
];

/// Packet sizes that are shown.
pub const SMALL: u16 = 64;
pub const LARGE: u16 = 1500;
/// Loads between one packet and the peak, as shares of the peak.
pub const SHARES: [f64; 5] = [0.2, 0.4, 0.6, 0.8, 0.9];
/// One design's figures: from one packet in flight to saturation.
#[derive(Debug, Clone, Serialize)]
pub struct DesignFigures {
    /// Its name.
    pub name: &'static str,
    /// With small packets.
    pub small: Vec<Outcomes>,
    /// With large packets.
    pub large: Vec<Outcomes>,
}

#[cfg(test)]
pub mod samples {
    use super::*;
    use crate::loopback::rounds::samples::{round, workload};

    /// Three designs with two workloads each.
    pub fn rows() -> Vec<DesignFigures> {
        let points = |size| -> Vec<Outcomes> {
            let workload = workload(size, &SHARES);
            let rounds = [(9.9, 100.0), (20.0, 110.0), (24.26, 430.0)];
            let rounds = rounds.map(|(mpps, pingpong)| round(mpps, 27_983_871, pingpong));
            workload.loads.iter().map(|load| Outcomes::of(&workload, *load, rounds.to_vec())).collect()
        };
        DESIGNS
            .iter()
            .map(|&(_, name)| DesignFigures { name, small: points(SMALL), large: points(LARGE) })
            .collect()
    }
}
