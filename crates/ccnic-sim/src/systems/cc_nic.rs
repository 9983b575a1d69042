//! Packets from simulated programs through the simulated NIC and back (CC-NIC section 5.1): the interface, the NIC's wire and the
//! load generator are those of the real machine.

use std::cell::RefCell;
use std::rc::Rc;

use ccnic::host::QueuePair;
use ccnic::nic::{NicQueue, Pipeline, loopback};
use ccnic::ring::{Doorbell, GroupedClear, GroupedEpoch, Packed, Padded, Ring};
use ccnic::{Config, ConfigError, Design, Layout, SharedMemory};
use ccnic_load::{Clock, Load, LoadError, Outcome};

use crate::devices::pcie::{self, NicCounts};
use crate::kernel::time::{Ps, ns, ps};
use crate::machine::World;
use crate::machine::agent::{Agent, End, Sim};
use crate::observe::counters::{Counters, Traffic};
use crate::observe::trace::Trace;
use crate::platform::Platform;
use crate::systems::regions::Regions;

/// What is simulated: a queue pair for each pair of a host core and a NIC core.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// The regions; the number of queues is the number of cores on each side.
    pub config: Config,
    /// What each program sends. Seconds are simulated ones.
    pub load: Load,
}

/// What a run showed.
#[derive(Debug, Clone)]
pub struct Run {
    /// What each program saw.
    pub outcomes: Vec<Outcome>,
    /// Counters over the measured time, of each host core and of each NIC core; a PCIe NIC has none.
    pub host: Vec<Counters>,
    /// See `host`.
    pub nic: Vec<Counters>,
    /// Traffic over the measured time, by the socket that it leaves or whose memory it meets.
    pub traffic: Vec<Traffic>,
    /// Simulated time measured.
    pub measured: Ps,
    /// What a PCIe NIC did over the measured time, and what went over its link.
    pub pcie: Option<(NicCounts, pcie::Traffic)>,
}

/// Why a run could not be made.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// More cores than the platform has, or none.
    #[error("{asked} cores a side, the platform has {host} and {nic}; choose 1 to {}", host.min(nic))]
    Cores {
        /// Cores asked for.
        asked: u16,
        /// Host cores of the platform.
        host: u32,
        /// NIC cores of the platform.
        nic: u32,
    },
    /// More memory than offsets reach.
    #[error("{regions} regions of {size} bytes do not fit in 4 GiB; lower buffers or ring")]
    Memory {
        /// Regions asked for.
        regions: u16,
        /// Bytes of each.
        size: u32,
    },
    /// A region that cannot be.
    #[error("{0}")]
    Config(#[from] ConfigError),
    /// A program's load failed.
    #[error("{0}")]
    Load(#[from] LoadError),
    /// There is no memory for a stack.
    #[error("no memory for a simulated program's stack: {0}")]
    Stack(#[from] std::io::Error),
    /// A trace could not be written.
    #[error("could not write the trace: {0}; is there room on the disk?")]
    Trace(std::io::Error),
    /// A NIC that only knows its own rings.
    #[error("the platform's NIC is a PCIe device: choose the design {} and a host-managed pool", Design::Doorbell.name())]
    Device,
    /// The run was to end after so many events.
    #[error("cut after {events} events, {at:.0} ns of simulated time; nothing was summed up")]
    Cut {
        /// Events handled.
        events: u64,
        /// Simulated nanoseconds.
        at: f64,
    },
    /// Everything waits for something that never comes.
    #[error("the simulated programs stand still after {0:.0} ns: a defect of ccnic")]
    Stuck(f64),
}

/// A simulated core's clock.
#[derive(Debug)]
struct SimClock<'a> {
    agent: Agent<'a>,
    /// The program's own work.
    work: Work,
}

/// What a program's instructions take, in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Work {
    /// For each packet made or examined; the NIC's, for each forwarded.
    packet: f64,
    /// For each burst of them: calls, and the branches that end its loops.
    burst: f64,
}

impl Work {
    /// The program's, in each direction.
    pub(crate) fn host(platform: &Platform) -> Work {
        Work { packet: platform.software.packet.get(), burst: platform.software.burst.get() }
    }

    /// The NIC's, in both directions at once.
    fn nic(platform: &Platform) -> Work {
        let (host, share) = (Work::host(platform), 2.0 * platform.software.nic.get());
        Work { packet: share * host.packet, burst: host.burst }
    }

    fn spend(&self, agent: &Agent<'_>, packets: usize) {
        agent.work(self.burst + self.packet * packets as f64);
    }
}

impl Clock for SimClock<'_> {
    fn now(&self) -> u64 {
        self.agent.now()
    }

    fn settle(&self) {
        self.agent.settle();
    }

    fn nanoseconds(&self, ticks: u64) -> u64 {
        ticks.div_ceil(1000)
    }

    fn give_way(&self) -> bool {
        false
    }

    fn sleep_until(&self, at: u64) {
        self.agent.set_deadline(Some(at));
    }

    fn spend(&self, packets: usize) {
        if packets > 0 {
            self.work.spend(&self.agent, packets);
        }
    }
}

/// The machine's counters when a program's measured time began or ended.
type Snapshot = (Ps, Vec<Counters>, Vec<Traffic>, Option<(NicCounts, pcie::Traffic)>);

fn snapshot(world: &World) -> Snapshot {
    let cores = (0..world.cores.len()).map(|c| world.counters(c)).collect();
    let traffic = (0..world.sockets.len()).map(|s| world.traffic(s)).collect();
    (world.now, cores, traffic, world.nic_counts().zip(world.pcie_traffic()))
}

/// Results that the programs of a run leave behind.
#[derive(Debug, Default)]
pub(crate) struct Results {
    pub(crate) outcomes: Vec<Result<Outcome, LoadError>>,
    started: Option<Snapshot>,
    ended: Option<Snapshot>,
}

/// Simulates a loopback between pairs of cores, each with a region of its own; on a platform with a PCIe NIC between host cores
/// and that.
///
/// # Errors
/// When the platform has not so many cores, the configuration cannot be, or nothing comes back.
pub fn run(platform: &Platform, plan: &Plan) -> Result<Run, RunError> {
    run_with(platform, plan, Options::default())
}

/// As [`run`], but all pairs share one region and its pool, as the queues of one program do.
///
/// # Errors
/// See [`run`].
pub fn run_shared(platform: &Platform, plan: &Plan) -> Result<Run, RunError> {
    run_with(platform, plan, Options { shared: true, ..Options::default() })
}

/// How a plan is run.
#[derive(Debug, Default)]
pub struct Options {
    /// All pairs share one region and its pool.
    pub shared: bool,
    /// Traces the run; changes no result.
    pub trace: Option<Trace>,
    /// Ends the run after so many events, with [`RunError::Cut`]; what was traced until then is kept.
    pub events: Option<u64>,
}

/// As [`run`], with options.
///
/// # Errors
/// See [`run`]; and when a trace cannot be written.
pub fn run_with(platform: &Platform, plan: &Plan, options: Options) -> Result<Run, RunError> {
    if platform.device.is_some() {
        return crate::systems::pcie::loopback(platform, plan, options);
    }
    match plan.config.design {
        Design::GroupedEpoch => run_ring::<GroupedEpoch>(platform, plan, options),
        Design::GroupedClear => run_ring::<GroupedClear>(platform, plan, options),
        Design::Packed => run_ring::<Packed>(platform, plan, options),
        Design::Padded => run_ring::<Padded>(platform, plan, options),
        Design::Doorbell => run_ring::<Doorbell>(platform, plan, options),
    }
}

fn run_ring<R: Ring>(platform: &Platform, plan: &Plan, options: Options) -> Result<Run, RunError> {
    let queues = plan.config.queues;
    let (host, nic) = (platform.topology.host_cores.get(), platform.topology.nic_cores.get());
    if queues == 0 || u32::from(queues) > host.min(nic) {
        return Err(RunError::Cores { asked: queues, host, nic });
    }
    let regions = Regions::new(&plan.config, options.shared)?;
    let sides = (0..2).flat_map(|side| std::iter::repeat_n((side as u8, side), usize::from(queues)));
    let mut world = World::new(platform, regions.bytes(), &sides.collect::<Vec<_>>());
    regions.home(&mut world);
    if let Some(trace) = options.trace {
        regions.name_in(trace, &mut world);
    }
    let mut sim = Sim::new(world);
    regions.lay_out(&sim);
    let results = Rc::new(RefCell::new(Results::default()));
    let (work, nic_work) = (Work::host(platform), Work::nic(platform));
    for core in 0..queues {
        let (layout, (base, queue)) = (regions.layout, regions.place(core));
        let (results, load) = (Rc::clone(&results), plan.load.of_thread(core, queues));
        sim.spawn(core as u8, move |agent| {
            host_program::<R>(agent.at(base), &layout, queue, load, work, &results);
        })?;
        sim.spawn((queues + core) as u8, move |agent| {
            nic_program::<R>(agent.at(base), &layout, queue, nic_work);
        })?;
    }
    finish(&mut sim, plan, options.events, &results)
}

/// Runs the programs to their end, and collects what they leave behind.
pub(crate) fn finish(
    sim: &mut Sim,
    plan: &Plan,
    events: Option<u64>,
    results: &RefCell<Results>,
) -> Result<Run, RunError> {
    // A program that waits in vain does so for a second; with the load's own time that is the end.
    let most = ps((plan.load.seconds + plan.load.warmup + 2.0) * 1e9);
    let end = sim.run_events(most, events.unwrap_or(u64::MAX));
    sim.world_mut().finish_trace().map_err(RunError::Trace)?;
    let now = sim.world().now;
    if end == End::Events {
        return Err(RunError::Cut { events: events.unwrap_or(u64::MAX), at: ns(now) });
    }
    let queues = usize::from(plan.config.queues);
    let mut results = results.borrow_mut();
    if end == End::Time || results.outcomes.len() < queues {
        return Err(RunError::Stuck(ns(now)));
    }
    let outcomes = results.outcomes.drain(..).collect::<Result<Vec<_>, _>>()?;
    let (Some(started), Some(ended)) = (results.started.take(), results.ended.take()) else {
        return Err(RunError::Stuck(ns(now)));
    };
    let mut cores: Vec<Counters> = ended.1.iter().zip(&started.1).map(|(e, s)| e.since(s)).collect();
    let mut nic = cores.split_off(queues);
    if ended.3.is_some() {
        nic.clear(); // no cores
    }
    let traffic = ended.2.iter().zip(&started.2).map(|(e, s)| e.since(s)).collect();
    let pcie = ended.3.zip(started.3).map(|(e, s)| (e.0.since(&s.0), e.1.since(&s.1)));
    Ok(Run { outcomes, host: cores, nic, traffic, measured: ended.0 - started.0, pcie })
}

pub(crate) fn host_program<R: Ring>(
    agent: Agent<'_>,
    layout: &Layout,
    queue: u16,
    load: Load,
    work: Work,
    results: &RefCell<Results>,
) {
    let Some(mut pair) = QueuePair::<_, R>::new(agent, layout, queue) else { return };
    let clock = SimClock { agent, work };
    // The first to start and the last to end frame the measured time.
    let started = || {
        let started = &mut results.borrow_mut().started;
        if started.is_none() {
            *started = Some(agent.with_world(snapshot));
        }
    };
    let ended = || {
        let ended = &mut results.borrow_mut().ended;
        if ended.is_none() {
            *ended = Some(agent.with_world(snapshot));
        }
    };
    let outcome = ccnic_load::run(&mut pair, load, &clock, started, ended);
    results.borrow_mut().outcomes.push(outcome);
}

fn nic_program<R: Ring>(agent: Agent<'_>, layout: &Layout, queue: u16, work: Work) {
    let Some(mut nic) = NicQueue::<_, R>::new(agent, layout, queue) else { return };
    let mut pipeline = Pipeline::default();
    loop {
        let n = loopback(&mut nic, &mut pipeline, &agent, false);
        if n == 0 {
            agent.relax();
        } else {
            work.spend(&agent, n);
        }
    }
}
