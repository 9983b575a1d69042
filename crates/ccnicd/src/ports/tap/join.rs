//! Consecutive segments of a TCP connection on their way to the kernel, joined to one super-packet: one system call, and one way
//! through the kernel's stack, for up to 64 KiB.
//!
//! Whoever sends segments that are cut already, such as a program without TSO, pays for each of them otherwise: in TCP between two
//! TAP ports without offloads, seven eighths of the switch's time are the kernel's. What is joined is there already, in one burst: no packet
//! waits for another. The rules are those of the kernel's GRO (`tcp_gro_receive`): right checksums, headers that differ only where the
//! segments of a super-packet do, one length but for the last, no flags but ACK, and PSH only in the last. So whoever has to cut the
//! super-packet again makes the same segments of it.

use ccnic::nic::gather;
use ccnic::{Desc, SharedMemory};
use ccnic_frame::segment::MIN_SEGMENT;
use ccnic_frame::vnet::SHORT_BYTES;
use ccnic_frame::{Checksum, Headers, L3, L4, Meta, Segmentation, Sum, VnetHeader, checksum};
use ccnic_shm::NativeMemory;
use ccnic_shm::outgoing::PIECES;

use crate::ports::unsent::requests;

/// Bytes of the longest headers: Ethernet, IPv6 or IPv4 without options, TCP with all options.
const HEADERS: usize = 14 + 40 + 60;
/// Bytes of the longest IP packet.
const LONGEST: usize = 0xffff;

/// Flags of TCP, behind the start of its header.
const FLAGS: usize = 13;
const PSH: u8 = 8;
const ACK: u8 = 16;

/// A segment that may be joined with others.
#[derive(Debug, Clone, Copy)]
struct Segment {
    headers: Headers,
    bytes: [u8; HEADERS],
    payload: usize,
    /// Its checksum is there, and not requested.
    computed: bool,
}

/// Segments that are one super-packet.
#[derive(Debug)]
pub(super) struct Run {
    first: Segment,
    /// The first one's headers without what may differ.
    alike: [u8; HEADERS],
    pieces: [(u32, u32); PIECES],
    used: usize,
    /// Bytes of payload.
    payload: usize,
    /// Of the last one.
    push: bool,
    /// Segments, the bytes that they have together, and their descriptors.
    pub(super) packets: u64,
    pub(super) bytes: u64,
    pub(super) descriptors: usize,
}

impl Segment {
    /// What these descriptors are; `None` where it is not to be joined. Bytes that are read can change later: then they were the
    /// sender's own.
    fn of(mem: &NativeMemory, packet: &[Desc], most: usize) -> Option<Segment> {
        let len: usize = packet.iter().map(|desc| usize::from(desc.len())).sum();
        let meta = Meta::from_word(packet.first()?.meta);
        let computed = !requests(meta);
        let others = meta.segmentation().is_some()
            || meta.vlan().is_some()
            || meta.ip_checksum() == Checksum::Requested;
        if len > most || !computed && others {
            return None;
        }
        let mut bytes = [0; HEADERS];
        let copied = gather(mem, packet, &mut bytes);
        let headers = Headers::parse(bytes.get(..copied)?, len);
        let plain = match headers.l3 {
            L3::Ipv4 => {
                headers.l4_at == headers.l3_at + 20 && checksum::verify_ipv4(&bytes, &headers) == Ok(true)
            }
            L3::Ipv6 => headers.l4_at == headers.l3_at + 40,
            L3::Other => false,
        };
        let whole = headers.malformed.is_none() && headers.l4_end == len && headers.payload_at < len;
        if !plain || !whole || headers.l4 != L4::Tcp || headers.tags > 0 {
            return None;
        }
        bytes.get_mut(headers.payload_at..)?.fill(0);
        let segment = Segment { headers, bytes, payload: len - headers.payload_at, computed };
        (segment.flags() & !PSH == ACK).then_some(segment)
    }

    /// True when the checksum of TCP is right, or requested.
    fn is_right(&self, mem: &NativeMemory, packet: &[Desc]) -> bool {
        if !self.computed {
            return true;
        }
        let Some(start) = self.bytes.get(..self.headers.payload_at) else { return false };
        let Ok(mut sum) = checksum::l4_sum(start, &self.headers) else { return false };
        behind(packet, self.headers.payload_at).for_each(|(at, len)| sum.add_sum(mem.with(at, len, Sum::of)));
        let field = self.short(self.headers.l4_at + 16);
        field == sum.checksum() || sum.checksum() == 0 && field == 0xffff
    }

    fn short(&self, at: usize) -> u16 {
        self.bytes.get(at..at + 2).and_then(|bytes| bytes.try_into().ok()).map_or(0, u16::from_be_bytes)
    }

    fn flags(&self) -> u8 {
        self.bytes.get(self.headers.l4_at + FLAGS).copied().unwrap_or(0)
    }

    fn sequence(&self) -> u32 {
        let at = self.headers.l4_at + 4;
        u32::from(self.short(at)) << 16 | u32::from(self.short(at + 2))
    }

    /// The headers without what differs between the segments of a super-packet, but for the identification of IPv4 where it may not.
    fn alike(&self, place: u64) -> [u8; HEADERS] {
        let mut bytes = self.bytes;
        let Headers { l3, l3_at, l4_at, .. } = self.headers;
        let mut put = |at: usize, with: &[u8]| {
            if let Some(field) = bytes.get_mut(at..at + with.len()) {
                field.copy_from_slice(with);
            }
        };
        match l3 {
            L3::Ipv4 => {
                // With DF set, nobody looks at it. Otherwise it counts, and the kernel counts when it cuts.
                let fixed = self.short(l3_at + 6) & 0x4000 != 0;
                let base = if fixed { 0 } else { self.short(l3_at + 4).wrapping_sub(place as u16) };
                put(l3_at + 2, &[0; 2]);
                put(l3_at + 4, &base.to_be_bytes());
                put(l3_at + 10, &[0; 2]);
            }
            _ => put(l3_at + 4, &[0; 2]),
        }
        put(l4_at + 4, &[0; 4]);
        put(l4_at + FLAGS, &[ACK]);
        put(l4_at + 16, &[0; 2]);
        bytes
    }
}

/// The pieces of a packet without its first bytes.
fn behind(packet: &[Desc], mut skip: usize) -> impl Iterator<Item = (u32, u32)> {
    packet.iter().filter_map(move |desc| {
        let part = skip.min(usize::from(desc.len()));
        skip -= part;
        let len = u32::from(desc.len()) - part as u32;
        (len > 0).then_some((desc.offset() + part as u32, len))
    })
}

impl Run {
    /// As many of the first packets as are one super-packet, two at least; `None` where there are none. `most`: bytes that each may have.
    pub(super) fn of(mem: &NativeMemory, packets: &[Desc], most: usize) -> Option<Run> {
        let mut each = packets.split_inclusive(|desc| !desc.more()).peekable();
        let packet = each.next()?;
        each.peek()?; // a packet alone is not looked into
        let first =
            Segment::of(mem, packet, most).filter(|first| first.payload >= usize::from(MIN_SEGMENT))?;
        let mut run = Run {
            first,
            alike: first.alike(0),
            pieces: [(0, 0); PIECES],
            used: 0,
            payload: 0,
            push: false,
            packets: 0,
            bytes: 0,
            descriptors: 0,
        };
        run.add(&first, packet);
        let right = |run: &Run, next: &Segment, its: &[Desc]| {
            (run.packets > 1 || first.is_right(mem, packet)) && next.is_right(mem, its)
        };
        for its in each {
            let next = Segment::of(mem, its, most).filter(|next| run.is_next(next) && right(&run, next, its));
            if !next.is_some_and(|next| run.add(&next, its)) {
                break;
            }
        }
        (run.packets > 1).then_some(run)
    }

    /// True when a segment follows the others: none of these is shorter, or has PSH.
    fn is_next(&self, next: &Segment) -> bool {
        !self.push
            && self.payload == self.first.payload * self.packets as usize
            && next.payload <= self.first.payload
            && next.sequence() == self.first.sequence().wrapping_add(self.payload as u32)
            && next.headers.payload_at == self.first.headers.payload_at
            && next.alike(self.packets) == self.alike
    }

    /// Appends a segment; false when there is no room.
    fn add(&mut self, segment: &Segment, packet: &[Desc]) -> bool {
        let header = segment.headers.payload_at;
        if header + self.payload + segment.payload > LONGEST {
            return false;
        }
        let before = self.used;
        for piece in behind(packet, header) {
            let Some(slot) = self.pieces.get_mut(self.used) else {
                self.used = before;
                return false;
            };
            *slot = piece;
            self.used += 1;
        }
        self.payload += segment.payload;
        self.push = segment.flags() & PSH != 0;
        self.packets += 1;
        self.bytes += (header + segment.payload) as u64;
        self.descriptors += packet.len();
        true
    }

    /// Hands the super-packet over as its `virtio_net_hdr`, its headers, and the pieces of its payload.
    pub(super) fn with<T>(&self, f: impl FnOnce([&[u8]; 2], &[(u32, u32)]) -> T) -> Option<T> {
        let Segment { headers, mut bytes, payload: size, .. } = self.first;
        let Headers { l3, l3_at, l4_at, payload_at, .. } = headers;
        let ipv4 = l3 == L3::Ipv4;
        let ip_len = payload_at + self.payload - if ipv4 { l3_at } else { l4_at };
        let len_at = l3_at + if ipv4 { 2 } else { 4 };
        bytes.get_mut(len_at..len_at + 2)?.copy_from_slice(&(ip_len as u16).to_be_bytes()); // LONGEST at most
        if self.push {
            *bytes.get_mut(l4_at + FLAGS)? |= PSH;
        }
        let start = bytes.get_mut(..payload_at)?;
        let headers = Headers::parse(start, payload_at + self.payload);
        let meta = if ipv4 {
            Meta::default()
                .with_segmentation(Segmentation::tcp_ipv4(size as u16))
                .with_ip_checksum(Checksum::Requested)
        } else {
            Meta::default().with_segmentation(Segmentation::tcp_ipv6(size as u16))
        };
        let header = VnetHeader::prepare(meta, start, &headers).ok()?.to_bytes();
        Some(f([header.get(..SHORT_BYTES)?, start], self.pieces.get(..self.used)?))
    }
}
