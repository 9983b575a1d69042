//! A switch and programs on it, whose sides of the queues the tests hold.

use std::sync::Arc;

use crate::memory::RegionMemory;
use ccnic::host::{QueuePair, format};
use ccnic::ring::{GroupedEpoch, Ring};
use ccnic::{Burst, Config, Layout, testing};
use ccnic_control::messages::QueueStatus;
use ccnic_frame::Takes;
use ccnic_shm::{NativeMemory, Pages, Region};

use super::super::program::SwitchedProgram;
use super::super::test_workers::Workers;
use super::super::{PortId, TableLimits};
use crate::ports::program::ProgramPort;
use crate::testing::send_saying;

/// A program's side of its queues, whatever the design of its rings.
pub(in crate::switch) trait Host {
    /// False when there is no room or no buffer.
    fn send(&mut self, queue: usize, frame: &[u8]) -> bool {
        self.send_saying(queue, frame, 0)
    }
    /// As `send`, with metadata.
    fn send_saying(&mut self, queue: usize, frame: &[u8], meta: u64) -> bool;
    /// As `send`, with all but the first bytes in kept buffers, which are freed at once: when they are released.
    fn send_kept(&mut self, queue: usize, frame: &[u8]) -> bool;
    /// The packets that can be received now.
    fn receive(&mut self, queue: usize) -> Vec<Vec<u8>> {
        self.receive_told(queue).into_iter().map(|(packet, _)| packet).collect()
    }
    /// As `receive`, with their metadata.
    fn receive_told(&mut self, queue: usize) -> Vec<(Vec<u8>, u64)>;
}

impl<R: Ring> Host for Vec<QueuePair<NativeMemory, R>> {
    fn send_saying(&mut self, queue: usize, frame: &[u8], meta: u64) -> bool {
        send_saying(&mut self[queue], frame, meta)
    }

    fn send_kept(&mut self, queue: usize, frame: &[u8]) -> bool {
        let (host, (start, rest)) = (&mut self[queue], frame.split_at(20));
        let (mut header, mut burst) = (Burst::new(), Burst::new());
        if host.alloc(20, 1, &mut header) == 0
            || host.alloc(rest.len() as u16, rest.len().div_ceil(4096), &mut burst) == 0
        {
            host.free(&mut header);
            return false;
        }
        header.iter_mut().for_each(|buf| _ = host.write(buf, 0, start));
        let (mut kept, mut rest) = (Vec::new(), rest);
        for buf in burst.iter_mut() {
            let (part, later) = rest.split_at(buf.len().into());
            host.write(buf, 0, part);
            rest = later;
        }
        while let Some(buf) = burst.pop() {
            kept.insert(0, host.keep(buf));
        }
        let sent = host.tx_kept(&mut header, [kept.iter().map(|kept| kept.whole())]);
        kept.into_iter().for_each(|kept| assert!(host.free_kept(kept).is_ok()));
        host.free(&mut header);
        sent == 1
    }

    fn receive_told(&mut self, queue: usize) -> Vec<(Vec<u8>, u64)> {
        let (mut packets, host) = (vec![(Vec::new(), 0)], &mut self[queue]);
        let mut burst = Burst::new();
        while host.rx_burst(&mut burst, 32) > 0 {
            for buf in burst.as_slice() {
                let (packet, told) = packets.last_mut().unwrap();
                host.with(buf, |bytes| packet.extend_from_slice(bytes));
                *told |= buf.meta(); // the same of each segment
                if !buf.more() {
                    packets.push((Vec::new(), 0));
                }
            }
            host.free(&mut burst);
        }
        assert_eq!(packets.pop(), Some((Vec::new(), 0)), "whole packets");
        packets
    }
}

pub(in crate::switch) struct Program {
    pub(in crate::switch) host: Box<dyn Host>,
    pub(in crate::switch) at: PortId,
    _region: Region,
}

/// A switch and its programs.
pub(in crate::switch) struct Rig {
    pub(in crate::switch) switch: Workers,
    pub(in crate::switch) programs: Vec<Program>,
}

/// Ticks of the tests' clock in a second.
pub(in crate::switch) const SECOND: u64 = 1000;

impl Rig {
    pub(in crate::switch) fn new(limits: TableLimits) -> Rig {
        let mut switch = Workers::new(limits);
        switch.set_clock(SECOND);
        Rig { switch, programs: Vec::new() }
    }

    /// Attaches a program; returns its index.
    pub(in crate::switch) fn join<R: Ring>(&mut self, config: &Config) -> usize {
        self.join_taking::<R>(config, None)
    }

    /// One that gets what it does not take done for it.
    pub(in crate::switch) fn join_taking<R: Ring>(&mut self, config: &Config, takes: Option<Takes>) -> usize {
        let shared_pool = config.shared_pool && R::DESIGN != ccnic::Design::Doorbell;
        let layout = Layout::new(&Config { design: R::DESIGN, shared_pool, ..*config }).unwrap();
        let region = Region::create(layout.size(), Pages::Small).unwrap();
        format(&region.memory(), &layout);
        let queues = layout.config().queues;
        let mut port = ProgramPort::<R>::new(&region, &layout, (0..queues).collect()).unwrap();
        port.set_tuning("inline=7,loaded=7".parse().unwrap());
        let hosts: Vec<QueuePair<NativeMemory, R>> =
            (0..queues).map(|q| testing::pair(region.memory(), &layout, q).unwrap()).collect();
        let mut port = SwitchedProgram::new(port, queues.into(), None, Arc::default());
        takes.into_iter().for_each(|takes| port.complete_for(Arc::new(takes.bits().into())));
        let at = self.switch.join(100 + self.programs.len() as u64, Box::new(port)).ok().unwrap();
        let mut host = Box::new(hosts);
        (0..queues.into()).for_each(|queue| assert!(host.receive(queue).is_empty())); // posts receive buffers
        self.programs.push(Program { host, at, _region: region });
        self.programs.len() - 1
    }

    /// A program of the default design.
    pub(in crate::switch) fn add(&mut self) -> usize {
        self.join::<GroupedEpoch>(&small())
    }

    /// Polls all ports until nothing moves; returns the polls.
    pub(in crate::switch) fn settle(&mut self) -> usize {
        let mut polls = 0;
        loop {
            let mut moved = 0;
            for program in &self.programs {
                moved += self.switch.spin(program.at, 1);
                polls += 1;
            }
            if moved == 0 {
                return polls;
            }
        }
    }

    /// Sends a frame from one program and returns who has received it, and only it.
    pub(in crate::switch) fn cast(&mut self, from: usize, frame: &[u8]) -> Vec<usize> {
        assert!(self.programs[from].host.send(0, frame));
        self.settle();
        let mut to = Vec::new();
        for (i, program) in self.programs.iter_mut().enumerate() {
            let got = program.host.receive(0);
            assert!(got.iter().all(|packet| packet == frame), "what was sent");
            assert!(got.len() <= 1, "once");
            to.extend(got.iter().map(|_| i));
        }
        to
    }

    pub(in crate::switch) fn counters(&self, program: usize) -> QueueStatus {
        let queues = self.switch.report(self.programs[program].at);
        total(&queues)
    }

    /// Nothing is lost without a reason.
    pub(in crate::switch) fn check_conservation(&self) {
        let all: Vec<_> = (0..self.programs.len()).map(|i| self.counters(i)).collect();
        check_conservation(&all);
    }

    pub(in crate::switch) fn pass(&mut self, seconds: u64, from: &mut u64) {
        for _ in 0..5000 {
            self.switch.tick(*from);
        }
        *from += seconds * SECOND;
        for _ in 0..5000 {
            self.switch.tick(*from);
        }
    }
}

pub(in crate::switch) fn total(queues: &[QueueStatus]) -> QueueStatus {
    queues.iter().fold(QueueStatus::default(), |sum, q| QueueStatus {
        tx_packets: sum.tx_packets + q.tx_packets,
        rx_packets: sum.rx_packets + q.rx_packets,
        rx_bytes: sum.rx_bytes + q.rx_bytes,
        extra_copies: sum.extra_copies + q.extra_copies,
        flooded: sum.flooded + q.flooded,
        drop_too_short: sum.drop_too_short + q.drop_too_short,
        drop_bad_source: sum.drop_bad_source + q.drop_bad_source,
        drop_no_destination: sum.drop_no_destination + q.drop_no_destination,
        drop_ring_full: sum.drop_ring_full + q.drop_ring_full,
        drop_no_buffer: sum.drop_no_buffer + q.drop_no_buffer,
        drop_over_mtu: sum.drop_over_mtu + q.drop_over_mtu,
        drop_bad_descriptor: sum.drop_bad_descriptor + q.drop_bad_descriptor,
        not_learned: sum.not_learned + q.not_learned,
        ..sum
    })
}

/// `docs/switch.md` has the equation.
pub(in crate::switch) fn check_conservation(ports: &[QueueStatus]) {
    let q = total(ports);
    let in_switch = q.drop_too_short + q.drop_bad_source + q.drop_no_destination;
    let at_receivers = q.drop_ring_full + q.drop_no_buffer + q.drop_over_mtu;
    assert_eq!(q.tx_packets + q.extra_copies, q.rx_packets + in_switch + at_receivers, "{ports:?}");
}

pub(in crate::switch) fn small() -> Config {
    Config { ring: 64, buffers: 128, ..Config::default() }
}

/// The address of station `n`.
pub(in crate::switch) fn mac(n: u8) -> [u8; 6] {
    [2, 0, 0, 0, 0, n]
}

pub(in crate::switch) const NOBODY: [usize; 0] = [];
pub(in crate::switch) const BROADCAST: [u8; 6] = [0xff; 6];

pub(in crate::switch) fn frame(to: [u8; 6], from: [u8; 6], len: usize, byte: u8) -> Vec<u8> {
    let mut frame = vec![byte; len];
    frame[..6].copy_from_slice(&to);
    frame[6..12].copy_from_slice(&from);
    frame[12..14].copy_from_slice(&[0x88, 0xb5]);
    frame
}
