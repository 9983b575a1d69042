//! A core: its private caches, and the memory operations that it has under way.
//!
//! Instructions are not simulated, only accesses. The window follows the out-of-order models of zsim and Sniper: what is dispatched
//! takes a place in the reorder buffer, misses take fill buffers (MSHRs), stores wait in order in the store buffer with their
//! ownership requested early.
//!
//! Every access is a method that either has its effect and returns [`Poll::Ready`], or notes what the core waits for ([`Wait`]) and
//! returns [`Poll::Pending`]; it is called again when an event has resumed the core. Between two events a core runs ahead of
//! the simulated time, within its [lookahead](crate::kernel::lookahead).
//!
//! | file | has |
//! |---|---|
//! | `loads.rs` | loads, prefetches by software and hardware |
//! | `stores.rs` | the store buffer |
//! | `ordered.rs` | compare-and-exchange, fences, non-temporal stores, flushes |
//! | `uncached.rs` | accesses to devices: uncached and write-combining |
//! | `misses.rs` | MSHRs: asks for lines, and takes in what comes |
//! | `snooped.rs` | what home agents and devices do to the core's lines |
//! | `polling.rs` | empty polls, and what ends them |
//! | `mshr.rs`, `store_buffer.rs`, `combining.rs`, `monitor.rs`, `predictor.rs`, `prefetch.rs` | the state of each |
//! | `charge.rs` | when instructions are charged |
//! | here | dispatch, waits, time |

pub mod charge;
mod combining;
mod loads;
mod misses;
mod monitor;
pub mod mshr;
mod ordered;
mod polling;
mod predictor;
mod prefetch;
mod snooped;
mod store_buffer;
mod stores;
mod uncached;

use std::collections::VecDeque;
use std::task::Poll;

use crate::kernel::lookahead::Lookahead;
use crate::kernel::server::Server;
use crate::kernel::time::Ps;
use crate::machine::caches::mask::RequesterClass;
use crate::machine::caches::private::Private;
use crate::machine::costs::{Costs, Prefetch};
use crate::machine::ids::{AgentId, DeviceId, SocketId};
use crate::machine::uncore::Uncore;
use crate::observe::counters::{Counters, Source};
use crate::platform::{Code, Platform};
use crate::protocols::table::State;

use charge::Charge;
use combining::CombiningBuffers;
use monitor::Monitor;
use mshr::{Mshr, NO_LOAD};
use predictor::Predictor;
use prefetch::Prefetchers;
use store_buffer::Store;

/// Instructions take their places in the reorder buffer so many at a time.
pub const AT_ONCE: u64 = 64;

/// What a core waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// Nothing: it runs, or the event that resumes it is scheduled.
    Nothing,
    /// The value of a word, when its line comes.
    Load(u32),
    /// Ownership of a word's line, to replace the first value by the second.
    Exchange(u32, u64, u64),
    /// The oldest load under way: the reorder buffer is full.
    Window,
    /// All loads under way.
    Loads,
    /// All loads under way from whose values addresses are computed.
    Addresses,
    /// Room in the store buffer, or (`true`) until it is empty.
    Stores(bool),
    /// Room in the load queue.
    Misses,
    /// A line that it monitors.
    Line,
    /// A device, or a write-combining buffer.
    Device,
}

impl Wait {
    /// What a trace calls it, and the address.
    fn label(self) -> (&'static str, Option<u32>) {
        match self {
            Wait::Nothing => ("", None),
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
        }
    }
}

/// One core; or, without a program, the agent by which a device takes part in coherence.
#[derive(Debug)]
pub struct Core {
    pub id: AgentId,
    pub socket: SocketId,
    /// Whose ways of the last-level cache its evicted lines go into.
    pub class: RequesterClass,
    /// The device whose agent it is.
    pub device: Option<DeviceId>,
    /// Where its program stands. Ahead of the simulated time by less than its lookahead.
    pub clock: Ps,
    pub lookahead: Lookahead,
    pub caches: Private,
    /// Instructions dispatched so far: the position in program order. The reorder buffer holds so many of them.
    position: u64,
    /// What its program executes between accesses.
    pub code: Code,
    pub charge: Charge,
    /// The position of the oldest load that waits for a line.
    oldest_load: u64,
    /// Requests under way.
    pub mshrs: Vec<Mshr>,
    /// How many of them are of hardware prefetchers, and how many bring addresses.
    prefetches: usize,
    addresses: usize,
    /// Misses that wait for a fill buffer.
    queued: VecDeque<Mshr>,
    stores: VecDeque<Store>,
    /// The line whose words are being stored, and which of them: one request for all.
    coalescing: Option<(u32, u8)>,
    uncached: CombiningBuffers,
    wait: Wait,
    /// When the wait began.
    since: Ps,
    /// The value that the event which ended the wait brought.
    completed: Option<Result<u64, u64>>,
    pub monitor: Monitor,
    predictor: Predictor,
    prefetchers: Prefetchers,
    /// Which of them are on.
    prefetch: Prefetch,
    /// The path that its lines share, where the platform has it. A device's agent has none.
    path: Option<Server>,
    /// Since when every fill buffer has been taken.
    full_since: Option<Ps>,
    pub counters: Counters,
    /// Where the last miss was answered.
    pub last_source: Source,
}

impl Core {
    /// A core of a platform with empty caches.
    pub fn new(
        id: AgentId,
        socket: SocketId,
        class: RequesterClass,
        p: &Platform,
        prefetch: Prefetch,
    ) -> Core {
        let lines = |c: &crate::platform::Cache| c.size.get() * 1024 / 64;
        Core {
            id,
            socket,
            class,
            device: None,
            clock: 0,
            lookahead: Lookahead::default(),
            caches: Private::new((lines(&p.l1), p.l1.ways.get()), (lines(&p.l2), p.l2.ways.get())),
            position: 0,
            code: Code::PROBE,
            charge: Charge::default(),
            oldest_load: NO_LOAD,
            mshrs: Vec::with_capacity(64),
            prefetches: 0,
            addresses: 0,
            queued: VecDeque::new(),
            stores: VecDeque::new(),
            coalescing: None,
            uncached: CombiningBuffers::default(),
            wait: Wait::Nothing,
            since: 0,
            completed: None,
            monitor: Monitor::default(),
            predictor: Predictor::default(),
            prefetchers: Prefetchers::default(),
            prefetch,
            path: (class == RequesterClass::Core && p.core.line.is_some()).then(Server::default),
            full_since: None,
            counters: Counters::default(),
            last_source: Source::Nowhere,
        }
    }

    /// The state of a line in the private caches; does not count as an access.
    #[inline]
    pub fn state(&self, line: u32) -> State {
        self.caches.state(line)
    }

    /// A program has been put on the core: it begins now.
    pub fn start(&mut self, u: &mut Uncore) {
        self.clock = self.clock.max(u.now);
        u.resume(self.id, self.clock);
    }

    /// The program has ended: what it has stored reaches memory all the same.
    pub fn finish(&mut self, u: &mut Uncore) {
        self.close(u);
        self.drain(u);
    }

    /// The time at which the core was to be resumed has come. False when another event has resumed it before.
    pub fn resumed(&mut self, u: &mut Uncore) -> bool {
        match self.wait {
            Wait::Line if self.monitor.deadline.is_some_and(|d| d <= u.now) => {
                u.observer.waited(self.socket, self.id, self.wait.label(), self.since, u.now);
                self.counters.idle += u.now - self.since.min(u.now);
                (self.wait, self.clock) = (Wait::Nothing, u.now.max(self.clock));
            }
            Wait::Nothing if self.clock == u.now => {}
            _ => return false,
        }
        self.look_ahead(u);
        true
    }

    /// Sets how far the core may run ahead: what others do from now on reaches it no sooner.
    #[inline]
    fn look_ahead(&mut self, u: &Uncore) {
        let k = &u.costs;
        self.lookahead.extend(u.now + k.mesh + k.lookup.min(k.snoop + k.mesh));
    }

    /// True when the core may dispatch its next access now. Otherwise it is noted what it waits for.
    #[inline]
    pub fn can_dispatch(&mut self, u: &mut Uncore) -> bool {
        if self.lookahead.is_reached(self.clock) {
            if u.events.next_at().is_some_and(|at| at <= self.clock) {
                u.resume(self.id, self.clock);
                return false;
            }
            u.now = self.clock;
            self.look_ahead(u);
        }
        if self.is_window_full(&u.costs) {
            self.wait_for(u, Wait::Window);
            return false;
        }
        true
    }

    /// Dispatches instructions that take so long.
    #[inline]
    fn dispatch_for(&mut self, time: Ps, instructions: u64) {
        self.clock += time;
        self.counters.software += time;
        self.position += instructions;
    }

    /// Dispatches instructions.
    #[inline]
    fn dispatch(&mut self, u: &Uncore, instructions: u64) {
        self.dispatch_for(instructions * u.costs.instruction, instructions);
    }

    /// True when the core may make its next access now: what its program executes before has been dispatched. Of a line whose words are
    /// being stored ownership is requested before that, unless it is the line of the access.
    #[inline]
    fn can_access(&mut self, u: &mut Uncore, line: u32) -> bool {
        while self.charge.is_due() {
            if !self.can_dispatch(u) {
                return false;
            }
            if self.coalescing.is_some_and(|(open, _)| open != line) {
                self.close(u);
            }
            let some = self.charge.next(AT_ONCE);
            self.dispatch(u, some);
        }
        self.can_dispatch(u)
    }

    /// When a line that reaches the core's own path at a time has passed it.
    #[inline]
    pub fn pass_line(&mut self, u: &Uncore, at: Ps) -> Ps {
        self.path.as_mut().map_or(at, |path| path.serve(at, u.costs.line))
    }

    /// Dispatches the instructions of a line of payload that is read or written: they take as long as the line on its path at least.
    #[inline]
    fn dispatch_line(&mut self, u: &Uncore) {
        let passed = self.pass_line(u, self.clock);
        self.dispatch(u, self.code.line);
        self.counters.window_stall += passed.saturating_sub(self.clock);
        self.clock = self.clock.max(passed);
    }

    /// Dispatches the one instruction that loads, stores, prefetches or orders.
    #[inline]
    fn one_instruction(&mut self, u: &Uncore) {
        self.charge.count(1);
        self.dispatch(u, 1);
    }

    /// Spends time in the program's own instructions.
    pub fn work(&mut self, u: &mut Uncore, time: Ps) -> Poll<()> {
        self.execute(u, time, time / u.costs.instruction)
    }

    /// Executes instructions that access nothing.
    pub fn instructions(&mut self, u: &mut Uncore, instructions: u64) -> Poll<()> {
        self.execute(u, instructions * u.costs.instruction, instructions)
    }

    fn execute(&mut self, u: &mut Uncore, time: Ps, instructions: u64) -> Poll<()> {
        if !self.can_dispatch(u) {
            return Poll::Pending;
        }
        self.close(u);
        self.dispatch_for(time, instructions);
        Poll::Ready(())
    }

    /// The core waits from now on.
    fn wait_for(&mut self, u: &mut Uncore, wait: Wait) {
        self.close(u);
        (self.wait, self.since) = (wait, self.clock);
    }

    /// Ends the wait at a time.
    fn wake(&mut self, u: &mut Uncore, at: Ps) {
        let end = at.max(self.clock);
        u.observer.waited(self.socket, self.id, self.wait.label(), self.since, end);
        let waited = end - self.since.min(end);
        match self.wait {
            Wait::Nothing => return,
            Wait::Load(_) | Wait::Exchange(..) | Wait::Addresses => self.counters.load_stall += waited,
            Wait::Window | Wait::Loads | Wait::Misses => self.counters.window_stall += waited,
            Wait::Stores(_) | Wait::Device => self.counters.store_stall += waited,
            Wait::Line => self.counters.idle += waited,
        }
        self.wait = Wait::Nothing;
        self.clock = end;
        u.resume(self.id, end);
    }

    /// True when the oldest load under way is so old that nothing more can be dispatched.
    #[inline]
    fn is_window_full(&self, costs: &Costs) -> bool {
        self.position.saturating_sub(self.oldest_load) >= costs.rob
    }

    /// True when no load, and no non-temporal store, is under way.
    fn is_settled(&self) -> bool {
        self.oldest_load == NO_LOAD && !self.mshrs.iter().chain(&self.queued).any(|m| m.non_temporal)
    }
}
