//! Tests of the receive path.

extern crate std;
use super::*;
use crate::desc::FLAG_MORE;
use crate::host::HostDrops;
use crate::layout::LARGE_BUF;
use crate::ring::{GroupedClear, GroupedEpoch, Packed, Padded, Producer, Ring};
use crate::testing::{Sides, config, rounds};
use std::vec::Vec;

/// A host and its NIC, a broken one, which publishes descriptors as it pleases.
fn broken<R: Ring>(config: &Config) -> (Sides<R>, R::Producer, u32) {
    let sides = Sides::<R>::new(config);
    let nic = R::Producer::resume(&sides.mem, &sides.layout.queue(0).unwrap().rx);
    let pool = sides.layout.pool().buffers;
    (sides, nic, pool)
}

/// Receives everything; the numbers of segments of the packets.
fn segments<R: Ring>(sides: &mut Sides<R>, max: usize) -> Vec<usize> {
    let (mut packets, mut run) = (Vec::new(), 0);
    for _ in 0..100 {
        let mut burst = Burst::new();
        sides.host.rx_burst(&mut burst, max);
        for buf in burst.as_slice() {
            run += 1;
            if !buf.more() {
                packets.push(core::mem::take(&mut run));
            }
        }
        sides.host.free(&mut burst);
    }
    assert_eq!((run, sides.host.rx_ready()), (0, 0), "nothing stays");
    packets
}

/// A chain of `n` segments of 64 bytes in large buffers from the `first` on.
fn chain(pool: u32, first: u32, n: u32) -> Vec<Desc> {
    let segment = |i| Desc::new(pool + (first + i) * LARGE_BUF, 64, 0).with_more(i + 1 < n);
    (0..n).map(segment).collect()
}

#[test]
fn descriptors_that_name_no_buffer_are_dropped() {
    let (mut sides, mut nic, pool) = broken::<GroupedEpoch>(&config::<GroupedEpoch>());
    let one = |at: u32, len| Desc::new(at, len, 0);
    let descs =
        [one(pool, 1), one(0, 2), one(pool + LARGE_BUF - 1, 3), one(pool, 0), one(pool + LARGE_BUF, 4)];
    assert_eq!(nic.push(&sides.mem, &descs), 5);
    let mut burst = Burst::new();
    assert_eq!(sides.host.rx_burst(&mut burst, 32), 2);
    assert!(burst.as_slice().iter().map(Buf::len).eq([1, 4]));
    assert_eq!(sides.host.drops(), HostDrops { bad_descriptor: 3, ..HostDrops::default() });
    sides.host.free(&mut burst);
}

#[test]
fn a_packet_with_a_bad_segment_is_dropped_as_a_whole_and_its_buffers_are_free() {
    for max in [32, 8, 1] {
        let (mut sides, mut nic, pool) = broken::<GroupedEpoch>(&config::<GroupedEpoch>());
        for first in [0, 8] {
            let mut descs = chain(pool, first, 8);
            descs[7] = Desc::new(0, 64, 0);
            assert_eq!(nic.push(&sides.mem, &descs), 8);
        }
        assert_eq!(nic.push(&sides.mem, &chain(pool, 16, 8)), 8);
        let free = |sides: &Sides| {
            let mut n = sides.host.pool().kept();
            Allocator::walk(&sides.mem, &sides.layout, |_, _| n += 1);
            n
        };
        let before = free(&sides);
        assert_eq!(segments(&mut sides, max), [8]);
        assert_eq!(sides.host.drops(), HostDrops { bad_descriptor: 2, ..HostDrops::default() });
        assert_eq!(free(&sides) - before, 14 + 8, "those that exist");
    }
}

#[test]
fn a_packet_longer_than_the_mtu_is_dropped() {
    let limited = |mtu| Config { mtu, ..config::<GroupedEpoch>() };
    for (mtu, packets) in [(600, &[1][..]), (512, &[8, 1]), (64, &[1])] {
        let (mut sides, mut nic, pool) = broken::<GroupedEpoch>(&limited(mtu));
        let most = chain(pool, 0, 8);
        let longer = Desc::new(pool, mtu + 1, 0);
        let descs = if mtu == 600 { [longer; 8].to_vec() } else { most };
        assert_eq!(nic.push(&sides.mem, &descs), 8);
        assert_eq!(nic.push(&sides.mem, &[Desc::new(pool, 64, crate::desc::FLAG_SMALL)]), 1);
        assert_eq!(segments(&mut sides, 32), packets, "mtu {mtu}");
        let too_long = [(600, 8), (512, 0), (64, 1)].into_iter().find(|of| of.0 == mtu).unwrap().1;
        assert_eq!(sides.host.drops(), HostDrops { too_long, ..HostDrops::default() });
    }
}

/// Publishes one descriptor a group, as no honest NIC does: `push` would refuse a chain without an end.
fn publish_each<R: Ring>(sides: &Sides<R>, nic: &mut R::Producer, descs: &[Desc]) {
    for desc in descs {
        let at = nic.position();
        assert_eq!(nic.push(&sides.mem, &[desc.with_more(false)]), 1);
        let ring = sides.layout.queue(0).unwrap().rx;
        let slot = ring.units + at as u32 % ring.count * R::DESIGN.unit();
        let word = sides.mem.load(slot) & (0xff << crate::desc::SIGNAL_SHIFT);
        sides.mem.store(slot, word | desc.word());
    }
}

fn endless_chains_end<R: Ring>() {
    for (max, segments_sent) in [(32, 9), (8, 22), (32, 40), (8, 33), (1, 8)] {
        let (mut sides, mut nic, pool) = broken::<R>(&Config { ring: 256, ..config::<R>() });
        publish_each(&sides, &mut nic, &chain(pool, 0, segments_sent));
        let chains = segments(&mut sides, max);
        let dropped = if segments_sent > 8 { u64::from(segments_sent) } else { 0 };
        assert_eq!(chains.len(), usize::from(segments_sent <= 8));
        assert_eq!(sides.host.drops(), HostDrops { bad_chain: dropped, ..HostDrops::default() });
        for _ in 0..rounds(1000, 20) {
            assert_eq!(nic.push(&sides.mem, &[Desc::new(pool, 64, 0)]), 1, "{:?}", R::DESIGN);
            assert_eq!(sides.receive(max, |_, _| ()), 1, "the queue goes on");
        }
    }
}

#[test]
fn a_chain_without_an_end_does_not_stop_the_queue() {
    endless_chains_end::<GroupedEpoch>();
    endless_chains_end::<GroupedClear>();
    endless_chains_end::<Packed>();
    endless_chains_end::<Padded>();
}

#[test]
fn half_a_chain_waits_for_the_other_half() {
    let (mut sides, mut nic, pool) = broken::<GroupedClear>(&config::<GroupedClear>());
    let descs = chain(pool, 0, 7);
    publish_each(&sides, &mut nic, &descs[..5]);
    (0..40).for_each(|_| assert_eq!(sides.receive(32, |_, _| ()), 0));
    publish_each(&sides, &mut nic, &descs[5..]);
    assert_eq!(sides.receive(32, |_, _| ()), 7);
}

#[test]
fn a_prefix_of_whole_packets_or_of_small_ones() {
    let small = Desc::new(0, 1, crate::desc::FLAG_SMALL);
    let (large, more) = (Desc::new(0, 1, 0), Desc::new(0, 1, FLAG_MORE));
    let ends = |descs: &[Desc], limit| whole(descs, limit, 3);
    assert_eq!([0, 1, 2, 3, 9].map(|limit| ends(&[large, more, large, more], limit)), [0, 1, 1, 3, 3]);
    assert_eq!([0, 1, 2, 3].map(|limit| ends(&[more, more, large, large], limit)), [0, 3, 3, 3]);
    assert_eq!(ends(&[more, more, more, large], 1), 0, "no space for the first");
    let long = Desc::new(0, 129, 0);
    let fitting = |descs: &[Desc]| one_by_one(descs, 128).len();
    assert_eq!(fitting(&[small, large, long, small]), 2);
    assert_eq!(fitting(&[small.with_more(true), small]), 0);
}

#[test]
fn full_bursts_are_taken_ahead_and_counted() {
    let mut sides = Sides::<GroupedEpoch>::new(&config::<GroupedEpoch>());
    for byte in [1, 2] {
        assert_eq!((sides.send(64, 32, byte), sides.poll()), (32, 32));
    }
    let mut first = None;
    assert_eq!(sides.receive(1, |_, byte| first = byte), 1);
    assert_eq!((first, sides.host.rx.staged(), sides.host.rx.backlog()), (Some(1), 63, true));
    assert_eq!((sides.host.rx.taken(), sides.host.rx.taken()), (64, 0));
    let mut bytes = [0u32; 3];
    while sides.receive(8, |_, byte| bytes[usize::from(byte.unwrap())] += 1) > 0 {}
    assert_eq!((bytes, sides.host.rx.staged()), ([0, 31, 32], 0));
    assert_eq!((sides.host.rx.empty_polls(), sides.host.rx.empty_polls()), (1, 0));
}
