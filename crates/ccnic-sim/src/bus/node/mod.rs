//! A node: memory, caches on a snooping bus, the agents that use them (processors, and the engines of the network interface), and its
//! end of the network.
//!
//! The bytes of a block are kept once: a block has one writer at a time. A transaction changes the caches' states when it is asked
//! for; the requester sees the bytes when its transaction is over. Since buses grant in the order of asking, that is the same.

mod access;

use std::ops::Range;

use super::buses::{Attachment, Buses, Cycle, Operation};
use super::cache::Cache;
use super::network::{Event, Events, Message, NetworkPort};
use crate::machine::ram::Ram;
use crate::platform::BusPlatform;
use crate::protocols::snooping::{Snooping, State};

/// Bytes of a block.
pub const BLOCK: u32 = 64;

/// The registers of a network interface, and what it sees of the bus. Its engines are programs that share its state.
pub trait Device {
    /// The processor loads a register; true if that concerns an engine.
    fn load(&mut self, register: u32) -> (u64, bool);
    /// The processor stores to one; true if that concerns an engine.
    fn store(&mut self, register: u32, value: u64) -> bool;
    /// A processor is going to write a block of [`Wiring::watched`]: blocks before it are complete (virtual polling, CNI section 3).
    fn snooped(&mut self, block: u32);
}

/// How a network interface is connected.
pub struct Wiring {
    /// Where it is.
    pub attachment: Attachment,
    /// Its cache.
    pub cache: Cache,
    /// The addresses that it is home of.
    pub home: Range<u32>,
    /// The blocks whose invalidations by the processor it wants to see.
    pub watched: Range<u32>,
    /// Processors' caches take in blocks that it writes back (data snarfing, CNI section 5.1.2).
    pub snarfing: bool,
    /// Its registers.
    pub device: Box<dyn Device>,
}

impl std::fmt::Debug for Wiring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Wiring { attachment, home, watched, snarfing, .. } = self;
        f.debug_struct("Wiring")
            .field("attachment", attachment)
            .field("home", home)
            .field("watched", watched)
            .field("snarfing", snarfing)
            .finish_non_exhaustive()
    }
}

/// What an agent waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asleep {
    /// Nothing.
    No,
    /// One of these blocks (those that are not `u32::MAX`) is invalidated; it looks at them once a period.
    Blocks([u32; 3], Cycle),
    /// The device changes something.
    Register,
    /// Anything that concerns the device.
    Device,
}

/// A program's place.
#[derive(Debug)]
struct Seat {
    clock: Cycle,
    /// When it goes on; never, if it sleeps or has ended.
    wake: Cycle,
    asleep: Asleep,
    /// Which cache it uses.
    cache: usize,
    /// Ends of uncached stores that wait for the bus.
    stores: std::collections::VecDeque<Cycle>,
}

/// What a node has counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Cycles that the memory bus was occupied.
    pub memory_bus: Cycle,
    /// Cycles that the I/O bus was.
    pub io_bus: Cycle,
    /// Blocks that were read over a bus.
    pub reads: u64,
    /// Invalidations.
    pub invalidations: u64,
    /// Blocks that were written back.
    pub write_backs: u64,
    /// Blocks that were taken in while they were written back.
    pub snarfed: u64,
    /// Network messages sent.
    pub messages: u64,
}

/// A node.
pub struct Node {
    pub(super) ram: Ram,
    pub(super) port: NetworkPort,
    number: usize,
    protocol: &'static Snooping,
    caches: Vec<Cache>,
    seats: Vec<Seat>,
    buses: Buses,
    wiring: Option<Wiring>,
    pub(super) events: Events,
    /// The agent that runs must not go beyond this time.
    limit: Cycle,
    miss: Cycle,
    store_buffer: usize,
    counts: Counts,
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Node")
            .field("number", &self.number)
            .field("seats", &self.seats)
            .finish_non_exhaustive()
    }
}

impl Node {
    /// A node with so many processors and bytes of memory; cache 0 is the first processor's, the last one the device's.
    pub fn new(
        p: &BusPlatform,
        number: usize,
        processors: usize,
        bytes: u32,
        wiring: Option<Wiring>,
    ) -> Node {
        let blocks = p.cache.size.get() * 1024 / BLOCK;
        let mut caches: Vec<Cache> = (0..processors).map(|_| Cache::new(blocks)).collect();
        let attachment = wiring.as_ref().map_or(Attachment::MemoryBus, |w| w.attachment);
        caches.extend(wiring.as_ref().map(|w| w.cache.clone()));
        Node {
            ram: Ram::new(bytes),
            port: NetworkPort::new(
                p.nodes.get() as usize,
                p.network.window.get(),
                p.network.latency.get().into(),
            ),
            number,
            protocol: p.protocol,
            caches,
            seats: Vec::new(),
            buses: Buses::new(p, attachment),
            wiring,
            events: Events::default(),
            limit: 0,
            miss: p.processor.miss.get().into(),
            store_buffer: p.processor.store_buffer.get() as usize,
            counts: Counts::default(),
        }
    }

    /// A place for a program that uses a cache; returns its number.
    pub(super) fn seat(&mut self, cache: usize) -> usize {
        self.seats.push(Seat { clock: 0, wake: 0, asleep: Asleep::No, cache, stores: Default::default() });
        self.seats.len() - 1
    }

    /// The device's cache.
    pub(super) fn device_cache(&self) -> usize {
        self.caches.len() - 1
    }

    fn is_device(&self, cache: usize) -> bool {
        self.wiring.is_some() && cache == self.device_cache()
    }

    /// What it has counted.
    pub fn counts(&self) -> Counts {
        Counts { memory_bus: self.buses.memory_busy(), io_bus: self.buses.io_busy(), ..self.counts }
    }

    /// The state of a block in a cache.
    pub fn state(&self, cache: usize, at: u32) -> State {
        self.caches[cache].state(at / BLOCK)
    }

    // ---- time

    /// When something happens next.
    pub(super) fn next_at(&self) -> Cycle {
        self.seats.iter().map(|s| s.wake).min().unwrap_or(Cycle::MAX).min(self.events.next_at())
    }

    /// Handles events before `end`; returns the agent that goes on next, if one does before then.
    pub(super) fn next(&mut self, end: Cycle) -> Option<usize> {
        loop {
            let (agent, wake) = self.seats.iter().map(|s| s.wake).enumerate().min_by_key(|s| s.1)?;
            let event = self.events.next_at();
            if event < end && event <= wake {
                let (at, event) = self.events.pop()?;
                self.happens(at, event);
                continue;
            }
            if wake >= end {
                return None;
            }
            let others = self.seats.iter().enumerate().filter(|(i, _)| *i != agent).map(|(_, s)| s.wake);
            let others = others.min().unwrap_or(Cycle::MAX).min(event).min(end);
            self.limit = others.max(wake + 1);
            let seat = &mut self.seats[agent];
            (seat.clock, seat.wake) = (wake, Cycle::MAX);
            return Some(agent);
        }
    }

    fn happens(&mut self, at: Cycle, event: Event) {
        match event {
            Event::Arrived(message) => self.port.inbox.push_back(message),
            Event::Acknowledged(node) => self.port.acknowledged(node),
            Event::Stored(register, value) => {
                if !self.wiring.as_mut().is_some_and(|w| w.device.store(register, value)) {
                    return;
                }
            }
            Event::Snooped(block) => {
                if let Some(wiring) = &mut self.wiring {
                    wiring.device.snooped(block);
                }
            }
        }
        self.device_changed(at);
    }

    /// Wakes whoever waits for the device.
    pub(super) fn device_changed(&mut self, at: Cycle) {
        for i in 0..self.seats.len() {
            match self.seats[i].asleep {
                Asleep::Device => self.wake(i, at.max(self.seats[i].clock)),
                Asleep::Register => {
                    let seen = self.buses.end_polling(at);
                    self.wake(i, seen);
                }
                Asleep::No | Asleep::Blocks(..) => {}
            }
        }
    }

    fn wake(&mut self, agent: usize, at: Cycle) {
        let seat = &mut self.seats[agent];
        (seat.asleep, seat.wake) = (Asleep::No, at);
        self.limit = self.limit.min(at);
    }

    fn add_event(&mut self, at: Cycle, event: Event) {
        self.limit = self.limit.min(at);
        self.events.push(at, event);
    }

    /// The agent has to let others go first: it is resumed at its own time.
    pub(super) fn must_wait(&mut self, agent: usize) -> bool {
        let wait = self.seats[agent].clock >= self.limit;
        if wait {
            self.seats[agent].wake = self.seats[agent].clock;
        }
        wait
    }

    /// The agent's clock.
    pub(super) fn clock(&self, agent: usize) -> Cycle {
        self.seats[agent].clock
    }

    /// The agent spends time.
    pub(super) fn spend(&mut self, agent: usize, cycles: Cycle) {
        self.seats[agent].clock += cycles;
    }

    // ---- waiting

    /// Sleeps until the device or the network changes something.
    pub(super) fn sleep(&mut self, agent: usize) {
        self.seats[agent].asleep = Asleep::Device;
    }

    /// Polls a register whose last load was over now, until the device changes something.
    pub(super) fn poll_register(&mut self, agent: usize, pause: Cycle) {
        let clock = self.seats[agent].clock;
        self.buses.begin_polling(clock + pause, pause);
        self.seats[agent].asleep = Asleep::Register;
    }

    /// Polls blocks, each once a period, until one is invalidated; does not begin if one is not there.
    pub(super) fn poll_blocks(&mut self, agent: usize, at: &[u32], period: Cycle) -> bool {
        let seat = &mut self.seats[agent];
        if at.iter().any(|at| !self.caches[seat.cache].state(at / BLOCK).readable()) {
            seat.clock += period;
            return false;
        }
        let mut blocks = [u32::MAX; 3];
        blocks.iter_mut().zip(at).for_each(|(block, at)| *block = at / BLOCK);
        seat.asleep = Asleep::Blocks(blocks, period);
        true
    }

    fn invalidated(&mut self, cache: usize, block: u32, at: Cycle) {
        for i in 0..self.seats.len() {
            let seat = &self.seats[i];
            if let Asleep::Blocks(blocks, period) = seat.asleep
                && seat.cache == cache
                && blocks.contains(&block)
            {
                let polls = at.saturating_sub(seat.clock).div_ceil(period);
                let wake = seat.clock + polls * period;
                self.wake(i, wake);
            }
        }
    }

    // ---- registers

    /// An uncached load: the value is there at the agent's clock.
    pub(super) fn begin_load(&mut self, agent: usize) {
        let end = self.buses.grant(Operation::Load, self.seats[agent].clock).end;
        let seat = &mut self.seats[agent];
        seat.stores.clear();
        seat.clock = end;
    }

    /// The value of a register.
    pub(super) fn register(&mut self, agent: usize, register: u32) -> u64 {
        let (value, changed) = self.wiring.as_mut().map_or((0, false), |w| w.device.load(register));
        if changed {
            self.device_changed(self.seats[agent].clock);
        }
        value
    }

    /// An uncached store: it waits for the bus in a buffer, the processor goes on.
    pub(super) fn store_register(&mut self, agent: usize, register: u32, value: u64) {
        let seat = &mut self.seats[agent];
        if seat.stores.len() >= self.store_buffer
            && let Some(oldest) = seat.stores.pop_front()
        {
            seat.clock = seat.clock.max(oldest);
        }
        seat.clock += 1;
        let granted = self.buses.grant(Operation::Store, seat.clock);
        seat.stores.push_back(granted.end);
        self.add_event(granted.seen, Event::Stored(register, value));
    }

    // ---- network

    /// Sends a message, if the window to its destination is open.
    pub(super) fn send(&mut self, agent: usize, message: &Message) -> bool {
        if !self.port.may_send(message.to) {
            return false;
        }
        self.counts.messages += 1;
        self.port.send(self.seats[agent].clock, Message { from: self.number, ..message.clone() });
        true
    }

    /// Takes the first message that has arrived off the network.
    pub(super) fn take(&mut self, agent: usize) -> Option<Box<Message>> {
        self.port.take(self.number, self.seats[agent].clock)
    }
}
