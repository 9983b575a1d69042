//! Fragments that are put together, and cut; senders that want neither.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

use std::collections::HashSet;
use std::net::SocketAddr;

use ccnic_frame::{Headers, L4, checksum};
use proptest::prelude::*;

use super::piece::Piece;
use super::reassembly::{BYTES, Counts, LIFETIME_V4, LIFETIME_V6, PACKETS, PIECES, Reassembly};
use super::{Idents, Long};
use crate::secret::Secret;
use crate::udp::Template;

const HOSTS: [[&str; 2]; 2] = [["10.9.0.1:5", "10.9.0.2:6"], ["[fd09::1]:5", "[fd09::2]:6"]];

/// A datagram between two hosts, whole and right.
fn datagram([from, to]: [SocketAddr; 2], payload: &[u8]) -> Vec<u8> {
    let mut template = Template::new([[2; 6], [4; 6]], from, to).unwrap();
    let mut frame = [template.headers(payload.len()), payload].concat();
    let headers = Headers::parse(&frame, frame.len());
    checksum::complete(template.requests(), &mut frame, &headers, []).unwrap();
    frame
}

fn hosts(version: usize) -> [SocketAddr; 2] {
    HOSTS[version].map(|host| host.parse().unwrap())
}

fn noise(seed: u32, len: usize) -> Vec<u8> {
    (0..len as u32)
        .map(|i| (i.wrapping_mul(0x9e37_79b1).wrapping_add(seed.wrapping_mul(77)) >> 13) as u8)
        .collect()
}

/// Bytes of what lies in front of a packet's data.
fn head(frame: &[u8]) -> usize {
    if frame[12] == 8 { 34 } else { 54 }
}

/// A fragment of a packet that begins at `at`, with these data.
fn fragment(frame: &[u8], id: u16, at: usize, more: bool, data: &[u8]) -> Vec<u8> {
    let mut head = frame[..head(frame)].to_vec();
    if head.len() == 34 {
        let word = (at / 8) as u16 | u16::from(more) << 13;
        head[16..22].copy_from_slice(
            &[(20 + data.len() as u16).to_be_bytes(), id.to_be_bytes(), word.to_be_bytes()].concat(),
        );
        let headers = Headers::parse(&[&head[..], data].concat(), head.len() + data.len());
        checksum::fill_ipv4(&mut head, &headers).unwrap();
    } else {
        let word = at as u16 | u16::from(more);
        head.extend([&[head[20], 0][..], &word.to_be_bytes(), &[0, 0], &id.to_be_bytes()].concat());
        head[20] = 44;
        head[18..20].copy_from_slice(&(8 + data.len() as u16).to_be_bytes());
    }
    [&head[..], data].concat()
}

/// The fragments of a packet, cut at these places.
fn cut(frame: &[u8], id: u16, cuts: &[usize]) -> Vec<Vec<u8>> {
    let data = &frame[head(frame)..];
    let places = cuts.iter().map(|cut| cut & !7).filter(|cut| (1..data.len()).contains(cut));
    let mut places: Vec<usize> = places.chain([0, data.len()]).collect();
    places.sort_unstable();
    places.dedup();
    let pieces = places.windows(2).map(|pair| (pair[0], pair[1]));
    pieces.map(|(at, end)| fragment(frame, id, at, end < data.len(), &data[at..end])).collect()
}

fn read(frame: &[u8]) -> Option<Piece<'_>> {
    let headers = Headers::parse(frame, frame.len());
    assert_eq!((headers.l4, headers.malformed), (L4::Fragment, None));
    Piece::read(frame, &headers)
}

fn take(reassembly: &mut Reassembly, now: u64, frame: &[u8]) -> Option<Vec<u8>> {
    let whole = reassembly.take(now, &read(frame).unwrap());
    let (packets, bytes) = reassembly.kept();
    assert!(packets <= PACKETS && bytes <= BYTES, "{packets} packets, {bytes} bytes");
    if let Some(whole) = whole.as_ref().filter(|whole| head(whole) == 34) {
        assert_eq!(checksum::verify_ipv4(whole, &Headers::parse(whole, whole.len())), Ok(true));
    }
    whole
}

/// A packet without what a whole one and one that came in fragments do not share: identification, "not to be cut", and the checksum over
/// these.
fn shared(frame: &[u8]) -> Vec<u8> {
    let mut frame = frame.to_vec();
    if head(&frame) == 34 {
        frame[18..21].fill(0);
        frame[24..26].fill(0);
    }
    frame
}

#[derive(Debug, Clone)]
struct Sent {
    version: usize,
    len: usize,
    cuts: Vec<usize>,
}

fn sent() -> impl Strategy<Value = Sent> {
    let len = prop_oneof![20usize..300, 1400usize..9000, 60_000usize..=65_507];
    (0usize..2, len).prop_flat_map(|(version, len)| {
        let cuts = prop::collection::vec(8..len + 8, 1..40);
        cuts.prop_map(move |cuts| Sent { version, len, cuts })
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// Packets whose fragments come in any order, some twice, among each other, come out as they were, and nothing else does.
    #[test]
    fn fragments_in_any_order_are_their_packets(
        packets in prop::collection::vec(sent(), 1..6),
        doubled in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
        seed in any::<u64>(),
    ) {
        let mut originals = Vec::new();
        let mut frames = Vec::new();
        for (id, packet) in packets.iter().enumerate() {
            let whole = datagram(hosts(packet.version), &noise(id as u32, packet.len));
            frames.extend(cut(&whole, id as u16, &packet.cuts));
            originals.push(shared(&whole));
        }
        let again: Vec<Vec<u8>> = doubled.iter().map(|index| frames[index.index(frames.len())].clone()).collect();
        frames.extend(again);
        // An order of chance.
        let mut state = seed | 1;
        for i in (1..frames.len()).rev() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            frames.swap(i, (state >> 33) as usize % (i + 1));
        }
        let mut reassembly = Reassembly::default();
        let mut out = Vec::new();
        for frame in &frames {
            out.extend(take(&mut reassembly, 0, frame).map(|whole| shared(&whole)));
        }
        prop_assert!(out.iter().all(|whole| originals.contains(whole)), "other bytes");
        for whole in &originals {
            let found = out.iter().filter(|found| *found == whole).count();
            // What is doubled may be a packet again.
            prop_assert!(found == 1 || found > 0 && !doubled.is_empty(), "{} times", found);
        }
        prop_assert_eq!(reassembly.counts.dropped, 0);
    }

    /// What is cut here has the right lengths, and is put together again.
    #[test]
    fn what_is_cut_is_put_together(version in 0usize..2, len in prop_oneof![1usize..3000, 60_000usize..=65_507], mtu in 576usize..9587) {
        let mtu = if version == 1 { mtu.max(1280) } else { mtu };
        let whole = datagram(hosts(version), &noise(len as u32, len));
        let idents = Idents::new(Secret::new([1, 2]));
        let mut long = Long::new(whole.clone(), mtu, &idents);
        let (mut reassembly, mut out, mut frames) = (Reassembly::default(), None, 0);
        while let Some((head, data)) = long.next() {
            let frame = [head.bytes(), data].concat();
            prop_assert!(frame.len() <= 14 + mtu && out.is_none());
            let headers = Headers::parse(&frame, frame.len());
            prop_assert_eq!((headers.malformed, headers.l3_end), (None, frame.len()));
            if headers.l4 == L4::Udp {
                prop_assert_eq!(&frame, &whole, "in one piece");
                prop_assert!(whole.len() <= 14 + mtu);
                return Ok(());
            }
            prop_assert!(frame[12] == 0x86 || frame[20] & 0x40 == 0 && checksum::verify_ipv4(&frame, &headers) == Ok(true));
            out = take(&mut reassembly, 0, &frame);
            frames += 1;
            long.advance();
        }
        prop_assert!(out.is_some_and(|out| shared(&out) == shared(&whole)));
        prop_assert_eq!(frames, (whole.len() - head(&whole)).div_ceil((mtu - if version == 0 { 20 } else { 48 }) & !7));
        prop_assert_eq!(reassembly.kept(), (0, 0));
    }
}

/// The parts of a packet as (begin, end, whether more follow, the seed of their bytes).
type Parts = [(usize, usize, bool, u32)];

fn send(reassembly: &mut Reassembly, now: u64, whole: &[u8], parts: &Parts) -> usize {
    let data = &whole[head(whole)..];
    let mut out = 0;
    for (at, end, more, seed) in parts {
        let bytes = if *seed == 0 { data[*at..*end].to_vec() } else { noise(*seed, end - at) };
        out += usize::from(take(reassembly, now, &fragment(whole, 1, *at, *more, &bytes)).is_some());
    }
    out
}

/// RFC 5722: the whole packet goes, and what comes of it later.
#[test]
fn overlaps_and_odd_ends_are_no_packet() {
    let odd: [&Parts; 10] = [
        &[(0, 16, true, 0), (8, 64, false, 0)],
        &[(16, 64, false, 0), (0, 24, true, 0)],
        &[(0, 64, true, 0), (16, 32, true, 0)],
        &[(16, 32, true, 0), (0, 64, true, 0)],
        &[(0, 16, true, 0), (0, 24, true, 0)],
        &[(0, 16, true, 0), (0, 16, true, 9)], // other bytes in the same place
        &[(16, 64, false, 0), (16, 56, false, 0)], // two ends
        &[(24, 48, true, 0), (16, 24, false, 0)], // the last one before another
        &[(16, 48, false, 0), (48, 64, true, 0)], // one behind the last
        &[(16, 64, false, 0), (16, 64, true, 0)], // the last one is not the last
    ];
    for (version, lifetime) in [(0, LIFETIME_V4), (1, LIFETIME_V6)] {
        let whole = datagram(hosts(version), &noise(1, 56));
        let good: &Parts = &[(0, 16, true, 0), (16, 64, false, 0)];
        for parts in odd {
            let mut reassembly = Reassembly::default();
            assert_eq!(send(&mut reassembly, 0, &whole, parts), 0, "{parts:?}");
            assert_eq!(reassembly.counts.dropped, 2, "{parts:?}");
            // Also the missing ones, and all of them, as long as its time is not over.
            assert_eq!(send(&mut reassembly, lifetime - 1, &whole, good), 0, "{parts:?}");
            assert_eq!(reassembly.counts.dropped, 4);
            assert_eq!(send(&mut reassembly, lifetime, &whole, good), 1, "{parts:?}");
            assert_eq!((reassembly.kept(), reassembly.counts.expired), ((0, 0), 0));
        }
        let mut reassembly = Reassembly::default();
        let doubled: &Parts = &[(16, 64, false, 0), (16, 64, false, 0), (0, 16, true, 0)];
        assert_eq!(send(&mut reassembly, 0, &whole, doubled), 1, "one that comes twice is one");
    }
}

#[test]
fn a_packet_has_its_time() {
    for (version, lifetime) in [(0, LIFETIME_V4), (1, LIFETIME_V6)] {
        let whole = datagram(hosts(version), &noise(1, 56));
        for (later, out) in [(lifetime - 1, 1), (lifetime, 0)] {
            let mut reassembly = Reassembly::default();
            assert_eq!(send(&mut reassembly, 5, &whole, &[(16, 64, false, 0)]), 0);
            assert_eq!(send(&mut reassembly, 5 + later, &whole, &[(0, 16, true, 0)]), out);
            let expired = 1 - out as u64;
            assert_eq!(reassembly.counts, Counts { whole: out as u64, expired, dropped: 0 });
            reassembly.expire(5 + later + lifetime);
            assert_eq!((reassembly.kept(), reassembly.counts.expired), ((0, 0), 2 * expired));
        }
    }
}

#[test]
fn what_is_no_part_of_a_packet_is_not_read() {
    for version in [0, 1] {
        let whole = datagram(hosts(version), &noise(1, 100));
        let part = |at, more, len: usize| {
            let frame = fragment(&whole, 1, at, more, &vec![7; len]);
            read(&frame).is_some()
        };
        assert!(part(8, true, 8) && part(8, false, 7) && part(0, true, 1480));
        assert!(!part(8, true, 0) && !part(8, false, 0), "empty");
        assert!(!part(8, true, 12), "not of a multiple of eight");
        let last = 65_528;
        let most = if version == 0 { 65_535 - 20 } else { 65_535 };
        assert!(part(most & !7, false, most % 8) || most % 8 == 0);
        assert!(
            !part(last, false, (most + 1).saturating_sub(last).max(1)) && !part(64_000, true, 1536),
            "beyond the longest packet"
        );
    }
    // RFC 7112: the first fragment says what the packet is.
    let whole = datagram(hosts(1), &noise(1, 100));
    let first = |next: u8, data: &[u8]| {
        let mut frame = fragment(&whole, 1, 0, true, data);
        frame[54] = next;
        read(&frame).is_some()
    };
    let options = |next: u8| [&[next, 0, 1, 4, 0, 0, 0, 0][..]].concat();
    let tcp = |words: u8| [&[0; 12][..], &[words << 4], &[0; 11]].concat();
    assert!(first(17, &[7; 8]) && first(58, &[7; 8]) && first(6, &tcp(6)) && first(99, &[7; 8]));
    assert!(first(60, &[options(17), vec![7; 8]].concat()));
    assert!(
        !first(60, &options(17))
            && !first(60, &[0, 1, 0, 0, 0, 0, 0, 0])
            && !first(6, &tcp(7))
            && !first(6, &[7; 8])
    );
    assert!(!first(44, &[7; 16]), "a fragment of a fragment");
    assert!(!first(60, &options(60).repeat(20)), "headers without end");
}

/// Headers before the fragment's, and options of IPv4, are the packet's.
#[test]
fn other_headers_stay() {
    // IPv6 with options before the fragment's header.
    let plain = datagram(hosts(1), &noise(1, 56));
    let options = [17, 0, 1, 4, 0, 0, 0, 0];
    let mut whole = [&plain[..54], &options, &plain[54..]].concat();
    (whole[19], whole[20]) = (64 + 8, 60);
    let parts = [(0, true, 16), (16, false, 64)].map(|(at, more, end)| {
        let mut frame =
            [&whole[..62], &[17, 0, 0, at as u8 | u8::from(more), 0, 0, 0, 9], &plain[54 + at..54 + end]]
                .concat();
        (frame[19], frame[54]) = ((16 + end - at) as u8, 44);
        frame
    });
    let mut reassembly = Reassembly::default();
    assert_eq!(take(&mut reassembly, 0, &parts[1]), None);
    assert_eq!(take(&mut reassembly, 0, &parts[0]), Some(whole));
    // IPv4 with options in the first fragment only.
    let plain = datagram(hosts(0), &noise(1, 56));
    let mut whole = [&plain[..34], &[1, 1, 1, 0], &plain[34..]].concat();
    (whole[14], whole[17], whole[20]) = (0x46, 24 + 64, 0);
    let mut first = whole[..38 + 16].to_vec();
    (first[17], first[19], first[20]) = (24 + 16, 1, 0x20);
    assert_eq!(take(&mut reassembly, 0, &fragment(&plain, 1, 16, false, &plain[50..])), None);
    let out = take(&mut reassembly, 0, &first).unwrap();
    let headers = Headers::parse(&out, out.len());
    assert!(shared(&out) == shared(&whole) && checksum::verify_l4(&out, &headers, []) == Ok(true));
    // With them it is longer than the longest packet.
    let last = fragment(&plain, 1, 65_512, false, &[7; 3]);
    assert_eq!(take(&mut reassembly, 0, &last), None);
    assert_eq!(take(&mut reassembly, 0, &first), None);
    let filler: Vec<Vec<u8>> = (16..65_512)
        .step_by(1400)
        .map(|at| {
            let len = 1400.min(65_512 - at);
            fragment(&plain, 1, at, true, &vec![7; len])
        })
        .collect();
    let before = reassembly.counts;
    assert!(filler.iter().all(|frame| take(&mut reassembly, 0, frame).is_none()));
    assert_eq!((reassembly.counts.whole, reassembly.kept()), (before.whole, (0, 0)));
    assert_eq!(reassembly.counts.dropped, before.dropped + 2 + filler.len() as u64);
}

/// RFC 6946: it is taken by itself, whatever else has its identification.
#[test]
fn a_packet_in_one_fragment_is_taken_at_once() {
    let whole = datagram(hosts(1), &noise(1, 56));
    let mut reassembly = Reassembly::default();
    assert_eq!(send(&mut reassembly, 0, &whole, &[(0, 16, true, 0)]), 0);
    assert_eq!(send(&mut reassembly, 0, &whole, &[(0, 64, false, 0)]), 1);
    assert_eq!(send(&mut reassembly, 0, &whole, &[(16, 64, false, 0)]), 1, "the other one goes on");
}

/// Fragments of no packet from one source, as many as it likes, and a packet of another one among them.
#[test]
fn a_source_that_floods_keeps_no_other_out() {
    let other = datagram(["10.9.0.77:5", "10.9.0.2:6"].map(|host| host.parse().unwrap()), &noise(1, 60_000));
    let cuts: Vec<usize> = (1..45).map(|i| i * 1480).collect();
    for len in [8, 1480, 9000] {
        let mut reassembly = Reassembly::default();
        let (mut out, mut id) = (0, 0u16);
        for part in cut(&other, 7, &cuts) {
            out += usize::from(take(&mut reassembly, 0, &part).is_some());
            for _ in 0..400 {
                id = id.wrapping_add(1);
                let hostile = datagram(hosts(0), &[7; 100]);
                assert_eq!(take(&mut reassembly, 0, &fragment(&hostile, id, 8, true, &vec![7; len])), None);
            }
        }
        assert_eq!(out, 1, "fragments of {len} bytes");
        assert!(reassembly.counts.dropped > 10_000);
    }
}

/// However many sources: what is kept is bounded. So is what is kept of one packet.
#[test]
fn what_is_kept_is_bounded() {
    let mut reassembly = Reassembly::default();
    for i in 0..20_000u32 {
        let [_, _, a, b] = i.to_be_bytes();
        let from = format!("10.9.{a}.{b}:5").parse().unwrap();
        let whole = datagram([from, "10.8.0.1:6".parse().unwrap()], &[7; 100]);
        take(&mut reassembly, 0, &fragment(&whole, 1, 1480, true, &vec![7; 8 + (i as usize * 8) % 9000]));
    }
    reassembly.expire(LIFETIME_V4);
    assert_eq!(reassembly.kept(), (0, 0));
    let whole = datagram(hosts(0), &[7; 100]);
    let tiny = |at: usize| fragment(&whole, 1, at * 16, true, &[7; 8]);
    (0..PIECES).for_each(|at| assert_eq!(take(&mut reassembly, LIFETIME_V4, &tiny(at)), None));
    let dropped = reassembly.counts.dropped;
    assert_eq!(take(&mut reassembly, LIFETIME_V4, &tiny(PIECES)), None);
    assert_eq!(reassembly.counts.dropped, dropped + PIECES as u64 + 1, "it has too many");
}

/// RFC 6864 and RFC 7739: no number comes back soon, and those for one host say nothing about those for another.
#[test]
fn identifications_are_not_repeated_nor_guessed() {
    let to = |n: u32| std::net::IpAddr::from((0x0a09_0000 + n).to_be_bytes());
    let idents = Idents::new(Secret::new([1, 2]));
    let ids: HashSet<u16> = (0..65_536).map(|_| idents.next(to(1), 17) as u16).collect();
    assert_eq!(ids.len(), 65_536);
    let first = |key: u64| {
        let idents = Idents::new(Secret::new([key, 3]));
        move |n| idents.next(to(n), 17)
    };
    let (one, other) = (first(1), first(2));
    let differences: HashSet<u32> = (0..1000).map(|n| one(n + 1).wrapping_sub(one(n))).collect();
    assert!(differences.len() > 980, "{}", differences.len());
    assert!((2000..2100).all(|n| one(n) != other(n)));
}
