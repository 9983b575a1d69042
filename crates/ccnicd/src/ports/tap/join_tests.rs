//! Segments that are joined, seen at the other end of a socket in place of a TAP device: cut again, they are what they were.

use std::os::fd::AsFd;
use std::os::unix::net::UnixDatagram;

use crate::memory::RegionMemory;
use ccnic::{Desc, SharedMemory};
use ccnic_frame::vnet::SHORT_BYTES;
use ccnic_frame::{Checksum, Headers, Meta, Segmentation, Segmenter, Sum, Tci, VnetHeader, checksum};
use ccnic_shm::{NativeMemory, Pages, Region};

use super::join::Run;
use super::outgoing::send_run;

const MOST: usize = 1600;
const ACK: u8 = 16;
const PSH: u8 = 8;
const TCP: usize = 34;

/// A frame of TCP over IPv4 with a right checksum.
fn tcp(sequence: u32, flags: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = [[2; 6], [4; 6]].concat();
    frame.extend([8, 0, 0x45, 0]);
    frame.extend((40 + payload.len() as u16).to_be_bytes());
    frame.extend([0, 1, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 0, 9, 0, 7]);
    frame.extend(sequence.to_be_bytes());
    frame.extend([0, 0, 0, 1, 0x50, flags, 2, 0, 0, 0, 0, 0]);
    frame.extend(payload);
    fill(&mut frame);
    frame
}

/// The same over IPv6.
fn tcp6(frame: &[u8]) -> Vec<u8> {
    let tcp = &frame[TCP..];
    let mut other = [&frame[..12], &[0x86, 0xdd, 0x60, 0, 0, 0]].concat();
    other.extend((tcp.len() as u16).to_be_bytes());
    other.extend([6, 64]);
    other.extend([[0xfd; 16], [0xfe; 16]].concat());
    other.extend(tcp);
    fill(&mut other);
    other
}

fn fill(frame: &mut [u8]) {
    let headers = Headers::parse(frame, frame.len());
    let _ = checksum::fill_ipv4(frame, &headers); // of IPv6 there is none
    let _ = checksum::fill_l4(frame, &headers, []); // nor of a fragment
}

fn payload(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 % 251) as u8).collect()
}

/// What a super-packet is cut into.
fn cut(super_packet: &[u8], size: u16, ipv4: bool) -> Vec<Vec<u8>> {
    let mut start = super_packet.to_vec();
    let headers = Headers::parse(&start, start.len());
    if ipv4 {
        checksum::fill_ipv4(&mut start, &headers).unwrap();
    }
    let how = if ipv4 { Segmentation::tcp_ipv4(size) } else { Segmentation::tcp_ipv6(size) };
    let mut segmenter = Segmenter::new(how, &start, &headers).unwrap();
    let segments: Vec<_> = segmenter.segments().collect();
    let whole = |segment: &ccnic_frame::segment::Segment| {
        let payload = &super_packet[segment.payload.clone()];
        [segmenter.header(segment, Sum::of(payload)), payload].concat()
    };
    segments.iter().map(whole).collect()
}

/// Frames one behind the other in the memory, each in pieces of so many bytes.
fn place(mem: &NativeMemory, frames: &[Vec<u8>], piece: usize, meta: Meta) -> Vec<Desc> {
    let (mut at, mut descs) = (64, Vec::new());
    for frame in frames {
        let pieces = frame.chunks(piece).count();
        for (i, bytes) in frame.chunks(piece).enumerate() {
            mem.write(at, bytes);
            descs.push(Desc::new(at, bytes.len() as u16, 0).with_more(i + 1 < pieces).with_meta(meta.word()));
            at = (at + bytes.len() as u32).next_multiple_of(64);
        }
    }
    descs
}

/// How many of the frames are joined, their `virtio_net_hdr`, and the super-packet.
fn joined(frames: &[Vec<u8>], piece: usize, meta: Meta) -> Option<(usize, VnetHeader, Vec<u8>)> {
    let mem = Region::create(256 << 10, Pages::Small).unwrap().memory();
    let descs = place(&mem, frames, piece, meta);
    let run = Run::of(&mem, &descs, MOST)?;
    let (ours, theirs) = UnixDatagram::pair().unwrap();
    let bytes = send_run(ours.as_fd(), &mem, &run).unwrap();
    let packets = run.packets as usize;
    assert_eq!(bytes as usize, frames[..packets].iter().map(Vec::len).sum::<usize>());
    assert_eq!(
        run.descriptors,
        frames[..packets].iter().map(|frame| frame.chunks(piece).count()).sum::<usize>()
    );
    let mut got = vec![0; 70_000];
    let n = theirs.recv(&mut got).unwrap();
    Some((packets, VnetHeader::from_bytes(&got).unwrap(), got[SHORT_BYTES..n].to_vec()))
}

#[test]
fn what_was_joined_is_cut_into_what_it_was() {
    for (len, size) in [(2896, 1448), (20_000, 1448), (3000, 1460), (1000, 8), (1448, 700)] {
        for ipv4 in [true, false] {
            let whole = tcp(u32::MAX - 1000, ACK | PSH, &payload(len));
            let whole = if ipv4 { whole } else { tcp6(&whole) };
            let frames = cut(&whole, size, ipv4);
            for piece in [54, 80, 4096] {
                let few: Vec<_> = frames.iter().take(32 / frames[0].len().div_ceil(piece)).cloned().collect();
                if few.len() < 2 {
                    continue;
                }
                let (packets, header, got) = joined(&few, piece, Meta::default()).unwrap();
                assert_eq!((packets, header.gso_size), (few.len(), size), "{len} {size} {ipv4} {piece}");
                let headers = Headers::parse(&got, got.len());
                assert!(checksum::is_pseudo(&got, &headers) && header.offloads(&headers, got.len()).is_ok());
                assert_eq!(cut(&got, size, ipv4), few, "{len} {size} {ipv4} {piece}");
            }
        }
    }
}

#[test]
fn requested_checksums_stay_requested() {
    let mut frames: Vec<_> = (0..3).map(|n| tcp(n * 1000, ACK, &payload(1000))).collect();
    for frame in &mut frames {
        frame[TCP + 16..TCP + 18].copy_from_slice(&[0xba, 0xd1]);
    }
    assert!(joined(&frames, 4096, Meta::default()).is_none(), "wrong ones");
    let requested = Meta::default().with_l4_checksum(Checksum::Requested);
    let (packets, header, got) = joined(&frames, 4096, requested).unwrap();
    assert_eq!((packets, header.gso_size), (3, 1000));
    let right: Vec<_> = (0..3).map(|n| tcp(n * 1000, ACK, &payload(1000))).collect();
    let mut again = cut(&got, 1000, true);
    for (n, frame) in again.iter_mut().enumerate() {
        assert_eq!(frame[18..20], (1 + n as u16).to_be_bytes(), "the kernel counts");
        frame[18..20].copy_from_slice(&[0, 1]);
        fill(frame);
    }
    assert_eq!(again, right);
    for meta in [requested.with_vlan(Tci::new(7)), requested.with_ip_checksum(Checksum::Requested)] {
        assert!(joined(&frames, 4096, meta).is_none(), "{meta:?}");
    }
}

#[test]
fn what_is_not_the_next_segment_ends_a_run() {
    let segment = |n: u32| tcp(n * 1000, ACK, &payload(1000));
    let changed = |n: u32, change: &dyn Fn(&mut Vec<u8>)| {
        let mut frame = segment(n);
        change(&mut frame);
        fill(&mut frame);
        frame
    };
    let cases: [(&str, Vec<u8>); 14] = [
        ("a gap", segment(3)),
        ("again", segment(1)),
        ("longer", tcp(2000, ACK, &payload(1001))),
        ("another flag", tcp(2000, ACK | 1, &payload(1000))),
        ("no payload", tcp(2000, ACK, &[])),
        (
            "a wrong checksum",
            [segment(2), vec![]]
                .concat()
                .into_iter()
                .enumerate()
                .map(|(i, b)| if i == 500 { b ^ 1 } else { b })
                .collect(),
        ),
        ("another address", changed(2, &|frame| frame[29] ^= 1)),
        ("another station", changed(2, &|frame| frame[0] ^= 2)),
        ("another port", changed(2, &|frame| frame[TCP + 1] ^= 1)),
        ("another acknowledgement", changed(2, &|frame| frame[TCP + 11] ^= 1)),
        ("another window", changed(2, &|frame| frame[TCP + 15] ^= 1)),
        ("another time to live", changed(2, &|frame| frame[22] ^= 1)),
        ("a fragment", changed(2, &|frame| frame[20] = 0x20)),
        ("padding", [segment(2), vec![0]].concat()),
    ];
    for (what, other) in cases {
        let frames = [segment(0), segment(1), other.clone(), segment(3)];
        assert_eq!(joined(&frames, 4096, Meta::default()).map(|(packets, ..)| packets), Some(2), "{what}");
        assert!(joined(&[other, segment(3)], 4096, Meta::default()).is_none(), "{what}");
    }
    let last = [segment(0), tcp(1000, ACK, &payload(999)), tcp(1999, ACK, &payload(999))];
    assert_eq!(joined(&last, 4096, Meta::default()).unwrap().0, 2, "a shorter one is the last");
    let pushed = [segment(0), tcp(1000, ACK | PSH, &payload(1000)), segment(2)];
    let (packets, _, got) = joined(&pushed, 4096, Meta::default()).unwrap();
    assert_eq!((packets, got[TCP + 13]), (2, ACK | PSH));
    assert!(joined(&[segment(0)], 4096, Meta::default()).is_none(), "alone");
}

/// Without DF the identification counts.
#[test]
fn the_identification_is_kept_where_it_may_be_looked_at() {
    let numbered = |n: u32, id: u8| {
        let mut frame = tcp(n * 100, ACK, &payload(100));
        (frame[19], frame[20]) = (id, 0);
        fill(&mut frame);
        frame
    };
    let run = |ids: [u8; 3]| {
        let frames: Vec<_> = (0..).zip(ids).map(|(n, id)| numbered(n, id)).collect();
        joined(&frames, 4096, Meta::default()).map(|(packets, ..)| packets)
    };
    assert_eq!((run([7, 8, 9]), run([7, 8, 8]), run([7, 7, 8])), (Some(3), Some(2), None));
}

#[test]
fn a_super_packet_is_an_ip_packet_at_most() {
    let frames: Vec<_> = (0..32).map(|n| tcp(n * 1448, ACK, &payload(1448))).collect();
    assert_eq!(joined(&frames, 4096, Meta::default()).unwrap().0, 32);
    let mem = Region::create(512 << 10, Pages::Small).unwrap().memory();
    let frames: Vec<_> = (0..10).map(|n| tcp(n * 8960, ACK, &payload(8960))).collect();
    let descs = place(&mem, &frames, 10_000, Meta::default());
    assert_eq!(Run::of(&mem, &descs, 9018).unwrap().packets, 7);
    assert!(Run::of(&mem, &descs, 9013).is_none(), "longer than the interface's MTU");
}
