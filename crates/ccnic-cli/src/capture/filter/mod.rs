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
//! **What is malformed matches as there**: fields are read where they would be, and no length is checked, so `tcp port 80` finds a packet
//! that claims to be longer than it is. A packet that ends before a field that the filter asks for does not match, also behind `not`.
//!
//! (Of the crates that compile such filters without C, none has been used by others yet; libpcap would be a C library for the sake of a
//! page of comparisons.)

mod parse;
#[cfg(test)]
mod tests;

use std::fmt;
use std::net::IpAddr;

use ccnic_frame::headers::{ARP, FRAGMENT, IPV4, IPV6, SCTP, TAGS, TCP, UDP};

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

/// It has its addresses where ARP has them.
const RARP: u16 = 0x8035;

/// A packet that is looked at.
struct Packet<'a> {
    frame: &'a [u8],
    len: usize,
    tags: usize,
    /// The EtherType behind the tags; `None`: it ends before.
    kind: Option<u16>,
    /// Where the network layer begins.
    at: usize,
}

impl Filter {
    /// True for a packet of `len` bytes that begins with these.
    pub fn matches(&self, frame: &[u8], len: usize) -> bool {
        let Some(expr) = &self.0 else { return true };
        expr.matches(&Packet::new(frame, len)) == Some(true)
    }
}

/// `None`: the packet ends before what is asked for, and does not match, whatever else is asked.
impl Expr {
    fn matches(&self, packet: &Packet<'_>) -> Option<bool> {
        Some(match self {
            Expr::And(a, b) => a.matches(packet)? && b.matches(packet)?,
            Expr::Or(a, b) => a.matches(packet)? || b.matches(packet)?,
            Expr::Not(a) => !a.matches(packet)?,
            Expr::Is(primitive) => primitive.matches(packet)?,
        })
    }
}

impl Primitive {
    fn matches(&self, packet: &Packet<'_>) -> Option<bool> {
        Some(match *self {
            Primitive::Net { side, address, bits } => {
                let Some([source, destination]) = packet.addresses(address.is_ipv4())? else {
                    return Some(false);
                };
                let is_in = |at| packet.begins(at, address, bits);
                return side.any(|| is_in(source), || is_in(destination));
            }
            Primitive::Port { side, from, to } => {
                let Some(at) = packet.ports()? else { return Some(false) };
                let is_in = |at| Some((from..=to).contains(&packet.short(at)?));
                return side.any(|| is_in(at), || is_in(at + 2));
            }
            Primitive::Ether { side, mac } => {
                return side.any(|| Some(packet.bytes(6)? == mac), || Some(packet.bytes(0)? == mac));
            }
            Primitive::EtherType(kind) => packet.kind? == kind,
            Primitive::Protocol(number) => return packet.carries(number),
            Primitive::Vlan(id) => {
                packet.kind?;
                packet.tags > 0 && id.map_or(Some(true), |id| Some(packet.short(14)? & 0xfff == id))?
            }
            Primitive::Less(most) => packet.len <= most as usize,
            Primitive::Greater(least) => packet.len >= least as usize,
            Primitive::Broadcast => packet.bytes(0)? == [0xff; 6],
            Primitive::Multicast => packet.byte(0)? & 1 != 0,
        })
    }
}

impl Side {
    /// The destination is asked for where the source does not say it.
    fn any(
        self,
        source: impl FnOnce() -> Option<bool>,
        destination: impl FnOnce() -> Option<bool>,
    ) -> Option<bool> {
        match self {
            Side::Source => source(),
            Side::Destination => destination(),
            Side::Either => Some(source()? || destination()?),
        }
    }
}

impl Packet<'_> {
    fn new(frame: &[u8], len: usize) -> Packet<'_> {
        let mut packet = Packet { frame, len, tags: 0, kind: None, at: 14 };
        packet.kind = packet.short(12);
        while packet.tags < 2 && packet.kind.is_some_and(|kind| TAGS.contains(&kind)) {
            packet.kind = packet.short(packet.at + 2);
            packet.tags += 1;
            packet.at += 4;
        }
        packet
    }

    fn bytes<const N: usize>(&self, at: usize) -> Option<[u8; N]> {
        self.frame.get(at..)?.first_chunk().copied()
    }

    fn byte(&self, at: usize) -> Option<u8> {
        self.frame.get(at).copied()
    }

    fn short(&self, at: usize) -> Option<u16> {
        self.bytes(at).map(u16::from_be_bytes)
    }

    /// Where source and destination are, also of ARP, if it has addresses of that version.
    fn addresses(&self, v4: bool) -> Option<Option<[usize; 2]>> {
        let at = self.at;
        Some(match self.kind? {
            IPV4 if v4 => Some([at + 12, at + 16]),
            ARP | RARP if v4 => Some([at + 14, at + 24]),
            IPV6 if !v4 => Some([at + 8, at + 24]),
            _ => None,
        })
    }

    /// True when the address there has the first `bits` bits of `net`. Words that do not matter need not be there.
    fn begins(&self, at: usize, net: IpAddr, bits: u8) -> Option<bool> {
        let net = match net {
            IpAddr::V4(v4) => u128::from(v4.to_bits()) << 96,
            IpAddr::V6(v6) => v6.to_bits(),
        };
        for word in 0..usize::from(bits).div_ceil(32) {
            let left = (usize::from(bits) - 32 * word).min(32);
            let wanted = (net >> (96 - 32 * word)) as u32;
            let found = u32::from_be_bytes(self.bytes(at + 4 * word)?);
            if (found ^ wanted) >> (32 - left) != 0 {
                return Some(false);
            }
        }
        Some(true)
    }

    /// Where the source port is: in a first fragment, too, and of IPv6 without extension headers.
    fn ports(&self) -> Option<Option<usize>> {
        let (at, has_ports) = (self.at, |protocol| [TCP, UDP, SCTP].contains(&protocol));
        Some(match self.kind? {
            IPV4 if has_ports(self.byte(at + 9)?) && self.short(at + 6)? & 0x1fff == 0 => {
                Some(at + usize::from(self.byte(at)? & 0xf) * 4)
            }
            IPV6 if has_ports(self.byte(at + 6)?) => Some(at + 40),
            _ => None,
        })
    }

    /// True when the header of IP names this protocol, or that of a fragment behind the one of IPv6.
    fn carries(&self, number: u8) -> Option<bool> {
        let at = self.at;
        Some(match self.kind? {
            IPV4 => self.byte(at + 9)? == number,
            IPV6 => {
                let next = self.byte(at + 6)?;
                next == number || next == FRAGMENT && self.byte(at + 40)? == number
            }
            _ => false,
        })
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
