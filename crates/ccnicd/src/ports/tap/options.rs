//! What can be said of a TAP port: `NAME[,KEY=VALUE]...`.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, bail, ensure};

use crate::ports::options::{check_interface, number, on_or_off, pairs};

/// MTUs of a TAP device (`ETH_MIN_MTU`, `ETH_MAX_MTU` less an Ethernet header).
const MTUS: std::ops::RangeInclusive<u32> = 68..=65_521;
/// The most queues: each is a descriptor that is read in its turn.
const QUEUES_MAX: u16 = 16;

pub(crate) const KEYS: &str = "mtu, address, mac, queues, offload, netns";

/// A TAP port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TapOptions {
    /// The interface's name.
    pub name: String,
    /// Its MTU, without Ethernet header; as the interface has it where this says nothing.
    pub mtu: Option<u32>,
    /// Addresses that it gets, each with the length of its prefix.
    pub addresses: Vec<(IpAddr, u8)>,
    /// Its own MAC address, the kernel's.
    pub mac: Option<[u8; 6]>,
    /// Queues, at least one.
    pub queues: u16,
    /// Packets may come from the kernel without checksum and as super-packets.
    pub offload: bool,
    /// The network namespace that the interface is in; none: the daemon's.
    pub netns: Option<PathBuf>,
}

impl TapOptions {
    /// A TAP port of one queue with offloads, which leaves the rest as the interface has it.
    pub fn new(name: &str) -> TapOptions {
        let (mtu, mac, netns) = (None, None, None);
        TapOptions { name: name.to_owned(), mtu, addresses: Vec::new(), mac, queues: 1, offload: true, netns }
    }

    fn set(&mut self, key: &str, value: &str) -> anyhow::Result<()> {
        match key {
            "mtu" => self.mtu = Some(number(value, MTUS)?),
            "address" => self.addresses.push(address(value)?),
            "mac" => self.mac = Some(mac(value)?),
            "queues" => self.queues = number(value, 1..=QUEUES_MAX)?,
            "offload" => self.offload = on_or_off(value)?,
            "netns" => self.netns = Some(netns(value)?),
            _ => bail!("there is no such key; the keys are {KEYS}"),
        }
        Ok(())
    }
}

impl FromStr for TapOptions {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<TapOptions> {
        let (name, rest) = text.split_once(',').map_or((text, None), |(name, rest)| (name, Some(rest)));
        check_interface("tap", name)?;
        let mut options = TapOptions::new(name);
        pairs(rest, KEYS, &["address"], |key, value| options.set(key, value))?;
        Ok(options)
    }
}

/// `/run/netns/pod`.
fn netns(value: &str) -> anyhow::Result<PathBuf> {
    let path = Path::new(value);
    ensure!(path.is_absolute(), "{value:?} is no path of a network namespace, such as /run/netns/{value}");
    Ok(path.to_owned())
}

/// `10.0.0.1/24`, `fd00::1/64`.
fn address(value: &str) -> anyhow::Result<(IpAddr, u8)> {
    let wrong = || format!("{value:?} is no address with prefix, such as 10.0.0.1/24 or fd00::1/64");
    let (address, prefix) = value.split_once('/').with_context(wrong)?;
    let address: IpAddr = address.parse().ok().with_context(wrong)?;
    let bits = if address.is_ipv4() { 32 } else { 128 };
    let prefix = number(prefix, 0..=bits).with_context(wrong)?;
    ensure!(!address.is_unspecified() && !address.is_multicast(), "{address} is the address of no host");
    Ok((address, prefix))
}

/// `02:00:00:00:00:01`.
fn mac(value: &str) -> anyhow::Result<[u8; 6]> {
    let wrong = || format!("{value:?} is no MAC address, such as 02:00:00:00:00:01");
    let byte = |part: &str| u8::from_str_radix(part, 16).ok().filter(|_| part.len() == 2);
    let bytes: Option<Vec<u8>> = value.split(':').map(byte).collect();
    let mac: [u8; 6] = bytes.and_then(|bytes| bytes.try_into().ok()).with_context(wrong)?;
    ensure!(
        mac[0] & 1 == 0 && mac != [0; 6],
        "{value} is the address of a group or of nobody: an interface needs its own"
    );
    Ok(mac)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_alone_leaves_the_rest_as_it_is() {
        assert_eq!("tap0".parse::<TapOptions>().unwrap(), TapOptions::new("tap0"));
    }

    #[test]
    fn everything_that_can_be_said() {
        let text = "vm-1_a.b,mtu=9000,address=10.0.0.1/24,address=fd00::1/64,mac=02:00:00:00:00:fE,queues=4,offload=off,netns=/run/netns/pod";
        let options: TapOptions = text.parse().unwrap();
        assert_eq!(
            options,
            TapOptions {
                name: "vm-1_a.b".to_owned(),
                mtu: Some(9000),
                addresses: vec![("10.0.0.1".parse().unwrap(), 24), ("fd00::1".parse().unwrap(), 64)],
                mac: Some([2, 0, 0, 0, 0, 0xfe]),
                queues: 4,
                offload: false,
                netns: Some("/run/netns/pod".into()),
            }
        );
    }

    #[test]
    fn what_is_wrong_is_named_with_the_remedy() {
        for (text, expected) in [
            ("", "write tap:NAME"),
            (",mtu=1500", "write tap:NAME"),
            ("a-name-of-16-byt", "15 at most"),
            ("a/b", "use letters"),
            ("tap%d", "use letters"),
            ("..", "use letters"),
            ("a b", "use letters"),
            ("t,mtu", "not KEY=VALUE"),
            ("t,", "not KEY=VALUE"),
            ("t,speed=1", "the keys are mtu"),
            ("t,mtu=67", "68 to 65521"),
            ("t,mtu=65522", "68 to 65521"),
            ("t,mtu=1500,mtu=1500", "twice"),
            ("t,queues=0", "1 to 16"),
            ("t,queues=17", "1 to 16"),
            ("t,offload=yes", "neither on nor off"),
            ("t,netns=pod", "such as /run/netns/pod"),
            ("t,address=10.0.0.1", "such as 10.0.0.1/24"),
            ("t,address=10.0.0.1/33", "0 to 32"),
            ("t,address=fd00::1/129", "0 to 128"),
            ("t,address=host/24", "such as 10.0.0.1/24"),
            ("t,address=224.0.0.1/24", "of no host"),
            ("t,address=::/64", "of no host"),
            ("t,mac=02:00:00:00:00", "such as 02:00"),
            ("t,mac=02:00:00:00:00:1", "such as 02:00"),
            ("t,mac=02:00:00:00:00:0g", "such as 02:00"),
            ("t,mac=01:00:5e:00:00:01", "of a group"),
            ("t,mac=00:00:00:00:00:00", "of nobody"),
        ] {
            let why = format!("{:#}", text.parse::<TapOptions>().unwrap_err());
            assert!(why.contains(expected), "{text}: {why}");
        }
    }
}
