//! The NIC's side of a queue against a program of the same process.

use super::*;
use crate::errno::{CLOSED, EMPTY, NO_END, NOT_SHARED, TOO_LONG};
use crate::handle::{exclusive, shut};
use crate::testing::Attached;
use ccnic::Design;
use ccnic_nic::SEGMENTS;

fn segment(bytes: &[u8], flags: u32) -> CcnicSegment {
    CcnicSegment { data: bytes.as_ptr().cast(), meta: 7, len: bytes.len() as u32, flags }
}

/// Copies packets to the program: the result of `ccnic_nic_tx_copy`.
fn copy(queue: &mut CcnicNicQueue, segments: &[CcnicSegment]) -> Result<usize, Failure> {
    // SAFETY: the tests' segments are slices, or empty.
    queue.copy(unsafe { Readable::all(segments) })
}

#[test]
fn copied_segments_arrive_as_packets() {
    for design in Design::ALL {
        let attached = Attached::new(design);
        // SAFETY: both are open, and only this thread uses them.
        let (nic, host) = unsafe {
            (attached.program.queue(0).unwrap().as_mut(), attached.host.queue(0).unwrap().as_mut())
        };
        if design == Design::Doorbell {
            host.receive(&mut []).unwrap(); // posts receive buffers
        }
        let two = [segment(b"head", SEGMENT_MORE), segment(b"tail", 0), segment(b"packet", 0)];
        assert_eq!(copy(nic, &two), Ok(3), "{design:?}");
        assert_eq!(copy(nic, &[segment(b"", 0)]), Err(EMPTY));
        assert_eq!(copy(nic, &two[..1]), Err(NO_END));
        assert_eq!(copy(nic, &[segment(&[0; 9001], 0)]), Err(TOO_LONG));
        assert_eq!(copy(nic, &vec![segment(b"x", SEGMENT_MORE); SEGMENTS + 1]), Err(TOO_LONG));
        let mut out = [MaybeUninit::uninit(); 8];
        assert_eq!(host.receive(&mut out), Ok(2), "{design:?}");
        for (buf, expected) in out.iter().zip([&b"headtail"[..], b"packet"]) {
            // SAFETY: `receive` has written two entries; they name buffers of the mapped region.
            let (buf, bytes) = unsafe {
                let (buf, view) = (buf.assume_init(), attached.host.view());
                let data = view.base.add(Desc::from(buf).offset() as usize);
                (buf, std::slice::from_raw_parts(data, usize::from(buf.len())))
            };
            assert_eq!((bytes, buf.meta), (expected, 7), "{design:?}");
        }
        let stats = nic.stats();
        assert_eq!((stats.tx_packets, stats.tx_bytes, stats.tx_bad_packet), (2, 14, 4));
    }
}

#[test]
fn a_null_segment_may_be_empty_and_no_more() {
    let attached = Attached::new(Design::GroupedEpoch);
    // SAFETY: as above.
    let nic = unsafe { attached.program.queue(0).unwrap().as_mut() };
    let null = |len, flags| CcnicSegment { data: std::ptr::null(), meta: 0, len, flags };
    let tail = segment(b"tail", 0);
    assert_eq!(copy(nic, &[null(0, SEGMENT_MORE), tail]), Ok(2));
    for wrong in [[null(4, SEGMENT_MORE), tail], [null(4, 0), tail], [null(0, 0), tail]] {
        assert_eq!(copy(nic, &wrong), Err(EMPTY));
    }
    assert_eq!((nic.stats().tx_packets, nic.stats().tx_bytes), (1, 4));
}

#[test]
fn packets_that_were_fetched_and_not_received_are_dropped_at_close() {
    let attached = Attached::new(Design::GroupedEpoch);
    // SAFETY: as above.
    let (nic, host) =
        unsafe { (attached.program.queue(0).unwrap().as_mut(), attached.host.queue(0).unwrap().as_mut()) };
    let packet = [1u8; 60];
    let sent = host.transmit_small(&[packet.as_ptr(); 3], &[60; 3], |_, _| &packet);
    assert_eq!(sent, Ok(3));
    let mut out = [MaybeUninit::uninit(); 1];
    assert_eq!(nic.receive(&mut out), Ok(1));
    assert!(attached.program.busy() && attached.nic.has_programs());
    let handle = std::ptr::from_mut(nic);
    // SAFETY: a handle, used by this thread only.
    let stats = unsafe {
        assert_eq!(shut(handle, CcnicNicQueue::close), Ok(()));
        assert_eq!(exclusive(handle).map(|_| ()), Err(CLOSED));
        assert_eq!(attached.program.queue(0).unwrap().as_ptr(), handle);
        exclusive(handle).unwrap().stats()
    };
    assert_eq!((stats.rx_packets, stats.rx_dropped_close), (3, 2));
}

#[test]
fn a_program_that_manages_its_buffers_gets_copies_only() {
    let attached = Attached::new(Design::Doorbell);
    // SAFETY: as above.
    let nic = unsafe { attached.program.queue(0).unwrap().as_mut() };
    assert_eq!(nic.alloc(64, &mut [MaybeUninit::uninit(); 1]), Err(NOT_SHARED));
    assert_eq!(nic.transmit(&[]), Err(NOT_SHARED));
    assert_eq!(nic.receive(&mut []), Ok(0));
}

#[test]
fn a_program_that_was_not_told_to_wakes_nobody() {
    let attached = Attached::new(Design::GroupedEpoch);
    // SAFETY: as above.
    let (nic, host) =
        unsafe { (attached.program.queue(0).unwrap().as_mut(), attached.host.queue(0).unwrap().as_mut()) };
    assert_eq!(nic.arm().unwrap_err().code(), -rustix::io::Errno::AGAIN.raw_os_error());
    let fd = nic.fd().unwrap();
    assert!(fd >= 0 && nic.fd() == Ok(fd));
    let packet = [1u8; 60];
    assert_eq!(host.transmit_small(&[packet.as_ptr()], &[60], |_, _| &packet), Ok(1));
    assert_eq!(nic.arm(), Ok(true), "it is seen by who looks");
}
