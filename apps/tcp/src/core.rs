//! A stack without its queue pair: what becomes of its connections between frames.

use std::collections::VecDeque;
use std::io;
use std::net::IpAddr;

use ccnic_client::{Burst, QueuePair, Takes};

use crate::attach::random;
use crate::clock::Time;
use crate::connections::{Conn, Connections, Entry, Holder};
use crate::engine::{Engine, Micros, NEVER, Phase};
use crate::fragments::Reassembly;
use crate::icmp::Limit;
use crate::local::Addresses;
use crate::neighbours::{Group, Neighbours};
use crate::options::Options;
use crate::paths::Paths;
use crate::secret::Secret;
use crate::sockets::{Listening, Ports};
use crate::stack::{BURST, Counters, Event, LOOK, Ready};
use crate::timers::Timers;
use crate::transmit::Transmit;
use crate::udp::Datagrams;

/// Closed connections whose memory is kept for new ones.
const SPARE: usize = 64;

/// A stack without its queue pair, which lends the frames.
#[derive(Debug)]
pub(crate) struct Core<E: Engine> {
    pub(crate) engine: E,
    pub(crate) connections: Connections<E::Tcp>,
    pub(crate) listeners: Vec<Option<Listening>>,
    pub(crate) ports: Ports,
    pub(crate) secret: Secret,
    pub(crate) timers: Timers,
    /// Those that may have to send.
    pub(crate) dirty: Vec<Conn>,
    /// Those that have to wait until a neighbour has answered.
    pub(crate) unresolved: Vec<Conn>,
    /// Those about which the program may have to be told.
    pub(crate) touched: Vec<Conn>,
    pub(crate) events: VecDeque<Event>,
    /// Those in TIME-WAIT, the oldest first.
    time_wait: VecDeque<Conn>,
    /// Closed connections whose memory can be used again.
    pub(crate) used: Vec<E::Tcp>,
    pub(crate) out: Transmit,
    pub(crate) options: Options,
    pub(crate) mac: [u8; 6],
    pub(crate) addresses: Addresses,
    /// Ports whose datagrams the program takes.
    pub(crate) bound: Vec<u16>,
    pub(crate) neighbours: Neighbours,
    /// Learnt from errors about TCP, which quote a number that is in flight: nobody beside the path knows it.
    pub(crate) paths: Paths,
    /// Learnt from errors about datagrams and pings, which anybody can make up: no connection follows them.
    pub(crate) datagram_paths: Paths,
    pub(crate) reassembly: Reassembly,
    /// The host that has sent a ping last.
    pub(crate) pinged_by: Option<IpAddr>,
    pub(crate) unreachable: Limit,
    pub(crate) group: Group,
    pub(crate) time: Time,
    pub(crate) now: Micros,
    /// Frames that may have waited in the ring while the stack did not look: they are received before any time is over.
    pub(crate) behind: usize,
    /// When the last frame came.
    pub(crate) heard: Micros,
    pub(crate) counters: Counters,
    /// A frame of several segments, put together.
    scratch: Vec<u8>,
    /// Lists that are being worked through, empty between calls.
    work: Vec<Conn>,
}

impl<E: Engine> Core<E> {
    pub(crate) fn new(
        engine: E,
        options: Options,
        mac: [u8; 6],
        out: Transmit,
        group: Group,
        ports: Ports,
    ) -> Core<E> {
        let addresses = Addresses::new(&options, mac);
        let time = Time::new(options.clock.clone());
        Core {
            engine,
            connections: Connections::new(),
            listeners: Vec::new(),
            ports,
            secret: Secret::new([random(), random()]),
            timers: Timers::default(),
            dirty: Vec::new(),
            unresolved: Vec::new(),
            touched: Vec::new(),
            events: VecDeque::new(),
            time_wait: VecDeque::new(),
            used: Vec::new(),
            out,
            options,
            mac,
            addresses,
            bound: Vec::new(),
            neighbours: Neighbours::default(),
            paths: Paths::new(),
            datagram_paths: Paths::new(),
            reassembly: Reassembly::default(),
            pinged_by: None,
            unreachable: Limit::default(),
            group,
            time,
            now: 0,
            behind: 0,
            heard: 0,
            counters: Counters::default(),
            scratch: Vec::new(),
            work: Vec::new(),
        }
    }

    #[inline]
    pub(crate) fn tick(&mut self) {
        let (passed, stopped) = self.time.passed();
        self.now += passed;
        if stopped {
            self.behind = self.options.config.ring as usize;
        }
    }

    /// No frame has come for so long that it is to be looked whether the NIC is there, which was done at `looked`.
    #[inline]
    pub(crate) fn is_silent(&self, looked: Micros) -> bool {
        self.now.saturating_sub(self.heard.max(looked)) > LOOK
    }

    /// Unless a frame has come, there is nothing to do.
    #[inline]
    pub(crate) fn is_quiet(&self, looked: Micros) -> bool {
        self.behind == 0
            && self.dirty.is_empty()
            && self.touched.is_empty()
            && self.out.is_quiet()
            && self.timers.next().is_none_or(|at| at > self.now)
            && !self.group.waits()
            && !self.is_silent(looked)
    }

    pub(crate) fn mark_dirty(&mut self, conn: Conn) {
        if let Some(entry) = self.connections.get_mut(conn)
            && !entry.dirty
        {
            entry.dirty = true;
            self.dirty.push(conn);
        }
    }

    pub(crate) fn mark_touched(&mut self, conn: Conn) {
        if let Some(entry) = self.connections.get_mut(conn)
            && !entry.touched
        {
            entry.touched = true;
            self.touched.push(conn);
        }
    }

    /// Has the timers ask for a connection in time.
    pub(crate) fn arm(&mut self, conn: Conn) {
        let Some(entry) = self.connections.get_mut(conn) else { return };
        let at = entry.deadline.min(entry.expires);
        if at < entry.queued {
            entry.queued = at;
            self.timers.add(at, conn);
        }
    }

    /// Looks at the connections whose time has come.
    pub(crate) fn run_timers(&mut self) {
        while let Some(conn) = self.timers.due(self.now) {
            let now = self.now;
            let Some(entry) = self.connections.get_mut(conn) else { continue };
            entry.queued = NEVER;
            if entry.expires <= now {
                self.settle(conn); // it may just have been established
            }
            let Some(entry) = self.connections.get_mut(conn) else { continue };
            if entry.expires <= now {
                entry.expires = NEVER;
                entry.error = Some(io::ErrorKind::TimedOut);
                self.counters.half_open_expired += u64::from(matches!(entry.holder, Holder::Handshake(_)));
                E::abort(&mut entry.tcp);
            } else if entry.deadline > now {
                self.arm(conn);
                continue;
            }
            self.mark_dirty(conn);
            self.mark_touched(conn);
        }
    }

    /// Lets connections send that may have something to send.
    pub(crate) fn send(&mut self) {
        if self.dirty.is_empty() {
            return;
        }
        std::mem::swap(&mut self.dirty, &mut self.work);
        let mut work = std::mem::take(&mut self.work);
        for conn in work.drain(..) {
            let now = self.now;
            let Some(entry) = self.connections.get_mut(conn) else { continue };
            entry.dirty = false;
            let next = self.engine.output(now, &mut entry.tcp, &mut self.out);
            entry.deadline = next.at;
            if next.at <= now {
                entry.dirty = true; // there was no room
                self.dirty.push(conn);
                continue;
            }
            if next.unresolved && !entry.unresolved {
                entry.unresolved = true;
                self.unresolved.push(conn);
            }
            if entry.opened && entry.holder == Holder::Program && E::phase(&entry.tcp) == Phase::Open {
                self.arm(conn); // nothing else can have changed
            } else {
                self.settle(conn);
            }
        }
        self.work = work;
        if self.unresolved.len() > 2 * self.connections.len() + SPARE {
            self.unresolved.retain(|conn| self.connections.get(*conn).is_some());
        }
    }

    /// A neighbour has answered: those that wait for one try again.
    pub(crate) fn resolved(&mut self) {
        for conn in std::mem::take(&mut self.unresolved) {
            if let Some(entry) = self.connections.get_mut(conn) {
                entry.unresolved = false;
            }
            self.mark_dirty(conn);
        }
    }

    /// Draws the consequences of what the engine has done with a connection.
    pub(crate) fn settle(&mut self, conn: Conn) {
        let Some(entry) = self.connections.get_mut(conn) else { return };
        match E::phase(&entry.tcp) {
            Phase::Listening => self.forget(conn),
            Phase::Opening => self.arm(conn),
            Phase::Open => {
                self.opened(conn);
                self.arm(conn);
            }
            Phase::TimeWait => {
                self.opened(conn);
                self.arm(conn);
                self.wait(conn);
            }
            Phase::Closed => self.closed(conn),
        }
    }

    /// The connection is established.
    fn opened(&mut self, conn: Conn) {
        let Some(entry) = self.connections.get_mut(conn) else { return };
        if entry.opened {
            return;
        }
        entry.opened = true;
        match entry.holder {
            Holder::Handshake(listener) => {
                entry.expires = NEVER;
                entry.holder = Holder::Queue(listener);
                self.established(listener, conn);
            }
            Holder::Program => {
                entry.expires = NEVER;
                entry.wants_room = true; // so that it is told
                self.mark_touched(conn);
            }
            Holder::Queue(_) | Holder::Nobody => {}
        }
    }

    /// Both sides have closed: the oldest of those that nobody holds make room.
    fn wait(&mut self, conn: Conn) {
        let most = self.options.time_wait;
        let Some(entry) = self.connections.get_mut(conn) else { return };
        if entry.waits || entry.holder != Holder::Nobody {
            return;
        }
        entry.waits = true;
        entry.expires = NEVER; // the engine has a time for it
        E::release(&mut entry.tcp);
        self.time_wait.push_back(conn);
        while self.time_wait.len() > most
            && let Some(oldest) = self.time_wait.pop_front()
        {
            self.forget(oldest);
        }
    }

    /// The connection is no more.
    fn closed(&mut self, conn: Conn) {
        let Some(entry) = self.connections.get_mut(conn) else { return };
        match entry.holder {
            Holder::Handshake(_) | Holder::Nobody => self.forget(conn),
            Holder::Program | Holder::Queue(_) => {
                if entry.error.is_none() && !E::finished(&mut entry.tcp) && E::readable(&entry.tcp) == 0 {
                    let refused = !entry.opened;
                    entry.error = Some(match refused {
                        true => io::ErrorKind::ConnectionRefused,
                        false => io::ErrorKind::ConnectionReset,
                    });
                }
                entry.opened = true;
                (entry.expires, entry.deadline) = (NEVER, NEVER);
                self.mark_touched(conn);
            }
        }
    }

    /// Removes a connection; its memory is kept for another one.
    pub(crate) fn forget(&mut self, conn: Conn) {
        let Some(entry) = self.connections.remove(conn) else { return };
        if let Holder::Handshake(listener) = entry.holder
            && let Some(Some(listening)) = self.listeners.get_mut(usize::from(listener))
        {
            listening.half_open -= 1;
        }
        if self.used.len() < SPARE && !entry.waits {
            self.used.push(entry.tcp);
        }
    }

    /// Tells the program about the connections that were touched.
    pub(crate) fn tell(&mut self) {
        if self.touched.is_empty() {
            return;
        }
        std::mem::swap(&mut self.touched, &mut self.work);
        let mut work = std::mem::take(&mut self.work);
        for conn in work.drain(..) {
            if let Some(entry) = self.connections.get_mut(conn) {
                entry.touched = false;
            }
            self.settle(conn);
            // What that has touched is told now, too.
            if let Some(entry) = self.connections.get_mut(conn) {
                entry.touched = false;
                if let Some(ready) = readiness::<E>(entry) {
                    self.events.push_back(Event::Ready(conn, ready));
                }
            }
        }
        self.work = work;
        self.touched.clear();
    }

    /// The queue pair is another NIC's: who and where the neighbours are is asked again.
    pub(crate) fn moved(&mut self, takes: Takes) {
        self.out.moved(takes);
        self.neighbours = Neighbours::default();
        self.engine.moved(self.now, self.out.segmentation(), random());
        self.resolved();
        self.counters.reconnects += 1;
    }

    /// When the stack has to be polled again at the latest.
    pub(crate) fn next(&self) -> Micros {
        let waits = self.dirty.is_empty() && self.behind == 0;
        if waits { self.timers.next().unwrap_or(NEVER) } else { self.now }
    }
}

impl<E: Engine> Core<E> {
    /// Receives packets of which the first has several segments; returns the number of packets.
    #[cold]
    pub(crate) fn receive_segmented<H: Datagrams>(&mut self, pair: &mut QueuePair, handler: &mut H) -> usize {
        let (mut burst, mut packets) = (Burst::new(), 0);
        pair.rx_burst(&mut burst, BURST);
        let mut scratch = std::mem::take(&mut self.scratch);
        let mut meta = 0;
        for buf in burst.as_slice() {
            if scratch.is_empty() {
                meta = buf.meta();
            }
            if scratch.is_empty() && !buf.more() {
                pair.with(buf, |bytes| self.frame(bytes, meta, handler));
                packets += 1;
                continue;
            }
            pair.with(buf, |bytes| scratch.extend_from_slice(bytes));
            if !buf.more() {
                self.frame(&scratch, meta, handler);
                scratch.clear();
                packets += 1;
            }
        }
        scratch.clear();
        self.scratch = scratch;
        pair.free(&mut burst);
        packets
    }
}

/// What a connection is ready for, if the program holds it and wants to know.
fn readiness<E: Engine>(entry: &mut Entry<E::Tcp>) -> Option<Ready> {
    if entry.holder != Holder::Program || !entry.opened {
        return None;
    }
    let closed = E::phase(&entry.tcp) == Phase::Closed;
    let readable = E::readable(&entry.tcp) > 0 || closed || E::finished(&mut entry.tcp);
    let writable = entry.wants_room && E::writable(&entry.tcp).is_some_and(|room| room > 0);
    entry.wants_room &= !writable;
    (readable || writable || closed).then_some(Ready { readable, writable, closed })
}
