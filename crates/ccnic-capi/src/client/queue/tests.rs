//! Tests of `struct ccnic_queue` without C.

use super::*;
use crate::errno::CLOSED;
use crate::handle::{exclusive, shut};
use crate::nic::CcnicNicQueue;
use crate::testing::Attached;
use ccnic::Design;

fn alloc(queue: &mut CcnicQueue, len: u16, n: usize) -> Vec<CcnicBuf> {
    let mut out = vec![MaybeUninit::uninit(); n];
    let got = queue.alloc(len, &mut out).unwrap();
    // SAFETY: `alloc` has written the first `got` entries.
    out[..got].iter().map(|buf| unsafe { buf.assume_init() }).collect()
}

#[test]
fn alloc_counts_buffers_and_gives_whole_packets() {
    let attached = Attached::new(Design::GroupedEpoch);
    // SAFETY: open, and only this thread uses it.
    let queue = unsafe { attached.host.queue(0).unwrap().as_mut() };
    assert_eq!(alloc(queue, 64, 5).len(), 5);
    let jumbo = alloc(queue, 9000, 8);
    assert_eq!(
        jumbo.iter().map(|buf| buf.more()).collect::<Vec<_>>(),
        [true, true, false, true, true, false]
    );
    assert_eq!(queue.alloc(9000, &mut [MaybeUninit::uninit(); 2]), Err(TOO_FEW_ENTRIES));
    assert_eq!(queue.alloc(9001, &mut [MaybeUninit::uninit(); 8]), Err(TOO_LONG));
    assert!(alloc(queue, 4000, 100).len() < 64, "the pool has 64 buffers");
    assert!(queue.stats().alloc_failed > 0);
}

#[test]
fn what_finds_no_buffer_is_counted_in_calls_of_several_bursts() {
    let attached = Attached::new(Design::GroupedEpoch);
    // SAFETY: as above.
    let queue = unsafe { attached.host.queue(0).unwrap().as_mut() };
    let got = alloc(queue, 4000, 1000).len();
    assert_eq!(queue.stats().alloc_failed, 1000 - got as u64);
    assert_eq!(queue.alloc(9000, &mut [MaybeUninit::uninit(); 100]), Ok(0));
    assert_eq!(queue.stats().alloc_failed, 1000 - got as u64 + 99, "33 packets of three buffers");
}

#[test]
fn what_finds_no_room_is_counted_in_calls_of_several_bursts() {
    let attached = Attached::new(Design::GroupedEpoch);
    // SAFETY: as above.
    let queue = unsafe { attached.host.queue(0).unwrap().as_mut() };
    let mut bufs = alloc(queue, 64, 300);
    assert_eq!(bufs.len(), 300, "the ring has 64 descriptors");
    let sent = queue.transmit(&bufs).unwrap();
    assert!((32..=64).contains(&sent), "{sent}");
    assert_eq!(queue.stats().tx_ring_full, 300 - sent as u64);
    bufs[sent + 1] = Desc::new(0, 64, 0).into();
    assert_eq!(queue.transmit(&bufs[sent..]), Ok(0));
    assert_eq!(queue.stats().tx_ring_full, 301 - sent as u64, "one waits before the bad buffer");
    let (byte, len) = (0u8, [1u16; 200]);
    let small = |queue: &mut CcnicQueue| queue.transmit_small(&[&raw const byte; 200], &len, |_, _| &[0]);
    assert_eq!((small(queue), queue.stats().tx_ring_full), (Ok(0), 501 - sent as u64));
}

#[test]
fn small_packets_that_find_no_room_are_counted_when_some_are_sent() {
    let attached = Attached::new(Design::GroupedEpoch);
    // SAFETY: as above.
    let queue = unsafe { attached.host.queue(0).unwrap().as_mut() };
    let (byte, mut len) = (0u8, [1u16; 200]);
    let sent = queue.transmit_small(&[&raw const byte; 200], &len, |_, _| &[0]).unwrap();
    assert!((32..=64).contains(&sent), "{sent}");
    assert_eq!(queue.stats().tx_ring_full, 200 - sent as u64);
    len[3] = 1000;
    assert_eq!(queue.transmit_small(&[&raw const byte; 200], &len, |_, _| &[0]), Ok(0));
    assert_eq!(queue.stats().tx_ring_full, 203 - sent as u64, "three wait before the large one");
}

#[test]
fn mixed_packets_that_find_no_room_are_counted_when_some_are_sent() {
    let attached = Attached::new(Design::GroupedEpoch);
    // SAFETY: as above.
    let queue = unsafe { attached.host.queue(0).unwrap().as_mut() };
    let byte = 0u8;
    let mut bufs = alloc(queue, 1500, 10);
    bufs.resize(100, Desc::new(0, 1, 0).into());
    let data: Vec<_> = (0..100).map(|i| if i < 10 { std::ptr::null() } else { &raw const byte }).collect();
    let mixed = |queue: &mut CcnicQueue, bufs: &[CcnicBuf], data: &[*const u8]| {
        queue.transmit_mixed(bufs, data, |_, _| &[0])
    };
    let sent = mixed(queue, &bufs, &data).unwrap();
    assert!((32..=64).contains(&sent), "{sent}");
    assert_eq!(queue.stats().tx_ring_full, 100 - sent as u64);
    let large = alloc(queue, 1500, 3);
    assert_eq!(mixed(queue, &large, &data[..3]), Ok(0));
    assert_eq!(queue.stats().tx_ring_full, 103 - sent as u64, "packets in buffers wait, too");
    let bad = [large[0], Desc::new(0, 64, 0).into(), large[1]];
    assert_eq!(mixed(queue, &bad, &data[..3]), Ok(0));
    let stats = queue.stats();
    assert_eq!((stats.tx_ring_full, stats.tx_bad_buffer), (104 - sent as u64, 0), "one before the bad one");
    assert_eq!(stats.tx_packets, sent as u64);
}

#[test]
fn copies_that_find_no_buffer_are_counted_when_some_are_sent() {
    let attached = Attached::new(Design::GroupedEpoch);
    // SAFETY: as above.
    let queue = unsafe { attached.host.queue(0).unwrap().as_mut() };
    let large = alloc(queue, 1500, 2);
    while !alloc(queue, 128, 1).is_empty() {}
    let failed = queue.stats().alloc_failed;
    let (bytes, copy) = ([7u8; 128], CcnicBuf::from(Desc::new(0, 128, 0)));
    let bufs = [large[0], copy, copy, copy, large[1], copy];
    let data = [0, 1, 1, 1, 0, 1].map(|copy| if copy == 1 { &raw const bytes[0] } else { std::ptr::null() });
    let mixed = |queue: &mut CcnicQueue, from: usize| {
        queue.transmit_mixed(&bufs[from..], &data[from..], |_, _| &[7; 128])
    };
    assert_eq!(mixed(queue, 0), Ok(1), "one in its buffer, then a copy that needs one");
    assert_eq!(queue.stats().alloc_failed, failed + 4);
    assert_eq!(mixed(queue, 1), Err(NO_BUFFER));
    let stats = queue.stats();
    assert_eq!((stats.alloc_failed, stats.tx_ring_full, stats.tx_packets), (failed + 8, 0, 1));
}

#[test]
fn a_full_ring_is_no_error_and_a_bad_handle_is_one_only_when_it_is_first() {
    let attached = Attached::new(Design::GroupedEpoch);
    // SAFETY: as above.
    let queue = unsafe { attached.host.queue(0).unwrap().as_mut() };
    let mut bufs = alloc(queue, 64, 100);
    bufs[2] = Desc::new(0, 64, 0).into();
    assert_eq!(queue.transmit(&bufs), Ok(2));
    assert_eq!(queue.transmit(&bufs[2..]), Err(BAD_BUFFER));
    let sent = queue.transmit(&bufs[3..]).unwrap();
    assert!((32..97).contains(&sent), "the ring has 64 descriptors: {sent}");
    assert_eq!(queue.transmit(&bufs[3 + sent..]), Ok(0));
    let stats = queue.stats();
    assert_eq!((stats.tx_packets, stats.tx_bytes), (2 + sent as u64, 64 * (2 + sent as u64)));
    assert_eq!((stats.tx_bad_buffer, stats.tx_bad_packet), (1, 0));
    assert!(stats.tx_ring_full >= 97 - sent as u64);
    assert_eq!(queue.tx_waiting(), 2 + sent);
    assert_eq!(queue.free(&bufs[2..3]), Err(BAD_BUFFER));
    assert_eq!(queue.stats().free_bad_buffer, 1);
}

/// Sends chains of these numbers of segments back to the host, through a NIC that reflects them.
fn reflect(nic: &mut CcnicNicQueue, queue: &mut CcnicQueue, packets: &[usize]) {
    for &segments in packets {
        let mut bufs = alloc(queue, 200, segments);
        for buf in &mut bufs[..segments - 1] {
            *buf = Desc::from(*buf).with_more(true).into();
        }
        assert_eq!(queue.transmit(&bufs), Ok(segments));
        let mut out = [MaybeUninit::uninit(); 8];
        assert_eq!(nic.receive(&mut out), Ok(segments));
        assert_eq!(nic.transmit(&bufs), Ok(segments));
    }
}

#[test]
fn a_packet_of_more_buffers_than_entries_is_dropped_and_those_behind_it_come() {
    let attached = Attached::new(Design::GroupedEpoch);
    // SAFETY: as above.
    let queue = unsafe { attached.host.queue(0).unwrap().as_mut() };
    // SAFETY: as above.
    let nic = unsafe { attached.program.queue(0).unwrap().as_mut() };
    for wait_first in [false, true] {
        reflect(nic, queue, &[3, 8, 2, 1, 6]);
        if wait_first {
            assert!(queue.park() > 0);
        }
        let mut out = [MaybeUninit::uninit(); 4];
        let received: Vec<_> = (0..6).map(|_| queue.receive(&mut out).unwrap()).collect();
        assert!(received.iter().sum::<usize>() == 3 + 2 + 1 && received[5] == 0, "{received:?}");
        assert_eq!(queue.rx_ready(), (0), "nothing waits for ever");
    }
    let stats = queue.stats();
    assert_eq!((stats.rx_too_few_entries, stats.rx_packets), (4, 6));
    reflect(nic, queue, &[2, 8]);
    let mut out = [MaybeUninit::uninit(); 8];
    assert_eq!(queue.receive(&mut out), Ok(2), "the second does not fit any more");
    assert_eq!(queue.receive(&mut out[..0]), Ok(0), "no entries, nothing dropped");
    assert_eq!(queue.receive(&mut out), Ok(8));
}

#[test]
fn a_closed_queue_refuses_calls_until_it_is_opened_again() {
    let attached = Attached::new(Design::Packed);
    // SAFETY: as above.
    let queue = unsafe { attached.host.queue(0).unwrap().as_mut() };
    assert_eq!(attached.host.queue(0).unwrap_err().code(), -Errno::BUSY.raw_os_error());
    assert!(attached.host.busy());
    let handle = std::ptr::from_mut(queue);
    // SAFETY: a handle, used by this thread only.
    unsafe {
        assert_eq!(shut(handle, CcnicQueue::close), Ok(()));
        assert!(!attached.host.busy());
        assert_eq!(shut(handle, CcnicQueue::close), Err(CLOSED));
        assert_eq!(exclusive(handle).map(|_| ()), Err(CLOSED));
        assert_eq!(attached.host.queue(0).unwrap().as_ptr(), handle);
        assert_eq!(exclusive(handle).unwrap().transmit(&[]), Ok(0));
    }
}
