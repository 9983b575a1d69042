//! The paper's microbenchmarks on a simulated machine: latency of accesses (figure 7), ping-pong round trips (figure 8), streams of
//! data (figure 9). Platforms are calibrated with them; none of them uses the packet interface. And lines that are passed
//! back and forth with no protocol.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use ccnic::SharedMemory;
use ccnic::memory::LINE;
use ccnic_load::exchange::{Plan, Side, pass};

use crate::kernel::time::{Ps, ns, ps};
use crate::machine::Machine;
use crate::machine::agent::Agent;
use crate::machine::sim::Sim;
use crate::observe::counters::{Counters, Traffic};
use crate::platform::Platform;
use crate::systems::plan::RunError;

/// The location of a line that a core of the host's socket loads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Held {
    /// In its socket's last-level cache.
    LocalLlc,
    /// Modified in another core of its socket.
    LocalCore,
    /// In its socket's memory.
    LocalMemory,
    /// Modified in a core of the other socket, homed there.
    RemoteWriterHomed,
    /// Modified in a core of the other socket, homed in the reader's.
    RemoteReaderHomed,
    /// In the other socket's memory.
    RemoteMemory,
}

impl Held {
    /// All locations.
    pub const ALL: [Held; 6] = [
        Held::LocalLlc,
        Held::LocalCore,
        Held::LocalMemory,
        Held::RemoteWriterHomed,
        Held::RemoteReaderHomed,
        Held::RemoteMemory,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Held::LocalLlc => "local LLC",
            Held::LocalCore => "local core",
            Held::LocalMemory => "local memory",
            Held::RemoteWriterHomed => "remote core, writer-homed",
            Held::RemoteReaderHomed => "remote core, reader-homed",
            Held::RemoteMemory => "remote memory",
        }
    }

    /// True for a location in the other socket.
    pub fn is_remote(self) -> bool {
        matches!(self, Held::RemoteWriterHomed | Held::RemoteReaderHomed | Held::RemoteMemory)
    }
}

/// The result of an access probe.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AccessLatency {
    /// Median latency in nanoseconds.
    pub median_ns: f64,
    /// Lines that were read from the memory of the reader's socket, per access.
    pub local_memory_reads: f64,
}

/// Lines of the access probe.
const PROBES: u32 = 200;
/// Distance of two lines in bytes: prefetchers detect no stride.
const APART: u32 = 4096 + 192;
/// Cores of the probes: two in the host's socket, one in the NIC's. All have the prefetchers of NIC cores, which are off in the paper.
const CORES: [(u8, usize); 3] = [(0, 1), (0, 1), (1, 1)];

/// Measures the latency of a load that finds its line in a location. `None` if that is in another socket and there is none.
///
/// # Errors
/// When there is no memory for a stack.
pub fn access(platform: &Platform, held: Held) -> Result<Option<AccessLatency>, RunError> {
    if held.is_remote() && platform.topology.same_socket.get() {
        return Ok(None);
    }
    // What pushes the probes out of a core's caches lies behind them.
    let (probes, others) = (APART * (PROBES + 1) / LINE * LINE, 2 * 1024 * platform.l2.size.get());
    let bytes = probes + if held == Held::LocalLlc { others } else { 0 };
    let mut machine = Machine::new(platform, bytes, &CORES)?;
    let home = u8::from(matches!(held, Held::RemoteWriterHomed | Held::RemoteMemory));
    machine.set_home(0, bytes, home);
    let mut sim = Sim::new(machine);
    let places: Vec<u32> = (0..PROBES).map(|i| i * APART / LINE * LINE).collect();
    let writer = match held {
        Held::LocalLlc | Held::LocalCore => Some(1),
        Held::RemoteWriterHomed | Held::RemoteReaderHomed => Some(2),
        Held::LocalMemory | Held::RemoteMemory => None,
    };
    if let Some(writer) = writer {
        let places = places.clone();
        sim.spawn(writer, move |agent| {
            for at in places {
                agent.store_release(at, u64::from(at) + 1);
                agent.fence();
            }
            if held == Held::LocalLlc {
                agent.read_lines(probes, others);
                agent.fence();
            }
        })?;
        sim.run(Ps::MAX);
    }
    let before = sim.machine().traffic(0);
    let seen = Rc::new(RefCell::new(Vec::new()));
    let results = Rc::clone(&seen);
    sim.spawn(0, move |agent| {
        for at in places {
            let start = agent.now();
            agent.load_acquire(at);
            results.borrow_mut().push(agent.now() - start);
        }
    })?;
    sim.run(Ps::MAX);
    let reads = sim.machine().traffic(0).since(&before).memory_reads;
    let software = ps(platform.instruction_ns());
    let median_ns = ns(median(&mut seen.borrow_mut()).saturating_sub(software));
    Ok(Some(AccessLatency { median_ns, local_memory_reads: reads as f64 / f64::from(PROBES) }))
}

fn median(values: &mut [Ps]) -> Ps {
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or_default()
}

/// The lines of the two words of a ping-pong, and their homes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Words {
    /// On one line, which is homed in this socket.
    Shared(u8),
    /// On two lines, both homed in this socket.
    Separate(u8),
    /// On two lines, each homed in its writer's socket.
    WriterHomed,
    /// On two lines, each homed in its reader's socket.
    ReaderHomed,
}

impl Words {
    /// All layouts.
    pub const ALL: [Words; 6] = [
        Words::Shared(0),
        Words::Shared(1),
        Words::Separate(0),
        Words::Separate(1),
        Words::WriterHomed,
        Words::ReaderHomed,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Words::Shared(0) => "one line, socket 0",
            Words::Shared(_) => "one line, socket 1",
            Words::Separate(0) => "two lines, socket 0",
            Words::Separate(_) => "two lines, socket 1",
            Words::WriterHomed => "two lines, writer-homed",
            Words::ReaderHomed => "two lines, reader-homed",
        }
    }

    /// The words' places and the homes of the two pages that they lie in.
    fn places(self) -> ([u32; 2], [u8; 2]) {
        match self {
            Words::Shared(home) => ([0, 8], [home; 2]),
            Words::Separate(home) => ([0, 4096], [home; 2]),
            Words::WriterHomed => ([0, 4096], [0, 1]),
            Words::ReaderHomed => ([0, 4096], [1, 0]),
        }
    }
}

/// The result of a ping-pong.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PingPong {
    /// Median round trip in nanoseconds.
    pub median_ns: f64,
    /// Requests that crossed the link, both sides together, per round trip.
    pub remote_requests: f64,
}

/// Round trips of a ping-pong.
const ROUNDS: u64 = 1000;

/// A ping-pong: one side increments its word, the other waits for that and increments its own (figure 8).
///
/// # Errors
/// When there is no memory for a stack.
pub fn pingpong(platform: &Platform, words: Words) -> Result<PingPong, RunError> {
    let mut machine = Machine::new(platform, 8192, &[(0, 0), (1, 1)])?;
    let (places, homes) = words.places();
    machine.set_home(0, 4096, homes[0]);
    machine.set_home(4096, 4096, homes[1]);
    let mut sim = Sim::new(machine);
    let seen = Rc::new(RefCell::new(Vec::new()));
    let results = Rc::clone(&seen);
    sim.spawn(0, move |agent| {
        for round in 1..=ROUNDS {
            let start = agent.now();
            agent.store_release(places[0], round);
            wait_for(&agent, places[1], round);
            results.borrow_mut().push(agent.now() - start);
        }
    })?;
    sim.spawn(1, move |agent| {
        for round in 1..=ROUNDS {
            wait_for(&agent, places[0], round);
            agent.store_release(places[1], round);
        }
    })?;
    sim.run(Ps::MAX);
    let machine = sim.machine();
    let remote = (0..2).map(|c| machine.counters(c)).map(|c| c.remote_reads + c.remote_owns).sum::<u64>();
    let median_ns = ns(median(&mut seen.borrow_mut()));
    Ok(PingPong { median_ns, remote_requests: remote as f64 / ROUNDS as f64 })
}

fn wait_for(agent: &Agent<'_>, at: u32, value: u64) {
    while agent.load_acquire(at) != value {
        agent.relax();
    }
}

/// How a stream is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stores {
    /// Write-back stores, through the caches.
    Caching,
    /// Non-temporal, into the memory of the reader's socket.
    NonTemporal,
    /// No stores: readers read the other socket's memory, as Intel's mlc does.
    None,
}

impl Stores {
    /// All kinds.
    pub const ALL: [Stores; 3] = [Stores::Caching, Stores::NonTemporal, Stores::None];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Stores::Caching => "caching stores",
            Stores::NonTemporal => "non-temporal stores",
            Stores::None => "no stores, reads only",
        }
    }
}

/// The result of a stream.
#[derive(Debug, Clone)]
pub struct Stream {
    /// Data received in gigabits per second, all pairs together.
    pub gbit_per_s: f64,
    /// Counters of the writers and of the readers.
    pub cores: Vec<Counters>,
    /// Traffic by socket.
    pub traffic: Vec<Traffic>,
}

/// Bytes that a writer signals at once (section 3.3).
const CHUNK: u32 = 1 << 20;
/// Chunks of a pair's buffer.
const CHUNKS: u32 = 3;
/// Chunks that are streamed. A reader without a writer reads each chunk once, since it would find it in its caches again.
fn streamed(stores: Stores) -> u64 {
    if stores == Stores::None { u64::from(CHUNKS) } else { 5 }
}

/// Streams of data from the cores of one socket to those of the other, a pair each (figure 9).
///
/// # Errors
/// When the platform has not so many cores, or there is no memory for a stack.
pub fn stream(platform: &Platform, stores: Stores, pairs: u16) -> Result<Stream, RunError> {
    let (host, nic) = (platform.topology.host_cores.get(), platform.topology.nic_cores.get());
    if pairs == 0 || u32::from(pairs) > host.min(nic) {
        return Err(RunError::Cores { asked: pairs, host, nic });
    }
    let n = u32::from(pairs);
    // Each pair has a page for its two signals and a buffer.
    let each = 4096 + CHUNK * CHUNKS;
    let sides = (0..2).flat_map(|side| std::iter::repeat_n((side as u8, side), usize::from(pairs)));
    let mut machine = Machine::new(platform, each * n, &sides.collect::<Vec<_>>())?;
    // Non-temporal stores target the reader's memory; a reader alone reads the other socket's.
    machine.set_home(0, each * n, if stores == Stores::NonTemporal { 1 } else { 0 });
    let mut sim = Sim::new(machine);
    let span = Rc::new(RefCell::new((Ps::MAX, 0)));
    for pair in 0..n {
        let base = each * pair;
        if stores != Stores::None {
            sim.spawn(pair as u8, move |agent| write_stream(&agent, base, stores))?;
        }
        let span = Rc::clone(&span);
        sim.spawn((n + pair) as u8, move |agent| read_stream(&agent, base, stores, &span))?;
    }
    sim.run(Ps::MAX);
    let (start, end) = *span.borrow();
    // The first chunk fills the pipeline.
    let bytes = u64::from(CHUNK) * (streamed(stores) - 1) * u64::from(n);
    let machine = sim.machine();
    Ok(Stream {
        gbit_per_s: bytes as f64 * 8.0 / ns(end.saturating_sub(start).max(1)),
        cores: (0..2 * usize::from(pairs)).map(|c| machine.counters(c)).collect(),
        traffic: (0..machine.sockets()).map(|s| machine.traffic(s)).collect(),
    })
}

/// The addresses of a pair's signals: chunks written, chunks read.
fn signals(base: u32) -> (u32, u32) {
    (base, base + 2 * LINE)
}

fn write_stream(agent: &Agent<'_>, base: u32, stores: Stores) {
    let (written, read) = signals(base);
    for n in 0..streamed(stores) {
        while n >= u64::from(CHUNKS) + agent.load_acquire(read) {
            agent.relax();
        }
        let at = base + 4096 + n as u32 % CHUNKS * CHUNK;
        match stores {
            Stores::Caching => agent.write_lines(at, CHUNK),
            Stores::NonTemporal => {
                agent.store_non_temporal(at, CHUNK);
                agent.fence();
            }
            Stores::None => {}
        }
        agent.store_release(written, n + 1);
    }
}

fn read_stream(agent: &Agent<'_>, base: u32, stores: Stores, span: &RefCell<(Ps, Ps)>) {
    let (written, read) = signals(base);
    for n in 0..streamed(stores) {
        while stores != Stores::None && agent.load_acquire(written) <= n {
            agent.relax();
        }
        agent.read_lines(base + 4096 + n as u32 % CHUNKS * CHUNK, CHUNK);
        agent.load_fence();
        agent.store_release(read, n + 1);
        if n == 0 {
            let first = &mut span.borrow_mut().0;
            *first = (*first).min(agent.now());
        }
    }
    let last = &mut span.borrow_mut().1;
    *last = (*last).max(agent.now());
}

/// Lines that a side passes on in an exchange, and those of them before its rate is measured.
const PASSED: u64 = 16384;
const NOT_MEASURED: u64 = PASSED / 4;

/// A side of an exchange on a simulated core. It notes when it had passed on how many lines: at the begin of what is measured, and last.
struct Simulated<'a> {
    agent: Agent<'a>,
    span: &'a Cell<[(f64, u64); 2]>,
}

impl Side for Simulated<'_> {
    fn wait(&self) {
        self.agent.relax();
    }

    fn goes_on(&mut self, lines: u64) -> bool {
        let now = (self.agent.now_ns(), lines);
        let begin = if lines <= NOT_MEASURED { now } else { self.span.get()[0] };
        self.span.set([begin, now]);
        lines < PASSED
    }
}

/// What `ccnic bench limit` measures: million lines per second in each direction, of one core on each side.
///
/// # Errors
/// When the plan's memory or its cores cannot be simulated.
pub fn exchange(platform: &Platform, plan: Plan) -> Result<f64, RunError> {
    let other = u8::from(!platform.topology.same_socket.get());
    let bytes = plan.bytes().next_multiple_of(4096);
    let mut sim = Sim::new(Machine::new(platform, bytes, &[(0, 0), (other, 1)])?);
    let span = Rc::new(Cell::new([(0.0, 0); 2]));
    for number in 0..2 {
        let span = Rc::clone(&span);
        sim.spawn(number, move |agent| {
            let found = pass(&agent, plan, u64::from(number), &mut Simulated { agent, span: &span });
            debug_assert_eq!(found.damaged, 0, "coherent");
        })?;
    }
    sim.run(Ps::MAX);
    let [(from, before), (to, after)] = span.get();
    Ok((after - before) as f64 / (to - from) * 1e3)
}
