//! Segmentation.
#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use ccnic_frame::segment::{MAX_SEGMENTS, MIN_SEGMENT};
use ccnic_frame::{Headers, Malformed, Refusal, SegmentKind, Segmentation, Segmenter, Sum};
use common::{Shape, check_sums, noise, parse};

fn kind(shape: Shape) -> SegmentKind {
    match shape {
        Shape { tcp: false, .. } => SegmentKind::Udp,
        Shape { ipv6: true, .. } => SegmentKind::TcpIpv6,
        Shape { ipv6: false, .. } => SegmentKind::TcpIpv4,
    }
}

/// The segments of a frame, each a frame of its own.
fn cut(frame: &[u8], size: u16, kind: SegmentKind) -> Vec<Vec<u8>> {
    let headers = parse(frame);
    let mut segmenter = Segmenter::new(Segmentation { kind, size }, frame, &headers).unwrap();
    let (header_len, longest) = (segmenter.header_len(), segmenter.longest());
    let frames: Vec<_> = segmenter
        .segments()
        .map(|segment| {
            let payload = &frame[segment.payload.clone()];
            [segmenter.header(&segment, Sum::of(payload)), payload].concat()
        })
        .collect();
    assert_eq!(frames.iter().map(Vec::len).max(), Some(longest));
    assert!(frames.iter().all(|frame| parse(frame).payload_at == header_len));
    frames
}

fn number(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap())
}

#[test]
fn tcp_counts_bytes() {
    let shape = Shape { tags: 1, tcp_options: 3, ..Shape::TCP4 };
    let payload = noise(3000);
    let mut frame = shape.frame(&payload);
    let l4 = shape.l4_at();
    frame[l4 + 13] |= 0x81; // CWR and FIN, beside PSH and ACK
    let segments = cut(&frame, 1448, SegmentKind::TcpIpv4);
    assert_eq!(segments.iter().map(Vec::len).collect::<Vec<_>>(), [1518, 1518, 174]);
    for (i, segment) in segments.iter().enumerate() {
        let before = 1448 * i;
        assert_eq!(number(segment, l4 + 4), 0xffff_fff0u32.wrapping_add(before as u32), "sequence number");
        assert_eq!(segment[l4 + 13], [0x90, 0x10, 0x19][i], "flags of segment {i}");
        assert_eq!(segment[20 + 2..20 + 4], [[0xff, 0xfe], [0xff, 0xff], [0, 0]][i], "identification");
        let total = (segment.len() - 18) as u16;
        assert_eq!(segment[18 + 2..18 + 4], total.to_be_bytes());
        assert_eq!(check_sums(segment), payload[before..3000.min(before + 1448)]);
        // All else is as it was: addresses, tag, ports, acknowledgement, window, options.
        let same = [0..18, 24..28, 30..l4 + 4, l4 + 8..l4 + 13, l4 + 14..l4 + 16, l4 + 18..l4 + 32];
        same.into_iter().for_each(|range| assert_eq!(segment[range.clone()], frame[range]));
    }
}

#[test]
fn udp_becomes_datagrams() {
    for base in [Shape::UDP4, Shape::UDP6] {
        let shape = Shape { options: 2, ..base };
        let payload = noise(2500);
        let frame = shape.frame(&payload);
        let segments = cut(&frame, 1200, SegmentKind::Udp);
        assert_eq!(segments.len(), 3);
        for (i, segment) in segments.iter().enumerate() {
            let length = u16::from_be_bytes(segment[shape.l4_at() + 4..][..2].try_into().unwrap());
            assert_eq!(length, [1208, 1208, 108][i]);
            assert_eq!(check_sums(segment), payload[1200 * i..2500.min(1200 * (i + 1))]);
            assert_eq!(parse(segment).l4_end, segment.len());
        }
    }
}

#[test]
fn what_fits_is_one_segment() {
    for shape in Shape::ALL {
        for len in [0, 1, 999, 1000] {
            let mut frame = shape.frame(&noise(len));
            let good = frame.clone();
            let at = parse(&frame).l4_checksum_at().unwrap();
            frame[at] ^= 0xff; // it does not matter
            frame.extend([0; 9]); // nor does padding
            assert_eq!(cut(&frame, 1000, kind(shape)), [good], "{shape:?}");
        }
        assert_eq!(cut(&shape.frame(&noise(1001)), 1000, kind(shape)).len(), 2);
        assert_eq!(cut(&shape.frame(&noise(2000)), 1000, kind(shape)).len(), 2);
    }
}

#[test]
fn the_headers_are_copied_out_once() {
    let frame = Shape::TCP6.frame(&noise(5000));
    let headers = parse(&frame);
    let start = &frame[..headers.payload_at];
    let cut = Segmentation::tcp_ipv6(1428);
    let mut alone = Segmenter::new(cut, start, &Headers::parse(start, frame.len())).unwrap();
    let mut whole = Segmenter::new(cut, &frame, &headers).unwrap();
    // In any order, too: a segment's headers do not depend on what was asked before.
    let segments: Vec<_> = alone.segments().collect();
    for segment in segments.iter().rev() {
        let sum = Sum::of(&frame[segment.payload.clone()]);
        assert_eq!(alone.header(segment, sum), whole.header(segment, sum));
    }
    assert!(Segmenter::new(cut, &start[..start.len() - 1], &headers).is_err());
}

#[test]
fn what_cannot_be_cut_is_refused() {
    let new = |cut: Segmentation, frame: &[u8]| Segmenter::new(cut, frame, &parse(frame)).err();
    let (tcp, udp) = (Shape::TCP4.frame(&noise(9000)), Shape::UDP4.frame(&noise(9000)));
    assert_eq!(new(Segmentation::tcp_ipv4(1448), &tcp), None);
    assert_eq!(new(Segmentation::udp(1448), &udp), None);
    for cut in [Segmentation::udp(1448), Segmentation::tcp_ipv6(1448)] {
        assert_eq!(new(cut, &tcp), Some(Refusal::SegmentKind));
    }
    assert_eq!(new(Segmentation::tcp_ipv4(1448), &udp), Some(Refusal::SegmentKind));
    for size in [0, MIN_SEGMENT - 1] {
        assert_eq!(new(Segmentation::tcp_ipv4(size), &tcp), Some(Refusal::SegmentSize));
    }
    assert_eq!(new(Segmentation::tcp_ipv4(MIN_SEGMENT), &tcp), Some(Refusal::TooManySegments));
    let most = Shape::TCP4.frame(&noise(MAX_SEGMENTS * 8));
    assert_eq!(cut(&most, 8, SegmentKind::TcpIpv4).len(), MAX_SEGMENTS);
    let more = Shape::TCP4.frame(&noise(MAX_SEGMENTS * 8 + 1));
    assert_eq!(new(Segmentation::tcp_ipv4(8), &more), Some(Refusal::TooManySegments));

    let mut fragment = udp.clone();
    fragment[20] = 0x20;
    assert_eq!(new(Segmentation::udp(1448), &fragment), Some(Refusal::SegmentKind));
    let mut surplus = udp.clone();
    surplus[39] -= 1;
    assert_eq!(new(Segmentation::udp(1448), &surplus), Some(Refusal::UdpLength));
    let mut malformed = udp.clone();
    malformed[38] = 0xff;
    assert_eq!(new(Segmentation::udp(1448), &malformed), Some(Refusal::Malformed(Malformed::UdpLength)));
    let mut routed = Shape { options: 3, ..Shape::UDP6 }.frame(&noise(3000));
    assert_eq!(new(Segmentation::udp(1448), &routed), None);
    routed[54 + 16 + 3] = 1;
    assert_eq!(new(Segmentation::udp(1448), &routed), Some(Refusal::NoChecksum));
}

#[test]
fn the_largest_packet_is_cut() {
    for shape in Shape::ALL {
        let most = 65535 - (shape.payload_at() - shape.l3_at()) + if shape.ipv6 { 40 } else { 0 };
        let payload = noise(most);
        let mut frame = shape.frame(&payload);
        frame.extend([0; 30]);
        let segments = cut(&frame, 1440, kind(shape));
        assert_eq!(segments.len(), most.div_ceil(1440));
        let stream: Vec<u8> = segments.iter().flat_map(|segment| check_sums(segment)).collect();
        assert_eq!(stream, payload, "{shape:?}");
        // A segment size that nothing reaches.
        assert_eq!(cut(&frame, u16::MAX, kind(shape)).len(), 1);
    }
}
