//! The home agents: what a message changes, and what is answered. One transaction of a line comes after the other.

use crate::kernel::events::EventQueue;
use crate::kernel::time::{Ps, ps};
use crate::machine::ram::Ram;
use crate::platform::PioPlatform;

use super::core::Core;
use super::device::{Device, EciPort, Wish};
use super::line::{LINE, Line, Node, Remote, Request, State};
use super::link::{Event, Message, Wires};
use super::units::Units;

/// Times, in picoseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Costs {
    pub cycle: Ps,
    pub word: Ps,
    pub poll: Ps,
    pub barrier: Ps,
    pub l1: Ps,
    pub l2: Ps,
    snoop: Ps,
    /// What memory takes longer than the L2.
    memory: Ps,
    /// A message through the device's directory controller.
    directory: Ps,
    step: Ps,
    /// The device's clock; things begin at its edges.
    edge: Ps,
    pub timeout: Ps,
    pub gsync: bool,
}

impl Costs {
    fn new(p: &PioPlatform) -> Costs {
        let cycle = 1e3 / p.core.frequency.get();
        let cycles = |n: u32| (f64::from(n) * cycle).round() as Ps;
        let l2 = cycles(p.cache.l2.get());
        let device = p.device.as_ref();
        let edge = device.map_or(1, |d| (1e3 / d.frequency.get()).round() as Ps);
        let link = p.link.as_ref();
        Costs {
            cycle: cycles(1),
            word: cycles(p.core.word.get()),
            poll: cycles(p.core.poll.get()),
            barrier: cycles(p.core.barrier.get()),
            l1: cycles(p.cache.l1.get()),
            l2,
            snoop: cycles(p.cache.snoop.get()),
            memory: ps(p.cache.memory.get()).saturating_sub(l2),
            directory: device.map_or(0, |d| edge * Ps::from(d.directory.get())),
            step: device.map_or(0, |d| edge * Ps::from(d.steps.get())),
            edge,
            timeout: link.map_or(Ps::MAX, |l| ps(l.timeout.get() * 1e3)),
            gsync: link.is_some_and(|l| l.gsync.get()),
        }
    }
}

/// Both nodes, and the time.
pub struct Machine {
    pub(super) now: Ps,
    pub(super) ram: Ram,
    pub(super) costs: Costs,
    pub(super) cores: Vec<Core>,
    pub(super) lines: Vec<Line>,
    pub(super) events: EventQueue<Event>,
    pub(super) units: [Units; 2],
    wires: Wires,
    device: Option<Box<dyn Device>>,
    /// A core has waited for too long; when.
    pub(super) machine_check: Option<Ps>,
}

impl std::fmt::Debug for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Machine").field("now", &self.now).field("cores", &self.cores).finish_non_exhaustive()
    }
}

impl Machine {
    /// So many bytes, the home of each line by its number. `device` is at the other end of the link, or else a second processor.
    pub(super) fn new(
        platform: &PioPlatform,
        bytes: u32,
        home: impl Fn(u32) -> Node,
        device: Option<Box<dyn Device>>,
    ) -> Machine {
        let link = platform.link.as_ref().map_or(0.0, |link| link.one_way.get());
        let one_way = match (&device, &platform.socket) {
            (None, Some(socket)) => socket.one_way.get(),
            _ => link,
        };
        let units = || Units::new(platform.cache.units.get(), platform.cache.slots.get());
        Machine {
            now: 0,
            ram: Ram::new(bytes.next_multiple_of(LINE)),
            costs: Costs::new(platform),
            cores: Vec::new(),
            lines: (0..bytes.div_ceil(LINE)).map(|line| Line::at_home(home(line))).collect(),
            events: EventQueue::default(),
            units: [units(), units()],
            wires: Wires::new(platform, one_way),
            device,
            machine_check: None,
        }
    }

    fn is_device(&self, node: Node) -> bool {
        node == 1 && self.device.is_some()
    }

    /// A line is in a state from the beginning, as after earlier transactions: at the node that is not its home, with ownership.
    pub(super) fn place_remote(&mut self, line: u32) {
        let line = &mut self.lines[line as usize];
        line.remote = Remote::Owned;
        line.state[1 - line.home] = State::Exclusive;
    }

    /// Sends a message to the other node. A device's passes its directory controller first, and those to it afterwards.
    pub(super) fn send(&mut self, from: Node, message: Message, line: u32, at: Ps) {
        let to = 1 - from;
        let pass = |node| if self.is_device(node) { self.costs.directory } else { 0 };
        let (out, inward) = (pass(from), pass(to));
        let snooped = !self.is_device(to)
            && matches!(message, Message::Recall | Message::RecallShared | Message::Load | Message::Own);
        let lookup = if snooped { self.costs.snoop } else { 0 };
        let arrives = self.wires.arrival(to, message, at + out);
        self.events.push(arrives + inward + lookup, Event::Message(to, message, line));
    }

    /// Does what happens at a moment; returns the core that goes on.
    pub(super) fn happen(&mut self, at: Ps, event: Event) -> Option<usize> {
        self.now = at;
        match event {
            Event::Resume(core) => return Some(core),
            Event::Timer(token) => self.with_device(|device, port| device.due(port, token)),
            Event::Give(line, exclusive) => self.give(line, exclusive),
            Event::Wanted(line) => self.with_device(|device, port| device.wanted(port, line)),
            Event::Got(line) => self.with_device(|device, port| device.got(port, line)),
            Event::Message(node, message, line) => self.receive(node, message, line),
        }
        None
    }

    fn with_device(&mut self, f: impl FnOnce(&mut dyn Device, &mut EciPort<'_>)) {
        let Some(device) = &mut self.device else { return };
        let mut port = EciPort::new(self.now, &mut self.ram);
        f(&mut **device, &mut port);
        for wish in port.wishes() {
            match wish {
                Wish::Fetch(line) => self.fetch(line),
                Wish::Give(line, exclusive, after) => self.give_later(line, exclusive, after),
                Wish::After(span, token) => self.events.push(self.now + span, Event::Timer(token)),
            }
        }
    }

    fn receive(&mut self, node: Node, message: Message, line: u32) {
        let event = Event::Message(node, message, line);
        match message {
            Message::Load | Message::Own => {
                if self.is_device(node) || self.units[node].has_room(line, event) {
                    let request = Request { node: 1 - node, own: message == Message::Own };
                    self.request(line, request);
                }
            }
            Message::Recall | Message::RecallShared if self.is_device(node) => {
                self.events.push(self.now, Event::Wanted(line));
            }
            Message::Recall | Message::RecallShared => {
                if self.units[node].has_room(line, event) {
                    self.give_back(node, line, message == Message::RecallShared);
                }
            }
            Message::DataShared | Message::DataExclusive | Message::Upgraded => {
                self.lines[line as usize].state[node] =
                    if message == Message::DataShared { State::Shared } else { State::Exclusive };
                self.filled(node, line, 0);
            }
            Message::RecalledClean | Message::RecalledDirty => {
                self.recalled(line, message == Message::RecalledDirty);
            }
            Message::WriteBack => self.lines[line as usize].remote = Remote::Nothing,
            Message::Sync => self.send(node, Message::Synced, line, self.now),
            Message::Synced => self.events.push(self.now, Event::Resume(line as usize)),
        }
    }

    /// A processor's cache gives a line back, or a copy of it.
    fn give_back(&mut self, node: Node, line: u32, keep: bool) {
        let state = &mut self.lines[line as usize].state[node];
        let dirty = *state == State::Modified;
        *state = if keep && *state != State::Invalid { State::Shared } else { State::Invalid };
        self.forget(node, line);
        let message = if dirty { Message::RecalledDirty } else { Message::RecalledClean };
        self.send(node, message, line, self.now);
    }

    /// The first-level caches of a node lose a line that the second level has lost.
    pub(super) fn forget(&mut self, node: Node, line: u32) {
        if self.lines[line as usize].state[node] == State::Invalid {
            for core in self.cores.iter_mut().filter(|core| core.node == node) {
                core.near.remove(&line);
            }
        }
    }

    /// A request has come to the line's home.
    pub(super) fn request(&mut self, line: u32, request: Request) {
        self.lines[line as usize].waiting.push_back(request);
        self.begin(line);
    }

    /// The home takes the next request up.
    fn begin(&mut self, line: u32) {
        while self.lines[line as usize].busy.is_none() {
            let Some(request) = self.lines[line as usize].waiting.pop_front() else { return };
            let Line { home, remote, .. } = self.lines[line as usize];
            if request.node == home {
                match remote {
                    Remote::Owned => self.recall(line, request),
                    Remote::Shared if request.own => self.recall(line, request),
                    _ => self.complete_at_home(line, request, false),
                }
            } else if self.is_device(home) && !request.own {
                self.lines[line as usize].busy = Some(request);
                self.events.push(self.now, Event::Wanted(line));
            } else {
                self.grant(line, request);
            }
        }
    }

    fn recall(&mut self, line: u32, request: Request) {
        let home = self.lines[line as usize].home;
        self.lines[line as usize].busy = Some(request);
        let message = if request.own { Message::Recall } else { Message::RecallShared };
        self.send(home, message, line, self.now);
    }

    /// The other node has given the line back to its home.
    fn recalled(&mut self, line: u32, dirty: bool) {
        let at = &mut self.lines[line as usize];
        let Some(request) = at.busy.take() else { return };
        // What a device gives, it has not any more.
        let keeps = !request.own && at.state[1 - at.home] == State::Shared;
        at.remote = if keeps { Remote::Shared } else { Remote::Nothing };
        self.complete_at_home(line, request, dirty);
        self.begin(line);
    }

    /// The home's own request is done. `brought`: the other node's data are there; otherwise they are in the home's cache or memory.
    fn complete_at_home(&mut self, line: u32, request: Request, brought: bool) {
        let home = request.node;
        let at = &mut self.lines[line as usize];
        let from_memory = at.state[home] == State::Invalid && !brought;
        at.state[home] = if at.remote == Remote::Shared { State::Shared } else { State::Exclusive };
        let memory = if from_memory && !self.is_device(home) { self.costs.memory } else { 0 };
        self.filled(home, line, memory);
    }

    /// The home sends a line, or the right to write it, to the other node.
    fn grant(&mut self, line: u32, request: Request) {
        let is_device = self.is_device(self.lines[line as usize].home);
        let at = &mut self.lines[line as usize];
        let home = at.home;
        let has_copy = at.remote == Remote::Shared;
        let from_memory = at.state[home] == State::Invalid && !is_device;
        at.remote = if request.own { Remote::Owned } else { Remote::Shared };
        let keeps = !request.own && at.state[home] != State::Invalid;
        at.state[home] = if keeps { State::Shared } else { State::Invalid };
        let message = match (request.own, has_copy) {
            (false, _) => Message::DataShared,
            (true, true) => Message::Upgraded,
            (true, false) => Message::DataExclusive,
        };
        let data = if from_memory && !has_copy { self.costs.memory } else { 0 };
        let step = if is_device { self.costs.step } else { 0 };
        self.forget(home, line);
        self.send(home, message, line, self.now + data + step);
    }

    /// A node has what it has asked for.
    fn filled(&mut self, node: Node, line: u32, after: Ps) {
        if self.is_device(node) {
            self.events.push(self.now, Event::Got(line));
            return;
        }
        self.fill_cores(node, line, after);
    }

    /// What waited for a place in a line's unit goes on.
    pub(super) fn unblock(&mut self, node: Node, line: u32) {
        for event in self.units[node].give(line) {
            self.events.push(self.now, event);
        }
    }

    /// A core's program begins.
    pub(super) fn start(&mut self, core: usize) {
        self.events.push(0, Event::Resume(core));
    }

    /// The device wants a line for itself.
    fn fetch(&mut self, line: u32) {
        let Line { home, state, .. } = self.lines[line as usize];
        if home == 1 {
            self.request(line, Request { node: 1, own: true });
        } else if state[1] == State::Exclusive {
            self.with_own(line);
        } else {
            self.send(1, Message::Own, line, self.now);
        }
    }

    /// The device has the line already.
    fn with_own(&mut self, line: u32) {
        self.events.push(self.now, Event::Message(1, Message::DataExclusive, line));
    }

    /// The device's step begins at an edge of its clock.
    fn give_later(&mut self, line: u32, exclusive: bool, after: Ps) {
        let at = (self.now + after).next_multiple_of(self.costs.edge) + self.costs.step;
        self.events.push(at, Event::Give(line, exclusive));
    }

    fn give(&mut self, line: u32, exclusive: bool) {
        let at = &mut self.lines[line as usize];
        if at.home == 0 {
            at.state[1] = State::Invalid;
            self.send(1, Message::RecalledDirty, line, self.now);
            return;
        }
        if at.busy.take().is_none() {
            return; // nobody waits for it
        }
        at.remote = if exclusive { Remote::Owned } else { Remote::Shared };
        let message = if exclusive { Message::DataExclusive } else { Message::DataShared };
        self.send(1, message, line, self.now);
        self.begin(line);
    }
}
