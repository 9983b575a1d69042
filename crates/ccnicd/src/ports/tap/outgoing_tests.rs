//! What is written for a packet, seen at the other end of a socket in place of a TAP device.

use std::os::fd::AsFd;
use std::os::unix::net::UnixDatagram;

use crate::memory::RegionMemory;
use ccnic::{Desc, SharedMemory};
use ccnic_frame::vnet::{NEEDS_CSUM, SHORT_BYTES};
use ccnic_frame::{Checksum, Headers, Meta, Segment, Segmentation, Segmenter, Sum, Tci, VnetHeader};
use ccnic_shm::{NativeMemory, Pages, Region};

use super::outgoing::send;
use crate::ports::offload_table::{check, table};
use crate::ports::unsent::Unsent;
use crate::testing::udp;

/// The frame in the memory, in pieces of `piece` bytes that lie apart.
fn place(mem: &NativeMemory, frame: &[u8], piece: usize, meta: Meta) -> Vec<Desc> {
    let pieces = frame.chunks(piece).count();
    let place = |(i, bytes): (usize, &[u8])| {
        let at = 5000 * i as u32 + 64;
        mem.write(at, bytes);
        Desc::new(at, bytes.len() as u16, 0).with_more(i + 1 < pieces).with_meta(meta.word())
    };
    frame.chunks(piece).enumerate().map(place).collect()
}

/// What is written, or why nothing is.
fn written(frame: &[u8], piece: usize, meta: Meta, mtu: u32) -> Result<(VnetHeader, Vec<u8>), Unsent> {
    let (ours, theirs) = UnixDatagram::pair().unwrap();
    let mem = Region::create(64 << 10, Pages::Small).unwrap().memory();
    let bytes = send(ours.as_fd(), mtu, &mem, &place(&mem, frame, piece, meta))?;
    let mut got = vec![0; 20_000];
    let n = theirs.recv(&mut got).unwrap();
    assert_eq!(bytes as usize, n - SHORT_BYTES);
    Ok((VnetHeader::from_bytes(&got[..SHORT_BYTES]).unwrap(), got[SHORT_BYTES..n].to_vec()))
}

#[test]
fn a_packet_that_requests_nothing_is_written_as_it_is() {
    for (len, piece) in [(20, 100), (1000, 300), (1400, 4096), (9, 7)] {
        let frame = udp(&vec![5; len]);
        let said = Meta::default().with_l4_checksum(Checksum::Good);
        for meta in [Meta::default(), said] {
            assert_eq!(written(&frame, piece, meta, 1500), Ok((VnetHeader::default(), frame.clone())));
        }
    }
}

/// The headers lie in several pieces, and the private copy ends in the middle of one.
#[test]
fn requested_checksums_and_segments_are_left_to_the_kernel() {
    for piece in [10, 41, 256, 300, 4096] {
        let frame = udp(&[5; 600]);
        let meta =
            Meta::default().with_l4_checksum(Checksum::Requested).with_ip_checksum(Checksum::Requested);
        let (header, got) = written(&frame, piece.max(80), meta, 1500).unwrap();
        assert_eq!(
            (header.flags, header.csum_start, header.csum_offset, header.gso_type),
            (NEEDS_CSUM, 34, 6, 0)
        );
        let headers = Headers::parse(&got, got.len());
        assert_eq!(ccnic_frame::checksum::verify_ipv4(&got, &headers), Ok(true));
        assert!(got[42..] == frame[42..] && got.len() == frame.len());
    }
    let meta = Meta::default().with_segmentation(Segmentation::udp(1400));
    let (header, got) = written(&udp(&[5; 9000]), 4096, meta, 1500).unwrap();
    assert_eq!((header.gso_size, header.hdr_len, got.len()), (1400, 42, 9042));
}

#[test]
fn a_tag_is_inserted() {
    let frame = udp(&[5; 500]);
    let (header, got) = written(&frame, 128, Meta::default().with_vlan(Tci::new(7)), 1500).unwrap();
    assert_eq!(header, VnetHeader::default());
    assert_eq!((&got[..12], &got[12..16], &got[16..]), (&frame[..12], &[0x81, 0, 0, 7][..], &frame[12..]));
}

/// Every offload: what the kernel makes of a frame and its header is complete.
#[test]
fn what_is_requested_is_done_by_the_port_or_left_to_the_kernel() {
    for (frame, meta, number) in table() {
        let (header, mut got) = written(&frame, 4096, meta, 1500).unwrap();
        let headers = Headers::parse(&got, got.len());
        let left = header.offloads(&headers, got.len()).unwrap();
        assert_eq!(left.partial, None);
        let packets = match left.meta.segmentation() {
            None => {
                ccnic_frame::checksum::complete(left.meta, &mut got, &headers, []).unwrap();
                vec![got]
            }
            Some(cut) => {
                let mut segmenter = Segmenter::new(cut, &got, &headers).unwrap();
                let segments: Vec<Segment> = segmenter.segments().collect();
                let whole = |segment: &Segment| {
                    let payload = &got[segment.payload.clone()];
                    [segmenter.header(segment, Sum::of(payload)), payload].concat()
                };
                segments.iter().map(whole).collect()
            }
        };
        assert_eq!(packets.len(), number, "{meta:?}");
        check(&frame, meta, &packets);
    }
}

#[test]
fn what_the_interface_cannot_take_is_not_written() {
    let checksum = Meta::default().with_l4_checksum(Checksum::Requested);
    let cut = |size| Meta::default().with_segmentation(Segmentation::udp(size));
    let tag = Meta::default().with_vlan(Tci::new(7));
    let not_ip = vec![1; 200];
    let cases = [
        (udp(&[5; 1477]), Meta::default(), Unsent::OverMtu), // with IP and UDP header 5 bytes more than 1500 and a tag
        (udp(&[5; 1477]), checksum, Unsent::OverMtu),
        (udp(&[5; 1475]), tag, Unsent::OverMtu), // which it has with the tag only
        (udp(&[5; 9000]), cut(1477), Unsent::OverMtu),
        (not_ip.clone(), checksum, Unsent::BadOffload),
        (not_ip.clone(), cut(100), Unsent::BadOffload),
        (vec![1; 5], tag, Unsent::BadOffload),
        (udp(&[5; 100]), cut(1), Unsent::BadOffload),
        (udp(&[5; 100]), Meta::default().with_segmentation(Segmentation::tcp_ipv4(100)), Unsent::BadOffload),
        (not_ip, Meta::from_word(u64::MAX), Unsent::BadOffload),
    ];
    for (i, (frame, meta, why)) in cases.into_iter().enumerate() {
        assert_eq!(written(&frame, 4096, meta, 1500), Err(why), "case {i}");
    }
}

#[test]
fn errors_of_the_system_have_reasons() {
    use rustix::io::Errno;
    for (errno, why) in [
        (Errno::AGAIN, Unsent::Full),
        (Errno::IO, Unsent::Down),
        (Errno::BADFD, Unsent::Down),
        (Errno::INVAL, Unsent::Refused),
        (Errno::FAULT, Unsent::Refused),
    ] {
        assert_eq!(Unsent::from(std::io::Error::from(errno)), why);
    }
}
