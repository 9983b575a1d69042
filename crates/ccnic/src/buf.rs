//! Buffer handles and bursts of them: what a program holds.

use core::fmt;

use crate::desc::{Desc, Sealed, Slot};
use crate::memory::SharedMemory;
use crate::pool::Class;

/// A buffer that this program holds, with a packet or a segment of one. Not `Clone`: the handle is the
/// ownership of the buffer.
///
/// A handle that is dropped loses its buffer until the region ends; give it to
/// [`free`](crate::host::QueuePair::free) or [`tx_burst`](crate::host::QueuePair::tx_burst) instead.
///
/// ```
/// # use ccnic::{testing::{Sides, config}, ring::GroupedEpoch};
/// # let mut sides = Sides::<GroupedEpoch>::new(&config::<GroupedEpoch>());
/// # let pair = &mut sides.host;
/// use ccnic::Burst;
///
/// let mut burst = Burst::new();
/// pair.alloc(100, 1, &mut burst);
/// for buf in burst.iter_mut() {
///     assert_eq!((buf.len(), buf.capacity(), buf.more()), (100, 128, false)); // a small buffer
///     assert!(buf.set_len(60).is_ok() && buf.set_len(200).is_err());
///     buf.set_meta(7);
///     assert_eq!((buf.meta(), buf.is_empty(), buf.desc().len()), (7, false, 60));
///     buf.set_more(true); // the packet goes on in the next buffer
///     # buf.set_more(false);
/// }
/// # pair.free(&mut burst);
/// ```
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a dropped buffer is lost to the pool: free it or transmit it"]
pub struct Buf {
    desc: Desc,
    region: RegionTag,
}

/// In debug builds: which region a buffer is of. In release builds: nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RegionTag {
    #[cfg(debug_assertions)]
    region: usize,
}

#[cfg(not(debug_assertions))]
const _: () = assert!(size_of::<Buf>() == 16, "the tag costs nothing in release builds");

impl RegionTag {
    /// The tag of a slot that holds no buffer.
    const NONE: RegionTag = RegionTag {
        #[cfg(debug_assertions)]
        region: 0,
    };

    /// The tag of the buffers of a region.
    #[inline(always)]
    #[cfg_attr(not(debug_assertions), expect(unused_variables, reason = "the tag is empty"))]
    pub(crate) fn of<M: SharedMemory>(mem: &M) -> RegionTag {
        RegionTag {
            #[cfg(debug_assertions)]
            region: mem.region(),
        }
    }

    /// Debug builds: panics when a buffer is of another region, where its offset means other bytes.
    #[inline(always)]
    pub(crate) fn check(self, bufs: &[Buf]) {
        debug_assert!(bufs.iter().all(|buf| buf.region == self), "a buffer of another region");
    }
}

impl Buf {
    const NONE: Buf = Buf { desc: Desc::new(0, 0, 0), region: RegionTag::NONE };

    #[inline(always)]
    pub(crate) const fn new(desc: Desc, region: RegionTag) -> Buf {
        Buf { desc, region }
    }

    /// Bytes of data in this segment. Example: [`Buf`].
    #[inline(always)]
    pub const fn len(&self) -> u16 {
        self.desc.len()
    }

    /// True when the segment holds no data. Example: [`Buf`].
    #[inline(always)]
    pub const fn is_empty(&self) -> bool {
        self.desc.is_empty()
    }

    /// True when the packet continues in the next buffer. Example: [`Buf`].
    #[inline(always)]
    pub const fn more(&self) -> bool {
        self.desc.more()
    }

    /// The packet's metadata: flow hash, offloads, VLAN. Example: [`Buf`].
    #[inline(always)]
    pub const fn meta(&self) -> u64 {
        self.desc.meta
    }

    /// Sets the packet's metadata. That of a chain's first buffer counts. Example: [`Buf`].
    #[inline(always)]
    pub const fn set_meta(&mut self, meta: u64) {
        self.desc.meta = meta;
    }

    /// Bytes from the segment's first byte to the end of its buffer: the most `set_len` takes.
    /// Example: [`Buf`].
    #[inline(always)]
    pub const fn capacity(&self) -> u32 {
        let size = self.class().size();
        size - (self.desc.offset() & (size - 1))
    }

    /// Sets the bytes of data. Example: [`Buf`].
    ///
    /// # Errors
    /// [`TooLong`] above [`capacity`](Buf::capacity); the length stays as it was.
    #[inline(always)]
    pub fn set_len(&mut self, len: u16) -> Result<(), TooLong> {
        if u32::from(len) > self.capacity() {
            return Err(TooLong { capacity: self.capacity() as u16 });
        }
        self.desc = self.desc.with_len(len);
        Ok(())
    }

    /// Sets whether the packet continues in the next buffer. Example: [`Buf`].
    #[inline(always)]
    pub const fn set_more(&mut self, more: bool) {
        self.desc = self.desc.with_more(more);
    }

    #[inline(always)]
    pub(crate) const fn class(&self) -> Class {
        if self.desc.small() { Class::Small } else { Class::Large }
    }

    /// The descriptor, for inspection. Example: [`Buf`].
    #[inline(always)]
    pub const fn desc(&self) -> Desc {
        self.desc
    }
}

impl Slot for Buf {
    #[inline(always)]
    fn desc(&self) -> Desc {
        self.desc
    }

    #[inline(always)]
    fn set(&mut self, desc: Desc, _: Sealed) {
        self.desc = desc;
    }
}

/// A length that the buffer does not hold: see [`Buf::set_len`].
///
/// ```
/// # use ccnic::{Burst, testing::{Sides, config}, ring::GroupedEpoch};
/// # let mut sides = Sides::<GroupedEpoch>::new(&config::<GroupedEpoch>());
/// # let (pair, mut burst) = (&mut sides.host, Burst::new());
/// # pair.alloc(100, 1, &mut burst);
/// let error = burst.iter_mut().next().and_then(|buf| buf.set_len(200).err());
/// assert_eq!(error.map(|error| error.to_string()).as_deref(), Some("the buffer holds 128 bytes"));
/// # pair.free(&mut burst);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooLong {
    /// Bytes that it holds.
    pub capacity: u16,
}

impl fmt::Display for TooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the buffer holds {} bytes", self.capacity)
    }
}

impl core::error::Error for TooLong {}

/// Up to [`Burst::CAPACITY`] buffers: `alloc` and `rx_burst` add to it, `tx_burst` and `free` remove from it.
///
/// The segments of a packet are in consecutive buffers, all but the last with [`Buf::more`].
///
/// ```
/// # use ccnic::{testing::{Sides, config}, ring::GroupedEpoch};
/// # let mut sides = Sides::<GroupedEpoch>::new(&config::<GroupedEpoch>());
/// # let pair = &mut sides.host;
/// use ccnic::Burst;
///
/// let mut burst = Burst::new();
/// pair.alloc(1500, 8, &mut burst);
/// let bytes: u32 = burst.as_slice().iter().map(|buf| u32::from(buf.len())).sum();
/// assert_eq!((burst.len(), burst.space(), bytes), (8, Burst::CAPACITY - 8, 12_000));
/// let mut rest = Burst::new();
/// while let Some(buf) = burst.pop() {
///     assert!(rest.push(buf).is_ok());
/// }
/// assert!(burst.is_empty());
/// rest.iter_mut().for_each(|buf| buf.set_meta(7));
/// let held: Vec<_> = rest.disown().collect(); // descriptors, for a program in another language
/// assert_eq!(pair.free_descs(held.into_iter(), &mut rest, ()), 8);
/// ```
///
/// **A burst that is dropped loses its buffers until the region ends**: it does not know their pool. Free what is left on every way out.
#[derive(Debug)]
#[must_use = "a dropped burst loses its buffers: free or transmit them"]
pub struct Burst {
    pub(crate) bufs: [Buf; Burst::CAPACITY],
    pub(crate) len: usize,
}

impl Default for Burst {
    fn default() -> Burst {
        Burst::new()
    }
}

impl<'a> IntoIterator for &'a Burst {
    type Item = &'a Buf;
    type IntoIter = core::slice::Iter<'a, Buf>;

    #[inline(always)]
    fn into_iter(self) -> Self::IntoIter {
        self.as_slice().iter()
    }
}

impl<'a> IntoIterator for &'a mut Burst {
    type Item = &'a mut Buf;
    type IntoIter = core::iter::Take<core::slice::IterMut<'a, Buf>>;

    #[inline(always)]
    fn into_iter(self) -> Self::IntoIter {
        self.bufs.iter_mut().take(self.len)
    }
}

impl Burst {
    /// Buffers that a burst can hold.
    pub const CAPACITY: usize = 64;

    /// An empty burst. Example: [`Burst`].
    pub const fn new() -> Burst {
        Burst { bufs: [const { Buf::NONE }; Burst::CAPACITY], len: 0 }
    }

    /// Number of buffers. Example: [`Burst`].
    #[inline(always)]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// True when there are none. Example: [`Burst`].
    #[inline(always)]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Buffers that still fit. Example: [`Burst`].
    #[inline(always)]
    pub const fn space(&self) -> usize {
        Burst::CAPACITY - self.len
    }

    /// The buffers, in order. Example: [`Burst`].
    #[inline(always)]
    pub fn as_slice(&self) -> &[Buf] {
        self.bufs.get(..self.len).unwrap_or_default()
    }

    /// The first `n` buffers, or all.
    #[inline(always)]
    pub(crate) fn first(&self, n: usize) -> &[Buf] {
        self.bufs.get(..n.min(self.len)).unwrap_or_default()
    }

    /// The buffers, in order, to set lengths and metadata. Example: [`Burst`].
    #[inline(always)]
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Buf> {
        self.bufs.iter_mut().take(self.len)
    }

    /// Adds a buffer at the end. Example: [`Burst`].
    ///
    /// # Errors
    /// The buffer, when the burst is full.
    #[inline(always)]
    pub fn push(&mut self, buf: Buf) -> Result<(), Buf> {
        match self.bufs.get_mut(self.len) {
            Some(slot) => {
                *slot = buf;
                self.len += 1;
                Ok(())
            }
            None => Err(buf),
        }
    }

    /// Removes the last buffer. Example: [`Burst`].
    #[inline(always)]
    pub fn pop(&mut self) -> Option<Buf> {
        let len = self.len.checked_sub(1)?;
        self.len = len;
        self.bufs.get_mut(len).map(|slot| core::mem::replace(slot, Buf::NONE))
    }

    /// Turns the buffers into plain descriptors, for a program in another language to hold; the burst is
    /// empty then. [`QueuePair::tx_descs`](crate::host::QueuePair::tx_descs) and
    /// [`free_descs`](crate::host::QueuePair::free_descs) take them back. Example: [`Burst`].
    #[inline(always)]
    pub fn disown(&mut self) -> impl ExactSizeIterator<Item = Desc> {
        let len = core::mem::take(&mut self.len);
        self.bufs.get(..len).unwrap_or_default().iter().map(Buf::desc)
    }

    /// Writes descriptors to the free slots, as many as there are, and returns them; `added` makes them part
    /// of the burst.
    #[inline(always)]
    pub(crate) fn take_up(&mut self, descs: impl Iterator<Item = Desc>, region: RegionTag) -> &[Buf] {
        let mut n = 0;
        let spare = self.spare(Burst::CAPACITY);
        for (slot, desc) in spare.iter_mut().zip(descs) {
            *slot = Buf::new(desc, region);
            n += 1;
        }
        spare.get(..n).unwrap_or_default()
    }

    /// The next `max` free slots, for the caller to write to; `added` makes them part of the burst.
    #[inline(always)]
    pub(crate) fn spare(&mut self, max: usize) -> &mut [Buf] {
        let end = self.len.saturating_add(max).min(Burst::CAPACITY);
        self.bufs.get_mut(self.len..end).unwrap_or_default()
    }

    /// The next `n` slots have been written: they are part of the burst.
    #[inline(always)]
    pub(crate) fn added(&mut self, n: usize) {
        self.len = (self.len + n).min(Burst::CAPACITY);
    }

    /// Forgets all buffers: the pool or the caller has them now.
    #[inline(always)]
    pub(crate) fn clear(&mut self) {
        self.len = 0;
    }

    /// Forgets the first `n` buffers: a ring or the pool has them now.
    #[inline(always)]
    pub(crate) fn remove_front(&mut self, n: usize) {
        if n < self.len {
            self.close_up(n);
        } else {
            self.len = 0;
        }
    }

    /// Moves what a full ring has not taken to the front.
    #[cold]
    #[inline(never)]
    fn close_up(&mut self, n: usize) {
        self.bufs.rotate_left(n);
        self.len -= n;
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    fn buf(desc: Desc) -> Buf {
        Buf::new(desc, RegionTag::NONE)
    }

    fn burst(n: u16) -> Burst {
        let mut b = Burst::new();
        for i in 0..n {
            b.push(buf(Desc::new(4096, i, 0))).unwrap();
        }
        b
    }

    fn lens(b: &Burst) -> Vec<u16> {
        b.as_slice().iter().map(Buf::len).collect()
    }

    #[test]
    fn bursts_keep_their_order() {
        let mut b = burst(5);
        b.remove_front(2);
        assert_eq!(lens(&b), [2, 3, 4]);
        assert_eq!(b.pop().map(|x| x.len()), Some(4));
        b.remove_front(9);
        assert!(b.is_empty() && b.pop().is_none());
    }

    #[test]
    fn a_full_burst_gives_the_buffer_back() {
        let mut b = burst(64);
        assert_eq!(b.space(), 0);
        assert_eq!(b.push(buf(Desc::new(0, 7, 0))).map_err(|x| x.len()), Err(7));
    }

    #[test]
    fn lengths_stay_inside_the_buffer() {
        let mut small = buf(Desc::new(4096 + 32, 0, crate::desc::FLAG_SMALL));
        assert_eq!((small.set_len(96), small.len()), (Ok(()), 96));
        assert_eq!((small.set_len(97), small.len()), (Err(TooLong { capacity: 96 }), 96));
    }
}
