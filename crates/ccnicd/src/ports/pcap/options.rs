//! What can be said of a port of files: `FILE[,KEY=VALUE]...`.

use std::path::PathBuf;
use std::str::FromStr;

use anyhow::{Context, bail, ensure};

use crate::ports::options::{number, pairs};

pub(crate) const KEYS: &str = "record, rate, loop, start";

/// A port of files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PcapOptions {
    /// Whose packets come from the port.
    pub replay: Option<PathBuf>,
    /// Where packets to the port go.
    pub record: Option<PathBuf>,
    /// How fast packets come.
    pub rate: Rate,
    /// How often the file is replayed; 0: without end.
    pub times: u32,
    /// When the first packet comes.
    pub start: Start,
}

/// How fast packets come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Rate {
    /// As their timestamps have it.
    #[default]
    Recorded,
    /// As fast as the switch takes them.
    Asap,
    /// So many in a second.
    Packets(u32),
}

/// When the first packet comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Start {
    /// When the port is opened.
    #[default]
    Now,
    /// When the first packet is sent to the port.
    Packet,
}

impl PcapOptions {
    /// A port that replays a file once, at its own speed.
    pub fn new(replay: Option<PathBuf>) -> PcapOptions {
        PcapOptions { replay, record: None, rate: Rate::Recorded, times: 1, start: Start::Now }
    }

    /// What the port is called behind `pcap:`.
    pub fn name(&self) -> String {
        match (&self.replay, &self.record) {
            (Some(file), _) => file.display().to_string(),
            (None, Some(file)) => format!("record={}", file.display()),
            (None, None) => String::new(),
        }
    }

    fn set(&mut self, key: &str, value: &str) -> anyhow::Result<()> {
        match key {
            "record" => {
                ensure!(!value.is_empty(), "the file has no name");
                self.record = Some(value.into());
            }
            "rate" => {
                self.rate = match value {
                    "recorded" => Rate::Recorded,
                    "asap" => Rate::Asap,
                    _ => Rate::Packets(
                        number(value, 1..=100_000_000)
                            .context("rate is recorded, asap, or packets in a second")?,
                    ),
                }
            }
            "loop" => self.times = number(value, 0..=u32::MAX)?,
            "start" => {
                self.start = match value {
                    "now" => Start::Now,
                    "packet" => Start::Packet,
                    _ => bail!("{value:?} is neither now nor packet"),
                }
            }
            _ => bail!("there is no such key; the keys are {KEYS}"),
        }
        Ok(())
    }
}

impl FromStr for PcapOptions {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<PcapOptions> {
        // A port that only records has no file to begin with.
        let (file, rest) = match text.split_once(',') {
            _ if text.starts_with("record=") => (None, Some(text)),
            Some((file, rest)) => (Some(file), Some(rest)),
            None => (Some(text), None),
        };
        ensure!(
            file.is_none_or(|file| !file.is_empty()),
            "there is no file; write pcap:FILE, or pcap:record=FILE to record only"
        );
        let mut options = PcapOptions::new(file.map(PathBuf::from));
        pairs(rest, KEYS, &[], |key, value| options.set(key, value))?;
        let replays = options.rate != Rate::Recorded || options.times != 1 || options.start != Start::Now;
        ensure!(
            options.replay.is_some() || !replays,
            "rate, loop and start are of a file that is replayed: write pcap:FILE,..."
        );
        ensure!(
            options.replay.is_none() || options.replay != options.record,
            "a file is replayed and recorded at once: name another one"
        );
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_that_can_be_said() {
        let options: PcapOptions = "/tmp/a.pcap".parse().unwrap();
        assert_eq!(
            (&options, options.name().as_str()),
            (&PcapOptions::new(Some("/tmp/a.pcap".into())), "/tmp/a.pcap")
        );
        let options: PcapOptions = "a.pcap,record=b.pcapng,rate=1000,loop=0,start=packet".parse().unwrap();
        let expected = PcapOptions {
            replay: Some("a.pcap".into()),
            record: Some("b.pcapng".into()),
            rate: Rate::Packets(1000),
            times: 0,
            start: Start::Packet,
        };
        assert_eq!(options, expected);
        assert_eq!("a,rate=asap".parse::<PcapOptions>().unwrap().rate, Rate::Asap);
        let options: PcapOptions = "record=b.pcapng".parse().unwrap();
        assert_eq!((options.replay.clone(), options.record.clone()), (None, Some("b.pcapng".into())));
        assert_eq!(options.name(), "record=b.pcapng");
    }

    #[test]
    fn what_is_wrong_is_said_with_a_remedy() {
        for (text, expected) in [
            ("", "pcap:record=FILE to record only"),
            (",rate=asap", "there is no file"),
            ("a,rate=0", "recorded, asap, or packets in a second"),
            ("a,rate=fast", "recorded, asap, or packets in a second"),
            ("a,loop=-1", "0 to 4294967295"),
            ("a,start=1", "neither now nor packet"),
            ("a,record=", "no name"),
            ("a,record=a", "name another one"),
            ("a,speed=1", "the keys are record, rate"),
            ("record=b,rate=asap", "of a file that is replayed"),
        ] {
            let why = format!("{:#}", text.parse::<PcapOptions>().unwrap_err());
            assert!(why.contains(expected), "{text}: {why}");
        }
    }
}
