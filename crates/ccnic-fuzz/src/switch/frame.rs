//! Frames that ports send.

use ccnic_frame::{Checksum, Meta, SegmentKind, Segmentation, Tci};
use etherparse::PacketBuilder;

use super::plan::{STATIONS, mac};
use crate::input::Input;

/// A frame, its metadata, and how it lies in memory.
#[derive(Debug, Clone)]
pub(super) struct Sent {
    pub(super) bytes: Vec<u8>,
    pub(super) meta: Meta,
    /// Bytes of its first segment, where it has several.
    pub(super) cut: usize,
    /// Whether a port that is held to its IP addresses may send it; `None`: one cannot tell by its looks.
    pub(super) honest: Option<bool>,
}

impl Sent {
    /// As the next bytes choose.
    pub(super) fn new(input: &Input, longest: usize) -> Sent {
        let how = input.byte();
        let (to, from) = (address(input), address(input));
        let (mut bytes, mut honest) = match how & 7 {
            0 => raw(input, to, from),
            1 => (other(to, from, length(input)), Some(true)),
            2 => arp(input, to, from),
            kind => ip(input, kind, to, from),
        };
        for _ in 0..[0, 0, 1, 2][usize::from(how >> 3) & 3] {
            let [a, b] = input.short().to_be_bytes();
            bytes.splice(12.min(bytes.len())..12.min(bytes.len()), [0x81, 0, a, b]);
        }
        if how & 0x20 != 0 {
            let at = usize::from(input.short()) % bytes.len().max(1);
            bytes.get_mut(at).into_iter().for_each(|byte| *byte ^= input.byte());
            honest = None;
        }
        if how & 0x40 != 0 {
            bytes.truncate(bytes.len().saturating_sub(1 + input.below(40)).max(1));
            honest = None;
        }
        if bytes.len() > longest {
            bytes.truncate(longest);
            honest = None;
        }
        let meta = if how & 0x80 == 0 { Meta::default() } else { meta(input) };
        let cut = input.below(64);
        Sent { bytes, meta, cut, honest }
    }

    pub(super) fn is_super(&self) -> bool {
        self.meta.segmentation().is_some()
    }

    /// Its segments: the first one perhaps short, none longer than a buffer.
    pub(super) fn segments(&self) -> impl Iterator<Item = &[u8]> {
        let at = if self.cut < self.bytes.len() { self.cut } else { 0 };
        let (first, rest) = self.bytes.split_at(at);
        [first].into_iter().filter(|first| !first.is_empty()).chain(rest.chunks(4096))
    }
}

fn address(input: &Input) -> [u8; 6] {
    match input.byte() % 16 {
        10 => [0; 6],
        11 => [0x33, 0x33, 0, 0, 0, 1],
        12.. => [0xff; 6],
        n if n < STATIONS + 4 => mac(n),
        _ => std::array::from_fn(|_| input.byte()),
    }
}

fn length(input: &Input) -> usize {
    match input.byte() {
        short @ 0..200 => short.into(),
        _ => usize::from(input.short()) % 12_000,
    }
}

fn raw(input: &Input, to: [u8; 6], from: [u8; 6]) -> (Vec<u8>, Option<bool>) {
    let rest: Vec<u8> = (0..input.below(64)).map(|_| input.byte()).collect();
    let mut bytes = [&to[..], &from, &rest].concat();
    if rest.is_empty() {
        bytes.truncate(1 + input.below(12));
    }
    (bytes, None)
}

/// Neither IP nor ARP.
fn other(to: [u8; 6], from: [u8; 6], len: usize) -> Vec<u8> {
    [&to[..], &from, &[0x88, 0xb5]].concat().into_iter().chain(payload(len)).collect()
}

fn payload(len: usize) -> impl Iterator<Item = u8> {
    (0..len).map(|i| (i * 7 + i / 251) as u8)
}

fn arp(input: &Input, to: [u8; 6], from: [u8; 6]) -> (Vec<u8>, Option<bool>) {
    let how = input.byte();
    let sender = if how & 1 == 0 { from } else { mac(how & 3) };
    let own = how & 6 != 2;
    let address = [10, 0, u8::from(!own), 1];
    let start = [8, 6, 0, 1, 8, 0, 6, 4, 0, 1];
    let bytes = [&to[..], &from, &start, &sender, &address, &[0; 6], &[10, 0, 0, 2], &[0; 18]].concat();
    (bytes, Some(own && sender == from))
}

/// TCP or UDP.
fn ip(input: &Input, kind: u8, to: [u8; 6], from: [u8; 6]) -> (Vec<u8>, Option<bool>) {
    let how = input.byte();
    let own = how & 1 == 0;
    let payload: Vec<u8> = payload(length(input)).collect();
    let link = PacketBuilder::ethernet2(from, to);
    let ip = match kind & 1 {
        0 => link.ipv4([10, 0, u8::from(!own), 1], [10, 0, 0, 2], 64),
        _ => {
            let mut address = [0; 16];
            (address[0], address[1], address[15]) = (0xfd, u8::from(!own), how);
            link.ipv6(address, [0xfe; 16], 64)
        }
    };
    let mut bytes = Vec::new();
    let written = match kind & 2 {
        0 => ip.tcp(5000, 80, u32::MAX - 5, 1000).psh().write(&mut bytes, &payload),
        _ => ip.udp(5000, 53).write(&mut bytes, &payload),
    };
    written.expect("it is short enough");
    if how & 2 != 0 {
        // A checksum, or what is not one.
        let at = 14 + if kind & 1 == 0 { 20 } else { 40 } + if kind & 2 == 0 { 16 } else { 6 };
        bytes[at..at + 2].fill(how);
    }
    (bytes, Some(own))
}

fn meta(input: &Input) -> Meta {
    let how = input.byte();
    if how == 0xff {
        return Meta::from_word(u64::from_le_bytes(std::array::from_fn(|_| input.byte())));
    }
    let checksum = |bit| if how & bit == 0 { Checksum::Unknown } else { Checksum::Requested };
    let mut meta = Meta::default().with_ip_checksum(checksum(1)).with_l4_checksum(checksum(2));
    if how & 0xc != 0 {
        let kind =
            [SegmentKind::TcpIpv4, SegmentKind::TcpIpv6, SegmentKind::Udp][usize::from(how >> 2 & 3) - 1];
        meta = meta.with_segmentation(Segmentation { kind, size: 8 + input.short() % 2000 });
    }
    if how & 0x30 == 0x30 {
        meta = meta.with_vlan(Tci::new(input.short()));
    }
    if how & 0xc0 == 0xc0 && meta.segmentation().is_none() {
        meta = meta.with_hash(7);
    }
    meta
}
