//! What becomes of packets that came in fragments, and of pings whose answer does not fit into a frame.

use ccnic_frame::headers::{ICMP, ICMPV6};
use ccnic_frame::{Checksum, Headers, L3, L4, Meta};

use super::piece::Piece;
use crate::connections::Tuple;
use crate::core::Core;
use crate::engine::Engine;
use crate::icmp::{has_right_checksum, is_nobody};
use crate::input::verified;
use crate::neighbours;
use crate::udp::{Datagrams, addresses, ends};

/// Types of ICMP and ICMPv6: a ping and its answer.
const ECHO_V4: [u8; 2] = [8, 0];
const ECHO_V6: [u8; 2] = [128, 129];

impl<E: Engine> Core<E> {
    /// A fragment has come.
    #[cold]
    pub(crate) fn fragment<H: Datagrams>(&mut self, frame: &[u8], headers: &Headers, handler: &mut H) {
        let Some(piece) = Piece::read(frame, headers) else {
            self.counters.malformed += 1;
            return;
        };
        if !self.is_ours(piece.key.to) {
            self.counters.foreign += 1;
        } else if let Some(packet) = self.reassembly.take(self.now, &piece) {
            self.whole(&packet, handler);
        }
    }

    /// A packet that came in fragments: the frame that it would have come in otherwise.
    fn whole<H: Datagrams>(&mut self, frame: &[u8], handler: &mut H) {
        let headers = Headers::parse(frame, frame.len());
        // A fragment again: in a header that was itself in a fragment. Neighbours are not asked for in fragments (RFC 6980).
        if headers.malformed.is_some() || headers.l4 == L4::Fragment || neighbours::concerns(frame, &headers)
        {
            self.counters.malformed += 1;
            return;
        }
        if !verified(Meta::default().with_ip_checksum(Checksum::Good), frame, &headers) {
            self.counters.bad_checksum += 1;
            return;
        }
        match headers.l4 {
            L4::Udp if self.datagram(frame, &headers, handler) => {}
            L4::Tcp if self.segment_of_known(frame, &headers) => {}
            // It may be another stack's.
            L4::Udp | L4::Tcp if self.group.is_of_several() => self.group.pass_on(frame),
            L4::Udp => self.port_unreachable(frame, &headers),
            L4::Tcp => self.segment(frame, &headers),
            _ => self.other(frame, &headers),
        }
    }

    /// A frame that another stack has received: one about neighbours, or a packet that came there in fragments, which is taken if it is for
    /// this stack.
    pub(crate) fn told<H: Datagrams>(&mut self, frame: &[u8], handler: &mut H) {
        let headers = Headers::parse(frame, frame.len());
        let _ = match headers.l4 {
            L4::Udp => self.datagram(frame, &headers, handler),
            L4::Tcp => self.segment_of_known(frame, &headers),
            _ => {
                self.other_inner(frame, &headers);
                true
            }
        };
    }

    /// A segment, if it is of a connection of this stack.
    fn segment_of_known(&mut self, frame: &[u8], headers: &Headers) -> bool {
        let Some((from, to)) = ends(frame, headers) else { return false };
        let tuple = Tuple::between(to, from);
        let known = self.is_ours(to.ip()) && self.connections.find(&tuple).is_some();
        if known {
            self.segment(frame, headers);
        }
        known
    }

    /// Answers a ping that is too long for the engine: its answer goes in fragments. False for everything else.
    pub(crate) fn long_echo(&mut self, frame: &[u8], headers: &Headers) -> bool {
        let (protocol, [asks, answers]) =
            if headers.l3 == L3::Ipv4 { (ICMP, ECHO_V4) } else { (ICMPV6, ECHO_V6) };
        let Some(message) = frame.get(headers.l4_at..headers.l4_end) else { return false };
        let Some((from, to)) = addresses(frame, headers) else { return false };
        if message.len() < 8 || !message.starts_with(&[asks, 0]) || !self.is_ours(to) {
            return false;
        }
        self.pinged_by = Some(from);
        let mtu = self.mtu_to(from);
        let fixed = if from.is_ipv4() { 20 } else { 40 };
        if fixed + message.len() <= mtu {
            return false;
        }
        if !has_right_checksum(frame, headers) {
            self.counters.bad_checksum += 1;
        } else if is_nobody(from) || !frame.starts_with(&self.mac) {
            self.counters.malformed += 1;
        } else if self.out.has_much_room_for_long() {
            let Some(mut template) = self.answer_between(frame, from, to) else { return true };
            let head = template.ip_headers(protocol, message.len());
            let answer = [head, &[answers], message.get(1..).unwrap_or_default()].concat();
            self.out.submit_long(answer, mtu);
        } else {
            self.counters.errors_withheld += 1;
        }
        true
    }
}
