//! Cutting packets that are sent (RFC 791 section 3.2, RFC 8200 section 4.5), and the identifications of their fragments.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU32, Ordering};

use ccnic_frame::headers::FRAGMENT;
use ccnic_frame::{Headers, Sum};

use super::piece::FRAGMENT_BYTES;
use crate::icmp::fill_checksum;
use crate::secret::Secret;
use crate::udp::ETHERNET;

/// Bytes of Ethernet's and the fixed IP header.
const HEAD_V4: usize = ETHERNET + 20;
const HEAD_V6: usize = ETHERNET + 40;
/// Bytes of a fragment's headers at most.
const MOST: usize = HEAD_V6 + FRAGMENT_BYTES;
/// Counters of identifications.
const COUNTERS: usize = 256;

/// Identifications of the packets that a host sends in fragments: a place for each destination that a keyed hash says, and from there on by
/// a counter (RFC 7739 section 5.3). So nobody knows those of others, and one comes back to a host after 65,536 packets, 2^32 over IPv6.
/// (Faster ones than RFC 6864 wants are told apart by their checksums, as its section 5.2 says.)
#[derive(Debug)]
pub(crate) struct Idents {
    secret: Secret,
    /// A counter for all destinations that fall together, so that whoever gets some learns little of what others get.
    counters: Box<[AtomicU32]>,
}

impl Idents {
    pub(crate) fn new(secret: Secret) -> Idents {
        Idents { secret, counters: (0..COUNTERS).map(|_| AtomicU32::new(0)).collect() }
    }

    pub(crate) fn next(&self, to: IpAddr, protocol: u8) -> u32 {
        let hash = self.secret.ident(to, protocol);
        let counter = self.counters.get((hash >> 32) as usize % COUNTERS);
        (hash as u32).wrapping_add(counter.map_or(0, |counter| counter.fetch_add(1, Ordering::Relaxed)))
    }
}

/// A packet that is sent in fragments.
#[derive(Debug)]
pub(crate) struct Long {
    /// The whole frame: Ethernet, a fixed IP header, what it carries.
    bytes: Vec<u8>,
    head: usize,
    /// Bytes of data in each fragment but the last.
    size: usize,
    /// Where the next fragment's data begin, behind the headers.
    at: usize,
    id: u32,
}

impl Long {
    /// A packet of UDP or ICMP without options and extension headers, complete but for its lengths and its checksum. Its destination gets
    /// packets of at most `mtu` bytes.
    pub(crate) fn new(mut bytes: Vec<u8>, mtu: usize, idents: &Idents) -> Long {
        let ipv4 = bytes.get(12..ETHERNET) == Some(&[8, 0]);
        let (head, overhead, at, fixed) =
            if ipv4 { (HEAD_V4, 20, 16, 0) } else { (HEAD_V6, 40 + FRAGMENT_BYTES, 18, 40) };
        let len = (bytes.len().saturating_sub(ETHERNET + fixed) as u16).to_be_bytes();
        bytes.iter_mut().skip(at).zip(len).for_each(|(to, from)| *to = from);
        let headers = Headers::parse(&bytes, bytes.len());
        fill_checksum(&mut bytes, &headers);
        let protocol = bytes.get(if ipv4 { 23 } else { 20 }).copied().unwrap_or_default();
        let id = crate::udp::addresses(&bytes, &headers).map_or(0, |(_, to)| idents.next(to, protocol));
        let whole = bytes.len() <= ETHERNET + mtu;
        let size = if whole { bytes.len() } else { (mtu - overhead) & !7 };
        Long { bytes, head, size, at: 0, id }
    }

    /// Bytes that it takes.
    pub(crate) fn takes(&self) -> usize {
        self.bytes.capacity()
    }

    /// The next fragment's headers and data; `None` when all have been made.
    pub(crate) fn next(&self) -> Option<(Head, &[u8])> {
        let data = self.bytes.get(self.head..)?.get(self.at..).filter(|rest| !rest.is_empty())?;
        let more = data.len() > self.size;
        let data = data.get(..self.size).unwrap_or(data);
        let mut head = Head { bytes: [0; MOST], len: self.head };
        head.bytes.iter_mut().zip(&self.bytes).take(self.head).for_each(|(to, from)| *to = *from);
        let is_fragment = more || self.at > 0;
        if self.head == HEAD_V4 {
            head.ipv4(data.len(), is_fragment.then_some((self.id as u16, self.at, more)));
        } else {
            head.ipv6(data.len(), is_fragment.then_some((self.id, self.at, more)));
        }
        Some((head, data))
    }

    /// Goes on behind the fragment of [`next`](Long::next).
    pub(crate) fn advance(&mut self) {
        self.at += self.size;
    }
}

/// A fragment's headers.
#[derive(Debug)]
pub(crate) struct Head {
    bytes: [u8; MOST],
    len: usize,
}

impl Head {
    pub(crate) fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }

    /// Fills in what differs in a frame: its length, and which part it is.
    fn ipv4(&mut self, data: usize, part: Option<(u16, usize, bool)>) {
        let (id, word) = match part {
            Some((id, at, more)) => (id, (at / 8) as u16 | if more { 0x2000 } else { 0 }),
            None => (0, 0x4000), // in one piece, and not to be cut
        };
        let len = (HEAD_V4 - ETHERNET + data) as u16;
        self.bytes[16..18].copy_from_slice(&len.to_be_bytes());
        self.bytes[18..20].copy_from_slice(&id.to_be_bytes());
        self.bytes[20..22].copy_from_slice(&word.to_be_bytes());
        self.bytes[24..26].copy_from_slice(&[0; 2]);
        let checksum = Sum::of(&self.bytes[ETHERNET..HEAD_V4]).checksum();
        self.bytes[24..26].copy_from_slice(&checksum.to_be_bytes());
    }

    fn ipv6(&mut self, data: usize, part: Option<(u32, usize, bool)>) {
        if let Some((id, at, more)) = part {
            let protocol = std::mem::replace(&mut self.bytes[20], FRAGMENT);
            let word = (at as u16 | u16::from(more)).to_be_bytes();
            self.bytes[HEAD_V6..HEAD_V6 + 4].copy_from_slice(&[protocol, 0, word[0], word[1]]);
            self.bytes[HEAD_V6 + 4..MOST].copy_from_slice(&id.to_be_bytes());
            self.len = MOST;
        }
        let len = (self.len - HEAD_V6 + data) as u16;
        self.bytes[18..20].copy_from_slice(&len.to_be_bytes());
    }
}
