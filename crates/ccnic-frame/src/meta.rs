//! The 64 bits of metadata that a packet's first descriptor carries.
//!
//! ```text
//!  63                    48 47    41   40   39 38   37 36   35 34   33  32 31                          0
//! |      VLAN tag (TCI)    |  zero |MARKED|TAG|  L4   |  IP   | SEGMENT |HASHED|         argument        |
//!
//! MARKED  argument: 31..16 the mark that a flow rule of the receiver has given it; no hash
//! TAG     the tag is valid: to be inserted (from a sender), or stripped (to a receiver)
//! L4, IP  checksum of TCP or UDP, and of the IPv4 header: 0 nothing said, 1 requested, 2 good
//! SEGMENT 0 none, 1 TCP over IPv4, 2 TCP over IPv6, 3 UDP; argument: 15..0 the segment size
//! HASHED  argument: the flow hash; only where SEGMENT is 0 and nothing is MARKED
//! ```
//!
//! - A word of zero says nothing, as before these bits had a meaning. Any word can be decoded
//!   ([`Meta::from_word`]): what has no meaning is dropped.
//! - *Requested*, from a sender: the checksum field's content is undefined, whoever needs it computes it. To a receiver: the
//!   packet has come from a memory, and its checksum has not been computed (`NEEDS_CSUM` of virtio).
//! - A super-packet has no hash, since both do not fit; one hash for 64 KiB is soon computed by who needs it.
//! - Lengths of headers are not carried: who cuts a packet must parse it anyway, since the sender is not trusted.
//! - There is no *bad*: a packet whose checksum was found wrong says nothing, and its reader finds the same
//!   (virtio and Linux do so, too).

use core::fmt;

use crate::vlan::Tci;

const HASH_SHIFT: u32 = 32;
const SEGMENT_SHIFT: u32 = 33;
const IP_SHIFT: u32 = 35;
const L4_SHIFT: u32 = 37;
const TAG_SHIFT: u32 = 39;
const MARKED_SHIFT: u32 = 40;
const TCI_SHIFT: u32 = 48;
/// Of the mark, within the argument.
const MARK_SHIFT: u32 = 16;
/// Width of the fields that are neither flags nor numbers.
const TWO_BITS: u64 = 3;
const SIZE_MASK: u64 = 0xffff;
const HASH_MASK: u64 = 0xffff_ffff;

/// What is known about a checksum, or wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Checksum {
    /// Nothing: it is in the packet, right or wrong.
    #[default]
    Unknown = 0,
    /// It is not in the packet yet.
    Requested = 1,
    /// It is in the packet, and somebody has verified it.
    Good = 2,
}

/// Which segmentation a super-packet needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SegmentKind {
    /// TSO over IPv4 (`VIRTIO_NET_HDR_GSO_TCPV4`).
    TcpIpv4 = 1,
    /// TSO over IPv6 (`VIRTIO_NET_HDR_GSO_TCPV6`).
    TcpIpv6 = 2,
    /// USO, over IPv4 or IPv6: one datagram becomes several (`VIRTIO_NET_HDR_GSO_UDP_L4`).
    Udp = 3,
}

/// That a packet is a super-packet, and how it is to be cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segmentation {
    /// The protocol. The packet's headers must say the same when it is cut.
    pub kind: SegmentKind,
    /// Bytes of payload behind the TCP or UDP header of each segment but the last (`gso_size`, `tso_segsz`).
    pub size: u16,
}

impl Segmentation {
    /// TCP over IPv4, `size` bytes of payload in each segment.
    pub const fn tcp_ipv4(size: u16) -> Segmentation {
        Segmentation { kind: SegmentKind::TcpIpv4, size }
    }

    /// TCP over IPv6.
    pub const fn tcp_ipv6(size: u16) -> Segmentation {
        Segmentation { kind: SegmentKind::TcpIpv6, size }
    }

    /// UDP over either.
    pub const fn udp(size: u16) -> Segmentation {
        Segmentation { kind: SegmentKind::Udp, size }
    }
}

/// Metadata of a packet, decoded from any word. The [module](self) shows the bits.
///
/// ```
/// use ccnic_frame::{Checksum, Meta, Tci};
///
/// let meta = Meta::default().with_l4_checksum(Checksum::Requested).with_vlan(Tci::new(5));
/// assert_eq!(Meta::from_word(meta.word()), meta);
/// assert_eq!((meta.l4_checksum(), meta.vlan(), meta.hash()), (Checksum::Requested, Some(Tci::new(5)), None));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Meta(u64);

impl Meta {
    /// The bit that says that the low 32 bits are a flow hash: `CCNIC_META_HASHED`, `ccnic::rss::HASHED`.
    pub const HASHED: u64 = 1 << HASH_SHIFT;
    /// The bits that say that a packet is a super-packet, and of which protocol.
    pub const SEGMENT: u64 = TWO_BITS << SEGMENT_SHIFT;
    /// The bit that says that there is a VLAN tag.
    pub(crate) const TAG: u64 = 1 << TAG_SHIFT;
    /// The bit that says that a flow rule of the receiver has marked the packet: `CCNIC_META_MARKED`.
    pub const MARKED: u64 = 1 << MARKED_SHIFT;
    /// The bits of a word by which a sender requests something. All others are what a NIC tells a receiver: a hash, a mark, that a checksum
    /// is good. A word that was cut down to these says what its [requests](Meta::requests) say, but that 3, which has no meaning in the two
    /// bits of a checksum, requests it; and the argument of a word that is no super-packet's has none.
    pub const REQUESTS: u64 = (Checksum::Requested as u64) << IP_SHIFT
        | (Checksum::Requested as u64) << L4_SHIFT
        | Meta::SEGMENT
        | SIZE_MASK
        | Meta::TAG
        | SIZE_MASK << TCI_SHIFT;

    /// Decodes a word, which may be anything. Fields that have no meaning, or contradict others, become zero.
    #[inline(always)]
    pub const fn from_word(word: u64) -> Meta {
        let ip = checksum_of(word >> IP_SHIFT);
        let l4 = checksum_of(word >> L4_SHIFT);
        let meta = Meta(0).with_ip_checksum(ip);
        let meta = match segment_kind_of(word >> SEGMENT_SHIFT) {
            Some(kind) => meta.with_segmentation(Segmentation { kind, size: (word & SIZE_MASK) as u16 }),
            None if word & (Meta::HASHED | Meta::MARKED) == Meta::HASHED => {
                meta.with_l4_checksum(l4).with_hash(word as u32)
            }
            None => meta.with_l4_checksum(l4),
        };
        let meta = if word & Meta::MARKED == 0 { meta } else { meta.with_mark((word >> MARK_SHIFT) as u16) };
        if word >> TAG_SHIFT & 1 == 0 { meta } else { meta.with_vlan(Tci::new((word >> TCI_SHIFT) as u16)) }
    }

    /// The word for the descriptor.
    #[inline(always)]
    pub const fn word(self) -> u64 {
        self.0
    }

    /// The IPv4 header's checksum.
    #[inline(always)]
    pub const fn ip_checksum(self) -> Checksum {
        checksum_of(self.0 >> IP_SHIFT)
    }

    /// The checksum of TCP or UDP. Requested where there is a segmentation.
    #[inline(always)]
    pub const fn l4_checksum(self) -> Checksum {
        checksum_of(self.0 >> L4_SHIFT)
    }

    /// How the packet is to be cut, if it is a super-packet.
    #[inline(always)]
    pub const fn segmentation(self) -> Option<Segmentation> {
        match segment_kind_of(self.0 >> SEGMENT_SHIFT) {
            Some(kind) => Some(Segmentation { kind, size: (self.0 & SIZE_MASK) as u16 }),
            None => None,
        }
    }

    /// The VLAN tag that is to be inserted, or was stripped. The frame itself does not have it.
    #[inline(always)]
    pub const fn vlan(self) -> Option<Tci> {
        if self.0 >> TAG_SHIFT & 1 == 0 { None } else { Some(Tci::new((self.0 >> TCI_SHIFT) as u16)) }
    }

    /// The flow hash.
    #[inline(always)]
    pub const fn hash(self) -> Option<u32> {
        if self.0 & Meta::HASHED == 0 { None } else { Some(self.0 as u32) }
    }

    /// The mark that a flow rule has given it.
    #[inline(always)]
    pub const fn mark(self) -> Option<u16> {
        if self.0 & Meta::MARKED == 0 { None } else { Some((self.0 >> MARK_SHIFT) as u16) }
    }

    /// True when nothing has to be done before the packet may go anywhere: nothing requested, no tag apart, no super-packet.
    #[inline(always)]
    pub const fn is_complete(self) -> bool {
        let requested = (Checksum::Requested as u64) << IP_SHIFT | (Checksum::Requested as u64) << L4_SHIFT;
        self.0 & (requested | TWO_BITS << SEGMENT_SHIFT | 1 << TAG_SHIFT) == 0
    }

    /// What a sender may say: its requests. A hash, a mark and *good* are what a NIC tells a receiver, and are dropped.
    #[inline(always)]
    pub const fn requests(self) -> Meta {
        let meta = match self.ip_checksum() {
            Checksum::Good => self.with_ip_checksum(Checksum::Unknown),
            _ => self,
        };
        let meta = match meta.l4_checksum() {
            Checksum::Good => meta.with_l4_checksum(Checksum::Unknown),
            _ => meta,
        };
        let meta = meta.without_mark();
        if meta.0 & Meta::HASHED == 0 { meta } else { Meta(meta.0 & !(Meta::HASHED | HASH_MASK)) }
    }

    /// With what is known about the IPv4 header's checksum.
    #[inline(always)]
    pub const fn with_ip_checksum(self, checksum: Checksum) -> Meta {
        Meta(self.0 & !(TWO_BITS << IP_SHIFT) | (checksum as u64) << IP_SHIFT)
    }

    /// With what is known about the checksum of TCP or UDP. No change of a super-packet: its is requested.
    #[inline(always)]
    pub const fn with_l4_checksum(self, checksum: Checksum) -> Meta {
        match self.segmentation() {
            Some(_) => self,
            None => Meta(self.0 & !(TWO_BITS << L4_SHIFT) | (checksum as u64) << L4_SHIFT),
        }
    }

    /// With a segmentation: the L4 checksum becomes requested, a hash or a mark is lost.
    #[inline(always)]
    pub const fn with_segmentation(self, cut: Segmentation) -> Meta {
        let fields =
            TWO_BITS << L4_SHIFT | TWO_BITS << SEGMENT_SHIFT | Meta::HASHED | Meta::MARKED | HASH_MASK;
        let l4 = (Checksum::Requested as u64) << L4_SHIFT;
        Meta(self.0 & !fields | l4 | (cut.kind as u64) << SEGMENT_SHIFT | cut.size as u64)
    }

    /// With a VLAN tag.
    #[inline(always)]
    pub const fn with_vlan(self, tci: Tci) -> Meta {
        Meta(self.without_vlan().0 | 1 << TAG_SHIFT | (tci.get() as u64) << TCI_SHIFT)
    }

    /// Without a VLAN tag: it is in the frame now, or nobody wants it.
    #[inline(always)]
    pub const fn without_vlan(self) -> Meta {
        Meta(self.0 & !(1 << TAG_SHIFT | 0xffff << TCI_SHIFT))
    }

    /// With a flow hash; a mark is lost. No change of a super-packet, which has no room for it.
    #[inline(always)]
    pub const fn with_hash(self, hash: u32) -> Meta {
        match self.segmentation() {
            Some(_) => self,
            None => Meta(self.0 & !(HASH_MASK | Meta::MARKED) | Meta::HASHED | hash as u64),
        }
    }

    /// With the mark of a flow rule; a hash is lost.
    #[inline(always)]
    pub const fn with_mark(self, mark: u16) -> Meta {
        let kept = if self.segmentation().is_some() { SIZE_MASK } else { 0 };
        let meta = self.0 & !(Meta::HASHED | HASH_MASK) | self.0 & kept;
        Meta(meta | Meta::MARKED | (mark as u64) << MARK_SHIFT)
    }

    /// Without a mark.
    #[inline(always)]
    pub const fn without_mark(self) -> Meta {
        if self.0 & Meta::MARKED == 0 {
            self
        } else {
            Meta(self.0 & !(Meta::MARKED | SIZE_MASK << MARK_SHIFT))
        }
    }
}

impl fmt::Debug for Meta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Meta")
            .field("ip_checksum", &self.ip_checksum())
            .field("l4_checksum", &self.l4_checksum())
            .field("segmentation", &self.segmentation())
            .field("vlan", &self.vlan())
            .field("hash", &self.hash())
            .field("mark", &self.mark())
            .finish()
    }
}

#[inline(always)]
const fn checksum_of(bits: u64) -> Checksum {
    match bits & TWO_BITS {
        1 => Checksum::Requested,
        2 => Checksum::Good,
        _ => Checksum::Unknown,
    }
}

#[inline(always)]
const fn segment_kind_of(bits: u64) -> Option<SegmentKind> {
    match bits & TWO_BITS {
        1 => Some(SegmentKind::TcpIpv4),
        2 => Some(SegmentKind::TcpIpv6),
        3 => Some(SegmentKind::Udp),
        _ => None,
    }
}
