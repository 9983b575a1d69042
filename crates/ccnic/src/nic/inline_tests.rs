//! Tests of the NIC with inline packets: what it holds while it copies, what it keeps, what it drops.

extern crate std;

use crate::buf::Burst;
use crate::config::Config;
use crate::desc::{Desc, FLAG_INLINE, FLAG_MORE, SIGNAL_SHIFT};
use crate::layout::LARGE_BUF;
use crate::memory::{LINE, SharedMemory};
use crate::ring::{GroupedEpoch, Producer, Ring};
use crate::testing::{Sides, config};
use std::vec::Vec;

/// The program sends `n` packets of a line, with the numbers from `first` on; returns how many went.
fn send(sides: &mut Sides, first: u8, n: usize) -> usize {
    sides.host.tx_fill(64, n, &mut Burst::new(), |i, bytes| {
        bytes.fill(first + i as u8);
        0
    })
}

#[test]
fn what_is_fetched_is_not_overwritten_before_it_is_completed() {
    let mut sides = Sides::<GroupedEpoch>::new(&config::<GroupedEpoch>());
    assert_eq!(send(&mut sides, 0, 99), 64, "all of the ring");
    let (first, ahead) = (sides.fetch(), sides.fetch());
    sides.nic.flush();
    assert_eq!((first.rest().len(), ahead.rest().len(), send(&mut sides, 99, 1)), (32, 32, 0));
    sides.nic.complete(first.rest());
    assert_eq!(send(&mut sides, 99, 1), 0, "not flushed");
    sides.nic.flush();
    assert_eq!(send(&mut sides, 100, 99), 32, "the units of the first burst");
    for (desc, i) in ahead.rest().iter().zip(32..) {
        sides.mem.with(desc.offset(), 64, |bytes| assert_eq!(bytes, [i; 64]));
    }
}

#[test]
fn reflected_inline_packets_are_copied_and_keep_their_place() {
    let mut sides = Sides::<GroupedEpoch>::new(&config::<GroupedEpoch>());
    assert_eq!((send(&mut sides, 0, 2), sides.send(1500, 1, 2), send(&mut sides, 3, 2)), (2, 1, 2));
    let fetched = sides.fetch();
    assert_eq!(sides.nic.reflect(fetched.rest()), 5);
    sides.nic.flush();
    for desc in fetched.rest().iter().filter(|desc| desc.inline()) {
        sides.mem.with_mut(desc.offset(), 64, |bytes| bytes.fill(99)); // by the program, whose they are again
    }
    let mut seen = Vec::new();
    assert_eq!(sides.receive(9, |len, byte| seen.push((len, byte))), 5);
    assert_eq!(seen, [64, 64, 1500, 64, 64].into_iter().zip((0..5).map(Some)).collect::<Vec<_>>());
    assert_eq!((sides.nic.counters().rx_packets, sides.nic.open), (5, 0));
}

#[test]
fn a_nic_that_keeps_packets_waits_for_buffers() {
    let mut sides = Sides::<GroupedEpoch>::new(&Config { buffers: 16, ..config::<GroupedEpoch>() });
    let mut held = Burst::new();
    assert_eq!((sides.host.alloc(LARGE_BUF as u16, 64, &mut held), send(&mut sides, 0, 3)), (15, 3));
    let mut fetched = sides.fetch();
    assert_eq!((sides.nic.copy_to_pool(&mut fetched), fetched.rest().len()), (0, 3), "the pool is dry");
    assert!(fetched.rest().iter().all(|desc| desc.inline()), "they lie where they were");
    sides.host.free(&mut held);
    sides.host.retire();
    assert_eq!(sides.nic.copy_to_pool(&mut fetched), 3);
    for (desc, i) in fetched.rest().iter().zip(0..) {
        assert!(sides.nic.names_buffer(*desc));
        sides.mem.with(desc.offset(), desc.len().into(), |bytes| assert_eq!(bytes, [i; 64]));
    }
}

#[test]
fn units_are_handed_back_once_when_a_chain_without_an_end_is_dropped() {
    let mut sides = Sides::<GroupedEpoch>::new(&config::<GroupedEpoch>());
    let tx = sides.layout.queue(0).unwrap().tx;
    assert_eq!(send(&mut sides, 0, 32), 32);
    let fetched = sides.fetch();
    sides.nic.complete(fetched.rest()); // and no flush
    // A hostile program publishes a unit for each of the chain's segments.
    let mut hostile = <GroupedEpoch as Ring>::Producer::resume(&sides.mem, &tx);
    for unit in 8..16 {
        let desc = Desc::new(tx.areas + unit * crate::layout::AREA, 64, FLAG_INLINE | FLAG_MORE);
        assert_eq!(hostile.push(&sides.mem, &[desc.with_more(false)]), 1);
        let at = tx.units + unit * LINE;
        let signal = sides.mem.load(at) & 0xff << SIGNAL_SHIFT;
        sides.mem.store(at, desc.word() | signal);
    }
    assert_eq!(sides.fetch().rest().len(), 0);
    sides.nic.flush();
    assert_eq!(sides.mem.load(tx.head), 16, "all of them");
    assert_eq!((hostile.room(&sides.mem, 99), sides.nic.counters().bad_chain), (64, 8));
}
