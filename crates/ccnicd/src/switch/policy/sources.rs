//! Which addresses a port may speak from: MAC addresses, and IP addresses wherever a frame claims one to be its sender's: in the IP header,
//! in ARP, in neighbour discovery.
//!
//! A port that is held to IP addresses is a host: it may not advertise routers or redirect others (RFC 4861), and a packet whose headers
//! cannot be followed to where a claim could be does not pass. What is neither IP nor ARP passes by its MAC address alone.

use std::net::{IpAddr, Ipv6Addr};

use ccnic_frame::headers::{ARP, FRAGMENT, ICMPV6, IPV4, IPV6, MAX_EXTENSIONS, ROUTING, TAGS, TCP, UDP};
use ccnic_frame::{Headers, L3, L4};

use crate::switch::Mac;

/// MAC control: PAUSE stops the port that it is sent to, also by that port's own address (IEEE 802.3, annex 31B).
const MAC_CONTROL: u16 = 0x8808;
/// EtherTypes that a host has no business with where they are no IP: what claims to be IP and is not; [`TAGS`], which are the type of a frame
/// with more of them than [`Headers`] passes over; MAC control.
const REFUSED: [u16; 6] = [IPV4, IPV6, TAGS[0], TAGS[1], TAGS[2], MAC_CONTROL];

/// The start of ARP for IPv4 over Ethernet: hardware 1, protocol 0x0800, lengths 6 and 4 (RFC 826).
const ARP_START: [u8; 6] = [0, 1, 8, 0, 6, 4];

/// Headers between that of IPv6 and the upper layer (IANA), and upper layers whose header is to be whole in a first fragment.
const HOP_BY_HOP: u8 = 0;
const AUTHENTICATION: u8 = 51;
const DESTINATION: u8 = 60;
const MOBILITY: u8 = 135;
const HIP: u8 = 139;
const SHIM6: u8 = 140;

/// ICMPv6 (RFC 4861): router solicitation and advertisement, neighbour solicitation and advertisement, redirect.
const ROUTER_SOLICITATION: u8 = 133;
const ROUTER_ADVERTISEMENT: u8 = 134;
const NEIGHBOUR_SOLICITATION: u8 = 135;
const NEIGHBOUR_ADVERTISEMENT: u8 = 136;
const REDIRECT: u8 = 137;
/// Reports of group members may come from no address (RFC 3590).
const MLD_REPORTS: [u8; 3] = [131, 132, 143];
/// Options that say what an address' link-layer address is: the source's, the target's.
const LINK_ADDRESSES: [u8; 2] = [1, 2];

/// The port of a DHCP server, to which a host speaks that has no address yet; those of clients, to which only servers and relays speak: a host
/// that is held to its addresses gives none to others (RFC 7610).
const DHCP_SERVER: [u8; 2] = [0, 67];
const DHCP_CLIENT: [u8; 2] = [0, 68];
const DHCPV6_CLIENT: [u8; 2] = [2, 34];

/// The addresses that begin with the same bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prefix {
    bits: u128,
    mask: u128,
}

impl Prefix {
    /// The addresses whose first `len` bits are those of `address`: 32 at most for IPv4, 128 for IPv6. `None` for more.
    pub fn new(address: IpAddr, len: u8) -> Option<Prefix> {
        let (bits, before) = match address {
            IpAddr::V4(v4) => (u128::from(v4.to_ipv6_mapped()), 96),
            IpAddr::V6(v6) => (u128::from(v6), 0),
        };
        let len = u32::from(len) + before;
        let mask = u128::MAX.checked_shl(128u32.checked_sub(len)?).unwrap_or(0);
        Some(Prefix { bits: bits & mask, mask })
    }

    /// What it was made from, with zeros behind the first `len` bits.
    pub fn parts(self) -> (IpAddr, u8) {
        let (address, len) = (Ipv6Addr::from(self.bits), self.mask.leading_ones() as u8);
        match address.to_ipv4_mapped() {
            Some(v4) if len >= 96 => (v4.into(), len - 96),
            _ => (address.into(), len),
        }
    }

    #[inline(always)]
    fn has(self, address: u128) -> bool {
        address & self.mask == self.bits
    }
}

/// The addresses of a port. Where there are none, all are allowed.
#[derive(Debug, Clone, Default)]
pub(in crate::switch) struct Sources {
    macs: Box<[Mac]>,
    prefixes: Box<[Prefix]>,
}

impl Sources {
    pub(in crate::switch) fn new(macs: &[Mac], prefixes: &[Prefix]) -> Sources {
        Sources { macs: macs.into(), prefixes: prefixes.into() }
    }

    /// True when it allows everything.
    pub(in crate::switch) fn is_open(&self) -> bool {
        self.macs.is_empty() && self.prefixes.is_empty()
    }

    /// True when more than the MAC address is to be looked at.
    #[inline(always)]
    pub(in crate::switch) fn looks_inside(&self) -> bool {
        !self.prefixes.is_empty()
    }

    /// True when a frame may come from this address.
    #[inline(always)]
    pub(in crate::switch) fn allows(&self, mac: Mac) -> bool {
        self.macs.is_empty() || self.macs.contains(&mac)
    }

    /// True when a frame of `len` bytes whose first ones are `start` ([`MAX_HEADERS`](ccnic_frame::MAX_HEADERS) of them, or all), and which
    /// comes from `mac`, claims no address but allowed ones.
    pub(in crate::switch) fn allows_frame(&self, mac: Mac, start: &[u8], len: usize) -> bool {
        let headers = Headers::parse(start, len);
        match headers.l3 {
            L3::Ipv4 => self.allows_ipv4(start, &headers),
            L3::Ipv6 => self.allows_ipv6(mac, start, &headers),
            L3::Other if headers.ether_type == ARP => {
                self.allows_arp(mac, start.get(headers.l3_at..).unwrap_or_default())
            }
            L3::Other => !REFUSED.contains(&headers.ether_type) && !is_snap(start, &headers),
        }
    }

    fn allows_ip(&self, address: IpAddr) -> bool {
        let bits = match address {
            IpAddr::V4(v4) => u128::from(v4.to_ipv6_mapped()),
            IpAddr::V6(v6) => u128::from(v6),
        };
        self.prefixes.iter().any(|prefix| prefix.has(bits))
    }

    fn allows_ipv4(&self, start: &[u8], headers: &Headers) -> bool {
        let Some(source) = chunk::<4>(start, headers.l3_at + 12) else { return false };
        let to = udp_of_ipv4(start, headers.l3_at).and_then(|udp| chunk(udp, 2));
        let asks_dhcp = || headers.l4 == L4::Udp && to == Some(DHCP_SERVER);
        (self.allows_ip(source.into()) || source == [0; 4] && asks_dhcp()) && to != Some(DHCP_CLIENT)
    }

    /// A probe for an address comes from none (RFC 5227).
    fn allows_arp(&self, mac: Mac, arp: &[u8]) -> bool {
        let sender = (chunk(arp, 8).map(Mac::new), chunk::<4>(arp, 14));
        let (Some(hardware), Some(address)) = sender else { return false };
        arp.starts_with(&ARP_START)
            && hardware == mac
            && (address == [0; 4] || self.allows_ip(address.into()))
    }

    fn allows_ipv6(&self, mac: Mac, start: &[u8], headers: &Headers) -> bool {
        let Some(source) = chunk::<16>(start, headers.l3_at + 8) else { return false };
        let icmp = start.get(headers.l4_at..headers.l4_end.min(start.len())).unwrap_or_default();
        let kind = icmp.first().filter(|_| headers.l4 == L4::Icmpv6);
        let from_none = || {
            let may = [ROUTER_SOLICITATION, NEIGHBOUR_SOLICITATION];
            source == [0; 16] && kind.is_some_and(|kind| may.contains(kind) || MLD_REPORTS.contains(kind))
        };
        if !self.allows_ip(source.into()) && !from_none() {
            return false;
        }
        match headers.l4 {
            L4::Icmpv6 => self.allows_icmpv6(mac, icmp, headers.l4_end <= start.len()),
            L4::Udp => chunk(start, headers.l4_at + 2) != Some(DHCPV6_CLIENT) && headers.malformed.is_none(),
            L4::Fragment | L4::Other(_) => self.allows_chain(mac, start, headers),
            _ => headers.malformed.is_none(),
        }
    }

    /// What is in a fragment, or behind headers that [`Headers`] does not follow (RFC 7113, section 3).
    ///
    /// A first fragment without the whole chain does not pass, so what comes after it becomes no packet. Neighbour discovery does not come in
    /// fragments, also not in one that is the whole packet (RFC 6980).
    fn allows_chain(&self, mac: Mac, start: &[u8], headers: &Headers) -> bool {
        let packet = start.get(headers.l3_at..headers.l3_end.min(start.len())).unwrap_or_default();
        match Chain::of(packet) {
            None => false,
            Some(Chain { later: true, .. }) => true,
            Some(Chain { protocol: ICMPV6, upper, fragment, .. }) => {
                let discovers = |kind: &u8| (ROUTER_SOLICITATION..=REDIRECT).contains(kind);
                if fragment && upper.first().is_some_and(discovers) {
                    return false;
                }
                self.allows_icmpv6(mac, upper, headers.l3_end <= start.len())
            }
            Some(Chain { protocol: UDP, upper, .. }) => chunk(upper, 2) != Some(DHCPV6_CLIENT),
            Some(_) => true,
        }
    }

    /// `icmp` is the `whole` message or its start.
    fn allows_icmpv6(&self, mac: Mac, icmp: &[u8], whole: bool) -> bool {
        let options = match icmp.first() {
            Some(&ROUTER_SOLICITATION) => 8,
            Some(&NEIGHBOUR_SOLICITATION) => 24,
            Some(&NEIGHBOUR_ADVERTISEMENT) => {
                let target = chunk::<16>(icmp, 8);
                if !target.is_some_and(|target| self.allows_ip(target.into())) {
                    return false;
                }
                24
            }
            Some(&(ROUTER_ADVERTISEMENT | REDIRECT)) | None => return false,
            Some(_) => return true,
        };
        claims_only(mac, icmp.get(options..).filter(|_| whole))
    }
}

/// What the chain of headers of an IPv6 packet leads to.
struct Chain<'a> {
    protocol: u8,
    /// From the header of that protocol on.
    upper: &'a [u8],
    /// It lies in a fragment.
    fragment: bool,
    /// In one that is not the first, where there is no chain to follow.
    later: bool,
}

impl Chain<'_> {
    /// Follows it; `None` where it does not end in the bytes that there are, or not soon.
    fn of(packet: &[u8]) -> Option<Chain<'_>> {
        let (mut protocol, mut rest) = (*packet.get(6)?, packet.get(40..)?);
        let mut fragment = false;
        for _ in 0..=MAX_EXTENSIONS {
            let header = || rest.first_chunk::<8>();
            let bytes = match protocol {
                HOP_BY_HOP | ROUTING | DESTINATION | MOBILITY | HIP | SHIM6 => {
                    (usize::from(header()?[1]) + 1) * 8
                }
                AUTHENTICATION => (usize::from(header()?[1]) + 2) * 4,
                FRAGMENT if fragment => return None,
                FRAGMENT => 8,
                _ => {
                    let upper = match protocol {
                        TCP => 20,
                        UDP => 8,
                        ICMPV6 => 4,
                        _ => 0,
                    };
                    return (rest.len() >= upper).then_some(Chain {
                        protocol,
                        upper: rest,
                        fragment,
                        later: false,
                    });
                }
            };
            let [next, _, high, low, ..] = *header()?;
            if protocol == FRAGMENT {
                fragment = true;
                if u16::from_be_bytes([high, low]) >> 3 != 0 {
                    return Some(Chain { protocol: next, upper: &[], fragment, later: true });
                }
            }
            (protocol, rest) = (next, rest.get(bytes..)?);
        }
        None
    }
}

/// True for a frame of IEEE 802.3 that has its type behind LLC and SNAP (RFC 1042): some receivers take what is in it for IP.
fn is_snap(start: &[u8], headers: &Headers) -> bool {
    const FIRST_ETHER_TYPE: u16 = 0x600;
    headers.ether_type < FIRST_ETHER_TYPE
        && start.get(headers.l3_at..).is_some_and(|llc| llc.starts_with(&[0xaa, 0xaa, 3]))
}

/// The UDP header in an IPv4 packet, also in one that is the first fragment of several: it lies there whole, as a fragment has eight bytes.
fn udp_of_ipv4(start: &[u8], at: usize) -> Option<&[u8]> {
    let packet = start.get(at..)?;
    let first = u16::from_be_bytes(chunk(packet, 6)?) & 0x1fff == 0;
    let header = usize::from(packet.first()? & 0xf) * 4;
    packet.get(header..).filter(|_| first && packet.get(9) == Some(&UDP))
}

/// True when all link-layer addresses in the options of neighbour discovery are this one.
fn claims_only(mac: Mac, options: Option<&[u8]>) -> bool {
    let Some(mut options) = options else { return false };
    while let [kind, eights, ..] = *options {
        let len = usize::from(eights) * 8;
        let (Some(option), true) = (options.get(..len), len > 0) else { return false };
        if LINK_ADDRESSES.contains(&kind) && (len != 8 || chunk(option, 2).map(Mac::new) != Some(mac)) {
            return false;
        }
        options = options.get(len..).unwrap_or_default();
    }
    true
}

/// The bytes at `at`.
fn chunk<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
    const OTHER: [u8; 6] = [2, 0, 0, 0, 0, 2];

    fn sources() -> Sources {
        let prefix = |address: &str, len| Prefix::new(address.parse().unwrap(), len).unwrap();
        let prefixes =
            [prefix("10.0.0.5", 32), prefix("10.1.0.0", 16), prefix("fd00::5", 128), prefix("fe80::", 64)];
        Sources::new(&[Mac::new(MAC)], &prefixes)
    }

    fn allows(frame: &[u8]) -> bool {
        let start = &frame[..frame.len().min(ccnic_frame::MAX_HEADERS)];
        sources().allows_frame(Mac::new(MAC), start, frame.len())
    }

    fn ethernet(kind: u16, payload: &[u8]) -> Vec<u8> {
        [&[0xff; 6][..], &MAC, &kind.to_be_bytes(), payload].concat()
    }

    fn v4(source: [u8; 4], protocol: u8, payload: &[u8]) -> Vec<u8> {
        let total = (20 + payload.len()) as u16;
        let [hi, lo] = total.to_be_bytes();
        let header = [0x45, 0, hi, lo, 0, 0, 0, 0, 64, protocol, 0, 0];
        ethernet(0x0800, &[&header[..], &source, &[10, 0, 0, 9], payload].concat())
    }

    fn v6(source: &str, next: u8, payload: &[u8]) -> Vec<u8> {
        let address = |text: &str| text.parse::<std::net::Ipv6Addr>().unwrap().octets();
        let [hi, lo] = (payload.len() as u16).to_be_bytes();
        let header = [0x60, 0, 0, 0, hi, lo, next, 255];
        ethernet(0x86dd, &[&header[..], &address(source), &address("ff02::1"), payload].concat())
    }

    fn arp(hardware: [u8; 6], address: [u8; 4]) -> Vec<u8> {
        ethernet(0x0806, &[&ARP_START[..], &[0, 1], &hardware, &address, &[0; 6], &[10, 0, 0, 1]].concat())
    }

    /// A message of neighbour discovery: its type, the target, options.
    fn nd(kind: u8, target: &str, options: &[u8]) -> Vec<u8> {
        let target = target.parse::<std::net::Ipv6Addr>().unwrap().octets();
        [&[kind, 0, 0, 0, 0, 0, 0, 0][..], &target, options].concat()
    }

    fn link(kind: u8, mac: [u8; 6]) -> Vec<u8> {
        [&[kind, 1][..], &mac].concat()
    }

    #[test]
    fn prefixes_of_both_families() {
        let has = |address: &str, len, other: &str| {
            let bits = match other.parse().unwrap() {
                IpAddr::V4(v4) => u128::from(v4.to_ipv6_mapped()),
                IpAddr::V6(v6) => u128::from(v6),
            };
            Prefix::new(address.parse().unwrap(), len).unwrap().has(bits)
        };
        assert!(has("10.0.0.5", 32, "10.0.0.5") && !has("10.0.0.5", 32, "10.0.0.4"));
        assert!(has("10.0.0.5", 8, "10.255.0.1") && !has("10.0.0.0", 8, "11.0.0.0"));
        assert!(has("0.0.0.0", 0, "1.2.3.4") && !has("0.0.0.0", 0, "fd00::1"), "all of IPv4 is none of IPv6");
        assert!(has("::", 0, "fd00::1") && has("fd00::", 8, "fdff::") && !has("fd00::", 8, "fe00::"));
        assert_eq!(Prefix::new("10.0.0.1".parse().unwrap(), 33), None);
        assert_eq!(Prefix::new("fd00::".parse().unwrap(), 129), None);
    }

    #[test]
    fn ipv4_and_arp() {
        assert!(allows(&v4([10, 0, 0, 5], 6, &[0; 20])) && allows(&v4([10, 1, 200, 7], 1, &[0; 8])));
        assert!(!allows(&v4([10, 0, 0, 6], 6, &[0; 20])) && !allows(&v4([255; 4], 17, &[0; 8])));
        let udp = |port: u8| [0, 68, 0, port, 0, 8, 0, 0];
        assert!(allows(&v4([0; 4], 17, &udp(67))), "DHCP");
        assert!(!allows(&v4([0; 4], 17, &udp(68))) && !allows(&v4([0; 4], 6, &[0, 68, 0, 67, 0, 0, 0, 0])));
        assert!(allows(&arp(MAC, [10, 0, 0, 5])) && allows(&arp(MAC, [0; 4])), "a probe");
        assert!(!allows(&arp(OTHER, [10, 0, 0, 5])) && !allows(&arp(MAC, [10, 0, 0, 1])));
        assert!(!allows(&arp(MAC, [10, 0, 0, 5])[..30]), "truncated");
        let mut odd = arp(MAC, [10, 0, 0, 5]);
        odd[17] = 6; // of another protocol
        assert!(!allows(&odd));
    }

    #[test]
    fn what_cannot_be_looked_into_does_not_pass_and_what_is_no_ip_does() {
        assert!(allows(&ethernet(0x88b5, &[1; 46])) && allows(&ethernet(0x88cc, &[])));
        assert!(!allows(&ethernet(0x0800, &[0x60; 46])), "another version");
        assert!(!allows(&ethernet(0x86dd, &[0x45; 46])) && !allows(&ethernet(0x0800, &[0x45; 10])));
        let tagged = |frame: &[u8], tags: usize| {
            [&frame[..12], &[0x81, 0, 0, 7].repeat(tags)[..], &frame[12..]].concat()
        };
        let (good, bad) = (v4([10, 0, 0, 5], 6, &[0; 20]), v4([10, 0, 0, 6], 6, &[0; 20]));
        for tags in 1..3 {
            assert!(allows(&tagged(&good, tags)) && !allows(&tagged(&bad, tags)), "{tags}");
        }
        assert!(!allows(&tagged(&good, 3)));
        let snap = [&[0xaa, 0xaa, 3, 0, 0, 0][..], &v4([10, 0, 0, 6], 6, &[0; 20])[12..]].concat();
        let snap = ethernet(snap.len() as u16, &snap);
        assert!(!allows(&snap) && !allows(&tagged(&snap, 1)), "IP behind LLC and SNAP");
        assert!(
            allows(&ethernet(38, &[&[0x42, 0x42, 3][..], &[0; 35]].concat())),
            "other frames with a length"
        );
        let pause = ethernet(0x8808, &[&[0, 1, 0xff, 0xff][..], &[0; 42]].concat());
        assert!(!allows(&pause) && !allows(&tagged(&pause, 1)), "it stops the port that it is sent to");
    }

    #[test]
    fn ipv6_and_neighbour_discovery() {
        assert!(
            allows(&v6("fd00::5", 17, &[0, 1, 0, 2, 0, 8, 0, 0]))
                && allows(&v6("fe80::99", 58, &[128, 0, 0, 0]))
        );
        assert!(!allows(&v6("fd00::6", 17, &[0, 1, 0, 2, 0, 8, 0, 0])));
        let solicit = |from, options: &[u8]| allows(&v6(from, 58, &nd(135, "fd00::1", options)));
        assert!(solicit("fd00::5", &link(1, MAC)) && solicit("fd00::5", &[]) && solicit("::", &[]));
        assert!(!solicit("fd00::5", &link(1, OTHER)) && !solicit("fd00::6", &link(1, MAC)));
        assert!(!solicit("fd00::5", &[14, 0, 1, 1, 1, 1, 1, 1]), "an option without length");
        assert!(!solicit("fd00::5", &[14, 2, 0, 0, 0, 0, 0, 0]), "beyond the end");
        let both = [&[14, 1, 0, 0, 0, 0, 0, 0][..], &link(2, OTHER)].concat();
        assert!(!solicit("fd00::5", &both), "behind another option");
        let advertise = |target, mac| allows(&v6("fd00::5", 58, &nd(136, target, &link(2, mac))));
        assert!(advertise("fd00::5", MAC) && !advertise("fd00::1", MAC) && !advertise("fd00::5", OTHER));
        assert!(!allows(&v6("fd00::5", 58, &[136, 0, 0, 0])), "truncated");
        assert!(
            !allows(&v6("fe80::1", 58, &[134; 16])) && !allows(&v6("fe80::1", 58, &nd(137, "fd00::5", &[])))
        );
        assert!(allows(&v6("fe80::1", 58, &[&[133, 0, 0, 0, 0, 0, 0, 0][..], &link(1, MAC)].concat())));
        assert!(
            allows(&v6("::", 58, &[143, 0, 0, 0, 0, 0, 0, 0])) && !allows(&v6("::", 58, &[128, 0, 0, 0]))
        );
        assert!(!allows(&v6("::", 17, &[0, 1, 0, 2, 0, 8, 0, 0])));
    }

    #[test]
    fn a_host_gives_no_addresses_to_others() {
        let to = |port: u16| [&[0, 67][..], &port.to_be_bytes(), &[0, 8, 0, 0]].concat();
        assert!(!allows(&v4([10, 0, 0, 5], 17, &to(68))) && allows(&v4([10, 0, 0, 5], 17, &to(67))));
        assert!(allows(&v4([10, 0, 0, 5], 6, &[to(68), vec![0x50; 12]].concat())), "TCP has other ports");
        let mut fragment = v4([10, 0, 0, 5], 17, &to(68));
        fragment[20] = 0x20; // more fragments
        assert!(!allows(&fragment), "the first of several");
        fragment[21] = 1;
        assert!(allows(&fragment), "a later one, without ports");
        let mut options = v4([10, 0, 0, 5], 17, &[vec![1; 4], to(68)].concat());
        options[14] = 0x46;
        assert!(!allows(&options), "behind options");
        let (to_client, to_server) = (to(546), to(547));
        assert!(!allows(&v6("fe80::1", 17, &to_client)) && allows(&v6("fe80::1", 17, &to_server)));
        for header in [60, 44] {
            let behind =
                |udp: &[u8]| allows(&v6("fe80::1", header, &[&[17, 0, 0, 0, 0, 0, 0, 0], udp].concat()));
            assert!(!behind(&to_client) && behind(&to_server), "behind options, in a fragment: {header}");
        }
    }

    #[test]
    fn extension_headers_hide_nothing() {
        let behind = |message: &[u8]| [&[58, 0, 5, 2, 0, 0, 1, 0][..], message].concat();
        let advertise = |target| nd(136, target, &link(2, MAC));
        assert!(allows(&v6("fd00::5", 0, &behind(&advertise("fd00::5")))));
        assert!(!allows(&v6("fd00::5", 0, &behind(&advertise("fd00::1")))));
        let many = [&[0; 8].repeat(9)[..], &advertise("fd00::1")].concat();
        assert!(!allows(&v6("fd00::5", 0, &many)), "more than anybody follows");
        let long = [&[58, 30][..], &[0; 246], &advertise("fd00::1")].concat();
        assert!(!allows(&v6("fd00::5", 60, &long)), "beyond what is looked at");
        let padded = |bytes: u8| {
            nd(136, "fd00::5", &[&[14, bytes / 8][..], &vec![0; usize::from(bytes) - 2]].concat())
        };
        assert!(
            allows(&v6("fd00::5", 58, &padded(176))) && !allows(&v6("fd00::5", 58, &padded(184))),
            "254 bytes and 262"
        );
        assert!(allows(&v6("fd00::5", 58, &[128; 900])), "a long ping");
    }

    /// RFC 7113 and RFC 6980: who has seen the first fragment of a packet has seen what it is, or there is no packet.
    #[test]
    fn fragments_hide_nothing() {
        let fragment = |next: u8, offset: u16, more: bool, data: &[u8]| {
            let [high, low] = (offset | u16::from(more)).to_be_bytes();
            allows(&v6("fe80::1", 44, &[&[next, 0, high, low, 0, 0, 0, 9][..], data].concat()))
        };
        let options = |next: u8, message: &[u8]| [&[next, 2][..], &[0; 22], message].concat();
        let solicit = nd(135, "fd00::9", &link(1, MAC));
        for kind in [133, 134, 135, 136, 137] {
            let message = [&[kind][..], &solicit[1..]].concat();
            assert!(!fragment(58, 0, false, &message), "{kind}, an atomic fragment");
            assert!(!fragment(58, 0, true, &message[..8]), "{kind}, the first of several");
            assert!(!fragment(60, 0, true, &options(58, &message[..8])), "{kind}, behind options");
            assert!(!allows(&v6(
                "fe80::1",
                60,
                &[&[44, 0, 0, 0, 0, 0, 0, 0, 58, 0, 0, 0, 0, 0, 0, 9][..], &message].concat()
            )));
        }
        assert!(!fragment(60, 0, true, &options(58, &[])), "the first one ends before the upper layer");
        assert!(!fragment(60, 0, true, &options(58, &[])[..16]), "the first one ends in an extension header");
        assert!(
            !fragment(58, 0, true, &[128])
                && !fragment(6, 0, true, &[1; 16])
                && !fragment(17, 0, true, &[1; 4])
        );
        assert!(!fragment(44, 0, true, &[58, 0, 0, 0, 0, 0, 0, 1, 134, 0, 0, 0]), "a fragment of a fragment");
        assert!(!fragment(51, 0, true, &[&[58, 4][..], &[0; 22], &[134, 0, 0, 0]].concat()), "behind AH");
        assert!(fragment(58, 8, true, &[134; 40]) && fragment(58, 8, false, &[134; 8]), "not the first");
        assert!(fragment(58, 0, true, &[128; 64]) && fragment(17, 0, false, &[7; 30]), "ping and UDP");
        assert!(fragment(6, 0, true, &[7; 24]) && fragment(60, 0, true, &options(17, &[7; 8])));
        // Headers that others follow, without a fragment.
        let behind = |next: u8, message: &[u8]| allows(&v6("fe80::1", next, message));
        let authenticated = |message: &[u8]| [&[58, 4][..], &[0; 22], message].concat();
        assert!(!behind(51, &authenticated(&nd(134, "fd00::5", &[]))));
        assert!(behind(51, &authenticated(&nd(136, "fd00::5", &link(2, MAC)))));
        assert!(!behind(51, &authenticated(&nd(136, "fd00::1", &link(2, MAC)))));
        assert!(!behind(135, &[&[58, 0, 0, 0, 0, 0, 0, 0][..], &nd(134, "fd00::5", &[])].concat()));
        assert!(behind(50, &[9; 30]) && behind(59, &[]) && behind(115, &[9; 30]));
    }

    #[test]
    fn macs_alone_and_none() {
        let any = Sources::default();
        assert!(any.is_open() && any.allows(Mac::new(OTHER)) && !any.looks_inside());
        let one = Sources::new(&[Mac::new(MAC)], &[]);
        assert!(
            !one.is_open()
                && one.allows(Mac::new(MAC))
                && !one.allows(Mac::new(OTHER))
                && !one.looks_inside()
        );
    }
}
