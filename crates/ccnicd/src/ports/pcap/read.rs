//! Reads the packets of a pcap or pcapng file. The file may be hostile: its numbers are bounded, and an error says at which packet and byte.
//!
//! | format | read here |
//! |---|---|
//! | pcap (draft-ietf-opsawg-pcap) | both byte orders, microseconds and nanoseconds; the longer records of Kuznetzov's patch; lengths in the order of versions before 2.4 |
//! | pcapng (draft-ietf-opsawg-pcapng) | `pcapng.rs` |
//!
//! One record is read at a time ([`Reader::next`]), and no more of the file than it needs.

use std::fmt;
use std::path::Path;

use anyhow::{Context, bail, ensure};
use ccnic_control::files;

use super::pcapng::{self, Section};
use super::stream::Stream;

/// Bytes of the longest packet: a super-packet of 64 KiB with its headers.
pub(super) const LONGEST: usize = (64 << 10) + 22;
/// Bytes of the longest FCS that a file can announce: 15 words of 16 bits.
const LONGEST_FCS: usize = 30;
/// Room for a packet, and for the FCS that it may come with.
pub(super) const ROOM: usize = (LONGEST + LONGEST_FCS).next_multiple_of(64);

/// Bytes of the longest record of pcap, as libpcap has it (`MAXIMUM_SNAPLEN`). Nothing but its length tells where a record ends.
const LONGEST_RECORD: u32 = 256 << 10;

/// LINKTYPE_ETHERNET.
pub(super) const ETHERNET: u16 = 1;
/// Link types that are met most, for who has to capture anew.
const LINK_TYPES: [(u16, &str); 9] = [
    (0, "BSD loopback"),
    (101, "raw IP"),
    (105, "IEEE 802.11"),
    (113, "Linux cooked"),
    (127, "IEEE 802.11 with radiotap"),
    (228, "raw IPv4"),
    (229, "raw IPv6"),
    (249, "USB"),
    (276, "Linux cooked, version 2"),
];

/// Files that begin with these bytes are captures, perhaps, but of no kind that is read.
const OTHERS: [(&[u8], &str); 9] = [
    (&[0x1f, 0x8b], "compressed by gzip: uncompress it first (gunzip)"),
    (&[0x28, 0xb5, 0x2f, 0xfd], "compressed by zstd: uncompress it first (unzstd)"),
    (&[0x04, 0x22, 0x4d, 0x18], "compressed by lz4: uncompress it first (unlz4)"),
    (&[0xfd, b'7', b'z', b'X', b'Z'], "compressed by xz: uncompress it first (unxz)"),
    (b"BZh", "compressed by bzip2: uncompress it first (bunzip2)"),
    (b"PK\x03\x04", "a zip archive: unpack it first (unzip)"),
    (b"snoop\0", "a capture of snoop: convert it to pcapng first (editcap)"),
    (b"GMBU", "a capture of Network Monitor: convert it to pcapng first (editcap)"),
    (b"TRSNIFF", "a capture of Sniffer: convert it to pcapng first (editcap)"),
];

pub(super) const SECOND: u128 = 1_000_000_000;

/// A record of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Item {
    /// Its length, and its time in nanoseconds.
    Packet(usize, u64),
    /// A packet that cannot be sent.
    Skipped(Skipped),
    /// No packet.
    Other,
}

/// Why a packet of a file cannot be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Skipped {
    LinkType(u16),
    TooLong(u32),
    Empty,
}

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Skipped::LinkType(link) => {
                write!(f, "it was not captured on Ethernet but with link type {link}")?;
                let named = LINK_TYPES.iter().find(|(known, _)| known == link);
                named.map_or(Ok(()), |(_, name)| write!(f, " ({name})"))
            }
            Skipped::TooLong(len) => write!(f, "it has {len} bytes; the longest frame has {LONGEST}"),
            Skipped::Empty => write!(f, "it has no bytes"),
        }
    }
}

/// A packet's record, up to its bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Record {
    pub(super) link: u16,
    /// Bytes that are in the file.
    pub(super) captured: u32,
    /// Bytes that it had, with its FCS.
    pub(super) original: u32,
    /// `None`: that of the packet before.
    pub(super) time: Option<u64>,
}

/// The records of a file, one after the other.
pub(super) struct Reader {
    stream: Stream,
    format: Format,
    /// Packets that have been read.
    number: u64,
    /// Time of the last packet.
    time: u64,
}

enum Format {
    Pcap(Header),
    Pcapng(Section),
}

impl Reader {
    /// # Errors
    /// When the file cannot be read, or is of another kind.
    pub(super) fn open(path: &Path) -> anyhow::Result<Reader> {
        let mut stream = Stream::new(files::open(path).context("could not open it")?);
        let start = stream.ahead()?;
        ensure!(!start.is_empty(), "it is empty");
        if let Some((_, what)) = OTHERS.iter().find(|(magic, _)| start.starts_with(magic)) {
            bail!("it is {what}");
        }
        let format = if start.starts_with(&pcapng::SECTION.to_le_bytes()) {
            Format::Pcapng(Section::default())
        } else {
            Format::Pcap(Header::read(&mut stream)?)
        };
        Ok(Reader { stream, format, number: 0, time: 0 })
    }

    /// Packets that have been read, also those that were skipped.
    pub(super) fn packets(&self) -> u64 {
        self.number
    }

    /// Reads the next record, and copies what is a packet into `room`, which has [`ROOM`] bytes. `None` at the end.
    ///
    /// # Errors
    /// What is wrong, and where. There is no more to read then.
    pub(super) fn next(&mut self, room: &mut [u8]) -> anyhow::Result<Option<Item>> {
        if self.stream.ahead()?.is_empty() {
            return Ok(None);
        }
        let (at, number) = (self.stream.at, self.number);
        let mut packet = true;
        let read = match &mut self.format {
            Format::Pcap(header) => header.record(&mut self.stream, room).map(Some),
            Format::Pcapng(section) => section.block(&mut self.stream, room, &mut packet),
        };
        let found = read.with_context(|| match packet {
            true => format!("packet {}, at byte {at}", number + 1),
            false => format!("the block at byte {at}, after packet {number}"),
        })?;
        let Some((record, fcs)) = found else { return Ok(Some(Item::Other)) };
        self.number += 1;
        self.time = record.time.unwrap_or(self.time);
        // A packet that was cut short has lost its FCS first.
        let original = record.original.max(record.captured);
        let len = record.captured.min(original.saturating_sub(fcs));
        Ok(Some(match len {
            _ if record.link != ETHERNET => Item::Skipped(Skipped::LinkType(record.link)),
            0 => Item::Skipped(Skipped::Empty),
            len if len as usize > LONGEST => Item::Skipped(Skipped::TooLong(len)),
            len => Item::Packet(len as usize, self.time),
        }))
    }
}

/// Reads the bytes of a packet where it is one to be sent, and skips all others.
pub(super) fn bytes(stream: &mut Stream, record: &Record, room: &mut [u8]) -> anyhow::Result<()> {
    match room.get_mut(..record.captured as usize) {
        Some(room) if record.link == ETHERNET => stream.exactly(room),
        _ => stream.skip(record.captured),
    }
}

/// A file of the classic format.
struct Header {
    link: u16,
    /// Bytes of the FCS that packets end with.
    fcs: u32,
    /// Nanoseconds of a unit of time.
    unit: u64,
    /// Bytes of a record's header beyond those that all have.
    more: u32,
    /// Version 2.x: see [`Header::lengths`].
    minor: u16,
}

impl Header {
    fn read(stream: &mut Stream) -> anyhow::Result<Header> {
        const NO_CAPTURE: &str = "it is no pcap or pcapng file";
        let magic: [u8; 4] = stream.array().ok().context(NO_CAPTURE)?;
        let kind = |magic: u32| match magic {
            0xa1b2_c3d4 => Some((1000, 0)),
            0xa1b2_3c4d => Some((1, 0)),
            0xa1b2_cd34 => Some((1000, 8)), // Kuznetzov's patch: interface, protocol, packet type
            _ => None,
        };
        stream.big = kind(u32::from_be_bytes(magic)).is_some();
        let (unit, more) = kind(stream.number(magic)).context(NO_CAPTURE)?;
        let read = |stream: &mut Stream| -> anyhow::Result<([u16; 2], u32)> {
            let version = stream.halves()?;
            stream.skip(12)?; // time zone, accuracy, snaplen
            Ok((version, stream.u32()?))
        };
        let ([major, minor], link) =
            read(stream).ok().context("the file ends in the middle of its header")?;
        ensure!(major == 2, "version {major}.{minor} of pcap is not known");
        // The lower 16 bits are the link type. Where bit 26 is set, the upper four are the FCS in words of 16 bits.
        let fcs = if link & 1 << 26 != 0 { link >> 28 << 1 } else { 0 };
        let link = link as u16;
        ensure!(link == ETHERNET, "{}", Skipped::LinkType(link));
        Ok(Header { link, fcs, unit, more, minor })
    }

    fn record(&self, stream: &mut Stream, room: &mut [u8]) -> anyhow::Result<(Record, u32)> {
        let (seconds, units) = (stream.u32()?, stream.u32()?);
        let (captured, original) = self.lengths(stream.u32()?, stream.u32()?);
        stream.skip(self.more)?;
        ensure!(
            captured <= LONGEST_RECORD,
            "the file is damaged there: a packet of {captured} bytes, where the longest has {LONGEST_RECORD}"
        );
        let time = u64::from(seconds) * SECOND as u64 + u64::from(units) * self.unit;
        let record = Record { link: self.link, captured, original, time: Some(time) };
        bytes(stream, &record, room)?;
        Ok((record, self.fcs))
    }

    /// Captured and original length. Before version 2.3 (and in DG/UX, 2.543) they are the other way round, in 2.3 in some files, as libpcap
    /// has it.
    fn lengths(&self, first: u32, second: u32) -> (u32, u32) {
        match self.minor {
            ..3 | 543 => (second, first),
            3 if first > second => (second, first),
            _ => (first, second),
        }
    }
}
