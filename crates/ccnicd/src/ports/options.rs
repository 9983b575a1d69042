//! `--port`: ports that are no programs, as the operator writes them.
//!
//! ```text
//! KIND:NAME[,KEY=VALUE]...
//! ```

use std::str::FromStr;

use anyhow::{Context, bail, ensure};
use ccnic_shm::tun::NAME_MAX;

use super::pcap::PcapOptions;
use super::tap::TapOptions;
use super::xdp::XdpOptions;

/// A port that the operator has asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PortOptions {
    /// `tap:NAME`: a network interface of this kernel.
    Tap(TapOptions),
    /// `xdp:IFACE`: queues of a network interface, without the kernel's network stack.
    Xdp(XdpOptions),
    /// `pcap:FILE`: a file that is replayed, and one that is recorded.
    Pcap(PcapOptions),
}

impl PortOptions {
    /// What it is called in the status and in the log.
    pub fn name(&self) -> String {
        match self {
            PortOptions::Tap(options) => format!("tap:{}", options.name),
            PortOptions::Xdp(options) => format!("xdp:{}", options.name),
            PortOptions::Pcap(options) => format!("pcap:{}", options.name()),
        }
    }

    /// Whether the network interface that it takes is there, or could be made by this process. Changes nothing.
    ///
    /// # Errors
    /// What is missing, and what to do.
    pub(crate) fn check_interface(&self) -> anyhow::Result<()> {
        match self {
            PortOptions::Tap(options) => super::tap::check(options),
            PortOptions::Xdp(options) => super::xdp::check(options),
            PortOptions::Pcap(_) => Ok(()),
        }
    }

    /// The keys that a port of its kind takes.
    pub fn keys(&self) -> &'static str {
        match self {
            PortOptions::Tap(_) => super::tap::options::KEYS,
            PortOptions::Xdp(_) => super::xdp::options::KEYS,
            PortOptions::Pcap(_) => super::pcap::options::KEYS,
        }
    }

    /// The MTU of `other`, if that is all in which it differs: a port can get it while it is open. `None` for any other difference, and for an
    /// MTU that is not said any more.
    pub fn other_mtu(&self, other: &PortOptions) -> Option<u32> {
        match (self, other) {
            (PortOptions::Tap(this), PortOptions::Tap(other)) => {
                let same = TapOptions { mtu: other.mtu, ..this.clone() } == *other;
                other.mtu.filter(|_| same)
            }
            _ => None,
        }
    }
}

impl FromStr for PortOptions {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<PortOptions> {
        match text.split_once(':') {
            Some(("tap", rest)) => Ok(PortOptions::Tap(rest.parse()?)),
            Some(("xdp", rest)) => Ok(PortOptions::Xdp(rest.parse()?)),
            Some(("pcap", rest)) => Ok(PortOptions::Pcap(rest.parse()?)),
            _ => bail!("there is no such kind of port; write tap:NAME, xdp:IFACE or pcap:FILE"),
        }
    }
}

/// Calls `set` with each of `KEY=VALUE[,KEY=VALUE]...`; a key comes once, unless it is one of `repeated`. `keys` says all of them.
pub(super) fn pairs(
    text: Option<&str>,
    keys: &str,
    repeated: &[&str],
    mut set: impl FnMut(&str, &str) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut seen = Vec::new();
    for part in text.into_iter().flat_map(|text| text.split(',')) {
        let (key, value) = part
            .split_once('=')
            .with_context(|| format!("{part:?} is not KEY=VALUE; the keys are {keys}"))?;
        ensure!(repeated.contains(&key) || !seen.contains(&key), "{key} is given twice");
        set(key, value).with_context(|| format!("{key}={value}"))?;
        seen.push(key);
    }
    Ok(())
}

/// `on`, `off`.
pub(super) fn on_or_off(value: &str) -> anyhow::Result<bool> {
    match value {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => bail!("{value:?} is neither on nor off"),
    }
}

/// Whether Linux takes it as the name of an interface (`dev_valid_name`), as it is and not as a pattern.
pub(super) fn check_interface(kind: &str, name: &str) -> anyhow::Result<()> {
    ensure!(!name.is_empty(), "the interface has no name; write {kind}:NAME");
    ensure!(
        name.len() <= NAME_MAX,
        "the name {name:?} has {} bytes, an interface's {NAME_MAX} at most",
        name.len()
    );
    let odd = |c: char| c.is_whitespace() || c.is_control() || matches!(c, '/' | ':' | '%');
    ensure!(
        !name.contains(odd) && name != "." && name != "..",
        "{name:?} is no name of an interface: use letters, digits, - and _"
    );
    Ok(())
}

pub(super) fn number<N>(value: &str, range: std::ops::RangeInclusive<N>) -> anyhow::Result<N>
where
    N: FromStr + PartialOrd + std::fmt::Display,
{
    let number = value.parse().ok().filter(|number| range.contains(number));
    number.with_context(|| format!("{value:?} is no number of {} to {}", range.start(), range.end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_has_a_kind_and_a_name() {
        let port: PortOptions = "tap:tap0,mtu=9000".parse().unwrap();
        assert_eq!(port.name(), "tap:tap0");
        let port: PortOptions = "xdp:eth0,queues=2".parse().unwrap();
        assert_eq!(port.name(), "xdp:eth0");
        let port: PortOptions = "pcap:/tmp/a.pcap,rate=asap".parse().unwrap();
        assert_eq!(port.name(), "pcap:/tmp/a.pcap");
        for text in ["", "tap", "tap0", "dpdk:eth0", ":tap0", "TAP:tap0"] {
            let why = text.parse::<PortOptions>().unwrap_err().to_string();
            assert!(why.contains("tap:NAME"), "{text}: {why}");
        }
    }
}
