//! SYN cookies (RFC 4987 section 3.6): handshakes of which nothing is kept.
//!
//! Whoever makes up addresses can begin as many handshakes as there are packets, and never goes on with one. When a listener has half as many
//! handshakes as its backlog, further SYNs are answered by a number that says all that is needed ([`secret`](crate::secret)), from the Ethernet address they
//! came from to the same: no memory, no timer, no neighbour. A peer that is there acknowledges that number, and the connection begins with this.
//! It has neither window scaling nor selective acknowledgements, and a SYN-ACK that is lost is sent again when the peer sends its SYN again.

use crate::connections::{Entry, Holder};
use crate::core::Core;
use crate::engine::{Answered, Engine, NEVER, Output, Phase};
use crate::input::{ACK, SYN, Segment};
use crate::secret::LIFETIME;
use crate::udp::{TCP_BEHIND_PORTS, Template};

/// The segment size of a peer that says none (RFC 9293 section 3.7.1, for IPv4; engines take it for IPv6, too).
const DEFAULT_SEGMENT: u16 = 536;

impl<E: Engine> Core<E> {
    /// Answers a SYN without keeping anything of it.
    pub(crate) fn answer_by_cookie(&mut self, segment: &Segment<'_>, listener: u16) {
        let Segment { from, to, tuple, .. } = *segment;
        let (Some([remote_isn, _]), Some(sender)) = (segment.numbers(), segment.sender()) else { return };
        let Some(template) = Template::new([self.mac, sender], to, from) else { return };
        // As the engine does, an option of 0 is taken for none.
        let size = segment.segment_size().filter(|size| *size > 0).unwrap_or(DEFAULT_SEGMENT);
        let cookie = self.secret.cookie(self.now, &tuple, remote_isn, size);
        let headers = if to.is_ipv4() { 40 } else { 60 };
        let (window, ours) =
            (self.options.receive_buffer.min(0xffff) as u16, (self.options.mtu - headers) as u16);
        let mut tcp = [0; TCP_BEHIND_PORTS];
        tcp[..4].copy_from_slice(&cookie.to_be_bytes());
        tcp[4..8].copy_from_slice(&remote_isn.wrapping_add(1).to_be_bytes());
        tcp[8..10].copy_from_slice(&[6 << 4, SYN | ACK]); // a header of six words
        tcp[10..12].copy_from_slice(&window.to_be_bytes());
        tcp[16..18].copy_from_slice(&[2, 4]); // the option of the segment size
        tcp[18..].copy_from_slice(&ours.to_be_bytes());
        let (meta, (frame, len)) = (template.requests(), template.tcp_frame(tcp));
        if !self.out.room() {
            self.out.refused += 1;
            return;
        }
        self.out.frame(len, |bytes| {
            bytes.copy_from_slice(&frame[..len]);
            (meta, ())
        });
        self.counters.cookies_sent += 1;
        if let Some(Some(listening)) = self.listeners.get_mut(usize::from(listener)) {
            listening.cookies_until = self.now.saturating_add(LIFETIME);
        }
    }

    /// Begins the connection that an acknowledgement of a cookie opens; false when it is none. Where there is no room the segment is dropped:
    /// the peer's next one carries the same numbers.
    pub(crate) fn cookie_returned(&mut self, segment: &Segment<'_>, listener: u16) -> bool {
        let Segment { frame, from, to, tuple, .. } = *segment;
        let Some(Some(listening)) = self.listeners.get_mut(usize::from(listener)) else { return false };
        if listening.cookies_until <= self.now {
            return false; // none is under way: guesses are not looked at
        }
        let Some([seq, acknowledged]) = segment.numbers() else { return false };
        let (remote_isn, isn) = (seq.wrapping_sub(1), acknowledged.wrapping_sub(1));
        let Some(segment) = self.secret.read_cookie(self.now, &tuple, remote_isn, isn) else { return false };
        if !listening.has_room() || self.connections.len() >= self.options.connections {
            self.counters.syn_dropped += 1;
            return true;
        }
        let answered = Answered { remote: from, local: to, remote_isn, isn, segment };
        let mut tcp = self.engine.answered(&answered, self.used.pop());
        self.limit(&mut tcp, from.ip());
        self.engine.input(self.now, frame, Some(&mut tcp), &mut self.out);
        if E::phase(&tcp) != Phase::Open {
            self.used.push(tcp);
            return true;
        }
        let Some(Some(listening)) = self.listeners.get_mut(usize::from(listener)) else { return true };
        listening.half_open += 1;
        self.counters.cookies_accepted += 1;
        let conn = self.connections.add(Entry::new(tcp, tuple, Holder::Handshake(listener), NEVER));
        self.mark_dirty(conn);
        self.settle(conn);
        true
    }
}
