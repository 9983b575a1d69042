//! VLAN tags: four bytes behind the two addresses, inserted and stripped by moving the addresses.
//!
//! Only the tag of IEEE 802.1Q (EtherType 0x8100) is inserted and stripped: metadata carry no EtherType. An outer
//! tag of 802.1ad stays in the frame, where [`Headers`](crate::Headers) passes over it.

/// Bytes of a tag.
pub const TAG: usize = 4;
/// The EtherType of a tag, IEEE 802.1Q.
pub const ETHER_TYPE: u16 = 0x8100;

/// Bytes of the two addresses.
const ADDRESSES: usize = 12;
/// Bytes that a frame must have to be tagged: its addresses and EtherType.
const UNTAGGED: usize = ADDRESSES + 2;

/// Tag control information: priority (3 bits), drop eligible (1), VLAN (12).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tci(u16);

impl Tci {
    /// From the number that is in the tag.
    #[inline(always)]
    pub const fn new(tci: u16) -> Tci {
        Tci(tci)
    }

    /// The number that is in the tag.
    #[inline(always)]
    pub const fn get(self) -> u16 {
        self.0
    }

    /// The VLAN, 0 to 4095. 0 is none (a tag with a priority only), 4095 is reserved.
    #[inline(always)]
    pub const fn vid(self) -> u16 {
        self.0 & 0xfff
    }

    /// The priority, 0 to 7.
    #[inline(always)]
    pub const fn priority(self) -> u8 {
        (self.0 >> 13) as u8
    }

    /// The same tag with another VLAN, of which the low 12 bits are taken.
    #[inline(always)]
    pub const fn with_vid(self, vid: u16) -> Tci {
        Tci(self.0 & !0xfff | vid & 0xfff)
    }
}

/// The outer tag of a frame, if it has one of 802.1Q.
#[inline(always)]
pub fn outer(frame: &[u8]) -> Option<Tci> {
    let rest: &[u8; TAG] = frame.get(ADDRESSES..)?.first_chunk()?;
    let [a, b, c, d] = *rest;
    (u16::from_be_bytes([a, b]) == ETHER_TYPE).then_some(Tci(u16::from_be_bytes([c, d])))
}

/// Inserts a tag into the frame that begins at `room[4]`; it begins at `room[0]` then. False, and nothing done, where there is
/// no frame: less than addresses and EtherType.
///
/// ```
/// use ccnic_frame::{Tci, vlan};
///
/// let frame = [[1; 6], [2; 6]].concat().into_iter().chain([8, 0, 0x45]);
/// let mut room: Vec<u8> = [0; 4].into_iter().chain(frame.clone()).collect();
/// assert!(vlan::insert(&mut room, Tci::new(7)));
/// assert_eq!(room[10..], [2, 2, 0x81, 0, 0, 7, 8, 0, 0x45]);
/// assert_eq!(vlan::strip(&mut room), Some(Tci::new(7))); // and so it begins at 4 again
/// assert!(room[4..].iter().copied().eq(frame));
/// ```
#[inline(always)]
pub fn insert(room: &mut [u8], tci: Tci) -> bool {
    let Some(start) = room.first_chunk_mut::<{ TAG + UNTAGGED }>() else { return false };
    start.copy_within(TAG..TAG + ADDRESSES, 0);
    let [a, b] = ETHER_TYPE.to_be_bytes();
    let [c, d] = tci.0.to_be_bytes();
    start[ADDRESSES..ADDRESSES + TAG].copy_from_slice(&[a, b, c, d]);
    true
}

/// Strips the outer tag of the frame that begins at `frame[0]`; it begins at `frame[4]` then. `None`, and nothing done, where
/// it has none, or nothing behind it.
#[inline(always)]
pub fn strip(frame: &mut [u8]) -> Option<Tci> {
    let start: &mut [u8; TAG + UNTAGGED] = frame.first_chunk_mut()?;
    let tci = outer(start)?;
    start.copy_within(..ADDRESSES, TAG);
    Some(tci)
}
