//! Frames: headers and checksums against etherparse, `virtio_net_hdr` and metadata as a hostile guest or program writes them.

use ccnic_frame::checksum::{self, Partial};
use ccnic_frame::vnet::{self, NEEDS_CSUM};
use ccnic_frame::{Checksum, Headers, L3, L4, MAX_HEADERS, Meta, Segmenter, Tci, VnetHeader, vlan};
use etherparse::SlicedPacket;

use crate::reference::{self, Transport};

/// The fuzz target: a `virtio_net_hdr`, a word of metadata, a frame.
pub fn frames(bytes: &[u8]) {
    let Some((vnet, rest)) = bytes.split_at_checked(vnet::BYTES) else { return };
    let Some((word, frame)) = rest.split_first_chunk() else { return };
    let headers = Headers::parse(frame, frame.len());
    check_headers(frame, &headers);
    check_checksums(frame, &headers);
    check_vlan(frame, &headers, Tci::new(u16::from_le_bytes([word[6], word[7]])));
    check_received(vnet, frame, &headers);
    check_sent(Meta::from_word(u64::from_le_bytes(*word)), frame, &headers);
}

/// They are in the frame, in their order, and those that etherparse finds.
fn check_headers(frame: &[u8], headers: &Headers) {
    let start = &frame[..frame.len().min(MAX_HEADERS)];
    assert_eq!(Headers::parse(start, frame.len()), *headers, "only the start counts");
    if headers.l4 != L4::None {
        let Headers { l3_at, l4_at, payload_at, l4_end, l3_end, .. } = *headers;
        let order = l3_at < l4_at && l4_at <= payload_at && payload_at <= start.len();
        assert!(order && payload_at <= l4_end && l4_end <= l3_end && l3_end <= frame.len(), "{headers:?}");
        assert!(headers.l3 != L3::Other && headers.malformed.is_none(), "{headers:?}");
    }
    let Headers { l4, l4_at, l4_end, payload_at, .. } = *headers;
    let ours =
        matches!(l4, L4::Tcp | L4::Udp | L4::Icmpv6).then_some(Transport { l4, l4_at, l4_end, payload_at });
    let theirs = reference::transport(frame);
    // etherparse wants eight bytes of ICMPv6.
    let short = ours.is_some_and(|ours| ours.l4 == L4::Icmpv6 && ours.l4_end - ours.l4_at < 8);
    assert!(ours == theirs || short || reference::differs(frame, theirs), "{headers:?}, {theirs:?}");
}

/// What is filled in is right for etherparse, and for who verifies it here, also when the frame comes in pieces.
fn check_checksums(frame: &[u8], headers: &Headers) {
    let mut filled = frame.to_vec();
    let ip = checksum::fill_ipv4(&mut filled, headers);
    assert_eq!(ip.is_ok(), headers.l3 == L3::Ipv4);
    let l4 = checksum::fill_l4(&mut filled, headers, []);
    assert_eq!(l4.is_ok(), headers.l4_checksum_at().is_some());
    if ip.is_ok() {
        assert_eq!(checksum::verify_ipv4(&filled, headers), Ok(true));
    }
    if l4.is_err() {
        return;
    }
    assert_eq!(checksum::verify_l4(&filled, headers, []), Ok(true));
    if !reference::differs(frame, None) {
        check_with_reference(&filled);
    }
    for at in [headers.payload_at, headers.payload_at.midpoint(frame.len()), frame.len()] {
        let (start, rest) = frame.split_at(at);
        let (mut start, (a, b)) = (start.to_vec(), rest.split_at(rest.len() / 2));
        assert_eq!(checksum::fill_l4(&mut start, headers, [a, b]), Ok(()));
        _ = checksum::fill_ipv4(&mut start, headers);
        assert!(filled.starts_with(&start), "in pieces");
    }
    let mut prepared = filled.clone();
    let partial = checksum::store_pseudo(&mut prepared, headers).expect("it has a checksum");
    prepared.truncate(headers.l4_end);
    assert!(partial.fill(&mut prepared));
    assert_eq!(checksum::verify_l4(&prepared, headers, []), Ok(true));
}

/// etherparse computes the checksums that are in the frame, unless its types have no place for all that is in there.
fn check_with_reference(frame: &[u8]) {
    if let Some(typed) = reference::Typed::parse(frame) {
        if typed.bytes().is_none_or(|bytes| !frame.starts_with(&bytes)) {
            return;
        }
        let sums = typed.checksums();
        assert_eq!(typed.with_checksums().map(|typed| typed.checksums()), Some(sums), "{frame:x?}");
    } else if let Ok(SlicedPacket {
        net: Some(net),
        transport: Some(etherparse::TransportSlice::Icmpv6(icmp)),
        ..
    }) = SlicedPacket::from_ethernet(frame)
    {
        let ip = net.ipv6_ref().expect("ICMPv6 over IPv6").header();
        assert!(icmp.is_checksum_valid(ip.source(), ip.destination()));
    }
}

/// A tag goes in and out again, and the headers behind it move.
fn check_vlan(frame: &[u8], headers: &Headers, tci: Tci) {
    let mut room = [&[0; vlan::TAG], frame].concat();
    assert_eq!(vlan::insert(&mut room, tci), frame.len() >= 14);
    if frame.len() < 14 {
        return;
    }
    let tagged = Headers::parse(&room, room.len());
    if headers.tags < 2 && tagged.l4 != L4::None {
        let moved = (headers.tags + 1, headers.l3, headers.l4, headers.l4_at + vlan::TAG);
        assert_eq!((tagged.tags, tagged.l3, tagged.l4, tagged.l4_at), moved);
    }
    assert_eq!(vlan::strip(&mut room), Some(tci));
    assert_eq!(&room[vlan::TAG..], frame);
}

/// A `virtio_net_hdr` is refused, or all that it says can be done.
fn check_received(vnet: &[u8], frame: &[u8], headers: &Headers) {
    let header = VnetHeader::from_bytes(vnet).expect("twelve bytes");
    assert_eq!(header.to_bytes(), vnet);
    let Ok(said) = header.offloads(headers, frame.len()) else { return };
    assert_eq!(Meta::from_word(said.meta.word()), said.meta);
    let mut bytes = frame.to_vec();
    if let Some(partial) = said.partial {
        assert!(said.meta == Meta::default() && partial.fill(&mut bytes));
    }
    VnetHeader::prepare(said.meta, &mut bytes, headers).expect("what was accepted can be sent on");
}

/// Metadata of a program: refused, or the frame is complete afterwards, whoever completes it.
fn check_sent(meta: Meta, frame: &[u8], headers: &Headers) {
    let (mut prepared, mut complete) = (frame.to_vec(), frame.to_vec());
    let header = VnetHeader::prepare(meta, &mut prepared, headers);
    let completed = checksum::complete(meta, &mut complete, headers, []);
    if let Some(cut) = meta.segmentation() {
        // Who takes super-packets takes what can be cut here, and more: any number of segments.
        let no_ipv4 = meta.ip_checksum() == Checksum::Requested && headers.l3 != L3::Ipv4;
        assert!(Segmenter::new(cut, frame, headers).is_err() || header.is_ok() || no_ipv4, "{meta:?}");
        return;
    }
    assert_eq!(header.map(|_| ()), completed, "{meta:?}");
    let Ok(header) = header else { return };
    if header.flags & NEEDS_CSUM != 0 {
        prepared.truncate(headers.l4_end);
        let start = usize::from(header.csum_start);
        assert!(Partial { start, field: start + usize::from(header.csum_offset) }.fill(&mut prepared));
    }
    for bytes in [&prepared, &complete] {
        if meta.l4_checksum() == Checksum::Requested {
            assert_eq!(checksum::verify_l4(bytes, headers, []), Ok(true), "{meta:?}");
        }
        if meta.ip_checksum() == Checksum::Requested {
            assert_eq!(checksum::verify_ipv4(bytes, headers), Ok(true), "{meta:?}");
        }
    }
}
