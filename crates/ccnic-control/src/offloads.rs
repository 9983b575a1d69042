//! Requests in the metadata of packets (`ccnic_frame::Meta`), in messages: what a NIC does about them, and which a program takes.

use ccnic_frame::Takes;
use serde::{Deserialize, Serialize};

/// What becomes of what programs request of their packets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offloads {
    /// What the NIC takes: a program does the rest itself.
    pub takes: Vec<Taken>,
    /// The receiver gets packets as they were sent, whatever it takes: a loopback. Otherwise what it does not take is done for it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub passed: bool,
}

impl Offloads {
    /// Of a NIC that does for each receiver what that does not take.
    pub fn completed(takes: Takes) -> Offloads {
        Offloads { takes: Taken::list(takes), passed: false }
    }

    /// Of a loopback.
    pub fn passed() -> Offloads {
        Offloads { passed: true, ..Offloads::completed(Takes::ALL) }
    }
}

/// Something that a program takes as it is, one of [`Takes`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Taken {
    /// An IPv4 header without its checksum.
    IpChecksum,
    /// TCP and UDP without their checksum.
    L4Checksum,
    /// Super-packets of TCP.
    TcpSegments,
    /// Super-packets of UDP.
    UdpSegments,
    /// A VLAN tag in the metadata.
    Vlan,
}

impl Taken {
    const ALL: [Taken; 5] =
        [Taken::IpChecksum, Taken::L4Checksum, Taken::TcpSegments, Taken::UdpSegments, Taken::Vlan];

    const fn added_to(self, takes: Takes) -> Takes {
        match self {
            Taken::IpChecksum => takes.with_ip_checksum(),
            Taken::L4Checksum => takes.with_l4_checksum(),
            Taken::TcpSegments => takes.with_tcp_segments(),
            Taken::UdpSegments => takes.with_udp_segments(),
            Taken::Vlan => takes.with_vlan(),
        }
    }

    /// What a message says.
    pub fn takes(list: &[Taken]) -> Takes {
        list.iter().fold(Takes::NONE, |takes, taken| taken.added_to(takes))
    }

    /// For a message.
    pub fn list(takes: Takes) -> Vec<Taken> {
        Taken::ALL.into_iter().filter(|taken| taken.added_to(takes) == takes).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_says_what_is_taken() {
        for takes in (0..32).map(Takes::from_bits) {
            assert_eq!(Taken::takes(&Taken::list(takes)), takes);
        }
        assert_eq!(Taken::list(Takes::NONE.with_vlan()), [Taken::Vlan]);
        assert_eq!(
            Taken::takes(&[Taken::TcpSegments; 9]),
            Takes::NONE.with_l4_checksum().with_tcp_segments()
        );
    }
}
