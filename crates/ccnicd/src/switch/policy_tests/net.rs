//! A switch whose ports the test holds: it says what comes from them, with its metadata, and sees what they get.

use std::sync::{Arc, Mutex};

use crate::memory::RegionMemory;
use ccnic::nic::{Origin, gather};
use ccnic::rss::Spreader;
use ccnic::{Desc, SharedMemory};
use ccnic_control::ClientId;
use ccnic_control::capture::Reason;
use ccnic_control::messages::QueueStatus;
use ccnic_shm::{NativeMemory, Pages, Region};

use crate::ports::{Losses, Notify, Statistics};
use crate::switch::policy::{Carried, Policy, Rules, Vlans};
use crate::switch::test_workers::Workers;
use crate::switch::{Completer, PortId, Sending, Switch, SwitchPort, TableLimits};

/// A frame with its metadata word.
pub(in crate::switch) type Sent = (Vec<u8>, u64);

/// The test's end of a port.
#[derive(Default)]
pub(in crate::switch) struct Cable {
    /// What it sends next, in bursts.
    pub(in crate::switch) out: Mutex<Vec<Vec<Sent>>>,
    got: Mutex<Vec<Sent>>,
    /// Packets of each publication.
    pub(in crate::switch) publications: Mutex<Vec<usize>>,
    /// Of each publication it takes so many, and has no room for the others.
    pub(in crate::switch) room: Mutex<Option<usize>>,
    /// What is written to the start of somebody's memory as soon as this port has received.
    pub(in crate::switch) scribble: Mutex<Option<(NativeMemory, Vec<u8>)>>,
}

struct Port {
    mem: NativeMemory,
    cable: Arc<Cable>,
    /// Descriptors of the burst in hand that are left.
    burst: Vec<Desc>,
    sending: Sending,
    received: u64,
    sent: u64,
    takes_offloads: bool,
    rules: Option<Box<Rules>>,
}

/// Frames lie so far apart in a port's memory, and are cut into segments of so many bytes.
const APART: u32 = 16 << 10;
const SEGMENT: usize = 4096;

impl Port {
    /// Puts a burst into memory.
    fn place(&mut self, frames: &[Sent]) {
        for (n, (frame, meta)) in frames.iter().enumerate() {
            let at = n as u32 * APART;
            self.mem.write(at, frame);
            let parts = frame.len().div_ceil(SEGMENT).max(1);
            for part in 0..parts {
                let len = SEGMENT.min(frame.len() - part * SEGMENT) as u16;
                let desc = Desc::new(at + (part * SEGMENT) as u32, len, 0).with_meta(*meta);
                self.burst.push(desc.with_more(part + 1 < parts));
            }
        }
        self.sent += frames.len() as u64;
    }
}

impl SwitchPort for Port {
    fn spin(&mut self, at: PortId, _polls: usize, switch: &mut Switch) -> usize {
        self.settle(at, switch);
        if self.burst.is_empty() {
            if !switch.is_settled(at) {
                return 0;
            }
            let frames = self.cable.out.lock().unwrap().pop();
            let Some(frames) = frames else { return 0 };
            self.place(&frames);
        }
        let origin = Origin { mem: &self.mem, mtu: 16 << 10, idle: false };
        if switch.has_others() && !switch.begin(at, 0) {
            return 0;
        }
        let dealt = switch.forward(at, &mut self.sending, &origin, &self.burst, &[]);
        self.burst.drain(..dealt.descs);
        dealt.moved()
    }
    fn receive(
        &mut self,
        from: &Origin<'_, NativeMemory>,
        packets: &[Desc],
        _: &[Desc],
        lost: &mut Losses<'_>,
        _: &mut Completer,
    ) {
        assert!(!packets.is_empty() && packets.len() <= ccnic::nic::FETCH, "{}", packets.len());
        let room = self.cable.room.lock().unwrap().unwrap_or(usize::MAX);
        let number = packets.iter().filter(|desc| !desc.more()).count();
        self.cable.publications.lock().unwrap().push(number.min(room));
        for (at, packet) in packets.split_inclusive(|desc| !desc.more()).enumerate() {
            if at >= room {
                lost(packet, Reason::RingFull);
                continue;
            }
            assert!(packet.iter().all(|desc| (1..=SEGMENT).contains(&desc.len().into())));
            let mut frame = vec![0; packet.iter().map(|desc| usize::from(desc.len())).sum()];
            assert!(frame.len() <= from.mtu.into(), "no longer than is said");
            gather(from.mem, packet, &mut frame);
            self.cable.got.lock().unwrap().push((frame, packet[0].meta));
            self.received += 1;
        }
        self.cable.scribble.lock().unwrap().iter().for_each(|(mem, bytes)| mem.write(0, bytes));
    }
    fn takes_offloads(&self) -> bool {
        self.takes_offloads
    }
    fn lends(&self) -> (NativeMemory, u16) {
        (self.mem.clone(), 16 << 10)
    }
    fn settle(&mut self, at: PortId, switch: &mut Switch) {
        self.sending.counters.not_handed += switch.settle_handed(at, |_, _| {});
    }
    fn take_rules(&mut self) -> Option<Box<Rules>> {
        self.rules.take()
    }
    fn round(&self) -> usize {
        1
    }
    fn sweep(&self) -> usize {
        1
    }
    fn backlog(&self) -> usize {
        1
    }
    fn retire(&mut self) -> bool {
        false
    }
    fn notify(&mut self) -> Option<&mut dyn Notify> {
        None
    }
    fn set_rss(&mut self, _: Option<Arc<Spreader>>) {}
}

impl Statistics for Port {
    fn report(&self) -> Vec<QueueStatus> {
        let waiting = self.burst.iter().filter(|desc| !desc.more()).count() as u64;
        let mut queue = QueueStatus {
            tx_packets: self.sent - waiting,
            rx_packets: self.received,
            ..QueueStatus::default()
        };
        self.sending.counters.add_to(&mut queue);
        vec![queue]
    }
}

/// Ticks of the tests' clock in a second.
pub(in crate::switch) const SECOND: u64 = 1_000_000;

/// A switch with the test's ports, whose ids are their indices.
pub(in crate::switch) struct Net {
    pub(in crate::switch) switch: Workers,
    pub(in crate::switch) cables: Vec<Arc<Cable>>,
    /// Of each port.
    pub(in crate::switch) memories: Vec<NativeMemory>,
    now: u64,
}

impl Net {
    pub(in crate::switch) fn new(policies: impl IntoIterator<Item = Policy>) -> Net {
        let mut switch = Workers::new(TableLimits::default());
        switch.set_clock(SECOND);
        let mut net = Net { switch, cables: Vec::new(), memories: Vec::new(), now: SECOND };
        net.switch.tick(net.now);
        policies.into_iter().for_each(|policy| net.join(&policy, false));
        net
    }

    pub(in crate::switch) fn join(&mut self, policy: &Policy, takes_offloads: bool) {
        self.join_as(self.cables.len() as u64, policy, takes_offloads);
    }

    /// As a client of its own.
    pub(in crate::switch) fn join_as(&mut self, client: ClientId, policy: &Policy, takes_offloads: bool) {
        let mem = Region::create(64 * APART + 4096, Pages::Small).unwrap().memory();
        let cable = Arc::new(Cable::default());
        self.memories.push(mem.clone());
        let port = Port {
            mem,
            cable: Arc::clone(&cable),
            burst: Vec::new(),
            sending: Sending::default(),
            received: 0,
            sent: 0,
            takes_offloads,
            rules: Rules::new(policy).unwrap(),
        };
        let at = self.switch.join(client, Box::new(port)).ok().unwrap();
        assert_eq!(usize::from(at), self.cables.len());
        self.cables.push(cable);
    }

    pub(in crate::switch) fn pass(&mut self, ticks: u64) {
        self.now += ticks;
        self.switch.tick(self.now);
    }

    /// A burst from a port, all of it dealt with; returns what each port gets.
    pub(in crate::switch) fn burst(&mut self, from: usize, frames: Vec<Sent>) -> Vec<Vec<Sent>> {
        self.cables[from].out.lock().unwrap().insert(0, frames);
        while self.switch.spin(from as PortId, 1) > 0 {}
        self.take()
    }

    pub(in crate::switch) fn take(&self) -> Vec<Vec<Sent>> {
        self.cables.iter().map(|cable| std::mem::take(&mut *cable.got.lock().unwrap())).collect()
    }

    /// A frame from a port; returns who gets it, and how.
    pub(in crate::switch) fn cast(&mut self, from: usize, frame: &[u8]) -> Vec<(usize, Vec<u8>)> {
        let got = self.burst(from, vec![(frame.to_vec(), 0)]);
        let mut all = Vec::new();
        for (to, frames) in got.into_iter().enumerate() {
            for (frame, meta) in frames {
                assert_eq!(meta, 0, "nothing is left to do");
                all.push((to, frame));
            }
        }
        all
    }

    pub(in crate::switch) fn count(&self, port: usize) -> QueueStatus {
        self.switch.report(port as PortId)[0]
    }

    /// `docs/switch.md` has the equation.
    #[track_caller]
    pub(in crate::switch) fn check_conservation(&self) {
        let all: Vec<_> = (0..self.cables.len()).map(|port| self.count(port)).collect();
        let sum = |of: fn(&QueueStatus) -> u64| all.iter().map(of).sum::<u64>();
        let dropped = sum(|q| {
            q.drop_too_short
                + q.drop_bad_source
                + q.drop_no_destination
                + q.drop_spoofed
                + q.drop_vlan
                + q.drop_isolated
                + q.drop_storm
                + q.drop_reserved
                + q.drop_rate
                + q.drop_handoff_full
        });
        assert_eq!(sum(|q| q.tx_packets + q.extra_copies), sum(|q| q.rx_packets) + dropped, "{all:?}");
    }
}

/// The address of station `n`; of 255, broadcast.
pub(in crate::switch) fn mac(n: u8) -> [u8; 6] {
    if n == 255 { [0xff; 6] } else { [2, 0, 0, 0, 0, n] }
}

pub(in crate::switch) fn frame(to: u8, from: u8, len: usize) -> Vec<u8> {
    let payload = (0..len - 14).map(|i| i as u8);
    [&mac(to)[..], &mac(from), &[0x88, 0xb5]].concat().into_iter().chain(payload).collect()
}

/// The frame with a tag.
pub(in crate::switch) fn tagged(frame: &[u8], tci: u16) -> Vec<u8> {
    let [a, b] = tci.to_be_bytes();
    [&frame[..12], &[0x81, 0, a, b], &frame[12..]].concat()
}

pub(in crate::switch) fn access(vlan: u16) -> Policy {
    Policy { vlans: Vlans::Access(vlan), ..Policy::default() }
}

pub(in crate::switch) fn trunk(vlans: &[u16], native: u16) -> Policy {
    let carried = Carried::of(vlans.iter().copied());
    Policy { vlans: Vlans::Trunk { carried, native }, ..Policy::default() }
}

pub(in crate::switch) fn none() -> Policy {
    Policy::default()
}
