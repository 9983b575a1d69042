//! A frame as somebody gets it who takes less than its sender requests: its parts, one by one.
//!
//! A frame of which something is requested becomes one complete frame, or several if it is a super-packet. Who takes super-packets, but none
//! of that length, gets shorter ones: as many segments in each as fit, without any checksum being computed (`NETIF_F_GSO_PARTIAL` of
//! Linux).

use crate::checksum;
use crate::headers::{Headers, MAX_HEADERS};
use crate::meta::{Checksum, Meta, Segmentation};
use crate::refusal::Refusal;
use crate::segment::{Segment, Segmenter};
use crate::sum::Sum;
use crate::takes::Takes;
use crate::vlan::{self, TAG};

/// Why there is no part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoPart {
    /// What is requested cannot be done.
    Refused(Refusal),
    /// It would be longer than is permitted.
    TooLong,
}

impl From<Refusal> for NoPart {
    fn from(refusal: Refusal) -> NoPart {
        NoPart::Refused(refusal)
    }
}

/// Writes part `index` of a frame, from 0 on, for a receiver that `takes` so much: no part has more than `longest` bytes. Returns its length
/// and its metadata; `None` when there is no such part.
///
/// ```
/// use ccnic_frame::{Meta, Segmentation, Takes, part};
///
/// let mut frame = vec![0; 14 + 20 + 8 + 3000];
/// frame[12..26].copy_from_slice(&[8, 0, 0x45, 0, 11, 212, 0, 0, 0, 0, 64, 17, 0, 0]);
/// frame[38..40].copy_from_slice(&3008u16.to_be_bytes());
/// let meta = Meta::default().with_segmentation(Segmentation::udp(100));
/// let mut to = [0; 9600];
/// let mut parts = |takes, longest| {
///     let all = (0..).map_while(|i| part(&frame, meta, takes, longest, i, &mut to).unwrap());
///     all.map(|(len, meta)| (len, meta.segmentation().is_some())).collect::<Vec<_>>()
/// };
/// assert_eq!(parts(Takes::NONE, 1500).len(), 30);
/// assert_eq!(parts(Takes::ALL, 1500), [(1442, true), (1442, true), (242, true)]);
/// assert_eq!(parts(Takes::ALL, 9600), [(3042, true)]);
/// # Ok::<(), ccnic_frame::Refusal>(())
/// ```
///
/// # Errors
/// What is requested cannot be done, or not within `longest` bytes or `to`.
pub fn part(
    frame: &[u8],
    meta: Meta,
    takes: Takes,
    longest: usize,
    index: usize,
    to: &mut [u8],
) -> Result<Option<(usize, Meta)>, NoPart> {
    let mut room = [0; TAG + MAX_HEADERS];
    let (requested, rest) = (takes.leaves(meta), takes.rest(meta));
    let copied = frame.len().min(MAX_HEADERS);
    copy(room.get_mut(TAG..), frame.get(..copied))?;
    let inserted = match requested.vlan() {
        Some(tci) if vlan::insert(room.get_mut(..TAG + copied).unwrap_or_default(), tci) => TAG,
        Some(_) => return Err(Refusal::Malformed(crate::Malformed::Truncated).into()),
        None => 0,
    };
    let start = room.get(TAG - inserted..TAG + copied).unwrap_or_default();
    let len = frame.len() + inserted;
    let headers = Headers::parse(start, len);
    let longest = longest.min(to.len());
    let whole = Whole { frame, start, copied, headers };
    match meta.segmentation() {
        Some(cut) if requested.segmentation().is_some() => whole.segment(cut, longest, index, to, rest),
        Some(cut) if len > longest => whole.shorter(cut, longest, index, to, rest),
        _ if index > 0 => Ok(None),
        _ if len > longest => Err(NoPart::TooLong),
        _ => {
            let to = to.get_mut(..len).ok_or(NoPart::TooLong)?;
            let (first, behind) = to.split_at_mut_checked(start.len()).ok_or(NoPart::TooLong)?;
            first.copy_from_slice(start);
            copy(Some(behind), frame.get(copied..))?;
            checksum::complete(requested, to, &headers, [])?;
            Ok(Some((len, rest)))
        }
    }
}

fn copy(to: Option<&mut [u8]>, from: Option<&[u8]>) -> Result<(), NoPart> {
    let (to, from) = (to.ok_or(NoPart::TooLong)?, from.ok_or(NoPart::TooLong)?);
    to.get_mut(..from.len()).ok_or(NoPart::TooLong)?.copy_from_slice(from);
    Ok(())
}

/// A super-packet.
struct Whole<'a> {
    frame: &'a [u8],
    /// Its first bytes, with a tag if one was requested; so many of `frame` are in it.
    start: &'a [u8],
    copied: usize,
    headers: Headers,
}

impl Whole<'_> {
    /// A segment, complete.
    fn segment(
        &self,
        cut: Segmentation,
        longest: usize,
        index: usize,
        to: &mut [u8],
        rest: Meta,
    ) -> Result<Option<(usize, Meta)>, NoPart> {
        let mut segmenter = Segmenter::new(cut, self.start, &self.headers)?;
        if segmenter.longest() > longest {
            return Err(NoPart::TooLong);
        }
        let Some(segment) = self.range(cut.size.into(), index) else { return Ok(None) };
        let payload = self.payload(&segment)?;
        let head = segmenter.header(&segment, Sum::of(payload));
        let len = write(to, head, payload)?;
        Ok(Some((len, rest)))
    }

    /// A super-packet of as many segments as fit; its checksum is still requested.
    fn shorter(
        &self,
        cut: Segmentation,
        longest: usize,
        index: usize,
        to: &mut [u8],
        rest: Meta,
    ) -> Result<Option<(usize, Meta)>, NoPart> {
        let size = usize::from(cut.size);
        let mut segmenter = Segmenter::new(cut, self.start, &self.headers)?;
        let many = longest.saturating_sub(segmenter.header_len()).checked_div(size).unwrap_or(0);
        if many == 0 {
            return Err(NoPart::TooLong);
        }
        let Some(range) = self.range(many * size, index) else { return Ok(None) };
        // The identification counts segments.
        let segment = Segment { index: index * many, ..range };
        let payload = self.payload(&segment)?;
        let len = write(to, segmenter.header(&segment, Sum::new()), payload)?;
        if payload.len() > size {
            return Ok(Some((len, rest)));
        }
        let single = rest.vlan().map_or(Meta::default(), |tci| Meta::default().with_vlan(tci));
        Ok(Some((len, single.with_l4_checksum(Checksum::Requested))))
    }

    fn range(&self, size: usize, index: usize) -> Option<Segment> {
        let Headers { payload_at, l4_end, .. } = self.headers;
        let from = payload_at.checked_add(index.checked_mul(size)?)?;
        (from < l4_end || index == 0)
            .then(|| Segment { index, payload: from..l4_end.min(from + size).max(from) })
    }

    fn payload(&self, segment: &Segment) -> Result<&[u8], NoPart> {
        let inserted = self.start.len() - self.copied;
        let (from, to) = (segment.payload.start - inserted, segment.payload.end - inserted);
        self.frame.get(from..to).ok_or(NoPart::Refused(Refusal::NoChecksum))
    }
}

fn write(to: &mut [u8], head: &[u8], payload: &[u8]) -> Result<usize, NoPart> {
    copy(Some(to), Some(head))?;
    copy(to.get_mut(head.len()..), Some(payload))?;
    Ok(head.len() + payload.len())
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::vlan::Tci;
    use std::vec::Vec;

    /// TCP over IPv4 with so much payload, FIN and PSH; no checksums.
    fn tcp(payload: usize) -> Vec<u8> {
        let mut frame: Vec<u8> = [2; 12].into_iter().chain([8, 0, 0x45, 0]).collect();
        frame.extend((40 + payload as u16).to_be_bytes());
        frame.extend([0, 9, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        frame.extend([0, 1, 0, 2, 0, 0, 0, 100, 0, 0, 0, 0, 0x50, 0x19, 1, 0, 0, 0, 0, 0]);
        frame.extend((0..payload).map(|i| (i * 7) as u8));
        frame
    }

    fn parts(frame: &[u8], meta: Meta, takes: Takes, longest: usize) -> Vec<(Vec<u8>, Meta)> {
        let mut parts = Vec::new();
        let mut to = [0; 9600];
        while let Some((len, meta)) = part(frame, meta, takes, longest, parts.len(), &mut to).unwrap() {
            parts.push((to[..len].to_vec(), meta));
        }
        parts
    }

    /// The payload of all parts, whose headers lie within them.
    fn payload(parts: &[(Vec<u8>, Meta)]) -> Vec<u8> {
        let of = |bytes: &Vec<u8>| bytes[Headers::parse(bytes, bytes.len()).payload_at..].to_vec();
        parts.iter().flat_map(|(bytes, _)| of(bytes)).collect()
    }

    fn is_right(bytes: &[u8]) -> bool {
        let headers = Headers::parse(bytes, bytes.len());
        checksum::verify_ipv4(bytes, &headers).unwrap() && checksum::verify_l4(bytes, &headers, []).unwrap()
    }

    #[test]
    fn checksums_are_computed_for_who_does_not_take_them() {
        let frame = tcp(1000);
        let meta =
            Meta::default().with_ip_checksum(Checksum::Requested).with_l4_checksum(Checksum::Requested);
        let done = parts(&frame, meta, Takes::NONE, 1500);
        assert!(done.len() == 1 && is_right(&done[0].0) && done[0].1 == Meta::default());
        assert_eq!(parts(&frame, meta, Takes::ALL, 1500), [(frame.clone(), meta)]);
        let ip = parts(&frame, meta, Takes::NONE.with_l4_checksum(), 1500);
        assert_eq!(ip[0].1, Meta::default().with_l4_checksum(Checksum::Requested));
        assert_eq!(part(&frame, meta, Takes::NONE, 1000, 0, &mut [0; 9600]), Err(NoPart::TooLong));
        assert_eq!(part(&frame, meta, Takes::NONE, 9600, 0, &mut [0; 1000]), Err(NoPart::TooLong));
        let arp = part(&[0; 60], meta, Takes::NONE, 9600, 0, &mut [0; 100]);
        assert!(matches!(arp, Err(NoPart::Refused(_))));
    }

    #[test]
    fn a_tag_is_inserted_whatever_else_is_requested() {
        let frame = tcp(3000);
        let (tag, cut) = (Tci::new(0x6007), Segmentation::tcp_ipv4(1000));
        for meta in [Meta::default(), Meta::default().with_segmentation(cut)] {
            let done = parts(&frame, meta.with_vlan(tag), Takes::NONE.with_tcp_segments(), 9600);
            assert_eq!((done.len(), done[0].1), (1, meta));
            assert_eq!((vlan::outer(&done[0].0), &done[0].0[18..34]), (Some(tag), &frame[14..30]));
            let kept = parts(&frame, meta.with_vlan(tag), Takes::NONE.with_vlan(), 9600);
            assert!(kept.iter().all(|(_, meta)| meta.vlan() == Some(tag)));
        }
        let cut = parts(&frame, Meta::default().with_segmentation(cut).with_vlan(tag), Takes::NONE, 1500);
        assert!(cut.iter().all(|(bytes, _)| vlan::outer(bytes) == Some(tag) && is_right(bytes)));
        assert_eq!((cut.len(), payload(&cut)), (3, frame[54..].to_vec()));
    }

    #[test]
    fn a_super_packet_is_cut_or_made_shorter() {
        let frame = tcp(20_000);
        let meta = Meta::default()
            .with_ip_checksum(Checksum::Requested)
            .with_segmentation(Segmentation::tcp_ipv4(1448));
        let segments = parts(&frame, meta, Takes::NONE, 1514);
        assert!(segments.iter().all(|(bytes, meta)| is_right(bytes) && *meta == Meta::default()));
        assert_eq!((segments.len(), payload(&segments)), (14, frame[54..].to_vec()));
        // Six segments in each, of which one is left in the end.
        let shorter = parts(&frame, meta, Takes::ALL, 9600);
        assert_eq!(shorter.iter().map(|(bytes, _)| bytes.len()).collect::<Vec<_>>(), [8742, 8742, 2678]);
        assert_eq!(payload(&shorter), frame[54..]);
        assert!(shorter.iter().all(|(_, meta)| meta.segmentation() == Some(Segmentation::tcp_ipv4(1448))));
        // Cut further, they are the segments that the whole would have been cut into.
        let again: Vec<_> =
            shorter.iter().flat_map(|(bytes, meta)| parts(bytes, *meta, Takes::NONE, 1514)).collect();
        assert_eq!(again, segments);
        assert_eq!(part(&frame, meta, Takes::NONE, 1000, 0, &mut [0; 9600]), Err(NoPart::TooLong));
        assert_eq!(part(&frame, meta, Takes::ALL, 1000, 0, &mut [0; 9600]), Err(NoPart::TooLong));
        assert_eq!(part(&frame, meta, Takes::NONE, 1514, usize::MAX, &mut [0; 9600]), Ok(None));
    }

    #[test]
    fn a_rest_of_one_segment_is_no_super_packet() {
        let meta = Meta::default().with_segmentation(Segmentation::tcp_ipv4(1000));
        let shorter = parts(&tcp(4500), meta, Takes::ALL, 2100);
        let cut: Vec<_> = shorter.iter().map(|(_, meta)| meta.segmentation().is_some()).collect();
        assert_eq!(cut, [true, true, false]);
        assert_eq!(shorter[2].1, Meta::default().with_l4_checksum(Checksum::Requested));
        assert_eq!(parts(&tcp(0), meta, Takes::NONE, 1500).len(), 1);
    }
}
