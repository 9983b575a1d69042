//! Why a request of a packet's metadata, or of its `virtio_net_hdr`, cannot be met.

use core::fmt;

use crate::headers::Malformed;

/// Why what is requested for a packet cannot be done. Whoever sends it on drops the packet and counts the reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The headers that the request is about are malformed.
    Malformed(Malformed),
    /// The packet has no such checksum: another protocol, a fragment, a source-routed packet.
    NoChecksum,
    /// The packet is not of the protocol that it is to be cut as.
    SegmentKind,
    /// The segment size is below [`MIN_SEGMENT`](crate::segment::MIN_SEGMENT).
    SegmentSize,
    /// The packet would become more than [`MAX_SEGMENTS`](crate::segment::MAX_SEGMENTS) packets.
    TooManySegments,
    /// The UDP length of a super-packet is not that of its IP packet.
    UdpLength,
    /// `virtio_net_hdr.flags` has bits that were not negotiated.
    VnetFlags,
    /// `virtio_net_hdr.gso_type` is unknown, or not one that is cut here: UDP fragmentation.
    VnetGsoType,
    /// `virtio_net_hdr` has a segmentation without `NEEDS_CSUM`, or with a checksum that is not the one of TCP or UDP.
    VnetGsoChecksum,
    /// `virtio_net_hdr.hdr_len` is beyond the frame.
    VnetHeaderLength,
    /// `virtio_net_hdr.csum_start` or `csum_offset` is beyond the frame, or in its Ethernet header.
    VnetChecksumPlace,
}

impl Refusal {
    /// The reason in words, for a counter or a log.
    pub const fn as_str(self) -> &'static str {
        match self {
            Refusal::Malformed(malformed) => malformed.as_str(),
            Refusal::NoChecksum => "the packet has no such checksum",
            Refusal::SegmentKind => "the packet is not of the protocol that it is to be segmented as",
            Refusal::SegmentSize => "the segment size is too small",
            Refusal::TooManySegments => "the packet has too many segments",
            Refusal::UdpLength => "the UDP length is not that of the IP packet",
            Refusal::VnetFlags => "virtio_net_hdr.flags: unknown bits",
            Refusal::VnetGsoType => "virtio_net_hdr.gso_type: unknown",
            Refusal::VnetGsoChecksum => "virtio_net_hdr: segmentation without the checksum of TCP or UDP",
            Refusal::VnetHeaderLength => "virtio_net_hdr.hdr_len: beyond the frame",
            Refusal::VnetChecksumPlace => "virtio_net_hdr.csum_start, csum_offset: outside the packet",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl core::error::Error for Refusal {}

impl From<Malformed> for Refusal {
    fn from(malformed: Malformed) -> Refusal {
        Refusal::Malformed(malformed)
    }
}
