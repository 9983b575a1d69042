//! VLANs of a port: which frames may enter, in which VLAN they are then, and which leave it, with or without a tag.
//!
//! Inside the switch a frame of a VLAN has no tag of its own: VLAN and priority are in its metadata word, as a NIC has it that strips tags.
//! Where it leaves through a port that wants a tag, the tag is inserted, or, if the port takes offloads, stays in the metadata.

use ccnic_frame::Tci;

/// VLAN identifiers that can be used: 1 to 4094.
pub const VLANS: std::ops::RangeInclusive<u16> = 1..=4094;

/// Which VLANs a port is in. A port may be in one domain only: with VLANs, or without.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Vlans {
    /// None: it exchanges frames with other such ports only, and tags are no business of the switch.
    #[default]
    Opaque,
    /// One. Frames have no tag on either way.
    Access(u16),
    /// Several. Frames have tags, but for those of one VLAN, if any.
    Trunk {
        /// The VLANs that it carries.
        carried: Carried,
        /// The VLAN of frames without tag, which is one of them; 0: there are no such frames.
        native: u16,
    },
}

/// A set of VLANs.
#[derive(Clone, PartialEq, Eq)]
pub struct Carried(Box<[u64; 64]>);

impl Carried {
    /// Those that are given, of [`VLANS`].
    pub fn of(vlans: impl IntoIterator<Item = u16>) -> Carried {
        let mut set = Carried(Box::new([0; 64]));
        for vlan in vlans.into_iter().filter(|vlan| VLANS.contains(vlan)) {
            set.0.get_mut(usize::from(vlan / 64)).into_iter().for_each(|word| *word |= 1 << (vlan % 64));
        }
        set
    }

    /// True when it is one of them.
    #[inline(always)]
    pub fn has(&self, vlan: u16) -> bool {
        self.0.get(usize::from(vlan / 64)).is_some_and(|word| word >> (vlan % 64) & 1 != 0)
    }
}

impl std::fmt::Debug for Carried {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(VLANS.filter(|vlan| self.has(*vlan))).finish()
    }
}

impl Vlans {
    /// True when frames of it are of a VLAN.
    #[inline(always)]
    pub(in crate::switch) fn has_vlans(&self) -> bool {
        *self != Vlans::Opaque
    }

    /// The VLAN that a frame enters by, which has this tag or none, or 0 where there are none; `None`: it may not enter. A tag of VLAN 0 has
    /// a priority only.
    #[inline(always)]
    pub(in crate::switch) fn enters(&self, tag: Option<Tci>) -> Option<u16> {
        let vlan = tag.map_or(0, Tci::vid);
        match self {
            Vlans::Opaque => Some(0),
            Vlans::Access(own) => (vlan == 0).then_some(*own),
            Vlans::Trunk { native, .. } if vlan == 0 => (*native != 0).then_some(*native),
            Vlans::Trunk { carried, .. } => carried.has(vlan).then_some(vlan),
        }
    }

    /// True when frames of this VLAN, or of none (0), go to the port.
    #[inline(always)]
    pub fn carries(&self, vlan: u16) -> bool {
        match self {
            Vlans::Opaque => vlan == 0,
            Vlans::Access(own) => *own == vlan,
            Vlans::Trunk { carried, .. } => carried.has(vlan),
        }
    }

    /// True when frames of this VLAN, which the port carries, leave with a tag.
    #[inline(always)]
    pub(in crate::switch) fn tags(&self, vlan: u16) -> bool {
        matches!(self, Vlans::Trunk { native, .. } if *native != vlan)
    }

    /// The VLAN of frames without tag; 0: none.
    pub fn untagged(&self) -> u16 {
        match self {
            Vlans::Opaque => 0,
            Vlans::Access(own) => *own,
            Vlans::Trunk { native, .. } => *native,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_enters_where_and_who_leaves_how() {
        let tag = |vlan: u16| Some(Tci::new(5 << 13 | vlan));
        let access = Vlans::Access(10);
        assert_eq!(
            [None, tag(0), tag(10), tag(20)].map(|tag| access.enters(tag)),
            [Some(10), Some(10), None, None]
        );
        assert_eq!([10, 0, 20].map(|vlan| access.carries(vlan)), [true, false, false]);
        assert!(!access.tags(10));
        let trunk = |native| Vlans::Trunk { carried: Carried::of([1, 10, 4094, 0, 4095]), native };
        assert_eq!(
            [None, tag(0), tag(1), tag(10), tag(11), tag(4094), tag(4095)].map(|tag| trunk(0).enters(tag)),
            [None, None, Some(1), Some(10), None, Some(4094), None]
        );
        assert_eq!(
            [None, tag(0), tag(1), tag(10)].map(|tag| trunk(1).enters(tag)),
            [Some(1), Some(1), Some(1), Some(10)]
        );
        assert_eq!([1, 10, 0, 11].map(|vlan| trunk(1).carries(vlan)), [true, true, false, false]);
        assert_eq!([1, 10].map(|vlan| trunk(1).tags(vlan)), [false, true]);
        assert_eq!([1, 10].map(|vlan| trunk(0).tags(vlan)), [true, true]);
        let opaque = Vlans::Opaque;
        assert_eq!([None, tag(7)].map(|tag| opaque.enters(tag)), [Some(0), Some(0)]);
        assert!(opaque.carries(0) && !opaque.carries(10) && !opaque.tags(0) && !opaque.has_vlans());
        assert_eq!([opaque, access, trunk(1), trunk(0)].map(|vlans| vlans.untagged()), [0, 10, 1, 0]);
    }
}
