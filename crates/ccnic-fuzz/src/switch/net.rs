//! The daemon's switch, with ports whose far ends are held here.

use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use ccnic::host::{QueuePair, format};
use ccnic::nic::{Origin, gather};
use ccnic::ring::GroupedEpoch;
use ccnic::{Burst, Config, Desc, Layout, SharedMemory, testing};
use ccnic_control::messages::QueueStatus;
use ccnic_frame::Meta;
use ccnic_shm::{NativeMemory, Pages, Region};
use ccnic_testing::RegionMemory;
use ccnicd::ports::program::ProgramPort;
use ccnicd::ports::{Accepts, Losses, OutsidePort, Statistics};
use ccnicd::switch::outside::SwitchedOutside;
use ccnicd::switch::policy::{Carried, Mirror, Policy, Prefix, Rate, Rules, Vlans};
use ccnicd::switch::program::SwitchedProgram;
use ccnicd::switch::{Mac, Member, PortId, Station, Switch, SwitchPort, TableLimits};

use super::SECOND;
use super::frame::Sent;
use super::plan::{self, ALLOWED, Kind, Plan, Settings, mac};

/// Frames of a port to somewhere outside lie so far apart in its memory.
const APART: u32 = 16 << 10;

/// What became of a burst.
pub(super) struct Outcome {
    /// What was sent, with the metadata that it was sent with.
    pub(super) sent: Vec<Sent>,
    /// By port.
    pub(super) got: Vec<Vec<(Vec<u8>, Meta)>>,
    /// A packet was dropped because it claims an address that its port may not speak from.
    pub(super) spoofed: bool,
}

/// The far end of a port to somewhere outside.
#[derive(Default)]
struct Cable {
    next: Option<Sent>,
    /// The metadata that went with it.
    said: Option<Meta>,
    got: Vec<(Vec<u8>, Meta)>,
}

enum End {
    Program { host: Box<QueuePair<NativeMemory, GroupedEpoch>>, _region: Region },
    Outside(Arc<Mutex<Cable>>),
}

/// The switch and the far ends of its ports.
pub(super) struct Net {
    switch: Switch,
    ends: Vec<Option<End>>,
    now: u64,
}

struct Outside {
    mem: NativeMemory,
    cable: Arc<Mutex<Cable>>,
    takes_all: bool,
    counted: QueueStatus,
}

impl Net {
    pub(super) fn new(settings: &Settings, plans: &[Plan]) -> Net {
        let Settings { addresses, per_port, ageing } = *settings;
        let mut switch = Switch::new(TableLimits { addresses, per_port, ageing }).expect("memory");
        switch.set_clock(SECOND);
        switch.tick(0);
        let mut net = Net { switch, ends: plans.iter().map(|_| None).collect(), now: 0 };
        (0..plans.len()).for_each(|at| net.join(at, plans));
        net
    }

    pub(super) fn join(&mut self, at: usize, plans: &[Plan]) {
        let rules = rules(&plans[at].rules);
        let (port, end): (Box<dyn SwitchPort>, End) = match plans[at].kind {
            Kind::Outside { takes_all } => {
                let mem = Region::create(APART + 4096, Pages::Small).expect("memory").memory();
                let cable = Arc::default();
                let port =
                    Outside { mem, cable: Arc::clone(&cable), takes_all, counted: QueueStatus::default() };
                (Box::new(SwitchedOutside::new(port, rules, Arc::default())), End::Outside(cable))
            }
            Kind::Program { takes, mtu } => {
                let config = Config { ring: 64, buffers: 96, mtu, ..Config::default() };
                let layout = Layout::new(&config).expect("it is in range");
                let region = Region::create(layout.size(), Pages::Small).expect("memory");
                format(&region.memory(), &layout);
                let port =
                    ProgramPort::<GroupedEpoch>::new(&region, &layout, vec![0]).expect("it has a queue");
                let mut port = SwitchedProgram::new(port, 1, rules, Arc::default());
                port.complete_for(Arc::new(takes.bits().into()));
                let host = testing::pair(region.memory(), &layout, 0).expect("it has a queue");
                (Box::new(port), End::Program { host: Box::new(host), _region: region })
            }
        };
        self.switch.join(at as u64, at as PortId, Member::Home(port, None)).expect("its place is free");
        self.ends[at] = Some(end);
        self.receive(at); // posts receive buffers
    }

    pub(super) fn leave(&mut self, at: usize) {
        assert!(self.switch.leave(at as PortId).is_some());
        self.ends[at] = None;
    }

    pub(super) fn set_rules(&mut self, at: usize, plans: &[Plan]) {
        self.switch.set_rules(at as PortId, rules(&plans[at].rules));
    }

    /// Time passes, until the table has been looked through.
    pub(super) fn pass(&mut self, ticks: u64) {
        self.now += ticks;
        (0..=256).for_each(|_| self.switch.tick(self.now));
    }

    pub(super) fn counted(&self, at: usize) -> QueueStatus {
        self.switch.report(at as PortId)[0]
    }

    /// Has a port send frames, until all have been dealt with.
    pub(super) fn burst(&mut self, from: usize, mut frames: Vec<Sent>) -> Outcome {
        let before = self.counted(from).drop_spoofed;
        match self.ends[from].as_mut().expect("it is there") {
            End::Outside(cable) => cable.lock().expect("one thread").next = frames.first().cloned(),
            End::Program { host, .. } => send(host, &frames),
        }
        let mut got: Vec<Vec<_>> = self.ends.iter().map(|_| Vec::new()).collect();
        let mut polls = 0;
        while self.switch.spin(from as PortId, 1) > 0 {
            got.iter_mut().enumerate().for_each(|(at, got)| got.extend(self.receive(at)));
            polls += 1;
            assert!(polls < 1000, "it comes to an end");
        }
        match &self.ends[from] {
            Some(End::Outside(cable)) => {
                let said = cable.lock().expect("one thread").said.take().expect("it was sent");
                frames.iter_mut().for_each(|sent| sent.meta = said);
            }
            // Nobody believes more of a program.
            _ => frames.iter_mut().for_each(|sent| sent.meta = sent.meta.requests()),
        }
        let spoofed = self.counted(from).drop_spoofed > before;
        Outcome { sent: frames, got, spoofed }
    }

    /// What has come to a port.
    fn receive(&mut self, at: usize) -> Vec<(Vec<u8>, Meta)> {
        match &mut self.ends[at] {
            None => Vec::new(),
            Some(End::Outside(cable)) => std::mem::take(&mut cable.lock().expect("one thread").got),
            Some(End::Program { host, .. }) => {
                let (mut packets, mut burst) = (vec![(Vec::new(), None)], Burst::new());
                while host.rx_burst(&mut burst, 32) > 0 {
                    for buf in burst.as_slice() {
                        let (bytes, meta) = packets.last_mut().expect("one at least");
                        host.with(buf, |part| bytes.extend_from_slice(part));
                        meta.get_or_insert(Meta::from_word(buf.meta()));
                        if !buf.more() {
                            packets.push((Vec::new(), None));
                        }
                    }
                    host.free(&mut burst);
                }
                assert!(packets.pop().is_some_and(|(rest, _)| rest.is_empty()), "whole packets");
                packets.into_iter().map(|(bytes, meta)| (bytes, meta.expect("it has a segment"))).collect()
            }
        }
    }
}

/// A program sends frames in one burst.
fn send(host: &mut QueuePair<NativeMemory, GroupedEpoch>, frames: &[Sent]) {
    let mut burst = Burst::new();
    for sent in frames {
        let number = sent.segments().count();
        for (at, segment) in sent.segments().enumerate() {
            assert_eq!(host.alloc(segment.len() as u16, 1, &mut burst), 1, "all have been freed");
            let buf = burst.iter_mut().last().expect("it was added");
            assert_eq!(host.write(buf, 0, segment), segment.len());
            buf.set_meta(sent.meta.word());
            buf.set_more(at + 1 < number);
        }
    }
    let segments: usize = frames.iter().map(|sent| sent.segments().count()).sum();
    assert_eq!(host.tx_burst(&mut burst), segments);
    host.free(&mut burst);
}

/// The daemon's form of a policy.
fn rules(rules: &plan::Rules) -> Option<Box<Rules>> {
    let vlans = match &rules.vlans {
        plan::Vlans::None => Vlans::Opaque,
        plan::Vlans::Access(own) => Vlans::Access(*own),
        plan::Vlans::Trunk(carried, native) => {
            Vlans::Trunk { carried: Carried::of(carried.iter().copied()), native: *native }
        }
    };
    let prefix = |(address, len): (IpAddr, u8)| Prefix::new(address, len).expect("it has so many bits");
    let policy = Policy {
        vlans,
        macs: rules.macs.iter().map(|station| Mac::new(mac(*station))).collect(),
        addresses: ALLOWED.into_iter().filter(|_| rules.hosts).map(prefix).collect(),
        isolated: rules.isolated,
        storm: rules.storm,
        sends: Rate::NONE,
        receives: Rate::of_packets(rules.receives),
        fixed: rules
            .fixed
            .iter()
            .map(|(station, vlan)| Station::new(Mac::new(mac(*station)), *vlan))
            .collect(),
        mirror: rules.mirror.map(|(to, sent, received)| Mirror { to: to as u64, sent, received }),
    };
    Rules::new(&policy).expect("memory")
}

impl OutsidePort for Outside {
    fn queues(&self) -> usize {
        1
    }

    fn memory(&self) -> &NativeMemory {
        &self.mem
    }

    fn fetch(&mut self, burst: &mut ccnicd::ports::Burst, accepts: &dyn Fn(&[u8]) -> Accepts) -> usize {
        let mut cable = self.cable.lock().expect("one thread");
        let Some(sent) = cable.next.take() else { return 0 };
        // The kernel says nothing of tags.
        let meta = sent.meta.requests().without_vlan();
        let Accepts { takes, longest } = accepts(&sent.bytes);
        let may = takes.covers(meta) && sent.bytes.len() <= longest as usize;
        let meta = if may { meta } else { Meta::default() };
        let (mut at, mut descs) = (0, Vec::new());
        for segment in sent.segments() {
            self.mem.write(at, segment);
            descs.push(Desc::new(at, segment.len() as u16, 0).with_meta(meta.word()).with_more(true));
            at += segment.len() as u32;
        }
        descs.last_mut().into_iter().for_each(|last| *last = last.with_more(false));
        burst.packets.refill(&descs);
        burst.longest = sent.bytes.len() as u16;
        cable.said = Some(meta);
        self.counted.tx_packets += 1;
        1
    }

    fn send(&mut self, from: &Origin<'_, NativeMemory>, packets: &[Desc], _: &mut Losses<'_>) {
        let mut cable = self.cable.lock().expect("one thread");
        for packet in packets.split_inclusive(|desc| !desc.more()) {
            let mut frame = vec![0; packet.iter().map(|desc| usize::from(desc.len())).sum()];
            assert!(frame.len() <= from.mtu.into(), "no longer than is said");
            gather(from.mem, packet, &mut frame);
            cable.got.push((frame, Meta::from_word(packet[0].meta)));
            self.counted.rx_packets += 1;
        }
    }

    fn looks_are_cheap(&self) -> bool {
        true
    }

    fn takes_offloads(&self) -> bool {
        self.takes_all
    }
}

impl Statistics for Outside {
    fn report(&self) -> Vec<QueueStatus> {
        vec![self.counted]
    }
}
