//! Files of all kinds, from generators of both formats: what is read, what is skipped and counted, what is wrong and where.

use proptest::prelude::*;

use super::read::{LONGEST, Skipped};
use super::tests::{Content, good, read};

/// Writes words of a byte order.
#[derive(Clone, Copy, Debug)]
struct Order(bool);

impl Order {
    fn words(self, words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| if self.0 { word.to_be_bytes() } else { word.to_le_bytes() }).collect()
    }

    fn halves(self, halves: [u16; 2]) -> Vec<u8> {
        halves.iter().flat_map(|half| if self.0 { half.to_be_bytes() } else { half.to_le_bytes() }).collect()
    }

    fn option(self, code: u16, value: &[u8]) -> Vec<u8> {
        let mut option = self.halves([code, value.len() as u16]);
        option.extend_from_slice(value);
        option.resize(option.len().next_multiple_of(4), 0xee);
        option
    }

    fn block(self, kind: u32, body: &[u8]) -> Vec<u8> {
        let padded = body.len().next_multiple_of(4);
        let len = padded as u32 + 12;
        let mut block = self.words(&[kind, len]);
        block.extend_from_slice(body);
        block.resize(8 + padded, 0);
        block.extend(self.words(&[len]));
        block
    }

    fn section(self) -> Vec<u8> {
        let body =
            [self.words(&[0x1a2b_3c4d]), self.halves([1, 0]), vec![0xff; 8], self.option(1, &[b'c'; 70])];
        self.block(0x0a0d_0d0a, &body.concat())
    }

    fn interface(self, link: u16, snap: u32, options: &[u8]) -> Vec<u8> {
        self.block(1, &[&self.halves([link, 0])[..], &self.words(&[snap]), options].concat())
    }

    /// An Enhanced Packet Block. `more`: bytes of the packet that were not captured.
    fn packet(self, interface: u32, units: u64, bytes: &[u8], more: u32, options: &[u8]) -> Vec<u8> {
        let len = bytes.len() as u32;
        let head = self.words(&[interface, (units >> 32) as u32, units as u32, len, len + more]);
        self.block(6, &[&head[..], &padded(bytes), options].concat())
    }

    /// The block that this has replaced.
    fn old_packet(self, interface: u16, units: u64, bytes: &[u8], options: &[u8]) -> Vec<u8> {
        let len = bytes.len() as u32;
        let head = self.words(&[(units >> 32) as u32, units as u32, len, len]);
        let body = [&self.halves([interface, 3])[..], &head, &padded(bytes), options];
        self.block(2, &body.concat())
    }

    fn simple(self, original: u32, bytes: &[u8]) -> Vec<u8> {
        self.block(3, &[&self.words(&[original])[..], bytes].concat())
    }

    /// The header of the classic format.
    fn pcap(self, magic: u32, version: [u16; 2], link: u32) -> Vec<u8> {
        [self.words(&[magic]), self.halves(version), self.words(&[0, 0, 65_535, link])].concat()
    }

    fn record(self, time: [u32; 2], lengths: [u32; 2], bytes: &[u8]) -> Vec<u8> {
        [&self.words(&time)[..], &self.words(&lengths), bytes].concat()
    }
}

const LITTLE: Order = Order(false);
const BIG: Order = Order(true);

fn padded(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes.resize(bytes.len().next_multiple_of(4), 0xdd);
    bytes
}

fn frame_of(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 + len) as u8).collect()
}

fn lengths(content: &Content) -> Vec<usize> {
    content.packets.iter().map(|(_, bytes)| bytes.len()).collect()
}

/// A section with one interface of Ethernet and what follows.
fn section(order: Order, options: &[u8], blocks: &[Vec<u8>]) -> Vec<u8> {
    [order.section(), order.interface(1, 0, options), blocks.concat()].concat()
}

#[test]
fn pcap_of_all_byte_orders_resolutions_and_versions() {
    let (a, b) = (frame_of(60), frame_of(1514));
    for order in [LITTLE, BIG] {
        for (magic, unit, more) in [(0xa1b2_c3d4, 1000, 0), (0xa1b2_3c4d, 1, 0), (0xa1b2_cd34, 1000, 8)] {
            for (minor, swapped) in [(4, false), (3, false), (3, true), (2, true), (543, true)] {
                let record = |time, captured: u32, original: u32, bytes: &[u8]| {
                    let lens = if swapped { [original, captured] } else { [captured, original] };
                    [&order.record(time, lens, &[])[..], &vec![0xcc; more], bytes].concat()
                };
                let records = [record([7, 5], 60, 60, &a), record([7, 600_000], 1514, 9000, &b)];
                let file = [order.pcap(magic, [2, minor], 1), records.concat()].concat();
                let expected =
                    vec![(7_000_000_000 + 5 * unit, a.clone()), (7_000_000_000 + 600_000 * unit, b.clone())];
                assert_eq!(read(&file), good(expected), "{order:?} {magic:x} 2.{minor} {swapped}");
            }
        }
    }
}

#[test]
fn clocks_of_all_resolutions_with_an_offset_in_the_order_of_the_section() {
    const S: u64 = 1_000_000_000;
    let cases = [
        (6, 1_500_000, 1_500_000_000),
        (0, 3, 3 * S),
        (3, 1500, 1_500_000_000),
        (9, 77, 77),
        (12, 77_999, 77),
        (19, 25_000_000_000, 2),
        (20, u64::MAX, 184_467_440),
        (127, u64::MAX, 0),
        (0x80, 3, 3 * S),
        (0x80 | 1, 3, 1_500_000_000),
        (0x80 | 20, 3 << 19, 1_500_000_000),
        (0x80 | 32, (1 << 32) + (1 << 30), 1_250_000_000),
        (0x80 | 63, 1 << 62, S / 2),
        (0x80 | 64, 1 << 63, S / 2),
        (0x80 | 127, u64::MAX, 0),
    ];
    for order in [LITTLE, BIG] {
        for (resolution, units, nanos) in cases {
            for offset in [0i64, 1_000_000, -1] {
                let bytes = if order.0 { offset.to_be_bytes() } else { offset.to_le_bytes() };
                let options = [order.option(9, &[resolution]), order.option(14, &bytes)].concat();
                let packet = order.packet(0, units, &[1; 60], 0, &[]);
                let expected = i128::from(nanos) + i128::from(offset) * i128::from(S);
                let expected = expected.max(0) as u64;
                let file = section(order, &options, &[packet]);
                assert_eq!(read(&file), good(vec![(expected, vec![1; 60])]), "{resolution:#x} {offset}");
            }
        }
        let far = order.option(14, &if order.0 { i64::MAX.to_be_bytes() } else { i64::MAX.to_le_bytes() });
        let file = section(order, &far, &[order.packet(0, 0, &[1; 60], 0, &[])]);
        assert_eq!(read(&file), good(vec![(u64::MAX, vec![1; 60])]), "as far as time can be told");
    }
}

#[test]
fn packets_of_all_three_blocks() {
    let comment = LITTLE.option(1, &[b'x'; 65_535]);
    let blocks = [
        LITTLE.packet(0, 1, &frame_of(61), 5, &[comment.clone(), LITTLE.option(0, &[])].concat()),
        LITTLE.old_packet(0, 2, &frame_of(62), &comment),
        LITTLE.simple(63, &frame_of(63)),
    ];
    let expected = vec![(1000, frame_of(61)), (2000, frame_of(62)), (2000, frame_of(63))];
    assert_eq!(read(&section(LITTLE, &[], &blocks)), good(expected));
    // The longest is the shorter of what the interface captures and what the packet had.
    for (snap, original, stored) in [(96, 300, 96), (96, 60, 60), (0, 300, 300), (u32::MAX, 300, 300)] {
        let file =
            [LITTLE.section(), LITTLE.interface(1, snap, &[]), LITTLE.simple(original, &frame_of(stored))];
        assert_eq!(read(&file.concat()), good(vec![(0, frame_of(stored))]), "{snap} {original}");
    }
}

/// The lower half of the link type is the link type; the FCS that its upper bits announce is taken off, as far as it was captured.
#[test]
fn upper_bits_of_the_link_type_and_the_fcs_that_they_announce() {
    for (bits, fcs) in
        [(0x4400_0000u32, 8), (0x2400_0000, 4), (0x0400_0000, 0), (0x3000_0000, 0), (0x4000_0000, 0)]
    {
        for (captured, original, left) in
            [(64, 64, 64 - fcs), (62, 64, 62.min(64 - fcs)), (40, 64, 40), (64, 60, 64 - fcs)]
        {
            let frame = frame_of(captured);
            let record = BIG.record([0, 0], [captured as u32, original], &frame);
            let file = [BIG.pcap(0xa1b2_c3d4, [2, 4], bits | 1), record].concat();
            assert_eq!(
                read(&file),
                good(vec![(0, frame[..left].to_vec())]),
                "{bits:#x} {captured} {original}"
            );
        }
    }
    // The longest frame may come with an FCS.
    let frame = vec![1; LONGEST + 4];
    let record = LITTLE.record([0, 0], [frame.len() as u32; 2], &frame);
    let file = [LITTLE.pcap(0xa1b2_c3d4, [2, 4], 0x2400_0001), record].concat();
    assert_eq!(lengths(&read(&file)), [LONGEST]);
}

#[test]
fn an_fcs_that_an_interface_or_a_packet_announces() {
    for order in [LITTLE, BIG] {
        for (fcslen, flags, fcs) in
            [(None, 0, 0), (Some(4), 0, 4), (Some(32), 0, 4), (Some(0), 0, 0), (Some(4), 2, 2), (None, 4, 4)]
        {
            let options = fcslen.map_or(Vec::new(), |fcslen| order.option(13, &[fcslen]));
            let flags = order.option(2, &order.words(&[flags << 5 | 1]));
            let blocks = [
                order.packet(0, 0, &frame_of(64), 0, &flags),
                order.packet(0, 0, &frame_of(64), 100, &flags),
                order.old_packet(0, 0, &frame_of(64), &flags),
            ];
            let read = read(&section(order, &options, &blocks));
            assert_eq!(lengths(&read), [64 - fcs, 64, 64 - fcs], "{fcslen:?} {flags:?}");
        }
    }
}

#[test]
fn packets_that_cannot_be_sent_are_skipped_and_the_rest_is_read() {
    let long = vec![1; LONGEST + 1];
    let blocks = [
        LITTLE.interface(113, 0, &[]),
        LITTLE.interface(60_000, 0, &LITTLE.option(9, &[200])), // nothing uses it
        LITTLE.packet(0, 1, &frame_of(60), 0, &[]),
        LITTLE.packet(1, 2, &frame_of(70), 0, &[]),
        LITTLE.packet(0, 3, &long, 0, &[]),
        LITTLE.packet(0, 3, &[], 0, &[]),
        LITTLE.old_packet(1, 3, &vec![1; 1 << 20], &[]),
        LITTLE.packet(0, 4, &frame_of(61), 0, &[]),
    ];
    let expected = Content {
        packets: vec![(1000, frame_of(60)), (4000, frame_of(61))],
        skipped: vec![
            (2, Skipped::LinkType(113)),
            (3, Skipped::TooLong(LONGEST as u32 + 1)),
            (4, Skipped::Empty),
            (5, Skipped::LinkType(113)),
        ],
        wrong: None,
    };
    assert_eq!(read(&section(LITTLE, &[], &blocks)), expected);
    let file = [
        LITTLE.pcap(0xa1b2_c3d4, [2, 4], 1),
        LITTLE.record([0, 0], [200_000; 2], &vec![1; 200_000]),
        LITTLE.record([0, 0], [0, 0], &[]),
        LITTLE.record([0, 0], [60, 60], &frame_of(60)),
    ];
    let skipped = vec![(1, Skipped::TooLong(200_000)), (2, Skipped::Empty)];
    let packets = vec![(0, frame_of(60))];
    assert_eq!(read(&file.concat()), Content { packets, skipped, wrong: None });
}

#[test]
fn blocks_that_are_no_packets_are_skipped_however_long() {
    let names = BIG.block(4, &vec![7; 1 << 20]);
    let secrets = BIG.block(10, &vec![7; 300_000]);
    let custom = BIG.block(0x4000_0bad, &vec![7; 3 << 20]);
    let comments = BIG.option(1, &[b'c'; 60_000]).repeat(20);
    let statistics = BIG.block(5, &[1; 12]);
    let mut blocks = Vec::new();
    for (n, block) in
        [names, secrets, custom, statistics, BIG.block(0x1234_5678, &[])].into_iter().enumerate()
    {
        blocks.extend([block, BIG.packet(1, n as u64, &frame_of(60 + n), 0, &comments)]);
    }
    blocks.insert(0, BIG.interface(1, 0, &[&comments[..], &BIG.option(9, &[9])].concat()));
    let expected = (0..5).map(|n| (n as u64, frame_of(60 + n))).collect();
    assert_eq!(read(&section(BIG, &[], &blocks)), good(expected));
}

/// Interfaces are those of the section, numbers those of its byte order.
#[test]
fn several_sections_of_different_byte_orders() {
    let nanos = |order: Order| order.option(9, &[9]);
    let parts = [
        section(LITTLE, &[], &[LITTLE.packet(0, 1, &frame_of(60), 0, &[])]),
        section(BIG, &nanos(BIG), &[BIG.packet(0, 2, &frame_of(61), 0, &[])]),
        section(LITTLE, &nanos(LITTLE), &[LITTLE.packet(0, 3, &frame_of(62), 0, &[])]),
    ];
    assert_eq!(read(&parts.concat()), good(vec![(1000, frame_of(60)), (2, frame_of(61)), (3, frame_of(62))]));
    let parts = [parts.concat(), BIG.section(), BIG.packet(0, 2, &frame_of(61), 0, &[])].concat();
    let wrong = read(&parts).wrong.unwrap();
    assert!(
        wrong.starts_with("packet 4, at byte ") && wrong.contains("interface 0 is not described"),
        "{wrong}"
    );
}

/// Wherever a file ends: the packets that are whole, and what it ends in the middle of.
#[test]
fn a_file_that_is_cut_anywhere_gives_what_is_whole() {
    let packet =
        |n: u64| LITTLE.packet(0, n * 1000, &frame_of(60 + n as usize), 0, &LITTLE.option(1, b"abc"));
    let ng = vec![
        LITTLE.section(),
        LITTLE.interface(1, 0, &LITTLE.option(9, &[9])),
        packet(1),
        LITTLE.block(4, &[0; 40]),
        packet(2),
        LITTLE.simple(30, &frame_of(30)),
    ];
    let record = |n: usize| BIG.record([0, 0], [60 + n as u32; 2], &frame_of(60 + n));
    let pcap = vec![BIG.pcap(0xa1b2_3c4d, [2, 4], 1), record(1), record(2)];
    for (parts, are_packets) in [(ng, vec![2, 4, 5]), (pcap, vec![1, 2])] {
        let whole = parts.concat();
        let ends: Vec<usize> = (1..=parts.len()).map(|n| parts[..n].concat().len()).collect();
        let all = read(&whole);
        assert_eq!((all.packets.len(), &all.wrong), (are_packets.len(), &None));
        for cut in 4..whole.len() {
            let before = are_packets.iter().filter(|at| ends[**at] <= cut).count();
            let got = read(&whole[..cut]);
            assert_eq!(got.packets, all.packets[..before], "{cut}");
            let part = ends.iter().position(|end| *end > cut).unwrap();
            let start = if part == 0 { 0 } else { ends[part - 1] };
            if start == cut {
                assert_eq!(got.wrong, None, "{cut}");
                continue;
            }
            let wrong = got.wrong.unwrap();
            assert!(wrong.contains("the file ends in the middle of it"), "{cut}: {wrong}");
            if are_packets.contains(&part) && cut >= start + 8 {
                assert!(wrong.starts_with(&format!("packet {}, at byte {start}: ", before + 1)), "{wrong}");
            }
        }
    }
}

#[test]
fn what_is_damaged_is_said_with_its_place() {
    let ng = section(
        LITTLE,
        &[],
        &[LITTLE.packet(0, 1, &frame_of(60), 0, &[]), LITTLE.packet(0, 2, &frame_of(60), 0, &[])],
    );
    let at = ng.len() - 92; // the second packet's block
    let with = |from: usize, word: u32| {
        let mut file = ng.clone();
        file[from..from + 4].copy_from_slice(&word.to_le_bytes());
        file
    };
    let pcap = |link: u32, captured: u32| {
        let records =
            [LITTLE.record([0, 0], [60; 2], &frame_of(60)), LITTLE.record([0, 0], [captured; 2], &[0; 60])];
        [LITTLE.pcap(0xa1b2_c3d4, [2, 4], link), records.concat()].concat()
    };
    let place = format!("packet 2, at byte {at}: ");
    for (file, packets, expected) in [
        (vec![], 0, "it is empty".to_owned()),
        (vec![1; 100], 0, "it is no pcap or pcapng file".to_owned()),
        (pcap(1, 60)[..10].to_vec(), 0, "the file ends in the middle of its header".to_owned()),
        (vec![0x1f, 0x8b, 8, 0, 0], 0, "it is compressed by gzip: uncompress it first (gunzip)".to_owned()),
        (b"snoop\0\0\0".to_vec(), 0, "it is a capture of snoop: convert it to pcapng first".to_owned()),
        (LITTLE.pcap(0xa1b2_c3d4, [1, 2], 1), 0, "version 1.2 of pcap is not known".to_owned()),
        (
            pcap(113, 60),
            0,
            "it was not captured on Ethernet but with link type 113 (Linux cooked)".to_owned(),
        ),
        (
            pcap(1, 0x4_0001),
            1,
            "packet 2, at byte 100: the file is damaged there: a packet of 262145 bytes".to_owned(),
        ),
        (with(at + 4, 91), 1, format!("{place}the file is damaged there: a block of 91 bytes")),
        (with(at + 4, 8), 1, format!("{place}the file is damaged there: a block of 8 bytes")),
        (with(at - 92 + 88, 0), 0, "packet 1, at byte ".to_owned()),
        (
            [ng.clone(), vec![0; 16]].concat(),
            2,
            format!(
                "the block at byte {}, after packet 2: the file is damaged there: a block of 0 bytes",
                ng.len()
            ),
        ),
        (with(at + 8, 7), 1, format!("{place}the file is damaged there: its interface 7 is not described")),
        (
            with(at + 20, 200),
            1,
            format!("{place}the file is damaged there: its block has 60 bytes where 200 are to come"),
        ),
        (
            with(at + 20, u32::MAX),
            1,
            format!("{place}the file is damaged there: a packet of 4294967295 bytes"),
        ),
        (
            with(at + 88, 96),
            1,
            format!("{place}the file is damaged there: a block of 92 bytes ends as one of 96"),
        ),
        (with(at + 4, 0xffff_fff0), 1, format!("{place}the file ends in the middle of it")),
        (
            with(8, 5),
            0,
            "the block at byte 0, after packet 0: the file is damaged there: a section without byte order"
                .to_owned(),
        ),
        (with(12, 2), 0, "version 2.0 of pcapng is not known".to_owned()),
    ] {
        let got = read(&file);
        let wrong = got.wrong.unwrap_or_default();
        assert!(wrong.contains(&expected), "{expected}\n{wrong}");
        assert_eq!(got.packets.len(), packets, "{expected}");
    }
}

/// Whatever byte is wrong, it is an error or another packet, and no more.
#[test]
fn any_byte_may_be_wrong() {
    let blocks = [LITTLE.packet(0, 1, &frame_of(20), 0, &[]), LITTLE.simple(20, &frame_of(20))];
    let records = [BIG.record([0, 0], [20; 2], &frame_of(20)), BIG.record([1, 1], [21; 2], &frame_of(21))];
    let pcap = [BIG.pcap(0xa1b2_3c4d, [2, 4], 1), records.concat()].concat();
    for file in [section(LITTLE, &LITTLE.option(9, &[9]), &blocks), pcap] {
        for at in 0..file.len() {
            let mut wrong = file.clone();
            wrong[at] ^= 0xff;
            assert!(read(&wrong).packets.len() <= 4);
        }
    }
}

/// A block of a section: what it is, and of which length.
fn blocks() -> impl Strategy<Value = Vec<(u8, usize, u32)>> {
    proptest::collection::vec((0..7u8, 1..300usize, 0..4u32), 0..30)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Blocks of all kinds in any order, in sections of any byte order: what is read is what was written.
    #[test]
    fn any_file_of_whole_blocks_is_read_as_it_was_written(
        sections in proptest::collection::vec((any::<bool>(), 0..=9u8, blocks()), 1..4)
    ) {
        let (mut file, mut expected, mut number, mut last) = (Vec::new(), Content::default(), 0, 0);
        for (big, resolution, blocks) in sections {
            let order = Order(big);
            let unit = 10u64.pow(9 - u32::from(resolution));
            let options = order.option(9, &[resolution]);
            file.extend([order.section(), order.interface(1, 0, &options), order.interface(105, 0, &[])].concat());
            for (kind, len, units) in blocks {
                let (frame, units) = (frame_of(len), u64::from(units));
                let comment = order.option(1, &frame);
                file.extend(match kind {
                    0 | 1 => order.packet(0, units, &frame, units as u32, &comment),
                    2 => order.old_packet(0, units, &frame, &comment),
                    3 => order.simple(len as u32, &frame),
                    4 => order.packet(1, units, &frame, 0, &comment),
                    5 => order.block(4, &frame),
                    _ => order.interface(12, 96, &comment),
                });
                if kind < 5 {
                    number += 1;
                }
                last = match kind {
                    0..=2 => units * unit,
                    4 => units * 1000,
                    _ => last,
                };
                match kind {
                    0..=3 => expected.packets.push((last, frame)),
                    4 => expected.skipped.push((number, Skipped::LinkType(105))),
                    _ => {}
                }
            }
        }
        prop_assert_eq!(read(&file), expected);
    }
}
