//! Sums and checksums.
#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use ccnic_frame::checksum::{self, Partial};
use ccnic_frame::{Checksum, L4, Malformed, Meta, Refusal, Sum};
use common::{Shape, check_sums, noise, parse};

/// RFC 1071, word by word.
fn slow(bytes: &[u8]) -> u16 {
    let mut sum = 0u32;
    for pair in bytes.chunks(2) {
        sum += u32::from(u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[test]
fn sums_are_those_of_the_definition() {
    let bytes = noise(900);
    for from in 0..9 {
        for to in from..bytes.len() {
            assert_eq!(Sum::of(&bytes[from..to]).value(), slow(&bytes[from..to]), "{from}..{to}");
        }
    }
    for n in [0, 1, 2, 7, 64, 65535, 1 << 20] {
        assert_eq!(Sum::of(&vec![0xff; n]).value(), slow(&vec![0xff; n]), "{n} bytes of ones");
    }
}

#[test]
fn pieces_of_any_length_have_the_sum_of_the_whole() {
    let bytes = noise(100);
    let whole = Sum::of(&bytes).value();
    for a in 0..bytes.len() {
        for b in a..bytes.len() {
            let pieces = [&bytes[..a], &bytes[a..b], &bytes[b..]];
            let (mut bytewise, mut sums, mut all) = (Sum::new(), Sum::new(), Sum::new());
            for piece in pieces {
                bytewise.add(piece);
                sums.add_sum(Sum::of(piece));
            }
            all.add_all(pieces, bytes.len() + 1);
            assert_eq!((bytewise.value(), sums.value(), all.value()), (whole, whole, whole), "{a} {b}");
            let mut some = Sum::new();
            some.add_all(pieces, b);
            assert_eq!(some.value(), Sum::of(&bytes[..b]).value(), "{a} {b}");
        }
    }
}

/// An Ethernet frame of IP.
fn frame(ether_type: u16, packet: &[u8]) -> Vec<u8> {
    [&[2; 12][..], &ether_type.to_be_bytes(), packet].concat()
}

/// The example of an IPv4 header in Wikipedia's "Internet checksum", with a UDP header behind it; packets of the tests of smoltcp
/// 0.12 (`wire/tcp.rs`, `wire/udp.rs`, `wire/icmpv6.rs`).
fn published() -> [(Vec<u8>, L4, u16); 3] {
    let v4 = |protocol, payload: &[u8]| {
        let mut header = [0x45, 0, 0, 20, 0, 0, 0x40, 0, 64, protocol, 0, 0, 192, 168, 1, 1, 192, 168, 1, 2];
        header[3] += payload.len() as u8;
        frame(0x800, &[&header, payload].concat())
    };
    let tcp = v4(6, b"\xbf\x00\x00\x50\x01\x23\x45\x67\x89\xab\xcd\xef\x60\x35\x01\x23\x01\xb6\x02\x01\x03\x03\x0c\x01\xaa\x00\x00\xff");
    let udp = v4(17, b"\xbf\x00\x00\x35\x00\x0c\x12\x4d\xaa\x00\x00\xff");
    let mut v6 = vec![0x60, 0, 0, 0, 0, 12, 58, 64];
    for last in [1, 2] {
        v6.extend([0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]);
    }
    v6.extend(b"\x80\x00\x19\xb3\x12\x34\xab\xcd\xaa\x00\x00\xff");
    [(tcp, L4::Tcp, 0x01b6), (udp, L4::Udp, 0x124d), (frame(0x86dd, &v6), L4::Icmpv6, 0x19b3)]
}

#[test]
fn prepared_checksums_are_recognised() {
    for (mut frame, ..) in published() {
        let headers = parse(&frame);
        assert!(!checksum::is_pseudo(&frame, &headers));
        checksum::store_pseudo(&mut frame, &headers).unwrap();
        assert!(checksum::is_pseudo(&frame, &headers));
        checksum::fill_l4(&mut frame, &headers, []).unwrap();
        assert!(!checksum::is_pseudo(&frame, &headers));
    }
    for short in [&[][..], &[8; 20]] {
        assert!(!checksum::is_pseudo(short, &parse(short)), "no transport layer");
    }
}

#[test]
fn published_checksums() {
    let mut header = frame(0x800, b"\x45\0\0\x73\0\0\x40\0\x40\x11\xb8\x61\xc0\xa8\0\x01\xc0\xa8\0\xc7");
    header.resize(14 + 0x73, 0);
    let headers = parse(&header);
    assert_eq!(checksum::verify_ipv4(&header, &headers), Ok(true));
    header[24..26].fill(0x55);
    assert_eq!(checksum::verify_ipv4(&header, &headers), Ok(false));
    assert_eq!(checksum::fill_ipv4(&mut header, &headers), Ok(()));
    assert_eq!(header[24..26], [0xb8, 0x61]);

    for (mut frame, l4, sum) in published() {
        let headers = parse(&frame);
        assert_eq!((headers.l4, headers.malformed), (l4, None));
        assert_eq!(checksum::verify_l4(&frame, &headers, []), Ok(true), "{l4:?}");
        let at = headers.l4_checksum_at().unwrap();
        frame[at..at + 2].fill(0x55);
        assert_eq!(checksum::verify_l4(&frame, &headers, []), Ok(false), "{l4:?}");
        assert_eq!(checksum::fill_l4(&mut frame, &headers, []), Ok(()));
        assert_eq!(frame[at..at + 2], sum.to_be_bytes(), "{l4:?}");
    }
}

#[test]
fn every_shape_is_filled_and_verified() {
    for base in Shape::ALL {
        for (tags, options, tcp_options, len) in [(0, 0, 0, 0), (1, 1, 3, 1), (2, 4, 10, 1447), (0, 3, 0, 64)]
        {
            let shape = Shape { tags, options, tcp_options, ..base };
            let good = shape.frame(&noise(len));
            let headers = parse(&good);
            assert_eq!(checksum::verify_l4(&good, &headers, []), Ok(true), "{shape:?}");
            // The field's content does not matter, nor does padding, nor into which pieces the frame falls.
            let requested = Meta::default()
                .with_l4_checksum(Checksum::Requested)
                .with_ip_checksum(if shape.ipv6 { Checksum::Unknown } else { Checksum::Requested });
            let mut frame = good.clone();
            frame[headers.l4_checksum_at().unwrap()] ^= 0xff;
            if !shape.ipv6 {
                frame[headers.l3_at + 10] ^= 0xff;
            }
            frame.extend([0xee; 9]);
            for split in [headers.payload_at, headers.payload_at + 1, frame.len() - 10, frame.len()] {
                let (start, rest) = frame.split_at(split.clamp(headers.payload_at, frame.len()));
                let (mut start, (a, b)) = (start.to_vec(), rest.split_at(rest.len() / 3));
                assert_eq!(checksum::verify_l4(&start, &headers, [a, b]), Ok(false), "{shape:?}");
                assert_eq!(checksum::complete(requested, &mut start, &headers, [a, b]), Ok(()));
                assert_eq!(checksum::verify_l4(&start, &headers, [a, b]), Ok(true), "{shape:?}");
                assert_eq!([&start, rest].concat()[..good.len()], good, "{shape:?}");
            }
        }
    }
}

#[test]
fn nothing_is_touched_that_is_not_requested() {
    let good = Shape::UDP4.frame(&noise(10));
    for known in [Checksum::Unknown, Checksum::Good] {
        let mut frame = good.clone();
        frame[40] ^= 1;
        let before = frame.clone();
        let meta = Meta::default().with_ip_checksum(known).with_l4_checksum(known);
        let headers = parse(&frame);
        assert_eq!(checksum::complete(meta, &mut frame, &headers, []), Ok(()));
        assert_eq!(frame, before);
    }
}

/// A frame whose checksum of the transport layer is computed as zero: the last two bytes of payload make it so.
fn sum_of_zero(shape: Shape) -> Vec<u8> {
    let mut frame = shape.frame(&[0; 4]);
    let headers = parse(&frame);
    let at = headers.l4_checksum_at().unwrap();
    let sum: [u8; 2] = frame[at..at + 2].try_into().unwrap();
    frame[headers.payload_at..headers.payload_at + 2].copy_from_slice(&sum);
    frame
}

#[test]
fn udp_has_a_zero_of_its_own() {
    for shape in Shape::ALL {
        let mut frame = sum_of_zero(shape);
        let headers = parse(&frame);
        assert_eq!(checksum::fill_l4(&mut frame, &headers, []), Ok(()));
        let at = headers.l4_checksum_at().unwrap();
        assert_eq!(frame[at..at + 2], if shape.tcp { [0, 0] } else { [0xff, 0xff] }, "{shape:?}");
        assert_eq!(checksum::verify_l4(&frame, &headers, []), Ok(true));
        // None was sent: that is allowed over IPv4 only.
        frame[at..at + 2].fill(0);
        let right = if shape.tcp { true } else { !shape.ipv6 };
        assert_eq!(checksum::verify_l4(&frame, &headers, []), Ok(right), "{shape:?}");
        // As virtio prepares it: zero becomes 0xffff whatever the protocol is.
        let partial = checksum::store_pseudo(&mut frame, &headers).unwrap();
        assert!(partial.fill(&mut frame));
        assert_eq!(frame[at..at + 2], [0xff, 0xff]);
        assert_eq!(checksum::verify_l4(&frame, &headers, []), Ok(true));
    }
}

#[test]
fn a_prepared_checksum_is_completed_by_anyone() {
    for shape in Shape::ALL {
        let good = Shape { tags: 1, options: 1, ..shape }.frame(&noise(333));
        let mut frame = good.clone();
        let headers = parse(&frame);
        let partial = checksum::store_pseudo(&mut frame, &headers).unwrap();
        assert_eq!(partial.start, headers.l4_at);
        assert_ne!(frame, good);
        assert!(partial.fill(&mut frame));
        assert_eq!(frame, good, "{shape:?}");
        check_sums(&frame);
    }
    let mut frame = noise(40);
    let before = frame.clone();
    for (start, field) in [(14, 39), (14, usize::MAX), (30, 20), (41, 41), (usize::MAX, usize::MAX)] {
        assert!(!Partial { start, field }.fill(&mut frame), "{start} {field}");
    }
    assert_eq!(frame, before);
    assert!(!Partial { start: 0, field: 0 }.fill(&mut []));
}

#[test]
fn packets_without_a_checksum_are_refused() {
    let mut fragment = Shape::UDP4.frame(&[0; 30]);
    fragment[20] = 0x20;
    let mut malformed = Shape::UDP6.frame(&[0; 30]);
    malformed[59] = 1;
    let arp = [&[0xff; 12][..], &[8, 6], &[0; 28]].concat();
    let length = Refusal::Malformed(Malformed::UdpLength);
    for (mut frame, reason) in
        [(fragment, Refusal::NoChecksum), (malformed, length), (arp, Refusal::NoChecksum)]
    {
        let (before, headers) = (frame.clone(), parse(&frame));
        assert_eq!(checksum::verify_l4(&frame, &headers, []), Err(reason));
        assert_eq!(checksum::fill_l4(&mut frame, &headers, []), Err(reason));
        assert_eq!(checksum::store_pseudo(&mut frame, &headers), Err(reason));
        let meta = Meta::default().with_l4_checksum(Checksum::Requested);
        assert_eq!(checksum::complete(meta, &mut frame, &headers, []), Err(reason));
        assert_eq!(frame, before);
    }
    let mut v6 = Shape::UDP6.frame(&[0; 30]);
    let headers = parse(&v6);
    assert_eq!(checksum::verify_ipv4(&v6, &headers), Err(Refusal::NoChecksum));
    assert_eq!(checksum::fill_ipv4(&mut v6, &headers), Err(Refusal::NoChecksum));
}

#[test]
fn headers_of_another_frame_do_no_harm() {
    let long = parse(&Shape { tags: 2, options: 4, ..Shape::TCP6 }.frame(&noise(500)));
    for len in 0..long.payload_at {
        let mut short = noise(len);
        let before = short.clone();
        assert_eq!(checksum::verify_l4(&short, &long, []).is_ok(), len >= long.l4_at + 18, "{len}");
        if checksum::fill_l4(&mut short, &long, []).is_err() {
            assert_eq!(short, before);
        }
    }
}
