//! Which flow a packet belongs to, by its headers. They are not trusted.

use super::FlowType;

/// The fields that identify the flow of an IP packet.
pub(super) struct Flow<'a> {
    /// The flow type without ports.
    pub(super) of: FlowType,
    /// Source and destination address, of 4 or 16 bytes each.
    pub(super) addresses: &'a [u8],
    /// The flow type with ports, and source and destination port.
    pub(super) ports: Option<(FlowType, &'a [u8; 4])>,
}

pub(super) const IPV4: u16 = 0x0800;
pub(super) const IPV6: u16 = 0x86dd;
/// EtherTypes of VLAN tags: IEEE 802.1Q, 802.1ad, and the one of older switches.
const TAGS: [u16; 3] = [0x8100, 0x88a8, 0x9100];

#[inline(always)]
pub(super) fn flow(start: &[u8]) -> Option<Flow<'_>> {
    let mut rest = start.get(12..)?;
    for _ in 0..2 {
        let (kind, _) = rest.split_first_chunk()?;
        if !TAGS.contains(&u16::from_be_bytes(*kind)) {
            break;
        }
        rest = rest.get(4..)?;
    }
    let (kind, packet) = rest.split_first_chunk()?;
    match u16::from_be_bytes(*kind) {
        IPV4 => ipv4(packet),
        IPV6 => ipv6(packet),
        _ => None,
    }
}

pub(super) const TCP: u8 = 6;
pub(super) const UDP: u8 = 17;
pub(super) const SCTP: u8 = 132;

#[inline(always)]
fn ipv4(packet: &[u8]) -> Option<Flow<'_>> {
    let header: &[u8; 20] = packet.first_chunk()?;
    let words = header[0] & 0xf;
    if header[0] >> 4 != 4 || words < 5 {
        return None;
    }
    let of = match header[9] {
        TCP => Some(FlowType::Ipv4Tcp),
        UDP => Some(FlowType::Ipv4Udp),
        SCTP => Some(FlowType::Ipv4Sctp),
        _ => None,
    };
    // Only the first fragment has ports, so all fragments are hashed by addresses.
    let whole = u16::from_be_bytes([header[6], header[7]]) & 0x3fff == 0;
    let ports = || packet.get(usize::from(words) * 4..)?.first_chunk();
    let ports = of.filter(|_| whole).and_then(|of| Some((of, ports()?)));
    Some(Flow { of: FlowType::Ipv4, addresses: &header[12..20], ports })
}

/// Extension headers of IPv6 that are skipped at most.
const EXTENSIONS: usize = 4;

#[inline(always)]
fn ipv6(packet: &[u8]) -> Option<Flow<'_>> {
    let (header, rest) = packet.split_first_chunk::<40>()?;
    (header[0] >> 4 == 6).then(|| Flow {
        of: FlowType::Ipv6,
        addresses: &header[8..40],
        ports: ipv6_ports(header[6], rest),
    })
}

#[inline(always)]
fn ipv6_ports(mut next: u8, mut rest: &[u8]) -> Option<(FlowType, &[u8; 4])> {
    for _ in 0..=EXTENSIONS {
        let of = match next {
            TCP => FlowType::Ipv6Tcp,
            UDP => FlowType::Ipv6Udp,
            SCTP => FlowType::Ipv6Sctp,
            // Hop-by-hop options, routing, destination options (RFC 8200). A fragment is hashed by addresses.
            0 | 43 | 60 => {
                let [following, words] = *rest.first_chunk()?;
                rest = rest.get((usize::from(words) + 1) * 8..)?;
                next = following;
                continue;
            }
            _ => return None,
        };
        return Some((of, rest.first_chunk()?));
    }
    None
}
