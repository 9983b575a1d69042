//! Plans: what a figure of a paper shows, how it is simulated, and what the paper says about it. `figures/*.toml` at the
//! repository root hold the built-in ones.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;

use ccnic::{Demote, Design};
use serde::de::Error;
use serde::{Deserialize, Deserializer};

use super::expr::Expr;
use super::interface::Interface;
use super::statement::Statement;
use crate::run::applications::Application;
use crate::run::cni::across::Over;
use crate::run::mmio::Target;
use crate::run::pio::work::{PioSeries, What};

/// A figure or table.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// Its number, e.g. `14a`.
    pub id: String,
    /// What it shows, in a few words.
    pub title: String,
    /// The paper, the figure and the sections that speak of it.
    pub cites: String,
    /// What is simulated, in a sentence or two.
    pub about: String,
    /// Its panels.
    #[serde(rename = "panel")]
    pub panels: Vec<Panel>,
    /// What is simulated.
    pub series: Vec<Series>,
    /// What the paper says.
    #[serde(rename = "statement", default)]
    pub statements: Vec<Statement>,
}

/// One diagram of a figure.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Panel {
    /// The name by which series refer to it.
    pub id: String,
    /// Its heading.
    pub title: String,
    /// The type of diagram.
    pub kind: PanelKind,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// Published values, drawn as broken lines.
    #[serde(default)]
    pub marks: Vec<Mark>,
}

/// The type of diagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PanelKind {
    /// A line for each series.
    Lines,
    /// Groups of bars: a group for each point, a colour for each series.
    Bars,
}

/// An axis.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Axis {
    /// Its label.
    pub label: String,
    /// The value of a point, by its key in `--json`; if absent, the value that varies.
    pub metric: Option<String>,
    /// Logarithmic.
    #[serde(default)]
    pub log: bool,
    /// Values are divided by one of the series' own.
    pub relative: Option<Relative>,
}

/// What a series' values are divided by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Relative {
    /// The largest.
    Peak,
    /// The first.
    First,
}

/// A published value in a panel.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mark {
    /// Where a vertical line is drawn.
    pub x: Option<f64>,
    /// Where a horizontal one is.
    pub y: Option<f64>,
    /// Its label.
    pub label: String,
}

/// One curve, or one colour of bars.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Series {
    /// Its name in statements: a word.
    pub id: String,
    /// The panel that shows it; without one, only statements use it.
    pub panel: Option<String>,
    /// Its name in the legend.
    pub label: String,
    /// The value to show, if it is not that of the panel's `y`.
    pub y: Option<String>,
    /// If it is not simulated yet: what the simulator lacks.
    pub needs: Option<String>,
    /// What runs.
    pub kind: Kind,
    /// The machine and the load, as far as they do not vary.
    #[serde(flatten)]
    pub base: Settings,
    /// What is written to.
    pub target: Option<TargetName>,
    /// Figures of the CNI paper: the network interface.
    pub interface: Option<Interface>,
    /// Across machines: what messages go over.
    pub queue: Option<Over>,
    /// Applications: which, and by what its packets come.
    pub app: Option<Application>,
    /// Figures of the PIO paper: what happens, and by what.
    pub pio: Option<PioSeries>,
    /// What varies over `values`: `cores`, `burst`, `rx-burst`, `size`, `inflight`, or a platform's key.
    pub over: Option<String>,
    /// Its values.
    #[serde(default)]
    pub values: Vec<f64>,
    /// Named points, which can differ in several settings.
    #[serde(default)]
    pub variants: Vec<Variant>,
}

impl Series {
    /// The error in its values and variants, if there is one.
    fn points_complaint(&self) -> Option<&'static str> {
        let (values, variants) = (!self.values.is_empty(), !self.variants.is_empty());
        match self.kind {
            Kind::Loopback if values == variants => Some("this kind takes either values or variants"),
            Kind::Loopback if values && self.over.is_none() => {
                Some("it does not say what its values are of: add over")
            }
            Kind::Application if variants || !values || self.over.is_none() => {
                Some("this kind takes values, and what they are of: over")
            }
            Kind::Application if self.app.is_none() => {
                Some("it does not say what is served: add app = { serve, over }")
            }
            Kind::Load if variants || self.values.iter().any(|share| !(0.0..=1.0).contains(share)) => {
                Some("this kind takes values from 0 to 1: shares of the highest rate")
            }
            Kind::MmioWrite | Kind::MmioBurst if variants || !values => Some("this kind takes values"),
            Kind::MmioWrite if self.target.is_none() => {
                Some("it does not say what is written to: add target")
            }
            Kind::CniRoundTrip | Kind::CniBandwidth if variants || !values => {
                Some("this kind takes values: bytes of a message")
            }
            Kind::CniRoundTrip | Kind::CniBandwidth | Kind::CniPrograms if self.interface.is_none() => {
                Some("it does not say which network interface: add interface and bus")
            }
            Kind::CniAcross if values || !variants || self.queue.is_none() => {
                Some("this kind takes a queue, and variants that name platforms")
            }
            Kind::Pio if variants => Some("this kind takes values: bytes"),
            Kind::Pio if self.pio.is_none() => Some("it does not say what happens: add pio = { act, by }"),
            Kind::Pio if self.pio.is_some_and(|pio| !pio.is_simulated()) => {
                Some("nothing simulates this act by this means")
            }
            Kind::Pio if values == self.pio.is_some_and(|pio| pio.act == What::Fit) => {
                Some("this kind takes values, bytes, and `fit` none")
            }
            Kind::Access | Kind::Pingpong | Kind::Stream | Kind::MmioRead if values || variants => {
                Some("this kind takes neither values nor variants")
            }
            _ => None,
        }
    }
}

/// What runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Loads that find their line in each location (figure 7).
    Access,
    /// Ping-pong round trips, in every layout (figure 8).
    Pingpong,
    /// Streams of data, with all kinds of stores (figure 9).
    Stream,
    /// Reads of a PCIe device, of 8 and of 64 bytes (section 2.2).
    MmioRead,
    /// Writes with a barrier after so many bytes each, into `target` (figure 2).
    MmioWrite,
    /// The last of so many small stores to a PCIe device (figure 3).
    MmioBurst,
    /// Loopback with as many packets as go through, once for each value or variant.
    Loopback,
    /// An application on a server with a PCIe NIC, as `app` says, with `cores` threads (CC-NIC section 5.7).
    Application,
    /// Loopback from one packet in flight to saturation, at shares of the highest rate.
    Load,
    /// Round trips of messages of so many bytes over `interface` (CNI figure 6).
    CniRoundTrip,
    /// Bandwidth in messages of so many bytes over `interface` (CNI figure 7).
    CniBandwidth,
    /// Bandwidth of a queue between two processors on one bus (CNI section 5.1.2).
    CniLocalQueue,
    /// Every program on all nodes (CNI figure 8).
    CniPrograms,
    /// Messages of 64 bytes to a NIC and back over `queue`, once for each variant's platform.
    CniAcross,
    /// What `pio` says, with so many bytes.
    Pio,
}

/// What figure 2 writes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TargetName {
    /// The device, through write-combining buffers.
    Device,
    /// Memory, around the caches.
    WriteCombining,
    /// Memory, as programs write it.
    WriteBack,
}

impl TargetName {
    /// The target itself.
    pub fn target(self) -> Target {
        match self {
            TargetName::Device => Target::Device,
            TargetName::WriteCombining => Target::WriteCombining,
            TargetName::WriteBack => Target::WriteBack,
        }
    }
}

/// A named point.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    /// What it is called.
    pub name: String,
    /// What differs from the series' own settings.
    #[serde(flatten)]
    pub settings: Settings,
}

/// The machine and the load. Absent values are those of the series, or the defaults.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct Settings {
    /// The platform.
    pub platform: Option<String>,
    /// Values of the platform that are changed.
    #[serde(default)]
    pub set: BTreeMap<String, f64>,
    /// The ring design, by its name.
    #[serde(default, deserialize_with = "by_name")]
    pub design: Option<Design>,
    /// Parts of the interface that are switched off: options of `ccnic bench loopback` without their dashes.
    pub switch: Option<Vec<Switch>>,
    /// When writers demote lines; `off` by default.
    #[serde(default, deserialize_with = "by_name")]
    pub demote: Option<Demote>,
    /// Cores on each side.
    pub cores: Option<u16>,
    /// Bytes of a packet.
    pub size: Option<u16>,
    /// Packets per transmit burst; 32 by default.
    pub burst: Option<usize>,
    /// Buffers per receive burst.
    pub rx_burst: Option<usize>,
    /// Packets under way at once, per core.
    pub inflight: Option<usize>,
    /// At a given rate: whole bursts are sent when they are due, or (the default) each packet when it is, up to a burst together.
    pub whole_bursts: Option<bool>,
    /// Microseconds to simulate.
    pub micros: Option<f64>,
    /// Microseconds of warm-up.
    pub warmup: Option<f64>,
    /// Large buffers of a core's region.
    pub buffers: Option<u32>,
}

/// Reads a value of the interface's configuration by its name.
fn by_name<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err: Display>,
{
    let name = String::deserialize(deserializer)?;
    name.parse().map(Some).map_err(|e| D::Error::custom(format!("{name:?}: {e}")))
}

/// A part of the interface that is switched off, or exchanged for DPDK's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Switch {
    /// No recycling of buffers through magazines.
    NoRecycle,
    /// No small buffers.
    NoSmall,
    /// Buffers in address order.
    Sequential,
    /// The host posts and frees every buffer.
    HostManaged,
    /// No areas beside the rings' units: every packet lies in buffers.
    NoInline,
    /// Free buffers in a ring, first in, first out, as DPDK's mempool; without `no-recycle` behind its cache.
    Mempool,
}

impl Settings {
    /// These settings, completed by those of `base`.
    #[must_use]
    pub fn over(&self, base: &Settings) -> Settings {
        let (s, b) = (self.clone(), base.clone());
        let mut set = b.set;
        set.extend(s.set);
        Settings {
            platform: s.platform.or(b.platform),
            set,
            design: s.design.or(b.design),
            switch: s.switch.or(b.switch),
            demote: s.demote.or(b.demote),
            cores: s.cores.or(b.cores),
            size: s.size.or(b.size),
            burst: s.burst.or(b.burst),
            rx_burst: s.rx_burst.or(b.rx_burst),
            inflight: s.inflight.or(b.inflight),
            whole_bursts: s.whole_bursts.or(b.whole_bursts),
            micros: s.micros.or(b.micros),
            warmup: s.warmup.or(b.warmup),
            buffers: s.buffers.or(b.buffers),
        }
    }
}

/// A plan that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// It cannot be read.
    #[error("{file}: {reason}")]
    Unreadable {
        /// The file.
        file: String,
        /// Why.
        reason: String,
    },
    /// It contradicts itself.
    #[error("{file}: {place}: {reason}")]
    Wrong {
        /// The file.
        file: String,
        /// The series or statement.
        place: String,
        /// What is wrong with it.
        reason: String,
    },
    /// No figure has this name.
    #[error("there is no figure {name}; there are {known}, or name a file that ends in .toml")]
    Unknown {
        /// The name asked for.
        name: String,
        /// The built-in figures.
        known: String,
    },
}

impl Figure {
    /// Reads a plan; `file` names it in errors.
    ///
    /// # Errors
    /// When it is no plan, or names panels or series that it does not have.
    pub fn parse(text: &str, file: &str) -> Result<Figure, PlanError> {
        let figure: Figure = toml::from_str(text).map_err(|e| PlanError::Unreadable {
            file: file.into(),
            reason: e.to_string().trim_end().into(),
        })?;
        figure.check().map_err(|(place, reason)| PlanError::Wrong { file: file.into(), place, reason })?;
        Ok(figure)
    }

    /// The first error: where, and what.
    fn check(&self) -> Result<(), (String, String)> {
        for series in &self.series {
            let place = format!("series {}", series.id);
            let complain = |reason: String| Err((place.clone(), reason));
            if let Some(panel) = &series.panel
                && !self.panels.iter().any(|p| p.id == *panel)
            {
                return complain(format!("there is no panel {panel:?}"));
            }
            if self.series.iter().filter(|s| s.id == series.id).count() > 1 {
                return complain("there are two of this name".into());
            }
            if series.base.platform.is_none() && series.variants.iter().any(|v| v.settings.platform.is_none())
            {
                return complain("it has no platform".into());
            }
            if let Some(reason) = series.points_complaint() {
                return complain(reason.into());
            }
        }
        for statement in &self.statements {
            let place = format!("statement {}", statement.id);
            let expr = Expr::parse(&statement.ours).map_err(|reason| (place.clone(), reason))?;
            for name in expr.series() {
                if !self.series.iter().any(|s| s.id == name) {
                    return Err((place, format!("there is no series {name:?}")));
                }
            }
        }
        Ok(())
    }
}
