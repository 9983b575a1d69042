//! Which requests of a packet's metadata a receiver takes as they are.

use crate::meta::{Checksum, Meta, SegmentKind};

const IP: u32 = 1;
const L4: u32 = 2;
const TCP: u32 = 4;
const UDP: u32 = 8;
const VLAN: u32 = 16;

/// What a receiver takes as it is; everything else is done for it before it gets a packet. The bits are those of `CCNIC_TAKES_IP` and so
/// on in `ccnic_offload.h`.
///
/// ```
/// use ccnic_frame::{Checksum, Meta, Takes, Tci};
///
/// let takes = Takes::NONE.with_l4_checksum();
/// let sent = Meta::default().with_l4_checksum(Checksum::Requested);
/// assert!(takes.covers(sent) && sent.word() & takes.others() == 0);
/// assert!(!takes.covers(sent.with_vlan(Tci::new(7))));
/// assert_eq!(takes.leaves(sent.with_vlan(Tci::new(7))), Meta::default().with_vlan(Tci::new(7)));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Takes(u32);

impl Takes {
    /// Complete packets only.
    pub const NONE: Takes = Takes(0);
    /// Everything.
    pub const ALL: Takes = Takes(IP | L4 | TCP | UDP | VLAN);

    /// From bits, which may be any: those without a meaning are dropped. Who takes super-packets takes them with their checksum
    /// requested.
    pub const fn from_bits(bits: u32) -> Takes {
        let bits = bits & Takes::ALL.0;
        if bits & (TCP | UDP) == 0 { Takes(bits) } else { Takes(bits | L4) }
    }

    /// As a number.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Also packets whose IPv4 header has no checksum.
    #[must_use]
    pub const fn with_ip_checksum(self) -> Takes {
        Takes::from_bits(self.0 | IP)
    }

    /// Also packets without the checksum of TCP or UDP.
    #[must_use]
    pub const fn with_l4_checksum(self) -> Takes {
        Takes::from_bits(self.0 | L4)
    }

    /// Also super-packets of TCP.
    #[must_use]
    pub const fn with_tcp_segments(self) -> Takes {
        Takes::from_bits(self.0 | TCP)
    }

    /// Also super-packets of UDP.
    #[must_use]
    pub const fn with_udp_segments(self) -> Takes {
        Takes::from_bits(self.0 | UDP)
    }

    /// Also VLAN tags in the metadata.
    #[must_use]
    pub const fn with_vlan(self) -> Takes {
        Takes::from_bits(self.0 | VLAN)
    }

    /// Only what both take.
    #[must_use]
    pub const fn and(self, other: Takes) -> Takes {
        Takes::from_bits(self.0 & other.0)
    }

    const fn has(self, bit: u32) -> bool {
        self.0 & bit != 0
    }

    /// The bits of metadata words that may request something else: a word without them is [covered](Takes::covers). For bursts, whose
    /// words are looked at together.
    pub const fn others(self) -> u64 {
        let none = Meta::from_word(0);
        let mut bits = 0;
        if !self.has(IP) {
            bits |= none.with_ip_checksum(Checksum::Requested).word();
        }
        if !self.has(L4) {
            bits |= none.with_l4_checksum(Checksum::Requested).word();
        }
        if !self.has(TCP) || !self.has(UDP) {
            bits |= Meta::SEGMENT;
        }
        if self.has(VLAN) { bits } else { bits | Meta::TAG }
    }

    /// True when nothing has to be done for the receiver.
    pub fn covers(self, meta: Meta) -> bool {
        meta.is_complete() || self.leaves(meta) == Meta::default()
    }

    /// What has to be done for the receiver: the requests that it does not take. A super-packet has to be cut with all that is requested
    /// of it but the tag, since each segment has checksums of its own.
    pub fn leaves(self, meta: Meta) -> Meta {
        let mut left = Meta::default();
        let cut = meta.segmentation().filter(|cut| match cut.kind {
            SegmentKind::TcpIpv4 | SegmentKind::TcpIpv6 => !self.has(TCP),
            SegmentKind::Udp => !self.has(UDP),
        });
        if meta.ip_checksum() == Checksum::Requested && (cut.is_some() || !self.has(IP)) {
            left = left.with_ip_checksum(Checksum::Requested);
        }
        if meta.l4_checksum() == Checksum::Requested && !self.has(L4) {
            left = left.with_l4_checksum(Checksum::Requested);
        }
        if let Some(cut) = cut {
            left = left.with_segmentation(cut);
        }
        match meta.vlan() {
            Some(tci) if !self.has(VLAN) => left.with_vlan(tci),
            _ => left,
        }
    }

    /// What the receiver gets to know of a packet for which all that it does not take has been done.
    pub fn rest(self, meta: Meta) -> Meta {
        let done = self.leaves(meta);
        let mut rest = if done.segmentation().is_some() {
            meta.vlan().map_or(Meta::default(), |tci| Meta::default().with_vlan(tci))
        } else {
            meta
        };
        if done.ip_checksum() == Checksum::Requested {
            rest = rest.with_ip_checksum(Checksum::Unknown);
        }
        if done.l4_checksum() == Checksum::Requested {
            rest = rest.with_l4_checksum(Checksum::Unknown);
        }
        if done.vlan().is_some() { rest.without_vlan() } else { rest }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::meta::Segmentation;
    use crate::vlan::Tci;

    /// All that a sender can say.
    fn words() -> impl Iterator<Item = Meta> {
        let checksums = [Checksum::Unknown, Checksum::Requested, Checksum::Good];
        let cuts = [
            None,
            Some(Segmentation::tcp_ipv4(1448)),
            Some(Segmentation::tcp_ipv6(8)),
            Some(Segmentation::udp(9)),
        ];
        let tags = [None, Some(Tci::new(0xe001))];
        checksums.into_iter().flat_map(move |ip| {
            checksums.into_iter().flat_map(move |l4| {
                cuts.into_iter().flat_map(move |cut| {
                    tags.into_iter().map(move |tag| {
                        let meta = Meta::default().with_ip_checksum(ip).with_l4_checksum(l4);
                        let meta = cut.map_or(meta.with_hash(7), |cut| meta.with_segmentation(cut));
                        tag.map_or(meta, |tag| meta.with_vlan(tag))
                    })
                })
            })
        })
    }

    #[test]
    fn what_is_left_and_what_is_told_add_up() {
        for bits in 0..32 {
            let takes = Takes::from_bits(bits);
            for meta in words() {
                let (left, rest) = (takes.leaves(meta), takes.rest(meta));
                assert!(takes.covers(rest), "{takes:?} {meta:?} {rest:?}");
                assert_eq!(takes.covers(meta), left == Meta::default(), "{takes:?} {meta:?}");
                assert!(meta.word() & takes.others() != 0 || takes.covers(meta), "{takes:?} {meta:?}");
                if takes.covers(meta) {
                    assert_eq!(rest, meta);
                }
                if left.segmentation().is_some() {
                    assert_eq!(left.ip_checksum(), meta.requests().ip_checksum());
                }
            }
        }
    }

    #[test]
    fn bits_without_a_meaning_are_dropped_and_super_packets_bring_their_checksum() {
        assert_eq!(Takes::from_bits(u32::MAX), Takes::ALL);
        assert_eq!(Takes::NONE.with_udp_segments(), Takes::NONE.with_l4_checksum().with_udp_segments());
        assert_eq!(Takes::ALL.others(), 0);
        assert!(words().all(|meta| Takes::ALL.covers(meta)));
    }
}
