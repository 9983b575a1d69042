//! The conformance suite: tests of the interface, each a function over any memory and any ring.
//!
//! [`conformance!`](crate::conformance) instantiates them. A new memory or a new ring needs one line there.

use ccnic::desc::CHAIN_MAX;
use ccnic::layout::LARGE_BUF;
use ccnic::ring::Ring;
use ccnic::testing::rounds;
use ccnic::{Burst, Config, Design};

use crate::memory::Memory;
use crate::rig::{Op, Rig, Wire};

/// A pool so large that magazines cannot hold all of it. (Miri takes minutes to format one.)
const PLENTY: u32 = if cfg!(miri) { 128 } else { 1600 };

/// Instantiates the suite for a memory: a module for each ring, a test for each function.
#[macro_export]
macro_rules! conformance {
    ($memory:ty) => {
        $crate::conformance!($memory, grouped_epoch: GroupedEpoch, grouped_clear: GroupedClear, packed: Packed,
            padded: Padded, doorbell: Doorbell);
    };
    ($memory:ty, $($module:ident: $ring:ident),+) => {
        $(mod $module {
            #[allow(unused_imports)]
            use super::*;
            $crate::conformance!(@questions $memory, ccnic::ring::$ring,
                packets_come_back, the_ring_wraps, a_full_ring_leaves_packets_with_their_owner, a_slow_receiver_loses_nothing,
                an_empty_pool_allocates_nothing, chains_are_whole_at_every_burst_size, incomplete_packets_are_not_taken,
                a_single_packet_is_delivered_at_once, a_successor_continues, a_dead_nic_loses_only_what_it_held,
                sending_continues_without_received_packets, a_small_pool_sustains_traffic,
                a_program_that_sends_all_buffers_gets_them_back, a_small_ring_has_enough_posted_buffers,
                a_dropped_queue_pair_returns_its_buffers, an_armed_program_is_notified_once,
                small_packets_are_sent_and_received_as_copies);
        })+
    };
    (@questions $memory:ty, $ring:ty, $($question:ident),+) => {
        $(#[test] fn $question() { $crate::suite::$question::<$memory, $ring>(); })+
    };
}

/// Every kind of pool for a ring, with and without areas for inline packets, with few descriptors, so that the ring wraps soon.
pub fn configs<R: Ring>() -> Vec<Config> {
    let all = (0..32).map(|bits: u8| Config {
        ring: if bits & 8 == 0 { 64 } else { 128 },
        buffers: PLENTY,
        design: R::DESIGN,
        recycle: bits & 1 == 0,
        small: bits & 2 == 0,
        sequential: bits & 4 != 0,
        shared_pool: bits & 8 == 0,
        inline: bits & 16 == 0,
        ..Config::default()
    });
    // And the pool as DPDK's, with and without its cache.
    let mempools = (0..4).map(|bits: u8| Config {
        ring: 64,
        buffers: PLENTY,
        design: R::DESIGN,
        recycle: bits & 1 == 0,
        small: R::DESIGN != Design::Doorbell,
        shared_pool: bits & 2 == 0,
        mempool: true,
        ..Config::default()
    });
    let all = all.chain(mempools);
    // Without areas, where there could be some; elsewhere the switch changes nothing.
    let differs = |c: &Config| c.inline || Config { inline: true, ..*c }.has_areas();
    all.filter(|c| c.check().is_ok() && differs(c)).take(rounds(36, 1)).collect()
}

/// One configuration with each kind of pool, with and without areas.
pub(crate) fn few<R: Ring>() -> Vec<Config> {
    configs::<R>().into_iter().filter(|c| c.recycle && c.small && !c.sequential).collect()
}

/// The wires that a configuration supports.
pub fn wires(config: &Config) -> &'static [Wire] {
    // A host that manages the pool frees what it has sent: the NIC must not send it back.
    if cfg!(miri) {
        &[Wire::Loopback]
    } else if config.shared_pool {
        &[Wire::Loopback, Wire::Bytes, Wire::Own, Wire::Reflect, Wire::Sink]
    } else {
        &[Wire::Loopback, Wire::Bytes, Wire::Sink]
    }
}

fn each<M: Memory, R: Ring>(configs: Vec<Config>, ask: impl Fn(&mut Rig<M, R>)) {
    for config in configs {
        for &wire in wires(&config) {
            let mut rig = Rig::new(&config, wire);
            ask(&mut rig);
            rig.finish(false);
        }
    }
}

/// Do packets of every kind of length come back, over every pool?
pub fn packets_come_back<M: Memory, R: Ring>() {
    each::<M, R>(configs::<R>(), |rig| {
        for len in [1, 63, 64, 65, 127, 128, 129, 1500, 4095, 4096, 4097, 9000, 9600] {
            assert_eq!(rig.alloc(len, 5), 5, "{len}");
            rig.transmit();
            rig.poll();
            rig.receive(Burst::CAPACITY);
            rig.free(2);
        }
    });
}

/// Are small packets, mixed with others, sent and received without handles, as many as there is room for, and never a large one?
pub fn small_packets_are_sent_and_received_as_copies<M: Memory, R: Ring>() {
    each::<M, R>(configs::<R>(), |rig| {
        let config = *rig.layout.config();
        let ring = config.ring as usize;
        let mut short = 0;
        for i in 0..300usize {
            rig.send_small((i * 7 % 128) as u16, i % 40);
            if i % 5 == 0 {
                rig.alloc(if i % 2 == 0 { 129 } else { 64 }, i % 4);
                rig.transmit();
            }
            rig.poll();
            while let Ok(n @ 1..) = rig.receive_small(1 + i % 37) {
                short += n;
            }
            rig.receive(1 + i % 9);
            rig.free(usize::MAX);
        }
        rig.settle(false);
        let came = rig.oracle.received;
        assert!(came == 0 || short > 1000, "{short} of {came} came by the short way");
        assert_eq!(rig.receive_small(0), Ok(0), "nothing asked for");
        assert_eq!(rig.receive_small(9), Ok(0), "nothing is there");
        // A nearly full ring takes as many as it has room for.
        let mut sent = 0;
        while let n @ 1.. = rig.send_small(64, 64) {
            sent += n;
            assert!(sent <= ring, "a ring of {ring} descriptors took {sent}");
        }
        assert!(sent >= 16 && rig.host.tx_room() == 0, "{sent} were taken");
    });
}

/// Does the ring wrap, many times, at every phase of groups and bursts?
pub fn the_ring_wraps<M: Memory, R: Ring>() {
    each::<M, R>(few::<R>(), |rig| {
        for i in 0..600 {
            rig.alloc(60 + i % 9, usize::from(i % 37));
            rig.transmit();
            rig.poll();
            rig.receive(usize::from(1 + i % 64));
            rig.free(usize::MAX);
        }
    });
}

/// Does a ring take as many packets as it has room for, leave the others with their owner, and take more when
/// there is room?
pub fn a_full_ring_leaves_packets_with_their_owner<M: Memory, R: Ring>() {
    each::<M, R>(few::<R>(), |rig| {
        let (mut taken, mut refused) = (0, false);
        while !refused {
            rig.alloc(64, 7);
            let n = rig.transmit();
            taken += n;
            refused = n == 0;
            let ring = rig.layout.config().ring as usize;
            assert!(taken <= ring, "a ring of {ring} descriptors took {taken}");
        }
        assert!(taken >= 16, "a ring of 64 or more descriptors took only {taken}");
        let left = rig.outbox.len();
        assert!(left > 0 && rig.transmit() == 0 && rig.outbox.len() == left, "refused again, nothing lost");
    });
}

/// Does the NIC wait for a program that does not receive?
pub fn a_slow_receiver_loses_nothing<M: Memory, R: Ring>() {
    each::<M, R>(few::<R>(), |rig| {
        for _ in 0..40 {
            rig.alloc(100, rig.outbox.space().min(9));
            rig.transmit();
            rig.poll();
        }
        for max in (1..=Burst::CAPACITY).chain([1, 2, 3]) {
            rig.receive(max);
            rig.poll();
            rig.transmit();
        }
    });
}

/// Does an empty pool allocate nothing, and buffers again once some are freed?
pub fn an_empty_pool_allocates_nothing<M: Memory, R: Ring>() {
    for config in few::<R>().into_iter().filter(|c| c.shared_pool) {
        let buffers = 48;
        let mut rig = Rig::<M, R>::new(&Config { buffers, ..config }, Wire::Loopback);
        let spare = u32::from(rig.layout.config().has_areas());
        assert_eq!(rig.alloc(LARGE_BUF as u16, 100), (buffers - spare) as usize);
        assert_eq!((rig.alloc(LARGE_BUF as u16, 1), rig.alloc(1, 1), rig.alloc(9000, 1)), (0, 0, 0));
        assert!(!rig.chain(&[1, 2]));
        rig.apply(&Op::Drop);
        rig.apply(&Op::Drop);
        assert_eq!(rig.alloc(9000, 1), 0, "two buffers are free, three are needed");
        assert_eq!(rig.alloc(LARGE_BUF as u16, 9), 2, "a chain that failed gave its buffers back");
        rig.finish(true);
    }
}

/// Does a program that has put every buffer into its transmit ring, before the NIC had one, get its packets
/// back?
pub fn a_program_that_sends_all_buffers_gets_them_back<M: Memory, R: Ring>() {
    for config in configs::<R>().into_iter().filter(|c| c.shared_pool) {
        let mut rig = Rig::<M, R>::new(&Config { buffers: 48, ..config }, Wire::Loopback);
        let spare = usize::from(rig.layout.config().has_areas());
        assert_eq!(rig.alloc(LARGE_BUF as u16, 100), 48 - spare);
        rig.finish(false);
    }
}

/// Is a packet of several segments delivered whole or not at all, whatever the receiver's burst?
pub fn chains_are_whole_at_every_burst_size<M: Memory, R: Ring>() {
    each::<M, R>(few::<R>(), |rig| {
        for max in 1..=Burst::CAPACITY {
            for segments in [1, 2, 3, CHAIN_MAX] {
                let lens: Vec<u16> = (0..segments as u16).map(|i| 40 + 13 * i + max as u16).collect();
                assert!(rig.chain(&lens));
            }
            rig.alloc(9000, 1);
            rig.transmit();
            rig.poll();
            rig.receive(max);
            rig.receive(1);
            rig.free(9);
            if rig.outbox.space() < 20 {
                rig.settle(false);
            }
        }
    });
}

/// Is a packet that lacks its end, or has too many segments, left with its owner?
pub fn incomplete_packets_are_not_taken<M: Memory, R: Ring>() {
    each::<M, R>(few::<R>(), |rig| {
        assert!(rig.chain(&[64; CHAIN_MAX + 1]));
        assert_eq!(rig.transmit(), 0, "nine segments");
        rig.apply(&Op::Drop);
        assert!(rig.chain(&[64; CHAIN_MAX]));
        assert_eq!(rig.transmit(), CHAIN_MAX, "eight are a packet");
        let mut burst = Burst::new();
        assert_eq!(rig.host.alloc(64, 2, &mut burst), 2);
        burst.iter_mut().for_each(|buf| buf.set_more(true));
        assert_eq!((rig.host.tx_burst(&mut burst), burst.len()), (0, 2), "a packet without an end");
        burst.iter_mut().for_each(|buf| buf.set_more(false));
        rig.host.free(&mut burst);
        assert_eq!(rig.host.tx_burst(&mut burst), 0, "an empty burst");
        assert_eq!(rig.host.rx_burst(&mut burst, 0), 0, "no place to receive to");
    });
}

/// Is a single packet delivered in one poll, though its group is not full?
pub fn a_single_packet_is_delivered_at_once<M: Memory, R: Ring>() {
    each::<M, R>(few::<R>(), |rig| {
        for i in 0..200 {
            let n = 1 + i % 5;
            let before = rig.oracle.received;
            assert_eq!((rig.alloc(64, n), rig.transmit()), (n, n));
            // An idle consumer may take one line per poll.
            assert_eq!((0..n).map(|_| rig.poll()).sum::<usize>(), n);
            let back = rig.oracle.outstanding();
            let mut got = 0;
            for _ in 0..n {
                got += rig.receive(Burst::CAPACITY);
            }
            assert_eq!((got, rig.oracle.received), (back, before + back as u64));
            rig.free(n);
            (0..i % 20).for_each(|_| assert_eq!(rig.receive(8) + rig.poll(), 0));
        }
    });
}

/// Is an armed program notified of packets, at every position, once for each request, and by a successor if
/// its predecessor has not done so?
pub fn an_armed_program_is_notified_once<M: Memory, R: Ring>() {
    each::<M, R>(few::<R>(), |rig| {
        for i in 0..300usize {
            assert!(rig.host.arm() && !rig.host.rx_waits(), "nothing is there");
            assert_eq!(rig.nic.needs_notification(), None, "nothing has come");
            let n = 1 + i % 5;
            assert_eq!((rig.alloc(64, n), rig.transmit()), (n, n));
            // An idle consumer may take one line per poll.
            assert_eq!((0..n).map(|_| rig.poll()).sum::<usize>(), n);
            if i % 7 == 3 {
                rig.handover();
            }
            if rig.oracle.outstanding() == 0 {
                assert_eq!(rig.nic.needs_notification(), None, "nothing comes back");
                continue;
            }
            let Some(armed) = rig.nic.needs_notification() else {
                panic!("{n} packets do not notify the program")
            };
            assert_eq!(rig.nic.needs_notification(), Some(armed), "not notified yet");
            rig.nic.notified(armed);
            assert_eq!(rig.nic.needs_notification(), None, "notified twice");
            // It cannot be armed while packets can be received: in the ring, or fetched ahead from it.
            for max in 1..=n {
                assert!(rig.host.rx_waits() && !rig.host.arm(), "armed over packet {max} of {n}");
                assert_eq!((rig.nic.needs_notification(), rig.receive(1)), (None, 1));
            }
            rig.free(n);
        }
        rig.host.disarm();
    });
}

/// Does a NIC that takes over from one that retired keep order and buffers?
pub fn a_successor_continues<M: Memory, R: Ring>() {
    each::<M, R>(configs::<R>(), |rig| {
        for i in 0..60usize {
            rig.alloc(if i % 3 == 0 { 2000 } else { 90 }, i % 11);
            rig.chain(&[100, 200, 300, 40, 50][..1 + i % 5]);
            rig.transmit();
            rig.poll();
            rig.handover();
            rig.receive(i % 17);
            rig.free(usize::MAX);
            if i % 5 == 0 {
                rig.poll();
            }
        }
    });
}

/// Does a NIC that dies between two bursts lose only the packets that it had fetched, and no buffer?
pub fn a_dead_nic_loses_only_what_it_held<M: Memory, R: Ring>() {
    each::<M, R>(configs::<R>(), |rig| {
        for i in 0..80usize {
            rig.alloc(if i % 3 == 0 { 2000 } else { 90 }, i % 23);
            rig.chain(&[100, 200, 300, 40, 50][..1 + i % 5]);
            rig.transmit();
            rig.poll();
            if i % 7 == 0 {
                rig.crash();
                assert_eq!(rig.reclaim(), 0, "all that was lost has been found");
            }
            rig.receive(i % 31);
            rig.free(usize::MAX);
        }
        rig.settle(false);
    });
}

/// Can a program go on sending when the NIC returns no packet?
pub fn sending_continues_without_received_packets<M: Memory, R: Ring>() {
    for config in configs::<R>() {
        let mut rig = Rig::<M, R>::new(&config, Wire::Sink);
        let packets = config.buffers * 3;
        let mut sent = 0;
        let mut turns = 0;
        while sent < packets {
            rig.alloc(1500, 20);
            sent += rig.transmit() as u32;
            rig.poll();
            turns += 1;
            assert!(turns < packets, "{config:?}: no buffer after {sent} packets");
        }
        rig.finish(false);
    }
}

/// With the fewest buffers, does traffic continue in both directions, although the magazines keep some?
pub fn a_small_pool_sustains_traffic<M: Memory, R: Ring>() {
    for config in configs::<R>() {
        for &wire in wires(&config) {
            let mut rig = Rig::<M, R>::new(&Config { buffers: 64, ..config }, wire);
            for round in 0..200 {
                let n = rig.alloc(1500, 1 + round % 8);
                assert!(n > 0, "{config:?}, {wire:?}: no buffer in round {round}");
                rig.settle(false);
            }
            rig.finish(false);
        }
    }
}

/// With the smallest ring and a host-managed pool, does the host post enough for a packet of several buffers?
pub fn a_small_ring_has_enough_posted_buffers<M: Memory, R: Ring>() {
    for config in few::<R>().into_iter().filter(|c| !c.shared_pool) {
        let mut rig = Rig::<M, R>::new(&Config { ring: 64, ..config }, Wire::Loopback);
        for _ in 0..100 {
            assert_eq!(rig.alloc(9000, 1), 1);
            rig.settle(false);
        }
        rig.finish(false);
    }
}

/// Does a queue pair that is dropped return its buffers, also those received and not yet handed to the
/// program?
pub fn a_dropped_queue_pair_returns_its_buffers<M: Memory, R: Ring>() {
    // (With the host-managed pool only the queue pair itself knows what the NIC has not completed yet.)
    let configs = configs::<R>().into_iter().filter(|c| c.shared_pool).collect();
    each::<M, R>(configs, |rig| {
        for i in 0..40 {
            rig.alloc(700, 9);
            rig.transmit();
            rig.poll();
            rig.receive(1 + i % 9);
            rig.free(usize::MAX);
            rig.renew_host();
            rig.settle(false);
        }
    });
}
