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

mod headers;
#[cfg(test)]
mod tests;

use alloc::boxed::Box;
use core::fmt::Debug;

use headers::flow;

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
    ///
    /// ```
    /// use ccnic::rss::{HASHED, Rss, Spreader};
    ///
    /// let told = Spreader::new(Rss { hash: true, ..Rss::new(2) });
    /// assert_eq!(told.meta(0, Some(77)), HASHED | 77);
    /// assert_eq!(Spreader::new(Rss::new(2)).meta(5, Some(77)), 5);
    /// ```
    #[inline(always)]
    pub fn meta(&self, sent: u64, hash: Option<u32>) -> u64 {
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
