//! Finds the headers of a frame, in one pass.
//!
//! Ethernet II with up to two VLAN tags, IPv4 with options, IPv6 with extension headers, TCP, UDP, SCTP, ICMP. What has
//! been recognised is said even where the rest is malformed: a switch forwards such a frame by its addresses, and
//! nobody computes a checksum that it does not have. The kinds are those of DPDK's `rte_net_get_ptype`.
//!
//! Only the first [`MAX_HEADERS`] bytes are read.

use core::fmt;

use crate::bytes::short;

/// Bytes of a frame that are read. Ethernet, two tags, the longest IPv4 and TCP header take 142; IPv6 with 128 bytes of extension
/// headers and the longest TCP header fit, too.
pub const MAX_HEADERS: usize = 256;
/// Extension headers of IPv6 that are passed over.
pub const MAX_EXTENSIONS: usize = 8;

/// EtherType of IPv4.
pub const IPV4: u16 = 0x0800;
/// EtherType of IPv6.
pub const IPV6: u16 = 0x86dd;
/// EtherType of ARP.
pub const ARP: u16 = 0x0806;
/// EtherTypes of VLAN tags: IEEE 802.1Q, 802.1ad, and the one of older switches (as `ccnic::rss` knows them).
pub const TAGS: [u16; 3] = [0x8100, 0x88a8, 0x9100];

/// Protocol number (IANA) of ICMP.
pub const ICMP: u8 = 1;
/// Protocol number of TCP.
pub const TCP: u8 = 6;
/// Protocol number of UDP.
pub const UDP: u8 = 17;
/// Number of the routing header of IPv6.
pub const ROUTING: u8 = 43;
/// Number of the header of an IPv6 fragment.
pub const FRAGMENT: u8 = 44;
/// Protocol number of ICMPv6.
pub const ICMPV6: u8 = 58;
/// Protocol number of SCTP.
pub const SCTP: u8 = 132;
/// Hop-by-hop options, routing, destination options (RFC 8200): headers of eight bytes and a number of eight more.
const EXTENSIONS: [u8; 3] = [0, ROUTING, 60];

/// Bytes of headers without their options.
pub(crate) const IPV4_BYTES: usize = 20;
pub(crate) const IPV6_BYTES: usize = 40;
const TCP_BYTES: usize = 20;
pub(crate) const UDP_BYTES: usize = 8;
const ICMP_BYTES: usize = 4;
const SCTP_BYTES: usize = 12;

/// The network layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum L3 {
    /// Not IP, or malformed. `Headers::ether_type` says more.
    #[default]
    Other,
    /// IPv4.
    Ipv4,
    /// IPv6.
    Ipv6,
}

/// The transport layer, of a packet that is no fragment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum L4 {
    /// None that was recognised: not IP, or malformed.
    #[default]
    None,
    /// A fragment, also the first one: what lies in it is no whole segment or datagram.
    Fragment,
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
    /// ICMP, over IPv4.
    Icmp,
    /// ICMPv6, over IPv6.
    Icmpv6,
    /// Another protocol, by its number.
    Other(u8),
}

/// Why the headers of a frame were not followed to their end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Malformed {
    /// A header extends beyond the frame, beyond what the header before it says, or beyond [`MAX_HEADERS`].
    Truncated,
    /// The EtherType and the version of the IP header differ.
    IpVersion,
    /// The length of an IPv4 header is less than 20.
    Ipv4HeaderLength,
    /// The total length of IPv4 is less than its header, or the length of an IP packet more than the frame.
    IpLength,
    /// More than [`MAX_EXTENSIONS`] extension headers of IPv6.
    Ipv6Extensions,
    /// The length of a TCP header is less than 20.
    TcpHeaderLength,
    /// The length of UDP is less than its header, or more than the IP packet.
    UdpLength,
}

impl Malformed {
    /// The reason in words, for a counter or a log.
    pub const fn as_str(self) -> &'static str {
        match self {
            Malformed::Truncated => "a header is truncated",
            Malformed::IpVersion => "the IP version is not that of the EtherType",
            Malformed::Ipv4HeaderLength => "the IPv4 header length is below 20",
            Malformed::IpLength => "the IP length does not fit the frame",
            Malformed::Ipv6Extensions => "too many IPv6 extension headers",
            Malformed::TcpHeaderLength => "the TCP header length is below 20",
            Malformed::UdpLength => "the UDP length does not fit the packet",
        }
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl core::error::Error for Malformed {}

/// Where the headers of a frame are. Offsets are from the frame's first byte.
///
/// ```
/// use ccnic_frame::{Headers, L3, L4};
///
/// let mut frame = [0; 60]; // Ethernet, IPv4 of 40 bytes, UDP of 20, and padding
/// frame[12..24].copy_from_slice(&[8, 0, 0x45, 0, 0, 40, 0, 0, 0, 0, 64, 17]);
/// frame[39] = 20;
/// let headers = Headers::parse(&frame, frame.len());
/// assert_eq!((headers.l3, headers.l3_at, headers.l4, headers.l4_at), (L3::Ipv4, 14, L4::Udp, 34));
/// assert_eq!((headers.payload_at, headers.l4_end, headers.malformed), (42, 54, None));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Headers {
    /// VLAN tags in the frame, at most two.
    pub tags: u8,
    /// The EtherType behind the tags; below 1536, the length of an IEEE 802.3 frame. 0 where the frame is too short for one.
    pub ether_type: u16,
    /// The network layer.
    pub l3: L3,
    /// The transport layer.
    pub l4: L4,
    /// Where the network layer begins, behind the EtherType.
    pub l3_at: usize,
    /// Where the transport layer, or a fragment's data, begin: behind options and extension headers. 0 where there is none.
    pub l4_at: usize,
    /// Where the payload of TCP, UDP and other known transport layers begins; of others, `l4_at`.
    pub payload_at: usize,
    /// Where the IP packet ends by its own length. The frame may go on, with padding.
    pub l3_end: usize,
    /// Where the transport layer ends: where UDP says, else the IP packet.
    pub l4_end: usize,
    /// An IPv6 routing header has segments left: the address of the pseudo header is in there (RFC 8200 section 8.1).
    pub source_routed: bool,
    /// Why the rest was not recognised.
    pub malformed: Option<Malformed>,
}

impl Headers {
    /// Parses a frame of `len` bytes of which `start` are the first [`MAX_HEADERS`], or more, or all that it has.
    #[inline]
    pub fn parse(start: &[u8], len: usize) -> Headers {
        let start = start.get(..len.min(MAX_HEADERS)).unwrap_or(start);
        let mut headers = Headers::default();
        headers.malformed = headers.ethernet(start, len).err();
        headers
    }

    /// True for IPv4 with options and IPv6 with extension headers (`RTE_PTYPE_L3_IPV4_EXT`, `RTE_PTYPE_L3_IPV6_EXT`).
    #[inline(always)]
    pub const fn has_extensions(&self) -> bool {
        let fixed = match self.l3 {
            L3::Other => return false,
            L3::Ipv4 => IPV4_BYTES,
            L3::Ipv6 => IPV6_BYTES,
        };
        self.l4_at > self.l3_at + fixed
    }

    /// Where the checksum of the transport layer is; `None` for fragments, source-routed packets, and protocols whose checksum
    /// nobody offloads.
    #[inline(always)]
    pub const fn l4_checksum_at(&self) -> Option<usize> {
        match self.l4 {
            _ if self.source_routed => None,
            L4::Tcp => Some(self.l4_at + 16),
            L4::Udp => Some(self.l4_at + 6),
            L4::Icmpv6 => Some(self.l4_at + 2),
            _ => None,
        }
    }

    #[inline(always)]
    fn ethernet(&mut self, start: &[u8], len: usize) -> Result<(), Malformed> {
        let mut at = 12;
        let mut kind = short(start, at).ok_or(Malformed::Truncated)?;
        while self.tags < 2 && TAGS.contains(&kind) {
            self.tags += 1;
            at += 4;
            kind = short(start, at).ok_or(Malformed::Truncated)?;
        }
        self.ether_type = kind;
        self.l3_at = at + 2;
        match kind {
            IPV4 => self.ipv4(start, len),
            IPV6 => self.ipv6(start, len),
            _ => Ok(()),
        }
    }

    #[inline(always)]
    fn ipv4(&mut self, start: &[u8], len: usize) -> Result<(), Malformed> {
        let header: &[u8; IPV4_BYTES] =
            start.get(self.l3_at..).and_then(<[u8]>::first_chunk).ok_or(Malformed::Truncated)?;
        if header[0] >> 4 != 4 {
            return Err(Malformed::IpVersion);
        }
        let bytes = usize::from(header[0] & 0xf) * 4;
        if bytes < IPV4_BYTES {
            return Err(Malformed::Ipv4HeaderLength);
        }
        if self.l3_at + bytes > start.len() {
            return Err(Malformed::Truncated);
        }
        self.l3 = L3::Ipv4;
        let total = usize::from(u16::from_be_bytes([header[2], header[3]]));
        if total < bytes || self.l3_at + total > len {
            return Err(Malformed::IpLength);
        }
        self.l3_end = self.l3_at + total;
        // More fragments, or not the first (RFC 791).
        let fragment = u16::from_be_bytes([header[6], header[7]]) & 0x3fff != 0;
        self.transport(start, self.l3_at + bytes, header[9], fragment)
    }

    #[inline(always)]
    fn ipv6(&mut self, start: &[u8], len: usize) -> Result<(), Malformed> {
        let header: &[u8; IPV6_BYTES] =
            start.get(self.l3_at..).and_then(<[u8]>::first_chunk).ok_or(Malformed::Truncated)?;
        if header[0] >> 4 != 6 {
            return Err(Malformed::IpVersion);
        }
        self.l3 = L3::Ipv6;
        let mut at = self.l3_at + IPV6_BYTES;
        let end = at + usize::from(u16::from_be_bytes([header[4], header[5]]));
        if end > len {
            return Err(Malformed::IpLength);
        }
        self.l3_end = end;
        let packet = start.get(..end).unwrap_or(start);
        let mut next = header[6];
        for _ in 0..=MAX_EXTENSIONS {
            if next != FRAGMENT && !EXTENSIONS.contains(&next) {
                return self.transport(start, at, next, false);
            }
            let [following, words, _, left] =
                *packet.get(at..).and_then(<[u8]>::first_chunk).ok_or(Malformed::Truncated)?;
            if next == FRAGMENT {
                return self.transport(start, at + 8, next, true);
            }
            self.source_routed |= next == ROUTING && left != 0;
            at += (usize::from(words) + 1) * 8;
            next = following;
        }
        Err(Malformed::Ipv6Extensions)
    }

    /// The transport layer at `at`, whose IP packet ends at `l3_end`.
    #[inline(always)]
    fn transport(&mut self, start: &[u8], at: usize, protocol: u8, fragment: bool) -> Result<(), Malformed> {
        let packet = start.get(..self.l3_end).unwrap_or(start);
        let bytes = packet.get(at..).ok_or(Malformed::Truncated)?;
        let mut end = self.l3_end;
        let (l4, header) = match protocol {
            _ if fragment => (L4::Fragment, 0),
            TCP => {
                let offset = *bytes.get(12).ok_or(Malformed::Truncated)?;
                let header = usize::from(offset >> 4) * 4;
                if header < TCP_BYTES {
                    return Err(Malformed::TcpHeaderLength);
                }
                (L4::Tcp, header)
            }
            UDP => {
                let length = usize::from(short(bytes, 4).ok_or(Malformed::Truncated)?);
                if length < UDP_BYTES || at + length > end {
                    return Err(Malformed::UdpLength);
                }
                end = at + length;
                (L4::Udp, UDP_BYTES)
            }
            SCTP => (L4::Sctp, SCTP_BYTES),
            ICMP if self.l3 == L3::Ipv4 => (L4::Icmp, ICMP_BYTES),
            ICMPV6 if self.l3 == L3::Ipv6 => (L4::Icmpv6, ICMP_BYTES),
            other => (L4::Other(other), 0),
        };
        if header > bytes.len() {
            return Err(Malformed::Truncated);
        }
        (self.l4, self.l4_at, self.payload_at, self.l4_end) = (l4, at, at + header, end);
        Ok(())
    }
}
