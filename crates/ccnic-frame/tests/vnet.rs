//! `virtio_net_hdr`.

mod common;

use ccnic_frame::checksum::{self, Partial};
use ccnic_frame::vnet::{BYTES, DATA_VALID, NEEDS_CSUM, Offloads, SHORT_BYTES};
use ccnic_frame::{Checksum, Malformed, Meta, Refusal, SegmentKind, Segmentation, Sum, Tci, VnetHeader};
use common::{Shape, noise, parse};
use proptest::prelude::*;

/// What Linux writes for a TCP packet over IPv4 of 60 KiB: `hdr_len` 66, `gso_size` 1448, `csum_start` 34, `csum_offset` 16.
const LINUX: [u8; BYTES] = [1, 1, 66, 0, 0xa8, 5, 34, 0, 16, 0, 2, 0];

#[test]
fn bytes_are_little_endian() {
    let header = VnetHeader::from_bytes(&LINUX).unwrap();
    assert_eq!((header.flags, header.gso_type, header.hdr_len, header.gso_size), (NEEDS_CSUM, 1, 66, 1448));
    assert_eq!((header.csum_start, header.csum_offset, header.num_buffers), (34, 16, 2));
    assert_eq!(header.to_bytes(), LINUX);
    let short = VnetHeader::from_bytes(&LINUX[..SHORT_BYTES]);
    assert_eq!(short, Some(VnetHeader { num_buffers: 0, ..header }));
    assert_eq!(VnetHeader::from_bytes(&LINUX[..SHORT_BYTES - 1]), None);
}

#[test]
fn what_linux_writes_is_a_super_packet() {
    let shape = Shape { tcp_options: 3, ..Shape::TCP4 };
    let frame = shape.frame(&noise(60000));
    let offloads = VnetHeader::from_bytes(&LINUX).unwrap().offloads(&parse(&frame), frame.len());
    let meta = Meta::default().with_segmentation(Segmentation::tcp_ipv4(1448));
    assert_eq!(offloads, Ok(Offloads { meta, partial: None }));
}

/// What a device makes of a frame with this header: the checksum, if there is one to compute.
fn device(header: VnetHeader, frame: &mut [u8]) {
    if header.flags & NEEDS_CSUM != 0 {
        let start = usize::from(header.csum_start);
        assert!(Partial { start, field: start + usize::from(header.csum_offset) }.fill(frame));
    }
}

#[test]
fn requests_go_there_and_back() {
    for base in Shape::ALL {
        let shape = Shape { tags: 1, options: 1, ..base };
        let good = shape.frame(&noise(2000));
        let headers = parse(&good);
        let kind = match (base.tcp, base.ipv6) {
            (false, _) => SegmentKind::Udp,
            (true, true) => SegmentKind::TcpIpv6,
            (true, false) => SegmentKind::TcpIpv4,
        };
        let none = Meta::default();
        for meta in [
            none,
            none.with_l4_checksum(Checksum::Good),
            none.with_l4_checksum(Checksum::Requested),
            none.with_segmentation(Segmentation { kind, size: 999 }),
        ] {
            let mut frame = good.clone();
            let header = VnetHeader::prepare(meta, &mut frame[..shape.payload_at()], &headers).unwrap();
            assert_eq!(
                header.offloads(&headers, frame.len()),
                Ok(Offloads { meta, partial: None }),
                "{shape:?}"
            );
            assert_eq!(frame != good, meta.l4_checksum() == Checksum::Requested);
            device(header, &mut frame);
            assert_eq!(frame, good, "{shape:?}");
            let said = usize::from(header.hdr_len);
            assert_eq!(said, if meta.segmentation().is_some() { shape.payload_at() } else { 0 });
        }
    }
}

#[test]
fn the_checksum_of_ipv4_is_filled_in() {
    let good = Shape::UDP4.frame(&noise(10));
    let (mut frame, headers) = (good.clone(), parse(&good));
    frame[24..26].fill(0);
    let meta = Meta::default().with_ip_checksum(Checksum::Requested);
    assert_eq!(VnetHeader::prepare(meta, &mut frame, &headers), Ok(VnetHeader::default()));
    assert_eq!(frame, good);
}

#[test]
fn congestion_window_reduced_is_named() {
    for shape in [Shape::TCP4, Shape::TCP6] {
        let mut frame = shape.frame(&noise(3000));
        let headers = parse(&frame);
        frame[headers.l4_at + 13] |= 0x80;
        let cut = if shape.ipv6 { Segmentation::tcp_ipv6(1000) } else { Segmentation::tcp_ipv4(1000) };
        let meta = Meta::default().with_segmentation(cut);
        let header = VnetHeader::prepare(meta, &mut frame, &headers).unwrap();
        assert_eq!(header.gso_type, if shape.ipv6 { 0x84 } else { 0x81 });
        assert_eq!(header.offloads(&headers, frame.len()).map(|said| said.meta), Ok(meta));
    }
}

#[test]
fn checksums_that_metadata_cannot_express_are_given_back() {
    let mut frame = Shape::UDP4.frame(&noise(100));
    let headers = parse(&frame);
    // As of a packet in a tunnel: TCP, 50 bytes behind the outer headers.
    let header = VnetHeader { flags: NEEDS_CSUM, csum_start: 92, csum_offset: 16, ..VnetHeader::default() };
    let said = header.offloads(&headers, frame.len()).unwrap();
    assert_eq!(said, Offloads { meta: Meta::default(), partial: Some(Partial { start: 92, field: 108 }) });
    let prepared = Sum::of(&frame[108..110]);
    assert!(said.partial.unwrap().fill(&mut frame));
    let mut sum = Sum::of(&frame[92..]);
    sum.add_sum(prepared);
    assert_eq!(sum.value(), 0xffff);
    // The same in a frame that is not IP at all.
    let mut other = frame.clone();
    other[12] = 0x88;
    assert_eq!(header.offloads(&parse(&other), other.len()), Ok(said));
}

#[test]
fn what_was_verified_is_good_where_there_is_a_checksum() {
    let valid = VnetHeader { flags: DATA_VALID, ..VnetHeader::default() };
    let udp = Shape::UDP6.frame(&noise(10));
    let good = Meta::default().with_l4_checksum(Checksum::Good);
    assert_eq!(valid.offloads(&parse(&udp), udp.len()).map(|said| said.meta), Ok(good));
    let mut fragment = Shape::UDP4.frame(&noise(10));
    fragment[20] = 0x20;
    assert_eq!(valid.offloads(&parse(&fragment), fragment.len()), Ok(Offloads::default()));
}

#[test]
fn wrong_fields_are_refused() {
    let frame = Shape::TCP4.frame(&noise(3000));
    let (headers, len) = (parse(&frame), frame.len());
    let good = VnetHeader { hdr_len: 54, ..VnetHeader::from_bytes(&LINUX).unwrap() };
    assert!(good.offloads(&headers, len).is_ok());
    let place = |csum_start, csum_offset| VnetHeader { csum_start, csum_offset, gso_type: 0, ..good };
    for (header, reason) in [
        (VnetHeader { flags: 4 | NEEDS_CSUM, ..good }, Refusal::VnetFlags),
        (VnetHeader { flags: 0x80, ..good }, Refusal::VnetFlags),
        (VnetHeader { gso_type: 2, ..good }, Refusal::VnetGsoType),
        (VnetHeader { gso_type: 3, ..good }, Refusal::VnetGsoType),
        (VnetHeader { gso_type: 0x80, ..good }, Refusal::VnetGsoType),
        (VnetHeader { gso_type: 0x85, ..good }, Refusal::VnetGsoType),
        (VnetHeader { gso_type: 4, ..good }, Refusal::SegmentKind),
        (VnetHeader { gso_type: 5, ..good }, Refusal::SegmentKind),
        (VnetHeader { gso_size: 7, ..good }, Refusal::SegmentSize),
        (VnetHeader { flags: 0, ..good }, Refusal::VnetGsoChecksum),
        (VnetHeader { flags: DATA_VALID, ..good }, Refusal::VnetGsoChecksum),
        (VnetHeader { csum_start: 35, ..good }, Refusal::VnetGsoChecksum),
        (VnetHeader { csum_offset: 6, ..good }, Refusal::VnetGsoChecksum),
        (VnetHeader { hdr_len: len as u16 + 1, ..good }, Refusal::VnetHeaderLength),
        (place(13, 16), Refusal::VnetChecksumPlace),
        (place(len as u16 - 16, 15), Refusal::VnetChecksumPlace),
        (place(u16::MAX, u16::MAX), Refusal::VnetChecksumPlace),
    ] {
        assert_eq!(header.offloads(&headers, len), Err(reason), "{header:?}");
    }
    assert!(place(len as u16 - 16, 14).offloads(&headers, len).is_ok());
}

#[test]
fn what_cannot_be_prepared_is_refused() {
    let frame = Shape::TCP4.frame(&noise(3000));
    let none = Meta::default();
    let mut fragment = frame.clone();
    fragment[20] = 0x20;
    let mut malformed = frame.clone();
    malformed[46] = 0;
    let header_length = Refusal::Malformed(Malformed::TcpHeaderLength);
    for (meta, mut frame, reason) in [
        (none.with_segmentation(Segmentation::udp(1000)), frame.clone(), Refusal::SegmentKind),
        (none.with_segmentation(Segmentation::tcp_ipv4(1)), frame.clone(), Refusal::SegmentSize),
        (none.with_segmentation(Segmentation::tcp_ipv4(1000)), malformed, header_length),
        (none.with_l4_checksum(Checksum::Requested), fragment, Refusal::NoChecksum),
        (none.with_ip_checksum(Checksum::Requested), Shape::TCP6.frame(&[]), Refusal::NoChecksum),
    ] {
        let headers = parse(&frame);
        assert_eq!(VnetHeader::prepare(meta, &mut frame, &headers), Err(reason));
    }
    // A tag of the metadata is the caller's.
    let mut copy = frame.clone();
    assert_eq!(
        VnetHeader::prepare(none.with_vlan(Tci::new(5)), &mut copy, &parse(&frame)),
        Ok(VnetHeader::default())
    );
    assert_eq!(copy, frame);
}

proptest! {
    /// Whatever a guest writes: what is accepted can be done.
    #[test]
    fn any_header_is_refused_or_right(
        flags in 0u8..8, gso_type in prop_oneof![0u8..7, Just(0x81), Just(0x84), any::<u8>()], hdr_len in 0u16..2000,
        gso_size: u16, csum_start in prop_oneof![Just(34u16), Just(54), 0u16..1200], csum_offset in prop_oneof![Just(16u16), Just(6), 0u16..1200],
        shape in 0usize..4, len in 0usize..1100,
    ) {
        let mut frame = Shape::ALL[shape].frame(&noise(len));
        let headers = parse(&frame);
        let header = VnetHeader { flags, gso_type, hdr_len, gso_size, csum_start, csum_offset, num_buffers: 0 };
        prop_assert_eq!(VnetHeader::from_bytes(&header.to_bytes()), Some(header));
        let Ok(said) = header.offloads(&headers, frame.len()) else { return Ok(()) };
        prop_assert!(said.partial.is_none_or(|partial| partial.fill(&mut frame)));
        let again = VnetHeader::prepare(said.meta, &mut frame, &headers).unwrap();
        prop_assert_eq!(again.offloads(&headers, frame.len()), Ok(Offloads { partial: None, ..said }));
        prop_assert!(checksum::complete(said.meta, &mut frame, &headers, []).is_ok());
        if said.meta.l4_checksum() == Checksum::Requested {
            prop_assert_eq!(checksum::verify_l4(&frame, &headers, []), Ok(true));
        }
    }
}
