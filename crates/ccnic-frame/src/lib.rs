//! What is in a frame: headers, checksums, segmentation, VLAN tags, and the metadata of a descriptor that say
//! which of these the sender has left to others.
//!
//! Between memories a packet needs no checksum and no limit of its length. So the sender only *requests* them in
//! the packet's metadata ([`Meta`]), and whoever hands the packet to something that cannot take it so computes
//! them: a TAP device without `IFF_VNET_HDR`, a program that takes no super-packets. Nobody relies on a
//! sender for where the headers are: they are parsed again ([`Headers`]).
//!
//! | module | what it does | as in |
//! |---|---|---|
//! | [`meta`] | the 64 bits of metadata: checksum, segmentation, VLAN tag, flow hash | `mbuf.ol_flags` |
//! | [`Takes`] | which requests a receiver takes as they are | features of virtio |
//! | [`headers`] | finds Ethernet, VLAN, IPv4, IPv6, TCP, UDP, ICMP headers | `rte_net_get_ptype` |
//! | [`checksum`] | sums bytes; verifies and fills IPv4, TCP, UDP and ICMPv6 checksums | `skb_checksum_help` |
//! | [`vnet`] | `virtio_net_hdr`, from and to metadata | `virtio_net_hdr_to_skb` |
//! | [`segment`] | cuts a super-packet (TSO, USO) | `skb_gso_segment` |
//! | [`part`] | all of it for a receiver that takes less | `skb_gso_segment`, `NETIF_F_GSO_PARTIAL` |
//! | [`vlan`] | inserts and strips a VLAN tag | `rte_vlan_insert` |
//!
//! Everything is a pure function of bytes: no memory but slices, no allocation, no `unsafe`, no panic whatever the
//! bytes are. The bytes must not change meanwhile. So whoever holds a frame in memory that a program can write
//! copies its first [`MAX_HEADERS`] bytes out once, and works on this copy; payload is needed as sums only
//! ([`Sum`]), which may be of the bytes that were copied on.
//!
//! # Example
//!
//! A port that can neither segment nor compute checksums sends a packet with what its sender has requested:
//!
//! ```
//! use ccnic_frame::{Headers, Meta, Refusal, Segmentation, Segmenter, Sum, checksum};
//!
//! /// Sends `frame` to something that takes frames which are complete and fit its MTU. (A tag of the metadata has been inserted
//! /// by [`vlan::insert`](ccnic_frame::vlan::insert), so that the headers that are parsed here have it.)
//! fn send(meta: Meta, frame: &mut [u8], mut wire: impl FnMut(&[u8], &[u8])) -> Result<(), Refusal> {
//!     let headers = Headers::parse(frame, frame.len());
//!     let Some(cut) = meta.segmentation() else {
//!         checksum::complete(meta, frame, &headers, [])?;
//!         wire(frame, &[]);
//!         return Ok(());
//!     };
//!     let mut segmenter = Segmenter::new(cut, frame, &headers)?;
//!     for segment in segmenter.segments() {
//!         let payload = frame.get(segment.payload.clone()).unwrap_or_default();
//!         wire(segmenter.header(&segment, Sum::of(payload)), payload);
//!     }
//!     Ok(())
//! }
//!
//! # let mut frame = vec![0; 14 + 20 + 8 + 3000];
//! # frame[12..26].copy_from_slice(&[8, 0, 0x45, 0, 11, 212, 0, 0, 0, 0, 64, 17, 0, 0]);
//! # frame[38..40].copy_from_slice(&3008u16.to_be_bytes());
//! // 3000 bytes of UDP, to be cut into datagrams of 1400 bytes.
//! let meta = Meta::default().with_segmentation(Segmentation::udp(1400));
//! let mut sent = Vec::new();
//! send(meta, &mut frame, |header, payload| sent.push(header.len() + payload.len()))?;
//! assert_eq!(sent, [1442, 1442, 242]);
//! # Ok::<(), Refusal>(())
//! ```
#![no_std]
#![forbid(unsafe_code)]
#![warn(clippy::indexing_slicing)]

mod bytes;
pub mod checksum;
pub mod headers;
pub mod meta;
mod part;
mod refusal;
pub mod segment;
pub mod sum;
mod takes;
pub mod vlan;
pub mod vnet;

pub use headers::{Headers, L3, L4, MAX_HEADERS, Malformed};
pub use meta::{Checksum, Meta, SegmentKind, Segmentation};
pub use part::{NoPart, part};
pub use refusal::Refusal;
pub use segment::{Segment, Segmenter};
pub use sum::Sum;
pub use takes::Takes;
pub use vlan::Tci;
pub use vnet::VnetHeader;
