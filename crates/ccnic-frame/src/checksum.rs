//! The checksums of IPv4, TCP, UDP and ICMPv6: verified, filled in, or prepared for who fills them in later.
//!
//! The functions take the frame's start, which contains all headers, and where needed the pieces that lie behind it. A frame in
//! one piece is a start with nothing behind it. Padding behind the IP packet is never part of a checksum.
//!
//! Whoever has the payload in memory that others can write uses the steps that [`fill_l4`] consists of: [`l4_sum`], add each
//! piece as it was copied, [`store_l4`].

use crate::bytes::{put, short};
use crate::headers::{Headers, ICMPV6, IPV4_BYTES, L3, L4, TCP, UDP};
use crate::meta::{Checksum, Meta};
use crate::refusal::Refusal;
use crate::sum::Sum;

/// Where the checksum lies in the header of IPv4.
const IPV4_CHECKSUM: usize = 10;

/// Computes what the metadata request, so that the frame may go to anyone. Not for super-packets ([`Segmenter`](crate::Segmenter)).
///
/// # Errors
/// A checksum is requested that the packet does not have.
#[inline(always)]
pub fn complete<'a>(
    meta: Meta,
    start: &mut [u8],
    headers: &Headers,
    rest: impl IntoIterator<Item = &'a [u8]>,
) -> Result<(), Refusal> {
    if meta.ip_checksum() == Checksum::Requested {
        fill_ipv4(start, headers)?;
    }
    if meta.l4_checksum() == Checksum::Requested {
        fill_l4(start, headers, rest)?;
    }
    Ok(())
}

/// True when the checksum of the IPv4 header is right.
///
/// # Errors
/// There is no IPv4 header.
#[inline(always)]
pub fn verify_ipv4(start: &[u8], headers: &Headers) -> Result<bool, Refusal> {
    let header = ipv4_header(start, headers).ok_or(absent(headers))?;
    Ok(Sum::of(header).value() == 0xffff)
}

/// Fills in the checksum of the IPv4 header.
///
/// # Errors
/// There is no IPv4 header.
#[inline(always)]
pub fn fill_ipv4(start: &mut [u8], headers: &Headers) -> Result<(), Refusal> {
    let header = ipv4_header(start, headers).ok_or(absent(headers))?;
    let (before, after) = header.split_at_checked(IPV4_CHECKSUM).ok_or(Refusal::NoChecksum)?;
    let mut sum = Sum::of(before);
    sum.add(after.get(2..).unwrap_or_default());
    put(start, headers.l3_at + IPV4_CHECKSUM, sum.checksum().to_be_bytes());
    Ok(())
}

/// True when the checksum of the transport layer is right, or the sender of UDP over IPv4 has set none. `rest`: the pieces
/// behind `start`.
///
/// # Errors
/// The packet has no transport layer whose checksum is known here.
#[inline(always)]
pub fn verify_l4<'a>(
    start: &[u8],
    headers: &Headers,
    rest: impl IntoIterator<Item = &'a [u8]>,
) -> Result<bool, Refusal> {
    let mut sum = l4_sum(start, headers)?;
    let field = headers.l4_checksum_at().and_then(|at| short(start, at)).ok_or(absent(headers))?;
    if headers.l4 == L4::Udp && field == 0 {
        return Ok(headers.l3 == L3::Ipv4); // RFC 768, and RFC 8200 section 8.1
    }
    sum.add_all(rest, headers.l4_end.saturating_sub(start.len()));
    sum.add_word(field);
    Ok(sum.value() == 0xffff)
}

/// Fills in the checksum of the transport layer. `rest`: the pieces behind `start`.
///
/// # Errors
/// The packet has no transport layer whose checksum is known here.
#[inline(always)]
pub fn fill_l4<'a>(
    start: &mut [u8],
    headers: &Headers,
    rest: impl IntoIterator<Item = &'a [u8]>,
) -> Result<(), Refusal> {
    let mut sum = l4_sum(start, headers)?;
    sum.add_all(rest, headers.l4_end.saturating_sub(start.len()));
    store_l4(start, headers, sum);
    Ok(())
}

/// The sum of the pseudo header and of what `start` has of the transport layer, its checksum taken as zero. To be added: all that
/// lies behind `start`, up to `headers.l4_end`.
///
/// # Errors
/// The packet has no transport layer whose checksum is known here, or `start` does not contain its header.
#[inline(always)]
pub fn l4_sum(start: &[u8], headers: &Headers) -> Result<Sum, Refusal> {
    own_sum(start, headers).ok_or(absent(headers))
}

/// Stores the checksum of the transport layer whose [`l4_sum`] is complete.
#[inline(always)]
pub fn store_l4(start: &mut [u8], headers: &Headers, sum: Sum) {
    let Some(at) = headers.l4_checksum_at() else { return };
    let checksum = match sum.checksum() {
        0 if headers.l4 == L4::Udp => 0xffff, // zero says that there is none (RFC 768)
        checksum => checksum,
    };
    put(start, at, checksum.to_be_bytes());
}

/// Prepares the checksum of the transport layer for who adds the rest: the field becomes the sum of the pseudo header
/// (`NEEDS_CSUM` of virtio, `CHECKSUM_PARTIAL` of Linux).
///
/// # Errors
/// The packet has no transport layer whose checksum is known here.
#[inline(always)]
pub fn store_pseudo(start: &mut [u8], headers: &Headers) -> Result<Partial, Refusal> {
    let at = headers.l4_checksum_at().ok_or(absent(headers))?;
    let sum = pseudo(start, headers).ok_or(absent(headers))?;
    put(start, at, sum.value().to_be_bytes());
    Ok(Partial { start: headers.l4_at, field: at })
}

/// True when the checksum of the transport layer is the sum of the pseudo header, as [`store_pseudo`] leaves it. By chance that is so of one
/// complete packet in 65,535; completing its checksum gives the one that it has.
#[inline(always)]
pub fn is_pseudo(start: &[u8], headers: &Headers) -> bool {
    let field = headers.l4_checksum_at().and_then(|at| short(start, at));
    field.is_some() && field == pseudo(start, headers).map(Sum::value)
}

/// A checksum that is prepared: whatever protocol it belongs to, the field contains what is to be added to the sum of all
/// from `start` on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Partial {
    /// Where in the frame the sum begins (`csum_start`).
    pub start: usize,
    /// Where in the frame the checksum is (`csum_start + csum_offset`).
    pub field: usize,
}

impl Partial {
    /// Computes the checksum of a frame in one piece. False, and nothing done, where the field is not within it.
    #[inline(always)]
    pub fn fill(self, frame: &mut [u8]) -> bool {
        let last = frame.len().checked_sub(2);
        let within = self.field >= self.start && last.is_some_and(|last| self.field <= last);
        if let Some(covered) = frame.get(self.start..).filter(|_| within) {
            // Zero would say "none" in UDP, and equals 0xffff elsewhere: as skb_checksum_help does.
            let checksum = match Sum::of(covered).checksum() {
                0 => 0xffff,
                checksum => checksum,
            };
            put(frame, self.field, checksum.to_be_bytes());
        }
        within
    }
}

#[inline(always)]
fn own_sum(start: &[u8], headers: &Headers) -> Option<Sum> {
    let field = headers.l4_checksum_at()?;
    let l4 = start.get(..headers.l4_end).unwrap_or(start);
    let mut sum = pseudo(start, headers)?;
    sum.add(l4.get(headers.l4_at..field)?);
    sum.add(l4.get(field + 2..)?);
    Some(sum)
}

/// The sum of the pseudo header (RFC 768, RFC 9293 section 3.1, RFC 8200 section 8.1).
#[inline(always)]
fn pseudo(start: &[u8], headers: &Headers) -> Option<Sum> {
    let addresses = match headers.l3 {
        L3::Ipv4 => headers.l3_at + 12..headers.l3_at + 20,
        L3::Ipv6 => headers.l3_at + 8..headers.l3_at + 40,
        L3::Other => return None,
    };
    let mut sum = Sum::of(start.get(addresses)?);
    sum.add_word(headers.l4_end.saturating_sub(headers.l4_at) as u16); // of an IP packet, so below 64 KiB
    sum.add_word(u16::from(match headers.l4 {
        L4::Tcp => TCP,
        L4::Udp => UDP,
        L4::Icmpv6 => ICMPV6,
        _ => return None,
    }));
    Some(sum)
}

#[inline(always)]
fn ipv4_header<'a>(start: &'a [u8], headers: &Headers) -> Option<&'a [u8]> {
    let header = start.get(headers.l3_at..)?;
    let bytes = usize::from(header.first()? & 0xf) * 4;
    header.get(..bytes).filter(|_| headers.l3 == L3::Ipv4 && bytes >= IPV4_BYTES)
}

#[inline(always)]
pub(crate) fn absent(headers: &Headers) -> Refusal {
    headers.malformed.map_or(Refusal::NoChecksum, Refusal::Malformed)
}
