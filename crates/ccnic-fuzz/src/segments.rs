//! Segmentation: any frame is refused, or becomes what Linux would make of it ([`Typed::segments`]), byte for byte.

use ccnic_frame::segment::{MAX_SEGMENTS, MIN_SEGMENT};
use ccnic_frame::{Headers, MAX_HEADERS, SegmentKind, Segmentation, Segmenter, Sum};

use crate::input::Input;
use crate::reference::{self, Typed};

/// The fuzz target: what is requested, how much payload is to be added, a frame.
pub fn segments(bytes: &[u8]) {
    let Some((request, frame)) = bytes.split_first_chunk::<6>() else { return };
    let input = Input::new(request);
    let how = input.byte();
    let kind = [SegmentKind::TcpIpv4, SegmentKind::TcpIpv6, SegmentKind::Udp][input.below(3)];
    let cut = Segmentation { kind, size: input.short() };
    let more = usize::from(input.short());
    // As it comes, lengths and all; or with payload added, and lengths that fit.
    match Typed::parse(frame).filter(|_| how & 3 != 0) {
        None => check(cut, frame),
        Some(typed) => {
            let more = (0..more).map(|i| (i * 7 + i / 251) as u8);
            let payload: Vec<u8> = typed.payload.iter().copied().chain(more).collect();
            let Some(frame) = typed.with_payload(&payload).and_then(|typed| typed.bytes()) else { return };
            check(cut, &frame);
        }
    }
}

fn check(cut: Segmentation, frame: &[u8]) {
    let headers = Headers::parse(frame, frame.len());
    let start = &frame[..frame.len().min(MAX_HEADERS)];
    let expected = expected(cut, frame, &headers);
    let Ok(mut segmenter) = Segmenter::new(cut, start, &headers) else {
        assert!(expected.is_none(), "{cut:?} of {headers:?} is possible");
        return;
    };
    let segments: Vec<_> = segmenter.segments().collect();
    assert!((1..=MAX_SEGMENTS).contains(&segments.len()));
    let frames: Vec<Vec<u8>> = segments
        .iter()
        .map(|segment| {
            let payload = &frame[segment.payload.clone()];
            [segmenter.header(segment, Sum::of(payload)), payload].concat()
        })
        .collect();
    let payload: Vec<u8> = frames.iter().flat_map(|frame| frame[headers.payload_at..].to_vec()).collect();
    assert_eq!(payload, frame[headers.payload_at..headers.l4_end], "the stream");
    assert!(frames.iter().all(|frame| frame.len() <= segmenter.longest()));
    assert_eq!(frames.iter().map(Vec::len).max(), Some(segmenter.longest()));
    // In another order the headers are the same.
    for (segment, frame) in segments.iter().zip(&frames).rev() {
        let (header, payload) = frame.split_at(headers.payload_at);
        assert_eq!(segmenter.header(segment, Sum::of(payload)), header);
    }
    for (i, (ours, theirs)) in frames.iter().zip(expected.iter().flatten()).enumerate() {
        assert_eq!(ours, theirs, "segment {i} of {}", frames.len());
    }
    assert!(expected.is_none_or(|expected| expected.len() == frames.len()));
}

/// What Linux would make of the frame. `None` where it cannot be cut so, or where etherparse writes its headers in another way.
pub(crate) fn expected(cut: Segmentation, frame: &[u8], headers: &Headers) -> Option<Vec<Vec<u8>>> {
    let typed = Typed::parse(frame)?;
    let size = usize::from(cut.size);
    let kind = match (typed.is_udp(), typed.is_ipv6()) {
        (true, _) => SegmentKind::Udp,
        (false, true) => SegmentKind::TcpIpv6,
        (false, false) => SegmentKind::TcpIpv4,
    };
    let theirs = reference::transport(frame)?;
    let possible = kind == cut.kind && cut.size >= MIN_SEGMENT && typed.payload.len() <= size * MAX_SEGMENTS;
    let whole = headers.l3_end == theirs.l4_end && !headers.source_routed;
    if !possible || !whole || reference::differs(frame, Some(theirs)) {
        return None;
    }
    let canonical = typed.bytes()?;
    if !frame.starts_with(&canonical) {
        return None;
    }
    typed.segments(size)?.iter().map(Typed::bytes).collect()
}
