//! `ccnic bench loopback`: packets from programs through the NIC and back (CC-NIC section 5.1).

use std::path::PathBuf;

use ccnic::host::QueuePair;
use ccnic::ring::Ring;
use ccnic::{Burst, Config, ConfigError, Demote, Design};
use ccnic_client::{Nic, PairVisitor};
use ccnic_load::{Load, LoadError, Outcome, Rtt, Totals, payload};
use ccnic_shm::NativeMemory;
use clap::{Args, ValueEnum};
use serde::Serialize;

use crate::clock::MachineClock;
use crate::cpus::{Split, pin};
use crate::micro::limit::Limit;
use crate::nic_process::NicProcess;

/// The designs by their names on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DesignName {
    /// Grouped descriptors, epoch signals: ccnic's default
    Ccnic,
    /// Grouped descriptors, cleared signals: the CC-NIC paper's
    Paper,
    /// A signal per packed descriptor
    Packed,
    /// A descriptor per line
    Padded,
    /// Doorbells, packed descriptors, host-managed buffers: an Intel E810 over coherent memory
    E810,
}

impl DesignName {
    pub fn design(self) -> Design {
        match self {
            DesignName::Ccnic => Design::GroupedEpoch,
            DesignName::Paper => Design::GroupedClear,
            DesignName::Packed => Design::Packed,
            DesignName::Padded => Design::Padded,
            DesignName::E810 => Design::Doorbell,
        }
    }
}

/// When writers demote lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DemoteName {
    /// When the ring is nearly empty
    Auto,
    /// Always
    On,
    /// Never
    Off,
}

/// The interface that is measured: its design, and what of it is switched off.
#[derive(Debug, Clone, Args)]
pub struct InterfaceArgs {
    /// The ring design
    #[arg(long, value_enum, default_value_t = DesignName::Ccnic)]
    pub design: DesignName,
    /// Descriptors per ring, a power of two from 64 to 32768
    #[arg(long, default_value_t = 1024)]
    pub ring: u32,
    /// Large (4 KiB) buffers in the pool [default: 4096; simulated, 2048]
    #[arg(long)]
    pub buffers: Option<u32>,
    /// Do not keep freed buffers on private stacks: every buffer goes through the shared free list
    #[arg(long)]
    pub no_recycle: bool,
    /// Do not subdivide large buffers for small packets
    #[arg(long)]
    pub no_small: bool,
    /// Allocate buffers in address order
    #[arg(long)]
    pub sequential: bool,
    /// The host posts and frees every buffer, as PCIe NICs make it do
    #[arg(long)]
    pub host_managed: bool,
    /// When writers demote the lines that they have written
    #[arg(long, value_enum, default_value_t = DemoteName::Auto)]
    pub demote: DemoteName,
}

impl InterfaceArgs {
    /// The default interface of a design.
    pub fn of(design: DesignName) -> InterfaceArgs {
        InterfaceArgs {
            design,
            ring: 1024,
            buffers: None,
            no_recycle: false,
            no_small: false,
            sequential: false,
            host_managed: false,
            demote: DemoteName::Auto,
        }
    }

    /// The region's configuration. The E810 has neither small buffers nor a shared pool.
    pub fn config(&self, queues: u16) -> Config {
        let e810 = self.design == DesignName::E810;
        Config {
            queues,
            ring: self.ring,
            buffers: self.buffers.unwrap_or(4096),
            design: self.design.design(),
            recycle: !self.no_recycle,
            small: !(self.no_small || e810),
            sequential: self.sequential,
            shared_pool: !(self.host_managed || e810),
            demote: match self.demote {
                DemoteName::Auto => Demote::Auto,
                DemoteName::On => Demote::On,
                DemoteName::Off => Demote::Off,
            },
            ..Config::default()
        }
    }
}

/// The traffic.
#[derive(Debug, Clone, Args)]
pub struct TrafficArgs {
    /// Bytes of each packet, 16 to 9600
    #[arg(long, default_value_t = 64)]
    pub size: u16,
    /// Packets per transmit burst, 1 to 64
    #[arg(long, default_value_t = 32)]
    pub burst: usize,
    /// Buffers per receive burst, 1 to 64 [default: 32]
    #[arg(long, default_value_t = 32)]
    pub rx_burst: usize,
    /// Packets under way at once, per queue
    #[arg(long, default_value_t = 512)]
    pub inflight: usize,
    /// Queue pairs, each with a program thread of its own
    #[arg(long, default_value_t = 1)]
    pub queues: u16,
    /// Seconds to measure
    #[arg(long, default_value_t = 2.0)]
    pub seconds: f64,
    /// Packets per second offered, in millions, over all queues [default: as many as go through]
    #[arg(long, value_name = "MPPS")]
    pub rate: Option<f64>,
    /// Send whole bursts when they are due, instead of each packet [default: each packet]
    #[arg(long)]
    pub whole_bursts: bool,
}

impl TrafficArgs {
    /// Checks every option against what the interface can carry.
    pub fn check(&self, config: &Config) -> anyhow::Result<()> {
        config.check()?;
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
        anyhow::ensure!(
            self.seconds > 0.0 && self.seconds <= 86400.0,
            "--seconds is {}; choose up to 86400",
            self.seconds
        );
        if let Some(rate) = self.rate {
            anyhow::ensure!(rate > 0.0, "--rate is {rate}; choose a number above zero");
        }
        Ok(())
    }
}

/// What a run showed, as `--json` prints it.
#[derive(Debug, Clone, Serialize)]
pub struct Outcomes {
    /// The ring design.
    pub design: &'static str,
    /// Bytes of each packet.
    pub size: u16,
    /// Packets per transmit burst.
    pub burst: usize,
    /// Packets under way at once, at most, per queue.
    pub inflight: usize,
    /// Queue pairs.
    pub queues: u16,
    /// Million packets per second offered; none for as many as go through.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offered_mpps: Option<f64>,
    /// Packets that came back in the measured time.
    pub packets: u64,
    /// Million packets per second.
    pub mpps: f64,
    /// Gigabits of packet data per second, each way.
    pub gbps: f64,
    /// Packets that never came back.
    pub lost: u64,
    /// Packets that came back damaged, twice or out of order.
    pub corrupt: u64,
    /// Round trips.
    pub rtt_ns: Rtt,
    /// Share of what the machine allows; absent when that was not measured.
    pub limit_share: Option<f64>,
}

/// A NIC and where its programs run: what several measurements share.
#[derive(Debug)]
pub struct Bench {
    nic: NicProcess,
    split: Split,
}

impl Bench {
    /// Starts a NIC for `queues` queue pairs, or takes the one at `socket`.
    pub fn new(socket: Option<PathBuf>, queues: u16, reflect: bool) -> anyhow::Result<Bench> {
        let split = Split::of_machine()?;
        let nic = match socket {
            Some(path) => NicProcess::running(path)?,
            None => {
                let cores: Vec<usize> = split.nic.iter().copied().take(queues.into()).collect();
                NicProcess::start(&cores, reflect)?
            }
        };
        Ok(Bench { nic, split })
    }

    /// True when each side has CPUs of its own.
    pub fn alone(&self, queues: u16) -> bool {
        self.split.alone(queues.into())
    }

    /// Runs one load over a fresh attachment.
    pub fn run(
        &self,
        config: &Config,
        traffic: &TrafficArgs,
        limit: Option<&Limit>,
    ) -> anyhow::Result<Outcomes> {
        traffic.check(config)?;
        let outcomes = self.threads(config, traffic)?;
        summary(config, traffic, &outcomes, limit)
    }

    /// One thread per queue pair.
    fn threads(&self, config: &Config, traffic: &TrafficArgs) -> anyhow::Result<Vec<Outcome>> {
        let mut nic = Nic::options().name("ccnic bench").config(config).open(self.nic.socket())?;
        let pairs = (0..config.queues).map(|q| nic.queue_pair(q)).collect::<Result<Vec<_>, _>>()?;
        let load = Load {
            size: traffic.size,
            burst: traffic.burst,
            rx_burst: traffic.rx_burst,
            inflight: traffic.inflight,
            whole_bursts: traffic.whole_bursts,
            phase: 0.0,
            rate: traffic.rate.map(|mpps| mpps * 1e6 / f64::from(config.queues)),
            seconds: traffic.seconds,
            warmup: (traffic.seconds / 4.0).min(0.3),
            packets: None,
        };
        let alone = self.alone(config.queues);
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..)
                .zip(pairs)
                .map(|(i, mut pair)| {
                    let cpu = self.split.host(i);
                    let load = load.of_thread(i as u16, config.queues);
                    scope.spawn(move || {
                        pin(cpu)?;
                        let clock = MachineClock::new(alone);
                        Ok(pair.dispatch(RunLoad { load, clock })?)
                    })
                })
                .collect();
            threads
                .into_iter()
                .map(|t| t.join().map_err(|_| anyhow::anyhow!("a program thread panicked")).and_then(|r| r))
                .collect()
        })
    }
}

/// A load on a queue pair, compiled for each ring type: no branch in the measured loop.
struct RunLoad {
    load: Load,
    clock: MachineClock,
}

impl PairVisitor for RunLoad {
    type Output = Result<Outcome, LoadError>;

    fn visit<R: Ring>(self, pair: &mut QueuePair<NativeMemory, R>) -> Self::Output {
        ccnic_load::run(pair, self.load, &self.clock, || (), || ())
    }
}

fn summary(
    config: &Config,
    traffic: &TrafficArgs,
    outcomes: &[Outcome],
    limit: Option<&Limit>,
) -> anyhow::Result<Outcomes> {
    let Totals { packets, mpps, gbps, lost, corrupt, rtt_ns } = Totals::of(traffic.size, outcomes)?;
    Ok(Outcomes {
        design: config.design.name(),
        size: traffic.size,
        burst: traffic.burst,
        inflight: traffic.inflight,
        queues: config.queues,
        offered_mpps: traffic.rate,
        packets,
        mpps,
        gbps,
        lost,
        corrupt,
        rtt_ns,
        limit_share: limit.map(|l| l.share(traffic.size, mpps)),
    })
}

/// Offered loads of a sweep, as shares of the peak.
pub const STEPS: [f64; 9] = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9];

/// Open-loop load from one packet in flight to saturation (the method of CC-NIC figures 11 to 13).
pub fn sweep(
    bench: &Bench,
    config: &Config,
    traffic: &TrafficArgs,
    limit: Option<&Limit>,
    mut each: impl FnMut(&Outcomes),
) -> anyhow::Result<Vec<Outcomes>> {
    let single = TrafficArgs { inflight: 1, burst: 1, rate: None, ..traffic.clone() };
    let mut points = vec![bench.run(config, &single, limit)?];
    let peak = bench.run(config, traffic, limit)?;
    points.iter().for_each(&mut each);
    for share in STEPS {
        let rate = Some(peak.mpps * share);
        let point = bench.run(config, &TrafficArgs { rate, ..traffic.clone() }, limit)?;
        each(&point);
        points.push(point);
    }
    each(&peak);
    points.push(peak);
    Ok(points)
}
