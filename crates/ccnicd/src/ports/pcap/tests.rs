//! What is written, and what is replayed of a file; `read_tests.rs` has the kinds of files.

use std::io::Write;

use crate::memory::RegionMemory;
use ccnic::nic::gather;
use ccnic::{Desc, SharedMemory};
use ccnic_shm::{NativeMemory, Pages, Region};
use tempfile::NamedTempFile;

use super::PcapPort;
use super::options::{PcapOptions, Rate};
use super::read::{Item, ROOM, Reader, Skipped};
use super::replay::Replay;
use super::write;

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

/// What is in a file.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Content {
    /// Times and bytes of packets.
    pub(super) packets: Vec<(u64, Vec<u8>)>,
    /// Numbers of packets that were skipped, and why.
    pub(super) skipped: Vec<(u64, Skipped)>,
    /// What is wrong after them.
    pub(super) wrong: Option<String>,
}

pub(super) fn read(bytes: &[u8]) -> Content {
    let file = stored(bytes);
    let (mut room, mut content) = (vec![0; ROOM], Content::default());
    let mut reader = match Reader::open(file.path()) {
        Ok(reader) => reader,
        Err(e) => return Content { wrong: Some(format!("{e:#}")), ..content },
    };
    loop {
        match reader.next(&mut room) {
            Ok(Some(Item::Packet(len, time))) => content.packets.push((time, room[..len].to_vec())),
            Ok(Some(Item::Skipped(why))) => content.skipped.push((reader.packets(), why)),
            Ok(Some(Item::Other)) => {}
            Ok(None) => return content,
            Err(e) => return Content { wrong: Some(format!("{e:#}")), ..content },
        }
    }
}

/// A file without anything to skip or to complain of.
pub(super) fn good(packets: Vec<(u64, Vec<u8>)>) -> Content {
    Content { packets, ..Content::default() }
}

fn frames() -> Vec<(u64, Vec<u8>)> {
    let frame =
        |n: usize| (1_700_000_000_123_456_789 + n as u64, (0..14 + n * 37).map(|i| (i * n) as u8).collect());
    (0..40).map(frame).collect()
}

#[test]
fn what_is_written_is_read_back_byte_for_byte() {
    for segment in [60, 4096] {
        assert_eq!(read(&ours(&frames(), segment)), good(frames()));
    }
    let long = vec![(u64::MAX >> 2, vec![9; 65_000])];
    assert_eq!(read(&ours(&long, 4096)), good(long));
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

/// The same for files that are read at once and for longer ones: what is whole is replayed, as often as was asked for.
#[test]
fn what_comes_before_the_end_of_a_file_that_is_cut_is_replayed() {
    for packets in [2, 3000] {
        let packets: Vec<_> = (0..packets).map(|n: u64| (n, vec![n as u8; 1500])).collect();
        let whole = ours(&packets, 4096);
        let file = stored(&whole[..whole.len() - 5]);
        let options =
            PcapOptions { rate: Rate::Asap, times: 2, ..PcapOptions::new(Some(file.path().into())) };
        let mut replay = Replay::open(file.path(), &options).unwrap();
        let whole = &packets[..packets.len() - 1];
        let got = replayed(&mut replay, 2 * whole.len());
        assert!(got.iter().zip(whole.iter().cycle()).all(|(got, (_, sent))| got == sent));
        assert_eq!(replay.gather().packets, 0, "that was all");
    }
}

#[test]
fn a_replay_that_is_held_begins_when_it_is_let_go() {
    use crate::ports::OutsidePort;
    let file = stored(&ours(&frames(), 4096));
    let options = PcapOptions { rate: Rate::Asap, ..PcapOptions::new(Some(file.path().into())) };
    let mut port = PcapPort::open(&options).unwrap();
    let hold = port.hold();
    let mut burst = crate::ports::Burst::default();
    let all = |_: &[u8]| crate::ports::Accepts::ALL;
    assert_eq!(port.fetch(&mut burst, &all), 0);
    assert!(crate::ports::Doze::has_work(&port), "nobody would call");
    drop(hold);
    assert!(port.fetch(&mut burst, &all) > 0);
}

#[test]
fn what_is_skipped_is_counted_each_time() {
    let packets: Vec<_> = [60, 70_000, 61].map(|len| (0, vec![7; len])).into();
    let file = stored(&ours(&packets, 4096));
    let options = PcapOptions { rate: Rate::Asap, times: 3, ..PcapOptions::new(Some(file.path().into())) };
    let mut replay = Replay::open(file.path(), &options).unwrap();
    assert_eq!(replayed(&mut replay, 6).iter().map(Vec::len).collect::<Vec<_>>(), [60, 61, 60, 61, 60, 61]);
    assert_eq!(replay.skipped(), 3);
}

/// Two ports would write over each other.
#[test]
fn a_file_is_recorded_in_by_one_port() {
    let directory = tempfile::tempdir().unwrap();
    let open = |name: &str| {
        PcapPort::open(&PcapOptions { record: Some(directory.path().join(name)), ..PcapOptions::new(None) })
    };
    let first = open("out").unwrap();
    for name in ["out", "./out"] {
        let refused = format!("{:#}", open(name).unwrap_err());
        assert!(refused.contains("another port records in this file"), "{refused}");
    }
    let _other = open("other").unwrap();
    drop(first);
    assert!(open("out").is_ok());
}
