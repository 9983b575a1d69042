//! What a program can request of its packets, and what a port that does not pass requests on is to make of them.

use ccnic_frame::{Checksum, Headers, L3, Meta, Segmentation, Tci, checksum, vlan};

/// IP of either version with TCP or UDP of so much payload, without checksums, from station 1 to nobody known.
pub fn frame(v6: bool, tcp: bool, payload: usize) -> Vec<u8> {
    let l4 = if tcp { 20 } else { 8 };
    let len = l4 + payload;
    let mut frame = vec![2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 1];
    if v6 {
        frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
        frame.extend((len as u16).to_be_bytes());
        frame.extend([if tcp { 6 } else { 17 }, 64]);
        frame.extend([[0xfd; 16], [0xfc; 16]].concat());
    } else {
        frame.extend([8, 0, 0x45, 0]);
        frame.extend((20 + len as u16).to_be_bytes());
        frame.extend([0, 9, 0x40, 0, 64, if tcp { 6 } else { 17 }, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    }
    frame.extend([0, 1, 0, 2]);
    if tcp {
        frame.extend([0, 0, 0, 100, 0, 0, 0, 0, 0x50, 0x18, 1, 0, 0, 0, 0, 0]);
    } else {
        frame.extend((len as u16).to_be_bytes());
        frame.extend([0, 0]);
    }
    frame.extend((0..payload).map(|at| (at * 7) as u8));
    frame
}

/// Frames, what is requested of each, and the packets that this makes: every offload alone and with a tag.
pub fn table() -> Vec<(Vec<u8>, Meta, usize)> {
    let requested = Checksum::Requested;
    let both = Meta::default().with_l4_checksum(requested).with_ip_checksum(requested);
    let one = Meta::default().with_l4_checksum(requested);
    let mut table = vec![(frame(false, false, 30), Meta::default(), 1)];
    table.push((frame(false, false, 31), Meta::default().with_ip_checksum(requested), 1));
    for tcp in [true, false] {
        table.push((frame(false, tcp, 301), both, 1));
        table.push((frame(true, tcp, 300), one, 1));
    }
    table.push((frame(false, true, 5000), both.with_segmentation(Segmentation::tcp_ipv4(1448)), 4));
    table.push((frame(true, true, 5000), one.with_segmentation(Segmentation::tcp_ipv6(1000)), 5));
    table.push((frame(false, false, 5000), both.with_segmentation(Segmentation::udp(1400)), 4));
    table.push((frame(true, false, 9000), one.with_segmentation(Segmentation::udp(1400)), 7));
    let tag = Tci::new(5 << 13 | 7);
    let tagged: Vec<_> =
        table.iter().map(|(frame, meta, packets)| (frame.clone(), meta.with_vlan(tag), *packets)).collect();
    table.extend(tagged);
    table
}

/// Asserts that these packets are what was requested of a frame.
#[track_caller]
pub fn check(sent: &[u8], meta: Meta, packets: &[Vec<u8>]) {
    let from = Headers::parse(sent, sent.len()).payload_at;
    let mut payload = Vec::new();
    for bytes in packets {
        assert_eq!(vlan::outer(bytes), meta.vlan(), "{meta:?}");
        let headers = Headers::parse(bytes, bytes.len());
        assert!(headers.malformed.is_none() && headers.l3_end == bytes.len(), "{meta:?}");
        if meta.ip_checksum() == Checksum::Requested {
            assert!(headers.l3 == L3::Ipv6 || checksum::verify_ipv4(bytes, &headers) == Ok(true), "{meta:?}");
        }
        if meta.l4_checksum() == Checksum::Requested {
            assert_eq!(checksum::verify_l4(bytes, &headers, []), Ok(true), "{meta:?}");
        }
        payload.extend_from_slice(&bytes[headers.payload_at..]);
    }
    assert!(payload == sent[from..], "{meta:?}");
}
