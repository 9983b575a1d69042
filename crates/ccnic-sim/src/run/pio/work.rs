//! A point of a figure of the PIO paper: what runs, and the values that it gives.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::pcie::{self, Act, By};
use crate::platform::PioPlatform;
use crate::systems::pio::call::{self, MESSAGE, Protocol};
use crate::systems::pio::dataflow::{self, Carrier, Lines};
use crate::systems::pio::pcie::Completion;
use crate::systems::pio::protocol::Initiator;
use crate::systems::pio::{PioError, fastforward, nic};

/// What a series of a plan does: `{ act = "call", by = "eci" }`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct PioSeries {
    /// What happens.
    pub act: What,
    /// By what.
    pub by: Means,
}

/// What happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum What {
    /// A call that does nothing, with so many bytes each way (figures 5 and 6).
    Call,
    /// A packet is received (figure 8).
    Receive,
    /// A packet is transmitted (figure 9).
    Transmit,
    /// A batch goes through 31 operators (figure 10).
    Batch,
    /// A line through the times of batches of 128 to 8192 bytes (table 1).
    Fit,
}

/// By what.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Means {
    /// Figure 4a, as section 5 uses it (and 4b to receive).
    Eci,
    /// The same with answers in state Shared.
    EciShared,
    /// Figure 4b.
    DeviceInitiated,
    /// Figure 4c.
    CpuHomed,
    /// Figure 4d.
    DeviceInitiatedCpuHomed,
    /// Two processors that poll.
    Fastforward,
    /// Loads and stores over PCIe.
    Pcie,
    /// The same in words of 8 bytes.
    PcieWords,
    /// The DMA engine, polled; a batch by interrupts.
    Dma,
    /// The DMA engine with interrupts.
    DmaInterrupt,
    /// A batch stays on the processor.
    Cpu,
    /// A batch by calls for one direction each, with 64 bytes of data.
    EciHalf,
}

/// Calls and packets that are measured, and those before.
const ROUNDS: u32 = 101;
const WARM: usize = 8;

/// Batches through which a line is drawn.
const SIZES: [usize; 7] = [128, 256, 512, 1024, 2048, 4096, 8192];

/// What runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PioWork {
    /// What and how.
    pub series: PioSeries,
    /// Of a message, a packet or a batch.
    pub bytes: usize,
}

impl PioSeries {
    /// False for what nothing simulates: a packet or a batch by a protocol that is for calls only, a call that stays on the processor.
    pub fn is_simulated(self) -> bool {
        use Means::{Cpu, Dma, DmaInterrupt, Eci, EciHalf, Pcie, PcieWords};
        match self.act {
            What::Call => !matches!(self.by, Cpu | EciHalf | PcieWords),
            What::Receive | What::Transmit => matches!(self.by, Eci | Pcie | Dma | DmaInterrupt),
            What::Batch | What::Fit => matches!(self.by, Cpu | Eci | EciHalf | Pcie | PcieWords | Dma),
        }
    }
}

impl PioWork {
    /// Simulates it; the values have the keys that plans name.
    ///
    /// # Errors
    /// Why it cannot be simulated.
    pub fn run(&self, platform: &str, set: &BTreeMap<String, f64>) -> Result<BTreeMap<String, f64>, String> {
        let platform = PioPlatform::named(platform).map_err(|e| e.to_string())?;
        let changed = set.iter().try_fold(platform, |p, (key, value)| p.overridden(key, *value));
        self.run_on(&changed.map_err(|e| e.to_string())?)
    }

    /// As [`run`](PioWork::run), on a platform.
    ///
    /// # Errors
    /// Why it cannot be simulated.
    pub fn run_on(&self, platform: &PioPlatform) -> Result<BTreeMap<String, f64>, String> {
        let found = match self.series.act {
            What::Batch => self.batch(platform, self.bytes).map(|us| vec![("batch_us", us)]),
            What::Fit => self.fit(platform),
            _ => self.times(platform).map(|times| summary(&times)),
        };
        let found = found.map_err(|e| e.to_string())?;
        Ok(found.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
    }

    fn times(&self, platform: &PioPlatform) -> Result<Vec<f64>, PioError> {
        let PioSeries { act, by } = self.series;
        let over_pcie = |by| {
            let act = match act {
                What::Receive => Act::Receive,
                What::Transmit => Act::Transmit,
                _ => Act::Call,
            };
            pcie::times(platform, act, by, self.bytes)
        };
        match (act, by) {
            (_, Means::Pcie) => over_pcie(By::Programmed),
            (_, Means::Dma) => over_pcie(By::Dma(Completion::Polled)),
            (_, Means::DmaInterrupt) => over_pcie(By::Dma(Completion::Interrupt)),
            (What::Receive, _) => nic::receive_times(platform, self.bytes, ROUNDS),
            (What::Transmit, _) => nic::transmit_times(platform, self.bytes, ROUNDS),
            (_, Means::Fastforward) => fastforward::times(platform, ROUNDS),
            (_, by) => call::times(platform, protocol(by), self.bytes, ROUNDS),
        }
    }

    fn batch(&self, platform: &PioPlatform, bytes: usize) -> Result<f64, PioError> {
        let carrier = match self.series.by {
            Means::Cpu => Carrier::Cpu,
            Means::Pcie => Carrier::Pcie(usize::MAX),
            Means::PcieWords => Carrier::Pcie(8),
            Means::Dma => Carrier::Dma,
            Means::EciHalf => Carrier::Eci(Lines { data: MESSAGE / 2, one_way: true }),
            _ => Carrier::Eci(Lines::FULL),
        };
        dataflow::batch_us(platform, carrier, bytes)
    }

    fn fit(&self, platform: &PioPlatform) -> Result<Vec<(&'static str, f64)>, PioError> {
        let point = |bytes: usize| Ok((bytes as f64, self.batch(platform, bytes)?));
        let points = SIZES.into_iter().map(point).collect::<Result<Vec<_>, PioError>>()?;
        let (overhead, slope, r2) = dataflow::fit(&points);
        Ok(vec![("overhead_us", overhead), ("ns_per_byte", slope), ("r2", r2)])
    }
}

fn protocol(by: Means) -> Protocol {
    let paper = Protocol::PAPER;
    match by {
        Means::EciShared => Protocol { exclusive: false, ..paper },
        Means::DeviceInitiated => Protocol { initiator: Initiator::Device, ..paper },
        Means::CpuHomed => Protocol { cpu_homed: true, ..paper },
        Means::DeviceInitiatedCpuHomed => Protocol { initiator: Initiator::Device, cpu_homed: true, ..paper },
        _ => paper,
    }
}

/// Nanoseconds as values of a point: the first ones are not counted.
fn summary(times: &[f64]) -> Vec<(&'static str, f64)> {
    let mut times = times[WARM.min(times.len() - 1)..].to_vec();
    times.sort_by(f64::total_cmp);
    let part = |share: f64| times[((times.len() - 1) as f64 * share).round() as usize];
    vec![
        ("median_ns", part(0.5)),
        ("median_us", part(0.5) / 1e3),
        ("least_ns", part(0.0)),
        ("most_ns", part(1.0)),
    ]
}
