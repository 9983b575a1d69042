//! Attachments polled by hand, on one thread: RSS between two workers in every order of polls, a worker that stops in the middle, and a
//! port that is no program's.

use std::collections::BTreeMap;
use std::sync::Arc;

use ccnic::host::{QueuePair, format};
use ccnic::layout::LARGE_BUF;
use ccnic::nic::{BurstQueue, Fetched};

use crate::memory::RegionMemory;
use ccnic::ring::{GroupedEpoch, Ring, RingVisitor};
use ccnic::rss::{Rss, Spreader};
use ccnic::{Burst, Config, Desc, Design, Layout, SharedMemory, testing};
use ccnic_check::oracle::Held;
use ccnic_control::messages::QueueStatus;
use ccnic_shm::{NativeMemory, Pages, Region};

use super::loopback::Loopback;
use super::rss::RssLoopback;
use super::{Attachment, Dataplane};
use crate::poll::links::mesh;
use crate::poll::{Client, Closing, Poll, Steer};
use crate::ports::program::ProgramPort;
use crate::ports::{Port, Statistics};
use crate::testing::send;

const QUEUES: u16 = 4;
/// Two workers: queues 0 and 2, queues 1 and 3.
const WORKERS: [usize; 4] = [0, 1, 0, 1];

/// Bytes of a packet: one in seven takes two buffers.
fn len(number: u64) -> u16 {
    if number % 7 == 3 { 5000 } else { 80 }
}

/// A UDP packet of a flow, with its number behind the headers.
fn packet(flow: u8, number: u64) -> Vec<u8> {
    let mut bytes = vec![flow; len(number).into()];
    bytes[12..24].copy_from_slice(&[8, 0, 0x45, 0, 0, 66, 0, 0, 0, 0, 64, 17]);
    bytes[62..70].copy_from_slice(&number.to_le_bytes());
    bytes
}

/// xorshift64*
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) % n
    }
}

/// A program with four queues, and both workers that poll them.
struct Rig<R: Ring> {
    layout: Layout,
    hosts: Vec<QueuePair<NativeMemory, R>>,
    /// By worker; `None` when it has stopped.
    parts: Vec<Option<Attachment<ProgramPort<R>, RssLoopback>>>,
    spreader: Arc<Spreader>,
    sent: u64,
    received: u64,
    /// By flow and transmit queue, which fix the receive queue: the next number that may come.
    next: BTreeMap<(u8, u16), u64>,
    from: BTreeMap<u64, u16>,
    _region: Region,
}

impl<R: Ring> Rig<R> {
    fn new(config: &Config, reflect: bool) -> Rig<R> {
        let layout = Layout::new(&Config { queues: QUEUES, design: R::DESIGN, ..*config }).unwrap();
        let region = Region::create(layout.size(), Pages::Small).unwrap();
        format(&region.memory(), &layout);
        let spreader = Arc::new(Spreader::new(Rss::new(QUEUES)));
        let part = |(worker, links)| {
            let numbers: Vec<u16> = (0..QUEUES).filter(|q| WORKERS[usize::from(*q)] == worker).collect();
            let queues = numbers.len();
            let mut port = ProgramPort::<R>::new(&region, &layout, numbers).unwrap();
            port.set_tuning("inline=7,loaded=7".parse().unwrap());
            let mut dataplane = RssLoopback::new(&port, queues, reflect);
            dataplane.link(links);
            dataplane.set_rss(Some(Arc::clone(&spreader)));
            Some(Attachment::new(port, dataplane))
        };
        Rig {
            hosts: (0..QUEUES).map(|q| testing::pair(region.memory(), &layout, q).unwrap()).collect(),
            parts: mesh(&WORKERS).into_iter().map(part).collect(),
            layout,
            spreader,
            sent: 0,
            received: 0,
            next: BTreeMap::new(),
            from: BTreeMap::new(),
            _region: region,
        }
    }

    fn to(&self, flow: u8) -> u16 {
        self.spreader.queue(self.spreader.hash(&packet(flow, 0)))
    }

    /// True when the ring took it.
    fn send(&mut self, queue: u16, flow: u8) -> bool {
        let host = &mut self.hosts[usize::from(queue)];
        if !send(host, &packet(flow, self.sent)) {
            return false;
        }
        self.from.insert(self.sent, queue);
        self.sent += 1;
        true
    }

    fn poll(&mut self, worker: usize) -> usize {
        self.parts[worker].as_mut().map_or(0, Poll::poll)
    }

    fn receive(&mut self, queue: u16) {
        let mut burst = Burst::new();
        let host = &mut self.hosts[usize::from(queue)];
        host.rx_burst(&mut burst, 32);
        let mut packets = vec![Vec::new()];
        for buf in burst.as_slice() {
            host.with(buf, |bytes| packets.last_mut().unwrap().extend_from_slice(bytes));
            if !buf.more() {
                packets.push(Vec::new());
            }
        }
        assert_eq!(packets.pop(), Some(Vec::new()), "a packet without its end");
        host.free(&mut burst);
        for bytes in packets {
            let number = u64::from_le_bytes(bytes[62..70].try_into().unwrap());
            let flow = bytes[0];
            assert_eq!(bytes, packet(flow, number));
            assert_eq!(queue, self.to(flow), "packet {number}");
            let next = self.next.entry((flow, self.from[&number])).or_default();
            assert!(number >= *next, "packet {number} after {next}: twice, or out of order");
            *next = number + 1;
            self.received += 1;
        }
    }

    fn status(&self) -> Vec<QueueStatus> {
        self.parts.iter().flatten().flat_map(Statistics::report).collect()
    }

    fn dropped(&self) -> u64 {
        self.status().iter().map(|q| q.drop_ring_full + q.drop_no_buffer + q.drop_handoff_full).sum()
    }

    /// Until nothing moves any more.
    fn settle(&mut self) {
        for _ in 0..10_000 {
            let moved: usize = (0..WORKERS.len()).map(|w| if w < 2 { self.poll(w) } else { 0 }).sum();
            let before = self.received;
            (0..QUEUES).for_each(|queue| self.receive(queue));
            if moved == 0 && self.received == before {
                return;
            }
        }
        panic!("no end of packets");
    }

    fn close(&mut self) {
        for _ in 0..10_000 {
            let steps = self.parts.iter_mut().flatten().map(Poll::close);
            let steps: Vec<_> = steps.collect();
            if steps.iter().all(|step| *step == Closing::Done) {
                return;
            }
        }
        panic!("no end of closing");
    }

    /// With the shared pool, when both sides have given back what they keep: all buffers can be allocated.
    fn assert_all_buffers_are_back(&mut self) {
        self.hosts.iter_mut().for_each(QueuePair::retire);
        let mut held = Held::new(&self.layout);
        let mut all = Vec::new();
        for len in [LARGE_BUF as u16, 64] {
            loop {
                let mut burst = Burst::new();
                if self.hosts[0].alloc(len, 32, &mut burst) == 0 {
                    break;
                }
                burst.as_slice().iter().for_each(|buf| held.take(buf.desc()));
                all.push(burst);
            }
        }
        assert_eq!(held.count, self.layout.config().buffers as usize * 32);
        all.iter_mut().for_each(|burst| self.hosts[0].free(burst));
    }
}

fn config(design: Design, shared_pool: bool) -> Config {
    Config { shared_pool, ring: 64, buffers: 512, ..Config { design, ..Config::default() } }
}

/// Calls `visitor` for every design, with the shared pool where it can have one and with the host-managed pool.
fn every_design<V: RingVisitor<Output = ()>>(visitor: impl Fn(Config, bool) -> V) {
    for design in Design::ALL {
        design.dispatch(visitor(config(design, false), false));
        if design != Design::Doorbell {
            design.dispatch(visitor(config(design, true), false));
            design.dispatch(visitor(config(design, true), true));
        }
    }
    // Without areas, as an operator may configure it.
    let config = Config { inline: false, ..config(Design::GroupedEpoch, true) };
    Design::GroupedEpoch.dispatch(visitor(config, false));
}

struct Scripts(Config, bool);

impl RingVisitor for Scripts {
    type Output = ();

    fn visit<R: Ring>(self) {
        for seed in 1..=10 {
            let mut rig = Rig::<R>::new(&self.0, self.1);
            let mut random = Random(seed * 0x9e37_79b9);
            for _ in 0..3000 {
                let queue = random.below(QUEUES.into()) as u16;
                match random.below(10) {
                    0..4 => _ = rig.send(queue, random.below(40) as u8),
                    4..8 => _ = rig.poll(usize::from(queue % 2)),
                    _ => rig.receive(queue),
                }
            }
            rig.settle();
            let status = rig.status();
            assert_eq!(status.iter().map(|q| q.tx_packets).sum::<u64>(), rig.sent);
            assert_eq!(status.iter().map(|q| q.rx_packets).sum::<u64>(), rig.received);
            assert_eq!(rig.received + rig.dropped(), rig.sent);
            let seen: u64 = rig.hosts.iter().map(|host| host.drops().rx_dropped).sum();
            assert_eq!(seen, rig.dropped(), "what the program reads");
            rig.close();
            if self.0.shared_pool {
                rig.assert_all_buffers_are_back();
            }
        }
    }
}

#[test]
fn any_order_of_polls() {
    every_design(Scripts);
}

struct Full(Config, bool);

impl RingVisitor for Full {
    type Output = ();

    /// One worker is not polled: what is handed to it fills the hand-off, and no more than that is kept.
    fn visit<R: Ring>(self) {
        let mut rig = Rig::<R>::new(&self.0, self.1);
        let there = (0..200).find(|flow| rig.to(*flow) == 1).unwrap();
        let here = (0..200).find(|flow| rig.to(*flow) == 2).unwrap();
        let mut kept = 0;
        for _ in 0..5000 {
            rig.send(0, there);
            kept += u64::from(rig.send(2, here));
            rig.poll(0);
            rig.receive(2);
        }
        rig.poll(0);
        rig.receive(2);
        assert_eq!(rig.received, kept, "a worker that is not polled holds up no flow of another");
        let full: u64 = rig.status().iter().map(|q| q.drop_handoff_full).sum();
        // Where packets stay in the ring or in buffers of the host until they have been delivered a queue waits: nothing is dropped.
        let waits = !self.0.shared_pool || self.0.has_areas();
        assert_eq!(full > 0, !waits, "{full} dropped");
        rig.settle();
        assert_eq!(rig.received + rig.dropped(), rig.sent);
        rig.close();
        if self.0.shared_pool {
            rig.assert_all_buffers_are_back();
        }
    }
}

#[test]
fn a_hand_off_that_is_full_drops_and_counts() {
    every_design(Full);
}

struct Stops(Config, bool);

impl RingVisitor for Stops {
    type Output = ();

    /// A worker stops without a word, as one that panics does, with packets on their way to it and from it.
    fn visit<R: Ring>(self) {
        let mut rig = Rig::<R>::new(&self.0, self.1);
        let there = (0..200).find(|flow| rig.to(*flow) == 3).unwrap();
        let here = (0..200).find(|flow| rig.to(*flow) == 0).unwrap();
        for _ in 0..40 {
            rig.send(0, there);
            rig.send(1, here);
            rig.poll(0);
            rig.poll(1);
        }
        (0..10).for_each(|_| _ = rig.send(2, there));
        (0..4).for_each(|_| _ = rig.poll(0));
        rig.parts[1] = None;
        let before = rig.received;
        for _ in 0..100 {
            rig.send(0, there);
            rig.send(2, here);
            rig.poll(0);
            rig.receive(0);
        }
        assert!(
            rig.received > before,
            "the other worker goes on: {} {:?}",
            self.0.design.name(),
            rig.status()
        );
        (0..200).for_each(|_| _ = rig.poll(0));
        rig.receive(0);
        let lost: u64 = rig.status().iter().map(|q| q.drop_handoff_full).sum();
        assert!(lost >= 100, "{lost} counted of what nobody delivers: {:?} {:?}", self.0, rig.status());
        rig.close(); // and can be closed
    }
}

#[test]
fn a_worker_that_stops_holds_up_nobody() {
    every_design(Stops);
}

/// A port that is no program's: what a TAP would have to write. Frames come from a list and go to another.
struct Frames {
    queue: [FrameQueue; 1],
    mem: NativeMemory,
}

#[derive(Default)]
struct FrameQueue {
    incoming: Vec<Desc>,
    outgoing: Vec<Vec<u8>>,
    completed: usize,
    flushed: usize,
}

impl BurstQueue for FrameQueue {
    type Memory = NativeMemory;

    fn fetch(&mut self, into: &mut Fetched) -> usize {
        let n = into.refill(&self.incoming);
        self.incoming.drain(..n);
        n
    }

    fn deliver(&mut self, from: &NativeMemory, packets: &[Desc], _: &[Desc]) -> usize {
        for packet in packets.split_inclusive(|desc| !desc.more()) {
            let mut bytes = Vec::new();
            for desc in packet {
                let mut part = vec![0; desc.len().into()];
                from.read(desc.offset(), &mut part);
                bytes.extend(part);
            }
            self.outgoing.push(bytes);
        }
        packets.len()
    }

    fn complete(&mut self, packets: &[Desc]) {
        self.completed += packets.len();
    }

    fn flush(&mut self) {
        self.flushed = self.outgoing.len();
    }
}

impl Port for Frames {
    type Queue = FrameQueue;

    fn queues(&mut self) -> (&mut [FrameQueue], &NativeMemory) {
        (&mut self.queue, &self.mem)
    }

    fn backlog(&self) -> usize {
        1
    }
}

impl Statistics for Frames {
    fn report(&self) -> Vec<QueueStatus> {
        vec![QueueStatus { rx_packets: self.queue[0].flushed as u64, ..QueueStatus::default() }]
    }
}

/// Half of a switch: what comes from a port of any kind goes to a queue of another kind.
struct Forward(FrameQueue);

impl<P: Port> Dataplane<P> for Forward {
    fn poll(&mut self, port: &mut P) -> usize {
        let (queues, mem) = port.queues();
        let mut fetched = Fetched::default();
        let n = queues[0].fetch(&mut fetched);
        let destination: &mut dyn BurstQueue<Memory = NativeMemory> = &mut self.0;
        assert_eq!(destination.deliver(mem, fetched.rest(), &[]), n);
        destination.flush();
        queues[0].complete(fetched.rest());
        queues[0].flush();
        n
    }
}

fn frames(count: u32) -> (Frames, Region) {
    let region = Region::create(1 << 20, Pages::Small).unwrap();
    let mem = region.memory();
    let incoming = (0..count).map(|i| Desc::new(4096 + 64 * i, 60, 0)).collect::<Vec<_>>();
    for (i, desc) in (0..).zip(&incoming) {
        mem.write(desc.offset(), &[i; 60]);
    }
    (Frames { queue: [FrameQueue { incoming, ..FrameQueue::default() }], mem }, region)
}

#[test]
fn a_port_that_only_moves_packets_is_polled_like_any_other() {
    let (port, _region) = frames(70);
    let mut client: Box<dyn Client> = Box::new(Attachment::new(port, Loopback::new(1, false)));
    assert_eq!([client.poll(), client.poll(), client.poll(), client.poll()], [32, 32, 6, 0]);
    assert_eq!(client.report()[0].rx_packets, 70);
    assert!(client.notify().is_none() && client.steer().is_none(), "it can neither");
    assert_eq!((client.waits(), client.close()), (false, Closing::Done));
}

#[test]
fn packets_cross_from_a_program_to_a_port_of_another_kind() {
    let layout = Layout::new(&config(Design::GroupedEpoch, true)).unwrap();
    let region = Region::create(layout.size(), Pages::Small).unwrap();
    format(&region.memory(), &layout);
    let mut host = QueuePair::<_, GroupedEpoch>::new(region.memory(), &layout, 0).unwrap();
    let mut port = ProgramPort::<GroupedEpoch>::new(&region, &layout, vec![0]).unwrap();
    let mut forward = Forward(FrameQueue::default());
    for number in 0..100 {
        assert!(send(&mut host, &packet(1, number)), "{number}");
        assert!(forward.poll(&mut port) > 0);
    }
    assert_eq!(forward.0.outgoing, (0..100).map(|n| packet(1, n)).collect::<Vec<_>>());
    assert!(port.retire() && !port.retire());
}
