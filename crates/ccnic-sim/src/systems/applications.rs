//! Applications on a server with a PCIe NIC (CC-NIC section 5.7): they use the NIC directly, or over CC-NIC's interface to threads on the
//! other socket, which copy packets to the NIC's queues and back (the overlay of section 4). Other machines send requests.
//!
//! An application's thread serves its queue pairs one after the other. With the overlay each queue pair has an overlay thread of its own
//! and that thread a queue pair of the NIC.

use std::cell::RefCell;
use std::rc::Rc;

use ccnic::host::QueuePair;
use ccnic::memory::LINE;
use ccnic::nic::NicQueue;
use ccnic::ring::{Doorbell, Ring, RingVisitor};
use ccnic::{Config, Design, Layout, SharedMemory};
use ccnic_load::apps::echo::FastPath;
use ccnic_load::apps::kv::{Server, Values};
use ccnic_load::apps::overlay::Overlay;

use super::plan::RunError;
use super::regions::Regions;
use crate::devices::pcie::{attach, attach_nic};
use crate::machine::agent::Agent;
use crate::machine::directory::PAGE;
use crate::machine::ids::DeviceId;
use crate::machine::sim::Sim;
use crate::machine::{Machine, Seat};
use crate::platform::{Code, Counts, Instructions, Platform, Stages, instructions};

/// Bytes of what a store knows of an object besides its value: a line; and of its entry in the index.
const SLOT: u32 = 64;
const ENTRY: u32 = 8;
/// Receive bursts of applications, as of the loopback.
const BURST: usize = 32;
/// Bytes of a connection's state in the service of small calls: two lines.
const CONNECTION: u32 = 2 * LINE;

/// What the threads do.
#[derive(Debug, Clone)]
pub enum App {
    /// They answer gets and sets; by queue pair, the sizes of its values.
    KeyValue(Rc<Vec<Vec<u32>>>),
    /// They answer calls of so many connections by queue pair, and execute so many instructions for each besides those of the interface.
    Echo { connections: u32, instructions: f64 },
}

/// Applications on a server.
#[derive(Debug, Clone)]
pub struct AppPlan {
    /// What they do.
    pub app: App,
    /// Threads of the application.
    pub threads: u16,
    /// Queue pairs; a multiple of the threads.
    pub queues: u16,
    /// The interface between them and the overlay; `None`: they use the NIC themselves.
    pub overlay: Option<Config>,
    /// Large buffers of a queue pair, besides those of values.
    pub buffers: u32,
}

/// A server that is ready to run.
#[derive(Debug)]
pub struct Served {
    /// The machine and its programs.
    pub sim: Sim,
    /// The NIC.
    pub device: DeviceId,
    /// What the programs say.
    pub state: Rc<RefCell<State>>,
}

/// What the programs of a server say.
#[derive(Debug, Default)]
pub struct State {
    /// Threads that serve their queues.
    pub ready: u16,
    /// Packets that the overlay had no room for.
    pub dropped: u64,
    /// By queue pair: where the values lie and how many bytes they take, in the order of the objects.
    pub values: Vec<Vec<(u32, u32)>>,
    /// By queue pair: where the store's tables begin, and how many objects it has.
    pub tables: Vec<(u32, u32)>,
}

/// What a thread executes.
#[derive(Debug, Clone, Copy)]
struct Work {
    counts: Counts,
    code: Code,
}

impl Work {
    /// `polls`: queues that are polled one after the other. `more`: instructions of a packet besides.
    fn of(platform: &Platform, name: &str, config: &Config, polls: u16, more: f64) -> Result<Work, RunError> {
        let missing = || RunError::Instructions(config.design.name());
        let ring = Instructions::of(config).ok_or_else(missing)?.on(&platform.software).host_code();
        let counts =
            instructions::of_application(name, config.design, &platform.software).ok_or_else(missing)?;
        let counts = Counts { packet: counts.packet + more, ..counts };
        let poll = (counts.poll * f64::from(polls)).round() as u64;
        Ok(Work {
            counts,
            code: Code { line: counts.line.round() as u64, poll, stages: Stages::NONE, ..ring },
        })
    }

    /// So many packets have been dealt with; `parts` of one make it whole.
    fn spend(&self, agent: &Agent<'_>, packets: usize, parts: f64) {
        if packets > 0 {
            agent.has_executed(
                (self.counts.burst + self.counts.packet * packets as f64 / parts).round() as u64
            );
        }
    }
}

/// A thread's queue pairs, and where the store's lines of their objects, or the connections' states, begin.
struct Seated {
    base: u32,
    queue: u16,
    tables: u32,
}

/// Builds the machine with its NIC, the application's threads, and those of the overlay.
///
/// # Errors
/// When the platform has not so many cores or no NIC, or the configuration is invalid.
pub fn build(platform: &Platform, plan: &AppPlan) -> Result<Served, RunError> {
    let (host, nic) = (platform.topology.host_cores.get(), platform.topology.nic_cores.get());
    let overlay = if plan.overlay.is_some() { plan.queues } else { 0 };
    let (threads, queues) = (plan.threads, plan.queues);
    if threads == 0 || queues % threads != 0 || u32::from(threads) > host || u32::from(overlay) > nic {
        return Err(RunError::Cores { asked: threads.max(overlay), host, nic });
    }
    if platform.device.is_none() {
        return Err(RunError::Device);
    }
    let values = match &plan.app {
        App::KeyValue(sizes) => sizes.iter().map(|sizes| Values::buffers(sizes)).max().unwrap_or(0),
        App::Echo { .. } => 0,
    };
    let below = |buffers| Config {
        queues,
        buffers,
        design: Design::Doorbell,
        small: false,
        shared_pool: false,
        ..Config::default()
    };
    let (upper, lower) = match &plan.overlay {
        Some(config) => {
            let config = Config { queues, buffers: plan.buffers + values, ..*config };
            let upper = Regions::new(&config, false)?;
            (Some(upper), Regions::new(&below(plan.buffers), false)?.behind(upper.bytes()))
        }
        None => (None, Regions::new(&below(plan.buffers + values), false)?),
    };
    let used = upper.as_ref().unwrap_or(&lower);
    let tables = lower.bytes().checked_add(upper.map_or(0, |upper| upper.bytes()));
    let table = plan.app.table(queues);
    let bytes = tables.and_then(|at| at.checked_add(table.checked_mul(queues.into())?));
    let (Some(tables), Some(bytes)) = (tables, bytes) else {
        return Err(RunError::Memory { regions: queues, size: used.bytes() / u32::from(queues) });
    };
    let seats: Vec<Seat> = (0..threads).map(|_| (0, 0)).chain((0..overlay).map(|_| (1, 1))).collect();
    let mut machine = Machine::new(platform, bytes, &seats)?;
    let socket = u8::from(upper.is_some());
    let Some(device) = attach(&mut machine, platform, socket)? else { return Err(RunError::Device) };
    lower.home_in(&mut machine, socket);
    if let Some(upper) = &upper {
        upper.home(&mut machine);
    }
    attach_nic(&mut machine, device, platform, &lower.layout, (0..queues).map(|q| lower.of_core(q)));
    let mut sim = Sim::new(machine);
    lower.lay_out(&sim);
    if let Some(upper) = &upper {
        upper.lay_out(&sim);
    }
    let state = Rc::new(RefCell::new(State::default()));
    let app = Threads { platform, plan, upper, lower, tables, table, state: &state };
    used.layout.config().design.dispatch(Spawn(&mut sim, app))?;
    Ok(Served { sim, device, state })
}

impl App {
    /// Bytes of what the store knows of a queue pair's objects, or the service of its connections.
    fn table(&self, queues: u16) -> u32 {
        match self {
            App::KeyValue(sizes) => {
                let objects = sizes.iter().map(Vec::len).max().unwrap_or(0) as u32;
                (objects * (SLOT + ENTRY)).next_multiple_of(PAGE)
            }
            App::Echo { connections, .. } => {
                (connections.div_ceil(queues.into()) * CONNECTION).next_multiple_of(PAGE)
            }
        }
    }

    fn name(&self) -> &'static str {
        match self {
            App::KeyValue(_) => "kv",
            App::Echo { .. } => "echo",
        }
    }

    /// Instructions of a request besides those of the queue pair.
    fn instructions(&self) -> f64 {
        match self {
            App::KeyValue(_) => instructions::of_look_up(),
            App::Echo { instructions, .. } => *instructions,
        }
    }
}

/// What the threads are made of.
#[derive(Clone, Copy)]
struct Threads<'a> {
    platform: &'a Platform,
    plan: &'a AppPlan,
    upper: Option<Regions>,
    lower: Regions,
    tables: u32,
    table: u32,
    state: &'a Rc<RefCell<State>>,
}

/// Puts them on their cores, for the ring type that the application uses.
struct Spawn<'a>(&'a mut Sim, Threads<'a>);

impl RingVisitor for Spawn<'_> {
    type Output = Result<(), RunError>;

    fn visit<R: Ring>(self) -> Self::Output {
        let Spawn(sim, t) = self;
        let (threads, queues) = (t.plan.threads, t.plan.queues);
        let used = t.upper.unwrap_or(t.lower);
        let config = used.layout.config();
        let app = &t.plan.app;
        let work = Work::of(t.platform, app.name(), config, queues / threads, app.instructions())?;
        for thread in 0..threads {
            let seated = (thread..queues).step_by(threads.into()).map(|q| {
                let (base, queue) = used.of_core(q);
                (q, Seated { base, queue, tables: t.tables + u32::from(q) * t.table })
            });
            let (seated, app): (Vec<_>, _) = (seated.collect(), app.clone());
            let (layout, state) = (used.layout, Rc::clone(t.state));
            sim.spawn(thread as u8, move |agent| {
                agent.set_code(work.code);
                match &app {
                    App::KeyValue(sizes) => key_value::<R>(agent, &layout, &seated, work, sizes, &state),
                    App::Echo { .. } => echo::<R>(agent, &layout, &seated, work, &state),
                }
            })?;
        }
        let Some(upper) = t.upper else { return Ok(()) };
        let work = Work::of(t.platform, "overlay", config, 1, 0.0)?;
        for queue in 0..queues {
            let ((above, below), state) =
                ((upper.of_core(queue), t.lower.of_core(queue)), Rc::clone(t.state));
            let (layouts, core) = ((upper.layout, t.lower.layout), (threads + queue) as u8);
            sim.spawn(core, move |agent| {
                agent.set_code(work.code);
                let Ok(nic) = NicQueue::<_, R>::new(agent.at(above.0), &layouts.0, above.1) else { return };
                let Ok(pair) = QueuePair::<_, Doorbell>::new(agent.at(below.0), &layouts.1, below.1) else {
                    return;
                };
                let mut overlay = Overlay::new(nic, pair);
                loop {
                    let (down, up) = overlay.poll();
                    state.borrow_mut().dropped += overlay.take_dropped();
                    match down + up {
                        0 => agent.relax(),
                        packets => work.spend(&agent, packets, 2.0),
                    }
                }
            })?;
        }
        Ok(())
    }
}

/// A thread of the key-value store.
fn key_value<R: Ring>(
    agent: Agent<'_>,
    layout: &Layout,
    seated: &[(u16, Seated)],
    work: Work,
    sizes: &[Vec<u32>],
    state: &RefCell<State>,
) {
    let mut servers = Vec::new();
    for (q, seat) in seated {
        let Ok(mut pair) = QueuePair::<_, R>::new(agent.at(seat.base), layout, seat.queue) else { return };
        pair.set_knows_kept(true);
        agent.fence();
        let sizes = sizes.get(usize::from(*q)).map_or(&[][..], Vec::as_slice);
        let Some(values) = agent.in_no_time(|| Values::new(&mut pair, sizes)) else { return };
        let places = values.places().map(|(at, len)| (seat.base + at, len)).collect();
        let mut told = state.borrow_mut();
        told.values.push(places);
        told.tables.push((seat.tables, sizes.len() as u32));
        drop(told);
        let server = Server::new(pair, values);
        servers.push((server, seat.tables, sizes.len() as u32));
    }
    state.borrow_mut().ready += 1;
    loop {
        let mut come = 0;
        for (server, tables, objects) in &mut servers {
            let packets = server.poll(BURST, |object| look_up(&agent, *tables, *objects, object));
            work.spend(&agent, packets, 1.0);
            come += packets;
        }
        if come == 0 {
            agent.relax();
        }
    }
}

/// A store finds an object: its entry in the index, which says where its slot is; its slot.
fn look_up(agent: &Agent<'_>, tables: u32, objects: u32, object: u32) {
    if object < objects {
        let (entry, slot) = places(tables, objects, object);
        agent.load(entry);
        agent.read_lines(slot, SLOT);
    }
}

/// Where an object's entry in the index lies, and its slot.
pub fn places(tables: u32, objects: u32, object: u32) -> (u32, u32) {
    // The index is a hash table: neighbours in it are not neighbours in popularity.
    let hashed = (u64::from(object) * 0x9E37_79B1 % u64::from(objects.max(1))) as u32;
    (tables + objects * SLOT + hashed * ENTRY, tables + object * SLOT)
}

/// A thread of the service of small calls.
fn echo<R: Ring>(
    agent: Agent<'_>,
    layout: &Layout,
    seated: &[(u16, Seated)],
    work: Work,
    state: &RefCell<State>,
) {
    let mut services = Vec::new();
    for (_, seat) in seated {
        let Ok(pair) = QueuePair::<_, R>::new(agent.at(seat.base), layout, seat.queue) else { return };
        services.push((FastPath::new(pair), seat.tables));
    }
    state.borrow_mut().ready += 1;
    loop {
        let mut come = 0;
        for (service, tables) in &mut services {
            let packets = service.poll(BURST, |segment| {
                // The peer puts the number of the connection behind the headers.
                let connection = segment.last().map_or(0, |number| u32::from(*number));
                let at = *tables + connection * CONNECTION;
                agent.load(at);
                agent.write_lines(at, CONNECTION);
            });
            work.spend(&agent, packets, 1.0);
            come += packets;
        }
        if come == 0 {
            agent.relax();
        }
    }
}
