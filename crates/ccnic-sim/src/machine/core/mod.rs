//! A core: its private caches, and the window of memory operations that it has under way.
//!
//! Instructions are not seen here, only accesses. The window follows zsim's and Sniper's out-of-order models: what is dispatched
//! takes its place in the reorder buffer, misses take fill buffers, stores wait in order in the store buffer with their
//! ownership requested early. A core that must wait says for what ([`Wait`]), and is resumed by the event that brings it.

mod loads;
mod misses;
mod ordered;
mod polling;
pub mod prefetch;
mod stores;

use std::collections::VecDeque;

use crate::kernel::time::Ps;
use crate::machine::caches::Private;
use crate::machine::core::prefetch::Streams;
use crate::machine::costs::{Costs, Prefetch};
use crate::machine::directory::NONE;
use crate::observe::counters::{Counters, Source};
use crate::platform::Platform;
use crate::protocols::{Request, State};

/// A line that a core has asked for.
#[derive(Debug, Clone, Copy)]
pub struct Miss {
    pub line: u32,
    pub txn: u32,
    /// What was asked for.
    pub request: Request,
    /// Asked for by a hardware prefetcher: takes no fill buffer.
    pub hardware: bool,
    /// The home has answered: from now on other agents' snoops come after the answer.
    pub granted: bool,
    /// A snoop that came before the answer did.
    pub deferred: u32,
    /// A store wants the line, too.
    pub wanted: bool,
    /// A store around the caches.
    pub around: bool,
    /// What it brings tells where the program goes next: a descriptor.
    pub address: bool,
    /// Where in the program order the oldest load stands that waits for it, if there is one.
    pub load: Option<u64>,
}

impl Miss {
    pub fn new(line: u32, request: Request) -> Miss {
        Miss {
            line,
            txn: NONE,
            request,
            hardware: false,
            granted: false,
            deferred: NONE,
            wanted: false,
            around: false,
            address: false,
            load: None,
        }
    }

    /// Another access wants the line that has been asked for, to own it or not.
    pub fn join(&mut self, other: &Miss, own: bool) {
        self.wanted |= own && self.request == Request::Read;
        self.load = [self.load, other.load].into_iter().flatten().min();
        self.address |= other.address;
    }
}

/// A store on its way to the cache.
#[derive(Debug, Clone, Copy)]
pub struct Store {
    pub line: u32,
    pub what: Stored,
    /// Where it stands in the program order: it is done after every load before it.
    pub position: u64,
}

/// What is done with a line when a store's turn comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stored {
    /// Payload is written. Its bytes are in memory already, since only their holder looks.
    Payload,
    /// A word gets a value.
    Word(u32, u64),
    /// The line is demoted: a hint that comes after the stores before it.
    Demote,
    /// A word goes to the device.
    Uncached(u32, u64),
}

/// What a core waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// Nothing: it runs, or its next event is known.
    Nothing,
    /// The value of a word, when its line comes.
    Load(u32),
    /// Ownership of a word's line, to compare it with the first value and replace it by the second.
    Exchange(u32, u64, u64),
    /// The oldest load under way.
    Window,
    /// All loads under way.
    Loads,
    /// All loads under way whose values are addresses.
    Addresses,
    /// A place in the store buffer, or (`true`) an empty one.
    Stores(bool),
    /// A place in the load queue.
    Misses,
    /// One of the lines that it watches.
    Line,
    /// The device, or a write-combining buffer.
    Device,
}

/// One core.
#[derive(Debug)]
pub struct Core {
    pub socket: u8,
    /// Where its program stands. Ahead of the world's time by less than any other agent could notice.
    pub clock: Ps,
    /// Nothing from outside reaches the core before this time.
    pub horizon: Ps,
    pub caches: Private,
    /// Micro-operations dispatched so far: the position in program order.
    pub position: u64,
    /// The position of the oldest load that waits for a line.
    pub oldest: u64,
    pub misses: Vec<Miss>,
    /// Those among them that take no fill buffer, and those that bring addresses.
    pub hardware: usize,
    pub addresses: usize,
    /// Misses that wait for a fill buffer.
    pub queued: VecDeque<Miss>,
    pub stores: VecDeque<Store>,
    /// The line whose words are being stored, and which of them.
    pub open: Option<(u32, u8)>,
    pub wait: Wait,
    /// When the wait began.
    pub since: Ps,
    /// What the event that ended the wait brought.
    pub bound: Option<Result<u64, u64>>,
    /// Arrivals of snoops under way.
    pub snoops: Vec<Ps>,
    /// Lines loaded since the last turn of a polling loop.
    pub watched: Vec<u32>,
    /// One of them has been taken away.
    pub disturbed: bool,
    /// What that costs at the end of the turn.
    pub owed: Ps,
    /// Turns of a polling loop since it slept.
    pub spun: u32,
    /// It has slept in a polling loop.
    pub slept: bool,
    /// When the last turn of the polling loop ended, and how long the shortest took.
    pub turned: Ps,
    pub turn: Ps,
    /// The last line that a load decided on since the last turn, and where in the program order.
    pub decided: (u32, u64),
    /// A time at which a polling loop has something to do whatever its lines say.
    pub deadline: Option<Ps>,
    /// The word whose line has not come, though the program went on as if it brought no news; and the news, if it did.
    pub guessed: Option<u32>,
    pub news: Option<(u32, u64)>,
    /// What it has seen when it looked at words.
    pub looks: Looks,
    pub streams: Streams,
    pub prefetch: Prefetch,
    /// Since when every fill buffer has been taken.
    pub full_since: Option<Ps>,
    pub counters: Counters,
    /// Answers of the last miss, for the trace and the access probes.
    pub last_source: Source,
}

/// The values that a core has last seen of the words that it polls: what its branch predictor goes by. A word and a digest of its
/// value in eight bytes: all of it would be cold in this machine's caches.
#[derive(Debug)]
pub struct Looks(Box<[u64; Looks::WORDS]>);

impl Default for Looks {
    fn default() -> Looks {
        Looks(Box::new([Looks::entry(NONE, 0); Looks::WORDS]))
    }
}

impl Looks {
    const WORDS: usize = 4096;

    /// The words of lines that follow each other lie together, those of a line apart: a ring's reader goes from line to line.
    fn place(at: u32) -> usize {
        const APART: u32 = Looks::WORDS as u32 / 4;
        (at / 16 % 4 * APART + at / 64 % APART) as usize
    }

    fn entry(at: u32, value: u64) -> u64 {
        let digest = value.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        u64::from(at) << 32 | digest
    }

    /// Remembers a word's value; true when it was the same at the last look.
    pub fn expected(&mut self, at: u32, value: u64) -> bool {
        let entry = Looks::entry(at, value);
        std::mem::replace(&mut self.0[Looks::place(at)], entry) == entry
    }

    /// True when a word had this value at the last look.
    pub fn is(&self, at: u32, value: u64) -> bool {
        self.0[Looks::place(at)] == Looks::entry(at, value)
    }
}

/// More watched lines than this, and a polling loop spins.
pub const WATCH: usize = 64;

impl Core {
    pub fn new(p: &Platform, socket: u8, prefetch: Prefetch) -> Core {
        let lines = |c: &crate::platform::Cache| c.size.get() * 1024 / 64;
        Core {
            socket,
            clock: 0,
            horizon: 0,
            caches: Private::new((lines(&p.l1), p.l1.ways.get()), (lines(&p.l2), p.l2.ways.get())),
            position: 0,
            oldest: u64::MAX,
            misses: Vec::with_capacity(64),
            hardware: 0,
            addresses: 0,
            queued: VecDeque::new(),
            stores: VecDeque::new(),
            open: None,
            wait: Wait::Nothing,
            since: 0,
            bound: None,
            snoops: Vec::new(),
            watched: Vec::new(),
            disturbed: false,
            owed: 0,
            spun: 0,
            slept: false,
            turned: 0,
            turn: Ps::MAX,
            decided: (NONE, 0),
            deadline: None,
            guessed: None,
            news: None,
            looks: Looks::default(),
            streams: Streams::default(),
            prefetch,
            full_since: None,
            counters: Counters::default(),
            last_source: Source::Nowhere,
        }
    }

    /// The state of a line in the private caches; does not count as a use.
    #[inline]
    pub fn state(&self, line: u32) -> State {
        self.caches.state(line)
    }

    /// The miss under way for a line.
    #[inline]
    pub fn miss(&mut self, line: u32) -> Option<&mut Miss> {
        self.misses.iter_mut().find(|m| m.line == line)
    }

    /// True when a line has been asked for, or waits to be.
    pub fn expects(&self, line: u32) -> bool {
        self.misses.iter().chain(&self.queued).any(|m| m.line == line)
    }

    /// Misses that take a fill buffer.
    pub fn buffers(&self) -> usize {
        self.misses.len() - self.hardware
    }

    /// The value that this core's own stores under way give a word.
    #[inline]
    pub fn forwarded(&self, at: u32) -> Option<u64> {
        self.stores.iter().rev().find_map(|s| match s.what {
            Stored::Word(word, value) if word == at => Some(value),
            _ => None,
        })
    }

    /// True when the oldest load under way is so old that nothing more can be dispatched.
    #[inline]
    pub fn window_full(&self, costs: &Costs) -> bool {
        self.position.saturating_sub(self.oldest) >= costs.rob
    }

    /// True when no load, and no store around the caches, is under way.
    pub fn is_settled(&self) -> bool {
        self.oldest == u64::MAX && !self.misses.iter().chain(&self.queued).any(|m| m.around)
    }

    /// Looks again which load is the oldest.
    pub fn find_oldest(&mut self) {
        let loads = self.misses.iter().chain(&self.queued).filter_map(|m| m.load);
        self.oldest = loads.min().unwrap_or(u64::MAX);
    }
}
