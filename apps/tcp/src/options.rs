//! Addresses and limits of a stack.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;
use std::time::Duration;

use ccnic_client::{Config, FlowRule, Pages};

use crate::clock::Clock;
use crate::error::Error;
use crate::local::{is_link_local, link_local};
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
/// options.gateway4 = Some("10.9.0.1".parse()?);
/// options.gateway6 = Some("fe80::1".parse()?);
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
    /// The IPv6 address. A host that has one has a [link-local](Options::link_local) one, too.
    pub ipv6: Option<Network>,
    /// Where IPv4 packets for other networks go: a router in the network of `ipv4`.
    pub gateway4: Option<Ipv4Addr>,
    /// Where IPv6 packets for other networks go: a router in the network of `ipv6`, or at a link-local address.
    pub gateway6: Option<Ipv6Addr>,
    /// Bytes of the largest IP packet that is sent in one piece, from 1280 to 9586 (a packet of the region less the Ethernet header): no more
    /// than the port behind which the other hosts are takes. Longer datagrams, and answers to longer pings, go in fragments.
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
            gateway4: None,
            gateway6: None,
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

    /// Sets the gateways as a command line has them, in any order: at most one of each version of IP.
    ///
    /// ```
    /// use ccnic_tcp::Options;
    ///
    /// let mut options = Options::new("10.9.0.2/24".parse()?);
    /// options.set_gateways(["fe80::1".parse()?, "10.9.0.1".parse()?])?;
    /// assert_eq!(options.gateway4, Some("10.9.0.1".parse()?));
    /// assert_eq!(options.gateway6, Some("fe80::1".parse()?));
    /// assert!(options.set_gateways(["10.9.0.1".parse()?, "10.9.0.3".parse()?]).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::TwoGateways`]. Whether they can be reached is seen when the stack is opened.
    pub fn set_gateways(&mut self, gateways: impl IntoIterator<Item = IpAddr>) -> Result<(), Error> {
        (self.gateway4, self.gateway6) = (None, None);
        for gateway in gateways {
            let before = match gateway {
                IpAddr::V4(address) => self.gateway4.replace(address).map(IpAddr::V4),
                IpAddr::V6(address) => self.gateway6.replace(address).map(IpAddr::V6),
            };
            if let Some(first) = before {
                return Err(Error::TwoGateways { first, second: gateway });
            }
        }
        Ok(())
    }

    /// The link-local address of a host with these options and this Ethernet address: `ipv6` where that is one (of fe80::/64), else fe80:: with the
    /// Ethernet address as modified EUI-64 (RFC 4291 appendix A). `None` for a host without IPv6.
    ///
    /// Others on the link see the Ethernet address anyway, and nobody else sees this one, so there is nothing to hide by an opaque identifier
    /// (RFC 7217), which a host would have to keep in order to have the same address once more.
    ///
    /// ```
    /// use ccnic_tcp::Options;
    ///
    /// let mut options = Options::new("fd09::2/64".parse()?);
    /// assert_eq!(options.link_local([2, 0, 0, 0, 0, 7]), Some("fe80::ff:fe00:7".parse()?));
    /// options.ipv6 = None;
    /// assert_eq!(options.link_local([2, 0, 0, 0, 0, 7]), None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn link_local(&self, mac: [u8; 6]) -> Option<Ipv6Addr> {
        let address = self.ipv6_address()?;
        Some(if is_link_local(address) { address } else { link_local(mac) })
    }

    pub(crate) fn ipv6_address(&self) -> Option<Ipv6Addr> {
        match self.ipv6?.address {
            IpAddr::V6(address) => Some(address),
            IpAddr::V4(_) => None,
        }
    }

    /// Whether the options make sense for a host with this Ethernet address.
    pub(crate) fn check(&self, mac: [u8; 6]) -> Result<(), Error> {
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
        range("kept", self.kept, 0, 1 << 30)?;
        for (field, network, version) in [("ipv4", self.ipv4, 4), ("ipv6", self.ipv6, 6)] {
            if let Some(Network { address, .. }) = network
                && address.is_ipv4() != (version == 4)
            {
                return Err(Error::Version { field, address, version });
            }
        }
        if let Some(gateway) = self.gateway4 {
            self.check_gateway("gateway4", gateway.into(), ("ipv4", self.ipv4), mac)?;
        }
        if let Some(gateway) = self.gateway6 {
            self.check_gateway("gateway6", gateway.into(), ("ipv6", self.ipv6), mac)?;
        }
        Ok(())
    }

    fn check_gateway(
        &self,
        field: &'static str,
        gateway: IpAddr,
        (own, network): (&'static str, Option<Network>),
        mac: [u8; 6],
    ) -> Result<(), Error> {
        let refuse = |why: String| Err(Error::Gateway { field, gateway, why });
        let of_the_link = |address| matches!(address, IpAddr::V6(address) if is_link_local(address));
        let Some(network) = network else {
            return refuse(format!("and there is no {own} address; give one, or leave this gateway out"));
        };
        let Network { address, prefix } = network;
        if gateway.is_unspecified() || gateway.is_multicast() || gateway.is_loopback() {
            return refuse("which is not the address of a router; choose one, or leave it out".to_owned());
        }
        if gateway == address || Some(gateway) == self.link_local(mac).map(IpAddr::V6) {
            return refuse("which is the host's own address; choose that of a router".to_owned());
        }
        if of_the_link(address) {
            return refuse(format!(
                "but routers pass on nothing from {address}, which is link-local; set {own} to another address, or leave {field} out"
            ));
        }
        if !network.contains(gateway) && !of_the_link(gateway) {
            let or = if gateway.is_ipv6() { ", or its link-local address" } else { "" };
            return refuse(format!(
                "which is not in the network {address}/{prefix}; choose the router's address there{or}"
            ));
        }
        Ok(())
    }

    /// The neighbour to which packets for `to` go. The link-local network is that of all hosts with IPv6; nothing else of fe80::/10 goes to a
    /// gateway, which would not pass it on (RFC 4291 section 2.5.6).
    pub(crate) fn next_hop(&self, to: IpAddr) -> Option<IpAddr> {
        let near = [self.ipv4, self.ipv6].into_iter().flatten().any(|network| network.contains(to));
        match to {
            _ if near => Some(to),
            IpAddr::V4(_) => self.gateway4.map(IpAddr::V4),
            IpAddr::V6(address) if is_link_local(address) => self.ipv6.map(|_| to),
            IpAddr::V6(address) if address.is_unicast_link_local() => None,
            IpAddr::V6(_) => self.gateway6.map(IpAddr::V6),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]
    use super::*;

    const MAC: [u8; 6] = [2, 9, 9, 9, 9, 9];

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
        options.set_gateways([gateway]).unwrap();
        assert_eq!((options.next_hop(far), options.next_hop(gateway)), (Some(gateway), Some(gateway)));
        assert_eq!(options.next_hop("fd00::1".parse().unwrap()), None);
        options.mtu = 100;
        assert_eq!(options.check(MAC).unwrap_err().to_string(), "mtu is 100; choose 1280 to 9586");
    }

    #[test]
    fn each_version_of_ip_has_its_gateway() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let mut options = Options::new("10.9.0.2/24".parse().unwrap());
        assert_eq!(options.next_hop(ip("fe80::1")), None, "without IPv6 there is no such network");
        options.ipv6 = Some("fd09::2/64".parse().unwrap());
        options.set_gateways([ip("fe80::1"), ip("10.9.0.1")]).unwrap();
        options.check(MAC).unwrap();
        for (to, hop) in [
            ("10.9.0.7", Some("10.9.0.7")),
            ("10.8.0.7", Some("10.9.0.1")),
            ("fd09::7", Some("fd09::7")),
            ("2001:db8::7", Some("fe80::1")),
            ("fe80::7", Some("fe80::7")),
            ("fe80:0:0:1::7", None),
            ("febf::7", None),
        ] {
            assert_eq!(options.next_hop(ip(to)), hop.map(ip), "to {to}");
        }
        options.set_gateways([]).unwrap();
        assert_eq!([options.next_hop(ip("10.8.0.7")), options.next_hop(ip("2001:db8::7"))], [None; 2]);
    }

    /// Each error names what is wrong and what to do.
    #[test]
    fn gateways_that_cannot_be_reached_are_refused() {
        let refusal = |networks: [Option<&str>; 2], gateways: &[&str]| {
            let [ipv4, ipv6] = networks.map(|text| text.map(|text| text.parse::<Network>().unwrap()));
            let mut options = Options::new(ipv4.or(ipv6).unwrap());
            (options.ipv4, options.ipv6) = (ipv4, ipv6);
            let gateways = gateways.iter().map(|text| text.parse().unwrap());
            options.set_gateways(gateways).and_then(|()| options.check(MAC)).map_err(|e| e.to_string()).err()
        };
        let (v4, v6) = ([Some("10.9.0.2/24"), None], [None, Some("fd09::2/64")]);
        let both = [v4[0], v6[1]];
        assert_eq!(refusal(both, &["10.9.0.1", "fd09::1"]), None);
        assert_eq!(refusal(v6, &["fe80::1"]), None);
        for (networks, gateways, says) in [
            (
                both,
                &["10.8.0.1"][..],
                "gateway4 is 10.8.0.1, which is not in the network 10.9.0.2/24; choose the router's address there",
            ),
            (
                both,
                &["fd08::1"],
                "gateway6 is fd08::1, which is not in the network fd09::2/64; choose the router's address there, or its link-local address",
            ),
            (both, &["fe80:0:0:1::1"], "gateway6 is fe80:0:0:1::1, which is not in"),
            (
                v6,
                &["10.9.0.1"],
                "gateway4 is 10.9.0.1, and there is no ipv4 address; give one, or leave this gateway out",
            ),
            (
                v4,
                &["fe80::1"],
                "gateway6 is fe80::1, and there is no ipv6 address; give one, or leave this gateway out",
            ),
            (both, &["10.9.0.1", "fd09::1", "10.9.0.1"], "10.9.0.1 and 10.9.0.1 are gateways"),
            (
                both,
                &["fd09::1", "fe80::1"],
                "fd09::1 and fe80::1 are gateways of the same version of IP; leave one of them out",
            ),
            (
                both,
                &["10.9.0.2"],
                "gateway4 is 10.9.0.2, which is the host's own address; choose that of a router",
            ),
            (v6, &["fd09::2"], "gateway6 is fd09::2, which is the host's own"),
            (v6, &["fe80::9:9ff:fe09:909"], "gateway6 is fe80::9:9ff:fe09:909, which is the host's own"),
            (v6, &["ff02::2"], "gateway6 is ff02::2, which is not the address of a router"),
            (v4, &["0.0.0.0"], "gateway4 is 0.0.0.0, which is not the address of a router"),
            (
                [None, Some("fe80::2/64")],
                &["fe80::1"],
                "gateway6 is fe80::1, but routers pass on nothing from fe80::2",
            ),
            (
                [None, Some("10.9.0.2/24")],
                &[],
                "ipv6 is 10.9.0.2, which is no IPv6 address; choose one, or leave it out",
            ),
            ([Some("fd09::2/64"), None], &[], "ipv4 is fd09::2, which is no IPv4 address"),
        ] {
            let refusal = refusal(networks, gateways);
            assert!(
                refusal.as_ref().is_some_and(|text| text.starts_with(says)),
                "{refusal:?} instead of {says}"
            );
        }
    }
}
