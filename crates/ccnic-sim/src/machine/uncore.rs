//! Everything of a machine outside its cores: simulated time, memory, directories, last-level caches, links, and the requests under
//! way. A core that runs holds itself and this, and nothing of other cores.

use super::address_map::AddressMap;
use super::caches::mask::WayMask;
use super::costs::Costs;
use super::directory::Directory;
use super::event::Event;
use super::fabric::Fabric;
use super::ids::{AgentId, DeviceId, SocketId, TxnId};
use super::llc::Llc;
use super::ram::Ram;
use super::snoop_filter::SnoopFilter;
use super::transactions::{Transaction, Transactions};
use super::uncached::Access;
use crate::kernel::events::EventQueue;
use crate::kernel::slab::Slab;
use crate::kernel::time::Ps;
use crate::observe::trace::{Answered, Hop};
use crate::observe::witness::{Commit, Observer};
use crate::protocols::table::{Protocol, Request};

/// Everything outside the cores.
#[derive(Debug)]
pub struct Uncore {
    /// The time of the last event, or of the core that runs ahead of it.
    pub now: Ps,
    pub events: EventQueue<Event>,
    pub costs: Costs,
    pub protocol: &'static Protocol,
    pub ram: Ram,
    pub directory: Directory,
    /// By socket.
    pub llcs: Vec<Llc>,
    /// By socket; empty where the platform has none.
    pub filters: Vec<SnoopFilter>,
    pub fabric: Fabric,
    pub txns: Transactions,
    pub address_map: AddressMap,
    /// Uncached accesses on their way to a device.
    pub accesses: Slab<Access>,
    /// For each device the time between a core and the device's side of the interconnect (a root port).
    pub device_latency: Vec<Ps>,
    pub observer: Observer,
    /// The run is over: programs are being unwound, and accesses take no time.
    pub ended: bool,
}

impl Uncore {
    /// An agent asks for a line at a time; returns the transaction.
    pub fn request(
        &mut self,
        agent: AgentId,
        socket: SocketId,
        line: u32,
        request: Request,
        at: Ps,
    ) -> TxnId {
        let txn = self.txns.begin(Transaction::new(line, request, agent, socket));
        if let Some(trace) = &mut self.observer.trace {
            trace.asked(txn, at);
        }
        let arrival = at + self.costs.miss + self.costs.mesh;
        self.events.push(arrival, Event::Arrive(txn));
        txn
    }

    /// Ends a transaction whose answer has reached its requester.
    pub fn end(&mut self, txn: TxnId, socket: SocketId) -> Transaction {
        let t = self.txns[txn];
        self.txns.end(txn);
        if let Some(trace) = &mut self.observer.trace {
            let answered = Answered {
                txn,
                line: t.line,
                home: self.directory.home(t.line),
                agent: t.agent,
                socket,
                request: t.request,
                grant: t.grant,
                source: t.source,
            };
            trace.answered(&answered, self.now);
        }
        t
    }

    /// A request is at a hop.
    #[inline]
    pub fn hop(&mut self, txn: TxnId, hop: Hop, at: Ps) {
        self.observer.hop(txn, hop, at);
    }

    /// Resumes a core at a time.
    #[inline]
    pub fn resume(&mut self, agent: AgentId, at: Ps) {
        self.events.push_resume(at, Event::Resume(agent), agent);
    }

    /// Sends a line from one socket to another, or to the same; returns when it is there.
    #[inline]
    pub fn send_line(&mut self, from: SocketId, to: SocketId, at: Ps) -> Ps {
        let there = self.fabric.send_line(from, to, at);
        self.trace_link(from);
        there
    }

    /// Sends a control message; returns when it is there.
    #[inline]
    pub fn send_control(&mut self, from: SocketId, to: SocketId, at: Ps) -> Ps {
        let there = self.fabric.send_control(from, to, at);
        self.trace_link(from);
        there
    }

    #[inline]
    fn trace_link(&mut self, socket: SocketId) {
        if let Some(trace) = &mut self.observer.trace {
            trace.link(socket, self.now, self.fabric.link_busy(socket));
        }
    }

    /// Reads a line from a socket's memory; returns when the data is at its home agent.
    #[inline]
    pub fn read_memory(&mut self, socket: SocketId, at: Ps) -> Ps {
        self.fabric.read_memory(socket, at, &self.costs)
    }

    /// Writes a line back from a socket to its home: memory, or the device that is home of it.
    pub fn write_back(&mut self, line: u32, from: SocketId, at: Ps) {
        let home = self.directory.home(line);
        let at = if home == from { at } else { self.send_line(from, home, at) };
        match self.address_map.home(line) {
            None => self.fabric.write_memory(home, at, &self.costs),
            Some(device) => self.tell_device(device, at, Event::WriteBack(line, device)),
        }
    }

    /// Sends something from a home agent to a device that is a line's home.
    pub fn tell_device(&mut self, device: DeviceId, at: Ps, event: Event) {
        let latency = self.device_latency[device as usize];
        self.events.push(at.max(self.now) + latency, event);
    }

    /// Writes a line from a core around the caches, when its home agent has granted that; returns when the core learns that it is
    /// there. From another socket the line crosses the link and is taken at a rate of its own.
    pub fn store_non_temporal(&mut self, line: u32, from: SocketId, granted: Ps) -> Ps {
        let home = self.directory.home(line);
        if home == from {
            self.write_back(line, home, granted);
            return granted;
        }
        let there = self.send_line(from, home, granted);
        let taken = self.fabric.take_non_temporal(home, there, &self.costs);
        self.write_back(line, home, taken);
        self.send_control(home, from, taken)
    }

    /// Puts a line into the last-level cache of a socket: in place if it is there, otherwise into the ways of the mask.
    pub fn fill_llc(&mut self, socket: SocketId, line: u32, dirty: bool, mask: WayMask) {
        let bit = 1 << socket;
        let known = self.directory.get(line);
        known.llc |= bit;
        let dirty = dirty || known.dirty & bit != 0;
        if dirty {
            known.dirty |= bit;
        }
        if let Some((gone, was_dirty)) = self.llcs[socket as usize].fill(line, dirty, mask) {
            let known = self.directory.get(gone);
            known.llc &= !bit;
            known.dirty &= !bit;
            if was_dirty {
                self.write_back(gone, socket, self.now);
            }
        }
    }

    /// Takes a line out of all last-level caches. What they had newer than memory is now the requester's to write back.
    pub fn drop_from_llcs(&mut self, line: u32) {
        let known = self.directory.get(line);
        let mut llc = std::mem::take(&mut known.llc);
        known.dirty = 0;
        while llc != 0 {
            self.llcs[llc.trailing_zeros() as usize].remove(line);
            llc &= llc - 1;
        }
    }

    /// Stores a word for a core that owns its line.
    #[inline]
    pub fn commit_word(&mut self, core: AgentId, socket: SocketId, at: u32, value: u64) {
        self.ram.set_word(at, value);
        self.observer.instant(socket, core, "store", at, self.now);
        if let Some(journal) = &mut self.observer.journal {
            journal.push(Commit { core, at, value });
        }
    }
}
