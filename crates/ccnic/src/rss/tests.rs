//! The verification suite, headers of all kinds, and metadata.

extern crate std;
use super::headers::{IPV4, IPV6, SCTP, TCP, UDP};
use super::*;
use std::net::{IpAddr, SocketAddr};
use std::vec::Vec;

/// Microsoft's verification suite: destination, source, hash of the addresses, hash with ports.
const SUITE: [(&str, &str, u32, u32); 8] = [
    ("161.142.100.80:1766", "66.9.149.187:2794", 0x323e_8fc2, 0x51cc_c178),
    ("65.69.140.83:4739", "199.92.111.2:14230", 0xd718_262a, 0xc626_b0ea),
    ("12.22.207.184:38024", "24.19.198.95:12898", 0xd2d0_a5de, 0x5c2b_394a),
    ("209.142.163.6:2217", "38.27.205.30:48228", 0x8298_9176, 0xafc7_327f),
    ("202.188.127.2:1303", "153.39.163.191:44251", 0x5d18_09c5, 0x10e8_28a2),
    ("[3ffe:2501:200:3::1]:1766", "[3ffe:2501:200:1fff::7]:2794", 0x2cc1_8cd5, 0x4020_7d3d),
    ("[ff02::1]:4739", "[3ffe:501:8::260:97ff:fe40:efab]:14230", 0x0f0c_461c, 0xdde5_1bbf),
    (
        "[fe80::200:f8ff:fe21:67cf]:38024",
        "[3ffe:1900:4545:3:200:f8ff:fe21:67cf]:44251",
        0x4b61_e985,
        0x02d1_feef,
    ),
];

fn octets(ip: IpAddr) -> Vec<u8> {
    match ip {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    }
}

/// A packet from `source` to `destination`, with `between` the IP header's fixed part and the ports: IPv4
/// options, or IPv6 extension headers.
fn packet(tags: &[u16], source: &str, destination: &str, protocol: u8, between: &[u8]) -> Vec<u8> {
    let [source, destination] = [source, destination].map(|s| s.parse::<SocketAddr>().unwrap());
    let mut bytes = std::vec![2; 12];
    for tag in tags {
        bytes.extend(tag.to_be_bytes());
        bytes.extend([0, 7]);
    }
    if source.is_ipv4() {
        bytes.extend(IPV4.to_be_bytes());
        bytes.extend([0x45 + (between.len() / 4) as u8, 0, 0, 40, 1, 2, 0, 0, 64, protocol, 0, 0]);
    } else {
        bytes.extend(IPV6.to_be_bytes());
        bytes.extend([0x60, 0, 0, 0, 0, 20, protocol, 64]);
    }
    bytes.extend(octets(source.ip()));
    bytes.extend(octets(destination.ip()));
    bytes.extend(between);
    bytes.extend(source.port().to_be_bytes());
    bytes.extend(destination.port().to_be_bytes());
    bytes.extend([0; 12]);
    bytes
}

fn spreader(types: &[FlowType]) -> Spreader {
    Spreader::new(Rss { types: types.iter().copied().collect(), ..Rss::new(4) })
}

#[test]
fn the_published_hashes() {
    let all = Spreader::new(Rss::new(4));
    let ips = spreader(&[FlowType::Ipv4, FlowType::Ipv6]);
    for (destination, source, addresses, ports) in SUITE {
        for protocol in [TCP, UDP, SCTP] {
            for tags in [&[][..], &[0x8100], &[0x88a8, 0x8100], &[0x9100, 0x8100]] {
                let packet = packet(tags, source, destination, protocol, &[]);
                assert_eq!(all.hash(&packet), Some(ports), "{destination} {protocol} {tags:x?}");
                assert_eq!(ips.hash(&packet), Some(addresses), "{destination} {protocol} {tags:x?}");
            }
        }
        assert_eq!(all.hash(&packet(&[], source, destination, 1, &[])), Some(addresses), "ICMP");
        let three = packet(&[0x8100; 3], source, destination, TCP, &[]);
        assert_eq!(all.hash(&three), None, "a third tag");
    }
}

#[test]
fn a_symmetric_key_has_one_hash_for_both_directions() {
    let symmetric = Spreader::new(Rss { key: SYMMETRIC_KEY, ..Rss::new(4) });
    let default = Spreader::new(Rss::new(4));
    let mut indices = [false; TABLE];
    for (destination, source, ..) in SUITE {
        for protocol in [TCP, UDP, 1] {
            let there = packet(&[], source, destination, protocol, &[]);
            let back = packet(&[], destination, source, protocol, &[]);
            assert_eq!(symmetric.hash(&there), symmetric.hash(&back), "{destination} {protocol}");
            assert_ne!(default.hash(&there), default.hash(&back));
            indices[symmetric.hash(&there).unwrap() as usize % TABLE] = true;
        }
    }
    assert!(indices.iter().filter(|hit| **hit).count() > 8, "flows differ all the same");
}

#[test]
fn only_what_was_chosen_is_hashed() {
    let (destination, source, _, ports) = SUITE[0];
    let of = |protocol| packet(&[], source, destination, protocol, &[]);
    let tcp = spreader(&[FlowType::Ipv4Tcp, FlowType::Ipv6]);
    assert_eq!((tcp.hash(&of(TCP)), tcp.hash(&of(UDP)), tcp.hash(&of(1))), (Some(ports), None, None));
    assert_eq!(spreader(&[]).hash(&of(TCP)), None);
    let mut arp = of(TCP);
    arp[12..14].copy_from_slice(&[8, 6]);
    assert_eq!(Spreader::new(Rss::new(4)).hash(&arp), None);
}

#[test]
fn fragments_go_by_their_addresses() {
    let all = Spreader::new(Rss::new(4));
    let (destination, source, addresses, ports) = SUITE[1];
    // More to come; the last one; "do not fragment"; the reserved bit.
    for (flags, hash) in [([0x20, 0], addresses), ([0, 9], addresses), ([0x40, 0], ports), ([0x80, 0], ports)]
    {
        let mut fragment = packet(&[], source, destination, UDP, &[]);
        fragment[20..22].copy_from_slice(&flags);
        assert_eq!(all.hash(&fragment), Some(hash), "{flags:x?}");
    }
    let (destination, source, addresses, _) = SUITE[6];
    let fragment = packet(&[], source, destination, 44, &[UDP, 0, 0, 1, 0, 0, 0, 7]);
    assert_eq!(all.hash(&fragment), Some(addresses));
}

#[test]
fn options_and_extensions_are_passed_over() {
    let all = Spreader::new(Rss::new(4));
    let (destination, source, _, ports) = SUITE[2];
    for words in 1..=10 {
        let packet = packet(&[0x88a8, 0x8100], source, destination, TCP, &std::vec![1; words * 4]);
        assert_eq!(all.hash(packet.get(..START).unwrap_or(&packet)), Some(ports), "{words} words of options");
    }
    let (destination, source, addresses, ports) = SUITE[7];
    let options = |next: u8, words: u8| {
        let mut header = std::vec![0; (usize::from(words) + 1) * 8];
        header[..2].copy_from_slice(&[next, words]);
        header
    };
    let extended = [options(60, 0), options(43, 1), options(SCTP, 0)].concat();
    assert_eq!(all.hash(&packet(&[], source, destination, 0, &extended)), Some(ports));
    // One header too many, and one that claims to go on beyond the packet.
    let many = [options(60, 0), options(60, 0), options(60, 0), options(60, 0), options(TCP, 0)].concat();
    assert_eq!(all.hash(&packet(&[], source, destination, 60, &many)), Some(addresses));
    let mut long = packet(&[], source, destination, 60, &options(TCP, 0));
    long[55] = 255;
    assert_eq!(all.hash(&long), Some(addresses));
}

/// The definition: for every bit set in the input, the 32 bits of the key from there on.
fn by_definition(key: &[u8; KEY], input: &[u8]) -> u32 {
    let bit = |bytes: &[u8], at: usize| bytes[at / 8] >> (7 - at % 8) & 1;
    let window = |at| (0..32).fold(0, |word, i| word << 1 | u32::from(bit(key, at + i)));
    (0..input.len() * 8).filter(|at| bit(input, *at) == 1).fold(0, |hash, at| hash ^ window(at))
}

#[test]
fn any_key_and_any_packet() {
    let mut state = 4711u64;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    };
    for _ in 0..crate::testing::rounds(20, 1) {
        let rss = Rss { key: core::array::from_fn(|_| random()), ..Rss::new(3) };
        let spreader = Spreader::new(rss.clone());
        for v6 in [false, true] {
            let (destination, source, ..) = SUITE[if v6 { 5 } else { 0 }];
            let mut packet = packet(&[], source, destination, UDP, &[]);
            let tuple = if v6 { 22..58 } else { 26..38 };
            packet[tuple.clone()].iter_mut().for_each(|byte| *byte = random());
            let hash = by_definition(&rss.key, &packet[tuple]);
            assert_eq!(spreader.hash(&packet), Some(hash));
            assert_eq!(u32::from(spreader.queue(Some(hash))), hash % 128 % 3);
        }
        // What is cut anywhere, or is noise, has some hash or none.
        let noise: Vec<u8> = (0..START).map(|_| random()).collect();
        let (destination, source, ..) = SUITE[5];
        let cut = packet(&[0x8100], source, destination, 0, &[60, 0, 0, 0, 0, 0, 0, 0]);
        for n in 0..cut.len() {
            let hash = spreader.hash(&cut[..n]);
            assert_eq!(hash.is_some(), n >= 58, "{n} bytes");
            spreader.hash(&noise[..n]);
        }
    }
    assert_eq!(Spreader::new(Rss::new(3)).queue(None), 0);
}
