//! The simulated machine: cores, what lies outside them, and devices.
//!
//! An access goes down this list, and its answer comes back as events:
//!
//! | module | has |
//! |---|---|
//! | [`agent`], [`sim`] | programs on cores, and the loop that resumes them |
//! | [`core`] | the window of a core: MSHRs, store buffer, speculation, polling |
//! | [`caches`] | tags, states, replacement, way masks |
//! | [`home`] | home agents: order, snoops, data, by the protocol's table |
//! | [`uncore`] | the state outside cores: [`directory`], [`llc`], [`snoop_filter`], [`transactions`], [`address_map`], [`ram`] |
//! | [`fabric`], [`topology`] | links between sockets, memory controllers |
//! | [`device`] | devices that are home of addresses |

pub mod address_map;
pub mod agent;
pub mod caches;
pub mod core;
pub mod costs;
pub mod device;
pub mod directory;
pub mod event;
pub mod fabric;
pub mod home;
pub mod ids;
pub mod llc;
pub mod ram;
pub mod sim;
pub mod snoop_filter;
#[cfg(test)]
mod tests;
pub mod topology;
pub mod transactions;
pub mod uncached;
pub mod uncore;

use std::any::Any;
use std::io;

use crate::kernel::events::EventQueue;
use crate::kernel::slab::Slab;
use crate::kernel::time::Ps;
use crate::observe::counters::{Counters, Source, Traffic};
use crate::observe::trace::Trace;
use crate::observe::witness::{Commit, Observer, Rows};
use crate::platform::Platform;
use crate::protocols::{mesif, named, table::Protocol, table::Request};

use address_map::AddressMap;
use caches::mask::{RequesterClass, WayMask};
use core::Core;
use costs::{Costs, Prefetch};
use device::{Device, Port};
use directory::Directory;
use event::Event;
use fabric::Fabric;
use home::Home;
use ids::{AGENTS_MAX, AgentId, DEVICES_MAX, DeviceId, SocketId};
use llc::Llc;
use ram::Ram;
use snoop_filter::SnoopFilter;
use topology::Topology;
use transactions::Transactions;
use uncore::Uncore;

/// Why a machine cannot be built.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MachineError {
    /// The directory has a bit for each agent.
    #[error("{agents} cores and devices, the directory has bits for {AGENTS_MAX}; simulate fewer cores")]
    Agents {
        /// How many there would be.
        agents: usize,
    },
    /// A socket cannot reach another one.
    #[error("the topology's {sockets} sockets do not all reach each other; add a link for each direction")]
    Unconnected {
        /// How many there are.
        sockets: usize,
    },
    /// Events have a byte for the number of a device.
    #[error("more than {DEVICES_MAX} devices; simulate fewer")]
    Devices,
}

/// How a device is attached.
#[derive(Debug, Clone, Copy)]
pub struct Attachment {
    /// The socket whose last-level cache and home agent its accesses go to.
    pub socket: SocketId,
    /// The time between a core and the device's side of the interconnect.
    pub latency: Ps,
    /// The ways of the last-level caches into which the device's writes may allocate.
    pub ways: WayMask,
}

/// A core to build: its socket, and its side (0: host, 1: NIC), which selects its prefetchers.
pub type Seat = (SocketId, usize);

/// The machine.
#[derive(Debug)]
pub struct Machine {
    /// Cores, and then the agents of devices.
    pub(crate) cores: Vec<Core>,
    pub(crate) uncore: Uncore,
    /// Each with its agent.
    devices: Vec<(Box<dyn Device>, AgentId)>,
    platform: Platform,
}

impl Machine {
    /// A machine with `bytes` bytes of memory and the cores named, on the platform's own topology: one socket or two. A socket
    /// that the platform does not have is its last one.
    ///
    /// # Errors
    /// When there are more cores than the directory has bits for.
    pub fn new(platform: &Platform, bytes: u32, cores: &[Seat]) -> Result<Machine, MachineError> {
        Machine::with_topology(platform, Topology::of(platform), bytes, cores)
    }

    /// The same on another topology.
    ///
    /// # Errors
    /// See [`new`](Machine::new); and when a socket does not reach another.
    pub fn with_topology(
        platform: &Platform,
        topology: Topology,
        bytes: u32,
        cores: &[Seat],
    ) -> Result<Machine, MachineError> {
        let sockets = topology.sockets();
        if cores.len() > AGENTS_MAX {
            return Err(MachineError::Agents { agents: cores.len() });
        }
        if !topology.is_connected() {
            return Err(MachineError::Unconnected { sockets });
        }
        let costs = Costs::of(platform);
        let protocol: &'static Protocol = named(&platform.protocol.kind).unwrap_or(&mesif::MESIF);
        let last = (sockets - 1) as SocketId;
        let core = |(id, (socket, side)): (usize, &Seat)| {
            Core::new(
                id as AgentId,
                last.min(*socket),
                RequesterClass::Core,
                platform,
                costs.prefetch[side & 1],
            )
        };
        let cores: Vec<Core> = cores.iter().enumerate().map(core).collect();
        let (size, ways) = (platform.llc.size.get() * 1024 / 64, platform.llc.ways.get());
        let slices = platform.llc.slices.as_ref().map(|slices| slices.get());
        let filter = |sets, ways| SnoopFilter::new(slices.unwrap_or(1), sets, ways);
        let mut filters: Vec<SnoopFilter> = match &platform.snoop_filter {
            Some(f) => (0..sockets).map(|_| filter(f.sets.get(), f.ways.get())).collect(),
            None => Vec::new(),
        };
        if !filters.is_empty() {
            cores.iter().for_each(|core| filters[core.socket as usize].add_core(core.id));
        }
        Ok(Machine {
            cores,
            uncore: Uncore {
                now: 0,
                events: EventQueue::default(),
                protocol,
                ram: Ram::new(bytes),
                directory: Directory::new(bytes),
                llcs: (0..sockets).map(|_| Llc::new(size, ways, slices)).collect(),
                filters,
                fabric: Fabric::new(topology),
                txns: Transactions::default(),
                address_map: AddressMap::default(),
                accesses: Slab::default(),
                device_latency: Vec::new(),
                observer: Observer::new(protocol),
                costs,
                ended: false,
            },
            devices: Vec::new(),
            platform: platform.clone(),
        })
    }

    /// Adds a device and its agent. Before programs are put on cores.
    ///
    /// # Errors
    /// When there are more agents or devices than there can be.
    pub fn add_device(&mut self, device: Box<dyn Device>, at: Attachment) -> Result<DeviceId, MachineError> {
        let (agents, id) = (self.cores.len() + 1, self.devices.len());
        if agents > AGENTS_MAX {
            return Err(MachineError::Agents { agents });
        }
        if id >= DEVICES_MAX {
            return Err(MachineError::Devices);
        }
        let (agent, id) = (self.cores.len() as AgentId, id as DeviceId);
        let mut core =
            Core::new(agent, at.socket, RequesterClass::Device, &self.platform, Prefetch::default());
        core.device = Some(id);
        self.cores.push(core);
        self.uncore.llcs.iter_mut().for_each(|llc| llc.set_mask(RequesterClass::Device, at.ways));
        self.uncore.device_latency.push(at.latency);
        self.devices.push((device, agent));
        Ok(id)
    }

    /// Makes the line of an address one of a device's registers.
    pub fn map_registers(&mut self, at: u32, device: DeviceId) {
        self.uncore.address_map.add_registers(at / ccnic::memory::LINE, device);
    }

    /// Makes a device the home of pages of cacheable lines, in the socket where they are at home.
    pub fn map_pages(&mut self, at: u32, bytes: u32, device: DeviceId) {
        self.uncore.address_map.add_pages(at, bytes, device);
    }

    /// A device, if it is of this type.
    pub fn device<T: Device>(&self, id: DeviceId) -> Option<&T> {
        let (device, _) = self.devices.get(id as usize)?;
        (&**device as &dyn Any).downcast_ref()
    }

    /// The first device of this type.
    pub fn find_device<T: Device>(&self) -> Option<&T> {
        (0..self.devices.len()).find_map(|id| self.device(id as DeviceId))
    }

    /// Does something to a device of this type, and through its port to the machine.
    pub fn with_device<T: Device, R>(
        &mut self,
        id: DeviceId,
        f: impl FnOnce(&mut T, &mut Port<'_>) -> R,
    ) -> Option<R> {
        let (device, mut port) = self.device_and_port(id)?;
        let device = (device as &mut dyn Any).downcast_mut()?;
        Some(f(device, &mut port))
    }

    fn device_and_port(&mut self, id: DeviceId) -> Option<(&mut dyn Device, Port<'_>)> {
        let Machine { cores, uncore, devices, .. } = self;
        let (device, agent) = devices.get_mut(id as usize)?;
        Some((&mut **device, Port { cores, u: uncore, device: id, agent: *agent }))
    }

    /// Sets the ways of every last-level cache into which a class of requesters may allocate.
    pub fn set_way_mask(&mut self, class: RequesterClass, mask: WayMask) {
        self.uncore.llcs.iter_mut().for_each(|llc| llc.set_mask(class, mask));
    }

    /// Homes pages in a socket; in the last one, if there is no such socket.
    pub fn set_home(&mut self, at: u32, bytes: u32, socket: SocketId) {
        let last = self.sockets() as SocketId - 1;
        self.uncore.directory.set_home(at, bytes, socket.min(last));
    }

    /// Selects a protocol that no platform names. Before anything happens.
    pub fn set_protocol(&mut self, protocol: &'static Protocol) {
        self.uncore.protocol = protocol;
        self.uncore.observer = Observer::new(protocol);
    }

    /// Ownership for a store of a whole line moves data or (`true`) does not, whatever the platform says.
    pub fn set_dataless(&mut self, dataless: bool) {
        self.uncore.costs.dataless = dataless;
    }

    /// Puts a line into a socket's last-level cache.
    pub fn fill_llc(&mut self, socket: SocketId, line: u32, dirty: bool) {
        self.uncore.fill_llc(socket, line, dirty, WayMask::ALL);
    }

    /// An agent asks for a line, as a device would.
    pub fn request(&mut self, agent: AgentId, line: u32, request: Request, at: Ps) {
        let socket = self.cores[agent as usize].socket;
        self.uncore.request(agent, socket, line, request, at);
    }

    /// The core of a program, and what lies outside it.
    #[inline]
    fn core_and_uncore(&mut self, core: AgentId) -> (&mut Core, &mut Uncore) {
        (&mut self.cores[core as usize], &mut self.uncore)
    }

    /// Handles events until a core can go on; returns it. `None` when nothing more happens until then, or when `events` are used up.
    fn step(&mut self, until: Ps, events: &mut u64) -> Option<AgentId> {
        loop {
            *events = events.checked_sub(1)?;
            let (at, event) = self.uncore.events.pop_until(until)?;
            debug_assert!(at >= self.uncore.now, "time runs backwards");
            self.uncore.now = at;
            let Machine { cores, uncore, .. } = self;
            match event {
                Event::Arrive(txn) => Home { cores, u: uncore }.arrive(txn),
                Event::AtHome(txn) => Home { cores, u: uncore }.at_home(txn),
                Event::Snoop(txn, agent) => Home { cores, u: uncore }.snooped(txn, agent),
                Event::Demote(line, agent) => cores[agent as usize].demoted(uncore, line),
                Event::BackInvalidate(line, agent) => {
                    Home { cores, u: uncore }.back_invalidated(line, agent);
                }
                Event::Resume(core) => {
                    if cores[core as usize].resumed(uncore) {
                        return Some(core);
                    }
                }
                Event::Fill(txn) => {
                    let agent = uncore.txns[txn].agent;
                    match cores[agent as usize].device {
                        None => Home { cores, u: uncore }.fill(txn, agent),
                        Some(device) => self.tell(device, event),
                    }
                }
                Event::Device(_, device)
                | Event::Access(_, device)
                | Event::Read(_, device)
                | Event::WriteBack(_, device) => self.tell(device, event),
            }
        }
    }

    /// Hands an event to a device.
    fn tell(&mut self, id: DeviceId, event: Event) {
        let Some((device, mut port)) = self.device_and_port(id) else { return };
        match event {
            Event::Device(number, _) => device.event(&mut port, number),
            Event::Access(number, _) => {
                if let Some(access) = port.u.accesses.take(number) {
                    device.access(&mut port, access);
                }
            }
            Event::Read(txn, _) => {
                let t = port.u.txns[txn];
                device.read(&mut port, txn, t.line, t.request);
            }
            Event::WriteBack(line, _) => device.written_back(&mut port, line),
            Event::Fill(txn) => {
                let (line, request) = port.take_in(txn);
                device.filled(&mut port, txn, line, request);
            }
            _ => {}
        }
    }
}

/// What is seen of a machine from outside.
impl Machine {
    /// The time of the last event.
    pub fn now(&self) -> Ps {
        self.uncore.now
    }

    /// How many sockets there are.
    pub fn sockets(&self) -> usize {
        self.uncore.llcs.len()
    }

    /// How many agents there are: cores, and one for each device.
    pub fn agents(&self) -> usize {
        self.cores.len()
    }

    /// The counters of a core.
    pub fn counters(&self, core: usize) -> Counters {
        self.cores[core].counters
    }

    /// The traffic that leaves a socket, and that of its memory.
    pub fn traffic(&self, socket: usize) -> Traffic {
        self.uncore.fabric.traffic(socket as SocketId)
    }

    /// Where a core's last miss was answered.
    pub fn last_source(&self, core: AgentId) -> Source {
        self.cores[core as usize].last_source
    }

    /// A word of memory.
    pub fn word(&self, at: u32) -> u64 {
        self.uncore.ram.word(at)
    }

    /// Sets a word of memory, in no time.
    pub fn set_word(&mut self, at: u32, value: u64) {
        self.uncore.ram.set_word(at, value);
    }

    /// Bytes of memory.
    pub fn bytes(&self, at: u32, len: usize) -> &[u8] {
        self.uncore.ram.bytes(at, len)
    }

    /// Bytes of memory, to change in no time.
    pub fn bytes_mut(&mut self, at: u32, len: usize) -> &mut [u8] {
        self.uncore.ram.bytes_mut(at, len)
    }

    /// How often each row of the protocol's tables has been used.
    pub fn rows(&self) -> &Rows {
        &self.uncore.observer.rows
    }

    /// The protocol that the caches follow.
    pub fn protocol(&self) -> &'static Protocol {
        self.uncore.protocol
    }

    /// Keeps a journal of all stores of words from now on.
    pub fn keep_journal(&mut self) {
        self.uncore.observer.journal = Some(Vec::new());
    }

    /// The journal, if it is kept.
    pub fn journal(&self) -> &[Commit] {
        self.uncore.observer.journal.as_deref().unwrap_or_default()
    }

    /// Traces what happens from now on.
    pub fn set_trace(&mut self, mut trace: Trace) {
        let agents = self.cores.iter().map(|core| {
            let device = core.device.and_then(|id| self.devices.get(id as usize));
            let name = device.map_or_else(|| format!("core {}", core.id), |(d, _)| d.agent_name().into());
            (core.socket, name)
        });
        trace.begin(self.sockets(), agents);
        self.uncore.observer.trace = Some(Box::new(trace));
    }

    /// Ends the trace, if there is one.
    ///
    /// # Errors
    /// What went wrong with its writer.
    pub fn finish_trace(&mut self) -> io::Result<()> {
        self.uncore.observer.trace.take().map_or(Ok(()), |trace| trace.finish())
    }
}
