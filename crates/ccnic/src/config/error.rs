//! What is wrong with a configuration, or with a region's header.

use core::fmt;

use super::{HUGE_PAGE, SMALL_PAGE};

/// A configuration, or a region's header, that is not valid. Each error names the field and what it may hold.
///
/// ```
/// use ccnic::{Config, ConfigError};
///
/// let error = Config { mtu: 10, ..Config::default() }.check().unwrap_err();
/// assert_eq!(error, ConfigError::Range { field: "mtu", value: 10, min: 64, max: 9600 });
/// assert_eq!(error.to_string(), "mtu is 10; choose 64 to 9600");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfigError {
    /// A number out of its range.
    Range {
        /// The field, as on the command line.
        field: &'static str,
        /// What it holds.
        value: u64,
        /// The least it may be.
        min: u64,
        /// The most it may be.
        max: u64,
    },
    /// A number that must be a power of two.
    PowerOfTwo {
        /// The field.
        field: &'static str,
        /// What it holds.
        value: u64,
        /// The least it may be.
        min: u64,
        /// The most it may be.
        max: u64,
    },
    /// A name that no value of the field has.
    Name {
        /// The field.
        field: &'static str,
        /// The names that it may have.
        names: &'static [&'static str],
    },
    /// A page size that no region has.
    Page {
        /// Bytes asked for.
        value: u64,
    },
    /// A shared pool with the doorbell design: its host posts every receive buffer.
    SharedPool,
    /// Offsets have 32 bits.
    TooLarge {
        /// Queue pairs asked for.
        queues: u16,
        /// Descriptors per ring asked for.
        ring: u32,
        /// Buffers asked for.
        buffers: u32,
    },
    /// The region does not start with the magic word.
    NotARegion,
    /// The region has another layout.
    Version {
        /// The version found.
        found: u64,
        /// The version this build knows.
        known: u64,
    },
    /// The region is smaller than its header says.
    Truncated {
        /// Bytes that the configuration needs.
        needs: u32,
        /// Bytes that the region has.
        has: u32,
    },
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            ConfigError::Range { field, value, min, max } => {
                write!(f, "{field} is {value}; choose {min} to {max}")
            }
            ConfigError::PowerOfTwo { field, value, min, max } => {
                write!(f, "{field} is {value}; choose a power of two from {min} to {max}")
            }
            ConfigError::Name { field, names } => {
                write!(f, "unknown {field}; choose one of ")?;
                names.iter().enumerate().try_for_each(|(i, name)| {
                    f.write_str(if i > 0 { ", " } else { "" })?;
                    f.write_str(name)
                })
            }
            ConfigError::Page { value } => {
                write!(f, "page is {value}; choose {SMALL_PAGE} or {HUGE_PAGE} bytes")
            }
            ConfigError::SharedPool => write!(
                f,
                "shared-pool is 1; choose 0, because the host of the e810 design posts all receive buffers"
            ),
            ConfigError::TooLarge { queues, ring, buffers } => write!(
                f,
                "{queues} queues of {ring} descriptors with {buffers} buffers do not fit in 4 GiB; lower buffers or ring"
            ),
            ConfigError::NotARegion => write!(f, "the memory is no ccnic region: its magic word is missing"),
            ConfigError::Version { found, known } => write!(
                f,
                "the region has layout version {found}, this build knows {known}; use the same release on both sides"
            ),
            ConfigError::Truncated { needs, has } => {
                write!(f, "the region has {has} bytes, its geometry needs {needs}; make it anew")
            }
        }
    }
}

impl core::error::Error for ConfigError {}
