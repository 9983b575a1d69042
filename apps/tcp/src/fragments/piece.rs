//! A fragment, read from its frame (RFC 791 section 3.2, RFC 8200 section 4.5).

use std::net::IpAddr;

use ccnic_frame::headers::{FRAGMENT, ICMPV6, ROUTING, TCP, UDP};
use ccnic_frame::{Headers, L3, checksum};

use crate::udp::{ETHERNET, addresses};

/// Bytes of the header of IPv6 that makes a packet a fragment.
pub(super) const FRAGMENT_BYTES: usize = 8;
const IPV6_BYTES: usize = 40;
/// The longest IP packet: of IPv6, behind its fixed header.
const MOST: usize = 65_535;
/// Other headers behind that of IPv6 (IANA).
const HOP_BY_HOP: u8 = 0;
const AUTHENTICATION: u8 = 51;
const NOTHING: u8 = 59;
const DESTINATION: u8 = 60;
/// Extension headers that a first fragment is searched through, as `Headers` does.
const EXTENSIONS: usize = 8;

/// What the fragments of one packet have in common. IPv6 has no protocol in it: only the first fragment's counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) from: IpAddr,
    pub(crate) to: IpAddr,
    protocol: u8,
    id: u32,
}

/// A fragment that is sound in itself.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Piece<'a> {
    pub(crate) key: Key,
    /// Where its data belong in those of the packet.
    pub(crate) at: usize,
    /// Others follow.
    pub(crate) more: bool,
    pub(crate) data: &'a [u8],
    /// The headers in front of the data, Ethernet's, too, without that of the fragment.
    head: &'a [u8],
    /// Of IPv6: where in `head` the fragment's header is announced, and what follows that.
    next: Option<(usize, u8)>,
}

impl<'a> Piece<'a> {
    /// Reads a fragment from a frame without VLAN tags; `headers` are the frame's. `None` for one that is no part of any packet: empty, not
    /// the last and not of a multiple of eight bytes, beyond the longest packet, or a first one of IPv6 without the headers that say what the
    /// packet is (RFC 7112).
    pub(crate) fn read(frame: &'a [u8], headers: &Headers) -> Option<Piece<'a>> {
        let (from, to) = addresses(frame, headers)?;
        let data = frame.get(headers.l4_at..headers.l3_end)?;
        let short = |at: usize| Some(u16::from_be_bytes(*frame.get(at..)?.first_chunk()?));
        let piece = match headers.l3 {
            L3::Ipv4 => {
                let (id, word) = (short(headers.l3_at + 4)?, short(headers.l3_at + 6)?);
                let key = Key { from, to, protocol: *frame.get(headers.l3_at + 9)?, id: id.into() };
                let (at, more) = (usize::from(word & 0x1fff) * 8, word & 0x2000 != 0);
                Piece { key, at, more, data, head: frame.get(..headers.l4_at)?, next: None }
            }
            L3::Ipv6 => {
                let fragment = headers.l4_at.checked_sub(FRAGMENT_BYTES)?;
                let [protocol, _, a, b, id @ ..]: [u8; FRAGMENT_BYTES] =
                    *frame.get(fragment..)?.first_chunk()?;
                let key = Key { from, to, protocol: 0, id: u32::from_be_bytes(id) };
                let word = u16::from_be_bytes([a, b]);
                let (at, more) = (usize::from(word & 0xfff8), word & 1 != 0);
                let next = Some((announced_at(frame, headers.l3_at, fragment)?, protocol));
                Piece { key, at, more, data, head: frame.get(..fragment)?, next }
            }
            L3::Other => return None,
        };
        let aligned = !piece.more || data.len().is_multiple_of(8);
        let fits = piece.ip_len(piece.at + data.len()) <= MOST;
        let first = |(_, protocol)| piece.at > 0 || !piece.more || has_all_headers(protocol, data);
        (aligned && fits && !data.is_empty() && piece.next.is_none_or(first)).then_some(piece)
    }

    /// True for a packet in one fragment (RFC 6946).
    pub(crate) fn is_whole(&self) -> bool {
        self.at == 0 && !self.more
    }

    /// What the length field of a packet with so many bytes of data says.
    fn ip_len(&self, data: usize) -> usize {
        let uncounted = if self.next.is_some() { ETHERNET + IPV6_BYTES } else { ETHERNET };
        self.head.len() - uncounted + data
    }

    /// The headers of the packet that a first fragment begins, without its length.
    pub(crate) fn head(&self) -> Box<[u8]> {
        let mut head = Box::<[u8]>::from(self.head);
        match self.next {
            Some((at, protocol)) => head.iter_mut().skip(at).take(1).for_each(|to| *to = protocol),
            None => head.iter_mut().skip(ETHERNET + 6).take(2).for_each(|flags| *flags = 0),
        }
        head
    }
}

/// A frame of these headers and data, with its length. `None` when it would be longer than the longest packet.
pub(crate) fn whole<'a>(head: &[u8], data: impl Iterator<Item = &'a [u8]>, len: usize) -> Option<Vec<u8>> {
    let mut frame = Vec::with_capacity(head.len() + len);
    frame.extend_from_slice(head);
    data.for_each(|part| frame.extend_from_slice(part));
    let ipv4 = head.get(12..ETHERNET) == Some(&[8, 0]);
    let (at, fixed) = if ipv4 { (ETHERNET + 2, 0) } else { (ETHERNET + 4, IPV6_BYTES) };
    let bytes = u16::try_from(frame.len().checked_sub(ETHERNET + fixed)?).ok()?;
    frame.get_mut(at..at + 2)?.copy_from_slice(&bytes.to_be_bytes());
    if ipv4 {
        let headers = Headers::parse(&frame, frame.len());
        checksum::fill_ipv4(&mut frame, &headers).ok()?;
    }
    Some(frame)
}

/// Where the header before that of the fragment says that it follows.
fn announced_at(frame: &[u8], l3_at: usize, fragment: usize) -> Option<usize> {
    let (mut field, mut at) = (l3_at + 6, l3_at + IPV6_BYTES);
    while at < fragment {
        field = at;
        at += (usize::from(*frame.get(at + 1)?) + 1) * 8;
    }
    (at == fragment && frame.get(field) == Some(&FRAGMENT)).then_some(field)
}

/// True when data that begin with this header have all headers up to that of the transport layer, and that one whole (RFC 7112). A fragment
/// of a fragment has not.
fn has_all_headers(mut next: u8, mut data: &[u8]) -> bool {
    for _ in 0..=EXTENSIONS {
        let words = usize::from(data.get(1).copied().unwrap_or_default());
        let len = match next {
            HOP_BY_HOP | ROUTING | DESTINATION => (words + 1) * 8,
            AUTHENTICATION => (words + 2) * 4,
            FRAGMENT => return false,
            TCP => return data.get(12).is_some_and(|offset| usize::from(offset >> 4) * 4 <= data.len()),
            UDP | ICMPV6 => return data.len() >= 8,
            NOTHING => return true,
            _ => return !data.is_empty(),
        };
        let Some((header, rest)) = data.split_at_checked(len) else { return false };
        (next, data) = (header.first().copied().unwrap_or_default(), rest);
    }
    false
}
