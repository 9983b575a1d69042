//! Packets from a kernel that the tests make up.

use std::collections::VecDeque;

use ccnic::nic::gather;
use ccnic_frame::vnet::{NEEDS_CSUM, SHORT_BYTES};
use ccnic_frame::{Checksum, Headers, Meta, Segmentation, Takes, VnetHeader, checksum};

use super::incoming::{Incoming, ReadCounters};
use crate::ports::{Accepts, Burst};

/// An Ethernet frame with TCP over IPv4 and so many bytes of payload, its TCP checksum missing.
fn tcp(payload: usize) -> Vec<u8> {
    let mut frame = [[2; 6], [4; 6]].concat();
    let total = (40 + payload) as u16;
    frame.extend([8, 0, 0x45, 0]);
    frame.extend(total.to_be_bytes());
    frame.extend([0, 1, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    frame.extend([0, 80, 1, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0x50, 0x18, 1, 0, 0, 0, 0, 0]);
    frame.extend((0..payload).map(|at| (at * 7) as u8));
    let headers = Headers::parse(&frame, frame.len());
    checksum::fill_ipv4(&mut frame, &headers).unwrap();
    frame
}

/// The frame with what is requested in front of it, as a kernel gives it.
fn from_kernel(mut frame: Vec<u8>, meta: Meta) -> Vec<u8> {
    let headers = Headers::parse(&frame, frame.len());
    let header = VnetHeader::prepare(meta, &mut frame, &headers).unwrap().to_bytes();
    [&header[..SHORT_BYTES], &frame].concat()
}

fn checksum_missing() -> Meta {
    Meta::default().with_l4_checksum(Checksum::Requested)
}

/// A packet, and its metadata.
type Packet = (Vec<u8>, u64);

/// All packets, in bursts, that come of reading these. What the kernel has not given yet ends a burst.
fn read(given: Vec<Vec<u8>>, takes: bool) -> (Vec<Vec<Packet>>, ReadCounters) {
    read_for(given, if takes { Accepts::ALL } else { Accepts::COMPLETE })
}

fn read_for(given: Vec<Vec<u8>>, accepts: Accepts) -> (Vec<Vec<Packet>>, ReadCounters) {
    let (mut incoming, mut counters) = (Incoming::new().unwrap(), ReadCounters::default());
    let (mut given, mut bursts) = (VecDeque::from(given), Vec::new());
    loop {
        let left = given.len();
        let gathered = incoming.gather(
            &mut counters,
            |header, room| {
                let bytes = given.pop_front()?;
                let (head, frame) = bytes.split_at(SHORT_BYTES);
                header.copy_from_slice(head);
                let n = frame.len().min(room.len());
                room[..n].copy_from_slice(&frame[..n]);
                Some(SHORT_BYTES + n)
            },
            &|_| accepts,
        );
        let mut burst = Burst::default();
        let (packets, bytes) = (gathered.packets, gathered.bytes);
        gathered.into(&mut burst, 0);
        let descs = burst.packets.rest();
        let seen: Vec<_> = descs
            .split_inclusive(|desc| !desc.more())
            .map(|packet| {
                let mut frame = vec![0; 70_000];
                let n = gather(incoming.memory(), packet, &mut frame);
                frame.truncate(n);
                (frame, packet[0].meta)
            })
            .collect();
        assert_eq!(seen.len() as u64, packets);
        assert_eq!(seen.iter().map(|(frame, _)| frame.len() as u64).sum::<u64>(), bytes);
        if seen.is_empty() && left == 0 {
            return (bursts, counters);
        }
        bursts.push(seen);
    }
}

/// A frame whose checksums are all right.
#[track_caller]
fn is_complete(frame: &[u8]) {
    let headers = Headers::parse(frame, frame.len());
    assert_eq!(checksum::verify_ipv4(frame, &headers), Ok(true));
    assert_eq!(checksum::verify_l4(frame, &headers, []), Ok(true));
}

#[test]
fn frames_that_are_complete_come_as_they_are_in_one_burst() {
    let frames: Vec<_> = [60, 1514, 14, 9014, 1].map(|len| vec![len as u8; len]).into();
    let given = frames.iter().map(|frame| [&[0; SHORT_BYTES][..], frame].concat()).collect();
    let (bursts, counters) = read(given, false);
    assert_eq!(bursts, [frames.into_iter().map(|frame| (frame, 0)).collect::<Vec<_>>()]);
    assert_eq!(counters, ReadCounters::default());
}

#[test]
fn bursts_are_bounded_in_packets_and_in_bytes() {
    let small = vec![vec![0; SHORT_BYTES + 60]; 80];
    assert_eq!(read(small, false).0.iter().map(Vec::len).collect::<Vec<_>>(), [32, 32, 16]);
    let large = vec![vec![0; SHORT_BYTES + 9000]; 20];
    let bursts = read(large, false).0;
    assert_eq!(bursts.iter().map(Vec::len).sum::<usize>(), 20);
    assert!(bursts.iter().all(|burst| burst.len() <= 8), "64 KiB and one more at most");
}

#[test]
fn missing_checksums_are_filled_in_where_a_receiver_needs_them() {
    let given = || vec![from_kernel(tcp(100), checksum_missing()), from_kernel(tcp(3), checksum_missing())];
    let (bursts, _) = read(given(), false);
    assert_eq!(bursts.len(), 1);
    for (frame, meta) in &bursts[0] {
        is_complete(frame);
        assert_eq!(*meta, 0);
    }
    let (bursts, _) = read(given(), true);
    let metas: Vec<_> = bursts.iter().map(|burst| (burst.len(), burst[0].1)).collect();
    assert_eq!(metas, [(1, checksum_missing().word()); 2], "alone, with what is requested");
}

/// 64 KiB in 46 segments, with frames before and behind: all in order, each complete.
#[test]
fn super_packets_are_cut_over_several_bursts_in_order() {
    let (small, mss) = (from_kernel(tcp(9), checksum_missing()), 1448);
    let payload = 45 * mss + 17;
    let large =
        from_kernel(tcp(payload), Meta::default().with_segmentation(Segmentation::tcp_ipv4(mss as u16)));
    let (bursts, counters) = read(vec![small.clone(), large.clone(), small.clone()], false);
    assert_eq!(counters, ReadCounters::default());
    let packets: Vec<_> = bursts.into_iter().flatten().collect();
    assert_eq!(packets.len(), 1 + 46 + 1);
    let mut bytes = Vec::new();
    for (frame, meta) in &packets {
        is_complete(frame);
        assert_eq!(*meta, 0);
    }
    for (frame, _) in &packets[1..47] {
        let sequence = u32::from_be_bytes(frame[38..42].try_into().unwrap());
        assert_eq!(sequence as usize, 5 + bytes.len());
        bytes.extend_from_slice(&frame[54..]);
    }
    assert!(bytes == tcp(payload)[54..]);
    let (bursts, _) = read(vec![small.clone(), large, small], true);
    let lens: Vec<_> = bursts.iter().map(|burst| (burst.len(), burst[0].0.len())).collect();
    assert_eq!(lens, [(1, 63), (1, 54 + payload), (1, 63)], "whole, where it is taken so");
}

/// For who takes super-packets of 9600 bytes: as many segments in each as fit, none of them summed; what is requested of each is what
/// `checksum` and a `Segmenter` make the kernel's segments of.
#[test]
fn super_packets_that_are_too_long_become_shorter_ones() {
    let (mss, payload) = (1448_u16, 45 * 1448 + 17);
    let large =
        || vec![from_kernel(tcp(payload), Meta::default().with_segmentation(Segmentation::tcp_ipv4(mss)))];
    let tso = Accepts { takes: Takes::NONE.with_tcp_segments(), longest: 9600 };
    let (bursts, counters) = read_for(large(), tso);
    assert_eq!(counters, ReadCounters::default());
    let parts: Vec<_> = bursts.into_iter().flatten().collect();
    let lens: Vec<_> = parts.iter().map(|(frame, _)| frame.len() - 54).collect();
    assert_eq!(lens, [&[6 * 1448; 7][..], &[3 * 1448 + 17]].concat());
    let complete: Vec<_> = read(large(), false).0.into_iter().flatten().map(|(frame, _)| frame).collect();
    let mut again = Vec::new();
    for (frame, word) in &parts {
        let meta = Meta::from_word(*word);
        assert_eq!(meta.l4_checksum(), Checksum::Requested);
        assert_eq!(meta.segmentation(), Some(Segmentation::tcp_ipv4(mss)));
        let headers = Headers::parse(frame, frame.len());
        assert_eq!(checksum::verify_ipv4(frame, &headers), Ok(true));
        let mut segmenter =
            ccnic_frame::Segmenter::new(meta.segmentation().unwrap(), frame, &headers).unwrap();
        for segment in segmenter.segments() {
            let bytes = &frame[segment.payload.clone()];
            again.push([segmenter.header(&segment, ccnic_frame::Sum::of(bytes)), bytes].concat());
        }
    }
    assert!(again == complete, "cut by its receiver it is as if it had been cut here");
    // One that fits stays whole; the last of several may have no more than a segment, and then only its checksum is requested.
    let short = |payload| {
        vec![from_kernel(tcp(payload), Meta::default().with_segmentation(Segmentation::tcp_ipv4(mss)))]
    };
    let words = |payload| {
        read_for(short(payload), tso).0.into_iter().flatten().map(|(_, word)| word).collect::<Vec<_>>()
    };
    let super_packet =
        Meta::default().with_segmentation(Segmentation::tcp_ipv4(mss)).with_l4_checksum(Checksum::Requested);
    assert_eq!(words(9000), [super_packet.word()]);
    assert_eq!(words(6 * 1448 + 1000), [super_packet.word(), checksum_missing().word()]);
    // Who takes checksums only, or no segment of this size, gets complete segments.
    for less in [Accepts { takes: Takes::NONE.with_l4_checksum(), ..tso }, Accepts { longest: 1000, ..tso }] {
        let frames = read_for(large(), less).0.into_iter().flatten();
        assert!(frames.eq(complete.iter().map(|frame| (frame.clone(), 0))), "{less:?}");
    }
    let (bursts, _) = read_for(vec![from_kernel(tcp(100), checksum_missing())], tso);
    assert_eq!(bursts[0][0].1, checksum_missing().word());
}

#[test]
fn headers_that_contradict_their_frame_drop_it_alone() {
    let good = || from_kernel(tcp(50), checksum_missing());
    let with = |change: fn(&mut VnetHeader)| {
        let mut bytes = good();
        let mut header = VnetHeader::from_bytes(&bytes[..SHORT_BYTES]).unwrap();
        change(&mut header);
        bytes[..SHORT_BYTES].copy_from_slice(&header.to_bytes()[..SHORT_BYTES]);
        bytes
    };
    let bad = vec![
        with(|header| header.flags = 0x80),
        with(|header| header.csum_start = 5000),
        with(|header| header.hdr_len = 5000),
        with(|header| header.gso_type = 3),
        with(|header| (header.gso_type, header.gso_size) = (1, 0)),
        with(|header| (header.gso_type, header.gso_size) = (4, 1000)),
    ];
    let number = bad.len();
    let given = bad.into_iter().flat_map(|bad| [good(), bad]).collect();
    let (bursts, counters) = read(given, false);
    assert_eq!(counters.bad_offload as usize, number);
    assert_eq!(bursts.into_iter().flatten().filter(|(frame, _)| frame.len() == 104).count(), number);
}

/// A checksum that metadata have no word for, as in a tunnel: filled in where the header says.
#[test]
fn checksums_of_other_places_are_filled_in_too() {
    let mut frame = vec![3; 100];
    frame[80..82].fill(0);
    let header = VnetHeader { flags: NEEDS_CSUM, csum_start: 60, csum_offset: 20, ..VnetHeader::default() };
    let given = [&header.to_bytes()[..SHORT_BYTES], &frame].concat();
    let (bursts, _) = read(vec![given], true);
    let (got, meta) = &bursts[0][0];
    assert_eq!((ccnic_frame::Sum::of(&got[60..]).value(), *meta), (0xffff, 0));
}

#[test]
fn frames_longer_than_any_are_dropped() {
    let given = vec![vec![0; SHORT_BYTES + 70_000], vec![0; SHORT_BYTES + 60]];
    let (bursts, counters) = read(given, false);
    assert_eq!((counters.too_long, counters.packets()), (1, 1));
    assert_eq!(bursts[0].len(), 1);
}
