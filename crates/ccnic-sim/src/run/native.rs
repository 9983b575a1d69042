//! Loopbacks on a simulated machine, and lines without a protocol, beside what `ccnic bench` measured on the machine itself (`[native]` of
//! a platform file). Nothing is fitted to them: they check a platform, and the instructions that were counted for the software.

use ccnic::{Config, Design};
use ccnic_load::Load;
use ccnic_load::exchange::Plan as Lines;

use crate::observe::summary::{Summary, summarise};
use crate::platform::{Given, Mlps, Platform, Unit};
use crate::run::calibrate::Probe;
use crate::run::loopback::{Plan, run_shared};
use crate::run::micro::exchange;
use crate::run::parallel;
use crate::systems::plan::RunError;

/// The largest error of a simulated loopback that is called within, as a share of the measured one. Chosen before any was compared.
pub const TOLERANCE: f64 = 0.25;

/// As `ccnic bench loopback` has them without options.
const BURST: usize = 32;
const INFLIGHT: usize = 512;
const BUFFERS: u32 = 4096;
/// Simulated seconds: pools and rings reach their steady state, and a lone packet goes round some hundred times.
const WARMUP: f64 = 400e-6;
const MEASURED: f64 = 100e-6;

/// A loopback by the default design, 64 bytes, one queue pair, in all but what is given.
#[derive(Clone, Copy)]
struct Loopback {
    design: Design,
    pairs: u16,
    size: u16,
    inflight: usize,
}

const MANY: Loopback = Loopback { design: Design::GroupedEpoch, pairs: 1, size: 64, inflight: INFLIGHT };
const LONE: Loopback = Loopback { inflight: 1, ..MANY };

/// Simulates every loopback that the platform has a measurement of.
///
/// # Errors
/// When one cannot be run.
pub fn native(platform: &Platform) -> Result<Vec<Probe>, RunError> {
    let Some(native) = &platform.native else { return Ok(Vec::new()) };
    let (paper, e810) = (Design::GroupedClear, Design::Doorbell);
    let rates = [
        ("rate_64", &native.rate_64, MANY),
        ("rate_64_pairs_2", &native.rate_64_pairs_2, Loopback { pairs: 2, ..MANY }),
        ("rate_64_pairs_4", &native.rate_64_pairs_4, Loopback { pairs: 4, ..MANY }),
        ("rate_64_pairs_7", &native.rate_64_pairs_7, Loopback { pairs: 7, ..MANY }),
        ("rate_1500", &native.rate_1500, Loopback { size: 1500, ..MANY }),
        ("rate_64_paper", &native.rate_64_paper, Loopback { design: paper, ..MANY }),
        ("rate_64_e810", &native.rate_64_e810, Loopback { design: e810, ..MANY }),
    ];
    let lone = [
        ("lone_64", &native.lone_64, LONE),
        ("lone_1500", &native.lone_1500, Loopback { size: 1500, ..LONE }),
        ("lone_64_paper", &native.lone_64_paper, Loopback { design: paper, ..LONE }),
        ("lone_64_e810", &native.lone_64_e810, Loopback { design: e810, ..LONE }),
    ];
    let rates = probes(platform, &rates, |summary| summary.totals.mpps)?;
    let lone = probes(platform, &lone, |summary| summary.totals.rtt_ns.p50 as f64)?;
    let lines = [("lines_single", &native.lines_single, true), ("lines_run", &native.lines_run, false)];
    let lines = lines.iter().map(|lines| lines_probe(platform, lines)).collect::<Result<Vec<_>, _>>()?;
    Ok([rates, lone, lines.into_iter().flatten().collect()].concat())
}

/// The highest rate of the plans that `ccnic bench limit` tries.
fn lines_probe(
    platform: &Platform,
    (name, wanted, shuffled): &(&'static str, &Option<Mlps>, bool),
) -> Result<Option<Probe>, RunError> {
    let Some(wanted) = wanted else { return Ok(None) };
    let rates = parallel::map(&Lines::tried(*shuffled), |plan| exchange(platform, *plan));
    let rates = rates.into_iter().collect::<Result<Vec<f64>, RunError>>()?;
    let best = rates.into_iter().fold(0.0, f64::max);
    Ok(Some(Probe::new(platform, name, wanted, best, TOLERANCE)))
}

type Measured<'a, U> = (&'static str, &'a Option<Given<U>>, Loopback);

fn probes<U: Unit<Value = f64> + Sync>(
    platform: &Platform,
    measured: &[Measured<'_, U>],
    value: impl Fn(&Summary) -> f64 + Sync,
) -> Result<Vec<Probe>, RunError> {
    let probe = |(name, wanted, loopback): &Measured<'_, U>| {
        let Some(wanted) = wanted else { return Ok(None) };
        let simulated = value(&loopback.simulate(platform)?);
        Ok(Some(Probe::new(platform, name, wanted, simulated, TOLERANCE)))
    };
    parallel::map(measured, probe).into_iter().filter_map(Result::transpose).collect()
}

impl Loopback {
    /// Its queue pairs share a region, as those of one program do.
    fn simulate(self, platform: &Platform) -> Result<Summary, RunError> {
        let Loopback { design, pairs, size, inflight } = self;
        let is_e810 = design == Design::Doorbell;
        let config = Config {
            queues: pairs,
            buffers: BUFFERS,
            design,
            small: !is_e810,
            shared_pool: !is_e810,
            ..Config::default()
        };
        let load = Load {
            size,
            burst: BURST.min(inflight),
            rx_burst: BURST,
            inflight,
            rate: None,
            whole_bursts: false,
            phase: 0.0,
            seconds: MEASURED,
            warmup: WARMUP,
            packets: None,
        };
        let plan = Plan { config, load };
        summarise(platform, &plan, &run_shared(platform, &plan)?)
    }
}
