//! The switch: joins the ports of one worker. It learns which address is at which port, and passes each packet on to the port of its
//! destination address, or to all other ports.
//!
//! ```text
//!   port A: fetch ─► addresses ─► last pair? ─no─► table: learn source, find destination
//!                                    │yes                │
//!                                    └──────► sort the burst by port ◄┘
//!                                                  │ port by port
//!                      port B: copy out of A's memory into B's, publish ◄─┤ one dynamic call each
//!                      port C: ...                                      ◄─┘
//!   port A: complete: its units and buffers go back
//! ```
//!
//! A [`Switch`] belongs to a worker's thread and owns its ports ([`SwitchPort`]); the schedule names them by [`PortId`]. While a port is
//! polled it is out of its place: it can reach all others, and no packet goes back to where it came from. So nothing is shared, and
//! nothing locked. All time is charged to the port that is polled, the sender.
//!
//! **Several workers** have a switch each, of the same ports: one worker polls a port, the others have a [`Guest`] of it. Packets for a port of
//! another worker are handed over ([`lanes`]), and each worker tells the others which addresses it has seen (`news.rs`).
//!
//! A burst costs its sender one comparison of twelve bytes a packet where all packets have the addresses of the last one; otherwise two
//! look-ups a packet (`forward.rs`). Nothing is allocated while packets move, and no clock is read: the worker [ticks](Switch::tick).

mod across;
#[cfg(test)]
mod across_tests;
mod arrivals;
pub mod capture;
mod complete;
mod flood;
mod forward;
mod frame;
mod govern;
pub mod lanes;
mod leaving;
pub(crate) mod news;
pub mod outside;
pub mod places;
pub mod policy;
#[cfg(test)]
mod policy_tests;
mod port;
pub mod program;
mod slot;
mod table;
#[cfg(test)]
mod test_workers;
#[cfg(test)]
mod tests;

use ccnic_control::ClientId;
use ccnic_control::messages::QueueStatus;

pub use across::MAX_WORKERS;
pub use complete::Completer;
pub use flood::Sending;
pub use frame::{Mac, Station};
pub use lanes::{Guest, Lanes};
pub use port::{Accepting, SwitchCounters, SwitchPort};
pub use slot::Member;
pub use table::{Known, MacTable, TableLimits};

use crate::ports::{Accepts, Doze};
use capture::{Capture, Captures};
use news::News;
use policy::Rules;
use slot::{Slot, Verdict};

/// What becomes of frames to addresses of protocols that end at the next bridge, 01:80:c2:00:00:00 to :0f.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reserved {
    /// They are dropped and counted, and teach nothing.
    #[default]
    Drop,
    /// They go where frames to other groups go.
    Forward,
}

/// A port, by its place in the switch.
pub type PortId = u16;

/// The most ports of a switch: a flooded packet is copied to each of them.
pub const MAX_PORTS: usize = 256;

/// A learning switch between the ports of one worker.
pub struct Switch {
    slots: Box<[Option<Slot>]>,
    ports: usize,
    /// Copies that a flooded packet of a port here becomes: one for each other port here, and one for each worker that has ports.
    fan_out: usize,
    /// Of the other workers, those that poll ports: a bit each.
    far: u64,
    table: MacTable,
    /// Completes packets whose receivers do not take the offloads that their senders request.
    completer: Completer,
    /// Packets that were flooded in several polls.
    floods: u64,
    /// Copies that are made for each that a port gets, at most: with that for its mirror.
    per_copy: usize,
    /// A port has rules for more than floods, or there are captures.
    ruled: bool,
    captures: Captures,
    /// That, or there are other workers.
    special: bool,
    /// Frames to addresses of protocols that end at the next bridge are forwarded, as those to other groups.
    forwards_reserved: bool,
    /// A mirror of what a port receives is polled by another worker than that port.
    far_mirrors: bool,
    /// To and from the switches of other workers, if there are any.
    news: Option<Box<News>>,
    /// Ticks of the worker's clock.
    second: u64,
    now: u64,
    next_second: u64,
    seconds: u32,
}

impl std::fmt::Debug for Switch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Switch")
            .field("ports", &self.ports)
            .field("table", &self.table)
            .finish_non_exhaustive()
    }
}

impl Switch {
    /// A switch without ports yet.
    ///
    /// # Errors
    /// When there is no memory.
    pub fn new(limits: TableLimits) -> Result<Switch, ccnic_shm::Error> {
        Ok(Switch { completer: Completer::new()?, ..Switch::with(MAX_PORTS, limits) })
    }

    /// For a worker whose clients are not joined: there can be no port.
    pub fn none() -> Switch {
        Switch::with(0, TableLimits { addresses: 0, ..TableLimits::default() })
    }

    fn with(ports: usize, limits: TableLimits) -> Switch {
        Switch {
            slots: (0..ports).map(|_| None).collect(),
            ports: 0,
            fan_out: 0,
            far: 0,
            table: MacTable::new(ports, limits),
            completer: Completer::none(),
            floods: 0,
            per_copy: 1,
            ruled: false,
            captures: Captures::default(),
            special: false,
            forwards_reserved: false,
            far_mirrors: false,
            news: None,
            second: u64::MAX,
            now: 0,
            next_second: 0,
            seconds: 0,
        }
    }

    /// Has frames to 01:80:c2:00:00:00 to :0f forwarded as those to other groups, instead of dropped. Of a switch without ports.
    #[must_use]
    pub fn with_reserved(self, reserved: Reserved) -> Switch {
        Switch { forwards_reserved: reserved == Reserved::Forward, ..self }
    }

    /// The clock that [`tick`](Switch::tick) is called with has so many ticks in a second.
    pub fn set_clock(&mut self, second: u64) {
        self.second = second.max(1);
    }

    /// The time, from time to time: what was not seen for long is forgotten, a few addresses a call.
    pub fn tick(&mut self, now: u64) {
        self.now = now;
        if now >= self.next_second {
            let passed = (now - self.next_second) / self.second + 1;
            self.next_second = self.next_second.saturating_add(passed.saturating_mul(self.second));
            self.seconds = self.seconds.saturating_add(passed.min(u32::MAX.into()) as u32);
        }
        self.table.tick(self.seconds);
        self.captures.settle(now, self.second);
        if self.news.is_some() {
            self.exchange_news();
        }
    }

    /// Gives copies of packets to `capture` from now on.
    pub fn capture(&mut self, capture: Box<Capture>) {
        self.captures.add(capture, self.second);
        self.settle();
    }

    /// Hands over what has been captured: the worker is about to sleep.
    pub fn hand_over_captured(&mut self) {
        self.captures.hand_over();
    }

    /// Ends a capture, if it is here.
    pub fn end_capture(&mut self, id: u64) -> Option<Capture> {
        let ended = self.captures.remove(id);
        self.settle();
        ended
    }

    /// Ticks of that clock in a microsecond.
    pub fn microsecond(&self) -> u64 {
        self.second / 1_000_000
    }

    /// True when it has no ports.
    pub fn is_empty(&self) -> bool {
        self.ports == 0
    }

    /// Takes a client's port, or what there is of it here, at a place that is the same in the switches of all workers.
    ///
    /// # Errors
    /// It, where there is no such place, or it is taken.
    pub fn join(&mut self, client: ClientId, at: PortId, member: Member) -> Result<(), Member> {
        let free = self.slots.get_mut(usize::from(at)).filter(|slot| slot.is_none());
        let Some(slot) = free else { return Err(member) };
        let new = Slot {
            client,
            port: None,
            lanes: None,
            guest: None,
            away: None,
            accepts: Accepting::Always(Accepts::COMPLETE),
            last: Verdict::ZEROS,
            changes: 0,
            rules: None,
            floods: false,
            watches: false,
            over_rate: 0,
        };
        let (new, rules) = match member {
            Member::Home(mut port, lanes) => {
                let (accepts, rules) = (port.accepts(), port.take_rules());
                (Slot { port: Some(port), lanes, accepts, ..new }, rules)
            }
            Member::Guest(mut guest) => {
                let (away, accepts, rules) = (Some(guest.home), guest.accepts.clone(), guest.rules.take());
                (Slot { guest: Some(guest), away, accepts, ..new }, rules)
            }
        };
        *slot = Some(new);
        self.ports += 1;
        self.set_rules(at, rules);
        Ok(())
    }

    /// Gives a port back, and forgets the addresses at it.
    pub fn leave(&mut self, at: PortId) -> Option<Member> {
        let slot = self.slots.get_mut(usize::from(at))?.take()?;
        self.ports -= 1;
        self.table.forget(at);
        self.settle();
        let home = slot.port.map(|port| Member::Home(port, slot.lanes));
        home.or(slot.guest.map(Member::Guest))
    }

    /// What the operator has decided for a port is in force from now on; returns what was before. The addresses at the port are learned anew.
    pub fn set_rules(&mut self, at: PortId, mut rules: Option<Box<Rules>>) -> Option<Box<Rules>> {
        self.table.forget(at);
        rules.iter_mut().for_each(|rules| rules.start(self.second));
        let before = self.slot(at).and_then(|slot| std::mem::replace(&mut slot.rules, rules));
        self.settle();
        self.fix(at);
        before
    }

    /// What the operator has said to be at a port is there; at a mirror nothing is, so what was learned of such an address elsewhere stays.
    fn fix(&mut self, at: PortId) {
        let Switch { slots, table, .. } = self;
        let slot = slots.get(usize::from(at)).and_then(Option::as_ref).filter(|slot| !slot.watches);
        let fixed = slot.and_then(|slot| slot.rules.as_ref()).map(|rules| &rules.policy().fixed);
        fixed.into_iter().flatten().for_each(|station| _ = table.fix(*station, at));
    }

    /// Finds out where ports are, whether there are rules, and who is whose mirror.
    fn settle(&mut self) {
        let place = |slots: &[Option<Slot>], of: ClientId| {
            slots.iter().position(|slot| slot.as_ref().is_some_and(|slot| slot.client == of))
        };
        let mut watching = Vec::new();
        for at in 0..self.slots.len() {
            let mirror = self.slots.get(at).and_then(|slot| slot.as_ref()?.rules.as_ref()?.policy().mirror);
            let to = mirror.and_then(|mirror| place(&self.slots, mirror.to)).filter(|to| *to != at);
            let rules = self.slots.get_mut(at).and_then(|slot| slot.as_mut()?.rules.as_mut());
            rules.into_iter().for_each(|rules| rules.mirror = to.map(|to| to as PortId));
            watching.extend(to);
        }
        for at in 0..self.slots.len() {
            let watches = watching.contains(&at);
            let Some(slot) = self.slots.get_mut(at).and_then(Option::as_mut) else { continue };
            let watched = std::mem::replace(&mut slot.watches, watches);
            if watches {
                self.table.forget(at as PortId); // nothing goes there but copies, whatever is said to be there
            } else if watched {
                self.fix(at as PortId);
            }
        }
        let mut rules = self.slots.iter().flatten().filter_map(|slot| slot.rules.as_ref());
        self.ruled = !self.captures.is_empty() || rules.any(|rules| !rules.only_storm);
        self.special = self.ruled || self.news.is_some();
        let mut rules = self.slots.iter().flatten().filter_map(|slot| slot.rules.as_ref());
        let mirrored = rules.any(|rules| rules.mirrors_received().is_some());
        self.per_copy = 1 + usize::from(mirrored);
        self.far = self.slots.iter().flatten().filter_map(|slot| slot.away).fold(0, |far, at| far | 1 << at);
        let homes = self.slots.iter().flatten().filter(|slot| slot.away.is_none()).count();
        self.fan_out = homes.saturating_sub(1) + self.far.count_ones() as usize;
        let far_mirror = |slot: &Slot| {
            let mirror = slot.rules.as_ref().and_then(|rules| rules.mirrors_received());
            mirror.is_some_and(|mirror| self.away(mirror) != slot.away)
        };
        self.far_mirrors = self.slots.iter().flatten().any(far_mirror);
        self.table.invalidate();
    }

    /// The counters of every queue of a port.
    pub fn report(&self, at: PortId) -> Vec<QueueStatus> {
        let Some(slot) = self.slots.get(usize::from(at)).and_then(Option::as_ref) else { return Vec::new() };
        let mut queues = match (&slot.port, &slot.guest) {
            (Some(port), _) => port.report(),
            (None, Some(guest)) => vec![guest.report()],
            (None, None) => Vec::new(),
        };
        queues.iter_mut().take(1).for_each(|first| first.drop_rate = slot.over_rate);
        queues
    }

    /// True when what a port has dealt with last is a packet that other ports are still to get.
    pub(crate) fn is_flooding(&self, at: PortId) -> bool {
        self.slots.get(usize::from(at)).and_then(Option::as_ref).is_some_and(|slot| slot.floods)
    }

    /// A port.
    pub fn port(&self, at: PortId) -> Option<&dyn SwitchPort> {
        self.slots.get(usize::from(at))?.as_ref()?.port.as_deref()
    }

    /// A port.
    pub fn port_mut(&mut self, at: PortId) -> Option<&mut (dyn SwitchPort + 'static)> {
        self.slots.get_mut(usize::from(at))?.as_mut()?.port.as_deref_mut()
    }

    /// What all ports take as it is that a frame, which begins with these bytes and comes from port `from`, would go to.
    pub fn accepts(&self, from: PortId, frame: &[u8]) -> Accepts {
        let polled = |slot: &Slot| slot.port.is_none() && slot.away.is_none();
        let takes = |slot: &Slot| if polled(slot) { Accepts::ALL } else { slot.accepts.now() };
        let both = |accepts: Accepts, slot: &Slot| accepts.and(takes(slot));
        let slot = |at: PortId| self.slots.get(usize::from(at)).and_then(Option::as_ref);
        // In the VLAN of a frame that may not enter it goes nowhere, and what is said does not matter.
        let vlan = slot(from)
            .and_then(|slot| slot.rules.as_ref())
            .map_or(Some(0), |rules| rules.vlans().enters(ccnic_frame::vlan::outer(frame)));
        let to = frame.first_chunk().map(|to| Mac::new(*to)).filter(|to| !to.is_group());
        let known = to.and_then(|to| self.table.port_of(Station::new(to, vlan?))).and_then(slot);
        let mirrors = self.slots.iter().flatten().filter(|slot| slot.watches);
        match known {
            Some(to) => mirrors.fold(takes(to), both),
            None => self.slots.iter().flatten().fold(Accepts::ALL, both),
        }
    }

    /// The address table.
    pub fn table(&self) -> &MacTable {
        &self.table
    }

    /// The client whose port it is.
    pub fn client(&self, at: PortId) -> Option<ClientId> {
        self.slots.get(usize::from(at))?.as_ref().map(|slot| slot.client)
    }

    /// Polls a port up to so many times, until it has found something; returns how much.
    #[inline]
    pub fn spin(&mut self, at: PortId, polls: usize) -> usize {
        let Some(mut port) = self.slot(at).and_then(|slot| slot.port.take()) else {
            return self.deliver_handed(at);
        };
        let moved = port.spin(at, polls, self);
        if let Some(slot) = self.slot(at) {
            slot.port = Some(port);
        }
        moved
    }

    #[inline(always)]
    fn slot(&mut self, at: PortId) -> Option<&mut Slot> {
        self.slots.get_mut(usize::from(at))?.as_mut()
    }
}
