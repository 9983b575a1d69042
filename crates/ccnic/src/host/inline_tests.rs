//! Tests of the host with inline packets: in the ring, in its stages, with a dry pool, after the NIC has died.

extern crate std;

use crate::buf::{Buf, Burst};
use crate::config::Config;
use crate::desc::{Desc, FLAG_INLINE};
use crate::host::small::NotSmall;
use crate::host::{HostDrops, Pool};
use crate::layout::{LARGE_BUF, SMALL_BUF};
use crate::nic::{NicQueue, Pipeline};
use crate::pool::Allocator;
use crate::recovery::Inventory;
use crate::ring::{GroupedEpoch, Producer, Ring};
use crate::testing::{self, Sides, config};
use std::vec;
use std::vec::Vec;

/// The NIC delivers packets of a line with the numbers from `first` on; returns how many.
fn deliver(sides: &mut Sides, first: u8, n: u8) -> usize {
    let done =
        (first..first + n).take_while(|i| sides.nic.deliver_bytes(&[&[*i; 64]], u64::from(*i))).count();
    sides.nic.flush();
    done
}

/// Reads at most `max` packets in place; their numbers.
fn read(sides: &mut Sides, max: usize) -> Vec<u64> {
    let mut seen = Vec::new();
    let n = sides.host.rx_small(max, |_, bytes, meta| {
        assert_eq!(bytes, [meta as u8; 64]);
        seen.push(meta);
    });
    assert_eq!(n, Ok(seen.len()));
    seen
}

#[test]
fn no_packet_that_is_lent_is_longer_than_a_small_buffer() {
    for mixed in [false, true] {
        let mut sides = Sides::<GroupedEpoch>::new(&config::<GroupedEpoch>());
        let rx = sides.layout.queue(0).unwrap().rx;
        let mut nic = <GroupedEpoch as Ring>::Producer::resume(&sides.mem, &rx);
        let inline = |len| Desc::new(rx.areas, len, FLAG_INLINE);
        let last = if mixed { Desc::new(sides.layout.pool().buffers, 64, 0) } else { inline(64) };
        assert_eq!(nic.push(&sides.mem, &[inline(128), inline(129), inline(448), last]), 4);
        assert_eq!(sides.host.rx_small(1, |_, bytes, _| assert!(bytes.len() == SMALL_BUF as usize)), Ok(1));
        assert_eq!(sides.host.rx_small(9, |_, _, _| ()), Err(NotSmall), "129 bytes, mixed: {mixed}");
        let mut lens = Vec::new();
        assert_eq!(sides.receive(9, |len, _| lens.push(len)), 3);
        assert_eq!(lens, [129, 448, 64]);
    }
}

#[test]
fn inline_packets_wait_in_the_ring_while_the_pool_is_dry() {
    let mut sides = Sides::<GroupedEpoch>::new(&Config { buffers: 16, ..config::<GroupedEpoch>() });
    let (mut held, mut burst) = (Burst::new(), Burst::new());
    assert_eq!(sides.host.alloc(LARGE_BUF as u16, 64, &mut held), 15, "one is spare");
    assert_eq!(deliver(&mut sides, 0, 7), 7);
    assert_eq!(sides.host.rx_burst(&mut burst, 32), 1, "for the first");
    (0..3).for_each(|_| assert_eq!(sides.host.rx_burst(&mut burst, 32), 0));
    assert_eq!(sides.host.rx_ready(), 6, "they wait");
    assert_eq!(read(&mut sides, 2), [1, 2], "a reader in place needs no buffer");
    sides.host.free(&mut held);
    sides.host.free(&mut burst);
    assert_eq!(sides.host.rx_burst(&mut burst, 32), 4);
    for (buf, i) in burst.as_slice().iter().zip(3..) {
        assert_eq!((buf.meta(), buf.desc().inline()), (i, false));
        sides.host.with(buf, |bytes| assert_eq!(bytes, [i as u8; 64]));
    }
    sides.host.free(&mut burst);
}

/// Found by the random scripts of the conformance suite: with nothing but the pool the first packet waited for a buffer, and all
/// buffers stood in the ring behind it.
#[test]
fn an_inline_packet_before_all_buffers_of_the_pool_is_received() {
    let mut sides = Sides::<GroupedEpoch>::new(&Config { buffers: 16, ..config::<GroupedEpoch>() });
    let mut burst = Burst::new();
    for round in 0..20 {
        let (short, long) = (sides.send(64, 2, 1), sides.send(2000, 99, 2));
        assert!(
            short == 2 && long >= 14,
            "{round}: {long}, all but the spare one and one that short ones lie in"
        );
        let fetched = sides.fetch();
        assert_eq!(sides.nic.reflect(fetched.rest()), short + long);
        sides.nic.flush();
        let mut lens = Vec::new();
        while sides.host.rx_burst(&mut burst, 32) > 0 {
            lens.extend(burst.as_slice().iter().map(Buf::len));
            sides.host.free(&mut burst);
        }
        assert!(lens.iter().eq([64; 2].iter().chain(&vec![2000; long])), "{round}: {lens:?}");
    }
}

/// Two inline packets and behind them all buffers of a pool of 16 but the spare one, in the receive ring.
fn fill_the_ring_behind_two_inline_packets(sides: &mut Sides) {
    let bytes = [1; 64];
    assert_eq!(sides.host.tx_small(64, [(&bytes[..], 0); 2].into_iter(), &mut Burst::new()), 2);
    assert_eq!(sides.send(2000, 99, 2), 15);
    let fetched = sides.fetch();
    assert_eq!(sides.nic.reflect(fetched.rest()), 17);
    sides.nic.flush();
}

/// Found by the fuzz target `recovery`: a queue pair that was opened while the other one had the last buffer had no spare, and waited for
/// ever for those in its own ring.
#[test]
fn a_queue_without_a_spare_buffer_makes_way_for_the_buffers_behind_an_inline_packet() {
    let mut sides =
        Sides::<GroupedEpoch>::new(&Config { queues: 2, buffers: 16, ..config::<GroupedEpoch>() });
    fill_the_ring_behind_two_inline_packets(&mut sides);
    sides.host.retire();
    let mut other = testing::pair::<_, GroupedEpoch>(sides.mem.clone(), &sides.layout, 1).unwrap();
    sides.host = testing::pair(sides.mem.clone(), &sides.layout, 0).unwrap();
    assert_eq!(other.alloc(64, 1, &mut Burst::new()), 0, "it has the last one as its spare");
    let mut lens = Vec::new();
    for _ in 0..9 {
        sides.receive(32, |len, _| lens.push(len));
    }
    assert_eq!((lens, sides.host.drops().no_buffer), (vec![2000; 15], 2));
    // It has a spare again.
    assert_eq!((deliver(&mut sides, 0, 7), sides.receive(32, |_, _| ())), (7, 7));
    assert_eq!(sides.host.drops(), HostDrops { no_buffer: 2, ..HostDrops::default() });
}

/// What is freed elsewhere does not become the spare buffer again.
#[test]
fn a_queue_whose_spare_buffer_is_kept_by_a_pool_handle_makes_way() {
    let mut sides = Sides::<GroupedEpoch>::new(&Config { buffers: 16, ..config::<GroupedEpoch>() });
    let (mut handle, mut burst) = (Pool::new(sides.mem.clone(), &sides.layout), Burst::new());
    fill_the_ring_behind_two_inline_packets(&mut sides);
    assert_eq!(sides.host.rx_burst(&mut burst, 1), 1, "in the spare one");
    let descs: Vec<_> = burst.disown().collect();
    assert_eq!(handle.free(descs.into_iter(), &mut burst, ()), 1);
    let mut received = 0;
    for _ in 0..9 {
        received += sides.receive(32, |_, _| ());
    }
    assert_eq!((received, sides.host.drops().no_buffer), (15, 1));
}

#[test]
fn retire_returns_buffers_and_units_with_inline_packets_in_the_stages() {
    let mut sides = Sides::<GroupedEpoch>::new(&config::<GroupedEpoch>());
    for _ in 0..20 {
        assert_eq!(deliver(&mut sides, 0, 40), 40, "no unit is lost");
        assert_eq!(read(&mut sides, 1), [0]);
        sides.host.retire();
        assert_eq!(sides.host.rx_ready(), 0, "all of them were in the stages");
    }
    sides.nic.retire();
    sides.host.retire();
    let (mut bytes, pool) = (0, sides.layout.pool());
    Allocator::walk(&sides.mem, &sides.layout, |_, class| bytes += class.size());
    assert_eq!(bytes, pool.end - pool.buffers);
}

#[test]
fn a_successor_of_a_dead_nic_spares_the_inline_packets_in_the_stages() {
    let mut sides = Sides::<GroupedEpoch>::new(&config::<GroupedEpoch>());
    let bytes = [9; 64];
    let sent = sides.host.tx_small(64, [(&bytes[..], 0); 5].into_iter(), &mut Burst::new());
    assert_eq!((sent, deliver(&mut sides, 0, 48)), (5, 48));
    assert_eq!(read(&mut sides, 3), [0, 1, 2], "29 more are in a stage, 16 in the ring");
    let mut inventory = Inventory::new(&sides.mem, &sides.layout);
    inventory.count_pair(&sides.host);
    inventory.repair_rings(&mut sides.host);
    inventory.reclaim();
    sides.nic = NicQueue::new(sides.mem.clone(), &sides.layout, 0).unwrap();
    sides.pipeline = Pipeline::default();
    // As many as there is room for beside those that the host has not read.
    assert_eq!(deliver(&mut sides, 48, 64), 16);
    let mut next = 3;
    while let seen @ [_, ..] = &*read(&mut sides, 7) {
        assert!(seen.iter().copied().eq(next..next + seen.len() as u64), "{seen:?}");
        next += seen.len() as u64;
    }
    assert_eq!(next, 64, "every one, once");
    assert_eq!(sides.poll(), 5, "what the program had sent is delivered");
}
