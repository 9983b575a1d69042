//! Errors that routers and hosts send about packets of this host (ICMP, RFC 792 and 4443).
//!
//! Anybody can make them up, so they are believed only about what is under way (RFC 5927).

use std::net::{IpAddr, SocketAddr};

use ccnic_frame::headers::{FRAGMENT, ICMP, ICMPV6, TCP, UDP};
use ccnic_frame::{Headers, L4, Meta, Sum, checksum};

use crate::connections::{Conn, Holder, Tuple};
use crate::core::Core;
use crate::engine::{Engine, Micros, Output, Phase};
use crate::paths::Paths;
use crate::udp::{Template, addresses};

/// Answers to pings: protocol, type and code, in the place of a port.
const ECHO_V4: (u8, u16) = (ICMP, 0);
const ECHO_V6: (u8, u16) = (ICMPV6, 129 << 8);
/// Bytes of an ICMP message before the packet that it quotes.
const MESSAGE: usize = 8;
/// Sizes to try where a router does not say its MTU (RFC 1191 section 7.1).
const PLATEAUS: [usize; 6] = [8166, 4352, 2002, 1492, 1006, 576];

/// Errors that are sent in so many microseconds (RFC 1812 section 4.3.2.8, RFC 4443 section 2.4).
const AT_ONCE: u32 = 50;
const PERIOD: Micros = 50_000;

/// How many errors may still be sent in a period, and when the next one begins.
#[derive(Debug, Default)]
pub(crate) struct Limit {
    left: u32,
    next: Micros,
}

impl Limit {
    pub(crate) fn permits(&mut self, now: Micros) -> bool {
        if self.next <= now {
            *self = Limit { left: AT_ONCE, next: now + PERIOD };
        }
        let permits = self.left > 0;
        self.left = self.left.saturating_sub(1);
        permits
    }
}

/// An error about a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Notice {
    pub(crate) kind: Kind,
    protocol: u8,
    /// The end that the packet came from, which is this host's, and the one it went to.
    from: SocketAddr,
    to: SocketAddr,
    /// The sequence number, of TCP.
    seq: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It is longer than the MTU of a link on the path: bytes of IP.
    TooBig(usize),
    /// Nobody is there: no port, or no protocol.
    Refused,
}

impl Notice {
    /// Reads an error of ICMP. `None` for everything else, and for what makes no sense.
    pub(crate) fn read(frame: &[u8], headers: &Headers) -> Option<Notice> {
        let message = frame.get(headers.l4_at..headers.l4_end)?;
        let quoted = message.get(MESSAGE..)?;
        let short = |bytes: &[u8], at: usize| Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?));
        let (head, about) = (message.first_chunk::<MESSAGE>()?, [*message.first()?, *message.get(1)?]);
        let (protocol, begin, [from, to]) = match headers.l4 {
            L4::Icmp if quoted.first()? >> 4 == 4 && short(quoted, 6)? & 0x1fff == 0 => {
                let address = |at: usize| Some(IpAddr::from(*quoted.get(at..)?.first_chunk::<4>()?));
                let begin = usize::from(quoted.first()? & 0xf) * 4;
                (*quoted.get(9)?, begin, [address(12)?, address(16)?])
            }
            L4::Icmpv6 if quoted.first()? >> 4 == 6 => {
                let address = |at: usize| Some(IpAddr::from(*quoted.get(at..)?.first_chunk::<16>()?));
                // A first fragment says behind its own header what it is.
                let (protocol, begin) = match (*quoted.get(6)?, quoted.get(40..44)) {
                    (FRAGMENT, Some([next, _, 0, 0 | 1])) => (*next, 48),
                    (protocol, _) => (protocol, 40),
                };
                (protocol, begin, [address(8)?, address(24)?])
            }
            _ => return None,
        };
        let kind = match (headers.l4, about) {
            (L4::Icmp, [3, 4]) => Kind::TooBig(match usize::from(short(message, 6)?) {
                0 => *PLATEAUS.iter().find(|size| **size < usize::from(short(quoted, 2).unwrap_or(0)))?,
                mtu => mtu,
            }),
            (L4::Icmpv6, [2, 0]) => Kind::TooBig(u32::from_be_bytes(*head.last_chunk()?) as usize),
            (L4::Icmp, [3, 2 | 3]) | (L4::Icmpv6, [1, 4] | [4, 1]) => Kind::Refused,
            _ => return None,
        };
        let ports = [short(quoted, begin)?, short(quoted, begin + 2)?];
        let seq = quoted.get(begin + 4..).and_then(<[u8]>::first_chunk).copied().map(u32::from_be_bytes);
        let [from, to] = [SocketAddr::new(from, ports[0]), SocketAddr::new(to, ports[1])];
        has_right_checksum(frame, headers).then_some(Notice {
            kind,
            protocol,
            from,
            to,
            seq: seq.filter(|_| protocol == TCP).unwrap_or(0),
        })
    }
}

/// True for an address that no host has, which is answered by nothing.
#[inline]
pub(crate) fn is_nobody(from: IpAddr) -> bool {
    let other = match from {
        IpAddr::V4(from) => from.is_broadcast() || from.is_loopback(),
        IpAddr::V6(from) => from.is_loopback(),
    };
    from.is_unspecified() || from.is_multicast() || other
}

/// True when a message of ICMP or ICMPv6 has the right checksum.
pub(crate) fn has_right_checksum(frame: &[u8], headers: &Headers) -> bool {
    match headers.l4 {
        L4::Icmp => {
            frame.get(headers.l4_at..headers.l4_end).is_some_and(|message| Sum::of(message).value() == 0xffff)
        }
        _ => checksum::verify_l4(frame, headers, []) == Ok(true),
    }
}

/// Fills in the checksum behind the IP header: of ICMP, ICMPv6 or UDP.
pub(crate) fn fill_checksum(frame: &mut [u8], headers: &Headers) {
    if headers.l4 != L4::Icmp {
        let _ = checksum::fill_l4(frame, headers, []); // which these have
        return;
    }
    let message = frame.get_mut(headers.l4_at..headers.l4_end).unwrap_or_default();
    message.iter_mut().skip(2).take(2).for_each(|byte| *byte = 0);
    let checksum = Sum::of(message).checksum().to_be_bytes();
    message.iter_mut().skip(2).zip(checksum).for_each(|(to, from)| *to = from);
}

impl<E: Engine> Core<E> {
    /// An ICMP message has come, which may be about a connection or a datagram of this host.
    pub(crate) fn noticed(&mut self, frame: &[u8], headers: &Headers) {
        let to_us = addresses(frame, headers).is_some_and(|(_, to)| self.is_ours(to));
        let Some(notice) =
            Notice::read(frame, headers).filter(|notice| to_us && self.is_ours(notice.from.ip()))
        else {
            return;
        };
        let Notice { protocol, from, to, .. } = notice;
        match notice.kind {
            Kind::TooBig(mtu) if protocol == UDP && self.bound.contains(&from.port()) => {
                self.learn_path(|core| &mut core.datagram_paths, to.ip(), mtu);
            }
            // The answer to a ping, if that is what its type says.
            Kind::TooBig(mtu)
                if self.pinged_by == Some(to.ip())
                    && [ECHO_V4, ECHO_V6].contains(&(protocol, from.port())) =>
            {
                self.learn_path(|core| &mut core.datagram_paths, to.ip(), mtu);
            }
            _ if protocol == TCP => {
                let tuple = Tuple::between(from, to);
                if let Some(conn) = self.connections.find(&tuple) {
                    self.noticed_about(conn, &notice);
                }
            }
            _ => {}
        }
    }

    /// RFC 1122 section 4.2.3.9, RFC 5927: a handshake of ours ends where nobody is there; what is established does not.
    fn noticed_about(&mut self, conn: Conn, notice: &Notice) {
        let (now, to) = (self.now, notice.to.ip());
        let Some(entry) = self.connections.get_mut(conn) else { return };
        match notice.kind {
            Kind::TooBig(mtu) => {
                let mtu = mtu.max(least_mtu(to));
                if mtu < self.options.mtu && E::too_big(&mut entry.tcp, now, notice.seq, payload(to, mtu)) {
                    self.learn_path(|core| &mut core.paths, to, mtu);
                    self.mark_dirty(conn);
                }
            }
            Kind::Refused => {
                let [next, _] = E::next_numbers(&entry.tcp);
                let sent = E::phase(&entry.tcp) == Phase::Opening && entry.holder == Holder::Program;
                if sent && notice.seq.wrapping_add(1) == next {
                    entry.error = Some(std::io::ErrorKind::ConnectionRefused);
                    E::abort(&mut entry.tcp);
                    self.mark_dirty(conn);
                    self.mark_touched(conn);
                }
            }
        }
    }

    /// Answers a datagram to a port that nobody has: RFC 1122 section 4.1.3.1, RFC 4443 section 3.1. Not one to a group or from no host.
    pub(crate) fn port_unreachable(&mut self, frame: &[u8], headers: &Headers) {
        let Some((from, to)) = addresses(frame, headers) else { return };
        if !self.is_ours(to) || !frame.starts_with(&self.mac) {
            self.counters.foreign += 1;
        } else if is_nobody(from) {
            self.counters.malformed += 1;
        } else if self.out.room() && self.unreachable.permits(self.now) {
            self.send_port_unreachable(frame, headers, from, to);
        } else {
            self.counters.errors_withheld += 1;
        }
    }

    fn send_port_unreachable(&mut self, frame: &[u8], headers: &Headers, from: IpAddr, to: IpAddr) {
        let Some(mut template) = self.answer_between(frame, from, to) else { return };
        let (protocol, about, ip, most) =
            if to.is_ipv4() { (ICMP, [3, 3], 20, 576) } else { (ICMPV6, [1, 4], 40, 1280) };
        let packet = frame.get(headers.l3_at..headers.l3_end).unwrap_or_default();
        let quoted = packet.get(..most - ip - MESSAGE).unwrap_or(packet);
        let head = template.ip_headers(protocol, MESSAGE + quoted.len());
        let answer = [head, &about, &[0; MESSAGE - 2], quoted].concat();
        self.out.frame(answer.len(), |bytes| {
            bytes.copy_from_slice(&answer);
            let headers = Headers::parse(bytes, bytes.len());
            let _ = checksum::fill_ipv4(bytes, &headers); // where it is IPv4
            fill_checksum(bytes, &headers);
            (Meta::default(), ())
        });
    }

    /// The headers of an answer to a packet `from` another host `to` this one, with the Ethernet addresses of its frame turned round.
    pub(crate) fn answer_between(&self, frame: &[u8], from: IpAddr, to: IpAddr) -> Option<Template> {
        let sender = frame.get(6..12)?.first_chunk()?;
        Template::new([self.mac, *sender], SocketAddr::new(to, 0), SocketAddr::new(from, 0))
    }

    /// The path to this host carries packets of so many bytes of IP.
    fn learn_path(&mut self, among: fn(&mut Self) -> &mut Paths, to: IpAddr, mtu: usize) {
        let (mtu, now) = (mtu.max(least_mtu(to)), self.now);
        if mtu < self.options.mtu && among(self).learn(now, to, mtu) {
            self.counters.paths_lowered += 1;
        }
    }

    /// Limits a new connection to what is known of the path.
    pub(crate) fn limit(&self, tcp: &mut E::Tcp, to: IpAddr) {
        if let Some((mtu, until)) = self.paths.known(self.now, to) {
            E::limit(tcp, payload(to, mtu), until);
        }
    }
}

/// What no path is believed to be below: 1280 is the least of IPv6 (RFC 8200 section 5); less than 576 is no path of IPv4 that is in use, and
/// lets an attacker make a host send tiny segments (RFC 5927 section 7.2).
fn least_mtu(to: IpAddr) -> usize {
    if to.is_ipv4() { 576 } else { 1280 }
}

/// Bytes of payload of a TCP segment in a packet of so many bytes of IP.
fn payload(to: IpAddr, mtu: usize) -> usize {
    mtu - if to.is_ipv4() { 40 } else { 60 }
}
