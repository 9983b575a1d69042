//! Packets in the NIC's own memory.

/// The most segments of a packet in the NIC's own memory.
pub const SEGMENTS: usize = 64;

/// A segment of a packet in the NIC's own memory. A slice is a packet of one segment without metadata; [`Part`] says more.
/// [The crate](crate) has an example.
pub trait Segment {
    /// Its bytes. `None` refuses the packet: it is for segments that say they have bytes and have none, as those of C may.
    fn bytes(&self) -> Option<&[u8]>;

    /// The packet's metadata; of a segment that is not the first one they are ignored.
    fn meta(&self) -> u64 {
        0
    }

    /// True when the packet goes on in the next segment.
    fn more(&self) -> bool {
        false
    }
}

impl Segment for &[u8] {
    #[inline(always)]
    fn bytes(&self) -> Option<&[u8]> {
        Some(self)
    }
}

/// A segment with all that can be said of it. [The crate](crate) has an example.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Part<'a> {
    /// Its bytes.
    pub bytes: &'a [u8],
    /// The packet's metadata ([`Meta::word`](ccnic_frame::Meta::word)).
    pub meta: u64,
    /// The packet goes on in the next segment.
    pub more: bool,
}

impl Segment for Part<'_> {
    #[inline(always)]
    fn bytes(&self) -> Option<&[u8]> {
        Some(self.bytes)
    }

    #[inline(always)]
    fn meta(&self) -> u64 {
        self.meta
    }

    #[inline(always)]
    fn more(&self) -> bool {
        self.more
    }
}
