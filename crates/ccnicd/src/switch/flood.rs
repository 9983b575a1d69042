//! Packets that are flooded to more ports than one poll copies them to: each poll gives them to some more, and they stay the first of their
//! queue until all have them. So no poll lasts longer because a switch has many ports.
//!
//! ```text
//!   poll 1: [F, p, q]  F to ports 1..9     nothing is completed
//!   poll 2: [F, p, q]  F to ports 10..18   nothing
//!   poll 3: [F, p, q]  F to 19, 20         F is completed; p is next
//! ```
//!
//! A poll's work is counted in copies of small packets ([`COPIES`]): of long ones and super-packets more ([`weight`]).

use ccnic::Desc;
use ccnic::nic::{Dealt, Origin};
use ccnic_frame::Meta;
use ccnic_shm::NativeMemory;

use super::complete::{BYTES, SEGMENTS};
use super::forward::{COPIES, FLOOD, SAME_PORT};
use super::govern::{Ready, Sender, first};
use super::lanes::{Guest, Handed};
use super::policy::look::Seen;
use super::*;

/// A bit for each port.
type Ports = [u64; MAX_PORTS / 64];

/// A packet that some ports have and others are to get.
#[derive(Debug, Clone, Copy)]
pub(super) struct Flood {
    left: Ports,
    /// No other flood of this switch has it.
    number: u64,
    /// That the packet is in; 0 where there are none.
    vlan: u16,
    /// Made so far, those for other workers included.
    copies: u64,
}

/// A switch's state for a queue of a port: what became of its packets, and the one that is being flooded.
#[derive(Debug, Default)]
pub struct Sending {
    pub(crate) counters: SwitchCounters,
    pub(super) flood: Option<Flood>,
}

impl Flood {
    /// Takes out a port that is to get the packet.
    fn next(&mut self) -> Option<usize> {
        let (at, word) = self.left.iter_mut().enumerate().find(|(_, word)| **word != 0)?;
        let bit = word.trailing_zeros() as usize;
        *word &= *word - 1;
        Some(64 * at + bit)
    }

    fn is_done(&self) -> bool {
        self.left.iter().all(|word| *word == 0)
    }
}

/// The cost of a copy of a packet, in copies of small packets: a descriptor counts as one, as do so many [bytes](BYTES).
pub(super) fn weight(packet: &[Desc]) -> usize {
    packet.len() + (bytes(packet) / BYTES) as usize
}

/// As `weight`, of a packet that may have to be cut.
pub(super) fn weight_cut(packet: &[Desc]) -> usize {
    weight(packet) + segments(packet)
}

/// Segments that a packet may have to be cut into: 0 of one that is no super-packet.
pub(super) fn segments(packet: &[Desc]) -> usize {
    let cut = packet.first().and_then(|desc| Meta::from_word(desc.meta).segmentation());
    cut.map_or(0, |cut| bytes(packet).div_ceil(u32::from(cut.size).max(1)).min(SEGMENTS) as usize)
}

fn bytes(packet: &[Desc]) -> u32 {
    packet.iter().map(|desc| u32::from(desc.len())).sum()
}

impl Switch {
    /// True when one poll does not make all copies of a packet that goes to so many ports, or workers.
    pub(super) fn is_long(&self, packet: &[Desc], receivers: usize) -> bool {
        receivers.saturating_mul(weight_cut(packet)).saturating_mul(self.per_copy) > COPIES
    }

    /// Begins to flood a packet: no port has it yet. `isolated`: so is its port.
    pub(super) fn flood(&mut self, vlan: u16, isolated: bool) -> Flood {
        let mut left = Ports::default();
        for (at, slot) in self.slots.iter().enumerate() {
            if slot.as_ref().is_some_and(|slot| slot.port.is_some() && slot.takes_floods(vlan, isolated)) {
                left.get_mut(at / 64).into_iter().for_each(|word| *word |= 1 << (at % 64));
            }
        }
        self.floods += 1;
        Flood { left, number: self.floods, vlan, copies: 0 }
    }

    /// One poll of a flood: gives the first of `packets` to some more ports.
    #[cold]
    #[inline(never)]
    pub(super) fn go_on(
        &mut self,
        from: PortId,
        sending: &mut Sending,
        origin: &Origin<'_, NativeMemory>,
        packets: &[Desc],
    ) -> Dealt {
        let open = self.news.is_some();
        let packet = first(packets, 0).unwrap_or_default();
        let Some(mut flood) = sending.flood.take() else { return Dealt { descs: 0, open, goes_on: false } };
        let done = match self.ruled {
            true => self.give_by_rules(from, false, &mut flood, &mut sending.counters, origin, packet),
            false => self.give_plainly(&mut flood, origin, packet),
        };
        self.slot(from).into_iter().for_each(|slot| slot.floods = !done);
        if !done {
            sending.flood = Some(flood);
            return Dealt { descs: 0, open, goes_on: true };
        }
        if open && !self.ruled {
            flood.copies += u64::from(self.far.count_ones());
            self.hand_over_flood(from, packet, &mut sending.counters);
        }
        match flood.copies {
            0 => sending.counters.no_destination += 1, // its receivers have gone meanwhile
            copies => {
                sending.counters.flooded += 1;
                sending.counters.extra_copies += copies - 1;
            }
        }
        Dealt { descs: packet.len(), open, goes_on: false }
    }

    /// Floods where no port has rules. True when all ports have the packet.
    fn give_plainly(
        &mut self,
        flood: &mut Flood,
        origin: &Origin<'_, NativeMemory>,
        packet: &[Desc],
    ) -> bool {
        let (weight, mut spent) = (weight(packet), 0);
        let Switch { slots, completer, .. } = self;
        completer.flood(Some(flood.number));
        _ = completer.take_work();
        while spent < COPIES {
            let Some(to) = flood.next() else { break };
            let slot = slots.get_mut(to).and_then(Option::as_mut);
            let Some(port) = slot.and_then(|slot| slot.port.as_mut()) else { continue };
            flood.copies += 1;
            let mut lost = false;
            port.receive(origin, packet, &[], &mut |_, _| lost = true, completer);
            let work = completer.take_work();
            spent += if lost { 1 } else { weight } + work;
        }
        completer.flood(None);
        flood.is_done()
    }

    /// Floods where ports have rules. Those of the packet's own port are looked at in each poll: it may have changed the packet
    /// meanwhile, and then nobody else gets it. `away`: another worker polls that port.
    fn give_by_rules(
        &mut self,
        from: PortId,
        away: bool,
        flood: &mut Flood,
        counters: &mut SwitchCounters,
        origin: &Origin<'_, NativeMemory>,
        packet: &[Desc],
    ) -> bool {
        let mut rules = self.slot(from).and_then(|slot| slot.rules.take());
        let mut sender = Sender { at: from, rules: rules.as_deref_mut(), away };
        let seen = sender.look(origin.mem, packet, bytes(packet)).ok();
        let same = |seen: &Seen| {
            seen.vlan == flood.vlan && sender.allows(seen) && !self.ends_here(seen.addresses.destination())
        };
        let held = match seen.filter(same) {
            Some(seen) => Some(seen.held),
            None => {
                flood.left = Ports::default();
                None
            }
        };
        let mut ready = Ready::new();
        ready.push(FLOOD, packet, held.flatten());
        self.completer.flood(Some(flood.number));
        _ = self.completer.take_work();
        self.give_ready(&sender, &ready, flood, counters, origin);
        self.completer.flood(None);
        let done = flood.is_done();
        if done && !away && self.news.is_some() {
            let to = if held.is_some() { FLOOD } else { SAME_PORT };
            let workers = self.far_takers(flood.vlan, sender.isolated());
            flood.copies += if to == FLOOD { u64::from(workers.count_ones()) } else { 0 };
            ready.decide(to, flood.vlan, packet);
            self.hand_over_by_rules(&sender, &ready, counters, origin, packet);
        }
        rules.iter_mut().filter_map(|rules| rules.private.as_mut()).for_each(|private| private.clear());
        self.slot(from).into_iter().for_each(|slot| slot.rules = rules.take());
        done
    }

    /// Gives a packet that has been looked at to some more ports.
    fn give_ready(
        &mut self,
        sender: &Sender<'_>,
        ready: &Ready,
        flood: &mut Flood,
        counters: &mut SwitchCounters,
        origin: &Origin<'_, NativeMemory>,
    ) {
        let private = sender.private();
        let (mem, mtu) = private.map_or((origin.mem, origin.mtu), |private| (private.memory(), ready.mtu()));
        let origin = Origin { mem, mtu, idle: origin.idle };
        let (has_vlans, isolated, packet) = (sender.has_vlans(), sender.isolated(), ready.descs());
        let (weight, mut spent) = (weight(packet), 0);
        while spent < COPIES {
            let Some(to) = flood.next() else { break };
            let slot = self.slots.get(to).and_then(Option::as_ref);
            if slot.is_some_and(|slot| slot.port.is_some() && slot.takes_floods(flood.vlan, isolated)) {
                flood.copies += 1;
                self.give(to as PortId, has_vlans, counters, &origin, packet, &[]);
                let work = self.completer.take_work();
                spent += (weight + work) * (self.per_copy + self.captures.len());
            }
        }
    }

    /// One poll of a flood that another worker has handed over; `None` when the first packet is none that takes several polls. Returns
    /// the descriptors that were dealt with, and those that are done with.
    pub(super) fn flood_handed(
        &mut self,
        from: PortId,
        guest: &mut Guest,
        handed: &Handed,
    ) -> Option<(usize, usize)> {
        let packet = first(handed.descs(), 0).filter(|_| handed.to(0).0 == FLOOD)?;
        let mut flood = match guest.sending.flood.take() {
            Some(flood) => flood,
            None => {
                let homes = self.slots.iter().flatten().filter(|slot| slot.port.is_some()).count();
                self.is_long(packet, homes).then(|| self.begin_handed(from, guest, packet))??
            }
        };
        let mut counters = guest.sending.counters;
        let origin = guest.origin(false);
        let done = match self.ruled {
            true => self.give_by_rules(from, true, &mut flood, &mut counters, &origin, packet),
            false => self.give_plainly(&mut flood, &origin, packet),
        };
        guest.sending.counters = counters;
        if !done {
            guest.sending.flood = Some(flood);
            return Some((1, 0));
        }
        match flood.copies {
            0 => guest.sending.counters.no_destination += 1,
            copies => guest.sending.counters.extra_copies += copies - 1,
        }
        Some((packet.len(), packet.len()))
    }

    /// `None` for a packet that is not to be flooded: its port may not send it.
    fn begin_handed(&mut self, from: PortId, guest: &Guest, packet: &[Desc]) -> Option<Flood> {
        if !self.ruled {
            return Some(self.flood(0, false));
        }
        let mut rules = self.slot(from).and_then(|slot| slot.rules.take());
        let mut sender = Sender { at: from, rules: rules.as_deref_mut(), away: true };
        let seen = sender.look(guest.origin(false).mem, packet, bytes(packet));
        let flood = seen.ok().filter(|seen| sender.allows(seen)).map(|seen| {
            let isolated = sender.isolated();
            self.flood(seen.vlan, isolated)
        });
        rules.iter_mut().filter_map(|rules| rules.private.as_mut()).for_each(|private| private.clear());
        self.slot(from).into_iter().for_each(|slot| slot.rules = rules.take());
        flood
    }
}

#[cfg(test)]
mod tests;
