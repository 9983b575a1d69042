//! Receive-side scaling: random scripts over several queue pairs of one region. Every packet arrives at the
//! queue that the table names, whole and in its flow's order, or is counted as dropped there; no buffer is
//! lost.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeMap;

use ccnic::host;
use ccnic::host::QueuePair;
use ccnic::layout::LARGE_BUF;
use ccnic::nic::{NicQueue, Pipeline, spread};
use ccnic::ring::{Doorbell, GroupedClear, GroupedEpoch, Packed, Padded, Ring};
use ccnic::rss::{HASHED, Rss, Spreader};
use ccnic::{Burst, Config, Layout, testing};
use ccnic_check::oracle::Held;
use ccnic_check::suite::configs;
use ccnic_check::{HeapMemory, Memory};
use proptest::prelude::*;

/// Scripts per ring.
const SCRIPTS: u32 = 250;
const QUEUES: u16 = 4;

#[derive(Debug, Clone)]
enum Op {
    /// The program sends packets of a flow on a queue: their length, and where they are cut into segments.
    Send { queue: u16, flow: u8, packets: u8, len: u16, cuts: Vec<u16> },
    /// The NIC polls a queue.
    Poll(u16),
    /// The program receives on a queue and frees what came.
    Receive(u16),
    /// The program asks for another table, and for hashes or not.
    Table { seed: u8, hash: bool },
}

/// A packet of a flow: two in three are UDP over IPv4 or IPv6, the others no IP. Its number follows the
/// headers.
fn packet(flow: u8, seq: u64, len: u16) -> Vec<u8> {
    let mut bytes = vec![flow; len.into()];
    let header: &[u8] = match flow % 3 {
        0 => &[0x08, 0x00, 0x45, 0, 0, 40, 0, 0, 0, 0, 64, 17, 0, 0],
        1 => &[0x86, 0xdd, 0x60, 0, 0, 0, 0, 20, 17, 64],
        _ => &[0x08, 0x06],
    };
    bytes[12..12 + header.len()].copy_from_slice(header);
    bytes[62..70].copy_from_slice(&seq.to_le_bytes());
    bytes
}

struct Sent {
    flow: u8,
    bytes: Vec<u8>,
    /// The queues at which it may arrive, since tables change while it is in flight; its hash is the same with
    /// all of them.
    queues: Vec<u16>,
    hash: Option<u32>,
}

struct SpreadRig<R: Ring> {
    layout: Layout,
    mem: HeapMemory,
    hosts: Vec<QueuePair<HeapMemory, R>>,
    nics: Vec<NicQueue<HeapMemory, R>>,
    pipelines: Vec<Pipeline>,
    spreader: Spreader,
    /// Hashes are, or have been, asked for.
    hashes: Vec<bool>,
    reflect: bool,
    held: Held,
    /// By number: sent and not received.
    sent: BTreeMap<u64, Sent>,
    next: u64,
    received: u64,
    /// By receive queue, and flow and transmit queue: the last number.
    last: BTreeMap<(u16, u8, u16), u64>,
    from: BTreeMap<u64, u16>,
}

fn rss(seed: u8, hash: bool) -> Rss {
    let mut rss = Rss { hash, ..Rss::new(QUEUES) };
    for (i, entry) in rss.table.iter_mut().enumerate() {
        // Some tables name only a part of the queues.
        *entry = (i as u16).wrapping_mul(u16::from(seed) | 1).wrapping_add(seed.into())
            % (1 + u16::from(seed) % QUEUES);
    }
    rss
}

impl<R: Ring> SpreadRig<R> {
    fn new(config: &Config, reflect: bool) -> SpreadRig<R> {
        let layout = Layout::new(&Config { queues: QUEUES, ..*config }).unwrap();
        let memory = <HeapMemory as Memory>::new(layout.size());
        host::format(&memory.host(), &layout);
        SpreadRig {
            layout,
            hosts: (0..QUEUES).map(|q| testing::pair(memory.host(), &layout, q).unwrap()).collect(),
            nics: (0..QUEUES).map(|q| testing::nic(memory.nic(), &layout, q).unwrap()).collect(),
            pipelines: (0..QUEUES).map(|_| Pipeline::default()).collect(),
            mem: memory.nic(),
            spreader: Spreader::new(rss(3, false)),
            hashes: vec![false],
            reflect: reflect && config.shared_pool,
            held: Held::new(&layout),
            sent: BTreeMap::new(),
            next: 0,
            received: 0,
            last: BTreeMap::new(),
            from: BTreeMap::new(),
        }
    }

    fn apply(&mut self, op: &Op) {
        match op {
            Op::Send { queue, flow, packets, len, cuts } => {
                (0..*packets).for_each(|_| self.send(*queue, *flow, *len, cuts));
            }
            Op::Poll(queue) => self.poll(*queue),
            Op::Receive(queue) => self.receive(*queue),
            Op::Table { seed, hash } => {
                self.spreader = Spreader::new(rss(*seed, *hash));
                self.hashes.push(*hash);
                for sent in self.sent.values_mut() {
                    sent.queues.push(self.spreader.queue(sent.hash));
                }
            }
        }
    }

    fn send(&mut self, queue: u16, flow: u8, len: u16, cuts: &[u16]) {
        let (bytes, host) = (packet(flow, self.next, len), &mut self.hosts[usize::from(queue)]);
        let mut burst = Burst::new();
        let mut rest = bytes.as_slice();
        for i in 0.. {
            let cut = cuts
                .get(i)
                .map_or(rest.len(), |cut| usize::from(*cut).min(rest.len()))
                .min(LARGE_BUF as usize);
            let (part, later) = rest.split_at(cut);
            if host.alloc(part.len() as u16, 1, &mut burst) == 0 {
                return host.free(&mut burst);
            }
            let buf = burst.iter_mut().last().unwrap();
            assert_eq!(host.write(buf, 0, part), part.len());
            buf.set_more(!later.is_empty());
            buf.set_meta(self.next);
            rest = later;
            if rest.is_empty() {
                break;
            }
        }
        if host.tx_burst(&mut burst) == 0 {
            return host.free(&mut burst);
        }
        assert!(burst.is_empty());
        let hash = self.spreader.hash(&bytes);
        assert_eq!(hash.is_some(), flow % 3 < 2);
        self.sent.insert(self.next, Sent { flow, bytes, queues: vec![self.spreader.queue(hash)], hash });
        self.from.insert(self.next, queue);
        self.next += 1;
    }

    fn poll(&mut self, queue: u16) {
        let at = usize::from(queue);
        spread(&mut self.nics, at, &mut self.pipelines[at], &self.mem, &self.spreader, self.reflect);
    }

    fn receive(&mut self, queue: u16) {
        let mut burst = Burst::new();
        let mut bytes = Vec::new();
        let mut meta = 0;
        let host = &mut self.hosts[usize::from(queue)];
        host.rx_burst(&mut burst, 32);
        let mut packets = Vec::new();
        for buf in burst.as_slice() {
            self.held.take(buf.desc());
            if bytes.is_empty() {
                meta = buf.meta();
            }
            host.with(buf, |part| bytes.extend_from_slice(part));
            if !buf.more() {
                packets.push((std::mem::take(&mut bytes), meta));
            }
        }
        assert!(bytes.is_empty(), "a packet without its end");
        burst.as_slice().iter().for_each(|buf| self.held.give(buf.desc()));
        host.free(&mut burst);
        packets.into_iter().for_each(|(bytes, meta)| self.arrived(queue, &bytes, meta));
    }

    fn arrived(&mut self, queue: u16, bytes: &[u8], meta: u64) {
        let seq = u64::from_le_bytes(bytes[62..70].try_into().unwrap());
        let sent =
            self.sent.remove(&seq).unwrap_or_else(|| panic!("packet {seq} came twice, or was never sent"));
        assert_eq!(sent.bytes, bytes, "packet {seq}");
        assert!(
            sent.queues.contains(&queue),
            "packet {seq} came to queue {queue}, not to one of {:?}",
            sent.queues
        );
        let hashed = sent.hash.map_or(0, |hash| HASHED | u64::from(hash));
        let asked = |hash: bool| self.hashes.contains(&hash);
        assert!(
            asked(true) && meta == hashed || asked(false) && meta == seq,
            "packet {seq}: metadata {meta:#x}"
        );
        let last = self.last.insert((queue, sent.flow, self.from[&seq]), seq);
        assert!(last.is_none_or(|last| last < seq), "packet {seq} after {last:?}");
        self.received += 1;
    }

    /// Everything is received; what is missing was counted.
    fn finish(mut self) {
        for _ in 0..200 {
            (0..QUEUES).for_each(|q| self.poll(q));
            (0..QUEUES).for_each(|q| self.receive(q));
        }
        let mut dropped = 0;
        for (nic, host) in self.nics.iter_mut().zip(&self.hosts) {
            let counters = nic.counters();
            let here = counters.dropped_ring_full + counters.dropped_no_buffer;
            assert_eq!(host.drops().rx_dropped, here, "what the program reads");
            assert_eq!((counters.ring_full, counters.no_buffer), (0, 0), "nothing waits");
            dropped += here;
            nic.retire();
        }
        assert_eq!(self.sent.len() as u64, dropped, "missing packets were counted");
        assert_eq!(self.received + dropped, self.next);
        if self.layout.config().shared_pool {
            self.assert_all_buffers_are_back();
        }
    }

    fn assert_all_buffers_are_back(&mut self) {
        self.hosts.iter_mut().for_each(QueuePair::retire);
        let mut all = Vec::new();
        for len in [LARGE_BUF as u16, 64] {
            loop {
                let mut burst = Burst::new();
                if self.hosts[0].alloc(len, 32, &mut burst) == 0 {
                    break;
                }
                burst.as_slice().iter().for_each(|buf| self.held.take(buf.desc()));
                all.push(burst);
            }
        }
        assert_eq!(self.held.count, self.layout.config().buffers as usize * 32);
        all.iter_mut().for_each(|burst| self.hosts[0].free(burst));
    }
}

fn op() -> impl Strategy<Value = Op> {
    let queue = || 0..QUEUES;
    let cuts = prop_oneof![4 => Just(Vec::new()), 1 => prop::collection::vec(1u16..90, 1..=6)];
    let len = prop_oneof![4 => 70u16..129, 2 => 129u16..1500, 1 => 4000u16..9600];
    prop_oneof![
        6 => (queue(), 0u8..12, 1u8..20, len, cuts)
            .prop_map(|(queue, flow, packets, len, cuts)| Op::Send { queue, flow, packets, len, cuts }),
        8 => queue().prop_map(Op::Poll),
        4 => queue().prop_map(Op::Receive),
        1 => (any::<u8>(), any::<bool>()).prop_map(|(seed, hash)| Op::Table { seed, hash }),
    ]
}

fn scripts<R: Ring>() {
    let configs = configs::<R>();
    let config = ProptestConfig { cases: SCRIPTS, failure_persistence: None, ..ProptestConfig::default() };
    let script = (0..configs.len(), any::<bool>(), any::<bool>(), prop::collection::vec(op(), 1..150));
    let ran = proptest::test_runner::TestRunner::new(config).run(&script, |(config, small, reflect, ops)| {
        let mut config = configs[config];
        if small {
            config.buffers = 40; // the pool becomes empty
        }
        let mut rig = SpreadRig::<R>::new(&config, reflect);
        ops.iter().for_each(|op| rig.apply(op));
        rig.finish();
        Ok(())
    });
    if let Err(e) = ran {
        panic!("{e}");
    }
}

/// A program that receives on one queue only gets its packets while the other queues are full, and reads how
/// many packets were dropped there.
#[test]
fn a_full_queue_does_not_block_the_others() {
    let config = Config { ring: 64, buffers: 512, ..Config::default() };
    let mut rig = SpreadRig::<GroupedEpoch>::new(&config, false);
    let spreader = Spreader::new(rss(3, false));
    let to = |flow| spreader.queue(spreader.hash(&packet(flow, 0, 70)));
    let deaf = (0..200).find(|flow| to(*flow) == 1).unwrap();
    let good = (0..200).find(|flow| to(*flow) == 2).unwrap();
    for round in 1..=100 {
        rig.send(0, deaf, 70, &[]);
        rig.send(0, good, 70, &[]);
        rig.poll(0);
        rig.receive(2);
        assert_eq!(rig.received, round);
    }
    let (dropped, waiting) = (rig.nics[1].counters().dropped_ring_full, rig.hosts[1].rx_ready());
    assert!(dropped > 0 && waiting > 0, "{dropped} dropped, {waiting} wait");
    assert_eq!(dropped + waiting as u64, 100);
    rig.finish();
}

#[test]
fn grouped_epoch() {
    scripts::<GroupedEpoch>();
}

#[test]
fn grouped_clear() {
    scripts::<GroupedClear>();
}

#[test]
fn packed() {
    scripts::<Packed>();
}

#[test]
fn padded() {
    scripts::<Padded>();
}

#[test]
fn doorbell() {
    scripts::<Doorbell>();
}
