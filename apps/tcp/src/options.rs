//! Addresses and limits of a stack.

use std::net::IpAddr;
use std::str::FromStr;
use std::time::Duration;

use ccnic_client::{Config, FlowRule, Pages};

use crate::clock::Clock;
use crate::error::Error;
use crate::udp::ETHERNET;

/// An address of this host and the length of its network's prefix: `10.9.0.2/24`.
///
/// ```
/// use ccnic_tcp::Network;
///
/// let network: Network = "10.9.0.2/24".parse()?;
/// assert!(network.contains("10.9.0.77".parse()?) && !network.contains("10.9.1.2".parse()?));
/// assert!("10.9.0.2".parse::<Network>().is_err()); // without a prefix
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    /// The address of this host.
    pub address: IpAddr,
    /// Bits of the prefix.
    pub prefix: u8,
}

impl Network {
    /// True when the network has this address. Example: [`Network`].
    pub fn contains(&self, address: IpAddr) -> bool {
        let prefix = u32::from(self.prefix);
        match (self.address, address) {
            (IpAddr::V4(ours), IpAddr::V4(other)) => {
                let differ = u32::from(ours) ^ u32::from(other);
                differ.checked_shr(32 - prefix).unwrap_or(0) == 0
            }
            (IpAddr::V6(ours), IpAddr::V6(other)) => {
                let differ = u128::from(ours) ^ u128::from(other);
                differ.checked_shr(128 - prefix).unwrap_or(0) == 0
            }
            _ => false,
        }
    }
}

impl FromStr for Network {
    type Err = Error;

    fn from_str(text: &str) -> Result<Network, Error> {
        let wrong = || Error::Address { text: text.to_owned() };
        let (address, prefix) = text.split_once('/').ok_or_else(wrong)?;
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let prefix: u8 = prefix.parse().map_err(|_| wrong())?;
        if prefix > if address.is_ipv4() { 32 } else { 128 } {
            return Err(wrong());
        }
        if address.is_unspecified() || address.is_multicast() {
            return Err(Error::NotUnicast { address });
        }
        Ok(Network { address, prefix })
    }
}

/// How a stack is opened. All fields may be set; [`Options::new`] has the defaults.
///
/// ```
/// use ccnic_tcp::Options;
///
/// let mut options = Options::new("10.9.0.2/24".parse()?);
/// options.ipv6 = Some("fd09::2/64".parse()?);
/// options.gateway = Some("10.9.0.1".parse()?);
/// options.receive_buffer = 256 << 10;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Options {
    /// The name under which the NIC's status shows the program.
    pub name: Option<String>,
    /// The Ethernet address; without one the stack makes a locally administered one of its IP addresses, which the next program with these has, too.
    pub mac: Option<[u8; 6]>,
    /// The IPv4 address.
    pub ipv4: Option<Network>,
    /// The IPv6 address.
    pub ipv6: Option<Network>,
    /// Where packets for other networks go: an IPv4 or an IPv6 address.
    pub gateway: Option<IpAddr>,
    /// Bytes of the largest IP packet, from 1280 to 9586 (a packet of the region less the Ethernet header).
    pub mtu: usize,
    /// Bytes that a connection keeps for the program to read, which is the window that its peer gets: 4 KiB to 1 GiB.
    pub receive_buffer: usize,
    /// Bytes that a connection keeps until its peer has acknowledged them: 4 KiB to 1 GiB.
    pub send_buffer: usize,
    /// Connections at the same time in all states, on each stack.
    pub connections: usize,
    /// Connections that are kept in TIME-WAIT, on each stack; the oldest make room for others.
    pub time_wait: usize,
    /// How long a connection may take to be established, from either side, and to be closed once the program has closed it.
    pub handshake: Duration,
    /// How long what was sent may stay without an answer of the peer before the connection is given up.
    pub timeout: Duration,
    /// How long a program polls without a frame before [`Stack::wait_when_idle`](crate::Stack::wait_when_idle) sleeps: less than to be woken
    /// takes would cost more than it saves. Zero: it never sleeps.
    pub sleep_after: Duration,
    /// When the NIC ends, go on with the next one at the same socket. False: [`Stack::wait`](crate::Stack::wait) returns an error then.
    pub reconnect: bool,
    /// False: short segments are sent at once (`TCP_NODELAY`), which is the default here. True: Nagle's algorithm.
    pub nagle: bool,
    /// The region: rings, buffers, design. Its `queues` and `mtu` are set by the stack.
    pub config: Config,
    /// Pages of the region.
    pub pages: Pages,
    /// Rules that bring packets to queues, before they are spread by their addresses.
    pub flows: Vec<FlowRule>,
    /// Bytes of [kept memory](crate::Stack::kept) of each stack, in the region beside the buffers of `config`: a multiple of 4096. Zero: none.
    pub kept: usize,
    /// Where the time is read.
    pub clock: Clock,
}

impl Options {
    /// One address, IPv4 or IPv6, and the defaults. Example: [`Options`].
    pub fn new(network: Network) -> Options {
        let (ipv4, ipv6) =
            if network.address.is_ipv4() { (Some(network), None) } else { (None, Some(network)) };
        Options {
            name: None,
            mac: None,
            ipv4,
            ipv6,
            gateway: None,
            mtu: 1500,
            receive_buffer: 64 << 10,
            send_buffer: 64 << 10,
            connections: 16 << 10,
            time_wait: 1024,
            handshake: Duration::from_secs(10),
            timeout: Duration::from_secs(60),
            sleep_after: Duration::from_micros(50),
            reconnect: true,
            nagle: false,
            config: Config { buffers: 4096, ..Config::default() },
            pages: Pages::Auto,
            flows: Vec::new(),
            kept: 0,
            clock: Clock::System,
        }
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        let range = |field, value, least, most| {
            if (least..=most).contains(&value) {
                Ok(())
            } else {
                Err(Error::Range { field, value, least, most })
            }
        };
        range("mtu", self.mtu, 1280, usize::from(Config::MAX_MTU) - ETHERNET)?;
        range("receive_buffer", self.receive_buffer, 4 << 10, 1 << 30)?;
        range("send_buffer", self.send_buffer, 4 << 10, 1 << 30)?;
        range("connections", self.connections, 1, 1 << 24)?;
        range("time_wait", self.time_wait, 1, 1 << 24)?;
        range("kept", self.kept, 0, 1 << 30)
    }

    /// The neighbour to which packets for `to` go.
    pub(crate) fn next_hop(&self, to: IpAddr) -> Option<IpAddr> {
        let near = [self.ipv4, self.ipv6].into_iter().flatten().any(|network| network.contains(to));
        if near { Some(to) } else { self.gateway.filter(|gateway| gateway.is_ipv4() == to.is_ipv4()) }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]
    use super::*;

    #[test]
    fn networks_contain_their_addresses() {
        let network: Network = "10.9.1.2/23".parse().unwrap();
        let contains = |text: &str| network.contains(text.parse().unwrap());
        assert!(contains("10.9.0.1") && contains("10.9.1.255"));
        assert!(!contains("10.9.2.1") && !contains("::1"));
        let all: Network = "fd09::2/0".parse().unwrap();
        assert!(all.contains("::1".parse().unwrap()));
        let one: Network = "fd09::2/128".parse().unwrap();
        assert!(!one.contains("fd09::3".parse().unwrap()));
        for wrong in ["10.9.0.2", "10.9.0.2/33", "x/24", "224.0.0.1/8", "0.0.0.0/0"] {
            assert!(wrong.parse::<Network>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn other_networks_are_behind_the_gateway() {
        let mut options = Options::new("10.9.0.2/24".parse().unwrap());
        let far = "10.8.0.1".parse().unwrap();
        assert_eq!(options.next_hop(far), None);
        let gateway: IpAddr = "10.9.0.1".parse().unwrap();
        options.gateway = Some(gateway);
        assert_eq!((options.next_hop(far), options.next_hop(gateway)), (Some(gateway), Some(gateway)));
        assert_eq!(options.next_hop("fd00::1".parse().unwrap()), None);
        options.mtu = 100;
        assert_eq!(options.check().unwrap_err().to_string(), "mtu is 100; choose 1280 to 9586");
    }
}
