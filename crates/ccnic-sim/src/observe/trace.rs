//! What happens in a run, on a timeline: trace events as JSON, for Perfetto (ui.perfetto.dev) or chrome://tracing.
//!
//! Each socket is a process, each core a thread. A core's waits are its slices; a request for a line is an asynchronous slice from
//! the moment it leaves the core until the answer is there, with the stations on its way as instants; words stored and lines
//! lost are instants of their core; how full each direction of the link is, is a counter. With a region's layout, places
//! have names, so that one packet can be followed from ring to ring.
//!
//! Events are written as they end, within a window of time and up to a number, so that a long run leaves a small file. A run
//! without a trace pays one branch for each event.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::ops::Range;

use ccnic::Layout;
use ccnic::layout::LARGE_BUF;
use ccnic::memory::LINE;

use crate::kernel::time::Ps;
use crate::machine::World;
use crate::machine::core::Wait;
use crate::machine::home::Transaction;
use crate::observe::counters::Source;

/// Between two values of a link's counter.
const SAMPLE: Ps = 100_000;
/// Events that are written at most, unless one asks for more.
const MOST: u64 = 1_000_000;

/// A trace that is being written.
pub struct Trace {
    out: Box<dyn Write>,
    window: Range<Ps>,
    most: u64,
    written: u64,
    failed: Option<io::Error>,
    /// What lies where: the first byte, the distance of its parts (0: it has none), the name; in order.
    places: Vec<(u32, u32, String)>,
    /// Requests under way, by transaction.
    lives: Vec<Life>,
    requests: u64,
    /// For each socket: the last value of its link's counter was for this time, and this much was busy then.
    links: [(Ps, Ps); 2],
}

/// A request under way.
#[derive(Debug, Clone, Default)]
struct Life {
    number: u64,
    began: Ps,
    stations: Vec<(Ps, Station)>,
}

/// A station of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Station {
    /// The home agent of the core's socket.
    Agent,
    /// The line's home in the other socket.
    Home,
    /// A core that is asked for the line.
    Snooped(u8),
    /// The core's answer waits until its own request is answered.
    Deferred(u8),
    /// The answer is on its way.
    Answered,
}

impl std::fmt::Debug for Trace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Trace")
            .field("window", &self.window)
            .field("written", &self.written)
            .finish_non_exhaustive()
    }
}

impl Trace {
    /// A trace of what happens within a window of time. Buffer the writer; call [`finish`](Trace::finish) at the end.
    pub fn new(out: impl Write + 'static, window: Range<Ps>) -> Trace {
        Trace {
            out: Box::new(out),
            window,
            most: MOST,
            written: 0,
            failed: None,
            places: Vec::new(),
            lives: Vec::new(),
            requests: 0,
            links: [(0, 0); 2],
        }
    }

    /// The same with at most so many events.
    #[must_use]
    pub fn at_most(mut self, events: u64) -> Trace {
        self.most = events;
        self
    }

    /// Names what lies from a place on, up to the next one that is named; its parts are `step` bytes apart.
    pub fn name(&mut self, at: u32, step: u32, name: impl Into<String>) {
        let i = self.places.partition_point(|(other, ..)| *other <= at);
        self.places.insert(i, (at, step, name.into()));
    }

    /// Names the places of a region that lies at `base`; `label` comes before each name.
    pub fn name_region(&mut self, layout: &Layout, base: u32, label: &str) {
        let mut name = |at: u32, step, what: &str| self.name(base + at, step, format!("{label}{what}"));
        name(0, 0, "header");
        for queue in 0..layout.config().queues {
            let Some(place) = layout.queue(queue) else { continue };
            for (kind, ring) in [("TX", place.tx), ("RX", place.rx), ("fill", place.fill)] {
                name(ring.units, 0, &format!("{kind} ring {queue}"));
                name(ring.tail, 0, &format!("{kind} tail {queue}"));
                name(ring.head, 0, &format!("{kind} head {queue}"));
                name(ring.taken, 0, &format!("{kind} taken {queue}"));
            }
        }
        let pool = layout.pool();
        name(pool.small, 0, "free list of small buffers");
        name(pool.large, 0, "free list of large buffers");
        name(pool.split, 0, "free list of split buffers");
        name(pool.links, 0, "links of free buffers");
        name(pool.kinds, 0, "kinds of buffers");
        name(pool.buffers, LARGE_BUF, "buffer");
        name(pool.end, 0, "beyond the pool");
    }

    /// What lies at a place.
    fn place(&self, at: u32) -> String {
        let i = self.places.partition_point(|(other, ..)| *other <= at);
        match i.checked_sub(1).and_then(|i| self.places.get(i)) {
            None => format!("{at:#x}"),
            Some((first, 0, name)) => format!("{name} +{}", at - first),
            Some((first, step, name)) => format!("{name} {} +{}", (at - first) / step, (at - first) % step),
        }
    }

    /// The name of what lies at a place, without how far in.
    fn thing(&self, at: u32) -> &str {
        let i = self.places.partition_point(|(other, ..)| *other <= at);
        i.checked_sub(1).and_then(|i| self.places.get(i)).map_or("line", |(.., name)| name)
    }

    /// Says which cores there are; what is written first.
    pub(crate) fn begin(&mut self, world: &World) {
        self.put("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[");
        for socket in 0..world.sockets.len() {
            let name = if world.sockets.len() == 1 { "socket".into() } else { format!("socket {socket}") };
            self.meta(&format!("\"process_name\",\"pid\":{socket},\"args\":{{\"name\":\"{name}\"}}"));
        }
        for (core, c) in world.cores.iter().enumerate() {
            let pid = c.socket;
            let who =
                if world.is_device(core as u8) { "root complex".into() } else { format!("core {core}") };
            let args = format!("\"args\":{{\"name\":\"{who}\"}}");
            self.meta(&format!("\"thread_name\",\"pid\":{pid},\"tid\":{core},{args}"));
        }
    }

    fn meta(&mut self, rest: &str) {
        let comma = if self.written == 0 { "" } else { "," };
        self.written += 1;
        self.put(&format!("{comma}\n{{\"ph\":\"M\",\"name\":{rest}}}"));
    }

    /// Writes the end.
    ///
    /// # Errors
    /// What went wrong with the writer, now or before.
    pub fn finish(mut self) -> io::Result<()> {
        self.put("\n]}\n");
        match self.failed.take() {
            Some(e) => Err(e),
            None => self.out.flush(),
        }
    }

    fn put(&mut self, text: &str) {
        if self.failed.is_none() {
            self.failed = self.out.write_all(text.as_bytes()).err();
        }
    }

    /// True when something that lasts from one moment to another is to be written.
    fn wants(&self, from: Ps, to: Ps) -> bool {
        from < self.window.end && to >= self.window.start && self.written < self.most
    }

    /// An event: its kind, when, where, and the rest of its fields.
    fn event(&mut self, kind: char, at: Ps, socket: u8, core: u8, rest: &str) {
        self.written += 1;
        let mut text = String::with_capacity(160);
        let (us, fraction) = (at / 1_000_000, at % 1_000_000);
        let _ = write!(
            text,
            ",\n{{\"ph\":\"{kind}\",\"ts\":{us}.{fraction:06},\"pid\":{socket},\"tid\":{core},{rest}}}"
        );
        self.put(&text);
    }

    /// A core has waited.
    #[cold]
    pub(crate) fn was_idle(&mut self, socket: u8, core: u8, wait: Wait, from: Ps, to: Ps) {
        if to <= from || !self.wants(from, to) {
            return;
        }
        let (name, at) = match wait {
            Wait::Nothing => return,
            Wait::Load(at) => ("load", Some(at)),
            Wait::Exchange(at, ..) => ("exchange", Some(at)),
            Wait::Window => ("window full", None),
            Wait::Loads => ("loads", None),
            Wait::Addresses => ("addresses", None),
            Wait::Stores(false) => ("store buffer full", None),
            Wait::Stores(true) => ("stores", None),
            Wait::Misses => ("fill buffers", None),
            Wait::Line => ("poll", None),
            Wait::Device => ("device", None),
        };
        let place = at.map_or_else(String::new, |at| format!(",\"args\":{{\"at\":\"{}\"}}", self.place(at)));
        let took = to - from;
        let dur = format!("{}.{:06}", took / 1_000_000, took % 1_000_000);
        self.event(
            'X',
            from,
            socket,
            core,
            &format!("\"name\":\"{name}\",\"cat\":\"wait\",\"dur\":{dur}{place}"),
        );
    }

    /// Something happened at a core, in no time.
    #[cold]
    pub(crate) fn instant(&mut self, socket: u8, core: u8, what: &str, place: u32, at: Ps) {
        if self.wants(at, at) {
            let (thing, place) = (self.thing(place), self.place(place));
            let args = format!("\"args\":{{\"at\":\"{place}\"}}");
            let rest = format!("\"name\":\"{what} {thing}\",\"cat\":\"core\",\"s\":\"t\",{args}");
            self.event('i', at, socket, core, &rest);
        }
    }

    /// A core asks for a line.
    #[cold]
    pub(crate) fn asked(&mut self, txn: u32, at: Ps) {
        let txn = txn as usize;
        if self.lives.len() <= txn {
            self.lives.resize(txn + 1, Life::default());
        }
        self.requests += 1;
        let life = &mut self.lives[txn];
        (life.number, life.began) = (self.requests, at);
        life.stations.clear();
    }

    /// A request has come to a station.
    #[cold]
    pub(crate) fn station(&mut self, txn: u32, station: Station, at: Ps) {
        if let Some(life) = self.lives.get_mut(txn as usize) {
            life.stations.push((at, station));
        }
    }

    /// A request has been answered.
    #[cold]
    pub(crate) fn answered(&mut self, txn: u32, t: &Transaction, socket: u8, home: u8, at: Ps) {
        let Some(life) = self.lives.get_mut(txn as usize) else { return };
        let life = std::mem::take(life);
        // A request from before the trace has no number.
        if life.number == 0 || !self.wants(life.began, at) {
            return;
        }
        let (core, place) = (t.core, t.line * LINE);
        let request = format!("{:?}", t.request);
        let head = format!(
            "\"name\":\"{request} {}\",\"cat\":\"request\",\"id\":{}",
            self.thing(place),
            life.number
        );
        let args = format!(
            "{head},\"args\":{{\"at\":\"{}\",\"line\":{},\"home\":{home},\"request\":\"{request}\"}}",
            self.place(place),
            t.line
        );
        self.event('b', life.began, socket, core, &args);
        for (when, station) in &life.stations {
            let name = match station {
                Station::Agent => "at the home agent".into(),
                Station::Home => "at home".into(),
                Station::Snooped(core) => format!("core {core} is asked"),
                Station::Deferred(core) => format!("core {core} answers later"),
                Station::Answered => "answered".into(),
            };
            let rest = format!("\"name\":\"{name}\",\"cat\":\"request\",\"id\":{}", life.number);
            self.event('n', *when, socket, core, &rest);
        }
        let source = match t.source {
            Source::Nowhere => "no data".into(),
            source => format!("{source:?}"),
        };
        let args = format!("{head},\"args\":{{\"source\":\"{source}\",\"grant\":\"{:?}\"}}", t.grant);
        self.event('e', at, socket, core, &args);
    }

    /// A socket's direction of the link has been used: at times, says how much of it is taken.
    #[cold]
    pub(crate) fn link(&mut self, socket: u8, now: Ps, busy: Ps) {
        let (last, before) = self.links[socket as usize & 1];
        if now < last + SAMPLE {
            return;
        }
        self.links[socket as usize & 1] = (now, busy);
        if !self.wants(last, now) {
            return;
        }
        let share = (busy - before) as f64 / (now - last) as f64;
        let rest = format!(
            "\"name\":\"link from socket {socket}\",\"args\":{{\"percent\":{:.1}}}",
            100.0 * share.min(1.0)
        );
        self.event('C', last, socket, 0, &rest);
    }
}

impl World {
    /// Traces what happens from now on.
    pub fn set_trace(&mut self, mut trace: Trace) {
        trace.begin(self);
        self.trace = Some(Box::new(trace));
    }

    /// Ends the trace, if there is one.
    ///
    /// # Errors
    /// What went wrong with its writer.
    pub fn finish_trace(&mut self) -> io::Result<()> {
        self.trace.take().map_or(Ok(()), |trace| trace.finish())
    }

    /// Something happened at a core, in no time.
    #[inline]
    pub(crate) fn note(&mut self, core: u8, what: &str, place: u32) {
        if let Some(trace) = &mut self.trace {
            let c = &self.cores[core as usize];
            trace.instant(c.socket, core, what, place, self.now);
        }
    }

    /// A request has come to a station.
    #[inline]
    pub(crate) fn note_station(&mut self, txn: u32, station: Station, at: Ps) {
        if let Some(trace) = &mut self.trace {
            trace.station(txn, station, at);
        }
    }

    /// A core has waited from `since` to `end`.
    #[inline]
    pub(crate) fn note_wait(&mut self, core: u8, end: Ps) {
        if let Some(trace) = &mut self.trace {
            let c = &self.cores[core as usize];
            trace.was_idle(c.socket, core, c.wait, c.since, end);
        }
    }
}
