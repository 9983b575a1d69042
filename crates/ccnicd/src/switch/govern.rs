//! Forwarding on a switch where the operator has decided anything for a port: VLANs, who may speak from which address and how much, who
//! may talk with whom, copies for mirrors.
//!
//! ```text
//!   port A: fetch ─► may it send more now? ─no─► the rest waits where it is
//!                       │yes
//!                       ▼
//!            A's policy looks into frames? ─yes─► copy into memory that A cannot write; the tag goes into the metadata;
//!                       │no                       VLAN and IP addresses are checked there
//!                       ▼
//!            last pair, in the same VLAN? ─no─► A's MAC addresses, table, isolation
//!                       │
//!                       ▼
//!            flooded? ─yes─► more than A may flood? dropped
//!                       │
//!                       ▼  port by port
//!            what B may receive, B's tag ─► B: copy, publish ─► copies for B's mirror
//! ```
//!
//! Everything that a verdict says depends on addresses, VLAN, and tables that change rarely, so it is remembered as on a switch without
//! policies. Limits are looked at packet by packet.

use ccnic::nic::{FETCH, Origin, Steered};
use ccnic::{Desc, SharedMemory};
use ccnic_control::capture::Reason;
use ccnic_frame::Meta;
use ccnic_shm::NativeMemory;

use super::flood::{segments, weight_cut};
use super::forward::{
    BAD_SOURCE, COPIES, FLOOD, ISOLATED, RESERVED, SAME_PORT, SPOOFED, STORM, TOO_LONG, TOO_SHORT, WRONG_VLAN,
};
use super::frame::{Addresses, Station};
use super::leaving::Leaving;
use super::policy::Rules;
use super::policy::look::{Held, Seen, Unfit};
use super::policy::private::Private;
use super::table::Learned;
use super::*;
use crate::ports::only_counted;

/// Packets of a burst that are ready to go, in order.
pub(super) struct Ready {
    descs: [Desc; FETCH],
    to: [u16; FETCH],
    len: usize,
    /// The descriptors of the burst that they were.
    taken: usize,
    /// The longest of them, where they were copied.
    longest: u32,
    /// Of the burst, by descriptor: where the packet that begins there goes, and in which VLAN.
    verdicts: [(u16, u16); FETCH],
    /// There is one packet, which goes to more ports than one poll copies it to.
    long: bool,
}

/// Whoever is sending.
pub(super) struct Sender<'a> {
    pub(super) at: PortId,
    /// `None`: anything is allowed.
    pub(super) rules: Option<&'a mut Rules>,
    /// It is another worker's, which has handed its packets over.
    pub(super) away: bool,
}

impl Sender<'_> {
    pub(super) fn isolated(&self) -> bool {
        self.rules.as_ref().is_some_and(|rules| rules.policy().isolated)
    }

    /// True when it may speak from the address that a packet claims.
    pub(super) fn allows(&self, seen: &Seen) -> bool {
        self.rules.as_ref().is_none_or(|rules| rules.sources.allows(seen.addresses.source()))
    }

    pub(super) fn has_vlans(&self) -> bool {
        self.rules.as_ref().is_some_and(|rules| rules.vlans().has_vlans())
    }

    pub(super) fn private(&self) -> Option<&Private> {
        self.rules.as_ref()?.private.as_ref()
    }

    /// Looks at a packet: copies it out first, if anything but its addresses matters.
    #[inline(always)]
    pub(super) fn look(&mut self, mem: &NativeMemory, packet: &[Desc], bytes: u32) -> Result<Seen, Unfit> {
        if let Some(rules) = self.rules.as_deref_mut().filter(|rules| rules.private.is_some()) {
            return rules.look(mem, packet, bytes);
        }
        let addresses = Addresses::read(mem, packet).ok_or(Unfit::TooShort)?;
        Ok(Seen { addresses, vlan: 0, held: None })
    }
}

impl Ready {
    pub(super) fn new() -> Ready {
        let (descs, to, verdicts) = ([Desc::default(); FETCH], [FLOOD; FETCH], [(FLOOD, 0); FETCH]);
        Ready { descs, to, len: 0, taken: 0, longest: 0, verdicts, long: false }
    }

    /// The descriptors of the burst that have been decided on.
    pub(super) fn taken(&self) -> usize {
        self.taken
    }

    /// A packet of the burst has been decided on.
    pub(super) fn pass(&mut self, packet: &[Desc]) {
        self.taken += packet.len();
    }

    /// The next packet of the burst goes `to` there.
    pub(super) fn decide(&mut self, to: u16, vlan: u16, packet: &[Desc]) {
        self.verdicts.get_mut(self.taken).into_iter().for_each(|slot| *slot = (to, vlan));
        self.pass(packet);
    }

    pub(super) fn descs(&self) -> &[Desc] {
        self.descs.get(..self.len).unwrap_or_default()
    }

    /// No packet that was copied has more bytes.
    pub(super) fn mtu(&self) -> u16 {
        u16::try_from(self.longest).unwrap_or(u16::MAX)
    }

    /// Where the packet goes that begins at this place in the burst, and in which VLAN.
    pub(super) fn verdict(&self, at: usize) -> (u16, u16) {
        self.verdicts.get(at).copied().unwrap_or((SAME_PORT, 0))
    }

    /// Adds a packet that goes `to` there: as it was copied, with that metadata word, or as it is. False, and nothing done, where there is no
    /// room.
    #[inline(always)]
    pub(super) fn push(&mut self, to: u16, packet: &[Desc], held: Option<Held>) -> bool {
        let needed = held.map_or(packet.len(), |held| held.frame.descs());
        let places = self.len..self.len + needed;
        let (Some(descs), Some(ports)) = (self.descs.get_mut(places.clone()), self.to.get_mut(places)) else {
            return false;
        };
        ports.fill(to);
        match held {
            None => descs.copy_from_slice(packet),
            Some(Held { frame, meta }) => {
                descs.iter_mut().zip(frame.segments(meta)).for_each(|(slot, desc)| *slot = desc);
                self.longest = self.longest.max(frame.len);
            }
        }
        self.len += needed;
        true
    }
}

impl Unfit {
    /// Where such a packet goes.
    pub(super) fn place(self) -> u16 {
        match self {
            Unfit::TooShort => TOO_SHORT,
            Unfit::WrongVlan => WRONG_VLAN,
            Unfit::Spoofed => SPOOFED,
            Unfit::NoRoom => TOO_LONG, // than any packet is
        }
    }
}

impl Switch {
    /// [`forward`](Switch::forward), where ports have rules. May deal with nothing: then `from` has sent what it may, for now.
    #[inline(never)]
    pub(super) fn forward_by_rules(
        &mut self,
        from: PortId,
        sending: &mut Sending,
        origin: &Origin<'_, NativeMemory>,
        packets: &[Desc],
        ahead: &[Desc],
    ) -> usize {
        let counters = &mut sending.counters;
        let Some(slot) = self.slot(from) else { return packets.len() };
        if slot.watches {
            counters.no_destination += number(packets);
            return packets.len();
        }
        let mut rules = slot.rules.take();
        let mut sender = Sender { at: from, rules: rules.as_deref_mut(), away: false };
        let ready = self.sort_by_rules(&mut sender, counters, origin, packets, ahead);
        self.capture_coming(&sender, &ready, origin, packets);
        if ready.long {
            let sent = packets.get(..ready.taken).unwrap_or_default();
            self.mirror_sent(&sender, counters, origin, sent);
            sending.flood = Some(self.flood(ready.verdict(0).1, sender.isolated()));
        } else {
            if self.news.is_some() {
                self.hand_over_by_rules(&sender, &ready, counters, origin, packets);
            }
            self.pass_by_rules(&sender, &ready, counters, origin, packets, ahead);
        }
        rules.iter_mut().filter_map(|rules| rules.private.as_mut()).for_each(Private::clear);
        self.slot(from).into_iter().for_each(|slot| slot.rules = rules.take());
        ready.taken
    }

    /// Decides on packets, in order, until there are enough copies to make, or the port has sent what it may.
    fn sort_by_rules(
        &mut self,
        sender: &mut Sender<'_>,
        counters: &mut SwitchCounters,
        origin: &Origin<'_, NativeMemory>,
        packets: &[Desc],
        ahead: &[Desc],
    ) -> Ready {
        let mirrored = usize::from(sender.rules.as_ref().is_some_and(|rules| rules.mirrors_sent().is_some()));
        let others = self.fan_out;
        let (mut last, mut copies, mut came) = (self.last_of(sender.at), 0, false);
        let mut ready = Ready::new();
        while let Some(packet) = first(packets, ready.taken) {
            if copies >= COPIES {
                break;
            }
            let bytes: u32 = packet.iter().map(|desc| u32::from(desc.len())).sum();
            if let Some(rules) = &mut sender.rules
                && !rules.limits.sends.admits(self.now)
            {
                counters.waits += 1;
                break;
            }
            let (to, held) = match sender.look(origin.mem, packet, bytes) {
                Ok(seen) => {
                    if seen.addresses != last.addresses || seen.vlan != last.vlan {
                        self.saw(&last, came);
                        last = self.judge(sender, &seen, counters);
                    }
                    came = true;
                    if last.to == FLOOD && ready.taken > 0 && self.is_long(packet, others) {
                        break; // it begins in the next poll
                    }
                    (self.decide(sender, &last), seen.held)
                }
                Err(Unfit::NoRoom) if ready.taken > 0 => break,
                Err(unfit) => (unfit.place(), None),
            };
            if !ready.push(to, packet, held) {
                break;
            }
            let soon = ahead.get(ready.taken..).into_iter().flatten().take(packet.len());
            soon.for_each(|desc| origin.mem.prefetch_read(desc.offset()));
            sender.rules.iter_mut().for_each(|rules| rules.limits.sends.charge(bytes));
            let each = if to == FLOOD { others * weight_cut(packet) } else { 1 + segments(packet) };
            copies += mirrored + each * self.per_copy;
            ready.long = ready.taken == 0 && to == FLOOD && self.is_long(packet, others);
            ready.decide(to, last.vlan, packet);
        }
        self.saw(&last, came);
        let changes = self.table.changes();
        self.slot(sender.at).into_iter().for_each(|slot| (slot.last, slot.changes) = (last, changes));
        ready
    }

    /// Where a packet goes that this is the verdict on.
    fn decide(&mut self, sender: &mut Sender<'_>, verdict: &Verdict) -> u16 {
        if let Some(rules) = sender.rules.as_mut().filter(|_| verdict.to == FLOOD)
            && !rules.limits.floods.passes(self.now)
        {
            return STORM;
        }
        verdict.to
    }

    /// Learns the source of a packet, and finds its destination.
    #[inline(never)]
    fn judge(&mut self, sender: &Sender<'_>, seen: &Seen, counters: &mut SwitchCounters) -> Verdict {
        let Seen { addresses, vlan, .. } = *seen;
        let (to, source) = (addresses.destination(), addresses.source());
        let dropped = |to| Verdict { addresses, vlan, to, source: None };
        if !source.is_station() {
            return dropped(BAD_SOURCE);
        }
        if !sender.allows(seen) {
            return dropped(SPOOFED);
        }
        if self.ends_here(to) {
            return dropped(RESERVED);
        }
        let source = match self.table.learn(Station::new(source, vlan), sender.at) {
            Learned::At(place) => Some(place),
            Learned::Refused => {
                counters.not_learned += 1;
                None
            }
        };
        let known = if to.is_group() { None } else { self.table.port_of(Station::new(to, vlan)) };
        let to = match known {
            Some(port) if port == sender.at => SAME_PORT,
            Some(port) if sender.isolated() && self.isolates(port) => ISOLATED,
            Some(port) => port,
            None => FLOOD,
        };
        Verdict { addresses, vlan, to, source }
    }

    fn isolates(&self, port: PortId) -> bool {
        let slot = self.slots.get(usize::from(port)).and_then(Option::as_ref);
        slot.and_then(|slot| slot.rules.as_ref()).is_some_and(|rules| rules.policy().isolated)
    }

    /// Passes packets on, and copies of what they were to the sender's mirror.
    pub(super) fn pass_by_rules(
        &mut self,
        sender: &Sender<'_>,
        ready: &Ready,
        counters: &mut SwitchCounters,
        origin: &Origin<'_, NativeMemory>,
        packets: &[Desc],
        ahead: &[Desc],
    ) {
        self.mirror_sent(sender, counters, origin, packets.get(..ready.taken).unwrap_or_default());
        let mut steered = Steered::default();
        ready.descs.iter().zip(ready.to).take(ready.len).for_each(|(desc, to)| _ = steered.push(*desc, to));
        match sender.private() {
            None => {
                steered.deal(ahead, |to, packets, ahead| {
                    self.pass_one(sender, to, counters, origin, packets, ahead)
                });
            }
            Some(private) => {
                let origin = Origin { mem: private.memory(), mtu: ready.mtu(), idle: origin.idle };
                steered
                    .deal(&[], |to, packets, _| self.pass_one(sender, to, counters, &origin, packets, &[]));
            }
        }
    }

    /// Gives copies of what a port here has sent to its mirror.
    fn mirror_sent(
        &mut self,
        sender: &Sender<'_>,
        counters: &mut SwitchCounters,
        origin: &Origin<'_, NativeMemory>,
        packets: &[Desc],
    ) {
        let mirror = sender.rules.as_ref().and_then(|rules| rules.mirrors_sent()).filter(|_| !sender.away);
        mirror.into_iter().for_each(|mirror| self.copy_to_mirror(mirror, counters, origin, packets));
    }

    /// Passes on packets that all go to the same place, or nowhere.
    fn pass_one(
        &mut self,
        sender: &Sender<'_>,
        to: u16,
        counters: &mut SwitchCounters,
        origin: &Origin<'_, NativeMemory>,
        packets: &[Desc],
        ahead: &[Desc],
    ) {
        match to {
            TOO_SHORT => counters.too_short += number(packets),
            BAD_SOURCE => counters.bad_source += number(packets),
            RESERVED => counters.reserved += number(packets),
            SPOOFED => counters.spoofed += number(packets),
            WRONG_VLAN => counters.wrong_vlan += number(packets),
            ISOLATED => counters.isolated += number(packets),
            STORM => counters.storm += number(packets),
            FLOOD => self.flood_by_rules(sender, counters, origin, packets),
            SAME_PORT | TOO_LONG => counters.no_destination += number(packets),
            to => self.give(to, sender.has_vlans(), counters, origin, packets, ahead),
        }
    }

    /// Passes on packets to all ports of their VLAN that the sender may talk with.
    fn flood_by_rules(
        &mut self,
        sender: &Sender<'_>,
        counters: &mut SwitchCounters,
        origin: &Origin<'_, NativeMemory>,
        packets: &[Desc],
    ) {
        let (has_vlans, isolated) = (sender.has_vlans(), sender.isolated());
        let mut rest = packets;
        while let Some(desc) = rest.first() {
            let vlan = vlan_of(desc, has_vlans);
            let run = rest.iter().take_while(|desc| vlan_of(desc, has_vlans) == vlan).count();
            let (now, later) = rest.split_at(run);
            rest = later;
            let mut receivers = 0;
            if !sender.away {
                receivers += u64::from(self.far_takers(vlan, isolated).count_ones());
            }
            for to in 0..self.slots.len() {
                let slot = self.slots.get(to).and_then(Option::as_ref);
                if slot.is_some_and(|slot| slot.port.is_some() && slot.takes_floods(vlan, isolated)) {
                    self.give(to as PortId, has_vlans, counters, origin, now, &[]);
                    receivers += 1;
                }
            }
            let number = number(now);
            match receivers {
                0 => counters.no_destination += number,
                _ => {
                    counters.flooded += if sender.away { 0 } else { number };
                    counters.extra_copies += number * (receivers - 1);
                }
            }
        }
    }

    /// Gives packets to a port, as its policy has it. If they come from a port that `has_vlans`, their VLAN is in their metadata.
    pub(super) fn give(
        &mut self,
        to: PortId,
        has_vlans: bool,
        counters: &mut SwitchCounters,
        origin: &Origin<'_, NativeMemory>,
        packets: &[Desc],
        ahead: &[Desc],
    ) {
        let (now, mut rest) = (self.now, packets);
        while !rest.is_empty() {
            let Switch { slots, captures, completer, .. } = self;
            let slot = slots.get_mut(usize::from(to)).and_then(Option::as_mut);
            let Some(Slot { client, port: Some(port), rules, over_rate, .. }) = slot else { return };
            let Some(rules) = rules else {
                let parts = (rest, ahead);
                return captures.receive(now, *client, &mut **port, origin, parts, completer);
            };
            let mut leaving = Leaving::new(port.takes_offloads());
            rest = leaving.fill(rules, has_vlans, origin.mem, rest, now, |packet| {
                captures.went(now, *client, origin.mem, packet, std::iter::once(Some(Reason::Rate)));
            });
            *over_rate += leaving.over_rate();
            let origin = leaving.origin(origin);
            if !leaving.descs().is_empty() {
                let parts = (leaving.descs(), &[][..]);
                captures.receive(now, *client, &mut **port, &origin, parts, completer);
            }
            if let Some(mirror) = rules.mirrors_received() {
                self.copy_to_mirror(mirror, counters, &origin, leaving.descs());
            }
            leaving.restore(origin.mem);
        }
    }

    /// Captures packets as their port has sent them, with the reason for which some of them go nowhere.
    fn capture_coming(
        &mut self,
        sender: &Sender<'_>,
        ready: &Ready,
        origin: &Origin<'_, NativeMemory>,
        packets: &[Desc],
    ) {
        let Some(client) = self.client(sender.at).filter(|_| !self.captures.is_empty()) else { return };
        let Switch { captures, slots, now, .. } = self;
        let (has_vlans, isolated) = (sender.has_vlans(), sender.isolated());
        let reaches = |desc: &Desc| {
            let takes = |slot: &Slot| slot.takes_floods(vlan_of(desc, has_vlans), isolated);
            let others = slots.iter().enumerate().filter(|(at, _)| *at != usize::from(sender.at));
            others.filter_map(|(_, slot)| slot.as_ref()).any(takes)
        };
        let ends = ready.descs.iter().zip(ready.to).take(ready.len).filter(|(desc, _)| !desc.more());
        let dropped = ends.map(|(desc, to)| match to {
            FLOOD if !reaches(desc) => Some(Reason::NoDestination),
            to => reason(to),
        });
        captures.came(*now, client, origin.mem, packets.get(..ready.taken).unwrap_or_default(), dropped);
    }

    pub(super) fn copy_to_mirror(
        &mut self,
        mirror: PortId,
        counters: &mut SwitchCounters,
        origin: &Origin<'_, NativeMemory>,
        packets: &[Desc],
    ) {
        let Switch { slots, completer, .. } = self;
        let slot = slots.get_mut(usize::from(mirror)).and_then(Option::as_mut);
        if let Some(port) = slot.and_then(|slot| slot.port.as_mut())
            && !packets.is_empty()
        {
            port.receive(origin, packets, &[], &mut only_counted, completer);
            counters.extra_copies += number(packets);
        }
    }
}

/// Why packets go nowhere that go to this place, in place of a port.
fn reason(place: u16) -> Option<Reason> {
    match place {
        TOO_SHORT => Some(Reason::TooShort),
        BAD_SOURCE => Some(Reason::BadSource),
        RESERVED => Some(Reason::Reserved),
        SPOOFED => Some(Reason::Spoofed),
        WRONG_VLAN => Some(Reason::Vlan),
        ISOLATED => Some(Reason::Isolated),
        STORM => Some(Reason::Storm),
        SAME_PORT | TOO_LONG => Some(Reason::NoDestination),
        _ => None,
    }
}

/// The packet that begins at `at`, if there is one.
#[inline(always)]
pub(super) fn first(packets: &[Desc], at: usize) -> Option<&[Desc]> {
    packets.get(at..)?.split_inclusive(|desc| !desc.more()).next()
}

/// Packets.
fn number(packets: &[Desc]) -> u64 {
    packets.iter().filter(|desc| !desc.more()).count() as u64
}

/// The VLAN that a segment's metadata name; 0 where they say nothing of VLANs.
fn vlan_of(desc: &Desc, has_vlans: bool) -> u16 {
    let tci = Meta::from_word(desc.meta).vlan().filter(|_| has_vlans);
    tci.map_or(0, |tci| tci.vid())
}
