//! The seam between the machine and its devices.
//!
//! A device is the home of addresses: of registers, which cores access uncached, and of pages, whose lines cores cache. What
//! happens to them reaches the device as a call of [`Device`]; the device answers through its [`Port`] when it likes: at once, after a
//! time that it has scheduled, or never before something else has happened. A device also takes part in coherence as an agent of
//! its own: it asks for lines, is snooped, and writes into the last-level cache (DMA).

use std::any::Any;
use std::fmt::Debug;

use super::caches::mask::{RequesterClass, WayMask};
use super::core::Core;
use super::core::mshr::Mshr;
use super::event::Event;
use super::home::Home;
use super::ids::{AgentId, DeviceId, NONE, TxnId};
use super::uncached::Access;
use super::uncore::Uncore;
use crate::kernel::time::Ps;
use crate::protocols::table::{Request, State};

/// A device of a machine.
///
/// Loads of words in lines that a device is home of wait for its answer; loads of payload (`read`, `with`) charge the line's latency
/// to the core's window, and return the bytes that are there at once.
pub trait Device: Any + Debug {
    /// What a trace calls its agent.
    fn agent_name(&self) -> &'static str {
        "device"
    }

    /// An uncached access of a core to one of the device's registers has arrived. The core goes on when the device has called
    /// [`accept_store`](Port::accept_store), [`accept_combined`](Port::accept_combined) or [`answer_read`](Port::answer_read).
    fn access(&mut self, port: &mut Port<'_>, access: Access);

    /// A home agent wants the data of a line that the device is home of: to be answered by [`supply`](Port::supply) with the number of
    /// the transaction, now or at any later time. Until then the line is busy, and further requests for it wait. The request is the
    /// one that made the home agent ask.
    fn read(&mut self, port: &mut Port<'_>, txn: TxnId, line: u32, request: Request) {
        let _ = (line, request);
        port.supply(txn);
    }

    /// A line that the device is home of has been written back.
    fn written_back(&mut self, port: &mut Port<'_>, line: u32) {
        let _ = (port, line);
    }

    /// What the device's own agent has asked for has come: ownership, which the agent has now, or data to read once.
    fn filled(&mut self, port: &mut Port<'_>, txn: TxnId, line: u32, request: Request) {
        let _ = (port, txn, line, request);
    }

    /// The time of something that the device has scheduled has come.
    fn event(&mut self, port: &mut Port<'_>, number: u32);
}

/// What a device can do to its machine.
#[derive(Debug)]
pub struct Port<'a> {
    pub(super) cores: &'a mut [Core],
    pub(super) u: &'a mut Uncore,
    pub(super) device: DeviceId,
    /// The device's own agent.
    pub(super) agent: AgentId,
}

impl Port<'_> {
    /// The time of the event that is being handled.
    pub fn now(&self) -> Ps {
        self.u.now
    }

    /// Calls [`Device::event`] at a time.
    pub fn schedule(&mut self, at: Ps, number: u32) {
        self.u.events.push(at, Event::Device(number, self.device));
    }

    /// Bytes of memory, or of the device's own pages.
    pub fn bytes(&self, at: u32, len: usize) -> &[u8] {
        self.u.ram.bytes(at, len)
    }

    /// The same, to change.
    pub fn bytes_mut(&mut self, at: u32, len: usize) -> &mut [u8] {
        self.u.ram.bytes_mut(at, len)
    }

    /// A word of memory or of a register.
    pub fn word(&self, at: u32) -> u64 {
        self.u.ram.word(at)
    }

    /// Sets a word of a register, or of the device's own pages.
    pub fn set_word(&mut self, at: u32, value: u64) {
        self.u.ram.set_word(at, value);
    }

    /// Accepts a core's uncached store: it leaves the store buffer.
    pub fn accept_store(&mut self, core: AgentId) {
        self.cores[core as usize].store_accepted(self.u);
    }

    /// Accepts a core's write-combining buffer: it is free again.
    pub fn accept_combined(&mut self, core: AgentId) {
        self.cores[core as usize].combined_accepted(self.u);
    }

    /// Answers a core's uncached load.
    pub fn answer_read(&mut self, core: AgentId, value: u64) {
        self.cores[core as usize].read_answered(self.u, value);
    }

    /// Answers [`Device::read`]: the data travels to the home agent.
    pub fn supply(&mut self, txn: TxnId) {
        let at = self.u.now + self.u.device_latency[self.device as usize];
        self.home().device_answered(txn, at);
    }

    /// Asks for a line as an agent; [`Device::filled`] tells when it has come. For [`Request::ReadCurrent`] nothing stays; otherwise
    /// the agent has the line until [`write_done`](Port::write_done) or [`give_up`](Port::give_up).
    pub fn request(&mut self, line: u32, request: Request) -> TxnId {
        let agent = &mut self.cores[self.agent as usize];
        let txn = self.u.request(agent.id, agent.socket, line, request, self.u.now);
        if request != Request::ReadCurrent {
            agent.mshrs.push(Mshr { txn, ..Mshr::new(line, request) });
        }
        txn
    }

    /// Asks to own a line; without data, if all of it is going to be written and the platform can do so.
    pub fn request_to_write(&mut self, line: u32, whole: bool) {
        let dataless = whole && self.u.costs.dataless;
        self.request(line, if dataless { Request::OwnNoData } else { Request::ReadOwn });
    }

    /// True when the device's agent owns a line.
    pub fn owns(&self, line: u32) -> bool {
        self.cores[self.agent as usize].state(line).writable()
    }

    /// True when the device's agent has asked for a line, and has not said that it is done with it.
    pub fn expects(&self, line: u32) -> bool {
        self.cores[self.agent as usize].expects(line)
    }

    /// True when the last-level cache of the device's socket has a line.
    pub fn is_in_llc(&self, line: u32) -> bool {
        let socket = self.cores[self.agent as usize].socket;
        self.u.directory.look(line).llc >> socket & 1 != 0
    }

    /// The agent has written a line that it owns. A snoop that waits for the line is answered, and if there is `more` to write, the line
    /// is asked for again. Otherwise, unless there is more, the line goes to the last-level cache: into any way if it was there
    /// before (`update`), else into those of devices (DDIO).
    pub fn write_done(&mut self, line: u32, more: bool, update: bool) {
        let mshrs = &mut self.cores[self.agent as usize].mshrs;
        let i = mshrs.iter().position(|m| m.line == line);
        let deferred = i.map_or(NONE, |i| mshrs[i].deferred);
        if let Some(i) = i
            && (!more || deferred != NONE)
        {
            mshrs.swap_remove(i);
        }
        if deferred != NONE {
            let agent = self.agent;
            self.home().answer(deferred, agent);
            if more {
                self.request_to_write(line, false);
            }
        } else if !more {
            let agent = &mut self.cores[self.agent as usize];
            agent.caches.set_state(line, State::Invalid);
            self.u.directory.get(line).set_uncached();
            let class = self.u.llcs[agent.socket as usize].mask(RequesterClass::Device);
            self.u.fill_llc(agent.socket, line, true, if update { WayMask::ALL } else { class });
        }
    }

    /// The agent gives up a line that it owns and has not changed: the line is at home again, in no cache.
    pub fn give_up(&mut self, line: u32) {
        let agent = &mut self.cores[self.agent as usize];
        let i = agent.mshrs.iter().position(|m| m.line == line);
        let deferred = i.map_or(NONE, |i| agent.mshrs.swap_remove(i).deferred);
        if deferred != NONE {
            let agent = self.agent;
            self.home().answer(deferred, agent);
        } else if agent.state(line).writable() {
            agent.caches.set_state(line, State::Invalid);
            self.u.directory.get(line).set_uncached();
        }
    }

    /// Takes in what the device's agent has asked for. A line that it owns stays expected, so that snoops wait for it, until the
    /// device is done with it.
    pub(super) fn take_in(&mut self, txn: TxnId) -> (u32, Request) {
        let agent = &mut self.cores[self.agent as usize];
        let t = self.u.end(txn, agent.socket);
        if t.request != Request::ReadCurrent {
            if let Some(mshr) = agent.mshr(t.line) {
                mshr.txn = NONE;
            }
            agent.install(self.u, t.line, t.grant);
        }
        (t.line, t.request)
    }

    fn home(&mut self) -> Home<'_> {
        Home { cores: self.cores, u: self.u }
    }
}
