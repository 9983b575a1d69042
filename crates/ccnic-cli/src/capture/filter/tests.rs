//! Filters: texts that mean the same, frames of a second author's (etherparse), everything that can be typed.

use etherparse::PacketBuilder;
use proptest::prelude::*;

use super::*;

fn filter(text: &str) -> Filter {
    text.parse().unwrap_or_else(|e| panic!("{text}: {e:#}"))
}

fn matches(text: &str, frame: &[u8]) -> bool {
    filter(text).matches(frame, frame.len())
}

const A: [u8; 6] = [2, 0, 0, 0, 0, 0xa];
const B: [u8; 6] = [2, 0, 0, 0, 0, 0xb];

fn udp(source: [u8; 4], to: [u8; 4], ports: [u16; 2], vlan: Option<u16>) -> Vec<u8> {
    let builder = PacketBuilder::ethernet2(A, B);
    let builder = match vlan {
        Some(id) => builder.single_vlan(id.try_into().unwrap()).ipv4(source, to, 64),
        None => builder.ipv4(source, to, 64),
    };
    let mut frame = Vec::new();
    builder.udp(ports[0], ports[1]).write(&mut frame, &[7; 30]).unwrap();
    frame
}

fn tcp6() -> Vec<u8> {
    let (mut source, mut to) = ([0; 16], [0; 16]);
    (source[0], source[15], to[0], to[15]) = (0xfd, 1, 0xfd, 2);
    let mut frame = Vec::new();
    PacketBuilder::ethernet2(A, B)
        .ipv6(source, to, 64)
        .tcp(443, 50_000, 1, 2)
        .write(&mut frame, &[])
        .unwrap();
    frame
}

#[test]
fn packets_are_found_by_what_is_in_them() {
    let dns = udp([10, 0, 0, 5], [10, 1, 0, 9], [4000, 53], None);
    let tagged = udp([10, 0, 0, 5], [10, 1, 0, 9], [4000, 53], Some(7));
    let web = tcp6();
    let mut arp =
        [&[0xff; 6][..], &A, &[8, 6, 0, 1, 8, 0, 6, 4, 0, 1], &A, &[10, 0, 0, 5], &[0; 6], &[10, 1, 0, 9]]
            .concat();
    arp.resize(60, 0);
    let frames = [&dns, &tagged, &web, &arp];
    for (text, expected) in [
        ("", [true, true, true, true]),
        ("host 10.0.0.5", [true, true, false, true]),
        ("src host 10.0.0.5", [true, true, false, true]),
        ("dst 10.0.0.5", [false; 4]),
        ("net 10.1.0.0/16", [true, true, false, true]),
        ("src net 10.1.0.0/16", [false; 4]),
        ("net 0.0.0.0/0", [true, true, false, true]),
        ("net fd00::/8", [false, false, true, false]),
        ("port 53", [true, true, false, false]),
        ("udp src port 53", [false; 4]),
        ("udp dst port 53 and host 10.0.0.5", [true, true, false, false]),
        ("tcp port 53", [false; 4]),
        ("tcp portrange 440-450", [false, false, true, false]),
        ("ip", [true, true, false, false]),
        ("ip6 and tcp", [false, false, true, false]),
        ("arp", [false, false, false, true]),
        ("arp host 10.1.0.9", [false, false, false, true]),
        ("ip proto 17", [true, true, false, false]),
        ("proto udp or ether proto arp", [true, true, false, true]),
        ("ether proto 0x86dd", [false, false, true, false]),
        ("vlan", [false, true, false, false]),
        ("vlan 7 and port 53", [false, true, false, false]),
        ("vlan 8", [false; 4]),
        ("ether src 02:00:00:00:00:0a", [true; 4]),
        ("ether host 2:0:0:0:0:b", [true, true, true, false]),
        ("ether dst host 02:00:00:00:00:0a", [false; 4]),
        ("broadcast", [false, false, false, true]),
        ("ether multicast", [false, false, false, true]),
        ("less 60", [false, false, false, true]),
        ("greater 73", [false, true, true, false]),
        ("not ip && !arp", [false, false, true, false]),
        ("!(ip or arp)", [false, false, true, false]),
        // From the left: (arp or ip) and vlan.
        ("arp or ip and vlan", [false, true, false, false]),
        ("arp or (ip and vlan)", [false, true, false, true]),
    ] {
        let found = frames.map(|frame| matches(text, frame));
        assert_eq!(found, expected, "{text}: lengths {:?}", frames.map(Vec::len));
    }
}

#[test]
fn a_fragment_has_a_protocol_and_the_first_one_ports() {
    let mut frame = udp([10, 0, 0, 5], [10, 1, 0, 9], [4000, 53], None);
    frame[20] = 0x20; // more fragments
    assert!(matches("udp and host 10.0.0.5 and port 53", &frame));
    frame[21] = 1; // not the first
    assert!(matches("udp and host 10.0.0.5", &frame) && !matches("port 53", &frame));
}

/// Whoever looks for what is malformed finds it: what is read is where it would be, whatever lengths say.
#[test]
fn what_is_malformed_matches_by_what_is_there() {
    let frame = udp([10, 0, 0, 5], [10, 1, 0, 9], [4000, 53], Some(7));
    let with = |at: usize, byte: u8| {
        let mut frame = frame.clone();
        frame[at] = byte;
        frame
    };
    for (frame, why) in [
        (with(20, 0xff), "an IP length beyond the frame"),
        (with(21, 1), "an IP length within the header"),
        (with(42, 0xff), "a UDP length beyond the packet"),
        (with(43, 0), "a UDP length within the header"),
        (with(18, 0x65), "another IP version"),
        (frame[..42].to_vec(), "cut behind the ports"),
    ] {
        assert!(matches("udp port 53 and src host 10.0.0.5 and vlan 7", &frame), "{why}");
    }
    let tcp = tcp6();
    let mut long = tcp.clone();
    long[18] = 0xff;
    assert!(matches("tcp src port 443 and ip6 host fd00::2", &long));
    let mut options = [&tcp[..54], &[6, 0, 0, 0, 0, 0, 0, 0], &tcp[54..]].concat();
    options[20] = 60;
    assert!(!matches("tcp", &options) && !matches("port 443", &options), "as tcpdump does not");
    options[20] = 44;
    assert!(matches("tcp", &options) && !matches("port 443", &options));
}

#[test]
fn a_packet_that_ends_before_what_is_asked_for_does_not_match() {
    let frame = udp([10, 0, 0, 5], [10, 1, 0, 9], [4000, 53], None);
    for (text, needed) in [
        ("not ip6", 14),
        ("not tcp", 24),
        ("not src host 1.2.3.4", 30),
        ("not host 1.2.3.4", 34),
        ("not src port 9", 36),
        ("not port 9", 38),
        ("not ether src 00:00:00:00:00:01", 12),
        ("not multicast", 1),
    ] {
        assert!(!matches(text, &frame[..needed - 1]) && matches(text, &frame[..needed]), "{text}");
    }
    assert!(matches("less 3 or port 53", &frame[..2]) && !matches("port 53 or less 3", &frame[..2]));
}

/// tcpdump's verdict on packets as they come and on damaged ones, for each of these filters.
#[test]
fn filters_find_what_tcpdump_finds() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("in.pcap");
    let frames = damaged(3000);
    let mut bytes = [0xa1b2_c3d4u32, 4 << 16 | 2, 0, 0, 262_144, 1].map(u32::to_le_bytes).concat();
    for frame in &frames {
        bytes.extend([0, 0, frame.len() as u32, frame.len() as u32].map(u32::to_le_bytes).concat());
        bytes.extend_from_slice(frame);
    }
    std::fs::write(&file, bytes).unwrap();
    for text in [
        "ip",
        "ip6",
        "arp",
        "tcp",
        "udp",
        "sctp",
        "icmp",
        "icmp6",
        "port 53",
        "tcp port 443",
        "udp dst port 53",
        "src port 4000",
        "portrange 1-1024",
        "host 10.0.0.5",
        "src host 10.0.0.5",
        "net 10.0.0.0/8",
        "ip6 host fd00::1",
        "net fd00::/8",
        "arp host 10.1.0.9",
        "ether proto 0x86dd",
        "ip proto 17",
        "ip6 proto 6",
        "proto 17",
        "not port 53",
        "not tcp",
        "not ip",
        "!(udp or arp)",
        "udp and not port 53",
        "not host 10.0.0.5",
        "ether src 02:00:00:00:00:0a",
        "multicast",
        "broadcast",
        "less 40",
        "greater 70",
        "not less 20 and not icmp",
        "tcp or udp port 53 and net 10.0.0.0/8",
    ] {
        let command = std::process::Command::new("tcpdump")
            .args(["-n", "-r"])
            .arg(&file)
            .args(["-w", "-", text])
            .output();
        let Ok(output) = command else { return println!("skipped: there is no tcpdump") };
        assert!(output.status.success(), "{text}: {}", String::from_utf8_lossy(&output.stderr));
        let ours = filter(text);
        let found: Vec<&Vec<u8>> = frames.iter().filter(|frame| ours.matches(frame, frame.len())).collect();
        let (mut rest, mut theirs) = (&output.stdout[24..], Vec::new());
        while let Some((header, behind)) = rest.split_first_chunk::<16>() {
            let len = u32::from_le_bytes(header[8..12].try_into().unwrap()) as usize;
            theirs.push(behind[..len].to_vec());
            rest = &behind[len..];
        }
        assert!(!theirs.is_empty() && theirs.len() < frames.len(), "{text}: {}", theirs.len());
        assert!(found.into_iter().eq(&theirs), "{text}");
    }
}

/// Packets of all kinds, whole, cut, and with bytes that are wrong; none with a tag.
fn damaged(number: usize) -> Vec<Vec<u8>> {
    let arp =
        [&[0xff; 6][..], &A, &[8, 6, 0, 1, 8, 0, 6, 4, 0, 1], &A, &[10, 0, 0, 5], &[0; 6], &[10, 1, 0, 9]];
    let dns = udp([10, 0, 0, 5], [10, 1, 0, 9], [4000, 53], None);
    let of = |protocol: u8| {
        let mut frame = dns.clone();
        frame[23] = protocol;
        frame
    };
    let mut fragment = [&tcp6()[..54], &[6, 0, 0, 0, 0, 0, 0, 0], &tcp6()[54..]].concat();
    fragment[20] = 44;
    let mut ping = tcp6();
    ping[20] = 58;
    let whole = [arp.concat(), of(6), of(132), of(1), dns.clone(), tcp6(), fragment, ping];
    let mut state = 1u64;
    let mut random = move |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    let mut frames = whole.to_vec();
    while frames.len() < number {
        let mut frame = whole[random(whole.len())].clone();
        for _ in 0..random(4) {
            let (at, byte) = (random(frame.len()), random(256) as u8);
            frame[at] = byte;
        }
        frame.truncate(1 + random(2 * frame.len()));
        if frame
            .get(12..14)
            .is_none_or(|kind| ![[0x81, 0], [0x88, 0xa8], [0x91, 0]].iter().any(|tag| kind == tag))
        {
            frames.push(frame);
        }
    }
    frames
}

#[test]
fn what_is_wrong_is_said_with_a_remedy() {
    for (text, expected) in [
        ("tpc", "known are"),
        ("host", "needs a value"),
        ("host example.com", "10.0.0.1"),
        ("net 10.0.0.0/33", "32 bits"),
        ("port 65536", "no number"),
        ("portrange 1", "FROM-TO"),
        ("ether host 1:2:3", "no MAC address"),
        ("ether 1", "write host, src"),
        ("vlan 4096", "below 4096"),
        ("ip ip", "\"and\" or \"or\""),
        ("(ip", "not closed"),
        ("ip and", "is expected"),
        ("not", "is expected"),
        (")", "known are"),
    ] {
        let why = format!("{:#}", text.parse::<Filter>().unwrap_err());
        assert!(why.contains(expected), "{text}: {why}");
    }
    let deep = format!("{}ip{}", "(".repeat(1000), ")".repeat(1000));
    assert!(deep.parse::<Filter>().unwrap_err().to_string().contains("in each other"));
}

fn side() -> impl Strategy<Value = Side> {
    prop_oneof![Just(Side::Source), Just(Side::Destination), Just(Side::Either)]
}

fn primitive() -> impl Strategy<Value = Primitive> {
    prop_oneof![
        (side(), any::<[u8; 4]>(), 0..=32u8).prop_map(|(side, a, bits)| Primitive::Net {
            side,
            address: IpAddr::from(a),
            bits
        }),
        (side(), any::<[u8; 16]>(), 0..=128u8).prop_map(|(side, a, bits)| Primitive::Net {
            side,
            address: IpAddr::from(a),
            bits
        }),
        (side(), any::<u16>(), any::<u16>()).prop_map(|(side, from, to)| Primitive::Port { side, from, to }),
        (side(), any::<[u8; 6]>()).prop_map(|(side, mac)| Primitive::Ether { side, mac }),
        any::<u16>().prop_map(Primitive::EtherType),
        any::<u8>().prop_map(Primitive::Protocol),
        prop::option::of(0..4096u16).prop_map(Primitive::Vlan),
        (0..200u32).prop_map(Primitive::Less),
        (0..200u32).prop_map(Primitive::Greater),
        Just(Primitive::Broadcast),
        Just(Primitive::Multicast),
    ]
}

fn expr() -> impl Strategy<Value = Expr> {
    primitive().prop_map(Expr::Is).prop_recursive(5, 40, 2, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(a, b)| Expr::And(Box::new(a), Box::new(b))),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| Expr::Or(Box::new(a), Box::new(b))),
            inner.prop_map(|a| Expr::Not(Box::new(a))),
        ]
    })
}

proptest! {
    #[test]
    fn what_is_printed_is_read_as_the_same(expr in expr()) {
        prop_assert_eq!(filter(&expr.to_string()), Filter(Some(expr)));
    }

    #[test]
    fn networks_are_prefixes(source in any::<[u8; 4]>(), net in any::<[u8; 4]>(), bits in 0..=32u8, ports in any::<[u16; 2]>()) {
        let frame = udp(source, [192, 0, 2, 1], ports, None);
        let [a, b] = [source, net].map(u32::from_be_bytes);
        let expected = bits == 0 || a >> (32 - bits) == b >> (32 - bits);
        let net = IpAddr::from(net);
        prop_assert_eq!(matches(&format!("src net {net}/{bits}"), &frame), expected);
        let [from, to] = ports;
        let both = matches(&format!("src port {from} and dst port {to}"), &frame);
        prop_assert!(both);
    }

    #[test]
    fn no_text_and_no_frame_is_too_much(text in "[a-z0-9 ().!&|:/-]{0,60}", frame in prop::collection::vec(any::<u8>(), 0..120), expr in expr()) {
        if let Ok(filter) = text.parse::<Filter>() {
            filter.matches(&frame, frame.len());
        }
        Filter(Some(expr)).matches(&frame, frame.len() + 7);
    }
}
