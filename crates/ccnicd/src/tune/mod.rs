//! What this machine decides of the interface: measured once, kept in a file, told to programs when they attach.
//!
//! | file | contents |
//! |---|---|
//! | `mod.rs` | where a daemon's tuning comes from |
//! | `rule.rs` | when a variant has won |
//! | `trials.rs` | which variants are tried, under which load |
//! | `cores.rs` | a program and a NIC on two cores, which run the loads |
//! | `report.rs` | the table of `ccnicd --tune` |
//! | `cache.rs`, `cpu.rs` | the file that keeps a measurement, by CPU model |
//!
//! `docs/tuning.md` says what each field does and what was measured where.

mod cache;
mod cores;
mod cpu;
mod report;
mod rule;
mod trials;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context;
use ccnic::{ConfigError, Tuning};

use cache::Cache;
use cores::TwoCores;
use cpu::CpuModel;
use report::Report;
use trials::{Effort, measure};

/// A measurement at the first start of a build on a CPU model: some 140 ms on an idle machine. It takes a CPU from nobody.
const AT_START: Effort = Effort {
    rounds: 9,
    slice: Duration::from_micros(200),
    limit: Duration::from_millis(250),
    priority: false,
};
/// A measurement that was asked for.
const ASKED_FOR: Effort =
    Effort { rounds: 31, slice: Duration::from_micros(200), limit: Duration::from_secs(10), priority: true };

/// A tuning, and where it is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tuned {
    /// What the daemon uses and tells programs.
    pub tuning: Tuning,
    /// Where it is from.
    pub source: Source,
}

/// Where a tuning is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Source {
    /// Nothing could be measured, or nothing was to be.
    #[default]
    Default,
    /// Measured at the start.
    Measured,
    /// Measured by an earlier daemon on a CPU of this model.
    Cached,
    /// The operator chose some or all of it.
    Option,
}

impl Source {
    /// What `ccnic status` shows.
    pub const fn name(self) -> &'static str {
        match self {
            Source::Default => "default",
            Source::Measured => "measured",
            Source::Cached => "cached",
            Source::Option => "option",
        }
    }
}

/// The two CPUs that are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pair {
    /// One that polls.
    pub nic: usize,
    /// One that programs run on.
    pub program: usize,
}

/// The daemon's tuning: what `text` says (`--tuning`), the rest from the cache, or measured now on these CPUs and cached. Measures
/// nothing when `text` leaves nothing open.
///
/// # Errors
/// When the text is no tuning.
pub fn choose(text: Option<&str>, pair: Option<Pair>) -> Result<Tuned, ConfigError> {
    let Some(text) = text else { return Ok(of_machine(pair)) };
    if let Some(tuning) = complete(text)? {
        return Ok(Tuned { tuning, source: Source::Option });
    }
    Ok(Tuned { tuning: of_machine(pair).tuning.with(text)?, source: Source::Option })
}

/// Whether `text` is a tuning. Measures nothing.
///
/// # Errors
/// When it is none.
pub fn check(text: Option<&str>) -> Result<(), ConfigError> {
    text.map_or(Ok(()), |text| complete(text).map(drop))
}

/// The tuning of a text that leaves no field open.
fn complete(text: &str) -> Result<Option<Tuning>, ConfigError> {
    let opposite = "fetch=read,ahead=8,demote=off,idle=spin,inline=7,loaded=7".parse::<Tuning>()?;
    let tuning = Tuning::default().with(text)?;
    Ok((opposite.with(text)? == tuning).then_some(tuning))
}

/// From the cache, else measured, else the default.
fn of_machine(pair: Option<Pair>) -> Tuned {
    let Some(pair) = pair else {
        tracing::info!("one CPU only: nothing to measure, the default tuning is used");
        return Tuned::default();
    };
    let cache = CpuModel::of(pair.nic).and_then(Cache::of);
    match cache.as_ref().map(Cache::load) {
        Some(Ok(Some(tuning))) => return Tuned { tuning, source: Source::Cached },
        Some(Err(e)) => tracing::warn!("{e:#}; measuring again"),
        _ => {}
    }
    let report = match measured(pair, AT_START) {
        Ok(report) => report,
        Err(e) => {
            tracing::warn!("{e:#}: the default tuning is used");
            return Tuned::default();
        }
    };
    if !report.complete() {
        tracing::info!(
            "other processes use CPUs {} and {}: not all of the tuning was measured",
            pair.nic,
            pair.program
        );
    } else if !report.calm() {
        tracing::info!(
            "other processes used CPUs {} and {} for much of the measurement: the next start measures again",
            pair.nic,
            pair.program
        );
    } else if let Some(Err(e)) = cache.map(|cache| cache.store(report.tuning)) {
        tracing::info!("{e:#}: the next start measures again");
    }
    Tuned { tuning: report.tuning, source: Source::Measured }
}

fn measured(pair: Pair, effort: Effort) -> anyhow::Result<Report> {
    let start = Instant::now();
    let report = TwoCores::run(pair, effort, |cores| measure(cores, effort)).context("could not measure")?;
    tracing::info!("tuning {} measured in {:?}", report.tuning, start.elapsed());
    report.text().lines().for_each(|line| tracing::debug!("{line}"));
    Ok(report)
}

/// What `ccnicd --tune` has done.
#[derive(Debug)]
pub struct Outcome {
    /// The table.
    pub text: String,
    /// What was chosen.
    pub tuning: Tuning,
    /// Where it is.
    pub kept: Kept,
}

/// Where a measurement that was asked for is kept.
#[derive(Debug)]
pub enum Kept {
    /// In this file.
    In(PathBuf),
    /// The model of the CPU is unknown, or this user has no directory for it.
    Nowhere,
    /// Other processes used the CPUs: some of it could not be measured, or may not be true. What was kept before stays.
    Incomplete,
}

/// Measures on these CPUs, and keeps the result for the daemons to come if all of it could be measured.
///
/// # Errors
/// When nothing could be measured, or the result cannot be kept.
pub fn tune(pair: Pair) -> anyhow::Result<Outcome> {
    let report = measured(pair, ASKED_FOR)?;
    let kept = match CpuModel::of(pair.nic).and_then(Cache::of) {
        _ if !report.complete() || !report.calm() => Kept::Incomplete,
        Some(cache) => Kept::In(cache.store(report.tuning)?),
        None => Kept::Nowhere,
    };
    Ok(Outcome { text: report.text(), tuning: report.tuning, kept })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_names_every_field_needs_no_measurement() {
        let all = "fetch=own,ahead=0,demote=auto,idle=pause,inline=1,loaded=0";
        for text in
            ["default", all, "default,idle=spin", "fetch=read,ahead=3,demote=on,idle=spin,inline=2,loaded=1"]
        {
            assert_eq!(complete(text), Ok(Some(text.parse().unwrap())), "{text}");
        }
        for text in ["idle=spin", "fetch=own,ahead=0,demote=auto"] {
            assert_eq!(complete(text), Ok(None), "{text}");
        }
        assert!(complete("idle=sleep").is_err());
    }

    #[test]
    fn what_the_operator_says_wins_and_the_rest_is_the_default_where_nothing_can_be_measured() {
        let spin: Tuning = "idle=spin".parse().unwrap();
        assert_eq!(choose(Some("idle=spin"), None), Ok(Tuned { tuning: spin, source: Source::Option }));
        assert_eq!(choose(None, None), Ok(Tuned::default()));
        assert!(choose(Some("idle"), None).is_err());
    }
}
