//! Options that several subcommands share: the design of the interface and the traffic.

use ccnic::{Burst, Config, ConfigError, Demote, Design};
use ccnic_load::{Load, payload};
use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

/// What the cachable queues of 1996 may be called.
const QUEUES_OF_CNI: [&str; 4] = ["cni", "cni4", "cni16q", "cni512q"];

/// Parses `--design` by [`Design`]'s own names, and lists them in the help.
pub fn design_parser() -> impl TypedValueParser<Value = Design> {
    let about = |design| match design {
        Design::GroupedEpoch => "Up to four descriptors per cache line, epoch signals (ccnic's default)",
        Design::GroupedClear => {
            "Up to four descriptors per cache line, cleared signals (as in the CC-NIC paper)"
        }
        Design::Packed => "Packed 16-byte descriptors, each with its own signal",
        Design::Padded => "One descriptor per cache line",
        Design::Doorbell => {
            "An Intel E810 over coherent memory: doorbells, packed descriptors, host-managed buffers"
        }
    };
    let values = Design::ALL.map(|design| PossibleValue::new(design.name()).help(about(design)));
    // Who looks for CNI's queues here is told where they are.
    let elsewhere = QUEUES_OF_CNI.map(|name| PossibleValue::new(name).hide(true));
    PossibleValuesParser::new(values.into_iter().chain(elsewhere)).try_map(|name| {
        if QUEUES_OF_CNI.contains(&name.as_str()) {
            return Err(anyhow::anyhow!(
                "a queue of CNI holds messages and is no ring of a NIC's region; `ccnic bench cni` measures it on this machine, `ccnic \
                 sim run --system cni512q` simulates it"
            ));
        }
        Ok(name.parse::<Design>()?)
    })
}

/// Parses `--demote` by [`Demote`]'s own names, and lists them in the help.
pub fn demote_parser() -> impl TypedValueParser<Value = Demote> {
    let about = |demote| match demote {
        Demote::Auto => "When the ring is nearly empty",
        Demote::On => "Always",
        Demote::Off => "Never",
    };
    let values = Demote::ALL.map(|demote| PossibleValue::new(demote.name()).help(about(demote)));
    PossibleValuesParser::new(values).try_map(|name| name.parse::<Demote>())
}

/// The interface that is measured: its design, and what of it is switched off.
#[derive(Debug, Clone, Args)]
pub struct InterfaceArgs {
    /// Ring design (for the cachable queues of CNI: bench cni, sim run)
    #[arg(long, value_parser = design_parser(), default_value_t)]
    pub design: Design,
    /// Descriptors in each ring: a power of two from 64 to 32768
    #[arg(long, default_value_t = 1024, value_name = "DESCRIPTORS")]
    pub ring: u32,
    /// Buffers of 4 KiB in the pool, 16 to 262144 [default: 4096; in simulations 2048]
    #[arg(long)]
    pub buffers: Option<u32>,
    /// Allocate and free every buffer through the shared depot, without the per-thread magazines
    #[arg(long)]
    pub no_recycle: bool,
    /// Do not divide buffers of 4 KiB into buffers of 128 bytes for small packets
    #[arg(long)]
    pub no_small: bool,
    /// Allocate buffers in the order of their addresses
    #[arg(long)]
    pub sequential: bool,
    /// The host posts receive buffers and frees sent ones, as PCIe NICs require
    #[arg(long)]
    pub host_managed: bool,
    /// Write no packet beside its descriptor: every packet lies in buffers of the pool
    #[arg(long)]
    pub no_inline: bool,
    /// Keep free buffers in a ring, first in, first out, as DPDK's mempool; --no-recycle switches its cache off (simulations only)
    #[arg(long)]
    pub mempool: bool,
    /// When to demote written cache lines towards the reader (CLDEMOTE)
    #[arg(long, value_parser = demote_parser(), default_value_t)]
    pub demote: Demote,
}

impl InterfaceArgs {
    /// The default interface of a design.
    pub fn of(design: Design) -> InterfaceArgs {
        InterfaceArgs {
            design,
            ring: 1024,
            buffers: None,
            no_recycle: false,
            no_small: false,
            sequential: false,
            host_managed: false,
            no_inline: false,
            mempool: false,
            demote: Demote::Auto,
        }
    }

    /// The region's configuration. The E810 has neither small buffers nor a shared pool.
    pub fn config(&self, queues: u16) -> Config {
        let e810 = self.design == Design::Doorbell;
        Config {
            queues,
            ring: self.ring,
            buffers: self.buffers.unwrap_or(4096),
            design: self.design,
            recycle: !self.no_recycle,
            small: !(self.no_small || e810),
            sequential: self.sequential,
            shared_pool: !(self.host_managed || e810),
            inline: !self.no_inline,
            mempool: self.mempool,
            demote: self.demote,
            ..Config::default()
        }
    }
}

/// The traffic that a measurement of a real NIC offers.
#[derive(Debug, Clone, Args)]
pub struct TrafficArgs {
    /// Bytes of each packet, 16 to 9600
    #[arg(long, default_value_t = 64, value_name = "BYTES")]
    pub size: u16,
    /// Packets in a transmit burst, 1 to 64
    #[arg(long, default_value_t = 32, value_name = "PACKETS")]
    pub burst: usize,
    /// Buffers in a receive burst, 1 to 64
    #[arg(long, default_value_t = 32, value_name = "BUFFERS")]
    pub rx_burst: usize,
    /// Packets in flight per queue pair, at most
    #[arg(long, default_value_t = 512, value_name = "PACKETS")]
    pub inflight: usize,
    /// Queue pairs, each with a program thread of its own
    #[arg(long, default_value_t = 1)]
    pub queues: u16,
    /// Seconds to measure each load in each round
    #[arg(long, default_value_t = 0.1)]
    pub seconds: f64,
    /// Packets per second to offer, in millions, over all queue pairs [default: as many as possible]
    #[arg(long, value_name = "MPPS")]
    pub rate: Option<f64>,
    /// With --rate or --sweep, send full bursts when all their packets are due instead of each packet when it
    /// is due
    #[arg(long)]
    pub whole_bursts: bool,
}

impl TrafficArgs {
    /// What each of the threads of `queues` queue pairs sends.
    pub fn load(&self, queues: u16) -> Load {
        Load {
            size: self.size,
            burst: self.burst,
            rx_burst: self.rx_burst,
            inflight: self.inflight,
            whole_bursts: self.whole_bursts,
            phase: 0.0,
            rate: self.rate.map(|mpps| mpps * 1e6 / f64::from(queues)),
            seconds: self.seconds,
            warmup: (self.seconds / 4.0).min(0.3),
            packets: None,
        }
    }

    /// Checks every option against what the interface can carry. `queues` is the option that sets the number
    /// of queue pairs.
    ///
    /// # Errors
    /// The first option that is out of range, with what it may be.
    pub fn check(&self, config: &Config, queues: &'static str) -> anyhow::Result<()> {
        config.check().map_err(|error| by_option(error, queues))?;
        let range = |field, value: usize, min: usize, max: usize| {
            let (value, min, max) = (value as u64, min as u64, max as u64);
            if (min..=max).contains(&value) {
                Ok(())
            } else {
                Err(ConfigError::Range { field, value, min, max })
            }
        };
        range("--size", self.size.into(), payload::MIN.into(), config.mtu.into())?;
        range("--burst", self.burst, 1, Burst::CAPACITY)?;
        let segments = usize::from(self.size).div_ceil(4096);
        range("--rx-burst", self.rx_burst, segments, Burst::CAPACITY)?;
        range("--inflight", self.inflight, 1, config.buffers as usize / 2 / segments)?;
        seconds(self.seconds)?;
        if let Some(rate) = self.rate {
            anyhow::ensure!(rate > 0.0, "--rate is {rate}; choose a number above zero");
        }
        Ok(())
    }
}

/// Offered loads of a sweep, as shares of the peak.
pub const SHARES: [f64; 9] = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9];

/// The most rounds that a measurement may have.
const MOST_ROUNDS: usize = 10_000;

/// Checks `--rounds`.
///
/// # Errors
/// When it is out of range.
pub fn rounds(rounds: usize) -> anyhow::Result<()> {
    anyhow::ensure!((1..=MOST_ROUNDS).contains(&rounds), "--rounds is {rounds}; choose 1 to {MOST_ROUNDS}");
    Ok(())
}

/// Checks `--seconds`.
///
/// # Errors
/// When it is not above zero, or longer than a day.
pub fn seconds(seconds: f64) -> anyhow::Result<()> {
    let holds = seconds > 0.0 && seconds <= 86400.0;
    anyhow::ensure!(holds, "--seconds is {seconds}; choose a number above 0, up to 86400");
    Ok(())
}

/// A configuration's error with the option of the command line that sets the field.
fn by_option(error: ConfigError, queues: &'static str) -> anyhow::Error {
    match error {
        ConfigError::Range { field: "queues", value, min, max } => {
            ConfigError::Range { field: queues, value, min, max }.into()
        }
        ConfigError::Range { .. } | ConfigError::PowerOfTwo { .. } => anyhow::anyhow!("--{error}"),
        error => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn traffic() -> TrafficArgs {
        TrafficArgs {
            size: 64,
            burst: 32,
            rx_burst: 32,
            inflight: 512,
            queues: 1,
            seconds: 0.1,
            rate: None,
            whole_bursts: false,
        }
    }

    #[track_caller]
    fn refused(traffic: TrafficArgs, config: Config, expected: &str) {
        let error = traffic.check(&config, "--cores").unwrap_err();
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn an_error_names_the_option_and_what_it_may_be() {
        let good = InterfaceArgs::of(Design::GroupedEpoch).config(1);
        assert!(traffic().check(&good, "--cores").is_ok());
        refused(traffic(), Config { queues: 1000, ..good }, "--cores is 1000; choose 1 to 256");
        refused(
            traffic(),
            Config { ring: 96, ..good },
            "--ring is 96; choose a power of two from 64 to 32768",
        );
        refused(traffic(), Config { buffers: 4, ..good }, "--buffers is 4; choose 16 to 262144");
        refused(TrafficArgs { size: 8, ..traffic() }, good, "--size is 8; choose 16 to 9600");
        refused(TrafficArgs { inflight: 0, ..traffic() }, good, "--inflight is 0; choose 1 to 2048");
        refused(
            TrafficArgs { rate: Some(0.0), ..traffic() },
            good,
            "--rate is 0; choose a number above zero",
        );
        refused(
            TrafficArgs { seconds: 0.0, ..traffic() },
            good,
            "--seconds is 0; choose a number above 0, up to 86400",
        );
        assert!(rounds(0).is_err() && rounds(1).is_ok() && rounds(MOST_ROUNDS + 1).is_err());
    }

    #[test]
    fn every_design_has_a_configuration_that_can_be() {
        for design in Design::ALL {
            let config = InterfaceArgs::of(design).config(2);
            assert_eq!((config.check(), config.design), (Ok(()), design));
        }
    }
}
