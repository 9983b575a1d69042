//! What happens in a run, on a timeline: trace events as JSON, for Perfetto (ui.perfetto.dev) or chrome://tracing.
//!
//! Each socket is a process, each core a thread. The waits of a core are slices. A request for a line is an asynchronous slice from
//! the moment it leaves the core until it is answered, with its hops as instants. Words stored and lines invalidated are
//! instants of their core. The use of the links that leave a socket is a counter. With a region's layout, addresses have names,
//! so that one packet can be followed from ring to ring.
//!
//! Events are written when they end, within a window of time and up to a number, so that a long run leaves a small file. A run
//! without a trace pays one branch for each event.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::ops::Range;

use ccnic::Layout;
use ccnic::layout::LARGE_BUF;
use ccnic::memory::LINE;

use super::counters::Source;
use crate::kernel::time::Ps;
use crate::protocols::table::{Request, State};

/// Time between two values of a link's counter.
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
    /// Names of address ranges, in order: the first byte, the size of a range's elements (0: it has none), the name.
    ranges: Vec<(u32, u32, String)>,
    /// Requests under way, by transaction.
    lives: Vec<Life>,
    requests: u64,
    /// For each socket: when the counter of its links was written last, and how long they had been taken by then.
    links: Vec<(Ps, Ps)>,
}

/// A request under way.
#[derive(Debug, Clone, Default)]
struct Life {
    number: u64,
    began: Ps,
    hops: Vec<(Ps, Hop)>,
}

/// A hop of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Hop {
    /// The home agent of the requester's socket.
    Agent,
    /// The line's home agent in another socket.
    Home,
    /// An agent that is snooped.
    Snooped(u8),
    /// An agent that is snooped, and answers after its own request has been answered.
    Deferred(u8),
    /// The device that is the line's home.
    Device(u8),
    /// The answer leaves the home agent.
    Answered,
}

/// A request that has been answered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Answered {
    /// Its transaction.
    pub txn: u32,
    /// The line, and the socket whose home agent is its home.
    pub line: u32,
    pub home: u8,
    /// The requester and its socket.
    pub agent: u8,
    pub socket: u8,
    /// What was asked, and what is granted.
    pub request: Request,
    pub grant: State,
    /// Where it was answered.
    pub source: Source,
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
            ranges: Vec::new(),
            lives: Vec::new(),
            requests: 0,
            links: Vec::new(),
        }
    }

    /// The same with at most so many events.
    #[must_use]
    pub fn at_most(mut self, events: u64) -> Trace {
        self.most = events;
        self
    }

    /// Names the range that begins at `at` and ends where the next one begins; its elements are `step` bytes apart (0: it has none).
    pub fn name(&mut self, at: u32, step: u32, name: impl Into<String>) {
        let i = self.ranges.partition_point(|(other, ..)| *other <= at);
        self.ranges.insert(i, (at, step, name.into()));
    }

    /// Names the parts of a region that begins at `base`; `label` comes before each name.
    pub fn name_region(&mut self, layout: &Layout, base: u32, label: &str) {
        let mut name = |at: u32, step, what: &str| self.name(base + at, step, format!("{label}{what}"));
        name(0, 0, "header");
        for queue in 0..layout.config().queues {
            let Some(place) = layout.queue(queue) else { continue };
            for (kind, ring) in [("TX", place.tx), ("RX", place.rx), ("fill", place.fill)] {
                name(ring.units, 0, &format!("{kind} ring {queue}"));
                if ring.areas != 0 {
                    name(ring.areas, 0, &format!("{kind} areas {queue}"));
                }
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

    /// The name of an address: of its range, and how far in.
    fn describe(&self, at: u32) -> String {
        let i = self.ranges.partition_point(|(other, ..)| *other <= at);
        match i.checked_sub(1).and_then(|i| self.ranges.get(i)) {
            None => format!("{at:#x}"),
            Some((first, 0, name)) => format!("{name} +{}", at - first),
            Some((first, step, name)) => format!("{name} {} +{}", (at - first) / step, (at - first) % step),
        }
    }

    /// The name of an address's range.
    fn range(&self, at: u32) -> &str {
        let i = self.ranges.partition_point(|(other, ..)| *other <= at);
        i.checked_sub(1).and_then(|i| self.ranges.get(i)).map_or("line", |(.., name)| name)
    }

    /// Writes the beginning: how many sockets there are, and for each agent its socket and its name.
    pub(crate) fn begin(&mut self, sockets: usize, agents: impl Iterator<Item = (u8, String)>) {
        self.links = vec![(0, 0); sockets];
        self.put("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[");
        for socket in 0..sockets {
            let name = if sockets == 1 { "socket".into() } else { format!("socket {socket}") };
            self.meta(&format!("\"process_name\",\"pid\":{socket},\"args\":{{\"name\":\"{name}\"}}"));
        }
        for (agent, (socket, name)) in agents.enumerate() {
            let args = format!("\"args\":{{\"name\":\"{name}\"}}");
            self.meta(&format!("\"thread_name\",\"pid\":{socket},\"tid\":{agent},{args}"));
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

    /// True if an event of this time span is to be written.
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

    /// A core has waited for what is named, perhaps at an address.
    #[cold]
    pub(crate) fn waited(&mut self, socket: u8, core: u8, on: (&str, Option<u32>), from: Ps, to: Ps) {
        let (name, at) = on;
        if name.is_empty() || to <= from || !self.wants(from, to) {
            return;
        }
        let place =
            at.map_or_else(String::new, |at| format!(",\"args\":{{\"at\":\"{}\"}}", self.describe(at)));
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
            let (thing, place) = (self.range(place), self.describe(place));
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
        life.hops.clear();
    }

    /// A request is at a hop.
    #[cold]
    pub(crate) fn hop(&mut self, txn: u32, hop: Hop, at: Ps) {
        if let Some(life) = self.lives.get_mut(txn as usize) {
            life.hops.push((at, hop));
        }
    }

    /// A request has been answered.
    #[cold]
    pub(crate) fn answered(&mut self, t: &Answered, at: Ps) {
        let (txn, socket, home) = (t.txn, t.socket, t.home);
        let Some(life) = self.lives.get_mut(txn as usize) else { return };
        let life = std::mem::take(life);
        // A request from before the trace has no number.
        if life.number == 0 || !self.wants(life.began, at) {
            return;
        }
        let (core, place) = (t.agent, t.line * LINE);
        let request = format!("{:?}", t.request);
        let head = format!(
            "\"name\":\"{request} {}\",\"cat\":\"request\",\"id\":{}",
            self.range(place),
            life.number
        );
        let args = format!(
            "{head},\"args\":{{\"at\":\"{}\",\"line\":{},\"home\":{home},\"request\":\"{request}\"}}",
            self.describe(place),
            t.line
        );
        self.event('b', life.began, socket, core, &args);
        for (when, hop) in &life.hops {
            let name = match hop {
                Hop::Agent => "at the home agent".into(),
                Hop::Home => "at the line's home agent".into(),
                Hop::Snooped(core) => format!("core {core} is snooped"),
                Hop::Deferred(core) => format!("core {core} answers later"),
                Hop::Device(device) => format!("at device {device}"),
                Hop::Answered => "answered".into(),
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

    /// The links that leave a socket have been taken for so long in all: writes their use from time to time.
    #[cold]
    pub(crate) fn link(&mut self, socket: u8, now: Ps, busy: Ps) {
        let (last, before) = self.links[socket as usize];
        if now < last + SAMPLE {
            return;
        }
        self.links[socket as usize] = (now, busy);
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
