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
