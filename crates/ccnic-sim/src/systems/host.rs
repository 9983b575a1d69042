//! The host side of every system: the load generator of the real machine, on simulated cores.

use std::cell::RefCell;
use std::rc::Rc;

use ccnic::host::QueuePair;
use ccnic::ring::Ring;
use ccnic::{Config, Layout};
use ccnic_load::{Clock, Load, LoadError, Outcome};

use crate::devices::pcie::Pcie;
use crate::kernel::time::{Ps, ps};
use crate::machine::Machine;
use crate::machine::agent::Agent;
use crate::machine::sim::Sim;
use crate::observe::counters::{Counters, NicCounts, PcieTraffic, Traffic};
use crate::platform::{Code, Counts, Instructions, Platform};
use crate::systems::plan::RunError;

/// A simulated core's clock.
#[derive(Debug)]
struct SimClock<'a, 'r> {
    agent: Agent<'a>,
    work: Work,
    results: &'r RefCell<Results>,
    /// Half of the time that is measured.
    half: Ps,
}

/// What a program executes.
#[derive(Debug, Clone, Copy)]
pub struct Work {
    counts: Counts,
    /// Between its accesses.
    code: Code,
    /// Directions in which a burst goes.
    directions: f64,
}

impl Work {
    /// The host's and the NIC's, with this configuration on this platform: the only place where instructions are looked up.
    ///
    /// # Errors
    /// When its instructions have not been counted.
    pub fn of(platform: &Platform, config: &Config) -> Result<[Work; 2], RunError> {
        let counted = Instructions::of(config).ok_or(RunError::Instructions(config.design.name()))?;
        let found = counted.on(&platform.software);
        Ok([
            Work { counts: found.host, code: found.host_code(), directions: 1.0 },
            Work { counts: found.nic, code: found.nic_code(), directions: 2.0 },
        ])
    }

    /// The agent's core executes this code from now on.
    pub fn begin(&self, agent: &Agent<'_>) {
        agent.set_code(self.code);
    }

    /// A burst has been dealt with.
    pub fn spend(&self, agent: &Agent<'_>, packets: usize) {
        agent.has_executed(self.counts.of_burst(packets, self.directions));
    }
}

impl Clock for SimClock<'_, '_> {
    fn now(&self) -> u64 {
        self.agent.now()
    }

    fn settle(&self) {
        self.agent.load_fence();
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
            self.results.borrow_mut().count(self.agent.now(), self.half, packets);
        }
    }
}

/// A machine's counters at a moment.
#[derive(Debug)]
pub struct Snapshot {
    pub at: Ps,
    pub cores: Vec<Counters>,
    pub traffic: Vec<Traffic>,
    pub pcie: Option<(NicCounts, PcieTraffic)>,
}

impl Snapshot {
    /// The counters now.
    pub fn of(machine: &Machine) -> Snapshot {
        Snapshot {
            at: machine.now(),
            cores: (0..machine.agents()).map(|c| machine.counters(c)).collect(),
            traffic: (0..machine.sockets()).map(|s| machine.traffic(s)).collect(),
            pcie: machine.find_device::<Pcie>().map(|pcie| (pcie.nic_counts(), pcie.traffic())),
        }
    }
}

/// What the host programs of a run leave behind.
#[derive(Debug, Default)]
pub struct Results {
    pub outcomes: Vec<Result<Outcome, LoadError>>,
    /// When the first program's measured time began, and the first one's ended.
    pub started: Option<Snapshot>,
    pub ended: Option<Snapshot>,
    /// Packets that host programs wrote or checked between the two, in the first half of the time and in the second.
    pub halves: [u64; 2],
}

impl Results {
    fn count(&mut self, now: Ps, half: Ps, packets: usize) {
        if let (Some(started), None) = (&self.started, &self.ended) {
            self.halves[usize::from(now >= started.at + half)] += packets as u64;
        }
    }
}

/// A system that is ready to run.
#[derive(Debug)]
pub struct Built {
    /// The machine and its programs.
    pub sim: Sim,
    /// What the host programs leave behind.
    pub results: Rc<RefCell<Results>>,
    /// Cores of the NIC side: they follow the host's.
    pub nic_cores: u16,
}

/// Runs the load generator on a core.
pub fn program<R: Ring>(
    agent: Agent<'_>,
    layout: &Layout,
    queue: u16,
    load: Load,
    work: Work,
    results: &RefCell<Results>,
) {
    let Ok(mut pair) = QueuePair::<_, R>::new(agent, layout, queue) else { return };
    work.begin(&agent);
    let clock = SimClock { agent, work, results, half: ps(load.seconds * 1e9 / 2.0) };
    let started = || {
        let started = &mut results.borrow_mut().started;
        if started.is_none() {
            *started = Some(agent.with_machine(Snapshot::of));
        }
    };
    let ended = || {
        let ended = &mut results.borrow_mut().ended;
        if ended.is_none() {
            *ended = Some(agent.with_machine(Snapshot::of));
        }
    };
    let outcome = ccnic_load::run(&mut pair, load, &clock, started, ended);
    results.borrow_mut().outcomes.push(outcome);
}
