//! Descriptors: 16 bytes that say where a segment of a packet lies (CC-NIC section 3.2).
//!
//! ```text
//! word 0:  63      56 55      48 47           32 31                           0
//!         |  signal  |  flags   |    length     |   offset of the first byte   |
//! word 1:  metadata: flow hash, checksum and segmentation offload bits, VLAN
//! ```
//!
//! The signal belongs to the ring: it says that the unit is ready and how many descriptors it has
//! (`ring/signal.rs`). A packet is a *chain* of 1 to [`CHAIN_MAX`] descriptors; all but the last carry
//! [`FLAG_MORE`].

/// Bytes of a descriptor, as in the E810 and other PCIe NICs.
pub const DESC: u32 = 16;
/// The most segments one packet may have, as on the E810.
pub const CHAIN_MAX: usize = 8;

/// Flag: the packet continues in the next descriptor.
pub const FLAG_MORE: u8 = 1 << 0;
/// Flag: the buffer is a small one (128 bytes), not a large one (4 KiB).
pub const FLAG_SMALL: u8 = 1 << 1;
/// Flag: the data lie in no buffer but in the area beside the descriptor's own unit ([`ring`](crate::ring)).
pub const FLAG_INLINE: u8 = 1 << 2;
/// Flag, to the NIC only: the data lie in a buffer that stays the sender's. The NIC reads them, neither frees nor passes on the buffer, and
/// hands the unit back when it has read them ([`host::KeptBuf`](crate::host::KeptBuf)).
pub const FLAG_KEPT: u8 = 1 << 3;
/// Flags of segments whose receiver gets no buffer with them.
pub(crate) const BORROWED: u8 = FLAG_INLINE | FLAG_KEPT;

/// The signal's lowest bit in word 0.
pub const SIGNAL_SHIFT: u32 = 56;
const OFFSET_MASK: u64 = 0xffff_ffff;
const SIGNAL_MASK: u64 = 0xff << SIGNAL_SHIFT;

/// One segment of a packet. A plain value without ownership of the bytes (see [`Buf`](crate::Buf)).
///
/// ```
/// use ccnic::Desc;
///
/// let desc = Desc::new(0x4000, 1500, 0).with_meta(7).with_more(true);
/// assert_eq!((desc.offset(), desc.len(), desc.meta, desc.more(), desc.small()), (0x4000, 1500, 7, true, false));
/// assert_eq!((desc.flags(), desc.inline(), desc.kept()), (ccnic::desc::FLAG_MORE, false, false));
/// assert!(desc.with_len(0).is_empty());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Desc {
    word: u64,
    /// Metadata of the packet: flow hash, offloads, VLAN. Carried unchanged by the rings.
    pub meta: u64,
}

impl Desc {
    /// A descriptor of `len` bytes at `offset`, with `flags` and no metadata. Example: [`Desc`].
    #[inline(always)]
    pub const fn new(offset: u32, len: u16, flags: u8) -> Desc {
        Desc { word: offset as u64 | (len as u64) << 32 | (flags as u64) << 48, meta: 0 }
    }

    /// From the two words of a ring, without the signal. Unchecked.
    #[inline(always)]
    pub(crate) const fn from_words(word: u64, meta: u64) -> Desc {
        Desc { word: word & !SIGNAL_MASK, meta }
    }

    /// Word 0, with no signal.
    #[inline(always)]
    pub(crate) const fn word(self) -> u64 {
        self.word
    }

    /// Offset of the first byte of data from the region's start. Example: [`Desc`].
    #[inline(always)]
    pub const fn offset(self) -> u32 {
        (self.word & OFFSET_MASK) as u32
    }

    /// Bytes of data. Example: [`Desc`].
    #[inline(always)]
    pub const fn len(self) -> u16 {
        (self.word >> 32) as u16
    }

    /// True when the segment holds no data. Example: [`Desc`].
    #[inline(always)]
    pub const fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// [`FLAG_MORE`], [`FLAG_SMALL`], [`FLAG_INLINE`] and [`FLAG_KEPT`]. Example: [`Desc`].
    #[inline(always)]
    pub const fn flags(self) -> u8 {
        (self.word >> 48) as u8
    }

    /// True when the packet continues in the next descriptor. Example: [`Desc`].
    #[inline(always)]
    pub const fn more(self) -> bool {
        self.flags() & FLAG_MORE != 0
    }

    /// True when the buffer is a small one. Example: [`Desc`].
    #[inline(always)]
    pub const fn small(self) -> bool {
        self.flags() & FLAG_SMALL != 0
    }

    /// True when the data lie in the area beside the unit. Example: [`Desc`].
    #[inline(always)]
    pub const fn inline(self) -> bool {
        self.flags() & FLAG_INLINE != 0
    }

    /// True when the buffer stays the sender's. Example: [`Desc`].
    #[inline(always)]
    pub const fn kept(self) -> bool {
        self.flags() & FLAG_KEPT != 0
    }

    /// True when the receiver gets no buffer with the segment: it is inline, or kept by the sender.
    #[inline(always)]
    pub(crate) const fn borrowed(self) -> bool {
        self.flags() & BORROWED != 0
    }

    /// The same segment, in a buffer that stays the sender's or one that is handed over.
    #[inline(always)]
    pub(crate) const fn with_kept(self, kept: bool) -> Desc {
        let bit = (FLAG_KEPT as u64) << 48;
        Desc { word: if kept { self.word | bit } else { self.word & !bit }, ..self }
    }

    /// The same segment with another length. Example: [`Desc`].
    #[inline(always)]
    pub const fn with_len(self, len: u16) -> Desc {
        Desc { word: self.word & !(0xffff << 32) | (len as u64) << 32, ..self }
    }

    /// The same segment with other metadata. Example: [`Desc`].
    #[inline(always)]
    pub const fn with_meta(self, meta: u64) -> Desc {
        Desc { meta, ..self }
    }

    /// The same segment, continued or ended. Example: [`Desc`].
    #[inline(always)]
    pub const fn with_more(self, more: bool) -> Desc {
        let bit = (FLAG_MORE as u64) << 48;
        Desc { word: if more { self.word | bit } else { self.word & !bit }, ..self }
    }
}

/// What rings carry: a plain [`Desc`], or a [`Buf`](crate::Buf), which owns its buffer. Sealed: only this
/// crate can turn a descriptor into a buffer handle.
pub trait Slot {
    #[doc(hidden)]
    fn desc(&self) -> Desc;
    #[doc(hidden)]
    fn set(&mut self, desc: Desc, _: Sealed);
}

/// Cannot be made outside this crate.
#[doc(hidden)]
#[derive(Debug, Clone, Copy)]
pub struct Sealed(pub(crate) ());

impl Slot for Desc {
    #[inline(always)]
    fn desc(&self) -> Desc {
        *self
    }

    #[inline(always)]
    fn set(&mut self, desc: Desc, _: Sealed) {
        *self = desc;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_do_not_overlap() {
        let d = Desc::new(0xdead_beef, 0x1234, FLAG_SMALL);
        assert_eq!((d.offset(), d.len(), d.flags()), (0xdead_beef, 0x1234, FLAG_SMALL));
        let e = d.with_len(7).with_more(true);
        assert_eq!((e.offset(), e.len(), e.flags()), (0xdead_beef, 7, FLAG_SMALL | FLAG_MORE));
        assert_eq!(e.with_more(false).flags(), FLAG_SMALL);
        assert_eq!(Desc::from_words(d.word() | 0x81 << SIGNAL_SHIFT, 9), Desc { meta: 9, ..d });
    }
}
