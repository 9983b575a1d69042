//! Points: single simulations and their results.

use std::collections::BTreeMap;

use ccnic::{Config, Demote, Design};
use ccnic_load::Load;
use serde_json::Value;

use super::plan::{Settings, Switch};
use crate::observe::summary::Summary;
use crate::platform::Platform;
use crate::run::applications::{self, Application, Span};
use crate::run::cni::across::{self, Over};
use crate::run::cni::work::CniWork;
use crate::run::loopback::{Sweep, simulate_sweep};
use crate::run::micro::{Held, Stores, Words, access, pingpong, stream};
use crate::run::mmio::{Target, mmio_read, store_burst, write_throughput};
use crate::run::pio::work::PioWork;
use crate::systems::plan::{Plan, RunError};

/// A simulation.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// The platform's name, and the values of it that are changed.
    pub platform: String,
    /// See `platform`.
    pub set: BTreeMap<String, f64>,
    /// What runs on it.
    pub work: Work,
}

/// What runs.
#[derive(Debug, Clone, PartialEq)]
pub enum Work {
    /// Loads that find their line in a location.
    Access(Held),
    /// Ping-pong round trips.
    Pingpong(Words),
    /// Streams on all cores.
    Stream(Stores),
    /// A read of so many bytes of a PCIe device.
    MmioRead(u32),
    /// Writes with a barrier after so many bytes each.
    MmioWrite(Target, u32),
    /// The last of so many small stores to a PCIe device.
    MmioBurst(u32),
    /// Packets.
    Loopback(Settings, Offered),
    /// An application over a PCIe NIC.
    Application(Settings, Application),
    /// Something on the machine of the CNI paper.
    Cni(CniWork),
    /// Messages to a NIC and back over CNI's queues or CC-NIC's rings, on either kind of machine.
    Across(Over),
    /// Something on the machine of the PIO paper.
    Pio(PioWork),
}

/// How many packets are sent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Offered {
    /// As many as the system can carry.
    All,
    /// One at a time, by one core.
    One,
    /// A share of the highest rate.
    Share(f64),
    /// So many million per second, by all cores.
    Rate(f64),
}

/// The result of a point: values by their keys in `--json`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Measured {
    /// The values.
    pub values: BTreeMap<String, f64>,
    /// Those of the same point on machines whose paths are a little shorter and a little longer; none where many cores make a mean.
    pub neighbours: Vec<BTreeMap<String, f64>>,
}

/// Defaults of a plan.
const CORES: u16 = 1;
const SIZE: u16 = 64;
/// As DPDK's examples, for every interface: figure 17 has the bursts of 8 of CC-NIC section 5.6, and the figure `bursts` both.
const BURST: usize = 32;
/// CC-NIC section 5.5.
const RX_BURST: usize = 32;
const INFLIGHT: usize = 256;
/// Microseconds measured: with more cores fewer are enough.
const MICROS: (f64, f64) = (50.0, 150.0);
const CORE_MICROS: f64 = 1600.0;
/// Microseconds of warm-up: caches, pools and rings reach their steady state. After 100, rates over CXL are 10 % too high, as buffers
/// that no packet has been in are still taken; those of 1.5 KB with the E810's interface, which are large, ask for 1000.
const WARMUP: f64 = 400.0;
/// Microseconds measured of applications.
const APPLICATION_MICROS: f64 = 200.0;
/// With at most so many cores a run can fall into step with itself: how it goes on depends on a nanosecond of a path.
const FEW_CORES: u16 = 2;
/// By how much paths are shorter and longer in the runs that show that.
const JITTER: f64 = 0.01;
/// A region's large buffers: enough for a fill ring, the packets in flight and two magazines.
const BUFFERS: u32 = 2048;

/// The share of the time in plans that is simulated.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Effort {
    /// Of the time that is measured.
    pub measured: f64,
    /// Of the warm-up.
    pub warmup: f64,
}

impl Effort {
    /// All of it.
    pub const FULL: Effort = Effort { measured: 1.0, warmup: 1.0 };
    /// A tenth, after an eighth of the warm-up.
    pub const QUICK: Effort = Effort { measured: 0.1, warmup: 0.125 };
}

impl Point {
    /// A point on the platform that the settings name.
    pub fn new(settings: &Settings, work: Work) -> Point {
        Point { platform: settings.platform.clone().unwrap_or_default(), set: settings.set.clone(), work }
    }

    /// A key that no other point has.
    pub fn key(&self) -> String {
        format!("{self:?}")
    }

    /// An estimate of how long it takes: the longest are begun first.
    pub fn cost(&self) -> f64 {
        match &self.work {
            Work::Access(_) | Work::Pingpong(_) => 1.0,
            Work::MmioRead(_) | Work::MmioWrite(..) | Work::MmioBurst(_) => 1.0,
            Work::Across(_) => 10.0,
            Work::Stream(_) => 1e5,
            Work::Application(s, _) => f64::from(s.cores.unwrap_or(CORES)) * 1e3 + 1e4,
            Work::Cni(work) => work.cost(),
            Work::Pio(work) => work.bytes as f64 / 100.0,
            Work::Loopback(s, offered) => {
                let cores = if *offered == Offered::One { 1 } else { s.cores.unwrap_or(CORES) };
                let packet = 1.0 + f64::from(s.size.unwrap_or(SIZE)) / 500.0;
                f64::from(cores).powf(1.5) * packet * 50.0
            }
        }
    }

    /// Simulates it.
    ///
    /// # Errors
    /// Why it cannot be simulated.
    pub fn run(&self, effort: Effort) -> Result<Measured, String> {
        if let Work::Cni(work) = &self.work {
            return Ok(Measured { values: work.run(&self.platform, &self.set)?, ..Measured::default() });
        }
        if let Work::Across(over) = self.work {
            let values = across::run(over, &self.platform, &self.set)?.values();
            return Ok(Measured { values, ..Measured::default() });
        }
        if let Work::Pio(work) = &self.work {
            return Ok(Measured { values: work.run(&self.platform, &self.set)?, ..Measured::default() });
        }
        let measured = self.run_sweep(&[], effort)?;
        measured.into_iter().next().ok_or_else(|| "nothing was measured".into())
    }

    /// Simulates it, and these shares of its rate on the same machine: the results in that order.
    ///
    /// # Errors
    /// Why it cannot be simulated.
    pub fn run_sweep(&self, shares: &[f64], effort: Effort) -> Result<Vec<Measured>, String> {
        let platform = self.machine().map_err(|e| e.to_string())?;
        let sweep = |of| Sweep { shares: shares.to_vec(), of };
        let values = self.values(&platform, sweep(None), effort)?;
        // The neighbours are offered the same.
        let of = values.first().and_then(|peak| peak.get("mpps")).map(|mpps| mpps * 1e6);
        let is_alone = matches!(&self.work, Work::Loopback(s, offered)
            if *offered == Offered::One || s.cores.unwrap_or(CORES) <= FEW_CORES);
        let neighbours = if is_alone { [1.0 - JITTER, 1.0 + JITTER].as_slice() } else { &[] };
        let neighbour = |times: &f64| {
            let (key, value) = match &platform.link {
                Some(link) => ("link.one_way", link.one_way.get()),
                None => ("path.mesh", platform.path.mesh.get()),
            };
            let platform = platform.overridden(key, value * times).map_err(|e| e.to_string())?;
            self.values(&platform, sweep(of), effort)
        };
        let neighbours = neighbours.iter().map(neighbour).collect::<Result<Vec<_>, _>>()?;
        let measured = |(i, values)| {
            let neighbours = neighbours.iter().filter_map(|neighbour| neighbour.get(i)).cloned().collect();
            Measured { values, neighbours }
        };
        Ok(values.into_iter().enumerate().map(measured).collect())
    }

    /// The values of it and of a sweep: one simulation.
    fn values(
        &self,
        platform: &Platform,
        sweep: Sweep,
        effort: Effort,
    ) -> Result<Vec<BTreeMap<String, f64>>, String> {
        let Work::Loopback(settings, offered) = &self.work else {
            return Ok(vec![self.value(platform, effort)?]);
        };
        let plan = plan(settings, *offered, effort)?;
        let summaries = simulate_sweep(platform, &plan, sweep).map_err(|e| e.to_string())?;
        let values = |summary: &Summary| {
            let mut values = BTreeMap::new();
            flatten(&serde_json::to_value(summary).map_err(|e| e.to_string())?, "", &mut values);
            machine_values(platform, &mut values);
            Ok(values)
        };
        summaries.iter().map(values).collect()
    }

    /// The values of anything but packets.
    fn value(&self, platform: &Platform, effort: Effort) -> Result<BTreeMap<String, f64>, String> {
        let mut values = BTreeMap::new();
        let mut put = |key: &str, value: f64| values.insert(key.to_owned(), value);
        match &self.work {
            Work::Access(held) => {
                let found = access(platform, *held).map_err(|e| e.to_string())?;
                let found = found.ok_or_else(|| format!("{} has one socket", self.platform))?;
                put("median_ns", found.median_ns);
                put("local_memory_reads", found.local_memory_reads);
            }
            Work::Pingpong(words) => {
                let found = pingpong(platform, *words).map_err(|e| e.to_string())?;
                put("median_ns", found.median_ns);
                put("remote_requests", found.remote_requests);
            }
            Work::Stream(stores) => {
                let pairs = platform.topology.host_cores.get().min(platform.topology.nic_cores.get());
                let found = stream(platform, *stores, pairs as u16).map_err(|e| e.to_string())?;
                put("gbps", found.gbit_per_s);
            }
            Work::MmioRead(bytes) => {
                put("median_ns", device(mmio_read(platform, *bytes))?);
            }
            Work::MmioWrite(target, barrier) => {
                put("gbytes_per_s", device(write_throughput(platform, *target, *barrier))?);
            }
            Work::MmioBurst(stores) => {
                let all = device(store_burst(platform, *stores))?;
                let others = device(store_burst(platform, stores.saturating_sub(1)))?;
                put("all_ns", all);
                put("last_ns", all - others);
            }
            Work::Application(settings, app) => {
                let design = settings.design.unwrap_or(Design::GroupedClear);
                let off = |switch| settings.switch.iter().flatten().any(|s| *s == switch);
                let config = applications::interface(design, !off(Switch::NoRecycle));
                let span = Span {
                    warmup: settings.warmup.unwrap_or(WARMUP) * effort.warmup,
                    measured: settings.micros.unwrap_or(APPLICATION_MICROS) * effort.measured,
                };
                let threads = settings.cores.unwrap_or(CORES);
                let found = applications::run(platform, *app, threads, config, span);
                values.extend(found.map_err(|e| e.to_string())?);
            }
            // Above; the last three are on other machines.
            Work::Loopback(..) | Work::Cni(_) | Work::Across(_) | Work::Pio(_) => {}
        }
        machine_values(platform, &mut values);
        Ok(values)
    }

    fn machine(&self) -> Result<Platform, crate::platform::PlatformError> {
        let platform = Platform::named(&self.platform)?;
        self.set.iter().try_fold(platform, |platform, (key, value)| platform.overridden(key, *value))
    }
}

fn device(found: Result<Option<f64>, RunError>) -> Result<f64, String> {
    found.map_err(|e| e.to_string())?.ok_or_else(|| "the platform has no PCIe device".into())
}

/// Values of the machine that need no simulation.
fn machine_values(platform: &Platform, values: &mut BTreeMap<String, f64>) {
    if let (Some(link), Some(remote)) = (&platform.link, platform.remote_memory_ns()) {
        values.insert("platform.remote_memory_ns".into(), remote);
        let line = 512.0 / f64::from(link.data_flits.get());
        values.insert("platform.link_gbps".into(), link.rate.get() * line);
    }
}

/// The numbers of a summary under their dotted keys.
fn flatten(value: &Value, at: &str, values: &mut BTreeMap<String, f64>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                let key = if at.is_empty() { key.clone() } else { format!("{at}.{key}") };
                flatten(value, &key, values);
            }
        }
        Value::Number(number) => {
            values.insert(at.to_owned(), number.as_f64().unwrap_or(f64::NAN));
        }
        _ => {}
    }
}

fn plan(s: &Settings, offered: Offered, effort: Effort) -> Result<Plan, String> {
    let one = offered == Offered::One;
    let cores = if one { 1 } else { s.cores.unwrap_or(CORES) };
    let design = s.design.unwrap_or(Design::GroupedClear);
    let off = |switch| s.switch.iter().flatten().any(|s| *s == switch);
    let e810 = design == Design::Doorbell;
    let config = Config {
        queues: cores,
        buffers: s.buffers.unwrap_or(BUFFERS),
        design,
        recycle: !off(Switch::NoRecycle),
        small: !(off(Switch::NoSmall) || e810),
        sequential: off(Switch::Sequential),
        shared_pool: !(off(Switch::HostManaged) || e810),
        inline: !off(Switch::NoInline),
        mempool: off(Switch::Mempool),
        demote: s.demote.unwrap_or(Demote::Off),
        ..Config::default()
    };
    config.check().map_err(|e| e.to_string())?;
    let micros = s.micros.unwrap_or((CORE_MICROS / f64::from(cores)).clamp(MICROS.0, MICROS.1));
    let warmup = s.warmup.unwrap_or(WARMUP);
    let rate = match offered {
        Offered::Rate(mpps) => Some(mpps * 1e6 / f64::from(cores)),
        Offered::Share(_) => return Err("its highest rate is not known".into()),
        _ => None,
    };
    let burst = s.burst.unwrap_or(BURST);
    let load = Load {
        size: s.size.unwrap_or(SIZE),
        burst: if one { 1 } else { burst },
        rx_burst: s.rx_burst.unwrap_or(RX_BURST),
        inflight: if one { 1 } else { s.inflight.unwrap_or(INFLIGHT) },
        rate,
        seconds: micros * effort.measured / 1e6,
        warmup: warmup * effort.warmup / 1e6,
        packets: None,
        whole_bursts: s.whole_bursts.unwrap_or(false),
        phase: 0.0,
    };
    Ok(Plan { config, load })
}
