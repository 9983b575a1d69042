//! What can be said of an AF_XDP port: `IFACE[,KEY=VALUE]...`.

use std::path::PathBuf;
use std::str::FromStr;

use anyhow::{bail, ensure};

use crate::ports::options::{check_interface, number, pairs};

/// The most queues: each has a socket, and memory of its own.
pub(super) const QUEUES_MAX: u16 = 32;
/// Entries of a ring. All of a port's memory has less than 4 GiB.
pub(super) const RINGS: std::ops::RangeInclusive<u32> = 64..=4096;

pub(crate) const KEYS: &str = "queues, mode, zero-copy, ring, checksum, helper";

/// An AF_XDP port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct XdpOptions {
    /// The interface's name.
    pub name: String,
    /// The first so many of its queues; `None`: all.
    pub queues: Option<u16>,
    /// Where packets are taken from the kernel.
    pub mode: Mode,
    /// Whether the driver uses the port's memory itself.
    pub zero_copy: Choice,
    /// Entries of each ring.
    pub ring: u32,
    /// Whether checksums that the sender has left to a NIC are filled in.
    pub fill: Choice,
    /// The socket of a [helper](super::helper), which has opened the interface's queues as it was told and hands them over. `None`: the
    /// daemon opens them itself.
    pub helper: Option<PathBuf>,
}

/// Where packets are taken from the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// Native where the driver has it, else generic.
    #[default]
    Auto,
    /// By the driver.
    Native,
    /// By the network stack: any driver, and slower.
    Generic,
}

/// Something that is had where there is reason for it, or always, or never.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Choice {
    /// As the interface suggests.
    #[default]
    Auto,
    /// Always: where it cannot be had, the port is not opened.
    On,
    /// Never.
    Off,
}

impl XdpOptions {
    /// A port of all the interface's queues, as it suggests.
    pub fn new(name: &str) -> XdpOptions {
        XdpOptions {
            name: name.to_owned(),
            queues: None,
            mode: Mode::Auto,
            zero_copy: Choice::Auto,
            ring: 1024,
            fill: Choice::Auto,
            helper: None,
        }
    }

    /// As one says it to a helper, which knows neither other helpers nor what becomes of the packets.
    ///
    /// # Errors
    /// What is wrong, and what would be right.
    pub fn for_helper(text: &str) -> anyhow::Result<XdpOptions> {
        let options: XdpOptions = text.parse()?;
        ensure!(options.helper.is_none(), "helper: this is one; leave it out");
        ensure!(options.fill == Choice::Auto, "checksum: say it to ccnicd, which sees the packets");
        Ok(options)
    }

    fn set(&mut self, key: &str, value: &str) -> anyhow::Result<()> {
        match key {
            "queues" => self.queues = Some(number(value, 1..=QUEUES_MAX)?),
            "ring" => {
                self.ring = number(value, RINGS)?;
                ensure!(self.ring.is_power_of_two(), "{value} is no power of two, such as 1024");
            }
            "mode" => {
                self.mode = match value {
                    "auto" => Mode::Auto,
                    "native" => Mode::Native,
                    "generic" => Mode::Generic,
                    _ => bail!("{value:?} is none of auto, native, generic"),
                }
            }
            "zero-copy" => self.zero_copy = choice(value, ["auto", "on", "off"])?,
            "checksum" => self.fill = choice(value, ["auto", "fill", "keep"])?,
            "helper" => {
                ensure!(!value.is_empty(), "write the path of its socket");
                self.helper = Some(value.into());
            }
            _ => bail!("there is no such key; the keys are {KEYS}"),
        }
        Ok(())
    }
}

fn choice(value: &str, names: [&str; 3]) -> anyhow::Result<Choice> {
    let choices = [Choice::Auto, Choice::On, Choice::Off];
    let found = names.iter().zip(choices).find(|(name, _)| **name == value);
    match found {
        Some((_, choice)) => Ok(choice),
        None => bail!("{value:?} is none of {}", names.join(", ")),
    }
}

impl FromStr for XdpOptions {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<XdpOptions> {
        let (name, rest) = text.split_once(',').map_or((text, None), |(name, rest)| (name, Some(rest)));
        check_interface("xdp", name)?;
        let mut options = XdpOptions::new(name);
        pairs(rest, KEYS, &[], |key, value| options.set(key, value))?;
        ensure!(
            !(options.mode == Mode::Generic && options.zero_copy == Choice::On),
            "mode=generic has no zero-copy: leave one of them out"
        );
        let bare = XdpOptions { fill: options.fill, helper: options.helper.clone(), ..XdpOptions::new(name) };
        ensure!(
            options.helper.is_none() || options == bare,
            "a helper decides queues, mode, zero-copy and ring: say them to it (ccnicd-xdp --interface {text})",
            text = text.split(',').filter(|pair| !pair.starts_with("helper=")).collect::<Vec<_>>().join(",")
        );
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_that_can_be_said() {
        assert_eq!("eth0".parse::<XdpOptions>().unwrap(), XdpOptions::new("eth0"));
        let text = "enp3s0f0,queues=4,mode=native,zero-copy=on,ring=2048,checksum=keep";
        let expected = XdpOptions {
            name: "enp3s0f0".to_owned(),
            queues: Some(4),
            mode: Mode::Native,
            zero_copy: Choice::On,
            ring: 2048,
            fill: Choice::Off,
            helper: None,
        };
        assert_eq!(text.parse::<XdpOptions>().unwrap(), expected);
        let options: XdpOptions = "v0,mode=auto,zero-copy=auto,checksum=fill".parse().unwrap();
        assert_eq!(options, XdpOptions { fill: Choice::On, ..XdpOptions::new("v0") });
        let options: XdpOptions = "v0,checksum=fill,helper=/run/x.sock".parse().unwrap();
        let helper = Some("/run/x.sock".into());
        assert_eq!(options, XdpOptions { fill: Choice::On, helper, ..XdpOptions::new("v0") });
    }

    #[test]
    fn what_a_helper_and_its_daemon_are_told_apart() {
        let told = XdpOptions::for_helper("v0,queues=2,ring=64").unwrap();
        assert_eq!(told, XdpOptions { queues: Some(2), ring: 64, ..XdpOptions::new("v0") });
        for (text, expected) in [("v0,helper=/x", "leave it out"), ("v0,checksum=fill", "say it to ccnicd")] {
            let why = XdpOptions::for_helper(text).unwrap_err().to_string();
            assert!(why.contains(expected), "{text}: {why}");
        }
    }

    #[test]
    fn what_is_wrong_is_said_with_a_remedy() {
        for (text, expected) in [
            ("", "write xdp:NAME"),
            ("an-interface-too-long", "at most"),
            ("v 0", "no name of an interface"),
            ("v0,queues", "KEY=VALUE"),
            ("v0,queue=1", "the keys are queues, mode"),
            ("v0,queues=0", "1 to 32"),
            ("v0,queues=1,queues=1", "twice"),
            ("v0,ring=63", "64 to 4096"),
            ("v0,ring=100", "power of two"),
            ("v0,mode=skb", "auto, native, generic"),
            ("v0,zero-copy=yes", "auto, on, off"),
            ("v0,checksum=on", "auto, fill, keep"),
            ("v0,mode=generic,zero-copy=on", "leave one of them out"),
            ("v0,helper=", "the path of its socket"),
            ("v0,queues=2,helper=/x,ring=64", "ccnicd-xdp --interface v0,queues=2,ring=64"),
        ] {
            let why = format!("{:#}", text.parse::<XdpOptions>().unwrap_err());
            assert!(why.contains(expected), "{text}: {why}");
        }
    }
}
