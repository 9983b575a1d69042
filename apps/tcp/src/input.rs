//! Which connection or port a frame is for.

use std::net::{IpAddr, SocketAddr};

use ccnic_frame::{Checksum, Headers, L3, L4, Meta, checksum};

use crate::connections::{Conn, Entry, Holder, Tuple};
use crate::core::Core;
use crate::engine::{Engine, Phase};
use crate::icmp::is_nobody;
use crate::neighbours;
use crate::udp::{Datagrams, Reply, Template, ends};

/// Flags of TCP.
const FIN: u8 = 1;
pub(crate) const SYN: u8 = 2;
const RST: u8 = 4;
pub(crate) const ACK: u8 = 16;

/// A segment of TCP that has come.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Segment<'a> {
    pub(crate) frame: &'a [u8],
    pub(crate) headers: &'a Headers,
    pub(crate) from: SocketAddr,
    pub(crate) to: SocketAddr,
    pub(crate) tuple: Tuple,
}

impl Segment<'_> {
    /// Its sequence number, and what it acknowledges.
    pub(crate) fn numbers(&self) -> Option<[u32; 2]> {
        let at = self.headers.l4_at + 4;
        let (seq, rest) = self.frame.get(at..)?.split_first_chunk::<4>()?;
        Some([seq, rest.first_chunk::<4>()?].map(|number| u32::from_be_bytes(*number)))
    }

    /// The Ethernet address of the sender.
    pub(crate) fn sender(&self) -> Option<[u8; 6]> {
        self.frame.get(6..12)?.first_chunk().copied()
    }

    /// The option of the largest segment, where it has one (RFC 9293 section 3.7.1).
    pub(crate) fn segment_size(&self) -> Option<u16> {
        let header = self.frame.get(self.headers.l4_at..self.headers.payload_at)?;
        let mut options = header.get(20..)?;
        loop {
            match options {
                [2, 4, a, b, ..] => return Some(u16::from_be_bytes([*a, *b])),
                [1, rest @ ..] => options = rest,
                [kind, len, ..] if *kind > 1 && *len > 1 => options = options.get(usize::from(*len)..)?,
                _ => return None, // they end, or make no sense
            }
        }
    }
}

impl<E: Engine> Core<E> {
    /// A frame has come: looks at its headers once, and gives it to whom it is for.
    #[inline(never)]
    pub(crate) fn frame<H: Datagrams>(&mut self, frame: &[u8], meta: u64, handler: &mut H) {
        let group = frame.first().is_some_and(|first| first & 1 == 1);
        let meta = Meta::from_word(meta);
        let headers = Headers::parse(frame, frame.len());
        if !group && !frame.starts_with(&self.mac) || headers.tags > 0 || meta.vlan().is_some() {
            self.counters.foreign += 1;
            return;
        }
        let from_group = frame.get(6).is_some_and(|first| first & 1 == 1); // nobody could be answered there
        if headers.malformed.is_some() || from_group {
            self.counters.malformed += 1;
            return;
        }
        if !verified(meta, frame, &headers) {
            self.counters.bad_checksum += 1;
            return;
        }
        match headers.l4 {
            L4::Udp if self.datagram(frame, &headers, handler) => {}
            L4::Udp => self.port_unreachable(frame, &headers),
            L4::Tcp => self.segment(frame, &headers),
            L4::Fragment => self.fragment(frame, &headers, handler),
            // The engine answers a protocol that it does not know by an error.
            L4::Other(_) if !group && !self.unreachable.permits(self.now) => {
                self.counters.errors_withheld += 1
            }
            _ => self.other(frame, &headers),
        }
    }

    /// ARP, ICMP, and what is not for the program.
    pub(crate) fn other(&mut self, frame: &[u8], headers: &Headers) {
        if neighbours::concerns(frame, headers) {
            self.group.tell(frame);
            neighbours::defend(self.mac, &self.addresses, frame, headers, &mut self.out);
        }
        if matches!(headers.l4, L4::Icmp | L4::Icmpv6) {
            if self.long_echo(frame, headers) {
                return;
            }
            self.noticed(frame, headers);
        }
        self.other_inner(frame, headers);
        if neighbours::concerns(frame, headers) {
            self.resolved();
        }
    }

    pub(crate) fn other_inner(&mut self, frame: &[u8], headers: &Headers) {
        if neighbours::concerns(frame, headers) {
            self.neighbours.learn(self.now, frame, headers);
        }
        self.engine.input(self.now, frame, None, &mut self.out);
    }

    /// Bytes of the longest packet that reaches this host in one piece, as far as known.
    #[inline]
    pub(crate) fn mtu_to(&self, to: IpAddr) -> usize {
        let knows_no_path = self.paths.is_empty() && self.datagram_paths.is_empty();
        if knows_no_path { self.options.mtu } else { self.mtu_of_path(to) }
    }

    #[cold]
    fn mtu_of_path(&self, to: IpAddr) -> usize {
        let known = [&self.paths, &self.datagram_paths].map(|paths| paths.known(self.now, to));
        known.into_iter().flatten().fold(self.options.mtu, |least, (mtu, _)| least.min(mtu))
    }

    pub(crate) fn is_ours(&self, address: IpAddr) -> bool {
        self.addresses.kind(address).is_some()
    }

    /// A datagram; false when the program does not take it.
    pub(crate) fn datagram<H: Datagrams>(
        &mut self,
        frame: &[u8],
        headers: &Headers,
        handler: &mut H,
    ) -> bool {
        let Some((from, to)) = ends(frame, headers) else { return false };
        if !self.bound.contains(&to.port()) || !self.is_ours(to.ip()) {
            return false;
        }
        if is_nobody(from.ip()) {
            self.counters.malformed += 1; // RFC 1122 section 3.2.1.3
            return true;
        }
        let Some(sender) = frame.get(6..12).and_then(|mac| mac.first_chunk::<6>()) else { return false };
        let Some(template) = Template::new([self.mac, *sender], to, from) else { return false };
        let payload = frame.get(headers.payload_at..headers.l4_end).unwrap_or_default();
        self.counters.datagrams += 1;
        let mtu = self.mtu_to(from.ip());
        let mut reply = Reply::new(&mut self.out, template, mtu);
        handler.datagram(from, to, payload, &mut reply);
        reply.send();
        true
    }

    /// A segment of TCP.
    pub(crate) fn segment(&mut self, frame: &[u8], headers: &Headers) {
        let Some((from, to)) = ends(frame, headers) else { return };
        let Some(kind) = self.addresses.kind(to.ip()) else {
            self.counters.foreign += 1;
            return;
        };
        let flags = frame.get(headers.l4_at + 13).copied().unwrap_or_default() & (FIN | SYN | RST | ACK);
        let tuple = Tuple::new(kind, to.port(), from);
        let segment = Segment { frame, headers, from, to, tuple };
        if let Some(conn) = self.connections.find(&tuple) {
            match self.reopened(conn, &segment, flags) {
                Some((listener, last)) => {
                    self.forget(conn);
                    self.handshake(&segment, listener, Some(last));
                }
                None => self.segment_of(conn, frame),
            }
            return;
        }
        match self.listener_of(to.port()) {
            Some(listener) if flags == SYN => self.syn(&segment, listener),
            Some(listener) if flags & !FIN == ACK && self.cookie_returned(&segment, listener) => {}
            // A reset is answered by nothing, which the engine knows.
            _ => self.engine.input(self.now, frame, None, &mut self.out),
        }
    }

    /// A segment of this connection.
    #[inline]
    fn segment_of(&mut self, conn: Conn, frame: &[u8]) {
        if let Some(entry) = self.connections.get_mut(conn) {
            self.engine.input(self.now, frame, Some(&mut entry.tcp), &mut self.out);
            self.mark_dirty(conn);
            self.mark_touched(conn);
        }
    }

    /// For a SYN that opens another connection in the place of one in TIME-WAIT: its listener, and the last number that the old one has sent.
    /// Its number must be beyond all of the old one's, so that no late copy of a SYN does it (RFC 9293 section 3.6.1, RFC 6191).
    fn reopened(&self, conn: Conn, segment: &Segment<'_>, flags: u8) -> Option<(u16, u32)> {
        let entry = self.connections.get(conn)?;
        if flags != SYN || entry.holder != Holder::Nobody || E::phase(&entry.tcp) != Phase::TimeWait {
            return None;
        }
        let ([last, expected], [number, _]) = (E::next_numbers(&entry.tcp), segment.numbers()?);
        let listener = self.listener_of(segment.to.port())?;
        let listening = self.listeners.get(usize::from(listener))?.as_ref()?;
        let beyond = number.wrapping_sub(expected) as i32 > 0;
        (beyond && listening.has_room_for_handshake()).then_some((listener, last))
    }

    /// A new connection to a listener.
    fn syn(&mut self, segment: &Segment<'_>, index: u16) {
        if self.options.next_hop(segment.from.ip()).is_none() {
            self.counters.foreign += 1; // there is no way back
            return;
        }
        let full = self.connections.len() >= self.options.connections;
        let Some(Some(listening)) = self.listeners.get_mut(usize::from(index)) else { return };
        if full || !listening.has_room() {
            self.counters.syn_dropped += 1;
        } else if listening.has_room_for_handshake() {
            self.handshake(segment, index, None);
        } else {
            self.answer_by_cookie(segment, index);
        }
    }

    /// Begins a handshake. `after`: the last number that a predecessor between the same ends has sent.
    fn handshake(&mut self, segment: &Segment<'_>, index: u16, after: Option<u32>) {
        let Segment { frame, tuple, .. } = *segment;
        let expires = self.now.saturating_add(self.options.handshake.as_micros() as u64);
        let isn = self.secret.isn(self.now, &tuple, after);
        let mut tcp = self.engine.listening(segment.to.port(), isn, self.used.pop());
        self.limit(&mut tcp, segment.from.ip());
        self.engine.input(self.now, frame, Some(&mut tcp), &mut self.out);
        if E::phase(&tcp) != Phase::Opening {
            self.used.push(tcp);
            return;
        }
        let Some(Some(listening)) = self.listeners.get_mut(usize::from(index)) else { return };
        listening.half_open += 1;
        let conn = self.connections.add(Entry::new(tcp, tuple, Holder::Handshake(index), expires));
        self.mark_dirty(conn);
    }
}

/// True when the checksums of a packet are right: the NIC says so or vouches for a sender in memory, or they are computed here. ICMP's are the
/// engine's.
#[inline(always)]
pub(crate) fn verified(meta: Meta, frame: &[u8], headers: &Headers) -> bool {
    let ip = headers.l3 != L3::Ipv4
        || meta.ip_checksum() != Checksum::Unknown
        || checksum::verify_ipv4(frame, headers) == Ok(true);
    let l4 = !matches!(headers.l4, L4::Tcp | L4::Udp)
        || meta.l4_checksum() != Checksum::Unknown
        || checksum::verify_l4(frame, headers, []) == Ok(true);
    ip && l4
}
