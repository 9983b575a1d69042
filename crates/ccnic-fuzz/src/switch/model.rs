//! The model: who should get which frame, with which tag, and what is counted. One packet after the other, one map, no caches.

use std::collections::BTreeMap;

use ccnic_control::messages::QueueStatus;
use ccnic_frame::{Meta, Tci};

use super::SECOND;
use super::complete::{complete, tagged};
use super::frame::Sent;
use super::net::{Net, Outcome};
use super::plan::{Kind, Plan, Rules, Settings, Vlans, mac};

/// What a bucket of packets holds, in ticks: what the rate gives in this time passes at once.
const FULL: u64 = SECOND / 100;

/// Of packets for one port between two looks at it so many may be lost for want of room; fewer may not.
const ROOM: usize = 24;

/// An address that is known, in its VLAN.
type Station = (u16, [u8; 6]);

#[derive(Debug, Clone, Copy)]
struct Known {
    port: usize,
    /// The second.
    seen: u64,
    fixed: bool,
}

/// A limit of packets: what is owed, in ticks, and what a packet costs.
#[derive(Debug, Clone, Copy, Default)]
struct Bucket {
    cost: u64,
    owed: u64,
}

impl Bucket {
    fn new(rate: Option<u64>) -> Bucket {
        Bucket { cost: rate.map_or(0, |rate| SECOND / rate), owed: 0 }
    }

    fn pass(&mut self, ticks: u64) {
        self.owed = self.owed.saturating_sub(ticks);
    }

    fn admits(&mut self) -> bool {
        let admits = self.owed < FULL;
        self.owed += if admits { self.cost } else { 0 };
        admits
    }
}

#[derive(Debug)]
struct Port {
    kind: Kind,
    rules: Rules,
    floods: Bucket,
    receives: Bucket,
    counted: QueueStatus,
    /// What it gets of this burst.
    gets: Vec<(Vec<u8>, Meta)>,
}

/// The switch, as it should be.
#[derive(Debug)]
pub(super) struct Model {
    per_port: usize,
    addresses: usize,
    ageing: u64,
    now: u64,
    ports: Vec<Option<Port>>,
    table: BTreeMap<Station, Known>,
}

/// A packet inside the switch.
struct Inside<'a> {
    from: usize,
    frame: &'a [u8],
    meta: Meta,
    vlan: u16,
    has_vlans: bool,
}

impl Model {
    pub(super) fn new(settings: &Settings, plans: &[Plan]) -> Model {
        let Settings { addresses, per_port, ageing } = *settings;
        let mut model = Model {
            addresses,
            per_port: per_port as usize,
            ageing: ageing.into(),
            now: 0,
            ports: plans.iter().map(|_| None).collect(),
            table: BTreeMap::new(),
        };
        (0..plans.len()).for_each(|at| model.join(at, plans));
        model
    }

    pub(super) fn join(&mut self, at: usize, plans: &[Plan]) {
        self.ports[at] = Some(Port {
            kind: plans[at].kind,
            rules: Rules::default(),
            floods: Bucket::default(),
            receives: Bucket::default(),
            counted: QueueStatus::default(),
            gets: Vec::new(),
        });
        self.set_rules(at, plans);
    }

    pub(super) fn leave(&mut self, at: usize) {
        self.ports[at] = None;
        self.forget(at);
        self.settle();
    }

    pub(super) fn set_rules(&mut self, at: usize, plans: &[Plan]) {
        self.forget(at);
        let rules = plans[at].rules.clone();
        if let Some(port) = &mut self.ports[at] {
            (port.floods, port.receives) = (Bucket::new(rules.storm), Bucket::new(rules.receives));
            port.rules = rules;
        }
        self.settle();
    }

    /// Nothing is known to be at a mirror. What the operator has said of other ports holds.
    fn settle(&mut self) {
        for at in 0..self.ports.len() {
            if self.is_mirror(at) {
                self.forget(at);
            } else if let Some((station, vlan)) = self.ports[at].as_ref().and_then(|port| port.rules.fixed) {
                self.table.insert((vlan, mac(station)), Known { port: at, seen: 0, fixed: true });
            }
        }
    }

    fn forget(&mut self, at: usize) {
        self.table.retain(|_, known| known.port != at);
    }

    /// The second that it is.
    fn second(&self) -> u64 {
        self.now / SECOND
    }

    pub(super) fn pass(&mut self, ticks: u64) {
        self.now += ticks;
        let (now, ageing) = (self.second(), self.ageing);
        self.table.retain(|_, known| known.fixed || now - known.seen < ageing);
        for port in self.ports.iter_mut().flatten() {
            port.floods.pass(ticks);
            port.receives.pass(ticks);
        }
    }

    fn rules(&self, at: usize) -> Rules {
        self.ports[at].as_ref().map(|port| port.rules.clone()).unwrap_or_default()
    }

    fn is_mirror(&self, at: usize) -> bool {
        self.ports[at].is_some()
            && self.ports.iter().flatten().any(|port| port.rules.mirror.is_some_and(|(to, ..)| to == at))
    }

    fn counted(&mut self, at: usize) -> &mut QueueStatus {
        &mut self.ports[at].as_mut().expect("it is there").counted
    }

    /// True when it does not matter in which order packets of a burst that go to different places are dealt with, nor what is
    /// in their headers.
    pub(super) fn is_simple(&self) -> bool {
        self.ports.iter().flatten().all(|port| port.rules.receives.is_none() && !port.rules.hosts)
    }

    /// A burst has been sent, and this has become of it.
    pub(super) fn burst(&mut self, from: usize, outcome: &Outcome) {
        self.ports.iter_mut().flatten().for_each(|port| port.gets.clear());
        for sent in &outcome.sent {
            self.send(from, sent, outcome.spoofed);
        }
    }

    fn send(&mut self, from: usize, sent: &Sent, spoofed: bool) {
        self.counted(from).tx_packets += 1;
        if self.is_mirror(from) {
            self.counted(from).drop_no_destination += 1;
            return;
        }
        let rules = self.rules(from);
        if let Some((to, true, _)) = rules.mirror.filter(|(to, ..)| self.ports[*to].is_some()) {
            self.counted(from).extra_copies += 1;
            self.arrive(from, to, &sent.bytes, sent.meta);
        }
        let counter = match self.decide(from, &rules, sent, spoofed) {
            Ok(()) => return,
            Err(counter) => counter,
        };
        *counter(self.counted(from)) += 1;
    }

    /// Passes the packet on, or says where it is counted.
    fn decide(&mut self, from: usize, rules: &Rules, sent: &Sent, spoofed: bool) -> Result<(), Counter> {
        let (mut frame, mut meta, mut vlan) = (sent.bytes.clone(), sent.meta, 0);
        if frame.len() < 14 {
            return Err(|q| &mut q.drop_too_short);
        }
        let has_vlans = rules.vlans != Vlans::None;
        if has_vlans {
            let inside = (frame.len() >= 16 && frame[12..14] == [0x81, 0])
                .then(|| u16::from_be_bytes([frame[14], frame[15]]))
                .filter(|_| meta.vlan().is_none());
            let tci = meta.vlan().map(Tci::get).or(inside);
            vlan = rules.vlans.enters(tci).ok_or::<Counter>(|q| &mut q.drop_vlan)?;
            meta = meta.with_vlan(Tci::new(tci.unwrap_or(0) & 0xf000 | vlan));
            if inside.is_some() {
                if frame.len() < 18 {
                    return Err(|q| &mut q.drop_too_short);
                }
                frame.drain(12..16);
            }
        }
        if rules.hosts {
            // Whoever looks deep enough can say; the model cannot always.
            match honest(sent, &frame) {
                Some(honest)
                    if honest == spoofed
                        && frame[6..12] != [0; 6]
                        && frame[6] & 1 == 0
                        && allows(rules, &frame) =>
                {
                    panic!("honest: {honest}, and dropped: {spoofed}")
                }
                _ if spoofed => return Err(|q| &mut q.drop_spoofed),
                _ => {}
            }
        }
        let source: [u8; 6] = frame[6..12].try_into().expect("six");
        let to: [u8; 6] = frame[..6].try_into().expect("six");
        if source[0] & 1 != 0 || source == [0; 6] {
            return Err(|q| &mut q.drop_bad_source);
        }
        if !allows(rules, &frame) {
            return Err(|q| &mut q.drop_spoofed);
        }
        self.learn((vlan, source), from);
        let inside = Inside { from, frame: &frame, meta, vlan, has_vlans };
        let known = self.table.get(&(vlan, to)).filter(|_| to[0] & 1 == 0).map(|known| known.port);
        match known {
            Some(port) if port == from => Err(|q| &mut q.drop_no_destination),
            Some(port) if rules.isolated && self.rules(port).isolated => Err(|q| &mut q.drop_isolated),
            Some(port) => {
                self.give(&inside, port);
                Ok(())
            }
            None => self.flood(&inside, rules.isolated),
        }
    }

    fn learn(&mut self, station: Station, port: usize) {
        let (seen, count) = (self.second(), self.table.values().filter(|known| known.port == port).count());
        let all = self.table.len();
        match self.table.get_mut(&station) {
            Some(known) if known.port == port => known.seen = seen,
            Some(known) if known.fixed || count >= self.per_port => {}
            Some(known) => (known.port, known.seen) = (port, seen),
            None if count >= self.per_port || (all >= self.addresses && count > 0) => {}
            None => _ = self.table.insert(station, Known { port, seen, fixed: false }),
        }
    }

    fn flood(&mut self, packet: &Inside<'_>, isolated: bool) -> Result<(), Counter> {
        if !self.ports[packet.from].as_mut().is_some_and(|port| port.floods.admits()) {
            return Err(|q| &mut q.drop_storm);
        }
        let mut receivers = 0;
        for to in 0..self.ports.len() {
            let rules = self.rules(to);
            let takes = rules.vlans.has(packet.vlan) && !(isolated && rules.isolated);
            if to != packet.from && self.ports[to].is_some() && takes && !self.is_mirror(to) {
                self.give(packet, to);
                receivers += 1;
            }
        }
        if receivers == 0 {
            return Err(|q| &mut q.drop_no_destination);
        }
        let counted = self.counted(packet.from);
        counted.flooded += 1;
        counted.extra_copies += receivers - 1;
        Ok(())
    }

    /// Gives a packet to a port, as its policy has it.
    fn give(&mut self, packet: &Inside<'_>, to: usize) {
        let Some(port) = &mut self.ports[to] else { return };
        if !port.receives.admits() {
            port.counted.drop_rate += 1;
            return;
        }
        let (mut frame, mut meta) = (packet.frame.to_vec(), packet.meta);
        if let Some(tci) = meta.vlan().filter(|_| packet.has_vlans) {
            let tags = port.rules.vlans.tags(tci.vid());
            let itself = port.kind == Kind::Outside { takes_all: true };
            if !tags || !itself {
                meta = meta.without_vlan();
            }
            if tags && !itself {
                frame = tagged(&frame, tci.get()).expect("it is a frame");
            }
        }
        let mirror = port.rules.mirror.filter(|(to, _, received)| *received && self.ports[*to].is_some());
        self.arrive(packet.from, to, &frame, meta);
        if let Some((mirror, ..)) = mirror {
            self.counted(packet.from).extra_copies += 1;
            self.arrive(packet.from, mirror, &frame, meta);
        }
    }

    /// A packet is at its port.
    fn arrive(&mut self, from: usize, to: usize, frame: &[u8], meta: Meta) {
        let outside = self.ports[from].as_ref().is_some_and(|port| matches!(port.kind, Kind::Outside { .. }));
        let Some(port) = &mut self.ports[to] else { return };
        let (takes, mtu) = match port.kind {
            Kind::Program { takes, mtu } => (takes, mtu),
            Kind::Outside { takes_all } => {
                let takes = if takes_all { ccnic_frame::Takes::ALL } else { ccnic_frame::Takes::NONE };
                assert!(!outside || takes.covers(meta.without_vlan()), "{meta:?} from outside to {port:?}");
                (takes, u16::MAX)
            }
        };
        let Some(frames) = complete(frame, meta, takes) else {
            port.counted.drop_bad_offload += 1;
            return;
        };
        for (frame, meta) in frames {
            if frame.len() > mtu.into() {
                port.counted.drop_over_mtu += 1;
            } else {
                port.gets.push((frame, meta));
                port.counted.rx_packets += 1;
            }
        }
    }

    /// Each port has got that, in that order where order is kept, and has counted that.
    pub(super) fn check(&mut self, net: &Net, outcome: &Outcome) {
        for (at, got) in outcome.got.iter().enumerate() {
            let mirror = self.is_mirror(at);
            let Some(port) = &mut self.ports[at] else { continue };
            let found = net.counted(at);
            let lost = found.drop_ring_full + found.drop_no_buffer
                - (port.counted.drop_ring_full + port.counted.drop_no_buffer);
            (port.counted.drop_ring_full, port.counted.drop_no_buffer) =
                (found.drop_ring_full, found.drop_no_buffer);
            port.counted.rx_packets -= lost;
            assert!(lost == 0 || port.gets.len() > ROOM, "{lost} lost at port {at} of {}", port.gets.len());
            assert_eq!(counters(&port.counted), counters(&found), "port {at}: {port:?}");
            let (mut expected, mut got) = (port.gets.clone(), got.clone());
            if lost == 0 && !mirror {
                for frames in [&mut expected, &mut got] {
                    frames.sort_by(|a, b| a.0[..12].cmp(&b.0[..12])); // stable
                }
            } else {
                let key = |(frame, meta): &(Vec<u8>, Meta)| (frame.clone(), meta.word());
                expected.sort_by_key(key);
                got.sort_by_key(key);
                let mut left = got.iter().peekable();
                expected.retain(|one| left.next_if(|next| *next == one).is_some());
            }
            assert!(got == expected, "port {at} has got\n{got:x?}, not\n{expected:x?}: {port:?}");
        }
    }
}

/// A counter of a port.
type Counter = fn(&mut QueueStatus) -> &mut u64;

/// What the model counts.
fn counters(q: &QueueStatus) -> BTreeMap<&'static str, u64> {
    let not = ["tx_bytes", "rx_bytes", "not_learned", "wait_rate"];
    let drops = |name: &str| {
        name.starts_with("drop_") || ["tx_packets", "rx_packets", "flooded", "extra_copies"].contains(&name)
    };
    let all = ccnic_control::counters::COUNTERS.iter();
    all.filter(|counter| drops(counter.name) && !not.contains(&counter.name))
        .map(|counter| (counter.name, counter.of(q)))
        .collect()
}

fn allows(rules: &Rules, frame: &[u8]) -> bool {
    rules.macs.is_empty() || rules.macs.iter().any(|station| frame[6..12] == mac(*station))
}

/// Whether a frame, as it is inside the switch, claims only addresses that a host may claim; `None`: the model does not look so deep.
fn honest(sent: &Sent, frame: &[u8]) -> Option<bool> {
    if let Some(honest) = sent.honest {
        // Behind three tags and more nobody looks, and what has been cut short is no packet.
        let tags = frame[12..].chunks(4).take_while(|tag| tag.starts_with(&[0x81, 0])).count();
        return (tags <= 2).then_some(honest);
    }
    let claims = frame.len() >= 34 && frame[12..14] == [8, 0] && frame[14] == 0x45;
    (claims && frame[26..29] != [10, 0, 0] && frame[26..30] != [0; 4]).then_some(false)
}
