//! What the switch reads of a frame: its two addresses, copied out once. A program may change them at any time; then its packet goes
//! where the addresses that were read say.

use ccnic::nic::gather;
use ccnic::{Desc, SharedMemory};

/// Bytes of an Ethernet header. A shorter frame is dropped.
const HEADER: usize = 14;

/// Bytes of both addresses.
const ADDRESSES: usize = 12;

/// A MAC address: its six bytes, the first one the most significant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mac(u64);

impl Mac {
    /// From its bytes, in the order of the wire.
    pub const fn new(bytes: [u8; 6]) -> Mac {
        let [a, b, c, d, e, f] = bytes;
        Mac(u64::from_be_bytes([0, 0, a, b, c, d, e, f]))
    }

    /// Its bytes.
    pub const fn bytes(self) -> [u8; 6] {
        let [_, _, a, b, c, d, e, f] = self.0.to_be_bytes();
        [a, b, c, d, e, f]
    }

    /// True for group addresses: multicast and broadcast.
    #[inline(always)]
    pub const fn is_group(self) -> bool {
        self.0 >> 40 & 1 != 0
    }

    /// True for the addresses of protocols that end at the next bridge: 01:80:c2:00:00:00 to :0f (IEEE 802.1Q, 8.6.3: spanning trees, PAUSE,
    /// LACP, 802.1X, LLDP), and Cisco's, which Open vSwitch keeps, too: 01:00:0c:cc:cc:c0 to :cf (CDP, VTP, DTP, PAgP, UDLD, PVST+) and
    /// 01:00:0c:cd:cd:cd (its spanning tree).
    #[inline(always)]
    pub const fn is_reserved(self) -> bool {
        const SHARED_TREE: u64 = Mac::new([1, 0, 0xc, 0xcd, 0xcd, 0xcd]).0;
        let block = self.0 & !0xf;
        block == Mac::new([1, 0x80, 0xc2, 0, 0, 0]).0
            || block == Mac::new([1, 0, 0xc, 0xcc, 0xcc, 0xc0]).0
            || self.0 == SHARED_TREE
    }

    /// True for an address that a frame may come from: of one station, and not all zeros.
    #[inline(always)]
    pub const fn is_station(self) -> bool {
        !self.is_group() && self.0 != 0
    }
}

/// An address in a VLAN: what the table knows. VLAN 0 is that of the ports without VLANs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Station(u64);

impl Station {
    /// An address in a VLAN, 0 to 4094.
    #[inline(always)]
    pub const fn new(mac: Mac, vlan: u16) -> Station {
        Station(mac.0 | (vlan as u64) << 48)
    }

    /// The address.
    pub const fn mac(self) -> Mac {
        Mac(self.0 & 0xffff_ffff_ffff)
    }

    /// The VLAN.
    pub const fn vlan(self) -> u16 {
        (self.0 >> 48) as u16
    }

    /// From all bits.
    pub(super) const fn from_bits(bits: u64) -> Station {
        Station(bits)
    }

    /// All bits.
    #[inline(always)]
    pub(super) const fn bits(self) -> u64 {
        self.0
    }
}

/// The addresses of a frame, as they lie in it: destination, then source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Addresses([u8; ADDRESSES]);

impl Addresses {
    pub(super) const ZEROS: Addresses = Addresses([0; ADDRESSES]);

    /// Those of the first packet of `packets`; `None` when it is shorter than an Ethernet header.
    #[inline(always)]
    pub(super) fn read<M: SharedMemory>(mem: &M, packets: &[Desc]) -> Option<Addresses> {
        let desc = packets.first()?;
        if desc.more() {
            // Whose first segment may be short.
            let mut header = [0; HEADER];
            return (gather(mem, packets, &mut header) == HEADER).then(|| Addresses::of(header));
        }
        if usize::from(desc.len()) < HEADER {
            return None;
        }
        let mut bytes = [0; ADDRESSES];
        mem.read(desc.offset(), &mut bytes);
        Some(Addresses(bytes))
    }

    fn of(header: [u8; HEADER]) -> Addresses {
        let [addresses @ .., _, _] = header;
        Addresses(addresses)
    }

    /// Those of a frame that begins with these bytes; `None` when it is shorter than an Ethernet header.
    #[inline(always)]
    pub(super) fn of_start(start: &[u8]) -> Option<Addresses> {
        start.first_chunk().map(|header| Addresses::of(*header))
    }

    #[inline(always)]
    pub(super) fn destination(self) -> Mac {
        let [a, b, c, d, e, f, ..] = self.0;
        Mac::new([a, b, c, d, e, f])
    }

    #[inline(always)]
    pub(super) fn source(self) -> Mac {
        let [.., a, b, c, d, e, f] = self.0;
        Mac::new([a, b, c, d, e, f])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ccnic::heap::HeapMemory;

    #[test]
    fn addresses_of_stations_and_groups() {
        let mac = Mac::new([2, 0, 0, 1, 2, 3]);
        assert!(mac.is_station() && !mac.is_group());
        let station = Station::new(mac, 4094);
        assert_eq!((mac.bytes(), station.bits()), ([2, 0, 0, 1, 2, 3], 0xffe_0200_0001_0203));
        assert_eq!((station.mac(), station.vlan(), Station::new(mac, 0).vlan()), (mac, 4094, 0));
        for group in [[0xff; 6], [1, 0, 0x5e, 0, 0, 1], [0x33, 0x33, 0, 0, 0, 1]] {
            assert!(Mac::new(group).is_group() && !Mac::new(group).is_station());
        }
        assert!(!Mac::new([0; 6]).is_station() && !Mac::new([0; 6]).is_group());
    }

    #[test]
    fn groups_of_the_next_bridge_are_known() {
        let reserved = |bytes| Mac::new(bytes).is_reserved();
        for last in 0..16 {
            assert!(reserved([1, 0x80, 0xc2, 0, 0, last]) && reserved([1, 0, 0xc, 0xcc, 0xcc, 0xc0 | last]));
        }
        assert!(reserved([1, 0, 0xc, 0xcd, 0xcd, 0xcd]));
        for other in [
            [1, 0x80, 0xc2, 0, 0, 16],
            [1, 0x80, 0xc2, 0, 1, 0],
            [0, 0x80, 0xc2, 0, 0, 0],
            [1, 0, 0xc, 0xcc, 0xcc, 0xbf],
            [1, 0, 0xc, 0xcc, 0xcc, 0xd0],
            [1, 0, 0xc, 0xcd, 0xcd, 0xce],
            [1, 0, 0x5e, 0, 0, 1],
        ] {
            assert!(!reserved(other), "{other:x?}");
        }
    }

    #[test]
    fn addresses_are_read_across_segments() {
        let mem = HeapMemory::new(4096);
        let frame: Vec<u8> = (0..14).collect();
        for cut in 1..14usize {
            mem.write(100, &frame[..cut]);
            mem.write(300, &frame[cut..]);
            let descs = [Desc::new(100, cut as u16, 0).with_more(true), Desc::new(300, 14 - cut as u16, 0)];
            let read = Addresses::read(&mem, &descs).unwrap();
            assert_eq!(read.destination().bytes(), [0, 1, 2, 3, 4, 5], "{cut}");
            assert_eq!(read.source().bytes(), [6, 7, 8, 9, 10, 11]);
            let short = [descs[0], descs[1].with_len(descs[1].len() - 1)];
            assert_eq!(Addresses::read(&mem, &short), None, "13 bytes");
        }
        assert_eq!(Addresses::read(&mem, &[Desc::new(0, 13, 0)]), None);
        assert_eq!(Addresses::read(&mem, &[]), None);
    }
}
