//! `virtio_net_hdr`: the offloads of a packet as virtio devices, TAP (`IFF_VNET_HDR`) and vhost write them before it.
//!
//! Virtio 1.3 section 5.1.6, `linux/virtio_net.h`; numbers are little-endian, as in virtio 1 and of TAP devices with
//! `TUNSETVNETLE`.
//!
//! ```text
//! byte 0     1          2         4          6            8             10            12
//!     | flags | gso_type | hdr_len | gso_size | csum_start | csum_offset | num_buffers |
//! ```
//!
//! What a kernel or a guest says there is checked against the packet's headers; unknown bits are refused.

use crate::bytes::put;
use crate::checksum::{self, Partial};
use crate::headers::{Headers, L4};
use crate::meta::{Checksum, Meta, SegmentKind, Segmentation};
use crate::refusal::Refusal;
use crate::segment::{MIN_SEGMENT, check_kind};

/// Bytes of the header with `num_buffers`: virtio 1, and mergeable receive buffers.
pub const BYTES: usize = 12;
/// Bytes of the header without: what TAP devices have unless told otherwise (`TUNSETVNETHDRSZ`).
pub const SHORT_BYTES: usize = 10;

/// Flag: the checksum at `csum_start + csum_offset` is to be computed (`VIRTIO_NET_HDR_F_NEEDS_CSUM`).
pub const NEEDS_CSUM: u8 = 1 << 0;
/// Flag: the checksum has been verified (`VIRTIO_NET_HDR_F_DATA_VALID`).
pub const DATA_VALID: u8 = 1 << 1;

const GSO_NONE: u8 = 0;
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;
const GSO_UDP_L4: u8 = 5;
/// Beside a TCP type: the packet has the flag CWR.
const GSO_ECN: u8 = 0x80;

/// The bytes of the two addresses and the EtherType, which no checksum covers.
const ETHERNET: usize = 14;
/// The flags of TCP, behind the start of its header, and the one among them of which virtio wants to know.
const TCP_FLAGS: usize = 13;
const CWR: u8 = 1 << 7;

/// A `virtio_net_hdr`, unchecked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct VnetHeader {
    /// [`NEEDS_CSUM`], [`DATA_VALID`].
    pub flags: u8,
    /// How to cut a super-packet.
    pub gso_type: u8,
    /// Bytes of all headers: a hint.
    pub hdr_len: u16,
    /// Bytes of payload of each segment.
    pub gso_size: u16,
    /// Where in the frame the sum begins.
    pub csum_start: u16,
    /// Where behind `csum_start` the checksum is.
    pub csum_offset: u16,
    /// Receive buffers that the packet takes; no part of the short header. A device that offers no mergeable buffers says 1.
    pub num_buffers: u16,
}

/// What a `virtio_net_hdr` says of its packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Offloads {
    /// As metadata.
    pub meta: Meta,
    /// A checksum that metadata cannot express, such as one of a tunnel's inner packet: to be filled in now.
    pub partial: Option<Partial>,
}

impl VnetHeader {
    /// From the bytes before a packet: 12, or the 10 of the short header. `None` when there are fewer.
    #[inline(always)]
    pub fn from_bytes(bytes: &[u8]) -> Option<VnetHeader> {
        let (&[flags, gso_type], rest) = bytes.split_first_chunk()?;
        let (words, _) = rest.as_chunks::<2>();
        let number = |i: usize| words.get(i).map(|word| u16::from_le_bytes(*word));
        Some(VnetHeader {
            flags,
            gso_type,
            hdr_len: number(0)?,
            gso_size: number(1)?,
            csum_start: number(2)?,
            csum_offset: number(3)?,
            num_buffers: number(4).unwrap_or(0),
        })
    }

    /// The bytes to put before a packet; the first [`SHORT_BYTES`] of them are the short header.
    #[inline(always)]
    pub fn to_bytes(self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        put(&mut bytes, 0, [self.flags, self.gso_type]);
        put(&mut bytes, 2, self.hdr_len.to_le_bytes());
        put(&mut bytes, 4, self.gso_size.to_le_bytes());
        put(&mut bytes, 6, self.csum_start.to_le_bytes());
        put(&mut bytes, 8, self.csum_offset.to_le_bytes());
        put(&mut bytes, 10, self.num_buffers.to_le_bytes());
        bytes
    }

    /// What the header of a packet that was received says, in terms of metadata. The frame has `len` bytes.
    ///
    /// # Errors
    /// Which field is wrong. Such a packet is to be dropped.
    #[inline]
    pub fn offloads(&self, headers: &Headers, len: usize) -> Result<Offloads, Refusal> {
        if self.flags & !(NEEDS_CSUM | DATA_VALID) != 0 {
            return Err(Refusal::VnetFlags);
        }
        if usize::from(self.hdr_len) > len {
            return Err(Refusal::VnetHeaderLength);
        }
        let partial = self.partial(len)?;
        let here = headers.l4_checksum_at().map(|field| Partial { start: headers.l4_at, field });
        let l4 = partial.is_some() && partial == here;
        if let Some(kind) = self.segment_kind()? {
            // Virtio 1.3, 5.1.6.2 and 5.1.6.4.1: segmentation implies NEEDS_CSUM.
            check_kind(kind, headers)?;
            if !l4 {
                return Err(Refusal::VnetGsoChecksum);
            }
            if self.gso_size < MIN_SEGMENT {
                return Err(Refusal::SegmentSize);
            }
            let cut = Segmentation { kind, size: self.gso_size };
            return Ok(Offloads { meta: Meta::default().with_segmentation(cut), partial: None });
        }
        let checksum = match partial {
            Some(_) if l4 => Checksum::Requested,
            None if self.flags & DATA_VALID != 0 && here.is_some() => Checksum::Good,
            _ => Checksum::Unknown,
        };
        let meta = Meta::default().with_l4_checksum(checksum);
        Ok(Offloads { meta, partial: partial.filter(|_| !l4) })
    }

    /// The header for a packet that goes to someone who takes one, with what its metadata request. `start`, the
    /// frame's first bytes with all headers, is made ready for it: the IPv4 checksum, which has no field here, is filled in,
    /// that of the transport layer becomes the sum of the pseudo header. A tag of the metadata is to be inserted before.
    ///
    /// # Errors
    /// Something is requested that the packet does not have.
    #[inline]
    pub fn prepare(meta: Meta, start: &mut [u8], headers: &Headers) -> Result<VnetHeader, Refusal> {
        let mut header = VnetHeader::default();
        if let Some(cut) = meta.segmentation() {
            check_kind(cut.kind, headers)?;
            if cut.size < MIN_SEGMENT {
                return Err(Refusal::SegmentSize);
            }
            header.gso_type = gso_type(cut.kind, start, headers);
            header.gso_size = cut.size;
            header.hdr_len = headers.payload_at as u16; // at most MAX_HEADERS
        }
        if meta.ip_checksum() == Checksum::Requested {
            checksum::fill_ipv4(start, headers)?;
        }
        match meta.l4_checksum() {
            Checksum::Unknown => {}
            Checksum::Good => header.flags = DATA_VALID,
            Checksum::Requested => {
                let Partial { start, field } = checksum::store_pseudo(start, headers)?;
                header.flags = NEEDS_CSUM;
                header.csum_start = start as u16; // at most MAX_HEADERS, too
                header.csum_offset = (field - start) as u16;
            }
        }
        Ok(header)
    }

    /// The checksum that is to be computed, with both places in the frame and behind its Ethernet header.
    #[inline(always)]
    fn partial(&self, len: usize) -> Result<Option<Partial>, Refusal> {
        if self.flags & NEEDS_CSUM == 0 {
            return Ok(None);
        }
        let start = usize::from(self.csum_start);
        let field = start + usize::from(self.csum_offset);
        if start < ETHERNET || field + 2 > len {
            return Err(Refusal::VnetChecksumPlace);
        }
        Ok(Some(Partial { start, field }))
    }

    #[inline(always)]
    fn segment_kind(&self) -> Result<Option<SegmentKind>, Refusal> {
        match self.gso_type {
            GSO_NONE => Ok(None),
            kind if kind & !GSO_ECN == GSO_TCPV4 => Ok(Some(SegmentKind::TcpIpv4)),
            kind if kind & !GSO_ECN == GSO_TCPV6 => Ok(Some(SegmentKind::TcpIpv6)),
            GSO_UDP_L4 => Ok(Some(SegmentKind::Udp)),
            _ => Err(Refusal::VnetGsoType),
        }
    }
}

#[inline(always)]
fn gso_type(kind: SegmentKind, start: &[u8], headers: &Headers) -> u8 {
    let kind = match kind {
        SegmentKind::TcpIpv4 => GSO_TCPV4,
        SegmentKind::TcpIpv6 => GSO_TCPV6,
        SegmentKind::Udp => GSO_UDP_L4,
    };
    let flags = start.get(headers.l4_at + TCP_FLAGS).copied().unwrap_or(0);
    if headers.l4 == L4::Tcp && flags & CWR != 0 { kind | GSO_ECN } else { kind }
}
