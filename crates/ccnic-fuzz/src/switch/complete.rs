//! What a receiver should get that takes less than a packet's metadata request.

use ccnic::Config;
use ccnic_frame::{Checksum, Headers, Meta, Segmenter, Sum, Takes, checksum};

use crate::reference::{self, Typed};
use crate::segments;

/// Segments of one packet, at most: what a hostile sender may cost each receiver.
const SEGMENTS: usize = 64;

/// Bytes of a tag.
const TAG: usize = 4;

/// Frames and their metadata; `None`: what is requested cannot be done.
///
/// Headers are parsed, and checksums and segments made, by `ccnic-frame`, on a copy in one piece; then compared with what etherparse makes of it.
pub(super) fn complete(frame: &[u8], meta: Meta, takes: Takes) -> Option<Vec<(Vec<u8>, Meta)>> {
    let (wants, rest) = (takes.leaves(meta), takes.rest(meta));
    if wants == Meta::default() {
        return Some(vec![(frame.to_vec(), meta)]);
    }
    if frame.len() > usize::from(Config::MAX_MTU) + TAG {
        return None;
    }
    let cut = wants.segmentation();
    if cut.is_some_and(|cut| frame.len() > SEGMENTS * usize::from(cut.size)) {
        return None;
    }
    let mut bytes = frame.to_vec();
    if let Some(tci) = wants.vlan() {
        bytes = tagged(frame, tci.get())?;
    }
    let headers = Headers::parse(&bytes, bytes.len());
    let frames = match cut {
        None => {
            checksum::complete(wants, &mut bytes, &headers, []).ok()?;
            vec![bytes]
        }
        Some(cut) => {
            let theirs = segments::expected(cut, &bytes, &headers);
            let mut segmenter = Segmenter::new(cut, &bytes, &headers).ok()?;
            let segments: Vec<_> = segmenter.segments().collect();
            let frames = segments.iter().map(|segment| {
                let payload = &bytes[segment.payload.clone()];
                [segmenter.header(segment, Sum::of(payload)), payload].concat()
            });
            let frames: Vec<_> = frames.collect();
            assert!(theirs.is_none_or(|theirs| theirs == frames), "segments of {headers:?}");
            frames
        }
    };
    frames.iter().for_each(|frame| check(frame, wants));
    Some(frames.into_iter().map(|frame| (frame, rest)).collect())
}

/// The frame with a tag; `None`: it is none.
pub(super) fn tagged(frame: &[u8], tci: u16) -> Option<Vec<u8>> {
    let [a, b] = tci.to_be_bytes();
    (frame.len() >= 14).then(|| [&frame[..12], &[0x81, 0, a, b], &frame[12..]].concat())
}

/// The checksums that were requested are those that etherparse computes, where it knows all that is in the frame.
fn check(frame: &[u8], wants: Meta) {
    let typed = Typed::parse(frame).filter(|_| !reference::differs(frame, None));
    let Some(typed) = typed.filter(|typed| typed.bytes().is_some_and(|bytes| frame.starts_with(&bytes)))
    else {
        return;
    };
    let (found, cut) = (typed.checksums(), wants.segmentation().is_some());
    let Some(right) = typed.with_checksums().map(|typed| typed.checksums()) else { return };
    if cut || wants.ip_checksum() == Checksum::Requested {
        assert_eq!(found[0], right[0], "IPv4 header of {frame:x?}");
    }
    if cut || wants.l4_checksum() == Checksum::Requested {
        assert_eq!(found[1], right[1], "transport of {frame:x?}");
    }
}
