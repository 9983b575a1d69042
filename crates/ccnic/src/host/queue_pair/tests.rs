//! Tests of queue pairs.

extern crate alloc;

use alloc::vec::Vec;

use super::*;
use crate::heap::HeapMemory;
use crate::host::Pool;
use crate::ring::{Doorbell, GroupedClear, GroupedEpoch, Packed, Padded};
use crate::testing::{Sides, config, region, rounds};

fn packets_come_back<R: Ring>() {
    let mut sides = Sides::<R>::new(&config::<R>());
    for i in 0..rounds(100, 4) as u8 {
        assert_eq!(sides.send(200, 3, i), 3, "{:?}", R::DESIGN);
        while sides.poll() > 0 {}
        let mut received = 0;
        while sides.receive(32, |len, byte| assert_eq!((len, byte), (200, Some(i)))) > 0 {
            received += 1;
        }
        assert!(received > 0);
    }
    assert_eq!(sides.host.drops(), HostDrops::default());
}

#[test]
fn packets_come_back_in_every_design() {
    packets_come_back::<GroupedEpoch>();
    packets_come_back::<GroupedClear>();
    packets_come_back::<Packed>();
    packets_come_back::<Padded>();
    packets_come_back::<Doorbell>();
}

#[test]
fn opening_says_what_is_wrong() {
    let (mem, layout) = region(&config::<Packed>());
    let none = QueuePair::<_, Packed>::new(mem.clone(), &layout, 1).unwrap_err();
    assert_eq!(none, QueueError::NoQueue { queue: 1, queues: 1 });
    let wrong = QueuePair::<_, Padded>::new(mem, &layout, 0).unwrap_err();
    assert_eq!(wrong, QueueError::WrongDesign { asked: Design::Padded, has: Design::Packed });
}

#[test]
fn a_full_ring_leaves_the_rest_in_the_burst() {
    let mut host = Sides::<Packed>::new(&config::<Packed>()).host;
    let mut burst = Burst::new();
    assert_eq!((host.alloc(64, 64, &mut burst), host.tx_room()), (64, 64));
    assert_eq!((host.tx_burst(&mut burst), host.tx_room(), host.tx_waiting()), (64, 0, 64));
    host.alloc(64, 5, &mut burst);
    assert_eq!((host.tx_burst(&mut burst), burst.len()), (0, 5));
    host.free(&mut burst);
}

#[test]
fn what_is_taken_ahead_counts_as_ready_and_goes_back_with_retire() {
    let mut sides = Sides::<Packed>::new(&config::<Packed>());
    assert_eq!((sides.send(64, 20, 1), sides.poll()), (20, 20));
    assert_eq!((sides.host.rx_ready(), sides.receive(5, |_, _| ())), (20, 5));
    assert!(sides.host.rx_waits() && !sides.host.arm());
    assert_eq!(sides.host.rx_ready(), 15);
    sides.host.retire();
    assert_eq!((sides.host.rx_ready(), sides.receive(32, |_, _| ())), (0, 0));
    assert!(sides.host.arm(), "nothing is there");
    sides.host.disarm();
}

#[test]
fn a_chain_longer_than_asked_for_comes_alone_and_waits_only_for_space() {
    let mut sides = Sides::<GroupedEpoch>::new(&config::<GroupedEpoch>());
    let (chains, short) = (sides.send(9000, 6, 1), sides.send(64, 2, 2));
    assert_eq!((chains, short, sides.poll(), sides.poll()), (6, 2, 6, 2));
    assert_eq!([0, 1, 2].map(|max| sides.receive(max, |_, _| ())), [0, 3, 3]);
    assert_eq!((sides.send(9000, 3, 1), sides.poll()), (3, 3));
    let mut burst = Burst::new();
    sides.host.alloc(64, 60, &mut burst);
    assert_eq!((sides.host.rx_burst(&mut burst, 32), burst.space()), (2, 2));
    assert_eq!((sides.host.rx_burst(&mut burst, 32), sides.host.rx_ready()), (0, 3));
    sides.host.free(&mut burst);
    assert_eq!(sides.host.rx_burst(&mut burst, 1), 3);
    sides.host.free(&mut burst);
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "a buffer of another region")]
fn a_buffer_of_another_region_is_not_sent() {
    let [mut one, mut other] = [(); 2].map(|()| Sides::<GroupedEpoch>::new(&config::<GroupedEpoch>()).host);
    let mut burst = Burst::new();
    one.alloc(64, 1, &mut burst);
    other.tx_burst(&mut burst);
}

/// A queue pair is opened while another one's program holds the whole pool, which then frees it.
fn opened_while_the_pool_is_dry<R: Ring>(receive: impl Fn(&mut QueuePair<HeapMemory, R>)) {
    let (mem, layout) = region(&Config { shared_pool: false, ..config::<R>() });
    let (mut pool, mut all) = (Pool::new(mem.clone(), &layout), Burst::new());
    assert_eq!(pool.alloc(64, &mut all), 64);
    let mut pair = QueuePair::<_, R>::new(mem.clone(), &layout, 0).unwrap();
    let posted = || {
        let mut n = 0;
        R::Consumer::look(&mem, &layout.queue(0).unwrap().fill).peek(&mem, |_| n += 1);
        n
    };
    receive(&mut pair);
    assert_eq!(posted(), 0, "{:?}: there is no buffer", R::DESIGN);
    let descs: Vec<_> = all.disown().collect();
    assert_eq!(pool.free(descs.into_iter(), &mut all, ()), 64);
    pool.retire();
    receive(&mut pair);
    assert_eq!(posted(), 32, "{:?}", R::DESIGN);
}

/// A queue without posted buffers receives nothing: it must not wait for that before it posts some.
#[test]
fn receive_buffers_are_posted_although_nothing_is_received() {
    opened_while_the_pool_is_dry::<Doorbell>(|pair| assert_eq!(pair.rx_burst(&mut Burst::new(), 32), 0));
    opened_while_the_pool_is_dry::<GroupedEpoch>(|pair| assert_eq!(pair.rx_lend(32, |_, _, _| ()), Ok(0)));
    opened_while_the_pool_is_dry::<Packed>(|pair| {
        assert_eq!(pair.rx_small(32, |_, _, _| ()), Ok(0));
    });
}
