//! Packets from simulated programs through the simulated NIC and back (CC-NIC section 5.1).

use ccnic_load::Load;

use crate::kernel::time::{ns, ps};
use crate::machine::sim::End;
use crate::observe::counters::Counters;
use crate::observe::summary::{Summary, summarise};
use crate::platform::Platform;
use crate::systems::build;
use crate::systems::host::{Built, Snapshot, Step};

pub use crate::systems::plan::{Options, Plan, Run, RunError, Sweep};

/// Simulates a loopback on the system that the platform describes. Each queue pair has a region of its own.
///
/// # Errors
/// When the platform has not so many cores, the configuration is invalid, or nothing comes back.
pub fn run(platform: &Platform, plan: &Plan) -> Result<Run, RunError> {
    run_with(platform, plan, Options::default())
}

/// As [`run`], but all queue pairs share one region and its pool, as the queues of one program do.
///
/// # Errors
/// See [`run`].
pub fn run_shared(platform: &Platform, plan: &Plan) -> Result<Run, RunError> {
    run_with(platform, plan, Options { shared: true, ..Options::default() })
}

/// As [`run`], with options.
///
/// # Errors
/// See [`run`]; and when a trace cannot be written.
pub fn run_with(platform: &Platform, plan: &Plan, options: Options) -> Result<Run, RunError> {
    let events = options.events;
    let runs = finish(build(platform, plan, options)?, plan, events)?;
    runs.into_iter().next().map(|(_, run)| run).ok_or(RunError::Stuck(0.0))
}

/// Simulates a loopback and then shares of a rate on the same machine, which stays warm, and sums each of them up: the loopback first.
///
/// # Errors
/// See [`run`].
pub fn simulate_sweep(platform: &Platform, plan: &Plan, sweep: Sweep) -> Result<Vec<Summary>, RunError> {
    let system = build(platform, plan, Options { sweep, ..Options::default() })?;
    let summary = |(rate, run): (Option<f64>, Run)| {
        let load = Load { rate: rate.or(plan.load.rate), ..plan.load };
        summarise(platform, &Plan { load, ..*plan }, &run)
    };
    finish(system, plan, None)?.into_iter().map(summary).collect()
}

/// Simulates a loopback, and sums it up.
///
/// ```
/// use ccnic::Config;
/// use ccnic_load::Load;
/// use ccnic_sim::loopback::{Plan, simulate};
/// use ccnic_sim::platform::Platform;
///
/// let load = Load { size: 64, burst: 8, rx_burst: 32, inflight: 64, rate: None, seconds: 20e-6, warmup: 5e-6,
///     packets: None, whole_bursts: false, phase: 0.0 };
/// let plan = Plan { config: Config::default(), load };
/// let summary = simulate(&Platform::named("icx")?, &plan)?;
/// println!("{:.1} million packets per second, bounded by {}", summary.totals.mpps, summary.bound.by.name());
/// assert_eq!(summary.totals.lost, 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// See [`run`].
pub fn simulate(platform: &Platform, plan: &Plan) -> Result<Summary, RunError> {
    summarise(platform, plan, &run(platform, plan)?)
}

/// Runs the programs to their end, and collects what they leave behind: of each step, the first one at least, with the packets per second
/// that a program offered in it if they are not the plan's.
fn finish(system: Built, plan: &Plan, events: Option<u64>) -> Result<Vec<(Option<f64>, Run)>, RunError> {
    let Built { mut sim, results, nic_cores } = system;
    // A program waits for its packets for a second at most; with the load's own time that is the end.
    let most = ps((plan.load.seconds + plan.load.warmup + 2.0) * 1e9);
    let end = sim.run_events(most, events.unwrap_or(u64::MAX));
    sim.machine_mut().finish_trace().map_err(RunError::Trace)?;
    let now = ns(sim.machine().now());
    if end == End::Events {
        return Err(RunError::Cut { events: events.unwrap_or(u64::MAX), at: now });
    }
    let queues = usize::from(plan.config.queues);
    let mut results = results.borrow_mut();
    if end == End::Time || results.outcomes.len() < queues {
        return Err(RunError::Stuck(now));
    }
    let outcomes = results.outcomes.drain(..).collect::<Result<Vec<_>, _>>()?;
    let step = |(i, step): (usize, &Step)| {
        let outcomes = outcomes.iter().filter_map(|steps| steps.get(i)).cloned().collect();
        let (Some(started), Some(ended)) = (&step.started, &step.ended) else {
            return Err(RunError::Stuck(now));
        };
        let run = collect(outcomes, started, ended, queues, usize::from(nic_cores));
        Ok((results.offered(i).map(|rate| rate / queues as f64), Run { halves: step.halves, ..run }))
    };
    results.steps.iter().enumerate().map(step).collect()
}

fn collect(
    outcomes: Vec<ccnic_load::Outcome>,
    started: &Snapshot,
    ended: &Snapshot,
    queues: usize,
    nic_cores: usize,
) -> Run {
    let cores: Vec<Counters> = ended.cores.iter().zip(&started.cores).map(|(e, s)| e.since(s)).collect();
    let (host, rest) = cores.split_at(queues);
    Run {
        outcomes,
        host: host.to_vec(),
        nic: rest[..nic_cores].to_vec(),
        traffic: ended.traffic.iter().zip(&started.traffic).map(|(e, s)| e.since(s)).collect(),
        measured: ended.at - started.at,
        halves: [0; 2],
        pcie: ended.pcie.zip(started.pcie).map(|(e, s)| (e.0.since(&s.0), e.1.since(&s.1))),
    }
}
