//! The way of a packet through a [`Switch`]: where the packets of a burst go is found out first, then each port gets its own at once. This is
//! the way where no port has rules, but for how much it may flood, and there is one worker; `govern.rs` and `across.rs` are the others.

use ccnic::Desc;
use ccnic::nic::{Dealt, FETCH, Origin, Steered};
use ccnic_frame::Meta;
use ccnic_shm::NativeMemory;

use super::flood::{segments, weight_cut};
use super::frame::{Addresses, Mac, Station};
use super::govern::first;
use super::slot::Verdict;
use super::table::Learned;
use super::{PortId, Sending, Switch, SwitchCounters};
use crate::ports::only_counted;

/// A poll makes about so many copies of small packets: those of one burst, however many of its packets are flooded. The rest waits for the
/// next poll. A super-packet counts as the segments that it may have to be cut into.
pub(super) const COPIES: usize = FETCH;

/// Where packets go that go to no port, in place of a [`PortId`].
pub(super) const FLOOD: u16 = u16::MAX;
pub(super) const TOO_SHORT: u16 = u16::MAX - 1;
pub(super) const BAD_SOURCE: u16 = u16::MAX - 2;
/// The destination is at the port that they come from.
pub(super) const SAME_PORT: u16 = u16::MAX - 3;
/// What the policies of ports forbid (`govern.rs`).
pub(super) const SPOOFED: u16 = u16::MAX - 4;
pub(super) const WRONG_VLAN: u16 = u16::MAX - 5;
pub(super) const ISOLATED: u16 = u16::MAX - 6;
pub(super) const STORM: u16 = u16::MAX - 7;
pub(super) const TOO_LONG: u16 = u16::MAX - 8;
/// To an address of protocols that end at the next bridge.
pub(super) const RESERVED: u16 = u16::MAX - 9;
/// To the mirror with this number, whatever policies say; of packets that are handed over.
pub(super) const MIRRORED: u16 = 1 << 12;

/// Where the packets of a burst go.
pub(super) struct Sorted {
    pub(super) to: [u16; FETCH],
    /// The descriptors that can be dealt with in this poll.
    pub(super) len: usize,
    /// All go to the same place.
    alike: bool,
    /// There is one packet, which goes to more ports than one poll copies it to.
    pub(super) long: bool,
}

impl Switch {
    /// Passes the first packets of a burst on, which port `from` has fetched; returns the number of their descriptors: all of them,
    /// unless many copies were made; none when the port has sent what it may for now. `from` is being polled. What goes to no port is
    /// counted in `counters`, what its port does not take there. `ahead` are the packets of the next burst, to be prefetched.
    ///
    /// Packets between the same two addresses stay in order. Those to one address and those to a group may overtake each other.
    ///
    /// Where there are several workers the packets stay open, and `from` has [begun](Switch::begin) before.
    pub fn forward(
        &mut self,
        from: PortId,
        sending: &mut Sending,
        origin: &Origin<'_, NativeMemory>,
        packets: &[Desc],
        ahead: &[Desc],
    ) -> Dealt {
        if self.special || sending.flood.is_some() {
            return self.forward_specially(from, sending, origin, packets, ahead);
        }
        let counters = &mut sending.counters;
        let sorted = self.sort(from, counters, origin, packets);
        let packets = packets.get(..sorted.len).unwrap_or_default();
        if sorted.long {
            sending.flood = Some(self.flood(0, false));
            return self.go_on(from, sending, origin, packets);
        }
        if sorted.alike {
            self.pass(sorted.to[0], counters, origin, packets, ahead);
        } else {
            self.pass_each(&sorted, counters, origin, packets, ahead);
        }
        Dealt { descs: sorted.len, open: false, goes_on: false }
    }

    #[cold]
    #[inline(never)]
    fn forward_specially(
        &mut self,
        from: PortId,
        sending: &mut Sending,
        origin: &Origin<'_, NativeMemory>,
        packets: &[Desc],
        ahead: &[Desc],
    ) -> Dealt {
        let descs = match self.ruled {
            _ if sending.flood.is_some() => 0,
            true => self.forward_by_rules(from, sending, origin, packets, ahead),
            false => self.forward_across(from, sending, origin, packets, ahead),
        };
        if sending.flood.is_some() {
            return self.go_on(from, sending, origin, packets);
        }
        Dealt { descs, open: self.news.is_some(), goes_on: false }
    }

    /// Finds out where packets go, in order, until there are enough copies to make.
    #[inline(always)]
    pub(super) fn sort(
        &mut self,
        from: PortId,
        counters: &mut SwitchCounters,
        origin: &Origin<'_, NativeMemory>,
        packets: &[Desc],
    ) -> Sorted {
        let others = self.fan_out;
        let mut last = self.last_of(from);
        let mut sorted = Sorted { to: [FLOOD; FETCH], len: 0, alike: true, long: false };
        let (mut to, mut inside, mut copies, mut came) = (FLOOD, false, 0, false);
        for (i, desc) in packets.iter().enumerate().take(FETCH) {
            if !inside {
                if copies >= COPIES {
                    break;
                }
                to = match Addresses::read(origin.mem, packets.get(i..).unwrap_or_default()) {
                    Some(addresses) => {
                        if addresses != last.addresses {
                            self.saw(&last, came);
                            last = self.look_up(from, addresses, counters);
                        }
                        came = true;
                        last.to
                    }
                    None => TOO_SHORT,
                };
                let packet = packets.get(i..).unwrap_or_default();
                if to == FLOOD {
                    let packet = first(packet, 0).unwrap_or_default();
                    sorted.long = self.is_long(packet, others);
                    if sorted.long && i > 0 {
                        sorted.long = false;
                        break; // it begins in the next poll
                    }
                    if self.may_flood(from) {
                        copies += others * weight_cut(packet);
                    } else {
                        (to, sorted.long) = (STORM, false);
                        copies += 1;
                    }
                } else if desc.meta & Meta::SEGMENT == 0 {
                    copies += 1;
                } else {
                    copies += 1 + segments(first(packet, 0).unwrap_or_default());
                }
            }
            sorted.alike &= i == 0 || to == sorted.to[0];
            sorted.to.get_mut(i).into_iter().for_each(|slot| *slot = to);
            sorted.len = i + 1;
            inside = desc.more();
        }
        self.saw(&last, came);
        let changes = self.table.changes();
        self.slot(from).into_iter().for_each(|slot| (slot.last, slot.changes) = (last, changes));
        sorted
    }

    /// The source of the last verdict was seen, if a packet `came` that the verdict is on: in this burst, not only before it.
    #[inline(always)]
    pub(super) fn saw(&mut self, last: &Verdict, came: bool) {
        last.source.filter(|_| came).into_iter().for_each(|place| self.table.seen(place));
    }

    /// The verdict on the last packet of a port, if that is still right.
    #[inline(always)]
    pub(super) fn last_of(&mut self, port: PortId) -> Verdict {
        let changes = self.table.changes();
        self.slot(port).filter(|slot| slot.changes == changes).map_or(Verdict::ZEROS, |slot| slot.last)
    }

    /// True when a packet of the port may be flooded now: it counts.
    #[cold]
    #[inline(never)]
    fn may_flood(&mut self, from: PortId) -> bool {
        let now = self.now;
        let Some(rules) = self.slot(from).and_then(|slot| slot.rules.as_mut()) else { return true };
        rules.limits.floods.passes(now)
    }

    /// True when frames to this address are for the next bridge, and the operator has not said that they are to be forwarded.
    #[inline(always)]
    pub(super) fn ends_here(&self, to: Mac) -> bool {
        to.is_group() && to.is_reserved() && !self.forwards_reserved
    }

    /// Learns the source of a packet, and finds its destination.
    #[inline(never)]
    fn look_up(&mut self, from: PortId, addresses: Addresses, counters: &mut SwitchCounters) -> Verdict {
        let (to, source) = (addresses.destination(), addresses.source());
        if !source.is_station() {
            return Verdict { addresses, vlan: 0, to: BAD_SOURCE, source: None };
        }
        if self.ends_here(to) {
            return Verdict { addresses, vlan: 0, to: RESERVED, source: None };
        }
        let source = match self.table.learn(Station::new(source, 0), from) {
            Learned::At(place) => Some(place),
            Learned::Refused => {
                counters.not_learned += 1;
                None
            }
        };
        let known = if to.is_group() { None } else { self.table.port_of(Station::new(to, 0)) };
        let to = match known {
            Some(port) if port == from => SAME_PORT,
            Some(port) => port,
            None => FLOOD,
        };
        Verdict { addresses, vlan: 0, to, source }
    }

    /// Passes on packets that go to several places.
    #[inline(never)]
    fn pass_each(
        &mut self,
        sorted: &Sorted,
        counters: &mut SwitchCounters,
        origin: &Origin<'_, NativeMemory>,
        packets: &[Desc],
        ahead: &[Desc],
    ) {
        let mut steered = Steered::default();
        for (desc, to) in packets.iter().zip(sorted.to) {
            steered.push(*desc, to);
        }
        steered.deal(ahead, |to, packets, ahead| self.pass(to, counters, origin, packets, ahead));
    }

    /// Passes on packets that all go to the same place.
    #[inline(always)]
    pub(super) fn pass(
        &mut self,
        to: u16,
        counters: &mut SwitchCounters,
        origin: &Origin<'_, NativeMemory>,
        packets: &[Desc],
        ahead: &[Desc],
    ) {
        let Switch { slots, completer, .. } = self;
        let slot = slots.get_mut(usize::from(to)).and_then(Option::as_mut);
        match slot.and_then(|slot| slot.port.as_mut()) {
            Some(port) => port.receive(origin, packets, ahead, &mut only_counted, completer),
            None => self.pass_to_none(to, counters, origin, packets, ahead),
        }
    }

    /// Passes on packets that do not go to one port: floods them, or drops them.
    #[cold]
    #[inline(never)]
    fn pass_to_none(
        &mut self,
        to: u16,
        counters: &mut SwitchCounters,
        origin: &Origin<'_, NativeMemory>,
        packets: &[Desc],
        ahead: &[Desc],
    ) {
        let number = packets.iter().filter(|desc| !desc.more()).count() as u64;
        let others = self.fan_out as u64;
        match to {
            TOO_SHORT => counters.too_short += number,
            BAD_SOURCE => counters.bad_source += number,
            RESERVED => counters.reserved += number,
            STORM => counters.storm += number,
            FLOOD if others > 0 => {
                counters.flooded += number;
                counters.extra_copies += number * (others - 1);
                let Switch { slots, completer, .. } = self;
                let ports = slots.iter_mut().flatten().filter_map(|slot| slot.port.as_mut());
                ports.for_each(|port| port.receive(origin, packets, ahead, &mut only_counted, completer));
            }
            // Also, were it possible, to a port that is not there.
            _ => counters.no_destination += number,
        }
    }
}
