//! Segmentation: a super-packet of up to 64 KiB becomes packets that fit an MTU (TSO, USO).
//!
//! As Linux does it in software (`tcp_gso_segment`, `__udp_gso_segment`, `inet_gso_segment`; Documentation/networking/
//! segmentation-offloads.rst), each segment has the headers of the super-packet, in which change:
//!
//! - the length of IPv4, IPv6 and UDP, and all checksums, which are complete;
//! - the identification of IPv4, which counts up (RFC 6864 asks for different ones where a router may fragment);
//! - of TCP: the sequence number; FIN and PSH, which only the last segment has; CWR, which only the first has (RFC 3168
//!   section 6.1.2).
//!
//! The super-packet's own checksums are not looked at.

use core::ops::Range;

use crate::bytes::{put, short, word};
use crate::checksum;
use crate::headers::{Headers, IPV6_BYTES, L3, L4, MAX_HEADERS};
use crate::meta::{SegmentKind, Segmentation};
use crate::refusal::Refusal;
use crate::sum::Sum;

/// Bytes of payload that a segment must have room for: what Linux leaves at the smallest MSS with all options
/// (`TCP_MIN_GSO_SIZE`).
pub const MIN_SEGMENT: u16 = 8;
/// The most segments of a packet: it bounds the work that one packet of a hostile sender can cause. 64 KiB in segments of
/// 64 bytes; Linux sends at most 128 datagrams (`UDP_MAX_SEGMENTS`), and 123 segments of the default MSS.
pub const MAX_SEGMENTS: usize = 1024;

/// Flags of TCP, in byte 13 of its header.
const FIN: u8 = 1 << 0;
const PSH: u8 = 1 << 3;
const CWR: u8 = 1 << 7;

/// Cuts one super-packet. It has a copy of its headers, so these may change meanwhile. The [crate] has an example.
#[derive(Debug, Clone)]
pub struct Segmenter {
    /// The headers, with the fields of the segment that was asked for last.
    bytes: [u8; MAX_HEADERS],
    headers: Headers,
    size: usize,
    /// Of the super-packet.
    identification: u16,
    sequence: u32,
    flags: u8,
}

/// One segment of a super-packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// Its number, from 0.
    pub index: usize,
    /// Where its payload lies in the frame.
    pub payload: Range<usize>,
}

impl Segmenter {
    /// Checks whether the super-packet can be cut so. `start`: its first bytes, with all headers; they have been parsed.
    ///
    /// # Errors
    /// What is malformed or too small, or that the packet is of another protocol.
    #[inline]
    pub fn new(cut: Segmentation, start: &[u8], headers: &Headers) -> Result<Segmenter, Refusal> {
        if let Some(malformed) = headers.malformed {
            return Err(Refusal::Malformed(malformed));
        }
        check_kind(cut.kind, headers)?;
        if headers.l4_checksum_at().is_none() {
            return Err(Refusal::NoChecksum);
        }
        if headers.l4_end != headers.l3_end {
            return Err(Refusal::UdpLength);
        }
        if cut.size < MIN_SEGMENT {
            return Err(Refusal::SegmentSize);
        }
        let size = usize::from(cut.size);
        if headers.l4_end.saturating_sub(headers.payload_at) > size * MAX_SEGMENTS {
            return Err(Refusal::TooManySegments);
        }
        let mut bytes = [0; MAX_HEADERS];
        let of = start.get(..headers.payload_at).ok_or(Refusal::NoChecksum)?;
        bytes.get_mut(..of.len()).ok_or(Refusal::NoChecksum)?.copy_from_slice(of);
        Ok(Segmenter {
            bytes,
            headers: *headers,
            size,
            identification: short(of, headers.l3_at + 4).unwrap_or(0),
            sequence: word(of, headers.l4_at + 4).unwrap_or(0),
            flags: of.get(headers.l4_at + 13).copied().unwrap_or(0),
        })
    }

    /// Bytes of the headers: each segment begins with as many.
    #[inline(always)]
    pub fn header_len(&self) -> usize {
        self.headers.payload_at
    }

    /// Bytes of the longest segment, with Ethernet header: what an MTU must permit.
    #[inline(always)]
    pub fn longest(&self) -> usize {
        self.headers.l4_end.min(self.headers.payload_at + self.size)
    }

    /// The segments in their order; at least one.
    #[inline(always)]
    pub fn segments(&self) -> Segments {
        let Headers { payload_at, l4_end, .. } = self.headers;
        Segments { next: Some(payload_at), end: l4_end, size: self.size, many: 1, index: 0 }
    }

    /// The super-packet as shorter ones, each of as many segments as fit into `longest` bytes with their headers; `None` where no segment
    /// does. Their checksums have to be requested: [`header`](Self::header) with the sum of nothing leaves them to who takes them so.
    #[inline]
    pub fn parts(&self, longest: usize) -> Option<Segments> {
        let many =
            longest.saturating_sub(self.header_len()).checked_div(self.size).filter(|many| *many > 0)?;
        // The identification counts segments.
        Some(Segments { size: many * self.size, many, ..self.segments() })
    }

    /// The headers of a segment of [`segments`](Self::segments) whose payload has this sum: all that lies before the
    /// payload, complete.
    #[inline]
    pub fn header(&mut self, segment: &Segment, payload: Sum) -> &[u8] {
        let headers = Headers { l4_end: self.headers.payload_at + segment.payload.len(), ..self.headers };
        self.patch_l3(segment, &headers);
        match headers.l4 {
            L4::Tcp => self.patch_tcp(segment, &headers),
            _ => put(&mut self.bytes, headers.l4_at + 4, length(headers.l4_at, &headers)),
        }
        let bytes = self.bytes.get_mut(..headers.payload_at).unwrap_or_default();
        if let Ok(mut sum) = checksum::l4_sum(bytes, &headers) {
            sum.add_sum(payload);
            checksum::store_l4(bytes, &headers, sum);
        }
        bytes
    }

    #[inline(always)]
    fn patch_l3(&mut self, segment: &Segment, headers: &Headers) {
        let at = headers.l3_at;
        if headers.l3 == L3::Ipv6 {
            put(&mut self.bytes, at + 4, length(at + IPV6_BYTES, headers));
            return;
        }
        put(&mut self.bytes, at + 2, length(at, headers));
        let identification = self.identification.wrapping_add(segment.index as u16);
        put(&mut self.bytes, at + 4, identification.to_be_bytes());
        // An error would mean that the headers are not those that were parsed: the checksum stays as it is.
        _ = checksum::fill_ipv4(&mut self.bytes, headers);
    }

    #[inline(always)]
    fn patch_tcp(&mut self, segment: &Segment, headers: &Headers) {
        let before = segment.payload.start.wrapping_sub(headers.payload_at) as u32;
        put(&mut self.bytes, headers.l4_at + 4, self.sequence.wrapping_add(before).to_be_bytes());
        let mut flags = self.flags;
        if segment.index != 0 {
            flags &= !CWR;
        }
        if segment.payload.end != self.headers.l4_end {
            flags &= !(FIN | PSH);
        }
        put(&mut self.bytes, headers.l4_at + 13, [flags]);
    }
}

/// The segments of a super-packet, in their order.
#[derive(Debug, Clone)]
pub struct Segments {
    next: Option<usize>,
    end: usize,
    size: usize,
    /// Segments that each of them has; the last may have fewer.
    many: usize,
    index: usize,
}

impl Iterator for Segments {
    type Item = Segment;

    #[inline(always)]
    fn next(&mut self) -> Option<Segment> {
        let from = self.next?;
        let to = self.end.min(from + self.size);
        let segment = Segment { index: self.index, payload: from..to };
        self.next = (to < self.end).then_some(to);
        self.index += self.many;
        Some(segment)
    }
}

/// Errors when the headers are not of the protocol that a super-packet is to be cut as.
#[inline(always)]
pub(crate) fn check_kind(kind: SegmentKind, headers: &Headers) -> Result<(), Refusal> {
    let same = match kind {
        SegmentKind::TcpIpv4 => headers.l3 == L3::Ipv4 && headers.l4 == L4::Tcp,
        SegmentKind::TcpIpv6 => headers.l3 == L3::Ipv6 && headers.l4 == L4::Tcp,
        SegmentKind::Udp => headers.l4 == L4::Udp,
    };
    if same { Ok(()) } else { Err(headers.malformed.map_or(Refusal::SegmentKind, Refusal::Malformed)) }
}

/// The length field of a header that begins at `from`.
#[inline(always)]
fn length(from: usize, headers: &Headers) -> [u8; 2] {
    (headers.l4_end.saturating_sub(from) as u16).to_be_bytes()
}
