//! The fields of a packet that flow rules can name, each in bits of its own, so that a look-up compares words.

use std::net::IpAddr;

use ccnic_control::flow::FlowMatch;
use ccnic_frame::headers::{ICMP, ICMPV6, SCTP, TCP, UDP};
use ccnic_frame::{Headers, L3, L4, Meta, vlan};

/// Words of a key.
pub(super) const WORDS: usize = 7;

/// Fields of a packet, or, as a mask, the fields that a rule names. What a packet does not have is zero, and a bit says of each
/// layer whether it is there: no rule about port 0 is about a packet without ports.
///
/// ```text
///   0  destination MAC, 16 bits left, EtherType       3, 4  source address, IPv4 in the low half of word 4
///   1  source MAC, 16 bits left, VLAN                 5, 6  destination address
///   2  ports, what is there, protocol
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Key(pub(super) [u64; WORDS]);

/// What is there, in word 2.
const HAS_MAC: u64 = 1 << 8;
const HAS_TYPE: u64 = 1 << 9;
const HAS_VLAN: u64 = 1 << 10;
const HAS_IP: u64 = 1 << 11;
const HAS_PROTOCOL: u64 = 1 << 12;
const HAS_PORTS: u64 = 1 << 13;

const MAC_SHIFT: u32 = 16;
const SRC_PORT_SHIFT: u32 = 48;
const DST_PORT_SHIFT: u32 = 32;
const MAC: u64 = 0xffff_ffff_ffff << MAC_SHIFT;
const SHORT: u64 = 0xffff;
const VLAN_ID: u64 = 0xfff;
const BYTE: u64 = 0xff;

impl Key {
    /// Of a packet of `len` bytes that begins with `start`, sent with the metadata `meta`.
    #[inline]
    pub fn of_packet(start: &[u8], len: usize, meta: u64) -> Key {
        let mut key = Key::default();
        let Some((addresses, _)) = start.split_first_chunk::<12>() else { return key };
        let [d0, d1, d2, d3, d4, d5, s0, s1, s2, s3, s4, s5] = *addresses;
        let headers = Headers::parse(start, len);
        let mut has = HAS_MAC;
        if start.len() >= 14 {
            has |= HAS_TYPE;
        }
        let tag = Meta::from_word(meta).vlan().or_else(|| vlan::outer(start)).map(|tag| tag.vid());
        let tag = tag.inspect(|_| has |= HAS_VLAN).unwrap_or(0);
        key.0[0] = u64::from_be_bytes([d0, d1, d2, d3, d4, d5, 0, 0]) | u64::from(headers.ether_type);
        key.0[1] = u64::from_be_bytes([s0, s1, s2, s3, s4, s5, 0, 0]) | u64::from(tag);
        let addresses = start.get(headers.l3_at..).unwrap_or_default();
        match headers.l3 {
            L3::Other => {}
            L3::Ipv4 => has |= key.ipv4(addresses),
            L3::Ipv6 => has |= key.ipv6(addresses),
        }
        key.0[2] = has | transport(&headers, start);
        key
    }

    fn ipv4(&mut self, header: &[u8]) -> u64 {
        let Some(header) = header.first_chunk::<20>() else { return 0 };
        let [.., s0, s1, s2, s3, d0, d1, d2, d3] = *header;
        self.0[4] = u32::from_be_bytes([s0, s1, s2, s3]).into();
        self.0[6] = u32::from_be_bytes([d0, d1, d2, d3]).into();
        HAS_IP
    }

    fn ipv6(&mut self, header: &[u8]) -> u64 {
        let (words, _) = header.get(8..40).unwrap_or_default().as_chunks::<8>();
        let [s0, s1, d0, d1] = *words else { return 0 };
        [self.0[3], self.0[4], self.0[5], self.0[6]] = [s0, s1, d0, d1].map(u64::from_be_bytes);
        HAS_IP
    }

    /// Of the packets that a rule is about: their fields, and the mask of those that the rule names.
    pub fn of_match(matches: &FlowMatch) -> (Key, Key) {
        let (mut key, mut mask) = (Key::default(), Key::default());
        let mut name = |word: usize, bits: u64, value: u64, has: u64| {
            key.0[word] |= value;
            mask.0[word] |= bits;
            key.0[2] |= has;
            mask.0[2] |= has;
        };
        let mac = |[a, b, c, d, e, f]: [u8; 6]| u64::from_be_bytes([a, b, c, d, e, f, 0, 0]);
        let FlowMatch { dst_mac, src_mac, vlan, protocol, src_ip, dst_ip, src_port, dst_port, .. } = *matches;
        dst_mac.into_iter().for_each(|it| name(0, MAC, mac(it), HAS_MAC));
        src_mac.into_iter().for_each(|it| name(1, MAC, mac(it), HAS_MAC));
        vlan.into_iter().for_each(|it| name(1, VLAN_ID, it.into(), HAS_VLAN));
        matches.any_ether_type().into_iter().for_each(|it| name(0, SHORT, it.into(), HAS_TYPE));
        protocol.into_iter().for_each(|it| name(2, BYTE, it.into(), HAS_PROTOCOL));
        for (at, ip) in [(3, src_ip), (5, dst_ip)].into_iter().filter_map(|(at, ip)| Some((at, ip?))) {
            let ip = match ip {
                IpAddr::V4(ip) => u32::from(ip).into(),
                IpAddr::V6(ip) => u128::from(ip),
            };
            name(at, u64::MAX, (ip >> 64) as u64, HAS_IP);
            name(at + 1, u64::MAX, ip as u64, HAS_IP);
        }
        for (shift, port) in [(SRC_PORT_SHIFT, src_port), (DST_PORT_SHIFT, dst_port)] {
            port.into_iter().for_each(|it| name(2, SHORT << shift, u64::from(it) << shift, HAS_PORTS));
        }
        (key, mask)
    }

    /// What is left of it under a mask.
    #[inline(always)]
    pub fn under(&self, mask: &Key) -> Key {
        let mut key = *self;
        key.0.iter_mut().zip(mask.0).for_each(|(word, mask)| *word &= mask);
        key
    }
}

/// Protocol and ports, of a packet that is no fragment.
#[inline]
fn transport(headers: &Headers, start: &[u8]) -> u64 {
    let protocol = match headers.l4 {
        L4::None | L4::Fragment => return 0,
        L4::Tcp => TCP,
        L4::Udp => UDP,
        L4::Sctp => SCTP,
        L4::Icmp => ICMP,
        L4::Icmpv6 => ICMPV6,
        L4::Other(other) => other,
    };
    let has = HAS_PROTOCOL | u64::from(protocol);
    let ports = start.get(headers.l4_at..).and_then(<[u8]>::first_chunk::<4>);
    match (headers.l4, ports) {
        (L4::Tcp | L4::Udp | L4::Sctp, Some([a, b, c, d])) => {
            let (source, destination) = (u16::from_be_bytes([*a, *b]), u16::from_be_bytes([*c, *d]));
            let ports = u64::from(source) << SRC_PORT_SHIFT | u64::from(destination) << DST_PORT_SHIFT;
            has | HAS_PORTS | ports
        }
        _ => has,
    }
}
