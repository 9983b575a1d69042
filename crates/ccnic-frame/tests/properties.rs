//! Frames of any shape, and what hostile senders make of them.
#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use ccnic_frame::checksum;
use ccnic_frame::{Headers, Meta, SegmentKind, Segmentation, Segmenter, Sum, VnetHeader};
use common::{Shape, check_sums, noise, parse};
use proptest::prelude::*;

fn shapes() -> impl Strategy<Value = Shape> {
    (0u8..3, any::<bool>(), any::<bool>(), 0u8..5, 0u8..11)
        .prop_map(|(tags, ipv6, tcp, options, tcp_options)| Shape { tags, ipv6, tcp, options, tcp_options })
}

fn segmentation(shape: Shape, size: u16) -> Segmentation {
    match (shape.tcp, shape.ipv6) {
        (false, _) => Segmentation::udp(size),
        (true, false) => Segmentation::tcp_ipv4(size),
        (true, true) => Segmentation::tcp_ipv6(size),
    }
}

proptest! {
    /// A super-packet in slices, cut to an MTU: the segments have right checksums and give back the stream.
    #[test]
    fn segments_give_back_the_stream(
        shape in shapes(), len in 0usize..65000, mtu in 300usize..9001, slices in 1usize..9, id: u16,
    ) {
        let payload = noise(len);
        let mut frame = shape.frame(&payload);
        if !shape.ipv6 {
            frame[shape.l3_at() + 4..shape.l3_at() + 6].copy_from_slice(&id.to_be_bytes());
        }
        let room = shape.l3_at() + mtu - shape.payload_at();
        let headers = parse(&frame);
        let cut = segmentation(shape, room as u16);
        let mut segmenter = Segmenter::new(cut, &frame[..shape.payload_at()], &headers).unwrap();
        prop_assert!(segmenter.longest() <= shape.l3_at() + mtu);
        let mut stream = Vec::new();
        for segment in segmenter.segments() {
            let from = segment.payload.start;
            let bytes = &frame[segment.payload.clone()];
            let mut sum = Sum::new();
            for piece in bytes.chunks(bytes.len().div_ceil(slices).max(1)) {
                sum.add(piece);
            }
            let out = [segmenter.header(&segment, sum), bytes].concat();
            prop_assert!(out.len() <= shape.l3_at() + mtu);
            prop_assert_eq!(parse(&out).payload_at, shape.payload_at());
            if shape.tcp {
                let at = shape.l4_at() + 4;
                let sequence = u32::from_be_bytes(out[at..at + 4].try_into().unwrap());
                prop_assert_eq!(sequence.wrapping_sub(0xffff_fff0) as usize, from - shape.payload_at());
            }
            stream.extend(check_sums(&out));
        }
        prop_assert_eq!(stream, payload);
    }

    /// Bytes changed anywhere in the headers: nothing panics, and what is accepted can be read again.
    #[test]
    fn damaged_frames_do_no_harm(
        shape in shapes(), len in 0usize..300, changes in proptest::collection::vec((0usize..200, any::<u8>()), 0..6),
        word: u64, size in 0u16..64, kind in 0usize..3, cut_at in 0usize..600,
    ) {
        let mut frame = shape.frame(&noise(len));
        for (at, byte) in changes {
            if let Some(place) = frame.get_mut(at) {
                *place = byte;
            }
        }
        frame.truncate(cut_at);
        let headers = parse(&frame);
        let kind = [SegmentKind::TcpIpv4, SegmentKind::TcpIpv6, SegmentKind::Udp][kind];
        if let Ok(mut segmenter) = Segmenter::new(Segmentation { kind, size }, &frame, &headers) {
            for segment in segmenter.segments() {
                let payload = &frame[segment.payload.clone()];
                let out = [segmenter.header(&segment, Sum::of(payload)), payload].concat();
                let again = parse(&out);
                prop_assert_eq!((again.l4, again.l4_end, again.malformed), (headers.l4, out.len(), None));
                prop_assert_eq!(checksum::verify_l4(&out, &again, []), Ok(true));
            }
        }
        let meta = Meta::from_word(word);
        _ = checksum::complete(meta, &mut frame.clone(), &headers, []);
        _ = VnetHeader::prepare(meta, &mut frame, &headers);
    }

    #[test]
    fn any_bytes_are_a_frame(bytes in proptest::collection::vec(any::<u8>(), 0..400), len in 0usize..70000, kind in 0usize..3) {
        let mut bytes = bytes;
        if let Some(place) = bytes.get_mut(12..14) {
            place.copy_from_slice(&[[0x08, 0], [0x86, 0xdd], [0x81, 0]][kind]);
        }
        let headers = Headers::parse(&bytes, len);
        prop_assert!(headers.l4_end <= len && headers.payload_at <= bytes.len());
    }
}
