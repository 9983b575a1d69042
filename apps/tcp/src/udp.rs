//! UDP datagrams: from the queue pair to the program and back, past the TCP engine.
//!
//! The program's handler gets the payload where it has arrived, and writes its answer where it is sent from: headers are the request's, turned
//! round. Checksums are the NIC's.
//!
//! A datagram may have up to 65,507 bytes, 65,527 over IPv6. One that is longer than [`Options::mtu`](crate::Options::mtu), or than what is
//! known of the path to its destination, is copied once more, has its checksum computed here, and is sent in fragments, all of it or nothing.
//! One that came in fragments is given to the program like any other. A host that loses one frame of many loses the datagram: programs that
//! can choose do better with datagrams that fit into a frame.

use std::net::{IpAddr, SocketAddr};
use std::ops::Range;

use ccnic_frame::headers::TCP;
use ccnic_frame::{Checksum, Headers, L3, Meta};

use crate::draft::Draft;
use crate::kept::{Kept, KeptMemory};
use crate::transmit::{BUFFER, Transmit};

/// Bytes of an Ethernet header.
pub(crate) const ETHERNET: usize = 14;
const UDP: usize = 8;
/// Bytes of the longest headers: Ethernet, IPv6, UDP.
const MOST: usize = ETHERNET + 40 + UDP;
/// Bytes of a TCP header with the option of the segment size, behind the ports; bytes of the longest frame of such a header.
pub(crate) const TCP_BEHIND_PORTS: usize = 20;
pub(crate) const TCP_FRAME: usize = ETHERNET + 40 + 4 + TCP_BEHIND_PORTS;

/// A program's side of datagrams.
///
/// ```no_run
/// use std::net::SocketAddr;
///
/// use ccnic_tcp::{Datagrams, Options, Reply, Stack};
///
/// /// Returns what comes, behind a number.
/// struct Numbered(u64);
///
/// impl Datagrams for Numbered {
///     fn datagram(&mut self, _: SocketAddr, _: SocketAddr, payload: &[u8], reply: &mut Reply<'_>) {
///         self.0 += 1;
///         reply.expect(8 + payload.len());
///         let _ = reply.put(&self.0.to_be_bytes()) && reply.put(payload); // else nothing is sent
///     }
/// }
///
/// let mut stack = Stack::open("/tmp/nic.sock", &Options::new("10.9.0.2/24".parse()?))?;
/// stack.bind(7)?;
/// let mut numbered = Numbered(0);
/// loop {
///     stack.poll_datagrams(&mut numbered);
///     stack.wait_when_idle(None)?;
/// }
/// # #[expect(unreachable_code)]
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Datagrams {
    /// A datagram for one of the ports of [`Stack::bind`](crate::Stack::bind). `payload` is lent: copy what is to be kept. What is put into
    /// `reply` is sent back.
    fn datagram(&mut self, from: SocketAddr, to: SocketAddr, payload: &[u8], reply: &mut Reply<'_>);

    /// False while the program cannot take another datagram: then frames stay in the ring, those of TCP, too. It must come true again
    /// without any being received, for example when what the program has to send has found room.
    fn ready(&self) -> bool {
        true
    }
}

/// A program without datagrams.
impl Datagrams for () {
    fn datagram(&mut self, _: SocketAddr, _: SocketAddr, _: &[u8], _: &mut Reply<'_>) {}
}

/// A host and its port, with the Ethernet address to send to. Made by [`Stack::peer`](crate::Stack::peer).
///
/// ```no_run
/// use std::time::Duration;
///
/// use ccnic_tcp::{Options, Stack};
///
/// let mut stack = Stack::open("/tmp/nic.sock", &Options::new("10.9.0.3/24".parse()?))?;
/// let peer = stack.peer_blocking("10.9.0.2:7".parse()?, Duration::from_secs(1))?;
/// if stack.send_to(4000, &peer, &[b"hel", b"lo"]) {
///     stack.flush_datagrams();
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    pub(crate) mac: [u8; 6],
    pub(crate) address: SocketAddr,
}

impl Peer {
    /// Its address and port. Example: [`Stack::compose`](crate::Stack::compose).
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// Where the answer to a datagram goes that is sent later: [`Reply::later`].
///
/// ```no_run
/// use std::net::SocketAddr;
///
/// use ccnic_tcp::{Datagrams, Later, Options, Reply, Stack};
///
/// #[derive(Default)]
/// struct Asked(Vec<Later>);
///
/// impl Datagrams for Asked {
///     fn datagram(&mut self, _: SocketAddr, _: SocketAddr, _: &[u8], reply: &mut Reply<'_>) {
///         self.0.push(reply.later());
///     }
/// }
///
/// let mut stack = Stack::open("/tmp/nic.sock", &Options::new("10.9.0.2/24".parse()?))?;
/// stack.bind(7)?;
/// let mut asked = Asked::default();
/// stack.poll_datagrams(&mut asked);
/// // All that have come together are answered together.
/// while let Some(from) = asked.0.pop()
///     && stack.can_send()
/// {
///     stack.answer(&from, &[b"now"]);
/// }
/// stack.flush_datagrams();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Later(pub(crate) Template);

/// The headers of datagrams from one end to another, Ethernet, IP and UDP, for whoever makes frames without a [`Stack`](crate::Stack).
///
/// ```
/// use ccnic_tcp::udp::Template;
///
/// let macs = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]]; // from, to
/// let mut template = Template::new(macs, "10.9.0.1:5".parse()?, "10.9.0.2:6".parse()?).ok_or("of one version of IP")?;
/// let frame = [template.headers(5), b"hello"].concat();
/// assert_eq!(frame.len(), 14 + 20 + 8 + 5);
/// assert_eq!(template.requests().l4_checksum(), ccnic_frame::Checksum::Requested);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Template {
    bytes: [u8; MOST],
    len: usize,
}

impl Template {
    /// From one end to the other, with their Ethernet addresses in the same order. `None` when one is IPv4 and the other IPv6.
    /// Example: [`Template`].
    pub fn new(macs: [[u8; 6]; 2], from: SocketAddr, to: SocketAddr) -> Option<Template> {
        let [ours, theirs] = macs;
        let mut bytes = [0; MOST];
        bytes[..6].copy_from_slice(&theirs);
        bytes[6..12].copy_from_slice(&ours);
        let at = match (from.ip(), to.ip()) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                bytes[12..16].copy_from_slice(&[8, 0, 0x45, 0]);
                bytes[20..24].copy_from_slice(&[0x40, 0, 64, 17]); // not to be fragmented; TTL; UDP
                bytes[26..30].copy_from_slice(&from.octets());
                bytes[30..34].copy_from_slice(&to.octets());
                34
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                bytes[12..15].copy_from_slice(&[0x86, 0xdd, 0x60]);
                bytes[20..22].copy_from_slice(&[17, 64]);
                bytes[22..38].copy_from_slice(&from.octets());
                bytes[38..54].copy_from_slice(&to.octets());
                54
            }
            _ => return None,
        };
        bytes[at..at + 2].copy_from_slice(&from.port().to_be_bytes());
        bytes[at + 2..at + 4].copy_from_slice(&to.port().to_be_bytes());
        Some(Template { bytes, len: at + UDP })
    }

    /// The headers in front of so many bytes of payload, without the checksums that [`requests`](Template::requests) asks for. Example:
    /// [`Template`].
    pub fn headers(&mut self, payload: usize) -> &[u8] {
        self.finished(self.len + payload)
    }

    /// Fills in the lengths of a frame of so many bytes; returns the headers.
    fn finished(&mut self, frame: usize) -> &[u8] {
        let (udp, ip) = (self.len - UDP, frame - ETHERNET);
        let short = |n: usize| (n as u16).to_be_bytes();
        if self.is_ipv4() {
            self.bytes[16..18].copy_from_slice(&short(ip));
        } else {
            self.bytes[18..20].copy_from_slice(&short(ip - 40));
        }
        self.bytes[udp + 4..udp + 6].copy_from_slice(&short(frame - udp));
        &self.bytes[..self.len]
    }

    /// A TCP frame between the same ends: what comes behind the ports in its header. It begins the array, and is as long as it says.
    pub(crate) fn tcp_frame(mut self, behind_ports: [u8; TCP_BEHIND_PORTS]) -> ([u8; TCP_FRAME], usize) {
        let mut frame = [0; TCP_FRAME];
        let at = self.len - UDP + 4;
        let len = at + TCP_BEHIND_PORTS;
        self.finished(len);
        self.set_protocol(TCP);
        frame[..at].copy_from_slice(&self.bytes[..at]);
        frame[at..len].copy_from_slice(&behind_ports);
        (frame, len)
    }

    /// The headers, Ethernet's and IP's, in front of so many bytes of another protocol between the same hosts.
    pub(crate) fn ip_headers(&mut self, protocol: u8, payload: usize) -> &[u8] {
        let len = self.len - UDP;
        self.set_protocol(protocol);
        &self.finished(len + payload)[..len]
    }

    fn set_protocol(&mut self, protocol: u8) {
        self.bytes[if self.is_ipv4() { 23 } else { 20 }] = protocol;
    }

    fn is_ipv4(&self) -> bool {
        self.len < MOST
    }

    /// Where it goes.
    pub(crate) fn destination(&self) -> IpAddr {
        if self.is_ipv4() {
            IpAddr::from(*self.bytes[30..].first_chunk::<4>().unwrap_or(&[0; 4]))
        } else {
            IpAddr::from(*self.bytes[38..].first_chunk::<16>().unwrap_or(&[0; 16]))
        }
    }

    /// Bytes of the longest frame that such a packet has, in whatever fragments.
    #[inline]
    fn longest(&self) -> usize {
        ETHERNET + if self.is_ipv4() { 65_535 } else { 40 + 65_535 }
    }

    /// The metadata of such a frame: its checksums have yet to be computed. Example: [`Template`].
    pub fn requests(&self) -> Meta {
        let meta = Meta::default().with_l4_checksum(Checksum::Requested);
        if self.is_ipv4() { meta.with_ip_checksum(Checksum::Requested) } else { meta }
    }
}

/// The answer to a datagram, or a datagram that [`Stack::compose`](crate::Stack::compose) begins: nothing is sent unless something is put into it.
#[derive(Debug)]
pub struct Reply<'a> {
    out: &'a mut Transmit,
    template: Template,
    draft: Option<Draft>,
    /// Bytes of the frame, and the most that it may have to be sent in one piece.
    len: usize,
    most: usize,
    /// It is longer than that: what was put is in `Transmit::gathered`.
    long: bool,
    failed: bool,
}

impl<'a> Reply<'a> {
    pub(crate) fn new(out: &'a mut Transmit, template: Template, mtu: usize) -> Reply<'a> {
        let len = template.len;
        Reply { out, template, draft: None, len, most: mtu + ETHERNET, long: false, failed: false }
    }

    /// Says how many bytes of payload will be put, so that they are written where they stay. Before the first [`put`](Reply::put). Example:
    /// [`Datagrams`].
    pub fn expect(&mut self, payload: usize) {
        self.begin(payload);
    }

    /// For an answer that is sent later, or for further datagrams, by [`Stack::answer`](crate::Stack::answer). No neighbour is asked for: the
    /// request came from the Ethernet address that they go to.
    pub fn later(&self) -> Later {
        Later(self.template)
    }

    /// Bytes that can still be put, whatever the MTU is. Example: [`Stack::compose`](crate::Stack::compose).
    pub fn room(&self) -> usize {
        self.template.longest() - self.len
    }

    /// Bytes that can still be put without the datagram being sent in fragments. Example: [`Stack::compose`](crate::Stack::compose).
    pub fn room_in_frame(&self) -> usize {
        self.most.saturating_sub(self.len)
    }

    /// Appends bytes of payload; also none, so that an empty datagram is sent. False when there is no room in the datagram, or no buffer: then
    /// nothing is sent at all. Example: [`Datagrams`].
    pub fn put(&mut self, bytes: &[u8]) -> bool {
        self.begin(bytes.len());
        let put = if self.len + bytes.len() > self.most || self.long {
            self.put_long(bytes.len(), |out| {
                out.gathered.extend_from_slice(bytes);
                true
            })
        } else {
            match &mut self.draft {
                Some(draft) if !self.failed => self.out.put(draft, bytes),
                _ => false,
            }
        };
        self.len += if put { bytes.len() } else { 0 };
        self.failed |= !put;
        put
    }

    /// Appends bytes of a kept value, which the NIC reads where they lie: nothing is copied on this side. The value may be
    /// [freed](KeptMemory::free) at once, or be part of other datagrams. More may be put behind it.
    ///
    /// A copy is sent where the datagram has more than seven parts, goes in fragments, or the NIC computes no checksums; the program need not
    /// know. False when there is no room in the datagram, no buffer, or when the value has not so many bytes: then nothing is sent at all.
    /// Example: [the module](crate::kept).
    pub fn put_kept(&mut self, kept: &Kept, range: Range<usize>) -> bool {
        self.begin(0);
        let (len, meta) = (range.len(), self.template.requests());
        let put = if self.len + len > self.most || self.long {
            self.put_long(len, |out| out.gather_kept(kept, range))
        } else {
            match &mut self.draft {
                Some(draft) if !self.failed => self.out.put_kept(draft, kept, range, meta),
                _ => false,
            }
        };
        self.len += if put { len } else { 0 };
        self.failed |= !put;
        put
    }

    /// Memory for values that are sent by [`put_kept`](Reply::put_kept).
    pub fn kept(&mut self) -> &mut KeptMemory {
        &mut self.out.kept
    }

    /// Appends `len` bytes by `append` to a datagram that is then longer than a frame of its path.
    #[cold]
    fn put_long(&mut self, len: usize, append: impl FnOnce(&mut Transmit) -> bool) -> bool {
        if self.failed || len > self.room() {
            return false;
        }
        self.long = self.long || self.out.lift(self.draft.take(), self.template.len, self.len + len);
        self.long && append(self.out)
    }

    fn begin(&mut self, payload: usize) {
        if self.draft.is_some() || self.failed || self.long {
            return;
        }
        let len = self.len.saturating_add(payload);
        if len > self.most {
            self.long = self.out.lift(None, self.len, len);
            self.failed = !self.long;
            return;
        }
        let headers = [0; MOST];
        self.draft = self.out.draft(len);
        let begun = match &mut self.draft {
            Some(draft) => self.out.put(draft, headers.get(..self.template.len).unwrap_or_default()),
            None => false,
        };
        self.failed = !begun;
    }

    /// Puts pieces of payload and queues the datagram, of which nothing has been put before; false when it is too long, or there is no room.
    pub(crate) fn send_all(mut self, payload: &[&[u8]]) -> bool {
        let len = payload.iter().map(|piece| piece.len()).sum();
        let frame = self.len + len;
        if frame <= self.most.min(BUFFER) {
            let meta = self.template.requests();
            return self.out.whole(frame, self.template.finished(frame), payload, meta);
        }
        self.expect(len);
        payload.iter().for_each(|piece| _ = self.put(piece));
        self.send()
    }

    /// Queues what was put; false when nothing was, or not all of it. The answer to a datagram is sent by itself when the handler returns.
    /// Example: [`Stack::compose`](crate::Stack::compose).
    pub fn send(self) -> bool {
        let Reply { out, mut template, draft, len, most, long, failed } = self;
        match draft {
            Some(draft) if !failed => {
                let meta = template.requests();
                out.submit_with(draft, template.finished(len), meta);
                true
            }
            Some(draft) => {
                out.abandon(draft);
                false
            }
            None if long && !failed => {
                out.submit_gathered(template.finished(len), most - ETHERNET);
                true
            }
            None => false,
        }
    }
}

/// The two ends of a received datagram, from and to. `headers` are those of a datagram in `frame`.
///
/// ```
/// use ccnic_frame::Headers;
/// use ccnic_tcp::udp::{Template, ends};
///
/// let (from, to) = ("10.9.0.1:5".parse()?, "10.9.0.2:6".parse()?);
/// let mut template = Template::new([[2; 6], [4; 6]], from, to).ok_or("of one version of IP")?;
/// let frame = template.headers(0);
/// assert_eq!(ends(frame, &Headers::parse(frame, frame.len())), Some((from, to)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[inline]
pub fn ends(frame: &[u8], headers: &Headers) -> Option<(SocketAddr, SocketAddr)> {
    let short = |at: usize| frame.get(at..at + 2).map(|b| u16::from_be_bytes([b[0], b[1]]));
    let (from, to) = addresses(frame, headers)?;
    let ports = (short(headers.l4_at)?, short(headers.l4_at + 2)?);
    Some((SocketAddr::new(from, ports.0), SocketAddr::new(to, ports.1)))
}

/// Source and destination of an IP packet.
#[inline]
pub(crate) fn addresses(frame: &[u8], headers: &Headers) -> Option<(IpAddr, IpAddr)> {
    let at = headers.l3_at;
    match headers.l3 {
        L3::Ipv4 => {
            let four = |at: usize| frame.get(at..at + 4)?.first_chunk::<4>().map(|b| IpAddr::from(*b));
            Some((four(at + 12)?, four(at + 16)?))
        }
        L3::Ipv6 => {
            let sixteen = |at: usize| frame.get(at..at + 16)?.first_chunk::<16>().map(|b| IpAddr::from(*b));
            Some((sixteen(at + 8)?, sixteen(at + 24)?))
        }
        L3::Other => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]
    use super::*;

    #[test]
    fn a_template_makes_headers_that_are_found_again() {
        for (from, to) in [("10.9.0.1:5", "10.9.0.2:6"), ("[fd09::1]:5", "[fd09::2]:6")] {
            let (from, to) = (from.parse().unwrap(), to.parse().unwrap());
            let mut template = Template::new([[2; 6], [4; 6]], from, to).unwrap();
            let mut frame = template.finished(template.len + 100).to_vec();
            frame.extend([7; 100]);
            let headers = Headers::parse(&frame, frame.len());
            assert_eq!(ends(&frame, &headers), Some((from, to)));
            assert_eq!(
                (headers.payload_at, headers.l4_end, headers.malformed),
                (template.len, frame.len(), None)
            );
            assert_eq!((&frame[..6], &frame[6..12]), (&[4; 6][..], &[2; 6][..]));
        }
        assert!(
            Template::new([[0; 6]; 2], "10.9.0.1:5".parse().unwrap(), "[::1]:6".parse().unwrap()).is_none()
        );
    }
}
