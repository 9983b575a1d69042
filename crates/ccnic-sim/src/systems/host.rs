//! The host side of every system: the load generator of the real machine, on simulated cores.

use std::cell::RefCell;
use std::rc::Rc;

use ccnic::host::QueuePair;
use ccnic::layout::RingLayout;
use ccnic::ring::Ring;
use ccnic::{Config, Layout};
use ccnic_load::payload::NO_HEADER;
use ccnic_load::{Clock, Frames, Load, LoadError, Next, Outcome, Steps};

use crate::devices::pcie::Pcie;
use crate::kernel::time::{Ps, ns, ps};
use crate::machine::Machine;
use crate::machine::agent::Agent;
use crate::machine::sim::Sim;
use crate::observe::counters::{Counters, NicCounts, PcieTraffic, Traffic};
use crate::platform::{Code, Counts, Instructions, Platform};
use crate::systems::plan::{RunError, Sweep};

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

    /// The agent's core executes this code from now on, over these rings.
    pub fn begin(&self, agent: &Agent<'_>, layout: &Layout, taken: RingLayout, published: RingLayout) {
        let range = |ring: RingLayout| ring.units..ring.units + ring.count * layout.config().design.unit();
        agent.set_code(self.code);
        agent.set_rings(range(taken), range(published));
    }

    /// A burst has been dealt with.
    pub fn spend(&self, agent: &Agent<'_>, packets: usize) {
        agent.has_executed(self.counts.of_burst(packets, self.directions, agent.is_idle()));
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

/// Between two rates programs send as before until all have measured, and for this time: all begin the next rate together.
const MEET: Ps = 2_000_000;
/// The time that a rate has before it is measured, in times that the queues need to let all packets in flight through at the highest rate.
const SETTLE: f64 = 2.0;

/// What the host programs of a run leave behind.
#[derive(Debug)]
pub struct Results {
    /// Of each program, for each step.
    pub outcomes: Vec<Result<Vec<Outcome>, LoadError>>,
    /// The load itself, then the shares of the sweep.
    pub steps: Vec<Step>,
    sweep: Sweep,
    programs: u16,
    /// The step that was begun last.
    current: usize,
}

/// A step of a run.
#[derive(Debug, Default)]
pub struct Step {
    /// When the first program's measured time began, and the first one's ended.
    pub started: Option<Snapshot>,
    pub ended: Option<Snapshot>,
    /// Packets that host programs wrote or checked between the two, in the first half of the time and in the second.
    pub halves: [u64; 2],
    /// Programs that have measured, the sum of their rates, and the time of the last.
    measured: u16,
    rate: f64,
    at: Ps,
}

impl Results {
    /// For so many programs.
    pub fn new(programs: u16, sweep: Sweep) -> Results {
        let steps = (0..=sweep.shares.len()).map(|_| Step::default()).collect();
        Results { outcomes: Vec::new(), steps, sweep, programs, current: 0 }
    }

    /// Packets per second that a step offers, all programs together; none for the load itself.
    pub fn offered(&self, step: usize) -> Option<f64> {
        let share = self.sweep.shares.get(step.checked_sub(1)?)?;
        Some(share * self.sweep.of.unwrap_or(self.steps.first()?.rate))
    }

    fn count(&mut self, now: Ps, half: Ps, packets: usize) {
        let Some(step) = self.steps.get_mut(self.current) else { return };
        if let (Some(started), None) = (&step.started, &step.ended) {
            step.halves[usize::from(now >= started.at + half)] += packets as u64;
        }
    }

    /// What a program does at this time, after a step in which it can have so many packets in flight.
    fn next(&self, step: usize, inflight: usize, now: Ps) -> Next {
        let (Some(offered), Some(done)) = (self.offered(step + 1), self.steps.get(step)) else {
            return Next::End;
        };
        let wait = if done.measured < self.programs { MEET } else { (done.at + MEET).saturating_sub(now) };
        if wait > 0 {
            return Next::Stay(ns(wait) / 1e9);
        }
        let programs = f64::from(self.programs);
        let highest = self.steps.first().map_or(offered, |first| first.rate);
        let passed = inflight as f64 * programs / highest;
        // The load itself may have left its queues full: at a rate near the highest they would empty slowly.
        let pause = (step == 0).then_some(passed);
        Next::Step { pause, rate: offered / programs, settle: SETTLE * passed }
    }
}

/// A program's way through the steps.
struct Walk<'a, 'r> {
    agent: Agent<'a>,
    results: &'r RefCell<Results>,
    inflight: usize,
    step: usize,
}

impl Steps for Walk<'_, '_> {
    fn started(&mut self) {
        let mut results = self.results.borrow_mut();
        results.current = self.step;
        if let Some(step) = results.steps.get_mut(self.step)
            && step.started.is_none()
        {
            step.started = Some(self.agent.with_machine(Snapshot::of));
        }
    }

    fn ended(&mut self, rate: f64) {
        let now = self.agent.now();
        let mut results = self.results.borrow_mut();
        let Some(step) = results.steps.get_mut(self.step) else { return };
        if step.ended.is_none() {
            step.ended = Some(self.agent.with_machine(Snapshot::of));
        }
        (step.measured, step.rate, step.at) = (step.measured + 1, step.rate + rate, now);
    }

    fn next(&mut self) -> Next {
        let next = self.results.borrow().next(self.step, self.inflight, self.agent.now());
        self.step += usize::from(matches!(next, Next::Step { .. }));
        next
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
    let Some(rings) = layout.queue(queue) else { return };
    work.begin(&agent, layout, rings.rx, rings.tx);
    let clock = SimClock { agent, work, results, half: ps(load.seconds * 1e9 / 2.0) };
    let mut walk = Walk { agent, results, inflight: load.inflight, step: 0 };
    let frames = Frames { sent: NO_HEADER, back: NO_HEADER };
    let outcome = ccnic_load::run_steps(&mut pair, load, frames, &clock, &mut walk);
    results.borrow_mut().outcomes.push(outcome);
}
