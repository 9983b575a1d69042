//! What etherparse knows of a frame: the reference for `ccnic-frame`.

use ccnic_frame::{L4, MAX_HEADERS};
use etherparse::{
    LinkExtHeader, LinkHeader, NetHeaders, NetSlice, PacketHeaders, SlicedPacket, TransportHeader,
    TransportSlice,
};

/// Where etherparse finds the transport layer of a whole, well-formed packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Transport {
    pub(crate) l4: L4,
    pub(crate) l4_at: usize,
    pub(crate) l4_end: usize,
    pub(crate) payload_at: usize,
}

/// The transport layer, if it is TCP, UDP or ICMPv6.
pub(crate) fn transport(frame: &[u8]) -> Option<Transport> {
    let sliced = SlicedPacket::from_ethernet(frame).ok()?;
    let (l4, slice, header) = match &sliced.transport {
        Some(TransportSlice::Tcp(tcp)) => (L4::Tcp, tcp.slice(), tcp.header_slice().len()),
        Some(TransportSlice::Udp(udp)) => (L4::Udp, udp.slice(), 8),
        Some(TransportSlice::Icmpv6(icmp)) if matches!(sliced.net, Some(NetSlice::Ipv6(_))) => {
            (L4::Icmpv6, icmp.slice(), 4)
        }
        _ => return None,
    };
    let l4_at = slice.as_ptr().addr() - frame.as_ptr().addr();
    Some(Transport { l4, l4_at, l4_end: l4_at + slice.len(), payload_at: l4_at + header })
}

/// True where `ccnic-frame` may say other things of a frame than etherparse, because it means to.
pub(crate) fn differs(frame: &[u8], theirs: Option<Transport>) -> bool {
    use etherparse::err::{ipv6_exts::HeaderError::HopByHopNotAtStart, packet::SliceError};
    let sliced = match SlicedPacket::from_ethernet(frame) {
        // As DPDK and Linux, it takes these options anywhere.
        Err(SliceError::Ipv6Exts(HopByHopNotAtStart)) => return true,
        Err(_) => return false,
        Ok(sliced) => sliced,
    };
    let extensions = sliced.net.as_ref().and_then(NetSlice::ipv6_ref).map(|ip| ip.extensions().clone());
    let (mut numbers, mut count) = (false, 0);
    for extension in extensions.into_iter().flatten() {
        count += 1;
        // Authentication is no extension header there; an atomic fragment (RFC 6946) is a fragment.
        numbers |= matches!(
            extension,
            etherparse::Ipv6ExtensionSlice::Authentication(_) | etherparse::Ipv6ExtensionSlice::Fragment(_)
        );
    }
    let v4 = sliced.net.as_ref().and_then(NetSlice::ipv4_ref);
    let v6 = sliced.net.as_ref().and_then(NetSlice::ipv6_ref);
    let udp_length = match &sliced.transport {
        Some(TransportSlice::Udp(udp)) => udp.length(),
        _ => 8,
    };
    numbers
        || count > ccnic_frame::headers::MAX_EXTENSIONS
        || v4.is_some_and(|ip| ip.extensions().auth.is_some())
        // Jumbograms, which etherparse guesses.
        || v6.is_some_and(|ip| ip.header().payload_length() == 0)
        || udp_length == 0
        || sliced.link_exts.len() > 2
        || sliced.link_exts.iter().any(|tag| matches!(tag, etherparse::LinkExtSlice::Macsec(_)))
        || theirs.is_some_and(|transport| transport.payload_at > MAX_HEADERS)
}

/// A frame in etherparse's types.
#[derive(Debug, Clone)]
pub(crate) struct Typed {
    link: LinkHeader,
    tags: Vec<LinkExtHeader>,
    net: NetHeaders,
    transport: TransportHeader,
    pub(crate) payload: Vec<u8>,
}

impl Typed {
    /// A frame of TCP or UDP over IP.
    pub(crate) fn parse(frame: &[u8]) -> Option<Typed> {
        let headers = PacketHeaders::from_ethernet_slice(frame).ok()?;
        let transport =
            headers.transport.filter(|l4| matches!(l4, TransportHeader::Tcp(_) | TransportHeader::Udp(_)))?;
        let mut payload = headers.payload.slice().to_vec();
        if let TransportHeader::Udp(udp) = &transport {
            payload.truncate(usize::from(udp.length).saturating_sub(8)); // an IP packet may be longer
        }
        let tags = headers.link_exts.into_iter().collect();
        Some(Typed { link: headers.link?, tags, net: headers.net?, transport, payload })
    }

    pub(crate) fn is_udp(&self) -> bool {
        matches!(self.transport, TransportHeader::Udp(_))
    }

    pub(crate) fn is_ipv6(&self) -> bool {
        self.net.is_ipv6()
    }

    /// The checksums that are in the frame, of IPv4 and of the transport layer. Zero is 0xffff, as in UDP: the sums are equal.
    pub(crate) fn checksums(&self) -> [u16; 2] {
        let ip = self.net.ipv4_ref().map_or(0, |(ip, _)| ip.header_checksum);
        let l4 = match &self.transport {
            TransportHeader::Tcp(tcp) => tcp.checksum,
            TransportHeader::Udp(udp) => udp.checksum,
            _ => 0,
        };
        [ip, l4].map(|sum| if sum == 0 { 0xffff } else { sum })
    }

    /// The same headers before another payload: all lengths and checksums set. `None` where that is too long for them.
    pub(crate) fn with_payload(&self, payload: &[u8]) -> Option<Typed> {
        let mut typed = Typed { payload: payload.to_vec(), ..self.clone() };
        if let TransportHeader::Udp(udp) = &mut typed.transport {
            udp.length = u16::try_from(8 + payload.len()).ok()?;
        }
        let len = typed.transport.header_len() + payload.len();
        match &mut typed.net {
            NetHeaders::Ipv4(ip, extensions) => ip.set_payload_len(extensions.header_len() + len).ok()?,
            NetHeaders::Ipv6(ip, extensions) => ip.set_payload_length(extensions.header_len() + len).ok()?,
            NetHeaders::Arp(_) => return None,
        }
        typed.with_checksums()
    }

    /// The same with all checksums computed.
    pub(crate) fn with_checksums(mut self) -> Option<Typed> {
        match &mut self.net {
            NetHeaders::Ipv4(ip, _) => {
                ip.header_checksum = ip.calc_header_checksum();
                self.transport.update_checksum_ipv4(ip, &self.payload).ok()?;
            }
            NetHeaders::Ipv6(ip, _) => self.transport.update_checksum_ipv6(ip, &self.payload).ok()?,
            NetHeaders::Arp(_) => return None,
        }
        Some(self)
    }

    /// What Linux makes of a super-packet: its segments, `size` bytes of payload each.
    pub(crate) fn segments(&self, size: usize) -> Option<Vec<Typed>> {
        let count = self.payload.len().div_ceil(size).max(1);
        (0..count)
            .map(|i| {
                let mut segment = self.clone();
                let payload = &self.payload[size * i..self.payload.len().min(size * (i + 1))];
                if let NetHeaders::Ipv4(ip, _) = &mut segment.net {
                    ip.identification = ip.identification.wrapping_add(i as u16);
                }
                if let TransportHeader::Tcp(tcp) = &mut segment.transport {
                    tcp.sequence_number = tcp.sequence_number.wrapping_add((size * i) as u32);
                    tcp.cwr &= i == 0;
                    tcp.fin &= i + 1 == count;
                    tcp.psh &= i + 1 == count;
                }
                segment.with_payload(payload)
            })
            .collect()
    }

    /// The frame's bytes.
    pub(crate) fn bytes(&self) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        self.link.write(&mut bytes).ok()?;
        for tag in &self.tags {
            match tag {
                LinkExtHeader::Vlan(vlan) => vlan.write(&mut bytes).ok()?,
                LinkExtHeader::Macsec(_) => return None,
            }
        }
        match &self.net {
            NetHeaders::Ipv4(ip, extensions) => {
                ip.write_raw(&mut bytes).ok()?;
                extensions.write(&mut bytes, ip.protocol).ok()?;
            }
            NetHeaders::Ipv6(ip, extensions) => {
                ip.write(&mut bytes).ok()?;
                extensions.write(&mut bytes, ip.next_header).ok()?;
            }
            NetHeaders::Arp(_) => return None,
        }
        self.transport.write(&mut bytes).ok()?;
        bytes.extend(&self.payload);
        Some(bytes)
    }
}
