//! The configuration of a region, and how it is checked.
//!
//! Every design choice of CC-NIC can be switched off, to measure its contribution (figures 14 and 15).

mod error;

use core::fmt;
use core::str::FromStr;

pub use error::ConfigError;

/// Bytes of a large buffer, and of the chunk that 32 small ones share.
pub const LARGE_BUF: u32 = 4096;
/// Bytes of a small buffer (CC-NIC section 3.3): two lines, so that no two buffers share a pair of lines that
/// the adjacent-line prefetcher fetches together.
pub const SMALL_BUF: u32 = 128;

/// The ring type: how descriptors lie in lines, and how they are signalled. All five have the same burst API
/// ([`ring`](crate::ring)). Each has a name, which command lines, plans of figures and `ccnic status` use:
///
/// ```
/// use ccnic::Design;
///
/// assert_eq!("e810".parse(), Ok(Design::Doorbell));
/// assert_eq!((Design::default().to_string(), Design::Padded.name()), ("ccnic".to_owned(), "padded"));
/// assert_eq!((Design::GroupedEpoch.unit(), Design::GroupedEpoch.per_unit()), (64, 4)); // four descriptors a line
/// let error = "split".parse::<Design>().unwrap_err();
/// assert_eq!(error.to_string(), "unknown design; choose one of ccnic, paper, packed, padded, e810");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum Design {
    /// Up to four descriptors per line under one signal that carries the parity of the lap (Mukherjee et al.
    /// 1996).
    #[default]
    GroupedEpoch = 0,
    /// Up to four descriptors per line under one signal that the consumer clears (CC-NIC section 3.2).
    GroupedClear = 1,
    /// One signal per 16-byte descriptor, four to a line (figure 14b, "pack").
    Packed = 2,
    /// One descriptor per line (figure 14b, "pad").
    Padded = 3,
    /// Packed descriptors with head and tail registers, as the Intel E810 has them ("unoptimized UPI").
    Doorbell = 4,
}

impl Design {
    /// All designs.
    pub const ALL: [Design; 5] =
        [Design::GroupedEpoch, Design::GroupedClear, Design::Packed, Design::Padded, Design::Doorbell];

    /// The names of all designs, in the order of [`ALL`](Design::ALL).
    const NAMES: [&str; 5] = [
        Design::GroupedEpoch.name(),
        Design::GroupedClear.name(),
        Design::Packed.name(),
        Design::Padded.name(),
        Design::Doorbell.name(),
    ];

    /// Bytes of a unit, the part of a ring that one signal covers. Example: [`Design`].
    pub const fn unit(self) -> u32 {
        match self {
            Design::GroupedEpoch | Design::GroupedClear | Design::Padded => 64,
            Design::Packed | Design::Doorbell => 16,
        }
    }

    /// The most descriptors in a unit. Example: [`Design`].
    pub const fn per_unit(self) -> u32 {
        match self {
            Design::GroupedEpoch | Design::GroupedClear => 4,
            Design::Packed | Design::Padded | Design::Doorbell => 1,
        }
    }

    /// The name of the design; [`FromStr`] reads it. Example: [`Design`].
    pub const fn name(self) -> &'static str {
        match self {
            Design::GroupedEpoch => "ccnic",
            Design::GroupedClear => "paper",
            Design::Packed => "packed",
            Design::Padded => "padded",
            Design::Doorbell => "e810",
        }
    }
}

impl fmt::Display for Design {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Design {
    type Err = ConfigError;

    fn from_str(name: &str) -> Result<Design, ConfigError> {
        let design = Design::ALL.into_iter().find(|design| design.name() == name);
        design.ok_or(ConfigError::Name { field: "design", names: &Design::NAMES })
    }
}

/// When a writer demotes the lines it has just written (CLDEMOTE). The names are `auto`, `on` and `off`.
///
/// ```
/// use ccnic::{Config, Demote};
///
/// let config = Config { demote: "off".parse()?, ..Config::default() };
/// assert_eq!((config.demote, config.demote.name()), (Demote::Off, "off"));
/// # Ok::<(), ccnic::ConfigError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum Demote {
    /// When the ring is nearly empty: the reader waits for the line, and its load is faster from the shared
    /// cache.
    #[default]
    Auto = 0,
    /// Always.
    On = 1,
    /// Never.
    Off = 2,
}

impl Demote {
    /// All settings.
    pub const ALL: [Demote; 3] = [Demote::Auto, Demote::On, Demote::Off];

    /// The names of all settings, in the order of [`ALL`](Demote::ALL).
    const NAMES: [&str; 3] = [Demote::Auto.name(), Demote::On.name(), Demote::Off.name()];

    /// The name of the setting; [`FromStr`] reads it. Example: [`Demote`].
    pub const fn name(self) -> &'static str {
        match self {
            Demote::Auto => "auto",
            Demote::On => "on",
            Demote::Off => "off",
        }
    }
}

impl fmt::Display for Demote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Demote {
    type Err = ConfigError;

    fn from_str(name: &str) -> Result<Demote, ConfigError> {
        let demote = Demote::ALL.into_iter().find(|demote| demote.name() == name);
        demote.ok_or(ConfigError::Name { field: "demote", names: &Demote::NAMES })
    }
}

/// The configuration of a region. The program chooses it; the NIC reads it from the region's header and
/// checks it.
///
/// ```
/// use ccnic::{Config, Design};
///
/// let config = Config { queues: 4, buffers: 4096, design: Design::Packed, ..Config::default() };
/// assert!(config.check().is_ok());
/// assert_eq!((config.units(), config.small_limit(), config.has_areas()), (1024, 128, false));
/// let error = Config { ring: 1000, ..config }.check().unwrap_err();
/// assert!(error.to_string().starts_with("ring is 1000; choose"));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Queue pairs: 1 to [`Config::MAX_QUEUES`].
    pub queues: u16,
    /// Descriptors in each ring: a power of two from 64 to 32768.
    pub ring: u32,
    /// Large (4 KiB) buffers in the pool: 16 to 262144.
    pub buffers: u32,
    /// Largest packet in bytes: 64 to [`Config::MAX_MTU`]. More than one large buffer makes a chain.
    pub mtu: u16,
    /// The kind of ring.
    pub design: Design,
    /// Keep freed buffers in a magazine and reuse the last one first (CC-NIC section 3.3).
    pub recycle: bool,
    /// Subdivide large buffers for packets of at most 128 bytes (CC-NIC section 3.3).
    pub small: bool,
    /// Fill the free lists in address order. Otherwise successive buffers are never adjacent.
    pub sequential: bool,
    /// The NIC frees sent buffers and allocates receive buffers itself (CC-NIC section 3.4); otherwise the
    /// host posts every receive buffer and frees every sent one, as PCIe NICs require.
    pub shared_pool: bool,
    /// Write packets of up to 448 bytes into areas beside the rings' units, not into buffers of the pool. Only the default design has
    /// areas, and only with the shared pool ([`Config::has_areas`]); the paper's designs are as the paper has them. Each queue pair keeps
    /// one large buffer of the pool for an inline packet that [`rx_burst`](crate::host::QueuePair::rx_burst) finds when the pool is dry.
    pub inline: bool,
    /// For comparison: keep the free buffers in a ring, first in, first out, as DPDK's mempool does. Then [`recycle`](Config::recycle) is
    /// its cache for each core, by DPDK's rules. Otherwise those freed last are used first. An agent that stops in the middle of a change
    /// makes the others wait, so `ccnicd` refuses such a region.
    pub mempool: bool,
    /// When writers demote lines.
    pub demote: Demote,
    /// Page size of the region in bytes: 4096 or 2 MiB. The segments start on pages, to be homed apart.
    pub page: u32,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            queues: 1,
            ring: 1024,
            buffers: 1024,
            mtu: 9600,
            design: Design::GroupedEpoch,
            recycle: true,
            small: true,
            sequential: false,
            shared_pool: true,
            inline: true,
            mempool: false,
            demote: Demote::Auto,
            page: 4096,
        }
    }
}

/// The fewest and the most descriptors of a ring.
const MIN_RING: u64 = 64;
const MAX_RING: u64 = 32768;
/// Page sizes of regions, in bytes.
const SMALL_PAGE: u32 = 4096;
const HUGE_PAGE: u32 = 2 << 20;

impl Config {
    /// The most queue pairs in a region.
    pub const MAX_QUEUES: u16 = 256;
    /// The largest packet: three large buffers, enough for jumbo frames of 9600 bytes.
    pub const MAX_MTU: u16 = 9600;

    /// Units in each ring. Example: [`Config`].
    pub const fn units(&self) -> u32 {
        self.ring / self.design.per_unit()
    }

    /// The largest packet that fits a small buffer, or zero when there are none. Example: [`Config`].
    pub const fn small_limit(&self) -> u32 {
        if self.small { SMALL_BUF } else { 0 }
    }

    /// True when the units of the rings have areas for payload beside them. Not where a pool has fewer than four buffers for each queue
    /// pair: each keeps one for an inline packet that comes while the pool is dry. Example: [`Config`].
    pub const fn has_areas(&self) -> bool {
        let plenty = self.buffers / 4 >= self.queues as u32;
        self.inline && self.shared_pool && plenty && matches!(self.design, Design::GroupedEpoch)
    }

    pub(crate) const fn too_large(&self) -> ConfigError {
        ConfigError::TooLarge { queues: self.queues, ring: self.ring, buffers: self.buffers }
    }

    /// Checks every field against its range. Example: [`Config`].
    ///
    /// # Errors
    /// The first field that is out of range.
    pub fn check(&self) -> Result<(), ConfigError> {
        let range = |field, value: u64, min, max| {
            if (min..=max).contains(&value) {
                Ok(())
            } else {
                Err(ConfigError::Range { field, value, min, max })
            }
        };
        range("queues", self.queues.into(), 1, Self::MAX_QUEUES.into())?;
        range("ring", self.ring.into(), MIN_RING, MAX_RING)?;
        if !self.ring.is_power_of_two() {
            return Err(ConfigError::PowerOfTwo {
                field: "ring",
                value: self.ring.into(),
                min: MIN_RING,
                max: MAX_RING,
            });
        }
        range("buffers", self.buffers.into(), 16, 1 << 18)?;
        range("mtu", self.mtu.into(), 64, Self::MAX_MTU.into())?;
        if self.page != SMALL_PAGE && self.page != HUGE_PAGE {
            return Err(ConfigError::Page { value: self.page.into() });
        }
        // The E810's host posts every receive buffer: the doorbell ring has no shared pool.
        if self.design == Design::Doorbell && self.shared_pool {
            return Err(ConfigError::SharedPool);
        }
        debug_assert!(Self::MAX_MTU as u32 <= LARGE_BUF * crate::desc::CHAIN_MAX as u32);
        Ok(())
    }

    /// This configuration as header words.
    pub(crate) fn to_words(self) -> [u64; 6] {
        let flags = u64::from(self.recycle)
            | u64::from(self.small) << 1
            | u64::from(self.sequential) << 2
            | u64::from(self.shared_pool) << 3
            | u64::from(self.inline) << 4
            | u64::from(self.mempool) << 5;
        [
            u64::from(self.queues) | u64::from(self.mtu) << 16,
            self.ring.into(),
            self.buffers.into(),
            u64::from(self.design as u8) | u64::from(self.demote as u8) << 8,
            flags,
            self.page.into(),
        ]
    }

    /// Reads a configuration from header words that another process wrote: unchecked.
    pub(crate) fn from_words(words: [u64; 6]) -> Result<Config, ConfigError> {
        let [counts, ring, buffers, kinds, flags, page] = words;
        let narrow = |field, value: u64| {
            u32::try_from(value).map_err(|_| ConfigError::Range {
                field,
                value,
                min: 0,
                max: u32::MAX.into(),
            })
        };
        let short = |field, value: u64| {
            u16::try_from(value).map_err(|_| ConfigError::Range {
                field,
                value,
                min: 0,
                max: u16::MAX.into(),
            })
        };
        let design = Design::ALL.into_iter().find(|d| *d as u64 == kinds & 0xff);
        let demote = Demote::ALL.into_iter().find(|d| *d as u64 == kinds >> 8);
        if flags >> 6 != 0 {
            return Err(ConfigError::Range { field: "flags", value: flags, min: 0, max: 63 });
        }
        Ok(Config {
            queues: short("queues", counts & 0xffff)?,
            mtu: short("mtu", counts >> 16)?,
            ring: narrow("ring", ring)?,
            buffers: narrow("buffers", buffers)?,
            design: design.ok_or(ConfigError::Range {
                field: "design",
                value: kinds & 0xff,
                min: 0,
                max: 4,
            })?,
            demote: demote.ok_or(ConfigError::Range {
                field: "demote",
                value: kinds >> 8,
                min: 0,
                max: 2,
            })?,
            recycle: flags & 1 != 0,
            small: flags & 2 != 0,
            sequential: flags & 4 != 0,
            shared_pool: flags & 8 != 0,
            inline: flags & 16 != 0,
            mempool: flags & 32 != 0,
            page: u32::try_from(page).map_err(|_| ConfigError::Page { value: page })?,
        })
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::string::ToString;

    use super::*;

    #[track_caller]
    fn refused(config: Config, message: &str) {
        assert_eq!(config.check().map_err(|e| e.to_string()), Err(message.to_string()));
    }

    #[test]
    fn the_message_names_the_field_and_what_it_may_be() {
        let good = Config::default();
        assert_eq!(good.check(), Ok(()));
        refused(Config { queues: 0, ..good }, "queues is 0; choose 1 to 256");
        refused(Config { ring: 32, ..good }, "ring is 32; choose 64 to 32768");
        refused(Config { ring: 96, ..good }, "ring is 96; choose a power of two from 64 to 32768");
        refused(Config { page: 8192, ..good }, "page is 8192; choose 4096 or 2097152 bytes");
        refused(
            Config { design: Design::Doorbell, ..good },
            "shared-pool is 1; choose 0, because the host of the e810 design posts all receive buffers",
        );
    }

    #[test]
    fn every_name_is_parsed_to_its_value_and_no_other_name_is() {
        for design in Design::ALL {
            assert_eq!(design.to_string().parse(), Ok(design));
        }
        for demote in Demote::ALL {
            assert_eq!(demote.to_string().parse(), Ok(demote));
        }
        assert!("".parse::<Design>().is_err() && "Ccnic".parse::<Design>().is_err());
        let error = "yes".parse::<Demote>().unwrap_err();
        assert_eq!(error.to_string(), "unknown demote; choose one of auto, on, off");
        assert_eq!(std::format!("{:>7}", Design::Doorbell), "   e810");
    }
}
