//! What is left of 1996's queues on today's interconnects: messages of 64 bytes to a NIC and back, over CNI's cachable queues and over
//! CC-NIC's rings, on the machine of 1996 and on today's. The NIC is software on a processor of its own everywhere: two processors on a
//! snooping bus, or two cores on two sockets or at the ends of a CXL link.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use ccnic::host::{self, QueuePair};
use ccnic::memory::LINE;
use ccnic::nic::{NicQueue, Pipeline, loopback};
use ccnic::ring::{Ring, RingVisitor};
use ccnic::{Config, Design, Layout, SharedMemory};
use ccnic_load::{Clock, Load, LoadError, Outcome};

use crate::bus;
use crate::kernel::time::{ns, ps};
use crate::machine::sim::Sim;
use crate::machine::{Machine, agent::Agent};
use crate::platform::{AnyPlatform, BusPlatform, Code, Instructions, Platform};
use crate::run::loopback::run as run_loopback;
use crate::run::micro::{Words, pingpong};
use crate::systems::cni::pair::{QueueHost, QueueNic, Queues};
use crate::systems::plan::Plan;

use super::micro::ns as bus_ns;

/// Bytes of a message in the figure.
const SIZE: usize = 64;
/// Instructions of a message that the program sends or takes, and that the NIC sends back, 64 bytes of payload included: the bench `queue`
/// under callgrind. On the bus a processor executes one in a cycle. Further lines of payload cost what they cost the rings' programs.
const SEND: u64 = 131;
const TAKE: u64 = 161;
const REFLECT: u64 = 228;
/// What a core executes between accesses to a queue.
const CODE: Code = Code::PROBE;
/// Messages before those that are measured, and those that are: more than two laps of the largest queue each.
const WARM: u64 = 400;
const MEASURED: u64 = 600;
/// Messages under way at most where the rate is measured; fewer fit into small queues.
const IN_FLIGHT: u32 = 128;

/// What messages go over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Over {
    /// Cachable queues of 16 blocks: 4 messages.
    Cni16q,
    /// Of 512 blocks: 128 messages.
    Cni512q,
    /// The rings of the CC-NIC paper.
    Paper,
    /// This project's default rings.
    Ccnic,
}

/// What was seen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Seen {
    /// Nanoseconds of a round trip, one message under way.
    pub round_trip_ns: f64,
    /// Million messages per second, as many under way as fit.
    pub mpps: f64,
    /// Nanoseconds of the machine's own ping-pong: a line there, another one back.
    pub pingpong_ns: f64,
}

impl Seen {
    /// By the keys that plans name; times and rates also in the machine's own ping-pongs, which makes machines comparable.
    pub fn values(&self) -> BTreeMap<String, f64> {
        let Seen { round_trip_ns, mpps, pingpong_ns } = *self;
        let values = [
            ("round_trip_ns", round_trip_ns),
            ("mpps", mpps),
            ("pingpong_ns", pingpong_ns),
            ("round_trip_pingpongs", round_trip_ns / pingpong_ns),
            ("messages_per_pingpong", mpps * pingpong_ns / 1e3),
        ];
        values.map(|(key, value)| (key.to_owned(), value)).into()
    }
}

/// Simulates it, on the bus or on a platform with cores; `set` changes values of the platform.
///
/// # Errors
/// Why it cannot be simulated.
pub fn run(over: Over, platform: &str, set: &BTreeMap<String, f64>) -> Result<Seen, String> {
    let changed = AnyPlatform::named(platform)
        .and_then(|p| set.iter().try_fold(p, |p, (key, value)| p.overridden(key, *value)));
    let platform = changed.map_err(|e| e.to_string())?;
    let seen = |in_flight| pace(&platform, way(over), SIZE, in_flight);
    let (one, all) = (seen(1)?, seen(IN_FLIGHT)?);
    let pingpong_ns = match &platform {
        AnyPlatform::Buses(p) => bus_pingpong(&of_one_node(p)?)?,
        AnyPlatform::Sockets(p) => pingpong(p, Words::WriterHomed).map_err(|e| e.to_string())?.median_ns,
        AnyPlatform::Device(p) => return Err(format!("{} has neither sockets nor a bus", p.name)),
    };
    Ok(Seen { round_trip_ns: one.0, mpps: all.1, pingpong_ns })
}

/// What messages go over, in detail.
#[derive(Debug, Clone, Copy)]
pub(in crate::run) enum Way {
    /// Two cachable queues of so many blocks.
    Queue(u32),
    /// Rings of one queue pair.
    Rings(Config),
}

/// Messages of so many bytes, so many of them under way at most.
pub(in crate::run) fn pace(
    platform: &AnyPlatform,
    way: Way,
    bytes: usize,
    in_flight: u32,
) -> Result<Pace, String> {
    match platform {
        AnyPlatform::Buses(p) => on_bus(&of_one_node(p)?, way, bytes, in_flight),
        AnyPlatform::Sockets(p) => on_sockets(p, way, bytes, in_flight),
        AnyPlatform::Device(p) => Err(format!("{} has neither sockets nor a bus", p.name)),
    }
}

fn of_one_node(platform: &BusPlatform) -> Result<BusPlatform, String> {
    platform.overridden("machine.nodes", 1.0).map_err(|e| e.to_string())
}

/// Time and rate: nanoseconds from one message to the next that is sent when it is back, and millions per second.
type Pace = (f64, f64);

fn of_time(nanoseconds: f64, messages: f64) -> Pace {
    (nanoseconds / messages, messages * 1e3 / nanoseconds)
}

fn way(over: Over) -> Way {
    let rings = |design| {
        let config = Config { design, queues: 1, demote: ccnic::Demote::Off, ..Config::default() };
        Way::Rings(Config { buffers: 2048, ..config })
    };
    match over {
        Over::Cni16q => Way::Queue(16),
        Over::Cni512q => Way::Queue(512),
        Over::Paper => rings(Design::GroupedClear),
        Over::Ccnic => rings(Design::GroupedEpoch),
    }
}

fn load(bytes: usize, in_flight: u32, seconds: f64) -> Result<Load, String> {
    Ok(Load {
        size: bytes.try_into().map_err(|_| format!("{bytes} bytes are more than a packet has"))?,
        burst: if in_flight == 1 { 1 } else { 32 },
        rx_burst: 32,
        inflight: in_flight as usize,
        rate: None,
        seconds,
        warmup: seconds / 2.0,
        packets: None,
        whole_bursts: false,
        phase: 0.0,
    })
}

/// The program's side of the queues: sends while it may, then takes what is back. `spend` is told what it executes for each message,
/// `relax` is called if there was nothing to do; returns when the measured messages began and ended.
fn exchange<M: SharedMemory>(
    program: &mut QueueHost<M>,
    in_flight: u32,
    now: impl Fn() -> u64,
    spend: impl Fn(u64),
    relax: impl Fn(),
) -> (u64, u64) {
    let mut begun = 0;
    while program.received() < WARM + MEASURED {
        let mut idle = true;
        let (mut sent, mut taken) = program.next_lens();
        while (program.is_begun() || program.in_flight() < in_flight.into()) && program.send() {
            spend(SEND + further(sent));
            sent = program.next_lens().0;
            idle = false;
        }
        while program.receive() {
            spend(TAKE + further(taken));
            taken = program.next_lens().1;
            idle = false;
            if begun == 0 && program.received() == WARM {
                begun = now();
            }
        }
        if idle {
            relax();
        }
    }
    (begun, now())
}

/// Instructions of the payload's lines after the first.
fn further(bytes: usize) -> u64 {
    let line = Instructions::of(&Config::default()).map_or(0.0, |counted| counted.host.line);
    let lines = bytes.div_ceil(LINE as usize).saturating_sub(1);
    (lines as f64 * line).round() as u64
}

fn on_sockets(platform: &Platform, way: Way, bytes: usize, in_flight: u32) -> Result<Pace, String> {
    let queues = match way {
        Way::Queue(blocks) => Queues::new(blocks),
        Way::Rings(config) => {
            let plan = Plan { config, load: load(bytes, in_flight, 100e-6)? };
            let run = run_loopback(platform, &plan).map_err(|e| e.to_string())?;
            let packets: u64 = run.outcomes.iter().map(|o| o.packets).sum();
            return Ok(of_time(ns(run.measured), packets as f64));
        }
    };
    let mut machine = Machine::new(platform, queues.bytes(), &[(0, 0), (1, 1)]).map_err(|e| e.to_string())?;
    // As CC-NIC's: what the NIC writes is at home in its socket.
    machine.set_home(queues.of_nic(), queues.bytes() - queues.of_nic(), 1);
    let mut sim = Sim::new(machine);
    let found = Rc::new(RefCell::new(None));
    let result = Rc::clone(&found);
    sim.spawn(0, move |agent| {
        agent.set_code(CODE);
        let mut program = QueueHost::new(agent, &queues, bytes);
        let spend = |instructions| agent.has_executed(instructions);
        let (begun, ended) = exchange(&mut program, in_flight, || agent.now(), spend, || agent.relax());
        *result.borrow_mut() = (program.wrong == 0).then_some(ended - begun);
    })
    .map_err(|e| e.to_string())?;
    sim.spawn(1, move |agent| reflect(agent, &queues)).map_err(|e| e.to_string())?;
    sim.run(ps(1e9));
    let time = found.borrow().ok_or("messages were lost or damaged: a defect of ccnic")?;
    Ok(of_time(ns(time), MEASURED as f64))
}

/// The NIC on a core.
fn reflect(agent: Agent<'_>, queues: &Queues) {
    agent.set_code(CODE);
    let mut nic = QueueNic::new(agent, queues);
    loop {
        if nic.poll() {
            agent.has_executed(REFLECT + 2 * further(nic.last_len()));
        } else {
            agent.relax();
        }
    }
}

/// Two processors of a node; when the program has ended, the NIC ends too.
fn two_processors(
    platform: &BusPlatform,
    bytes: u32,
    program: impl FnOnce(bus::agent::Agent<'_>) -> Option<Pace> + 'static,
    nic: impl FnOnce(bus::agent::Agent<'_>, &dyn Fn() -> bool) + 'static,
) -> Result<Pace, String> {
    let mut sim = bus::Sim::new(platform, 2, bytes, |_| None);
    let found = Rc::new(RefCell::new((false, None)));
    let (result, seen) = (Rc::clone(&found), Rc::clone(&found));
    // A program's captures are moved to its stack, which takes little at a time.
    let (program, nic) = (Box::new(program), Box::new(nic));
    sim.spawn(0, 0, move |agent| {
        let pace = program(agent);
        *result.borrow_mut() = (true, pace);
    })
    .map_err(|e| e.to_string())?;
    sim.spawn(0, 1, move |agent| nic(agent, &|| seen.borrow().0)).map_err(|e| e.to_string())?;
    sim.run();
    let pace = found.borrow().1;
    pace.ok_or_else(|| "messages were lost or damaged: a defect of ccnic".to_owned())
}

fn on_bus(platform: &BusPlatform, way: Way, bytes: usize, in_flight: u32) -> Result<Pace, String> {
    let queues = match way {
        Way::Queue(blocks) => Queues::new(blocks),
        Way::Rings(config) => {
            let load = load(bytes, in_flight, 2e-3)?;
            return config.design.dispatch(RingsOnBus { platform, config, load });
        }
    };
    let own = platform.clone();
    let program = move |cpu: bus::agent::Agent<'_>| {
        let mut program = QueueHost::new(cpu, &queues, bytes);
        let spend = |instructions| cpu.work(instructions);
        let (begun, ended) = exchange(&mut program, in_flight, || cpu.now(), spend, || cpu.relax());
        (program.wrong == 0).then(|| of_time(bus_ns(&own, ended - begun), MEASURED as f64))
    };
    two_processors(platform, queues.bytes(), program, move |cpu, over| {
        let mut nic = QueueNic::new(cpu, &queues);
        while !over() {
            if nic.poll() {
                cpu.work(REFLECT + 2 * further(nic.last_len()));
            } else {
                cpu.relax();
            }
        }
    })
}

/// CC-NIC's rings between two processors on a bus: the load generator and the NIC's loopback of the real machine.
struct RingsOnBus<'p> {
    platform: &'p BusPlatform,
    config: Config,
    load: Load,
}

/// A processor's clock; it executes one instruction in a cycle.
struct BusClock<'a> {
    cpu: bus::agent::Agent<'a>,
    instructions: Instructions,
    ghz: f64,
}

impl Clock for BusClock<'_> {
    fn now(&self) -> u64 {
        self.cpu.now()
    }
    fn settle(&self) {}
    fn nanoseconds(&self, ticks: u64) -> u64 {
        (ticks as f64 / self.ghz) as u64
    }
    fn give_way(&self) -> bool {
        false
    }
    fn spend(&self, packets: usize) {
        if packets > 0 {
            self.cpu.work(self.instructions.host.of_burst(packets, 1.0, false));
        }
    }
}

impl RingVisitor for RingsOnBus<'_> {
    type Output = Result<Pace, String>;

    fn visit<R: Ring>(self) -> Self::Output {
        let RingsOnBus { platform, config, load } = self;
        let layout = Layout::new(&config).map_err(|e| e.to_string())?;
        let counted = Instructions::of(&config).ok_or("its instructions have not been counted")?;
        let ghz = platform.processor.frequency.get();
        let (host_counts, nic_counts) = (counted.clone(), counted.clone());
        let formatted = Rc::new(std::cell::Cell::new(false));
        let ready = Rc::clone(&formatted);
        let program = move |cpu: bus::agent::Agent<'_>| {
            host::format(&cpu, &layout);
            ready.set(true);
            let mut pair = QueuePair::<_, R>::new(cpu, &layout, 0).ok()?;
            let clock = BusClock { cpu, instructions: host_counts, ghz };
            let found: Result<Outcome, LoadError> = ccnic_load::run(&mut pair, load, &clock, || (), || ());
            let found = found.ok().filter(|o| o.lost == 0 && o.corrupt == 0)?;
            Some(of_time(found.seconds * 1e9, found.packets as f64))
        };
        two_processors(platform, layout.size(), program, move |cpu, over| {
            while !formatted.get() {
                cpu.relax();
                cpu.load(0);
            }
            let Ok(mut nic) = NicQueue::<_, R>::new(cpu, &layout, 0) else { return };
            let mut pipeline = Pipeline::default();
            while !over() {
                match loopback(&mut nic, &mut pipeline, &cpu, false) {
                    0 => cpu.relax(),
                    n => cpu.work(nic_counts.nic.of_burst(n, 2.0, false)),
                }
            }
        })
    }
}

/// A line to the other processor and another one back, in nanoseconds.
fn bus_pingpong(platform: &BusPlatform) -> Result<f64, String> {
    const ROUNDS: u64 = 200;
    let await_word = |cpu: bus::agent::Agent<'_>, at: u32, value: u64| {
        while cpu.load_acquire(at) != value {
            cpu.poll_words(&[at]);
        }
    };
    let own = platform.clone();
    let program = move |cpu: bus::agent::Agent<'_>| {
        let begun = cpu.now();
        for round in 1..=ROUNDS {
            cpu.store_release(0, round);
            await_word(cpu, 64, round);
        }
        Some(of_time(bus_ns(&own, cpu.now() - begun), ROUNDS as f64))
    };
    let (ns, _) = two_processors(platform, 4096, program, move |cpu, _| {
        for round in 1..=ROUNDS {
            await_word(cpu, 0, round);
            cpu.store_release(64, round);
        }
    })?;
    Ok(ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A key that a plan sets changes something, or is refused.
    #[test]
    fn values_of_the_platform_can_be_set() {
        let set = |key: &str, value| BTreeMap::from([(key.to_owned(), value)]);
        let slow = run(Over::Cni16q, "cni-1996", &set("memory_bus.from_ni", 70.0)).unwrap();
        assert!(slow.round_trip_ns > 0.0);
        for place in ["cni-1996", "icx"] {
            let error = run(Over::Cni16q, place, &set("bus.colour", 1.0)).unwrap_err();
            assert!(error.contains("bus.colour"), "{error}");
        }
    }

    #[test]
    fn every_interface_runs_on_every_machine() {
        for place in ["cni-1996", "icx", "spr", "cxl"] {
            for over in [Over::Cni16q, Over::Cni512q, Over::Paper, Over::Ccnic] {
                let seen = run(over, place, &BTreeMap::new()).unwrap();
                // A message and its answer take a line there and one back at least.
                assert!(
                    seen.round_trip_ns > seen.pingpong_ns && seen.pingpong_ns > 10.0,
                    "{over:?} {place} {seen:?}"
                );
                // With many under way there are more of them in the same time.
                assert!(seen.mpps * seen.round_trip_ns > 1e3, "{over:?} {place} {seen:?}");
            }
        }
    }
}
