//! Filters of packets, in the syntax of pcap-filter(7): the part of it that people type.
//!
//! | file | contents |
//! |---|---|
//! | this one | [`Filter`]: what an expression is, and whether a packet matches |
//! | `parse.rs` | the text |
//!
//! Known: `[src|dst] host|net|port|portrange`, `ether [src|dst] host`, `ether proto`, `[ip|ip6] proto`, `ip`, `ip6`, `arp`, `tcp`, `udp`,
//! `sctp`, `icmp`, `icmp6`, `vlan [ID]`, `less`, `greater`, `broadcast`, `multicast`; `and`, `or`, `not`, `&&`, `||`, `!`, parentheses. As
//! there, `and` and `or` bind equally and from the left, `not` most. Otherwise than there, everything looks behind VLAN tags, so that
//! `host 10.0.0.1` finds tagged packets, too, and what is behind `vlan` is read as what is before it.
//!
//! (Of the crates that compile such filters without C, none has been used by others yet; libpcap would be a C library for the sake of a
//! page of comparisons.)

mod parse;
#[cfg(test)]
mod tests;

use std::fmt;
use std::net::IpAddr;

use ccnic_frame::{Headers, L3, L4, MAX_HEADERS, vlan};

/// Which packets are captured.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Filter(Option<Expr>);

/// An expression.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Expr {
    And(Box<Expr>, Box<Expr>),
    Or(Box<Expr>, Box<Expr>),
    Not(Box<Expr>),
    Is(Primitive),
}

/// What a packet is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Primitive {
    /// An IP address, or one of a network, also in ARP.
    Net {
        side: Side,
        address: IpAddr,
        bits: u8,
    },
    /// A port of TCP, UDP or SCTP, or one of a range.
    Port {
        side: Side,
        from: u16,
        to: u16,
    },
    Ether {
        side: Side,
        mac: [u8; 6],
    },
    EtherType(u16),
    /// IP of either version with this protocol inside, which may be a fragment.
    Protocol(u8),
    Vlan(Option<u16>),
    /// Of so many bytes at most.
    Less(u32),
    /// Of so many bytes at least.
    Greater(u32),
    Broadcast,
    Multicast,
}

/// Which end of a packet's way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Source,
    Destination,
    Either,
}

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const ARP: u16 = 0x0806;

/// A packet that is looked at.
struct Packet<'a> {
    frame: &'a [u8],
    len: usize,
    headers: Headers,
}

impl Filter {
    /// True for a packet of `len` bytes that begins with these.
    pub fn matches(&self, frame: &[u8], len: usize) -> bool {
        let Some(expr) = &self.0 else { return true };
        let start = frame.get(..MAX_HEADERS).unwrap_or(frame);
        expr.matches(&Packet { frame, len, headers: Headers::parse(start, len) })
    }
}

impl Expr {
    fn matches(&self, packet: &Packet<'_>) -> bool {
        match self {
            Expr::And(a, b) => a.matches(packet) && b.matches(packet),
            Expr::Or(a, b) => a.matches(packet) || b.matches(packet),
            Expr::Not(a) => !a.matches(packet),
            Expr::Is(primitive) => primitive.matches(packet),
        }
    }
}

impl Primitive {
    fn matches(&self, packet: &Packet<'_>) -> bool {
        match *self {
            Primitive::Net { side, address, bits } => {
                let is_in = |other: Option<IpAddr>| other.is_some_and(|other| in_net(other, address, bits));
                let [source, destination] = packet.addresses();
                side.any(is_in(source), is_in(destination))
            }
            Primitive::Port { side, from, to } => {
                let is_in = |port: Option<u16>| port.is_some_and(|port| (from..=to).contains(&port));
                let [source, destination] = packet.ports();
                side.any(is_in(source), is_in(destination))
            }
            Primitive::Ether { side, mac } => {
                side.any(packet.bytes(6) == Some(mac), packet.bytes(0) == Some(mac))
            }
            Primitive::EtherType(kind) => packet.headers.ether_type == kind,
            Primitive::Protocol(number) => packet.protocol() == Some(number),
            Primitive::Vlan(id) => {
                let tci = vlan::outer(packet.frame);
                packet.headers.tags > 0 && id.is_none_or(|id| tci.is_some_and(|tci| tci.vid() == id))
            }
            Primitive::Less(most) => packet.len <= most as usize,
            Primitive::Greater(least) => packet.len >= least as usize,
            Primitive::Broadcast => packet.bytes(0) == Some([0xff; 6]),
            Primitive::Multicast => packet.frame.first().is_some_and(|byte| byte & 1 != 0),
        }
    }
}

impl Side {
    fn any(self, source: bool, destination: bool) -> bool {
        match self {
            Side::Source => source,
            Side::Destination => destination,
            Side::Either => source || destination,
        }
    }
}

impl Packet<'_> {
    fn bytes<const N: usize>(&self, at: usize) -> Option<[u8; N]> {
        self.frame.get(at..)?.first_chunk().copied()
    }

    /// Source and destination, also of ARP.
    fn addresses(&self) -> [Option<IpAddr>; 2] {
        let at = self.headers.l3_at;
        let v4 = |at| self.bytes::<4>(at).map(IpAddr::from);
        let v6 = |at| self.bytes::<16>(at).map(IpAddr::from);
        match self.headers.l3 {
            L3::Ipv4 => [v4(at + 12), v4(at + 16)],
            L3::Ipv6 => [v6(at + 8), v6(at + 24)],
            // Ethernet and IPv4 (RFC 826).
            L3::Other if self.headers.ether_type == ARP && self.bytes(at) == Some([0, 1, 8, 0, 6, 4]) => {
                [v4(at + 14), v4(at + 24)]
            }
            L3::Other => [None, None],
        }
    }

    fn ports(&self) -> [Option<u16>; 2] {
        match self.headers.l4 {
            L4::Tcp | L4::Udp | L4::Sctp => {
                [0, 2].map(|at| self.bytes(self.headers.l4_at + at).map(u16::from_be_bytes))
            }
            _ => [None, None],
        }
    }

    /// What is in IP, where its header says so.
    fn protocol(&self) -> Option<u8> {
        let known = match self.headers.l4 {
            L4::Tcp => Some(6),
            L4::Udp => Some(17),
            L4::Sctp => Some(132),
            L4::Icmp => Some(1),
            L4::Icmpv6 => Some(58),
            L4::Other(number) => Some(number),
            L4::None | L4::Fragment => None,
        };
        let of_header = match self.headers.l3 {
            L3::Ipv4 => 9,
            L3::Ipv6 => 6,
            L3::Other => return None,
        };
        known.or_else(|| self.frame.get(self.headers.l3_at + of_header).copied())
    }
}

/// True when `address` has the first `bits` bits of `net`.
fn in_net(address: IpAddr, net: IpAddr, bits: u8) -> bool {
    let shift = |width: u32| width.saturating_sub(bits.into());
    match (address, net) {
        (IpAddr::V4(a), IpAddr::V4(b)) => {
            (a.to_bits() ^ b.to_bits()).checked_shr(shift(32)).unwrap_or(0) == 0
        }
        (IpAddr::V6(a), IpAddr::V6(b)) => {
            (a.to_bits() ^ b.to_bits()).checked_shr(shift(128)).unwrap_or(0) == 0
        }
        _ => false,
    }
}

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Expr::And(a, b) => write!(f, "({a} and {b})"),
            Expr::Or(a, b) => write!(f, "({a} or {b})"),
            Expr::Not(a) => write!(f, "not {a}"),
            Expr::Is(primitive) => write!(f, "{primitive}"),
        }
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Side::Source => "src ",
            Side::Destination => "dst ",
            Side::Either => "",
        })
    }
}

impl fmt::Display for Primitive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Primitive::Net { side, address, bits } => write!(f, "{side}net {address}/{bits}"),
            Primitive::Port { side, from, to } if from == to => write!(f, "{side}port {from}"),
            Primitive::Port { side, from, to } => write!(f, "{side}portrange {from}-{to}"),
            Primitive::Ether { side, mac } => {
                write!(f, "ether {side}host {}", mac.map(|byte| format!("{byte:02x}")).join(":"))
            }
            Primitive::EtherType(kind) => write!(f, "ether proto {kind:#06x}"),
            Primitive::Protocol(number) => write!(f, "proto {number}"),
            Primitive::Vlan(None) => f.write_str("vlan"),
            Primitive::Vlan(Some(id)) => write!(f, "vlan {id}"),
            Primitive::Less(most) => write!(f, "less {most}"),
            Primitive::Greater(least) => write!(f, "greater {least}"),
            Primitive::Broadcast => f.write_str("broadcast"),
            Primitive::Multicast => f.write_str("multicast"),
        }
    }
}
