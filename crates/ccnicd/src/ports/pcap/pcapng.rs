//! Blocks of a pcapng file (draft-ietf-opsawg-pcapng): those of sections, interfaces and packets. All others are skipped, however long they
//! are: names, secrets, statistics, what is somebody's own.

use anyhow::{Context, bail, ensure};

use super::read::{self, Record, SECOND};
use super::stream::Stream;

/// Interfaces of a section. Files have one for each that was captured on.
const INTERFACES: usize = 1 << 16;

/// Types of blocks. (The first reads the same in both byte orders.)
pub(super) const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const PACKET: u32 = 2; // obsolete
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;
const BYTE_ORDER: u32 = 0x1a2b_3c4d;

/// Options of interfaces: their clock's resolution, the seconds to be added, the FCS.
const IF_TSRESOL: u16 = 9;
const IF_FCSLEN: u16 = 13;
const IF_TSOFFSET: u16 = 14;
/// Of packets of both kinds: flags.
const FLAGS: u16 = 2;

/// Bytes of a block besides its body: its type, and its length at both ends.
const AROUND: u32 = 12;

/// An interface that packets were captured on.
#[derive(Debug, Clone, Copy)]
struct Interface {
    link: u16,
    /// Bytes of the longest packet; 0: no limit.
    snap: u32,
    fcs: u8,
    /// Units of time: 10^-n seconds, or 2^-n where the upper bit is set.
    resolution: u8,
    /// Seconds to be added.
    offset: i64,
}

/// What the blocks of a section have in common.
#[derive(Debug, Default)]
pub(super) struct Section {
    interfaces: Vec<Interface>,
}

/// The body of a block, and what is left of it.
struct Body<'a> {
    stream: &'a mut Stream,
    left: u32,
}

impl Section {
    /// Reads a block; returns its packet with the length of the FCS, if it has one. `packet` says whether it is one, also where it is damaged.
    pub(super) fn block(
        &mut self,
        stream: &mut Stream,
        room: &mut [u8],
        packet: &mut bool,
    ) -> anyhow::Result<Option<(Record, u32)>> {
        *packet = false;
        let (kind, len) = (stream.array()?, stream.array()?);
        let begins = kind == SECTION.to_le_bytes();
        if begins {
            let magic: [u8; 4] = stream.array()?;
            stream.big = magic == BYTE_ORDER.to_be_bytes();
            ensure!(
                stream.number(magic) == BYTE_ORDER,
                "the file is damaged there: a section without byte order"
            );
        }
        let (kind, len) = (stream.number(kind), stream.number(len));
        *packet = [PACKET, SIMPLE_PACKET, ENHANCED_PACKET].contains(&kind);
        let around = AROUND + if begins { 4 } else { 0 };
        ensure!(len >= around && len.is_multiple_of(4), "the file is damaged there: a block of {len} bytes");
        let mut body = Body { stream, left: len - around };
        let found = match kind {
            SECTION => self.begin(&mut body).map(|()| None),
            INTERFACE => self.add(&mut body).map(|()| None),
            ENHANCED_PACKET => self.packet(&mut body, false, room).map(Some),
            PACKET => self.packet(&mut body, true, room).map(Some),
            SIMPLE_PACKET => self.simple_packet(&mut body, room).map(Some),
            _ => Ok(None),
        }?;
        body.stream.skip(body.left)?;
        let again = stream.u32()?;
        ensure!(again == len, "the file is damaged there: a block of {len} bytes ends as one of {again}");
        Ok(found)
    }

    fn begin(&mut self, body: &mut Body<'_>) -> anyhow::Result<()> {
        let [major, minor] = body.halves()?;
        // 1.2 was written for 1.0.
        ensure!(major == 1 && (minor == 0 || minor == 2), "version {major}.{minor} of pcapng is not known");
        self.interfaces.clear();
        Ok(())
    }

    fn add(&mut self, body: &mut Body<'_>) -> anyhow::Result<()> {
        ensure!(self.interfaces.len() < INTERFACES, "a section has more than {INTERFACES} interfaces");
        let ([link, _], snap) = (body.halves()?, body.u32()?);
        let mut of = Interface { link, snap, fcs: 0, resolution: 6, offset: 0 };
        while let Some((code, len, value)) = body.option()? {
            match (code, len) {
                (IF_TSRESOL, 1) => of.resolution = value[0],
                (IF_FCSLEN, 1) => of.fcs = octets(value[0]),
                (IF_TSOFFSET, 8) if body.stream.big => of.offset = i64::from_be_bytes(value),
                (IF_TSOFFSET, 8) => of.offset = i64::from_le_bytes(value),
                _ => {}
            }
        }
        self.interfaces.push(of);
        Ok(())
    }

    fn interface(&self, number: u32) -> anyhow::Result<Interface> {
        let found = self.interfaces.get(number as usize).copied();
        found.with_context(|| {
            format!("the file is damaged there: its interface {number} is not described before it")
        })
    }

    /// `obsolete`: of the kind that the Enhanced Packet Block has replaced.
    fn packet(&self, body: &mut Body<'_>, obsolete: bool, room: &mut [u8]) -> anyhow::Result<(Record, u32)> {
        let number = if obsolete { u32::from(body.halves()?[0]) } else { body.u32()? };
        let interface = self.interface(number)?;
        let units = u64::from(body.u32()?) << 32 | u64::from(body.u32()?);
        let (captured, original) = (body.u32()?, body.u32()?);
        let time = Some(interface.time(units));
        let record = Record { link: interface.link, captured, original, time };
        body.packet(&record, room)?;
        let mut fcs = interface.fcs;
        while let Some((code, len, value)) = body.option()? {
            if (code, len) == (FLAGS, 4) {
                let [a, b, c, d, ..] = value;
                let octets = body.stream.number([a, b, c, d]) >> 5 & 0xf;
                fcs = if octets > 0 { octets as u8 } else { fcs };
            }
        }
        Ok((record, fcs.into()))
    }

    /// It has neither a time nor a captured length.
    fn simple_packet(&self, body: &mut Body<'_>, room: &mut [u8]) -> anyhow::Result<(Record, u32)> {
        let interface = self.interface(0)?;
        let original = body.u32()?;
        let captured = if interface.snap > 0 { original.min(interface.snap) } else { original };
        let record = Record { link: interface.link, captured, original, time: None };
        body.packet(&record, room)?;
        Ok((record, interface.fcs.into()))
    }
}

impl Interface {
    /// Nanoseconds since 1970 of a number of its clock's units.
    fn time(&self, units: u64) -> u64 {
        let (units, power) = (u128::from(units), u32::from(self.resolution & 0x7f));
        let nanos = match self.resolution & 0x80 {
            0 if power <= 9 => units * 10u128.pow(9 - power),
            0 => 10u128.checked_pow(power - 9).map_or(0, |divisor| units / divisor),
            _ => (units * SECOND) >> power,
        };
        let nanos = nanos as i128 + i128::from(self.offset) * SECOND as i128;
        u64::try_from(nanos.max(0)).unwrap_or(u64::MAX)
    }
}

/// Bytes of an FCS. The draft counts it in bits, writers in bytes: more than 15, which flags have no room for, are bits.
fn octets(fcslen: u8) -> u8 {
    if fcslen > 15 { (fcslen / 8).min(15) } else { fcslen }
}

impl Body<'_> {
    fn take(&mut self, bytes: u32) -> anyhow::Result<()> {
        let left = self.left.checked_sub(bytes);
        self.left = left.with_context(|| {
            let left = self.left;
            format!("the file is damaged there: its block has {left} bytes where {bytes} are to come")
        })?;
        Ok(())
    }

    fn u32(&mut self) -> anyhow::Result<u32> {
        self.take(4)?;
        self.stream.u32()
    }

    fn halves(&mut self) -> anyhow::Result<[u16; 2]> {
        self.take(4)?;
        self.stream.halves()
    }

    /// A packet's bytes and what pads them to a multiple of four.
    fn packet(&mut self, record: &Record, room: &mut [u8]) -> anyhow::Result<()> {
        let Some(padded) = record.captured.checked_next_multiple_of(4) else {
            bail!("the file is damaged there: a packet of {} bytes", record.captured)
        };
        self.take(padded)?;
        read::bytes(self.stream, record, room)?;
        self.stream.skip(padded - record.captured)
    }

    /// The next option: its code, its length, and the first bytes of its value. `None` after the last one.
    fn option(&mut self) -> anyhow::Result<Option<(u16, u16, [u8; 8])>> {
        if self.left == 0 {
            return Ok(None);
        }
        let [code, len] = self.halves()?;
        if code == 0 {
            return Ok(None);
        }
        let padded = u32::from(len).next_multiple_of(4);
        self.take(padded)?;
        let mut value = [0; 8];
        let kept = value.len().min(len.into());
        value.get_mut(..kept).map_or(Ok(()), |value| self.stream.exactly(value))?;
        self.stream.skip(padded - kept as u32)?;
        Ok(Some((code, len, value)))
    }
}
