//! The bytes of a file from its beginning to its end, in the byte order that it names.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};

use anyhow::{Context, bail};

pub(super) const ENDS: &str = "the file ends in the middle of it";

/// A file that is read once, and where in it. What is not needed is not read.
pub(super) struct Stream {
    file: BufReader<File>,
    /// Bytes that are behind.
    pub(super) at: u64,
    /// Its numbers are big-endian.
    pub(super) big: bool,
}

impl Stream {
    pub(super) fn new(file: File) -> Stream {
        Stream { file: BufReader::with_capacity(64 << 10, file), at: 0, big: false }
    }

    /// The bytes that come next, as many as have been read ahead; none at the end.
    pub(super) fn ahead(&mut self) -> anyhow::Result<&[u8]> {
        self.file.fill_buf().context("could not read the file")
    }

    /// # Errors
    /// When the file ends before `to` is full.
    pub(super) fn exactly(&mut self, to: &mut [u8]) -> anyhow::Result<()> {
        match self.file.read_exact(to) {
            Ok(()) => self.at += to.len() as u64,
            Err(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => bail!(ENDS),
            Err(e) => return Err(e).context("could not read the file"),
        }
        Ok(())
    }

    /// # Errors
    /// When the file ends before.
    pub(super) fn skip(&mut self, bytes: u32) -> anyhow::Result<()> {
        self.file.seek_relative(bytes.into()).context("could not read the file")?;
        self.at += u64::from(bytes);
        // Seeking beyond the end is no error; the file may have grown since it was opened.
        let beyond = self.file.buffer().is_empty()
            && self.at > self.file.get_ref().metadata().context("could not read the file")?.len();
        anyhow::ensure!(!beyond, ENDS);
        Ok(())
    }

    pub(super) fn array<const N: usize>(&mut self) -> anyhow::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.exactly(&mut bytes)?;
        Ok(bytes)
    }

    pub(super) fn u32(&mut self) -> anyhow::Result<u32> {
        let bytes = self.array()?;
        Ok(self.number(bytes))
    }

    /// A number as the file has it.
    pub(super) fn number(&self, bytes: [u8; 4]) -> u32 {
        if self.big { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
    }

    /// The two numbers of 16 bits that lie there.
    pub(super) fn halves(&mut self) -> anyhow::Result<[u16; 2]> {
        let word = self.u32()?;
        let (high, low) = ((word >> 16) as u16, word as u16);
        Ok(if self.big { [high, low] } else { [low, high] })
    }
}
