//! Platforms: a machine in numbers, each with its unit and its source.
//!
//! A platform is a TOML file; `platforms/` at the repository root holds the built-in ones, and a user copies one of them
//! to describe another machine. The key of a number is its unit:
//!
//! ```toml
//! [memory]
//! rate = { gbytes_per_s = 175.7, source = "mlc 3.10 on a Gold 6338, Code-optimization info/icelake_mlc.txt" }
//! ```
//!
//! `assumed = true` marks general knowledge that has not been verified, `fitted = true` a value that was chosen so that a
//! calibration probe of `[targets]` comes out. A switch is `{ on = true, source = "..." }`. What was measured on the machine itself
//! stands in `[native]`, and nothing is fitted to it.
//!
//! What a file leaves out, misspells, or gives in another unit is refused with its key and a remedy: a simulator that
//! takes a default silently measures something else.

mod any;
mod built_in;
mod bus;
mod data_sheet;
mod description;
mod error;
pub mod instructions;
mod load;
mod pio;
mod read;
mod rules;
mod tables;
#[cfg(test)]
mod tests;
mod units;
mod values;

pub use any::AnyPlatform;
pub use bus::{BusPlatform, Messaging};
pub use description::Platform;
pub use error::PlatformError;
pub use instructions::{Code, Counts, Instructions, Stage, Stages};
pub use pio::PioPlatform;
pub use tables::{
    Cache, Core, Curve, Device, Link, Llc, Memory, Native, Path, Pcie, Prefetch, Prefetchers, Protocol,
    Software, Targets, Topology,
};
pub use units::{
    Bytes, Count, Cycles, GbitPerS, GbytesPerS, GflitPerS, Ghz, Given, Kib, Mlps, Mpps, Multiple, Ns, On,
    Ratio, Unit, Us, unit,
};
pub use values::Entry;
