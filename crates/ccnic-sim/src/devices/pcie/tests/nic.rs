//! A device takes nothing on trust, and does what its numbers say.

use ccnic::host::{self, QueuePair};
use ccnic::ring::Doorbell;
use ccnic::{Burst, Config, Design, Layout, SharedMemory};

use super::{Rig, platform};
use crate::devices::pcie::attach_nic;
use crate::devices::pcie::nic::{PcieNic, Service};
use crate::kernel::time::Ps;
use crate::machine::agent::Agent;

fn layout() -> Layout {
    let config = Config {
        design: Design::Doorbell,
        shared_pool: false,
        ring: 64,
        buffers: 256,
        mtu: 1500,
        ..Config::default()
    };
    Layout::new(&config).unwrap()
}

/// A machine with a NIC, and a program on its core.
fn run(program: impl FnOnce(Agent<'_>, Layout) + 'static) -> Rig {
    let (p, layout) = (platform(), layout());
    let mut sim = Rig::new(&p, layout.size(), &[(0, 0)]);
    attach_nic(&mut sim.machine_mut(), 0, &p, &layout, [(0, 0)].into_iter());
    host::format(&sim.untimed(0), &layout);
    sim.spawn(0, move |agent| program(agent, layout)).unwrap();
    sim.run(Ps::MAX);
    assert!(sim.is_done(0));
    sim.machine().audit().unwrap();
    sim
}

fn wait_for(agent: &Agent<'_>, at: u32, value: u64) {
    while agent.load_acquire(at) != value {
        agent.relax();
    }
}

#[test]
fn invalid_tails_are_ignored() {
    let sim = run(|agent, layout| {
        let rings = layout.queue(0).unwrap();
        for tail in [65, u64::MAX, 1 << 40] {
            agent.store_release(rings.tx.tail, tail);
            agent.store_release(rings.fill.tail, tail);
        }
    });
    let counts = sim.nic_counts();
    assert_eq!((counts.bad, counts.doorbells, counts.fetches), (6, 0, 0));
}

/// Bad descriptors are dropped and counted; the host gets its slots back, and good packets go on.
#[test]
fn bad_descriptors_are_dropped() {
    let sim = run(|agent, layout| {
        let (rings, pool) = (layout.queue(0).unwrap(), *layout.pool());
        let small = u64::from(ccnic::desc::FLAG_SMALL) << 48;
        let more = u64::from(ccnic::desc::FLAG_MORE) << 48;
        let word = |at: u32, len: u64, flags: u64| u64::from(at) | len << 32 | flags;
        let bad = [
            word(pool.end, 64, 0),              // beyond the pool
            word(pool.buffers - 64, 64, 0),     // before it
            word(pool.buffers, 0, 0),           // nothing
            word(pool.buffers + 64, 4096, 0),   // beyond its buffer
            word(pool.buffers + 64, 65, small), // beyond its small buffer
            word(pool.buffers, 1501, 0),        // beyond the MTU
            word(u32::MAX, 64, 0),
        ];
        let mut at = rings.tx.units;
        let mut put = |word| {
            agent.store(at, word);
            agent.store(at + 8, 0);
            at += 16;
        };
        bad.into_iter().for_each(&mut put);
        // A chain without an end within what a packet may have, and its end.
        (0..9).for_each(|_| put(word(pool.buffers, 64, more)));
        put(word(pool.buffers, 64, 0));
        let n = bad.len() as u64 + 10;
        agent.store_release(rings.tx.tail, n);
        wait_for(&agent, rings.tx.head, n);
    });
    let counts = sim.nic_counts();
    assert_eq!((counts.packets, counts.bad), (0, 8));
}

/// Posted receive buffers that name no buffer are skipped.
#[test]
fn bad_receive_buffers_are_skipped() {
    let sim = run(|agent, layout| {
        let (rings, pool) = (layout.queue(0).unwrap(), *layout.pool());
        let posted = [pool.end, 0, pool.buffers + 4096, pool.buffers + 8192];
        for (i, buffer) in (0..).zip(posted) {
            agent.store(rings.fill.units + i * 16, u64::from(buffer) | 4096 << 32);
            agent.store(rings.fill.units + i * 16 + 8, 0);
        }
        agent.store_release(rings.fill.tail, 4);
        agent.write_lines(pool.buffers, 64);
        agent.store(rings.tx.units, u64::from(pool.buffers) | 64 << 32);
        agent.store(rings.tx.units + 8, 77);
        agent.store_release(rings.tx.tail, 1);
        wait_for(&agent, rings.rx.tail, 1);
        assert_eq!(agent.load(rings.rx.units), u64::from(pool.buffers + 4096) | 64 << 32);
        assert_eq!(agent.load(rings.rx.units + 8), 77);
    });
    let counts = sim.nic_counts();
    assert_eq!((counts.packets, counts.bad), (1, 2));
}

/// A packet waits in the NIC until the host has posted a buffer for it.
#[test]
fn packets_wait_for_receive_buffers() {
    let sim = run(|agent, layout| {
        let (rings, pool) = (layout.queue(0).unwrap(), *layout.pool());
        agent.store(rings.tx.units, u64::from(pool.buffers) | 64 << 32);
        agent.store_release(rings.tx.tail, 1);
        wait_for(&agent, rings.tx.head, 1);
        agent.work(20_000.0);
        assert_eq!(agent.load_acquire(rings.rx.tail), 0);
        agent.store(rings.fill.units, u64::from(pool.buffers + 4096) | 4096 << 32);
        agent.store_release(rings.fill.tail, 1);
        wait_for(&agent, rings.rx.tail, 1);
    });
    assert!(sim.nic_counts().no_buffer > 0);
}

/// The interface's own host side: what it sends comes back, over many laps of its rings.
#[test]
fn the_interface_runs_unchanged() {
    let sim = run(|agent, layout| {
        let mut pair: QueuePair<_, Doorbell> = QueuePair::new(agent, &layout, 0).unwrap();
        let (mut tx, mut rx) = (Burst::new(), Burst::new());
        let (mut sent, mut received) = (0u64, 0u64);
        while received < 1000 {
            if tx.is_empty() && sent < 1000 {
                let len = 64 + (sent % 20) as u16 * 64;
                pair.alloc(len, 4, &mut tx);
                for buf in tx.iter_mut() {
                    pair.with_mut(buf, |bytes| bytes.fill(sent as u8));
                    sent += 1;
                }
            }
            pair.tx_burst(&mut tx);
            if pair.rx_burst(&mut rx, 32) == 0 {
                agent.relax();
            }
            for buf in rx.as_slice() {
                assert!(pair.with(buf, |bytes| bytes.iter().all(|b| *b == received as u8)));
                received += 1;
            }
            pair.free(&mut rx);
        }
        assert_eq!(pair.drops(), ccnic::host::HostDrops::default());
    });
    let counts = sim.nic_counts();
    assert_eq!((counts.packets, counts.bad), (1000, 0));
}

/// With fewer contexts than queues, a queue keeps its context for as many descriptors as the device holds, if another one waits.
#[test]
fn queues_take_turns_with_contexts() {
    let p = platform().overridden("device.contexts", 1.0).unwrap();
    let mut nic = PcieNic::new(p.device.as_ref().unwrap(), &layout(), [(0, 0), (0, 0)].into_iter());
    let ask = |nic: &mut PcieNic, queue: u16| {
        let hold = nic.fetch;
        let q = &mut nic.queues[queue as usize];
        let (_, n) = q.packets.next(hold).unwrap();
        let Service::Active(asked) = &mut q.service else { panic!("{:?}", q.service) };
        *asked += u64::from(n);
    };
    let take_all = |nic: &mut PcieNic, queue: u16| {
        let packets = &mut nic.queues[queue as usize].packets;
        packets.taken = packets.asked;
        packets.descs.clear();
    };
    assert!(!nic.may_fetch(0), "it has nothing to send");
    assert!(nic.queues[0].packets.set_tail(64));
    assert!(nic.may_fetch(0));
    ask(&mut nic, 0);
    assert!(nic.may_fetch(0), "no other queue waits");
    assert_eq!(nic.end_service(0), None, "its packets are still to be sent");
    assert!(nic.queues[1].packets.set_tail(1));
    assert!(!nic.may_fetch(1));
    assert!(!nic.may_fetch(0), "its share is used up");
    take_all(&mut nic, 0);
    assert_eq!(nic.end_service(0), Some(1));
    assert!(nic.may_fetch(1));
    assert!(!nic.may_fetch(0), "now it waits for what it has left");
    ask(&mut nic, 1);
    take_all(&mut nic, 1);
    assert_eq!(nic.end_service(1), Some(0));
    assert!(nic.may_fetch(0) && !nic.may_fetch(1));
}
