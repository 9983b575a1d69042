//! Files of both kinds and byte orders, what is damaged in them, and what is written.

use std::io::Write;

use crate::memory::RegionMemory;
use ccnic::nic::gather;
use ccnic::{Desc, SharedMemory};
use ccnic_shm::{NativeMemory, Pages, Region};
use tempfile::NamedTempFile;

use super::options::{PcapOptions, Rate};
use super::read::{LONGEST, Reader};
use super::replay::Replay;
use super::write;

/// A file of the classic format: nanoseconds or microseconds, any byte order.
fn classic(nanos: bool, big: bool, link: u32, packets: &[(u32, u32, &[u8])]) -> Vec<u8> {
    let word = |n: u32| if big { n.to_be_bytes() } else { n.to_le_bytes() };
    let half = |n: u16| if big { n.to_be_bytes() } else { n.to_le_bytes() };
    let mut file = word(if nanos { 0xa1b2_3c4d } else { 0xa1b2_c3d4 }).to_vec();
    file.extend([half(2), half(4)].concat());
    file.extend([word(0), word(0), word(65_535), word(link)].concat());
    for (seconds, fraction, bytes) in packets {
        file.extend(
            [word(*seconds), word(*fraction), word(bytes.len() as u32), word(bytes.len() as u32)].concat(),
        );
        file.extend_from_slice(bytes);
    }
    file
}

/// What our writer writes for these packets, each in segments of `segment` bytes.
fn ours(packets: &[(u64, Vec<u8>)], segment: usize) -> Vec<u8> {
    let mem = Region::create(1 << 20, Pages::Small).unwrap().memory();
    let mut file = write::header();
    for (time, bytes) in packets {
        let last = bytes.len().div_ceil(segment) - 1;
        let place = |(i, part): (usize, &[u8])| {
            mem.write(5000 * i as u32, part);
            Desc::new(5000 * i as u32, part.len() as u16, 0).with_more(i < last)
        };
        let descs: Vec<_> = bytes.chunks(segment).enumerate().map(place).collect();
        let before = file.len();
        write::packet(&mut file, *time, &mem, &descs, bytes.len());
        assert_eq!(file.len() - before, write::block_len(bytes.len()));
    }
    file
}

fn stored(bytes: &[u8]) -> NamedTempFile {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    file
}

/// All packets of a file, and what is wrong after them.
fn read(bytes: &[u8]) -> (Vec<(u64, Vec<u8>)>, Option<String>) {
    let file = stored(bytes);
    let mut room = vec![0; LONGEST.next_multiple_of(64)];
    let mut packets = Vec::new();
    let mut reader = match Reader::open(file.path()) {
        Ok(reader) => reader,
        Err(e) => return (packets, Some(format!("{e:#}"))),
    };
    loop {
        match reader.next(&mut room) {
            Ok(Some((len, time))) => packets.push((time, room[..len].to_vec())),
            Ok(None) => return (packets, None),
            Err(e) => return (packets, Some(format!("{e:#}"))),
        }
    }
}

fn frames() -> Vec<(u64, Vec<u8>)> {
    let frame =
        |n: usize| (1_700_000_000_123_456_789 + n as u64, (0..14 + n * 37).map(|i| (i * n) as u8).collect());
    (0..40).map(frame).collect()
}

#[test]
fn classic_files_of_all_byte_orders_and_resolutions() {
    let (a, b) = ([1; 60], [2; 1514]);
    for (nanos, big) in [(false, false), (false, true), (true, false), (true, true)] {
        let file = classic(nanos, big, 1, &[(7, 5, &a), (7, 600_000, &b)]);
        let unit = if nanos { 1 } else { 1000 };
        let expected =
            vec![(7_000_000_000 + 5 * unit, a.to_vec()), (7_000_000_000 + 600_000 * unit, b.to_vec())];
        assert_eq!(read(&file), (expected, None));
    }
}

#[test]
fn what_is_written_is_read_back_byte_for_byte() {
    for segment in [60, 4096] {
        assert_eq!(read(&ours(&frames(), segment)), (frames(), None));
    }
    let long = vec![(u64::MAX >> 2, vec![9; 65_000])];
    assert_eq!(read(&ours(&long, 4096)), (long, None));
}

#[test]
fn a_file_that_is_cut_gives_what_was_whole_and_says_where_it_ends() {
    let file = ours(&frames(), 4096);
    let block = write::block_len(14);
    for cut in [1, 4, 31] {
        let (packets, why) = read(&file[..write::header().len() + block + cut]);
        assert_eq!(packets, frames()[..1]);
        assert_eq!(why.unwrap(), "packet 2: the file ends in the middle of it", "{cut} bytes");
    }
    let classic = classic(false, false, 1, &[(0, 0, &[1; 60]), (0, 0, &[1; 60])]);
    let (packets, why) = read(&classic[..classic.len() - 1]);
    assert_eq!((packets.len(), why.as_deref()), (1, Some("packet 2: the file ends in the middle of it")));
}

#[test]
fn damaged_and_hostile_files_are_errors_that_say_where() {
    let good = classic(false, false, 1, &[(0, 0, &[1; 60])]);
    let with = |from: usize, bytes: &[u8]| {
        let mut file = good.clone();
        file[from..from + bytes.len()].copy_from_slice(bytes);
        file
    };
    let mut section = ours(&frames(), 4096);
    let interface = 28;
    section[interface + 8..interface + 10].copy_from_slice(&[113, 0]); // LINKTYPE_LINUX_SLL
    let mut units = ours(&frames(), 4096);
    units[interface + 20] = 200;
    let mut named = ours(&frames(), 4096);
    named[60 + 8] = 7; // the interface of the first packet
    let mut length = ours(&frames(), 4096);
    length[60 + 4..60 + 8].copy_from_slice(&0xffff_fff0u32.to_le_bytes());
    let mut captured = ours(&frames(), 4096);
    captured[60 + 20..60 + 24].copy_from_slice(&0x7fff_ffffu32.to_le_bytes());
    let long = classic(false, false, 1, &[(0, 0, &[1; 60]), (0, 0, &vec![1; LONGEST + 1])]);
    for (file, expected) in [
        (vec![], "it is empty"),
        (vec![1; 100], "no pcap or pcapng file"),
        (good[..10].to_vec(), "no pcap or pcapng file"),
        (with(20, &[101, 0, 0, 0]), "packet 1: it was not captured on Ethernet"),
        (with(32, &[0xff; 4]), "packet 1: its block is longer"),
        (section, "packet 1: it was not captured on Ethernet"),
        (units, "if_tsresol"),
        (named, "packet 1: its interface 7 is not described"),
        (length, "packet 1: its block is longer"),
        (captured, "packet 1: "),
        (long, "packet 2: it has 65559 bytes; the longest frame has 65558"),
    ] {
        let (_, why) = read(&file);
        let why = why.unwrap_or_default();
        assert!(why.contains(expected), "{expected}: {why}");
    }
}

/// Whatever byte is wrong, it is an error or another packet, and no more.
#[test]
fn any_byte_may_be_wrong() {
    for file in [ours(&frames()[..2], 4096), classic(true, true, 1, &[(0, 0, &[1; 20]), (1, 1, &[2; 21])])] {
        for at in 0..file.len() {
            let mut wrong = file.clone();
            wrong[at] ^= 0xff;
            assert!(read(&wrong).0.len() <= 4);
        }
    }
}

/// The packets of a replay, in order, while they come without waiting for a clock.
fn replayed(replay: &mut Replay, wanted: usize) -> Vec<Vec<u8>> {
    let mem: NativeMemory = replay.memory().clone();
    let mut frames = Vec::new();
    let start = std::time::Instant::now();
    while frames.len() < wanted {
        assert!(start.elapsed().as_secs() < 60, "{} of {wanted}", frames.len());
        let mut burst = crate::ports::Burst::default();
        replay.gather().into(&mut burst, 0);
        for packet in burst.packets.rest().split_inclusive(|desc| !desc.more()) {
            let mut frame = vec![0; packet.iter().map(|desc| usize::from(desc.len())).sum()];
            gather(&mem, packet, &mut frame);
            frames.push(frame);
        }
    }
    frames
}

/// More than all parts of the memory have room for, several times.
#[test]
fn files_longer_than_the_memory_and_several_times() {
    let packets: Vec<_> = (0..3000).map(|n: u64| (n, vec![n as u8; 1500])).collect();
    let file = stored(&ours(&packets, 4096));
    let options = PcapOptions { rate: Rate::Asap, times: 3, ..PcapOptions::new(Some(file.path().into())) };
    let mut replay = Replay::open(file.path(), &options).unwrap();
    let got = replayed(&mut replay, 9000);
    assert!(got.iter().zip(packets.iter().cycle()).all(|(got, (_, sent))| got == sent));
    assert_eq!(replay.gather().packets, 0, "that was all");
}

/// What is due is what the clock says: at once the first, and never the packet of the next century.
#[test]
fn packets_come_when_they_are_due() {
    let century = 100 * 365 * 86_400 * 1_000_000_000;
    let file = stored(&ours(&[(5, vec![1; 60]), (5, vec![2; 60]), (century, vec![3; 60])], 4096));
    let options = PcapOptions::new(Some(file.path().into()));
    let mut replay = Replay::open(file.path(), &options).unwrap();
    assert_eq!(replayed(&mut replay, 2), [[1; 60], [2; 60]]);
    assert_eq!(replay.gather().packets, 0);
    let options = PcapOptions { rate: Rate::Packets(1), ..options };
    let mut replay = Replay::open(file.path(), &options).unwrap();
    assert_eq!(replay.gather().packets, 1, "the next one in a second");
}
