//! What receivers get that take less than was requested.

use ccnic_frame::{Checksum, Segmentation, Tci, vlan};

use super::*;
use crate::memory::RegionMemory;

/// TCP over IPv4 with so much payload, without checksums.
fn tcp(payload: usize) -> Vec<u8> {
    let mut frame: Vec<u8> = [2; 12].into_iter().chain([8, 0, 0x45, 0]).collect();
    frame.extend((40 + payload as u16).to_be_bytes());
    frame.extend([0, 9, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    frame.extend([0, 1, 0, 2, 0, 0, 0, 100, 0, 0, 0, 0, 0x50, 0x19, 1, 0, 0, 0, 0, 0]);
    frame.extend((0..payload).map(|i| (i * 7) as u8));
    frame
}

/// What arrives of a frame that lies in pieces: each packet and its metadata. Every delivery fits a receiver.
fn complete(frame: &[u8], meta: Meta, takes: Takes) -> Result<Vec<(Vec<u8>, Meta)>, Unsent> {
    let from = Region::create(64 << 10, Pages::Small).unwrap().memory();
    let at = |piece: usize| 64 + (piece * LARGE_BUF as usize) as u32;
    let pieces: Vec<_> = frame.chunks(LARGE_BUF as usize - 7).collect();
    let packet: Vec<_> = pieces
        .iter()
        .enumerate()
        .map(|(i, piece)| {
            from.write(at(i), piece);
            Desc::new(at(i), piece.len() as u16, 0).with_meta(meta.word()).with_more(i + 1 < pieces.len())
        })
        .collect();
    let origin = Origin { mem: &from, mtu: 9600, idle: true };
    let mut packets = Vec::new();
    let mut completer = Completer::new().unwrap();
    completer.complete(&origin, &packet, takes, |origin, burst| {
        assert!(burst.len() <= FETCH && burst.last().is_some_and(|last| !last.more()) && origin.idle);
        for packet in burst.split_inclusive(|desc| !desc.more()) {
            let bytes: Vec<u8> = packet
                .iter()
                .flat_map(|desc| {
                    assert!(!desc.is_empty() && u32::from(desc.len()) <= LARGE_BUF);
                    origin.mem.with(desc.offset(), desc.len().into(), <[u8]>::to_vec)
                })
                .collect();
            assert!(bytes.len() <= origin.mtu.into());
            packets.push((bytes, Meta::from_word(packet[0].meta)));
        }
    })?;
    Ok(packets)
}

fn is_right(bytes: &[u8]) -> bool {
    let headers = Headers::parse(bytes, bytes.len());
    checksum::verify_ipv4(bytes, &headers) == Ok(true) && checksum::verify_l4(bytes, &headers, []) == Ok(true)
}

const BOTH: Meta =
    Meta::from_word(0).with_ip_checksum(Checksum::Requested).with_l4_checksum(Checksum::Requested);

#[test]
fn checksums_are_computed() {
    for payload in [0, 1, 1000, 5001, 9546] {
        let packets = complete(&tcp(payload), BOTH, Takes::NONE).unwrap();
        assert_eq!((packets.len(), packets[0].1), (1, Meta::default()));
        assert!(is_right(&packets[0].0) && packets[0].0.len() == 54 + payload);
    }
}

#[test]
fn super_packets_are_cut_into_as_many_deliveries_as_it_takes() {
    let frame = tcp(9000);
    for size in [150, 1448, 5000] {
        let packets =
            complete(&frame, BOTH.with_segmentation(Segmentation::tcp_ipv4(size)), Takes::NONE).unwrap();
        assert_eq!(packets.len(), 9000_usize.div_ceil(size.into()));
        assert!(packets.iter().all(|(bytes, meta)| is_right(bytes) && *meta == Meta::default()));
        let payload: Vec<u8> = packets.iter().flat_map(|(bytes, _)| bytes[54..].to_vec()).collect();
        assert_eq!(payload, frame[54..]);
    }
}

#[test]
fn tags_are_inserted_also_where_the_packet_becomes_longer_than_any() {
    let tag = Tci::new(0x2005);
    let packets =
        complete(&tcp(9546), Meta::default().with_vlan(tag), Takes::NONE.with_tcp_segments()).unwrap();
    assert_eq!((packets.len(), vlan::outer(&packets[0].0), packets[0].0.len()), (1, Some(tag), 9604));
}

#[test]
fn what_cannot_be_done_is_refused() {
    let cut = Meta::default().with_segmentation(Segmentation::udp(100));
    for (frame, meta) in [
        (vec![0; 60], BOTH),
        (tcp(100), cut),
        (vec![0; 13], Meta::default().with_vlan(Tci::new(1))),
        (tcp(40), Meta::default().with_segmentation(Segmentation::tcp_ipv4(7))),
        (tcp(9000), Meta::default().with_segmentation(Segmentation::tcp_ipv4(100))),
    ] {
        assert_eq!(complete(&frame, meta, Takes::NONE), Err(Unsent::BadOffload));
    }
    assert_eq!(complete(&[0; 9605], BOTH, Takes::NONE), Err(Unsent::OverMtu));
}
