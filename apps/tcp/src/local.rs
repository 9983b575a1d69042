//! The addresses of this host: which of them a packet is for, and which one it is sent from.
//!
//! At most one of each kind: of IPv4, of IPv6, and the link-local one that each host with IPv6 has (RFC 4291 section 2.8).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::options::{Network, Options};

/// Bits of the prefix of the link-local network, fe80::/64 (RFC 4291 section 2.5.6).
const LINK_PREFIX: u8 = 64;

/// The kind of an address, which says which of the host's own it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Ipv4,
    Ipv6,
    LinkLocal,
}

impl Kind {
    pub(crate) fn of(address: IpAddr) -> Kind {
        match address {
            IpAddr::V4(_) => Kind::Ipv4,
            IpAddr::V6(address) if is_link_local(address) => Kind::LinkLocal,
            IpAddr::V6(_) => Kind::Ipv6,
        }
    }
}

/// True for the addresses of fe80::/64.
#[inline]
pub(crate) fn is_link_local(address: Ipv6Addr) -> bool {
    u128::from(address) >> LINK_PREFIX == 0xfe80_0000_0000_0000
}

/// An Ethernet address as the interface identifier of a link-local address: modified EUI-64 (RFC 4291 appendix A).
pub(crate) fn link_local([a, b, c, d, e, f]: [u8; 6]) -> Ipv6Addr {
    Ipv6Addr::from([0xfe, 0x80, 0, 0, 0, 0, 0, 0, a ^ 2, b, c, 0xff, 0xfe, d, e, f])
}

/// The addresses of a host.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Addresses {
    ipv4: Option<Ipv4Addr>,
    /// Not a link-local one.
    ipv6: Option<Ipv6Addr>,
    pub(crate) link_local: Option<Ipv6Addr>,
}

impl Addresses {
    pub(crate) fn new(options: &Options, mac: [u8; 6]) -> Addresses {
        let ipv4 = options.ipv4.and_then(|network| match network.address {
            IpAddr::V4(address) => Some(address),
            IpAddr::V6(_) => None,
        });
        let ipv6 = options.ipv6_address().filter(|address| !is_link_local(*address));
        Addresses { ipv4, ipv6, link_local: options.link_local(mac) }
    }

    /// Which of them it is; `None` for another host's.
    #[inline]
    pub(crate) fn kind(&self, address: IpAddr) -> Option<Kind> {
        match address {
            IpAddr::V4(address) if self.ipv4 == Some(address) => Some(Kind::Ipv4),
            IpAddr::V6(address) if self.ipv6 == Some(address) => Some(Kind::Ipv6),
            IpAddr::V6(address) if self.link_local == Some(address) => Some(Kind::LinkLocal),
            _ => None,
        }
    }

    pub(crate) fn contain(&self, address: IpAddr) -> bool {
        self.kind(address).is_some()
    }

    /// The address that packets to `to` are sent from: one of the same scope (RFC 6724 section 5, of which nothing else remains with one
    /// address of each). What goes beyond the link is not sent from the link-local one, which no router passes on.
    pub(crate) fn source(&self, to: IpAddr) -> Option<IpAddr> {
        match Kind::of(to) {
            Kind::Ipv4 => self.ipv4.map(IpAddr::V4),
            Kind::Ipv6 => self.ipv6.map(IpAddr::V6),
            Kind::LinkLocal => self.link_local.map(IpAddr::V6),
        }
    }

    /// The addresses with their networks, the link-local one last.
    pub(crate) fn networks(&self, options: &Options) -> impl Iterator<Item = Network> + use<> {
        let of = |address: Option<IpAddr>, network: Option<Network>| {
            Some(Network { address: address?, prefix: network?.prefix })
        };
        let link_local =
            self.link_local.map(|address| Network { address: address.into(), prefix: LINK_PREFIX });
        let ipv4 = of(self.ipv4.map(IpAddr::V4), options.ipv4);
        let ipv6 = of(self.ipv6.map(IpAddr::V6), options.ipv6);
        [ipv4, ipv6, link_local].into_iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]
    use super::*;

    const MAC: [u8; 6] = [2, 0x34, 0x56, 0x78, 0x9a, 0xbc];

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn addresses(networks: [Option<&str>; 2]) -> (Addresses, Options) {
        let [ipv4, ipv6] = networks.map(|text| text.map(|text| text.parse::<Network>().unwrap()));
        let mut options = Options::new(ipv4.or(ipv6).unwrap());
        options.ipv6 = ipv6;
        (Addresses::new(&options, MAC), options)
    }

    /// The example of RFC 2464 section 4.
    #[test]
    fn an_interface_identifier_is_a_modified_eui_64() {
        assert_eq!(link_local([0x34, 0x56, 0x78, 0x9a, 0xbc, 0xde]), ip("fe80::3656:78ff:fe9a:bcde"));
        assert_eq!(link_local([2, 0, 0, 0, 0, 7]), ip("fe80::ff:fe00:7"), "the bit is inverted, not set");
    }

    #[test]
    fn only_a_host_with_ipv6_has_a_link_local_address() {
        let (addresses, options) = addresses([Some("10.9.0.2/24"), None]);
        assert_eq!((addresses.link_local, options.link_local(MAC)), (None, None));
        assert!(addresses.contain(ip("10.9.0.2")) && !addresses.contain(link_local(MAC).into()));
        assert_eq!(addresses.source(ip("fe80::1")), None);
        let networks: Vec<_> = addresses.networks(&options).collect();
        assert_eq!(networks, ["10.9.0.2/24".parse().unwrap()]);
    }

    #[test]
    fn the_source_has_the_scope_of_the_destination() {
        let (addresses, options) = addresses([Some("10.9.0.2/24"), Some("fd09::2/64")]);
        let own = ip("fe80::34:56ff:fe78:9abc");
        assert!(
            addresses.contain(own) && addresses.contain(ip("fd09::2")) && addresses.contain(ip("10.9.0.2"))
        );
        assert!(!addresses.contain(ip("fe80::1")) && !addresses.contain(ip("10.9.0.3")));
        for (to, from) in [
            ("10.8.0.1", ip("10.9.0.2")),
            ("fd09::3", ip("fd09::2")),
            ("2001:db8::1", ip("fd09::2")),
            ("fe80::1", own),
        ] {
            assert_eq!(addresses.source(ip(to)), Some(from), "to {to}");
        }
        let networks: Vec<_> = addresses.networks(&options).collect();
        let link = Network { address: own, prefix: 64 };
        assert_eq!(networks, ["10.9.0.2/24".parse().unwrap(), "fd09::2/64".parse().unwrap(), link]);
    }

    /// Then that is it, whatever is said about its network, and there is none for what is beyond the link.
    #[test]
    fn a_link_local_address_may_be_given() {
        let (addresses, options) = addresses([None, Some("fe80::2/128")]);
        assert_eq!(addresses.link_local.map(IpAddr::V6), Some(ip("fe80::2")));
        assert!(addresses.contain(ip("fe80::2")) && !addresses.contain(link_local(MAC).into()));
        assert_eq!((addresses.source(ip("fd09::1")), addresses.source(ip("10.9.0.1"))), (None, None));
        let networks: Vec<_> = addresses.networks(&options).collect();
        assert_eq!(networks, [Network { address: ip("fe80::2"), prefix: 64 }]);
    }

    #[test]
    fn the_kind_of_an_address_is_that_of_its_scope() {
        for (address, kind) in [
            ("10.9.0.2", Kind::Ipv4),
            ("::ffff:10.9.0.2", Kind::Ipv6),
            ("fe80::1", Kind::LinkLocal),
            ("fe80:0:0:1::1", Kind::Ipv6),
            ("fe81::1", Kind::Ipv6),
        ] {
            assert_eq!(Kind::of(ip(address)), kind, "{address}");
        }
    }
}
