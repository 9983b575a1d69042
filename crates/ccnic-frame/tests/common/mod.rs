//! Frames for the tests, made by etherparse: the reference for what is in them.
#![allow(dead_code, clippy::unwrap_used, reason = "each test uses some of it")]

use ccnic_frame::Headers;
use etherparse::{IpHeaders, PacketBuilder, PacketBuilderStep, SlicedPacket, TransportSlice, ip_number};

/// The addresses of the frames.
const MACS: ([u8; 6], [u8; 6]) = ([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
const V4: ([u8; 4], [u8; 4]) = ([192, 168, 1, 1], [192, 168, 1, 2]);

/// What a frame is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// VLAN tags, at most two.
    pub tags: u8,
    pub ipv6: bool,
    pub tcp: bool,
    /// IPv4: words of options. IPv6: extension headers of a word each, hop-by-hop options first.
    pub options: u8,
    /// Words of TCP options.
    pub tcp_options: u8,
}

impl Shape {
    pub const TCP4: Shape = Shape { tags: 0, ipv6: false, tcp: true, options: 0, tcp_options: 0 };
    pub const TCP6: Shape = Shape { ipv6: true, ..Shape::TCP4 };
    pub const UDP4: Shape = Shape { tcp: false, ..Shape::TCP4 };
    pub const UDP6: Shape = Shape { tcp: false, ..Shape::TCP6 };
    pub const ALL: [Shape; 4] = [Shape::TCP4, Shape::TCP6, Shape::UDP4, Shape::UDP6];

    /// Where the network layer begins.
    pub fn l3_at(self) -> usize {
        14 + 4 * usize::from(self.tags)
    }

    /// Where the transport layer begins.
    pub fn l4_at(self) -> usize {
        let words = usize::from(self.options);
        self.l3_at() + if self.ipv6 { 40 + 8 * words } else { 20 + 4 * words }
    }

    /// Where the payload begins.
    pub fn payload_at(self) -> usize {
        self.l4_at() + if self.tcp { 20 + 4 * usize::from(self.tcp_options) } else { 8 }
    }

    /// The frame with this payload; its checksums are right.
    pub fn frame(self, payload: &[u8]) -> Vec<u8> {
        let step = PacketBuilder::ethernet2(MACS.0, MACS.1);
        let ip = self.ip();
        let step = match self.tags {
            0 => step.ip(ip),
            1 => step.single_vlan(7.try_into().unwrap()).ip(ip),
            _ => step.double_vlan(5.try_into().unwrap(), 7.try_into().unwrap()).ip(ip),
        };
        self.write(step, payload)
    }

    fn ip(self) -> IpHeaders {
        let words = usize::from(self.options);
        if !self.ipv6 {
            let protocol = if self.tcp { ip_number::TCP } else { ip_number::UDP };
            let mut header = etherparse::Ipv4Header::new(0, 64, protocol, V4.0, V4.1).unwrap();
            header.identification = 0xfffe;
            header.options = vec![1; words * 4].as_slice().try_into().unwrap();
            return IpHeaders::Ipv4(header, Default::default());
        }
        let address = |last| std::array::from_fn(|i| if i == 15 { last } else { 0xfd });
        let header =
            etherparse::Ipv6Header { source: address(1), destination: address(2), ..Default::default() };
        let raw = || etherparse::Ipv6RawExtHeader::new_raw(ip_number::UDP, &[1, 4, 0, 0, 0, 0]).unwrap();
        let routing = (words > 2).then(|| {
            let routing =
                etherparse::Ipv6RawExtHeader::new_raw(ip_number::UDP, &[253, 0, 0, 0, 0, 0]).unwrap();
            let final_destination_options = (words > 3).then(raw);
            etherparse::Ipv6RoutingExtensions { routing, final_destination_options }
        });
        let extensions = etherparse::Ipv6Extensions {
            hop_by_hop_options: (words > 0).then(raw),
            destination_options: (words > 1).then(raw),
            routing,
            ..Default::default()
        };
        IpHeaders::Ipv6(header, extensions)
    }

    fn write(self, step: PacketBuilderStep<IpHeaders>, payload: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        if self.tcp {
            let options = vec![1; usize::from(self.tcp_options) * 4];
            let step = step.tcp(4711, 80, 0xffff_fff0, 512).ack(9).psh().options_raw(&options).unwrap();
            step.write(&mut bytes, payload).unwrap();
        } else {
            step.udp(4711, 53).write(&mut bytes, payload).unwrap();
        }
        bytes
    }
}

/// The headers of a whole frame.
pub fn parse(frame: &[u8]) -> Headers {
    Headers::parse(frame, frame.len())
}

/// Bytes that differ.
pub fn noise(len: usize) -> Vec<u8> {
    let mut state = 4711u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    };
    (0..len).map(|_| next()).collect()
}

/// Asserts that the checksums of a frame are right, as etherparse computes them; gives its payload.
pub fn check_sums(frame: &[u8]) -> Vec<u8> {
    let sliced = SlicedPacket::from_ethernet(frame).unwrap();
    let ip = sliced.net.as_ref().unwrap();
    if let Some(header) = ip.ipv4_ref().map(|ip| ip.header().to_header()) {
        assert_eq!(header.header_checksum, header.calc_header_checksum(), "IPv4");
    }
    let v4 = ip.ipv4_ref().map(|ip| ip.header().to_header());
    let v6 = ip.ipv6_ref().map(|ip| ip.header().to_header());
    match sliced.transport.unwrap() {
        TransportSlice::Tcp(tcp) => {
            let header = tcp.to_header();
            let sum = match (&v4, &v6) {
                (Some(ip), _) => header.calc_checksum_ipv4(ip, tcp.payload()).unwrap(),
                (_, Some(ip)) => header.calc_checksum_ipv6(ip, tcp.payload()).unwrap(),
                _ => panic!("TCP over IP"),
            };
            assert_eq!(header.checksum, sum, "TCP");
            tcp.payload().to_vec()
        }
        TransportSlice::Udp(udp) => {
            let header = udp.to_header();
            let sum = match (&v4, &v6) {
                (Some(ip), _) => header.calc_checksum_ipv4(ip, udp.payload()).unwrap(),
                (_, Some(ip)) => header.calc_checksum_ipv6(ip, udp.payload()).unwrap(),
                _ => panic!("UDP over IP"),
            };
            assert_eq!(header.checksum, sum, "UDP");
            udp.payload().to_vec()
        }
        other => panic!("{other:?}"),
    }
}
