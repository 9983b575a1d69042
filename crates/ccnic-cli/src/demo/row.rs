//! What the demo measures: its designs and packet sizes, and the figures of a design.

use serde::Serialize;

use crate::loopback::rounds::Outcomes;
use crate::options::DesignName;

/// The designs that are shown, and their names.
pub const DESIGNS: [(DesignName, &str); 3] =
    [(DesignName::Ccnic, "ccnic"), (DesignName::Paper, "CC-NIC paper"), (DesignName::E810, "E810 doorbells")];

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
            let rounds = rounds.map(|(mpps, pingpong)| round(mpps, 123_456, pingpong));
            workload.loads.iter().map(|load| Outcomes::of(&workload, *load, rounds.to_vec())).collect()
        };
        DESIGNS
            .iter()
            .map(|&(_, name)| DesignFigures { name, small: points(SMALL), large: points(LARGE) })
            .collect()
    }
}
