//! Tests of kept buffers: both sides on one thread.

extern crate std;

use std::vec::Vec;

use super::*;
use crate::config::Config;
use crate::layout::LARGE_BUF;
use crate::nic::{NicQueue, OtherCores, Pipeline, spread_across};
use crate::pool::Allocator;
use crate::recovery::Inventory;
use crate::ring::{Doorbell, GroupedClear, GroupedEpoch, Packed, Padded};
use crate::rss::{Rss, Spreader};
use crate::testing::{Sides, config, rounds};

/// A kept buffer of `len` bytes, all `byte`.
fn kept<R: Ring>(sides: &mut Sides<R>, len: u16, byte: u8) -> KeptBuf {
    let mut burst = Burst::new();
    assert_eq!(sides.host.alloc(len, 1, &mut burst), 1);
    let mut kept = sides.host.keep(burst.pop().unwrap());
    sides.host.with_kept_mut(&mut kept, |bytes| bytes.fill(byte)).unwrap();
    kept
}

fn headers<R: Ring>(sides: &mut Sides<R>, len: u16, n: usize) -> Burst {
    let mut burst = Burst::new();
    assert_eq!(sides.host.alloc(len, n, &mut burst), n);
    burst.iter_mut().for_each(|buf| sides.host.with_mut(buf, |bytes| bytes.fill(1)));
    burst
}

/// Receives everything; returns of each packet its length and its last byte.
fn received<R: Ring>(sides: &mut Sides<R>) -> Vec<(u32, u8)> {
    let (mut burst, mut got, mut len) = (Burst::new(), Vec::new(), 0);
    while sides.host.rx_burst(&mut burst, 32) > 0 {
        for buf in burst.as_slice() {
            assert!(!buf.desc().borrowed());
            len += u32::from(buf.len());
            if !buf.more() {
                got.push((len, sides.host.with(buf, |bytes| *bytes.last().unwrap())));
                len = 0;
            }
        }
        sides.host.free(&mut burst);
    }
    got
}

fn poll<R: Ring>(sides: &mut Sides<R>, reflect: bool) {
    let (mut idle, mem) = (0, sides.mem.clone());
    while idle < 2 {
        let n = crate::nic::loopback(&mut sides.nic, &mut sides.pipeline, &mem, reflect);
        idle = if n == 0 { idle + 1 } else { 0 };
    }
}

/// Both kinds of pool, with and without areas.
fn each_kind(test: impl Fn(&dyn Fn(Config) -> Config)) {
    for (shared, inline) in [(true, true), (true, false), (false, true)] {
        test(&|config| Config { shared_pool: shared && config.shared_pool, inline, ..config });
    }
}

/// Values of many lengths, each sent several times at once, arrive as they were; the values stay the program's.
fn values_arrive<R: Ring>(change: &dyn Fn(Config) -> Config, reflect: bool) {
    let config = change(Config { mtu: 9600, buffers: 128, ..config::<R>() });
    let reflect = reflect && config.shared_pool;
    let mut sides = Sides::<R>::new(&config);
    let lens = [1, 40, 64, 128, 129, 500, 1500, 4096];
    let values: Vec<_> = (10u8..).zip(lens).map(|(byte, len)| kept(&mut sides, len, byte)).collect();
    for round in 0..rounds(40, 2) {
        let value = |i: usize| &values[(i + round) % values.len()];
        let mut burst = headers(&mut sides, 54, 6);
        let parts = (0..6).map(|i| if i == 4 { Vec::new() } else { std::vec![value(i).whole(); 1 + i % 2] });
        assert_eq!(sides.host.tx_kept(&mut burst, parts), 6, "{:?}", R::DESIGN);
        assert!(burst.is_empty() && !sides.host.is_released(value(0)));
        poll(&mut sides, reflect);
        let expected = |i: usize| match i {
            4 => (54, 1),
            i => (54 + (1 + i as u32 % 2) * u32::from(value(i).len()), 10 + ((i + round) % lens.len()) as u8),
        };
        let got = received(&mut sides);
        let expected: Vec<_> = (0..6).map(expected).collect();
        assert_eq!(got, expected, "{:?}, round {round}", R::DESIGN);
        assert!(values.iter().all(|value| sides.host.is_released(value)), "{:?}: at once", R::DESIGN);
    }
    assert_eq!(sides.nic.counters().bad_descriptor, 0);
    for value in values {
        assert!(sides.host.free_kept(value).is_ok());
    }
    assert!(sides.host.leaving.is_empty());
    // Every buffer can be had again, by one side or the other.
    sides.nic.retire();
    let all = sides.layout.config().buffers as usize;
    let (mut burst, mut held) = (Burst::new(), Vec::new());
    while sides.host.alloc(4096, 64, &mut burst) > 0 {
        held.extend(burst.disown());
    }
    assert!(held.len() >= all / 4, "{}", held.len());
    let mut offsets: Vec<_> = held.iter().map(|desc| desc.offset() / 4096).collect();
    offsets.sort_unstable();
    offsets.dedup();
    assert_eq!(offsets.len(), held.len(), "none twice");
    for chunk in held.chunks(64) {
        sides.host.free_descs(chunk.iter().copied(), &mut burst, ());
    }
}

#[test]
fn values_are_sent_and_stay_the_programs() {
    each_kind(|change| {
        for reflect in [false, true] {
            values_arrive::<GroupedEpoch>(change, reflect);
            values_arrive::<GroupedClear>(change, reflect);
            values_arrive::<Packed>(change, reflect);
            values_arrive::<Padded>(change, reflect);
            values_arrive::<Doorbell>(change, reflect);
        }
    });
}

#[test]
fn packets_that_cannot_be_sent_stay_with_their_headers() {
    let mut sides = Sides::<GroupedEpoch>::new(&config::<GroupedEpoch>());
    let value = kept(&mut sides, 100, 3);
    let good = std::vec![value.whole(); CHAIN_MAX - 1];
    for bad in [std::vec![value.part(5..5).unwrap()], std::vec![value.whole(); CHAIN_MAX]] {
        let mut burst = headers(&mut sides, 20, 3);
        assert_eq!(sides.host.tx_kept(&mut burst, [&good, &bad, &good].map(|p| p.iter().copied())), 1);
        assert!(burst.len() == 2 && burst.as_slice().iter().all(|buf| !buf.more()));
        assert_eq!(sides.host.tx_kept(&mut burst, [[value.whole()]; 2]), 2, "again, with other parts");
        poll(&mut sides, false);
        assert_eq!(received(&mut sides), [(720, 3), (120, 3), (120, 3)]);
    }
    assert!(value.part(50..101).is_none());
    assert!(sides.host.free_kept(value).is_ok());
}

/// A ring takes what there is room for, and a later call the rest, also as copies for a NIC that does not know kept segments.
#[test]
fn a_full_ring_takes_the_rest_later() {
    for knows in [true, false] {
        let mut sides = Sides::<Packed>::new(&config::<Packed>());
        sides.host.set_knows_kept(knows);
        let value = kept(&mut sides, 2000, 9);
        let mut burst = headers(&mut sides, 20, 50);
        let (mut sent, mut got) = (0, 0);
        for _ in 0..50 {
            let parts: Vec<_> = (0..burst.len()).map(|_| Some(value.whole())).collect();
            let n = sides.host.tx_kept(&mut burst, parts);
            assert!(sent > 0 || n == 32 || !knows, "the ring has 64 descriptors");
            sent += n;
            assert_eq!(sides.host.is_released(&value), !knows || n == 0 && got == sent);
            poll(&mut sides, false);
            let packets = received(&mut sides);
            assert!(packets.iter().all(|packet| *packet == (2020, 9)));
            got += packets.len();
        }
        assert_eq!((sent, got), (50, 50));
        assert!(sides.host.free_kept(value).is_ok() && sides.host.leaving.is_empty());
    }
}

/// What is freed while it is under way is allocated again when it has been released, and not before.
#[test]
fn what_is_under_way_is_freed_later() {
    let mut sides = Sides::<GroupedEpoch>::new(&Config { buffers: 16, ..config::<GroupedEpoch>() });
    let values: Vec<_> = (0..10).map(|byte| kept(&mut sides, 4096, byte)).collect();
    let mut burst = headers(&mut sides, 20, 10);
    assert_eq!(sides.host.tx_kept(&mut burst, values.iter().map(|value| [value.whole()])), 10);
    for value in values {
        assert!(sides.host.free_kept(value).is_ok());
    }
    assert_eq!(sides.host.leaving.len(), 10);
    let fetched: Vec<_> = (0..3).map(|_| sides.fetch()).collect();
    assert_eq!(fetched.iter().map(|fetched| fetched.rest().len()).sum::<usize>(), 20);
    assert!(sides.host.alloc(4096, 16, &mut burst) < 6, "the NIC reads ten");
    fetched.iter().for_each(|fetched| sides.nic.complete(fetched.rest()));
    sides.nic.flush();
    assert!(sides.host.alloc(4096, 64, &mut burst) >= 10);
    assert!(sides.host.leaving.is_empty());
    sides.host.free(&mut burst);
}

/// Only the NIC's mark for bursts with kept segments is there at once: others are handed back as ever.
#[test]
fn a_mark_is_reached_at_once_after_kept_segments() {
    let mut sides = Sides::<GroupedEpoch>::new(&Config { inline: false, ..config::<GroupedEpoch>() });
    assert_eq!((sides.send(200, 1, 1), sides.poll()), (1, 1));
    let mark = sides.host.tx_mark();
    assert!(!sides.host.tx_released(mark), "a quarter of the ring later");
    let value = kept(&mut sides, 64, 9);
    let mut burst = headers(&mut sides, 20, 1);
    assert_eq!(sides.host.tx_kept(&mut burst, [[value.whole()]]), 1);
    poll(&mut sides, false);
    assert!(sides.host.tx_released(mark) && sides.host.is_released(&value));
    assert!(sides.host.take_back(value).is_ok_and(|buf| buf.len() == 64 && !buf.desc().kept()));
}

/// The NIC dies with kept segments in the ring and in its hands; a successor delivers the first, unless it does not know them.
#[test]
fn kept_buffers_survive_the_nic() {
    for successor_knows in [true, false] {
        let mut sides = Sides::<GroupedEpoch>::new(&config::<GroupedEpoch>());
        let value = kept(&mut sides, 1500, 7);
        let mut burst = headers(&mut sides, 20, 4);
        assert_eq!(sides.host.tx_kept(&mut burst, [[value.whole()]; 2]), 2);
        assert_eq!(sides.fetch().rest().len(), 4);
        let mut burst = headers(&mut sides, 20, 3);
        assert_eq!(sides.host.tx_kept(&mut burst, [[value.whole()]; 3]), 3);
        sides.host.set_knows_kept(successor_knows);
        let held = reclaim(&mut sides);
        assert!(held >= 2, "{held}: two headers at least");
        sides.nic = NicQueue::new(sides.mem.clone(), &sides.layout, 0).unwrap();
        assert_eq!(sides.host.is_released(&value), !successor_knows);
        poll(&mut sides, false);
        let expected = if successor_knows { std::vec![(1520, 7); 3] } else { Vec::new() };
        assert_eq!(received(&mut sides), expected);
        assert!(sides.host.is_released(&value));
        assert!(sides.host.with_kept(&value, |bytes| bytes == [7; 1500]));
        // It is nowhere else: neither free nor lent.
        Allocator::walk(&sides.mem, &sides.layout, |at, _| assert_ne!(at, value.at & !(LARGE_BUF - 1)));
        assert!(sides.host.free_kept(value).is_ok());
        sides.nic.retire();
        assert_eq!(reclaim(&mut sides), 0);
    }
}

/// A dead NIC has changed what the ring says: a buffer that nobody keeps, or one that the program keeps as if it had been handed over.
#[test]
fn a_ring_that_contradicts_the_ledger_is_emptied() {
    for lie in [0, 1] {
        let mut sides = Sides::<Padded>::new(&config::<Padded>());
        let value = kept(&mut sides, 1500, 7);
        let mut burst = headers(&mut sides, 20, 1);
        assert_eq!(sides.host.tx_kept(&mut burst, [[value.whole()]]), 1);
        let at = sides.layout.queue(0).unwrap().tx.units + lie * 64;
        let flag = u64::from(crate::desc::FLAG_KEPT) << 48;
        sides.mem.store(at, sides.mem.load(at) ^ flag);
        reclaim(&mut sides);
        sides.nic = NicQueue::new(sides.mem.clone(), &sides.layout, 0).unwrap();
        poll(&mut sides, false);
        assert_eq!((received(&mut sides).len(), sides.nic.counters().tx_packets), (0, 0));
        Allocator::walk(&sides.mem, &sides.layout, |at, _| assert_ne!(at, value.at & !(LARGE_BUF - 1)));
        assert!(sides.host.free_kept(value).is_ok());
        assert_eq!(reclaim(&mut sides), 0);
    }
}

fn reclaim<R: Ring>(sides: &mut Sides<R>) -> usize {
    sides.pipeline = Pipeline::default();
    let mut inventory = Inventory::new(&sides.mem, &sides.layout);
    inventory.count_pair(&sides.host);
    inventory.repair_rings(&mut sides.host);
    inventory.reclaim()
}

/// A NIC that keeps what it fetches gets copies, and holds up nobody: not the value, nor the ring.
fn a_nic_with_buffers_of_its_own_gets_copies<R: Ring>(inline: bool) {
    let mut sides = Sides::<R>::new(&Config { inline, ..config::<R>() });
    let value = kept(&mut sides, 300, 5);
    let mut burst = headers(&mut sides, 20, 2);
    assert_eq!(sides.host.tx_kept(&mut burst, [[value.whole()]; 2]), 2);
    let mut fetched = sides.fetch();
    assert_eq!(fetched.rest().len(), 4);
    sides.nic.flush();
    assert!(!sides.host.is_released(&value));
    assert_eq!(sides.nic.copy_to_pool(&mut fetched), 4);
    sides.nic.flush();
    assert!(sides.host.is_released(&value), "{:?}", R::DESIGN);
    assert!(fetched.rest().iter().all(|desc| !desc.kept()));
    assert_eq!(sides.nic.whole_packets(fetched.rest()), (4, None));
    assert_eq!(sides.nic.send_buffers(&fetched.rest()[..2]), 2);
    sides.nic.give_back(&fetched.rest()[2..]);
    sides.nic.flush();
    assert_eq!(received(&mut sides), [(320, 5)]);
    assert!(sides.host.free_kept(value).is_ok());
}

#[test]
fn nics_with_buffers_of_their_own_get_copies() {
    a_nic_with_buffers_of_its_own_gets_copies::<GroupedEpoch>(true);
    a_nic_with_buffers_of_its_own_gets_copies::<GroupedEpoch>(false);
    a_nic_with_buffers_of_its_own_gets_copies::<GroupedClear>(false);
    a_nic_with_buffers_of_its_own_gets_copies::<Packed>(false);
}

/// Kept segments that are no bytes of the pool are dropped and counted, and those that a NIC delivers.
#[test]
fn neither_side_believes_a_kept_segment() {
    let mut sides = Sides::<Padded>::new(&config::<Padded>());
    let (pool, queue) = (*sides.layout.pool(), sides.layout.queue(0).unwrap());
    let kept = |at, len| Desc::new(at, len, 0).with_kept(true);
    let mut tx = <Padded as Ring>::Producer::resume(&sides.mem, &queue.tx);
    let bad =
        [kept(pool.buffers - 1, 9), kept(pool.buffers, 0), kept(pool.end, 9), kept(pool.buffers + 4090, 9)];
    assert_eq!(tx.push(&sides.mem, &bad), 4);
    let free = sides.nic.counters().tx_packets;
    poll(&mut sides, false);
    assert_eq!((sides.nic.counters().bad_descriptor, free, received(&mut sides).len()), (4, 0, 0));
    let mut rx = <Padded as Ring>::Producer::resume(&sides.mem, &queue.rx);
    assert_eq!(
        rx.push(&sides.mem, &[kept(pool.buffers, 64), kept(pool.buffers, 64).with_more(true), kept(0, 64)]),
        3
    );
    assert_eq!((received(&mut sides).len(), sides.host.drops().bad_descriptor), (0, 2));
}

/// Another core of the NIC reads packets that this one has fetched.
struct Elsewhere(Vec<Desc>);

impl OtherCores for Elsewhere {
    fn local(&self, _: u16) -> Option<usize> {
        None
    }
    fn hand_off(&mut self, _: usize, _: u16, packets: &[Desc]) -> usize {
        self.0.extend_from_slice(packets);
        packets.len()
    }
    fn publish(&mut self) {}
}

/// Packets with kept segments are released when the last core is done with them, whatever was handed over before them and comes back later.
fn released_by_the_last_core<R: Ring>(inline: bool) {
    let mut sides = Sides::<R>::new(&Config { inline, ..config::<R>() });
    let (value, by) = (kept(&mut sides, 700, 5), Spreader::new(Rss::new(1)));
    let mut cores = Elsewhere(Vec::new());
    let turn = |sides: &mut Sides<R>, cores: &mut Elsewhere| {
        let queues = core::slice::from_mut(&mut sides.nic);
        spread_across(queues, 0, &mut sides.pipeline, &sides.mem, &by, false, cores)
    };
    assert_eq!((sides.send(600, 3, 1), turn(&mut sides, &mut cores)), (3, 3));
    let mut burst = headers(&mut sides, 20, 2);
    assert_eq!(sides.host.tx_kept(&mut burst, [[value.whole()]; 2]), 2);
    if !sides.layout.config().has_areas() {
        assert_eq!(turn(&mut sides, &mut cores), 4, "{:?}", R::DESIGN);
        assert_eq!((sides.send(600, 1, 1), turn(&mut sides, &mut cores)), (1, 0), "none behind it");
    } else {
        assert_eq!(turn(&mut sides, &mut cores), 0, "the first burst is not done");
        sides.nic.handed_over(3);
        assert_eq!(turn(&mut sides, &mut cores), 4);
        sides.nic.handed_over(3);
    }
    // Of the seven that are away, in two parts: none of the first says that the value has been read.
    let left = if sides.layout.config().has_areas() { 1 } else { 7 };
    for _ in 1..left {
        sides.nic.handed_over(1);
        assert!(!sides.host.is_released(&value), "{:?}", R::DESIGN);
    }
    sides.nic.handed_over(1);
    assert!(sides.host.is_released(&value), "{:?}", R::DESIGN);
    assert_eq!(cores.0.iter().filter(|desc| desc.kept()).count(), 2);
}

#[test]
fn packets_with_other_cores_are_not_released() {
    released_by_the_last_core::<GroupedEpoch>(true);
    released_by_the_last_core::<GroupedEpoch>(false);
    released_by_the_last_core::<GroupedClear>(false);
    released_by_the_last_core::<Packed>(false);
}

/// Both would be whole: one buffer, two handles.
#[test]
fn of_a_buffer_that_is_split_one_part_at_most_is_the_whole() {
    let mut sides = Sides::<GroupedEpoch>::new(&config::<GroupedEpoch>());
    let host = &mut sides.host;
    for (len, at) in [(0, 0), (100, 0), (100, 100), (100, 60)] {
        let mut burst = Burst::new();
        assert_eq!(host.alloc(100, 1, &mut burst), 1);
        burst.iter_mut().for_each(|buf| buf.set_len(len).unwrap());
        let (one, other) = host.keep(burst.pop().unwrap()).split_at(at);
        let other = host.take_back(other).unwrap_err();
        let whole = one.join(other).unwrap();
        host.free_kept(whole).unwrap();
    }
}
