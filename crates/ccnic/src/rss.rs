//! Receive-side scaling: which queue a packet goes to. Packets of one flow have one hash, and so one queue.
//!
//! The hash is Toeplitz's, over addresses and ports, as NDIS defines it and hardware NICs compute it, so a
//! program can compute the queue of a flow in advance. The low bits of the hash select an entry of the
//! indirection table, which names the queue. A packet that is not IP, or of a type that is not hashed, goes
//! to the queue of the table's first entry.
//!
//! Packet headers are not trusted: only the first 128 bytes are read, and a header that extends beyond them
//! counts as missing.
//!
//! ```
//! use ccnic::rss::{Rss, Spreader};
//!
//! let rss = Rss { hash: true, ..Rss::new(4) };
//! let spreader = Spreader::new(rss);
//! assert_eq!(spreader.rss().table[..5], [0, 1, 2, 3, 0]);
//! let mut packet = [0; 64]; // Ethernet, IPv4, UDP
//! packet[12..26].copy_from_slice(&[8, 0, 0x45, 0, 0, 50, 0, 0, 0, 0, 64, 17, 0, 0]);
//! let hash = spreader.hash(&packet);
//! assert!(hash.is_some() && spreader.queue(hash) < 4);
//! assert_eq!(spreader.queue(None), 0);
//! ```

extern crate alloc;

use alloc::boxed::Box;
use core::fmt::Debug;

/// Bytes of a hash key: enough for two IPv6 addresses and two ports.
pub const KEY: usize = 40;
/// Entries of the indirection table.
pub const TABLE: usize = 128;
/// Bytes of a packet that are read: Ethernet, two VLAN tags and the longest IPv4 header, with ports, take 86.
pub const START: usize = 128;

/// In the metadata of a received packet, where the program has asked for hashes: the low 32 bits are its
/// hash.
pub const HASHED: u64 = 1 << 32;
/// The bits of a packet's metadata that say that it is a super-packet.
const SEGMENT: u64 = 3 << 33;

/// In the metadata of a received packet: a flow rule of the program has given it a mark, and there is no hash. What a sender says there
/// is none: where hashes are asked for, the bit is cleared.
pub const MARKED: u64 = 1 << 40;

/// The key of Microsoft's verification suite, the default of many drivers.
pub const DEFAULT_KEY: [u8; KEY] = [
    0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0,
    0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42,
    0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
];

/// A key whose 16 bits repeat, so that both directions of a connection have one hash, and one queue: swapping source and
/// destination of addresses and ports changes nothing (Woo and Park, "Scalable TCP Session Monitoring with Symmetric Receive-side
/// Scaling", 2012). The hash has 16 bits that differ, more than the table's index.
///
/// ```
/// use ccnic::rss::{Rss, SYMMETRIC_KEY};
///
/// let rss = Rss { key: SYMMETRIC_KEY, ..Rss::new(4) };
/// ```
pub const SYMMETRIC_KEY: [u8; KEY] = {
    let (mut key, mut at) = ([0x6d; KEY], 1);
    while at < KEY {
        key[at] = 0x5a;
        at += 2;
    }
    key
};

/// What can be hashed. Addresses and ports of TCP, UDP and SCTP; addresses alone of all other packets, of
/// fragments, and of those whose own type is not chosen. Example: [`FlowTypes`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "their names say it")]
pub enum FlowType {
    Ipv4,
    Ipv4Tcp,
    Ipv4Udp,
    Ipv4Sctp,
    Ipv6,
    Ipv6Tcp,
    Ipv6Udp,
    Ipv6Sctp,
}

impl FlowType {
    /// All of them, by number.
    pub const ALL: [FlowType; 8] = [
        FlowType::Ipv4,
        FlowType::Ipv4Tcp,
        FlowType::Ipv4Udp,
        FlowType::Ipv4Sctp,
        FlowType::Ipv6,
        FlowType::Ipv6Tcp,
        FlowType::Ipv6Udp,
        FlowType::Ipv6Sctp,
    ];

    /// The name in messages and on the command line: `FlowType::Ipv4Udp.name()` is `ipv4-udp`.
    /// Example: [`FlowTypes`].
    pub const fn name(self) -> &'static str {
        match self {
            FlowType::Ipv4 => "ipv4",
            FlowType::Ipv4Tcp => "ipv4-tcp",
            FlowType::Ipv4Udp => "ipv4-udp",
            FlowType::Ipv4Sctp => "ipv4-sctp",
            FlowType::Ipv6 => "ipv6",
            FlowType::Ipv6Tcp => "ipv6-tcp",
            FlowType::Ipv6Udp => "ipv6-udp",
            FlowType::Ipv6Sctp => "ipv6-sctp",
        }
    }
}

/// A set of [`FlowType`]s.
///
/// ```
/// use ccnic::rss::{FlowType, FlowTypes};
///
/// let udp: FlowTypes = [FlowType::Ipv4Udp, FlowType::Ipv6Udp].into_iter().collect();
/// assert!(udp.has(FlowType::Ipv4Udp) && !udp.has(FlowType::Ipv4Tcp));
/// let names: Vec<_> = udp.iter().map(FlowType::name).collect();
/// assert_eq!(names, ["ipv4-udp", "ipv6-udp"]);
/// assert_eq!(FlowTypes::from_bits(1 << FlowType::Ipv4Udp as u8 | 1 << FlowType::Ipv6Udp as u8), udp);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FlowTypes(u8);

impl FlowTypes {
    /// Every type.
    pub const ALL: FlowTypes = FlowTypes(0xff);

    /// From bits, by [`FlowType`]'s numbers. Example: [`FlowTypes`].
    pub const fn from_bits(bits: u8) -> FlowTypes {
        FlowTypes(bits)
    }

    /// True when the type is in the set. Example: [`FlowTypes`].
    #[inline(always)]
    pub const fn has(self, flow: FlowType) -> bool {
        self.0 >> flow as u8 & 1 != 0
    }

    /// The types in the set. Example: [`FlowTypes`].
    pub fn iter(self) -> impl Iterator<Item = FlowType> {
        FlowType::ALL.into_iter().filter(move |flow| self.has(*flow))
    }
}

impl FromIterator<FlowType> for FlowTypes {
    fn from_iter<I: IntoIterator<Item = FlowType>>(types: I) -> FlowTypes {
        FlowTypes(types.into_iter().fold(0, |bits, flow| bits | 1 << flow as u8))
    }
}

/// How packets are spread over a program's receive queues.
///
/// ```
/// use ccnic::rss::{FlowType, Rss};
///
/// let mut rss = Rss { hash: true, ..Rss::new(4) }; // the received packets carry their hashes
/// rss.types = [FlowType::Ipv4Udp, FlowType::Ipv6Udp].into_iter().collect();
/// assert_eq!(rss.table[..5], [0, 1, 2, 3, 0]);
/// rss.table.iter_mut().filter(|queue| **queue == 3).for_each(|queue| *queue = 0); // queue 3 gets no packets
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rss {
    /// Key of the hash.
    pub key: [u8; KEY],
    /// Flow types that are hashed.
    pub types: FlowTypes,
    /// Indirection table: the queue for the low bits of a hash.
    pub table: [u16; TABLE],
    /// True: the metadata of received packets contain their hash, with [`HASHED`]. False: they are what the sender set.
    pub hash: bool,
}

impl Rss {
    /// All flow types, the default key, and `queues` queues round robin; metadata unchanged. [`Rss`] has an
    /// example.
    pub fn new(queues: u16) -> Rss {
        let mut table = [0; TABLE];
        for (entry, i) in table.iter_mut().zip(0..) {
            *entry = i % queues.max(1);
        }
        Rss { key: DEFAULT_KEY, types: FlowTypes::ALL, table, hash: false }
    }
}

/// Where a flow rule sends a packet. [`Spreader::with_rules`] has an example.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// Where it would go without rules.
    Default,
    /// To this queue, which exists.
    Queue(u16),
    /// Nowhere.
    Drop,
}

/// Flow rules: they come before the hash. [`Spreader::with_rules`] has an example.
///
/// The threads that steer packets call this for each packet: it neither allocates nor waits.
pub trait FlowRules: Debug + Send + Sync {
    /// Decides about a packet of `len` bytes, `start` being the first [`START`] of them at most, which was sent with the metadata
    /// `sent`. Gives where it goes, and the metadata that it is received with; `meta` are those that it would have without rules.
    fn decide(&self, start: &[u8], len: u32, sent: u64, meta: u64) -> (Fate, u64);
}

/// The rules of a [`Spreader`].
#[derive(Debug)]
struct Ruled {
    rules: Box<dyn FlowRules>,
    /// What no rule is about is spread over queues.
    spreads: bool,
}

/// Computes hashes and queues for an [`Rss`]; the [module](self) has an example. It has a table for each input byte, since the hash is linear in
/// the input's bits.
#[derive(Debug)]
pub struct Spreader {
    rss: Rss,
    rules: Option<Ruled>,
    /// By index of the input byte and its value.
    bytes: [[u32; 256]; KEY - 4],
}

impl Spreader {
    /// Computes the tables, 36 KiB. Example: [the module](self).
    pub fn new(rss: Rss) -> Spreader {
        let mut bytes = [[0; 256]; KEY - 4];
        for (row, key) in bytes.iter_mut().zip(rss.key.windows(5)) {
            // The 40 bits of the key that the eight windows of this byte lie in.
            let key = key.iter().fold(0, |bits, byte| bits << 8 | u64::from(*byte));
            for (value, sum) in (0u32..).zip(row.iter_mut()) {
                *sum = (0..8)
                    .filter(|bit| value >> bit & 1 != 0)
                    .fold(0, |sum, bit| sum ^ (key >> (bit + 1)) as u32);
            }
        }
        Spreader { rss, rules: None, bytes }
    }

    /// With flow rules, which come before the hash. Without an [`Rss`], a packet that no rule sends elsewhere stays where it is:
    /// a loopback returns it on the queue that it was sent on, a switch delivers it to the first queue.
    ///
    /// ```
    /// use ccnic::rss::{Fate, FlowRules, Rss, Spreader};
    ///
    /// /// Only short packets are received, on queue 1.
    /// #[derive(Debug)]
    /// struct Short;
    ///
    /// impl FlowRules for Short {
    ///     fn decide(&self, _: &[u8], len: u32, _: u64, meta: u64) -> (Fate, u64) {
    ///         (if len <= 64 { Fate::Queue(1) } else { Fate::Drop }, meta)
    ///     }
    /// }
    ///
    /// let spreader = Spreader::with_rules(Some(Rss::new(2)), Box::new(Short));
    /// assert!(spreader.has_rules() && !Spreader::new(Rss::new(2)).has_rules());
    /// ```
    pub fn with_rules(rss: Option<Rss>, rules: Box<dyn FlowRules>) -> Spreader {
        let spreads = rss.is_some();
        let rules = Some(Ruled { rules, spreads });
        Spreader { rules, ..Spreader::new(rss.unwrap_or_else(|| Rss::new(1))) }
    }

    /// True when it has flow rules. Example: [`with_rules`](Spreader::with_rules).
    #[inline(always)]
    pub fn has_rules(&self) -> bool {
        self.rules.is_some()
    }

    /// By rules and hash: the queue of a packet of `len` bytes that begins with `start`, `None` to drop it; and its metadata. It
    /// has been sent with `sent`, and stays at queue `home` if neither says otherwise.
    pub(crate) fn decide(&self, start: &[u8], len: u32, sent: u64, home: u16) -> (Option<u16>, u64) {
        let (mut to, mut meta) = (home, sent);
        let Some(Ruled { rules, spreads }) = &self.rules else { return (Some(to), meta) };
        if *spreads {
            let hash = self.hash(start);
            (to, meta) = (self.queue(hash), self.meta(sent, hash));
        }
        let (fate, meta) = rules.decide(start, len, sent, meta);
        match fate {
            Fate::Default => (Some(to), meta),
            Fate::Queue(to) => (Some(to), meta),
            Fate::Drop => (None, meta),
        }
    }

    /// The parameters that it was made of. Example: [the module](self).
    pub fn rss(&self) -> &Rss {
        &self.rss
    }

    /// The hash of a packet that begins with `start`; `None` when its type is not hashed.
    /// Example: [the module](self).
    #[inline(always)]
    pub fn hash(&self, start: &[u8]) -> Option<u32> {
        let flow = flow(start)?;
        match flow.ports {
            Some((of, ports)) if self.rss.types.has(of) => Some(self.toeplitz(flow.addresses, ports)),
            _ => self.rss.types.has(flow.of).then(|| self.toeplitz(flow.addresses, &[])),
        }
    }

    /// The queue for packets with this hash. Example: [the module](self).
    #[inline(always)]
    pub fn queue(&self, hash: Option<u32>) -> u16 {
        let at = hash.unwrap_or(0) as usize % TABLE; // a power of two
        self.rss.table.get(at).copied().unwrap_or(0)
    }

    /// The metadata of a received packet: as they were sent, with the hash in place of what the sender has said of it. A super-packet's have
    /// its segment size where the hash would be (`ccnic_frame::Meta`).
    #[inline(always)]
    pub(crate) fn meta(&self, sent: u64, hash: Option<u32>) -> u64 {
        if !self.rss.hash {
            return sent;
        }
        let sent = sent & !MARKED; // a mark is this receiver's
        if sent & SEGMENT != 0 {
            return sent;
        }
        let kept = sent & !(HASHED | u64::from(u32::MAX));
        kept | hash.map_or(0, |hash| HASHED | u64::from(hash))
    }

    #[inline(always)]
    fn toeplitz(&self, addresses: &[u8], ports: &[u8]) -> u32 {
        let sum = |rows: &[[u32; 256]], input: &[u8]| {
            rows.iter().zip(input).fold(0, |sum, (row, byte)| sum ^ row.get(usize::from(*byte)).unwrap_or(&0))
        };
        sum(&self.bytes, addresses) ^ sum(self.bytes.get(addresses.len()..).unwrap_or_default(), ports)
    }
}

/// The fields that identify the flow of an IP packet.
struct Flow<'a> {
    /// The flow type without ports.
    of: FlowType,
    /// Source and destination address, of 4 or 16 bytes each.
    addresses: &'a [u8],
    /// The flow type with ports, and source and destination port.
    ports: Option<(FlowType, &'a [u8; 4])>,
}

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
/// EtherTypes of VLAN tags: IEEE 802.1Q, 802.1ad, and the one of older switches.
const TAGS: [u16; 3] = [0x8100, 0x88a8, 0x9100];

#[inline(always)]
fn flow(start: &[u8]) -> Option<Flow<'_>> {
    let mut rest = start.get(12..)?;
    for _ in 0..2 {
        let (kind, _) = rest.split_first_chunk()?;
        if !TAGS.contains(&u16::from_be_bytes(*kind)) {
            break;
        }
        rest = rest.get(4..)?;
    }
    let (kind, packet) = rest.split_first_chunk()?;
    match u16::from_be_bytes(*kind) {
        IPV4 => ipv4(packet),
        IPV6 => ipv6(packet),
        _ => None,
    }
}

const TCP: u8 = 6;
const UDP: u8 = 17;
const SCTP: u8 = 132;

#[inline(always)]
fn ipv4(packet: &[u8]) -> Option<Flow<'_>> {
    let header: &[u8; 20] = packet.first_chunk()?;
    let words = header[0] & 0xf;
    if header[0] >> 4 != 4 || words < 5 {
        return None;
    }
    let of = match header[9] {
        TCP => Some(FlowType::Ipv4Tcp),
        UDP => Some(FlowType::Ipv4Udp),
        SCTP => Some(FlowType::Ipv4Sctp),
        _ => None,
    };
    // Only the first fragment has ports, so all fragments are hashed by addresses.
    let whole = u16::from_be_bytes([header[6], header[7]]) & 0x3fff == 0;
    let ports = || packet.get(usize::from(words) * 4..)?.first_chunk();
    let ports = of.filter(|_| whole).and_then(|of| Some((of, ports()?)));
    Some(Flow { of: FlowType::Ipv4, addresses: &header[12..20], ports })
}

/// Extension headers of IPv6 that are skipped at most.
const EXTENSIONS: usize = 4;

#[inline(always)]
fn ipv6(packet: &[u8]) -> Option<Flow<'_>> {
    let (header, rest) = packet.split_first_chunk::<40>()?;
    (header[0] >> 4 == 6).then(|| Flow {
        of: FlowType::Ipv6,
        addresses: &header[8..40],
        ports: ipv6_ports(header[6], rest),
    })
}

#[inline(always)]
fn ipv6_ports(mut next: u8, mut rest: &[u8]) -> Option<(FlowType, &[u8; 4])> {
    for _ in 0..=EXTENSIONS {
        let of = match next {
            TCP => FlowType::Ipv6Tcp,
            UDP => FlowType::Ipv6Udp,
            SCTP => FlowType::Ipv6Sctp,
            // Hop-by-hop options, routing, destination options (RFC 8200). A fragment is hashed by addresses.
            0 | 43 | 60 => {
                let [following, words] = *rest.first_chunk()?;
                rest = rest.get((usize::from(words) + 1) * 8..)?;
                next = following;
                continue;
            }
            _ => return None,
        };
        return Some((of, rest.first_chunk()?));
    }
    None
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::net::{IpAddr, SocketAddr};
    use std::vec::Vec;

    /// Microsoft's verification suite: destination, source, hash of the addresses, hash with ports.
    const SUITE: [(&str, &str, u32, u32); 8] = [
        ("161.142.100.80:1766", "66.9.149.187:2794", 0x323e_8fc2, 0x51cc_c178),
        ("65.69.140.83:4739", "199.92.111.2:14230", 0xd718_262a, 0xc626_b0ea),
        ("12.22.207.184:38024", "24.19.198.95:12898", 0xd2d0_a5de, 0x5c2b_394a),
        ("209.142.163.6:2217", "38.27.205.30:48228", 0x8298_9176, 0xafc7_327f),
        ("202.188.127.2:1303", "153.39.163.191:44251", 0x5d18_09c5, 0x10e8_28a2),
        ("[3ffe:2501:200:3::1]:1766", "[3ffe:2501:200:1fff::7]:2794", 0x2cc1_8cd5, 0x4020_7d3d),
        ("[ff02::1]:4739", "[3ffe:501:8::260:97ff:fe40:efab]:14230", 0x0f0c_461c, 0xdde5_1bbf),
        (
            "[fe80::200:f8ff:fe21:67cf]:38024",
            "[3ffe:1900:4545:3:200:f8ff:fe21:67cf]:44251",
            0x4b61_e985,
            0x02d1_feef,
        ),
    ];

    fn octets(ip: IpAddr) -> Vec<u8> {
        match ip {
            IpAddr::V4(ip) => ip.octets().to_vec(),
            IpAddr::V6(ip) => ip.octets().to_vec(),
        }
    }

    /// A packet from `source` to `destination`, with `between` the IP header's fixed part and the ports: IPv4
    /// options, or IPv6 extension headers.
    fn packet(tags: &[u16], source: &str, destination: &str, protocol: u8, between: &[u8]) -> Vec<u8> {
        let [source, destination] = [source, destination].map(|s| s.parse::<SocketAddr>().unwrap());
        let mut bytes = std::vec![2; 12];
        for tag in tags {
            bytes.extend(tag.to_be_bytes());
            bytes.extend([0, 7]);
        }
        if source.is_ipv4() {
            bytes.extend(IPV4.to_be_bytes());
            bytes.extend([0x45 + (between.len() / 4) as u8, 0, 0, 40, 1, 2, 0, 0, 64, protocol, 0, 0]);
        } else {
            bytes.extend(IPV6.to_be_bytes());
            bytes.extend([0x60, 0, 0, 0, 0, 20, protocol, 64]);
        }
        bytes.extend(octets(source.ip()));
        bytes.extend(octets(destination.ip()));
        bytes.extend(between);
        bytes.extend(source.port().to_be_bytes());
        bytes.extend(destination.port().to_be_bytes());
        bytes.extend([0; 12]);
        bytes
    }

    fn spreader(types: &[FlowType]) -> Spreader {
        Spreader::new(Rss { types: types.iter().copied().collect(), ..Rss::new(4) })
    }

    #[test]
    fn the_published_hashes() {
        let all = Spreader::new(Rss::new(4));
        let ips = spreader(&[FlowType::Ipv4, FlowType::Ipv6]);
        for (destination, source, addresses, ports) in SUITE {
            for protocol in [TCP, UDP, SCTP] {
                for tags in [&[][..], &[0x8100], &[0x88a8, 0x8100], &[0x9100, 0x8100]] {
                    let packet = packet(tags, source, destination, protocol, &[]);
                    assert_eq!(all.hash(&packet), Some(ports), "{destination} {protocol} {tags:x?}");
                    assert_eq!(ips.hash(&packet), Some(addresses), "{destination} {protocol} {tags:x?}");
                }
            }
            assert_eq!(all.hash(&packet(&[], source, destination, 1, &[])), Some(addresses), "ICMP");
            let three = packet(&[0x8100; 3], source, destination, TCP, &[]);
            assert_eq!(all.hash(&three), None, "a third tag");
        }
    }

    #[test]
    fn a_symmetric_key_has_one_hash_for_both_directions() {
        let symmetric = Spreader::new(Rss { key: SYMMETRIC_KEY, ..Rss::new(4) });
        let default = Spreader::new(Rss::new(4));
        let mut indices = [false; TABLE];
        for (destination, source, ..) in SUITE {
            for protocol in [TCP, UDP, 1] {
                let there = packet(&[], source, destination, protocol, &[]);
                let back = packet(&[], destination, source, protocol, &[]);
                assert_eq!(symmetric.hash(&there), symmetric.hash(&back), "{destination} {protocol}");
                assert_ne!(default.hash(&there), default.hash(&back));
                indices[symmetric.hash(&there).unwrap() as usize % TABLE] = true;
            }
        }
        assert!(indices.iter().filter(|hit| **hit).count() > 8, "flows differ all the same");
    }

    #[test]
    fn only_what_was_chosen_is_hashed() {
        let (destination, source, _, ports) = SUITE[0];
        let of = |protocol| packet(&[], source, destination, protocol, &[]);
        let tcp = spreader(&[FlowType::Ipv4Tcp, FlowType::Ipv6]);
        assert_eq!((tcp.hash(&of(TCP)), tcp.hash(&of(UDP)), tcp.hash(&of(1))), (Some(ports), None, None));
        assert_eq!(spreader(&[]).hash(&of(TCP)), None);
        let mut arp = of(TCP);
        arp[12..14].copy_from_slice(&[8, 6]);
        assert_eq!(Spreader::new(Rss::new(4)).hash(&arp), None);
    }

    #[test]
    fn fragments_go_by_their_addresses() {
        let all = Spreader::new(Rss::new(4));
        let (destination, source, addresses, ports) = SUITE[1];
        // More to come; the last one; "do not fragment"; the reserved bit.
        for (flags, hash) in
            [([0x20, 0], addresses), ([0, 9], addresses), ([0x40, 0], ports), ([0x80, 0], ports)]
        {
            let mut fragment = packet(&[], source, destination, UDP, &[]);
            fragment[20..22].copy_from_slice(&flags);
            assert_eq!(all.hash(&fragment), Some(hash), "{flags:x?}");
        }
        let (destination, source, addresses, _) = SUITE[6];
        let fragment = packet(&[], source, destination, 44, &[UDP, 0, 0, 1, 0, 0, 0, 7]);
        assert_eq!(all.hash(&fragment), Some(addresses));
    }

    #[test]
    fn options_and_extensions_are_passed_over() {
        let all = Spreader::new(Rss::new(4));
        let (destination, source, _, ports) = SUITE[2];
        for words in 1..=10 {
            let packet = packet(&[0x88a8, 0x8100], source, destination, TCP, &std::vec![1; words * 4]);
            assert_eq!(
                all.hash(packet.get(..START).unwrap_or(&packet)),
                Some(ports),
                "{words} words of options"
            );
        }
        let (destination, source, addresses, ports) = SUITE[7];
        let options = |next: u8, words: u8| {
            let mut header = std::vec![0; (usize::from(words) + 1) * 8];
            header[..2].copy_from_slice(&[next, words]);
            header
        };
        let extended = [options(60, 0), options(43, 1), options(SCTP, 0)].concat();
        assert_eq!(all.hash(&packet(&[], source, destination, 0, &extended)), Some(ports));
        // One header too many, and one that claims to go on beyond the packet.
        let many = [options(60, 0), options(60, 0), options(60, 0), options(60, 0), options(TCP, 0)].concat();
        assert_eq!(all.hash(&packet(&[], source, destination, 60, &many)), Some(addresses));
        let mut long = packet(&[], source, destination, 60, &options(TCP, 0));
        long[55] = 255;
        assert_eq!(all.hash(&long), Some(addresses));
    }

    /// The definition: for every bit set in the input, the 32 bits of the key from there on.
    fn by_definition(key: &[u8; KEY], input: &[u8]) -> u32 {
        let bit = |bytes: &[u8], at: usize| bytes[at / 8] >> (7 - at % 8) & 1;
        let window = |at| (0..32).fold(0, |word, i| word << 1 | u32::from(bit(key, at + i)));
        (0..input.len() * 8).filter(|at| bit(input, *at) == 1).fold(0, |hash, at| hash ^ window(at))
    }

    #[test]
    fn any_key_and_any_packet() {
        let mut state = 4711u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        };
        for _ in 0..crate::testing::rounds(20, 1) {
            let rss = Rss { key: core::array::from_fn(|_| random()), ..Rss::new(3) };
            let spreader = Spreader::new(rss.clone());
            for v6 in [false, true] {
                let (destination, source, ..) = SUITE[if v6 { 5 } else { 0 }];
                let mut packet = packet(&[], source, destination, UDP, &[]);
                let tuple = if v6 { 22..58 } else { 26..38 };
                packet[tuple.clone()].iter_mut().for_each(|byte| *byte = random());
                let hash = by_definition(&rss.key, &packet[tuple]);
                assert_eq!(spreader.hash(&packet), Some(hash));
                assert_eq!(u32::from(spreader.queue(Some(hash))), hash % 128 % 3);
            }
            // What is cut anywhere, or is noise, has some hash or none.
            let noise: Vec<u8> = (0..START).map(|_| random()).collect();
            let (destination, source, ..) = SUITE[5];
            let cut = packet(&[0x8100], source, destination, 0, &[60, 0, 0, 0, 0, 0, 0, 0]);
            for n in 0..cut.len() {
                let hash = spreader.hash(&cut[..n]);
                assert_eq!(hash.is_some(), n >= 58, "{n} bytes");
                spreader.hash(&noise[..n]);
            }
        }
        assert_eq!(Spreader::new(Rss::new(3)).queue(None), 0);
    }
}
