//! Reads the packets of a pcap or pcapng file. The file may be hostile: its numbers are bounded, and an error says at which packet.

use std::path::Path;

use anyhow::{Context, bail, ensure};
use ccnic_control::files;
use pcap_parser::traits::{PcapNGPacketBlock, PcapReaderIterator};
use pcap_parser::{Block, Linktype, PcapBlockOwned, PcapError, PcapHeader, create_reader};

/// Bytes of the longest block that is read: a packet with its options.
const LONGEST_BLOCK: usize = 192 << 10;
/// Bytes of the longest packet: a super-packet of 64 KiB with its headers.
pub(super) const LONGEST: usize = (64 << 10) + 22;
/// Interfaces of a pcapng section. Files have one for each that was captured on.
const INTERFACES: usize = 4096;

const SECOND: u128 = 1_000_000_000;

/// Where a packet was captured.
#[derive(Debug, Clone, Copy)]
struct Interface {
    ethernet: bool,
    /// Units of its timestamps in a second, and seconds to be added.
    resolution: u64,
    offset: i64,
}

/// The packets of a file, one after the other.
pub(super) struct Reader {
    blocks: Box<dyn PcapReaderIterator + Send>,
    /// Of this section.
    interfaces: Vec<Interface>,
    /// Packets that have been read.
    number: u64,
    /// Time of the last packet.
    time: u64,
}

/// What a block was.
enum Found {
    Packet(usize, Option<u64>),
    Other,
}

impl Reader {
    /// # Errors
    /// When the file cannot be read, or is of another kind.
    pub(super) fn open(path: &Path) -> anyhow::Result<Reader> {
        let file = files::open(path).context("could not open it")?;
        let blocks = create_reader(LONGEST_BLOCK, file).map_err(|e| match e {
            PcapError::Eof => anyhow::anyhow!("it is empty"),
            PcapError::ReadError => anyhow::anyhow!("could not read it"),
            _ => anyhow::anyhow!("it is no pcap or pcapng file"),
        })?;
        Ok(Reader { blocks, interfaces: Vec::new(), number: 0, time: 0 })
    }

    /// Packets that have been read.
    pub(super) fn packets(&self) -> u64 {
        self.number
    }

    /// Copies the next packet into `room`, which has [`LONGEST`] bytes; returns its length, and its time in nanoseconds. `None` at the end.
    ///
    /// # Errors
    /// What is wrong, and at which packet.
    pub(super) fn next(&mut self, room: &mut [u8]) -> anyhow::Result<Option<(usize, u64)>> {
        let number = self.number + 1;
        self.read(room).with_context(|| format!("packet {number}"))
    }

    fn read(&mut self, room: &mut [u8]) -> anyhow::Result<Option<(usize, u64)>> {
        let Reader { blocks, interfaces, number, time } = self;
        loop {
            let before = blocks.data().len();
            let (size, found) = match blocks.next() {
                Ok((size, block)) => (size, look(block, interfaces, room)?),
                Err(PcapError::Eof) => return Ok(None),
                Err(PcapError::Incomplete(_)) => {
                    blocks.refill().map_err(|_| anyhow::anyhow!("could not read the file"))?;
                    let more = blocks.data().len() > before || blocks.reader_exhausted();
                    ensure!(more, "its block is longer than {LONGEST_BLOCK} bytes");
                    continue;
                }
                Err(PcapError::BufferTooSmall) => bail!("its block is longer than {LONGEST_BLOCK} bytes"),
                Err(PcapError::UnexpectedEof) => bail!("the file ends in the middle of it"),
                Err(_) => bail!("the file is damaged there"),
            };
            ensure!(size > 0, "the file is damaged there");
            blocks.consume(size);
            if let Found::Packet(len, at) = found {
                *number += 1;
                *time = at.unwrap_or(*time);
                return Ok(Some((len, *time)));
            }
        }
    }
}

/// Takes what it needs of a block.
fn look(
    block: PcapBlockOwned<'_>,
    interfaces: &mut Vec<Interface>,
    room: &mut [u8],
) -> anyhow::Result<Found> {
    match block {
        PcapBlockOwned::LegacyHeader(header) => interfaces.push(of_header(&header)),
        PcapBlockOwned::NG(Block::SectionHeader(_)) => interfaces.clear(),
        PcapBlockOwned::NG(Block::InterfaceDescription(of)) => {
            ensure!(interfaces.len() < INTERFACES, "the file has more than {INTERFACES} interfaces");
            let resolution = of.ts_resolution().filter(|units| *units > 0);
            let resolution = resolution
                .context("the resolution of an interface's timestamps is not known (if_tsresol)")?;
            interfaces.push(Interface {
                ethernet: of.linktype == Linktype::ETHERNET,
                resolution,
                offset: of.ts_offset(),
            });
        }
        PcapBlockOwned::Legacy(packet) => {
            let interface = interface(interfaces, 0)?;
            let units = u128::from(packet.ts_usec) * SECOND / u128::from(interface.resolution);
            let time = u128::from(packet.ts_sec) * SECOND + units;
            return take(packet.data, room, Some(time as u64));
        }
        PcapBlockOwned::NG(Block::EnhancedPacket(packet)) => {
            let interface = interface(interfaces, packet.if_id)?;
            let units = u128::from(u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low));
            let time = units.saturating_mul(SECOND) / u128::from(interface.resolution);
            let time = i128::try_from(time)
                .unwrap_or(i128::MAX)
                .saturating_add(i128::from(interface.offset) * SECOND as i128);
            return take(packet.packet_data(), room, Some(u64::try_from(time.max(0)).unwrap_or(u64::MAX)));
        }
        PcapBlockOwned::NG(Block::SimplePacket(packet)) => {
            interface(interfaces, 0)?;
            return take(packet.packet_data(), room, None);
        }
        PcapBlockOwned::NG(_) => {}
    }
    Ok(Found::Other)
}

fn of_header(header: &PcapHeader) -> Interface {
    let resolution = if header.is_nanosecond_precision() { 1_000_000_000 } else { 1_000_000 };
    Interface { ethernet: header.network == Linktype::ETHERNET, resolution, offset: 0 }
}

/// The interface that a packet was captured on: one of Ethernet.
fn interface(interfaces: &[Interface], number: u32) -> anyhow::Result<Interface> {
    let found = interfaces.get(number as usize).copied();
    let found = found.with_context(|| format!("its interface {number} is not described in the file"))?;
    ensure!(found.ethernet, "it was not captured on Ethernet");
    Ok(found)
}

fn take(packet: &[u8], room: &mut [u8], time: Option<u64>) -> anyhow::Result<Found> {
    let len = packet.len();
    let room = room.get_mut(..len).filter(|room| room.len() <= LONGEST);
    room.with_context(|| format!("it has {len} bytes; the longest frame has {LONGEST}"))?
        .copy_from_slice(packet);
    Ok(Found::Packet(len, time))
}
