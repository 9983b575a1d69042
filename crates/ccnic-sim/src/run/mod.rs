//! What is run on simulated machines: loopbacks, microbenchmarks, calibration probes, native measurements, the paper's figures.

pub mod applications;
pub mod calibrate;
pub mod cni;
pub mod figures;
pub mod loopback;
pub mod micro;
pub mod mmio;
pub mod native;
pub mod parallel;
pub mod pio;
pub mod published;
