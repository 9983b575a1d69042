//! Where the headers of a frame are.

mod common;

use ccnic_frame::headers::MAX_EXTENSIONS;
use ccnic_frame::{Headers, L3, L4, MAX_HEADERS, Malformed};
use common::{Shape, noise, parse};

/// A frame of IPv6 whose payload is this, its length included; `next`: the protocol.
fn ipv6(next: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![2; 12];
    frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
    frame.extend((payload.len() as u16).to_be_bytes());
    frame.extend([next, 64]);
    frame.extend([0xfd; 32]);
    frame.extend(payload);
    frame
}

/// A frame of IPv4 with a header of 20 bytes.
fn ipv4(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![2; 12];
    frame.extend([8, 0, 0x45, 0]);
    frame.extend((20 + payload.len() as u16).to_be_bytes());
    frame.extend([0, 1, 0, 0, 64, protocol, 0, 0]);
    frame.extend([10; 8]);
    frame.extend(payload);
    frame
}

#[test]
fn every_shape_is_recognised() {
    for base in Shape::ALL {
        for tags in 0..=2 {
            for options in [0, 1, 3, 4, if base.ipv6 { 2 } else { 10 }] {
                for tcp_options in [0, 3, 10] {
                    let shape = Shape { tags, options, tcp_options, ..base };
                    let frame = shape.frame(&noise(77));
                    let headers = parse(&frame);
                    let l3 = if shape.ipv6 { L3::Ipv6 } else { L3::Ipv4 };
                    let l4 = if shape.tcp { L4::Tcp } else { L4::Udp };
                    assert_eq!((headers.malformed, headers.l3, headers.l4), (None, l3, l4), "{shape:?}");
                    assert_eq!((headers.tags, headers.l3_at), (tags, shape.l3_at()), "{shape:?}");
                    assert_eq!(
                        (headers.l4_at, headers.payload_at),
                        (shape.l4_at(), shape.payload_at()),
                        "{shape:?}"
                    );
                    assert_eq!((headers.l3_end, headers.l4_end), (frame.len(), frame.len()), "{shape:?}");
                    assert_eq!(headers.has_extensions(), options > 0, "{shape:?}");
                }
            }
        }
    }
}

#[test]
fn the_start_of_a_frame_is_enough() {
    for shape in Shape::ALL {
        let frame = Shape { tags: 2, options: 4, tcp_options: 10, ..shape }.frame(&noise(3000));
        let whole = parse(&frame);
        assert_eq!(Headers::parse(&frame[..whole.payload_at], frame.len()), whole);
        assert_eq!(Headers::parse(&frame[..MAX_HEADERS], frame.len()), whole);
        // Bytes of the buffer behind the frame are no part of it.
        let short = Headers::parse(&frame, whole.payload_at - 1);
        assert!(short.malformed.is_some() && short.l4 == L4::None, "{short:?}");
    }
}

#[test]
fn a_frame_that_is_cut_anywhere_is_malformed() {
    for shape in Shape::ALL {
        let frame = Shape { tags: 1, options: 2, tcp_options: 2, ..shape }.frame(&noise(40));
        for len in 0..frame.len() {
            let headers = parse(&frame[..len]);
            assert!(headers.malformed.is_some(), "{len} bytes of {shape:?}");
            assert_eq!(headers.l4, L4::None, "{len} bytes of {shape:?}");
            assert_eq!(headers.l3 == L3::Other, len < if shape.ipv6 { 58 } else { 46 }, "{len} of {shape:?}");
        }
    }
}

#[test]
fn padding_is_no_part_of_the_packet() {
    for shape in Shape::ALL {
        let mut frame = shape.frame(&[1]);
        let len = frame.len();
        frame.resize(len + 20, 0);
        let headers = parse(&frame);
        assert_eq!((headers.l3_end, headers.l4_end, headers.malformed), (len, len, None));
    }
    // What UDP does not cover lies in the IP packet and not in the datagram.
    let headers = parse(&ipv4(17, &[0, 1, 0, 2, 0, 9, 0, 0, 3, 4, 5]));
    assert_eq!((headers.l4_end, headers.l3_end, headers.malformed), (43, 45, None));
}

#[test]
fn other_protocols_have_their_names() {
    for (protocol, bytes, l4, payload_at) in [
        (1, 8, L4::Icmp, 38),
        (132, 12, L4::Sctp, 46),
        (47, 4, L4::Other(47), 34),
        (58, 8, L4::Other(58), 34),
    ] {
        let headers = parse(&ipv4(protocol, &vec![0; bytes]));
        assert_eq!((headers.l4, headers.l4_at, headers.payload_at), (l4, 34, payload_at));
        assert_eq!(headers.malformed, None);
    }
    for (next, bytes, l4, payload_at) in [
        (58, 8, L4::Icmpv6, 58),
        (132, 12, L4::Sctp, 66),
        (59, 0, L4::Other(59), 54),
        (1, 8, L4::Other(1), 54),
    ] {
        let headers = parse(&ipv6(next, &vec![0; bytes]));
        assert_eq!((headers.l4, headers.l4_at, headers.payload_at), (l4, 54, payload_at));
        assert_eq!(headers.malformed, None);
    }
    let arp = [&[0xff; 12][..], &[8, 6], &[0; 28]].concat();
    let headers = parse(&arp);
    assert_eq!((headers.ether_type, headers.l3, headers.l4, headers.l3_at), (0x806, L3::Other, L4::None, 14));
    assert_eq!(headers.malformed, None);
    let three_tags = [&[2; 12][..], &[0x81, 0, 0, 1, 0x91, 0, 0, 2, 0x88, 0xa8, 0, 3, 8, 0]].concat();
    let headers = parse(&three_tags);
    assert_eq!(
        (headers.tags, headers.ether_type, headers.l3, headers.malformed),
        (2, 0x88a8, L3::Other, None)
    );
}

#[test]
fn fragments_have_no_transport_layer() {
    // First, middle, last; then what is none: "do not fragment", the reserved bit.
    for (flags, fragment) in
        [([0x20, 0], true), ([0x20, 9], true), ([0, 9], true), ([0x40, 0], false), ([0x80, 0], false)]
    {
        let mut frame = Shape::UDP4.frame(&[0; 30]);
        frame[20..22].copy_from_slice(&flags);
        let headers = parse(&frame);
        let l4 = if fragment { L4::Fragment } else { L4::Udp };
        assert_eq!((headers.l4, headers.l4_at, headers.malformed), (l4, 34, None), "{flags:x?}");
        assert_eq!(headers.l4_checksum_at().is_none(), fragment);
    }
    for offset in [0, 9] {
        let headers = parse(&ipv6(44, &[17, 0, 0, offset, 0, 0, 0, 7, 1, 2, 3]));
        assert_eq!((headers.l4, headers.l4_at, headers.payload_at), (L4::Fragment, 62, 62));
        assert_eq!((headers.malformed, headers.has_extensions()), (None, true));
    }
}

#[test]
fn what_is_malformed_has_its_reason() {
    let change = |shape: Shape, at: usize, byte: u8| {
        let mut frame = shape.frame(&[0; 30]);
        frame[at] = byte;
        parse(&frame)
    };
    let (v4, v6) = (Shape::UDP4, Shape::UDP6);
    for (headers, reason, l3) in [
        (change(v4, 14, 0x65), Malformed::IpVersion, L3::Other),
        (change(v6, 14, 0x45), Malformed::IpVersion, L3::Other),
        (change(v4, 14, 0x44), Malformed::Ipv4HeaderLength, L3::Other),
        (change(v4, 17, 19), Malformed::IpLength, L3::Ipv4),
        (change(v4, 17, 59), Malformed::IpLength, L3::Ipv4),
        (change(v6, 19, 39), Malformed::IpLength, L3::Ipv6),
        (change(v4, 17, 27), Malformed::UdpLength, L3::Ipv4),
        (change(v4, 39, 7), Malformed::UdpLength, L3::Ipv4),
        (change(v6, 59, 39), Malformed::UdpLength, L3::Ipv6),
        (change(Shape::TCP4, 46, 0x4f), Malformed::TcpHeaderLength, L3::Ipv4),
        (change(Shape::TCP4, 46, 0xd0), Malformed::Truncated, L3::Ipv4),
        (change(Shape::TCP6, 19, 12), Malformed::Truncated, L3::Ipv6),
        (parse(&ipv6(58, &[1, 2, 3])), Malformed::Truncated, L3::Ipv6),
        (parse(&ipv6(44, &[17, 0, 0, 0])), Malformed::Truncated, L3::Ipv6),
        (parse(&ipv6(60, &[17, 1, 0, 0, 0, 0, 0, 0])), Malformed::Truncated, L3::Ipv6),
        (parse(&[]), Malformed::Truncated, L3::Other),
    ] {
        assert_eq!((headers.malformed, headers.l3, headers.l4), (Some(reason), l3, L4::None), "{headers:?}");
        assert!(!reason.as_str().is_empty());
    }
}

#[test]
fn the_walk_over_extension_headers_is_bounded() {
    let chain = |n: usize| {
        let mut payload: Vec<u8> = (1..n).flat_map(|_| [60, 0, 0, 0, 0, 0, 0, 0]).collect();
        payload.extend([17, 0, 0, 0, 0, 0, 0, 0]);
        payload.extend([0, 1, 0, 2, 0, 8, 0, 0]);
        parse(&ipv6(60, &payload))
    };
    let most = chain(MAX_EXTENSIONS);
    assert_eq!((most.l4, most.l4_at, most.malformed), (L4::Udp, 54 + 8 * MAX_EXTENSIONS, None));
    assert_eq!(chain(MAX_EXTENSIONS + 1).malformed, Some(Malformed::Ipv6Extensions));
    // One that is longer than what is read, though it lies in the frame.
    let long = [&[17, 40][..], &[0; 326], &[0, 1, 0, 2, 0, 8, 0, 0]].concat();
    assert_eq!(parse(&ipv6(60, &long)).malformed, Some(Malformed::Truncated));
}

#[test]
fn source_routes_are_recognised() {
    let routing = |left: u8| {
        let payload = [&[17, 0, 4, left, 0, 0, 0, 0][..], &[0, 1, 0, 2, 0, 8, 0, 0]].concat();
        parse(&ipv6(43, &payload))
    };
    assert_eq!((routing(0).l4, routing(0).l4_checksum_at()), (L4::Udp, Some(68)));
    assert_eq!((routing(1).l4, routing(1).l4_checksum_at()), (L4::Udp, None));
}
