//! Writes pcapng: a section, an interface for each port when its first packet comes, packets with direction and comment.
//!
//! draft-ietf-opsawg-pcapng. Little-endian, times in nanoseconds.

use std::io::{self, Write};

use ccnic_control::capture::Direction;

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const STATISTICS: u32 = 5;
const ENHANCED_PACKET: u32 = 6;

/// Options of any block: a comment.
const COMMENT: u16 = 1;
/// Of a section: the program that writes it.
const USER_APPLICATION: u16 = 4;
/// Of an interface: its name, what it is, its clock.
const NAME: u16 = 2;
const DESCRIPTION: u16 = 3;
const RESOLUTION: u16 = 9;
/// Of a packet: flags, whose lowest two bits are the direction.
const FLAGS: u16 = 2;
/// Of statistics: packets that were dropped on their way to who captures.
const DROPPED: u16 = 7;

/// A packet of the file.
#[derive(Debug, Clone, Copy)]
pub struct Packet<'a> {
    /// As [`Writer::interface`] has numbered it.
    pub interface: u32,
    /// Nanoseconds since 1970.
    pub time: u64,
    /// Bytes that it had.
    pub len: u32,
    /// Those that were captured.
    pub bytes: &'a [u8],
    /// From the switch's side.
    pub direction: Direction,
    /// What else is to be said.
    pub comment: Option<&'a str>,
}

/// A file.
#[derive(Debug)]
pub struct Writer<W> {
    to: W,
    interfaces: u32,
    block: Vec<u8>,
}

impl<W: Write> Writer<W> {
    /// Begins a file that `program` writes.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn new(to: W, program: &str) -> io::Result<Writer<W>> {
        let mut this = Writer { to, interfaces: 0, block: Vec::new() };
        // Byte order, version 1.0, a section of unknown length.
        this.words(&[0x1a2b_3c4d, 1, u32::MAX, u32::MAX]);
        this.option(USER_APPLICATION, program.as_bytes());
        this.end(SECTION)?;
        Ok(this)
    }

    /// Adds an interface, whose packets have so many bytes at most; returns its number.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn interface(&mut self, name: &str, description: &str, snap: u32) -> io::Result<u32> {
        self.words(&[1, snap]); // LINKTYPE_ETHERNET
        self.option(NAME, name.as_bytes());
        self.option(DESCRIPTION, description.as_bytes());
        self.option(RESOLUTION, &[9]);
        self.end(INTERFACE)?;
        self.interfaces += 1;
        Ok(self.interfaces - 1)
    }

    /// Adds a packet.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn packet(&mut self, packet: &Packet<'_>) -> io::Result<()> {
        let Packet { interface, time, len, bytes, direction, comment } = *packet;
        self.words(&[interface, (time >> 32) as u32, time as u32, bytes.len() as u32, len]);
        self.padded(bytes);
        let flags: u32 = match direction {
            Direction::In => 1,
            Direction::Out => 2,
        };
        self.option(FLAGS, &flags.to_le_bytes());
        if let Some(comment) = comment {
            self.option(COMMENT, comment.as_bytes());
        }
        self.end(ENHANCED_PACKET)
    }

    /// Says of an interface how many packets were not captured.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn statistics(&mut self, interface: u32, time: u64, missed: u64) -> io::Result<()> {
        self.words(&[interface, (time >> 32) as u32, time as u32]);
        self.option(DROPPED, &missed.to_le_bytes());
        self.end(STATISTICS)
    }

    /// Has everything be where others can read it.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }

    fn words(&mut self, words: &[u32]) {
        words.iter().for_each(|word| self.block.extend(word.to_le_bytes()));
    }

    fn padded(&mut self, bytes: &[u8]) {
        self.block.extend_from_slice(bytes);
        self.block.resize(self.block.len().next_multiple_of(4), 0);
    }

    /// An option of the block; a text that is too long for one is cut.
    fn option(&mut self, code: u16, value: &[u8]) {
        let value = value.get(..u16::MAX.into()).unwrap_or(value);
        self.block.extend(code.to_le_bytes());
        self.block.extend((value.len() as u16).to_le_bytes());
        self.padded(value);
    }

    /// Writes the block: its kind and length before it, the end of options and the length behind it.
    fn end(&mut self, kind: u32) -> io::Result<()> {
        self.words(&[0]);
        let len = self.block.len() as u32 + 12;
        self.to.write_all(&[kind.to_le_bytes(), len.to_le_bytes()].concat())?;
        self.to.write_all(&self.block)?;
        self.to.write_all(&len.to_le_bytes())?;
        self.block.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pcap_parser::traits::PcapNGPacketBlock;
    use pcap_parser::{Block, OptionCode, parse_block_le};

    /// As a reader sees it that others have written.
    #[test]
    fn a_file_is_what_others_read() {
        let mut writer = Writer::new(Vec::new(), "test").unwrap();
        let ports =
            ["tap:up0", "a name of 17 byte"].map(|name| writer.interface(name, "a port", 128).unwrap());
        let frame: Vec<u8> = (0..61).collect();
        let comment = "dropped: drop_spoofed";
        let packet = Packet {
            interface: ports[1],
            time: 1 << 60 | 5,
            len: 1500,
            bytes: &frame,
            direction: Direction::Out,
            comment: Some(comment),
        };
        writer.packet(&packet).unwrap();
        writer.packet(&Packet { bytes: &[], comment: None, direction: Direction::In, ..packet }).unwrap();
        writer.statistics(ports[0], 7, 99).unwrap();
        let (file, mut blocks) = (writer.to, Vec::new());
        let mut rest = &file[..];
        while !rest.is_empty() {
            let (after, block) = parse_block_le(rest).unwrap();
            blocks.push(block);
            rest = after;
        }
        let [
            Block::SectionHeader(_),
            Block::InterfaceDescription(_),
            Block::InterfaceDescription(second),
            packets @ ..,
            Block::InterfaceStatistics(_),
        ] = &blocks[..]
        else {
            panic!("{blocks:?}")
        };
        let name = second.options.iter().find(|o| o.code == OptionCode(NAME)).unwrap();
        assert_eq!(
            (&name.value[..name.len.into()], second.snaplen, second.if_tsresol),
            (&b"a name of 17 byte"[..], 128, 9)
        );
        let [Block::EnhancedPacket(one), Block::EnhancedPacket(two)] = packets else { panic!("{packets:?}") };
        assert_eq!((one.if_id, one.origlen, one.caplen, one.packet_data()), (1, 1500, 61, &frame[..]));
        assert_eq!((u64::from(one.ts_high) << 32 | u64::from(one.ts_low), two.caplen), (1 << 60 | 5, 0));
        let of =
            |code| one.options.iter().find(|o| o.code == OptionCode(code)).map(|o| &o.value[..o.len.into()]);
        assert_eq!((of(FLAGS), of(COMMENT)), (Some(&[2, 0, 0, 0][..]), Some(comment.as_bytes())));
        assert!(two.options.iter().all(|o| o.code != OptionCode(COMMENT)));
    }
}
