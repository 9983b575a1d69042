//! The parts of a frame for a receiver that takes less than its sender requests.

use ccnic_frame::{Checksum, Headers, Meta, NoPart, Segmentation, Takes, Tci, checksum, part, vlan};

/// TCP over IPv4 with so much payload, FIN and PSH; no checksums.
fn tcp(payload: usize) -> Vec<u8> {
    let mut frame: Vec<u8> = [2; 12].into_iter().chain([8, 0, 0x45, 0]).collect();
    frame.extend((40 + payload as u16).to_be_bytes());
    frame.extend([0, 9, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    frame.extend([0, 1, 0, 2, 0, 0, 0, 100, 0, 0, 0, 0, 0x50, 0x19, 1, 0, 0, 0, 0, 0]);
    frame.extend((0..payload).map(|i| (i * 7) as u8));
    frame
}

fn parts(frame: &[u8], meta: Meta, takes: Takes, longest: usize) -> Vec<(Vec<u8>, Meta)> {
    let mut parts = Vec::new();
    let mut to = [0; 9600];
    while let Ok(Some((len, meta))) = part(frame, meta, takes, longest, parts.len(), &mut to) {
        parts.push((to[..len].to_vec(), meta));
    }
    assert_eq!(part(frame, meta, takes, longest, parts.len(), &mut to), Ok(None));
    parts
}

/// The payload of all parts, whose headers lie within them.
fn payload(parts: &[(Vec<u8>, Meta)]) -> Vec<u8> {
    let of = |bytes: &Vec<u8>| bytes[Headers::parse(bytes, bytes.len()).payload_at..].to_vec();
    parts.iter().flat_map(|(bytes, _)| of(bytes)).collect()
}

fn is_right(bytes: &[u8]) -> bool {
    let headers = Headers::parse(bytes, bytes.len());
    checksum::verify_ipv4(bytes, &headers) == Ok(true) && checksum::verify_l4(bytes, &headers, []) == Ok(true)
}

#[test]
fn checksums_are_computed_for_who_does_not_take_them() {
    let frame = tcp(1000);
    let meta = Meta::default().with_ip_checksum(Checksum::Requested).with_l4_checksum(Checksum::Requested);
    let done = parts(&frame, meta, Takes::NONE, 1500);
    assert!(done.len() == 1 && is_right(&done[0].0) && done[0].1 == Meta::default());
    assert_eq!(parts(&frame, meta, Takes::ALL, 1500), [(frame.clone(), meta)]);
    let ip = parts(&frame, meta, Takes::NONE.with_l4_checksum(), 1500);
    assert_eq!(ip[0].1, Meta::default().with_l4_checksum(Checksum::Requested));
    assert_eq!(part(&frame, meta, Takes::NONE, 1000, 0, &mut [0; 9600]), Err(NoPart::TooLong));
    assert_eq!(part(&frame, meta, Takes::NONE, 9600, 0, &mut [0; 1000]), Err(NoPart::TooLong));
    let arp = part(&[0; 60], meta, Takes::NONE, 9600, 0, &mut [0; 100]);
    assert!(matches!(arp, Err(NoPart::Refused(_))));
}

#[test]
fn a_tag_is_inserted_whatever_else_is_requested() {
    let frame = tcp(3000);
    let (tag, cut) = (Tci::new(0x6007), Segmentation::tcp_ipv4(1000));
    for meta in [Meta::default(), Meta::default().with_segmentation(cut)] {
        let done = parts(&frame, meta.with_vlan(tag), Takes::NONE.with_tcp_segments(), 9600);
        assert_eq!((done.len(), done[0].1), (1, meta));
        assert_eq!((vlan::outer(&done[0].0), &done[0].0[18..34]), (Some(tag), &frame[14..30]));
        let kept = parts(&frame, meta.with_vlan(tag), Takes::NONE.with_vlan(), 9600);
        assert!(kept.iter().all(|(_, meta)| meta.vlan() == Some(tag)));
    }
    let cut = parts(&frame, Meta::default().with_segmentation(cut).with_vlan(tag), Takes::NONE, 1500);
    assert!(cut.iter().all(|(bytes, _)| vlan::outer(bytes) == Some(tag) && is_right(bytes)));
    assert_eq!((cut.len(), payload(&cut)), (3, frame[54..].to_vec()));
}

#[test]
fn a_super_packet_is_cut_or_made_shorter() {
    let frame = tcp(20_000);
    let meta =
        Meta::default().with_ip_checksum(Checksum::Requested).with_segmentation(Segmentation::tcp_ipv4(1448));
    let segments = parts(&frame, meta, Takes::NONE, 1514);
    assert!(segments.iter().all(|(bytes, meta)| is_right(bytes) && *meta == Meta::default()));
    assert_eq!((segments.len(), payload(&segments)), (14, frame[54..].to_vec()));
    // Six segments in each, of which one is left in the end.
    let shorter = parts(&frame, meta, Takes::ALL, 9600);
    assert_eq!(shorter.iter().map(|(bytes, _)| bytes.len()).collect::<Vec<_>>(), [8742, 8742, 2678]);
    assert_eq!(payload(&shorter), frame[54..]);
    assert!(shorter.iter().all(|(_, meta)| meta.segmentation() == Some(Segmentation::tcp_ipv4(1448))));
    // Cut further, they are the segments that the whole would have been cut into.
    let again: Vec<_> =
        shorter.iter().flat_map(|(bytes, meta)| parts(bytes, *meta, Takes::NONE, 1514)).collect();
    assert_eq!(again, segments);
    assert_eq!(part(&frame, meta, Takes::NONE, 1000, 0, &mut [0; 9600]), Err(NoPart::TooLong));
    assert_eq!(part(&frame, meta, Takes::ALL, 1000, 0, &mut [0; 9600]), Err(NoPart::TooLong));
    assert_eq!(part(&frame, meta, Takes::NONE, 1514, usize::MAX, &mut [0; 9600]), Ok(None));
}

#[test]
fn a_rest_of_one_segment_is_no_super_packet() {
    let meta = Meta::default().with_segmentation(Segmentation::tcp_ipv4(1000));
    let shorter = parts(&tcp(4500), meta, Takes::ALL, 2100);
    let cut: Vec<_> = shorter.iter().map(|(_, meta)| meta.segmentation().is_some()).collect();
    assert_eq!(cut, [true, true, false]);
    assert_eq!(shorter[2].1, Meta::default().with_l4_checksum(Checksum::Requested));
    assert_eq!(parts(&tcp(0), meta, Takes::NONE, 1500).len(), 1);
}
