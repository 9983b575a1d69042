//! A switch beside those of other workers: what is handed over to them, what they hand over, what they tell.
//!
//! Nothing of this is on the way of packets where there is one worker only.

use ccnic::nic::{FETCH, Origin, Steered};
use ccnic::{Desc, SharedMemory};
use ccnic_shm::NativeMemory;

use super::flood::{segments, weight_cut};
use super::forward::{COPIES, FLOOD, MIRRORED, RESERVED, SAME_PORT, SPOOFED, WRONG_VLAN};
use super::govern::{Ready, Sender, first};
use super::lanes::{Guest, Handed, Lanes, mark};
use super::news::{News, Told};
use super::policy::look::Unfit;
use super::table::Place;
use super::*;
use crate::poll::Closing;
use crate::ports::only_counted;

/// A poll copies about so many bytes of what was handed over, and leaves the rest for the next one.
const POLL_BYTES: u32 = 16 << 10;

/// Lines of a packet that are prefetched before the first of a burst is copied.
const AHEAD: u32 = 4;
const LINE: u32 = 64;

/// The most workers of a switch: a word has a bit for each.
pub const MAX_WORKERS: usize = u64::BITS as usize;

impl Switch {
    /// A switch without ports yet, beside those of other workers.
    ///
    /// # Errors
    /// When there is no memory.
    pub(crate) fn beside(limits: TableLimits, news: News) -> Result<Switch, ccnic_shm::Error> {
        let alone = Switch::new(limits)?;
        Ok(Switch { table: alone.table.with_others(), news: Some(Box::new(news)), special: true, ..alone })
    }

    /// True when there are other workers: packets stay open, and a port [begins](Switch::begin) before it fetches.
    #[inline(always)]
    pub fn has_others(&self) -> bool {
        self.news.is_some()
    }

    /// What the other workers tell, if there are any.
    pub(crate) fn news(&self) -> Option<&dyn Doze> {
        self.news.as_deref().map(|news| news as &dyn Doze)
    }

    /// The way of a port, or of a guest, to let the worker sleep, if it has one and there is nothing to do.
    pub(crate) fn doze(&self, at: PortId) -> Option<&dyn Doze> {
        let slot = self.slots.get(usize::from(at))?.as_ref()?;
        match (&slot.port, &slot.guest) {
            (Some(port), _) if slot.lanes.as_ref().is_none_or(|lanes| lanes.is_settled()) => port.doze(),
            (None, Some(guest)) => Some(&**guest),
            _ => None,
        }
    }

    /// The worker that polls a port, if that is another one.
    pub(super) fn away(&self, port: PortId) -> Option<u16> {
        self.slots.get(usize::from(port))?.as_ref()?.away
    }

    /// Hears what other workers tell; tells them what was learned since, and of a part of the table what they may have forgotten.
    pub(crate) fn exchange_news(&mut self) {
        if !self.has_others() {
            return;
        }
        self.listen();
        self.tell_fresh();
        self.table.to_tell().for_each(|place| self.tell(place));
    }

    fn listen(&mut self) {
        let Some(mut news) = self.news.take() else { return };
        if news.is_ready() {
            news.listen(|Told { station, port, mark: of }| {
                let slot = self.slots.get(usize::from(port)).and_then(Option::as_ref);
                if slot.is_some_and(|slot| slot.away.is_some() && mark(slot.client) == of) {
                    self.table.hear(station, port);
                }
            });
        }
        self.news = Some(news);
    }

    fn tell_fresh(&mut self) {
        while let Some(place) = self.table.fresh() {
            self.tell(place);
        }
    }

    fn tell(&mut self, place: Place) {
        let Some((station, port)) = self.table.news(place) else { return };
        let Some(client) = self.client(port) else { return };
        let told = Told { station, port, mark: mark(client) };
        if self.news.as_mut().is_some_and(|news| news.tell(told)) {
            self.table.told(place);
        }
    }

    /// What port `at` deals with now comes from this queue of it. False when it may not fetch: too many packets are with other workers.
    pub fn begin(&mut self, at: PortId, queue: u16) -> bool {
        self.slot(at).and_then(|slot| slot.lanes.as_mut()).is_some_and(|lanes| lanes.begin(queue))
    }

    /// True when all packets of a port have been completed.
    pub fn is_settled(&self, at: PortId) -> bool {
        let slot = self.slots.get(usize::from(at)).and_then(Option::as_ref);
        slot.and_then(|slot| slot.lanes.as_ref()).is_none_or(|lanes| lanes.is_settled())
    }

    /// Completes what other workers are done with: calls `complete` with a
    /// queue of the port and descriptors, from the front. Returns the packets that were lost with a worker.
    pub fn settle_handed(&mut self, at: PortId, complete: impl FnMut(u16, &[Desc])) -> u64 {
        let lanes = self.slot(at).and_then(|slot| slot.lanes.as_mut());
        lanes.map_or(0, |lanes| lanes.settle(complete))
    }

    /// One step towards the end of a port: what is with other workers, or was handed over by them, is dealt with.
    pub(crate) fn close(&mut self, at: PortId) -> Closing {
        let Some(slot) = self.slot(at) else { return Closing::Done };
        if let Some(mut port) = slot.port.take() {
            port.settle(at, self);
            let Some(slot) = self.slot(at) else { return Closing::Done };
            slot.port = Some(port);
            let Some(lanes) = &mut slot.lanes else { return Closing::Done };
            if !lanes.is_settled() {
                return Closing::Waiting;
            }
            lanes.close();
            return Closing::Done;
        }
        if self.deliver_handed(at) > 0 {
            return Closing::Working;
        }
        let guest = self.slot(at).and_then(|slot| slot.guest.as_mut());
        if guest.is_none_or(|guest| guest.is_finished()) { Closing::Done } else { Closing::Waiting }
    }

    /// [`forward`](Switch::forward) beside other workers, where no port has rules.
    #[inline(never)]
    pub(super) fn forward_across(
        &mut self,
        from: PortId,
        sending: &mut Sending,
        origin: &Origin<'_, NativeMemory>,
        packets: &[Desc],
        ahead: &[Desc],
    ) -> usize {
        let counters = &mut sending.counters;
        let sorted = self.sort(from, counters, origin, packets);
        let packets = packets.get(..sorted.len).unwrap_or_default();
        if sorted.long {
            sending.flood = Some(self.flood(0, false)); // other workers get it after the ports here
            return 0;
        }
        let mut here = Steered::default();
        self.hand_over(from, packets, |this, lanes, at, packet| {
            let to = *sorted.to.get(at).unwrap_or(&FLOOD);
            let away = this.away(to);
            if let Some(worker) = away {
                this.hand_one(lanes, worker, to, at, packet, counters);
            } else {
                packet.iter().for_each(|desc| _ = here.push(*desc, to));
            }
            if to == FLOOD {
                workers(this.far).for_each(|worker| {
                    this.hand_one(lanes, worker, FLOOD, at, packet, counters);
                });
            }
        });
        here.deal(ahead, |to, packets, ahead| self.pass(to, counters, origin, packets, ahead));
        sorted.len
    }

    /// [`forward_by_rules`](Switch::forward_by_rules): hands over what goes to ports of other workers, as the sender has sent it. They look at
    /// it again.
    pub(super) fn hand_over_by_rules(
        &mut self,
        sender: &Sender<'_>,
        ready: &Ready,
        counters: &mut SwitchCounters,
        origin: &Origin<'_, NativeMemory>,
        packets: &[Desc],
    ) {
        let sent = sender.rules.as_ref().and_then(|rules| rules.mirrors_sent());
        let isolated = sender.isolated();
        let packets = packets.get(..ready.taken()).unwrap_or_default();
        self.hand_over(sender.at, packets, |this, lanes, at, packet| {
            let (to, vlan) = ready.verdict(at);
            if let Some(mirror) = sent.filter(|mirror| this.away(*mirror).is_some()) {
                this.mirror(lanes, mirror, at, packet, counters, origin);
            }
            if let Some(worker) = this.away(to) {
                this.hand_one(lanes, worker, to, at, packet, counters);
            }
            if to == FLOOD {
                workers(this.far_takers(vlan, isolated)).for_each(|worker| {
                    this.hand_one(lanes, worker, FLOOD, at, packet, counters);
                });
            }
            if this.far_mirrors {
                for port in 0..this.slots.len() as PortId {
                    let goes = port == to || (to == FLOOD && this.floods(sender.at, port, vlan, isolated));
                    if let Some(mirror) = this.far_mirror(port).filter(|_| goes) {
                        this.mirror(lanes, mirror, at, packet, counters, origin);
                    }
                }
            }
        });
    }

    /// Hands a packet over that all ports here have got, where no port has rules.
    pub(super) fn hand_over_flood(&mut self, from: PortId, packet: &[Desc], counters: &mut SwitchCounters) {
        self.hand_over(from, packet, |this, lanes, at, packet| {
            workers(this.far).for_each(|worker| this.hand_one(lanes, worker, FLOOD, at, packet, counters));
        });
    }

    /// Calls `hand` with each packet of a port and its place among them, and holds all of them.
    #[inline(always)]
    fn hand_over(
        &mut self,
        from: PortId,
        packets: &[Desc],
        mut hand: impl FnMut(&mut Switch, &mut Lanes, usize, &[Desc]),
    ) {
        let Some(mut lanes) = self.slot(from).and_then(|slot| slot.lanes.take()) else { return };
        self.tell_fresh(); // whoever gets a packet is to know where the answer goes
        let mut at = 0;
        while let Some(packet) = first(packets, at) {
            hand(self, &mut lanes, at, packet);
            at += packet.len();
        }
        lanes.hold(packets);
        if let Some(slot) = self.slot(from) {
            slot.lanes = Some(lanes);
        }
    }

    /// Hands a packet over to a worker, for one of its ports, a mirror of it, or all.
    #[inline(always)]
    fn hand_one(
        &self,
        lanes: &mut Lanes,
        worker: u16,
        to: u16,
        at: usize,
        packet: &[Desc],
        counters: &mut SwitchCounters,
    ) {
        let port = if to == FLOOD { FLOOD } else { to & !MIRRORED };
        let mark = self.client(port).map_or(0, mark);
        if !lanes.hand_over(worker, packet, at, to, mark) {
            counters.not_handed += 1;
        }
    }

    /// A copy for a mirror, here or at another worker.
    fn mirror(
        &mut self,
        lanes: &mut Lanes,
        mirror: PortId,
        at: usize,
        packet: &[Desc],
        counters: &mut SwitchCounters,
        origin: &Origin<'_, NativeMemory>,
    ) {
        match self.away(mirror) {
            None => self.copy_to_mirror(mirror, counters, origin, packet),
            Some(worker) => {
                counters.extra_copies += 1;
                self.hand_one(lanes, worker, mirror | MIRRORED, at, packet, counters);
            }
        }
    }

    /// The mirror of what a port receives, if another worker polls it than that port.
    fn far_mirror(&self, port: PortId) -> Option<PortId> {
        let slot = self.slots.get(usize::from(port))?.as_ref()?;
        let mirror = slot.rules.as_ref()?.mirrors_received()?;
        (self.away(mirror) != slot.away).then_some(mirror)
    }

    /// True when what port `from` floods in a VLAN goes to `port`, too.
    fn floods(&self, from: PortId, port: PortId, vlan: u16, isolated: bool) -> bool {
        let slot = self.slots.get(usize::from(port)).and_then(Option::as_ref);
        port != from && slot.is_some_and(|slot| slot.takes_floods(vlan, isolated))
    }

    /// The other workers that poll ports to which floods in a VLAN go: a bit each.
    pub(super) fn far_takers(&self, vlan: u16, isolated: bool) -> u64 {
        if self.far == 0 {
            return 0;
        }
        let takers = self.slots.iter().flatten().filter(|slot| slot.takes_floods(vlan, isolated));
        takers.filter_map(|slot| slot.away).fold(0, |far, worker| far | 1 << worker)
    }

    /// One poll of a guest: delivers some of the packets that its home has handed over. Returns the descriptors.
    #[inline(never)]
    pub(super) fn deliver_handed(&mut self, at: PortId) -> usize {
        let Some(mut guest) = self.slot(at).and_then(|slot| slot.guest.take()) else { return 0 };
        let mut n = 0;
        if let Some(mut handed) = guest.incoming() {
            self.listen();
            handed.len = self.part(&handed);
            prefetch(&guest.origin(false), handed.descs());
            let done;
            (n, done) = self.flood_handed(at, &mut guest, &handed).unwrap_or_else(|| {
                let n = match self.ruled {
                    true => self.deliver_by_rules(at, &mut guest, &handed),
                    false => self.deliver(&mut guest, &handed),
                };
                (n, n)
            });
            guest.taken(done);
        }
        if let Some(slot) = self.slot(at) {
            slot.guest = Some(guest);
        }
        n
    }

    /// The descriptors that one poll deals with.
    fn part(&self, handed: &Handed) -> usize {
        let homes = self.slots.iter().flatten().filter(|slot| slot.port.is_some()).count();
        let (mut n, mut bytes, mut copies) = (0, 0, 0);
        while let Some(packet) = first(handed.descs(), n) {
            if bytes >= POLL_BYTES || copies >= COPIES {
                break;
            }
            let (to, _) = handed.to(n);
            if to == FLOOD && n > 0 && self.is_long(packet, homes) {
                break; // it begins in the next poll
            }
            let (each, weight) =
                if to == FLOOD { (homes, weight_cut(packet)) } else { (1, 1 + segments(packet)) };
            let len: u32 = packet.iter().map(|desc| u32::from(desc.len())).sum();
            (copies, bytes) = (copies + each * weight, bytes + len * each as u32);
            n += packet.len();
        }
        n
    }

    /// Delivers packets where no port has rules.
    fn deliver(&mut self, guest: &mut Guest, handed: &Handed) -> usize {
        let mut counters = guest.sending.counters;
        let mut here = Steered::default();
        for (at, desc) in handed.descs().iter().enumerate() {
            let (to, mark) = handed.to(at);
            here.push(*desc, if to == FLOOD || self.is_here(to, mark) { to } else { SAME_PORT });
        }
        let origin = guest.origin(handed.len < FETCH / 8);
        here.deal(&[], |to, packets, ahead| match to {
            FLOOD => self.flood_here(&mut counters, &origin, packets),
            to => self.pass(to, &mut counters, &origin, packets, ahead),
        });
        guest.sending.counters = counters;
        handed.len
    }

    /// True when this worker polls the port, and it is still that client's.
    fn is_here(&self, port: PortId, of: u32) -> bool {
        let slot = self.slots.get(usize::from(port)).and_then(Option::as_ref);
        slot.is_some_and(|slot| slot.port.is_some() && mark(slot.client) == of)
    }

    /// Passes on to all ports here what another worker's port floods.
    fn flood_here(
        &mut self,
        counters: &mut SwitchCounters,
        origin: &Origin<'_, NativeMemory>,
        packets: &[Desc],
    ) {
        let mut receivers = 0;
        let Switch { slots, completer, .. } = self;
        for port in slots.iter_mut().flatten().filter_map(|slot| slot.port.as_mut()) {
            port.receive(origin, packets, &[], &mut only_counted, completer);
            receivers += 1;
        }
        let number = packets.iter().filter(|desc| !desc.more()).count() as u64;
        match receivers {
            0 => counters.no_destination += number, // its last port here has gone meanwhile
            _ => counters.extra_copies += number * (receivers - 1),
        }
    }

    /// Delivers packets where ports have rules. What the home has looked at was a copy of its own, so they are looked at again, in a copy of
    /// this worker's. Where they go has been decided.
    fn deliver_by_rules(&mut self, from: PortId, guest: &mut Guest, handed: &Handed) -> usize {
        let mut counters = guest.sending.counters;
        let origin = guest.origin(handed.len < FETCH / 8);
        let mut rules = self.slot(from).and_then(|slot| slot.rules.take());
        let mut sender = Sender { at: from, rules: rules.as_deref_mut(), away: true };
        let (mut ready, mut mirrored) = (Ready::new(), Steered::default());
        while let Some(packet) = first(handed.descs(), ready.taken()) {
            let (to, of) = handed.to(ready.taken());
            if to != FLOOD && to & MIRRORED != 0 {
                let to = if self.is_here(to & !MIRRORED, of) { to & !MIRRORED } else { SAME_PORT };
                packet.iter().for_each(|desc| _ = mirrored.push(*desc, to));
                ready.pass(packet);
                continue;
            }
            let bytes: u32 = packet.iter().map(|desc| u32::from(desc.len())).sum();
            let (to, held) = match sender.look(origin.mem, packet, bytes) {
                Ok(seen) => (self.admit(&sender, &seen, to, of), seen.held),
                Err(Unfit::NoRoom) if ready.taken() > 0 => break,
                Err(unfit) => (unfit.place(), None),
            };
            if !ready.push(to, packet, held) {
                break;
            }
            ready.pass(packet);
        }
        self.pass_by_rules(&sender, &ready, &mut counters, &origin, &[], &[]);
        mirrored.deal(&[], |to, packets, _| self.pass(to, &mut counters, &origin, packets, &[]));
        rules.iter_mut().filter_map(|rules| rules.private.as_mut()).for_each(|private| private.clear());
        self.slot(from).into_iter().for_each(|slot| slot.rules = rules.take());
        guest.sending.counters = counters;
        ready.taken()
    }

    /// Where a packet goes whose home has decided that it goes `to`: there, unless it is no longer what it was.
    fn admit(&self, sender: &Sender<'_>, seen: &policy::look::Seen, to: u16, of: u32) -> u16 {
        let slot = self.slots.get(usize::from(to)).and_then(Option::as_ref);
        match slot {
            _ if !sender.allows(seen) => SPOOFED,
            _ if self.ends_here(seen.addresses.destination()) => RESERVED,
            _ if to == FLOOD => FLOOD,
            Some(slot) if !slot.takes(seen.vlan, sender.isolated()) => WRONG_VLAN,
            Some(_) if self.is_here(to, of) => to,
            _ => SAME_PORT,
        }
    }
}

/// The workers whose bits are set.
fn workers(mut bits: u64) -> impl Iterator<Item = u16> {
    std::iter::from_fn(move || {
        let worker = (bits != 0).then(|| bits.trailing_zeros() as u16)?;
        bits &= bits - 1;
        Some(worker)
    })
}

/// Has the beginnings of all packets on their way before the first is copied.
#[inline(always)]
fn prefetch(origin: &Origin<'_, NativeMemory>, packets: &[Desc]) {
    for desc in packets {
        let lines = u32::from(desc.len()).div_ceil(LINE).min(AHEAD);
        (0..lines).for_each(|line| origin.mem.prefetch_read(desc.offset() + line * LINE));
    }
}
