//! Which connection or port a frame is for.

use std::net::IpAddr;

use ccnic_frame::{Checksum, Headers, L3, L4, Meta, checksum};

use crate::connections::{Conn, Entry, Holder, Tuple};
use crate::core::Core;
use crate::engine::{Engine, Phase};
use crate::neighbours;
use crate::udp::{Datagrams, Reply, Template, ends};

/// Flags of TCP.
const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;

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
        if headers.malformed.is_some() {
            self.counters.malformed += 1;
            return;
        }
        if !verified(meta, frame, &headers) {
            self.counters.bad_checksum += 1;
            return;
        }
        match headers.l4 {
            L4::Udp if self.datagram(frame, &headers, handler) => {}
            L4::Tcp => self.segment(frame, &headers),
            _ => self.other(frame, &headers),
        }
    }

    /// A frame that another stack has received.
    pub(crate) fn told(&mut self, frame: &[u8]) {
        self.other_inner(frame, &Headers::parse(frame, frame.len()));
    }

    /// ARP, ICMP, and what is not for the program.
    fn other(&mut self, frame: &[u8], headers: &Headers) {
        if neighbours::concerns(frame, headers) {
            self.group.tell(frame);
        }
        self.other_inner(frame, headers);
        if neighbours::concerns(frame, headers) {
            self.resolved();
        }
    }

    fn other_inner(&mut self, frame: &[u8], headers: &Headers) {
        if neighbours::concerns(frame, headers) {
            self.neighbours.learn(self.now, frame, headers);
        }
        self.engine.input(self.now, frame, None, &mut self.out);
    }

    fn is_ours(&self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(address) => self.ipv4 == Some(address),
            IpAddr::V6(address) => self.ipv6 == Some(address),
        }
    }

    /// A datagram; false when the program does not take it.
    fn datagram<H: Datagrams>(&mut self, frame: &[u8], headers: &Headers, handler: &mut H) -> bool {
        let Some((from, to)) = ends(frame, headers) else { return false };
        if !self.bound.contains(&to.port()) || !self.is_ours(to.ip()) {
            return false;
        }
        let Some(sender) = frame.get(6..12).and_then(|mac| mac.first_chunk::<6>()) else { return false };
        let Some(template) = Template::new([self.mac, *sender], to, from) else { return false };
        let payload = frame.get(headers.payload_at..headers.l4_end).unwrap_or_default();
        self.counters.datagrams += 1;
        let mut reply = Reply::new(&mut self.out, template, self.options.mtu);
        handler.datagram(from, to, payload, &mut reply);
        reply.send();
        true
    }

    /// A segment of TCP.
    fn segment(&mut self, frame: &[u8], headers: &Headers) {
        let Some((from, to)) = ends(frame, headers) else { return };
        if !self.is_ours(to.ip()) {
            self.counters.foreign += 1;
            return;
        }
        let flags = frame.get(headers.l4_at + 13).copied().unwrap_or_default() & (FIN | SYN | RST | ACK);
        let tuple = Tuple::new(from.ip(), from.port(), to.port());
        let known = self.connections.find(&tuple).and_then(|conn| self.unless_reused(conn, flags));
        if let Some(conn) = known
            && let Some(entry) = self.connections.get_mut(conn)
        {
            self.engine.input(self.now, frame, Some(&mut entry.tcp), &mut self.out);
            self.mark_dirty(conn);
            self.mark_touched(conn);
            return;
        }
        match self.listener_of(to.port()) {
            Some(listener) if flags == SYN => self.syn(frame, tuple, listener),
            // A reset is answered by nothing, which the engine knows.
            _ => self.engine.input(self.now, frame, None, &mut self.out),
        }
    }

    /// The connection that this segment is for, unless it is in TIME-WAIT and the segment opens another one (RFC 9293 section 3.6.1).
    fn unless_reused(&mut self, conn: Conn, flags: u8) -> Option<Conn> {
        let entry = self.connections.get(conn)?;
        if flags == SYN && entry.holder == Holder::Nobody && E::phase(&entry.tcp) == Phase::TimeWait {
            self.forget(conn);
            return None;
        }
        Some(conn)
    }

    /// A new connection to a listener.
    fn syn(&mut self, frame: &[u8], tuple: Tuple, index: u16) {
        let full = self.connections.len() >= self.options.connections;
        let expires = self.now.saturating_add(self.options.handshake.as_micros() as u64);
        let Some(Some(listening)) = self.listeners.get_mut(usize::from(index)) else { return };
        let waiting = listening.half_open + listening.queue.len();
        if full || waiting >= listening.backlog {
            self.counters.syn_dropped += 1;
            return;
        }
        let mut tcp = self.engine.listening(listening.port, self.used.pop());
        self.engine.input(self.now, frame, Some(&mut tcp), &mut self.out);
        if E::phase(&tcp) != Phase::Opening {
            self.used.push(tcp);
            return;
        }
        listening.half_open += 1;
        let conn = self.connections.add(Entry::new(tcp, tuple, Holder::Handshake(index), expires));
        self.mark_dirty(conn);
    }
}

/// True when the checksums of a packet are right: the NIC says so or vouches for a sender in memory, or they are computed here. ICMP's are the
/// engine's.
#[inline]
fn verified(meta: Meta, frame: &[u8], headers: &Headers) -> bool {
    let ip = headers.l3 != L3::Ipv4
        || meta.ip_checksum() != Checksum::Unknown
        || checksum::verify_ipv4(frame, headers) == Ok(true);
    let l4 = !matches!(headers.l4, L4::Tcp | L4::Udp)
        || meta.l4_checksum() != Checksum::Unknown
        || checksum::verify_l4(frame, headers, []) == Ok(true);
    ip && l4
}
