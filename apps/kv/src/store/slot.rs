//! One item of a shard: a cache line of what changes, and the bytes, which never change.

use std::sync::Arc;

use super::kept::KeptValue;

/// No slot: the end of a list.
pub(crate) const NONE: u32 = u32::MAX;

/// It has been read since it was stored (`h` of `mg`, `fetch` of `me`).
pub(crate) const FETCHED: u8 = 1;
/// It has been read since it was last at the tail of its list: it gets a second lap.
pub(crate) const ACTIVE: u8 = 2;
/// It was invalidated; clients get it with `X` until it is stored anew.
pub(crate) const STALE: u8 = 4;
/// A client has been told to fetch it anew (`W`); the others get `Z`.
pub(crate) const TOKEN_SENT: u8 = 8;
/// Its key came in base64, and goes out so.
pub(crate) const BINARY_KEY: u8 = 16;

/// Its value is in memory that a NIC reads: `kept.rs`.
pub(crate) const KEPT: u8 = 32;
/// The value has been sent from there since the clock's hand passed it last.
pub(crate) const KEPT_SENT: u8 = 64;

/// What memcached counts for an item beside key, value, flags and CAS id: its header, a zero behind the key. Limits on the size of
/// items, and the sizes that `me` and `stats items` tell, are computed with it, so that they are those that users know.
const MEMCACHED_HEADER: usize = 48 + 1;
/// Bytes of a CAS id.
const CAS: usize = 8;

/// What an item costs here besides its bytes: slot, place in the index at its usual load, two counts of references, the allocator's word.
const OVERHEAD: usize = 64 + 12 + 16 + 8;

/// An item, or a free place for one.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Slot {
    pub(crate) hash: u64,
    pub(crate) cas: u64,
    /// Key, value, CRLF: as the text protocol sends it. A reply in flight holds a reference. With [`KEPT`]: [`body_of_kept`].
    pub(crate) body: Option<Arc<[u8]>>,
    pub(crate) flags: u32,
    /// Unix time in seconds, 0: never.
    pub(crate) expires: u32,
    /// When it was stored or read last.
    pub(crate) time: u32,
    /// The number of the [`super::stats::Sizes`] that count it, 0: none.
    pub(crate) sized: u32,
    /// Towards the head of the LRU list.
    pub(crate) prev: u32,
    /// Towards the tail, or the next free slot.
    pub(crate) next: u32,
    pub(crate) key_len: u8,
    pub(crate) class: u8,
    pub(crate) bits: u8,
}

impl Slot {
    pub(crate) const FREE: Slot = Slot {
        hash: 0,
        cas: 0,
        body: None,
        flags: 0,
        expires: 0,
        time: 0,
        sized: 0,
        prev: NONE,
        next: NONE,
        key_len: 0,
        class: 0,
        bits: 0,
    };

    fn bytes(&self) -> &[u8] {
        self.body.as_deref().unwrap_or_default()
    }

    /// Its key.
    pub(crate) fn key(&self) -> &[u8] {
        &self.bytes()[..usize::from(self.key_len)]
    }

    /// What is behind the key: the value with CRLF behind it, which is to be on the heap.
    pub(crate) fn value_line(&self) -> &[u8] {
        &self.bytes()[usize::from(self.key_len)..]
    }

    /// Its value, which is to be on the heap.
    pub(crate) fn value(&self) -> &[u8] {
        debug_assert!(!self.has(KEPT));
        let line = self.value_line();
        &line[..line.len().saturating_sub(2)]
    }

    /// The number of its value among the kept ones, and the value's length.
    fn ticket(&self) -> Option<(u32, u32)> {
        let (number, len) = self.value_line().split_first_chunk::<4>().filter(|_| self.has(KEPT))?;
        Some((u32::from_le_bytes(*number), u32::from_le_bytes(*len.first_chunk()?)))
    }

    /// The number of its value among the kept ones, if it is one.
    pub(crate) fn kept(&self) -> Option<u32> {
        Some(self.ticket()?.0)
    }

    /// Bytes of the value, wherever it is.
    pub(crate) fn value_len(&self) -> usize {
        self.ticket().map_or_else(|| self.value_line().len().saturating_sub(2), |(_, len)| len as usize)
    }

    pub(crate) fn has(&self, bit: u8) -> bool {
        self.bits & bit != 0
    }

    /// What the item costs of the store's memory.
    pub(crate) fn footprint(&self) -> usize {
        footprint(usize::from(self.key_len) + self.value_len() + 2)
    }

    /// The size that memcached would tell, with CAS ids or without.
    pub(crate) fn total(&self, cas: bool) -> usize {
        total(cas, self.key_len.into(), self.flags, self.value_len())
    }
}

/// The body of an item whose value is kept: the key, the value's number and its length.
#[cfg(feature = "server")]
pub(crate) fn body_of_kept(key: &[u8], number: u32, len: usize) -> Arc<[u8]> {
    let (mut body, end) = ([0; super::MAX_KEY + 8], key.len() + 8);
    body[..key.len()].copy_from_slice(key);
    body[key.len()..key.len() + 4].copy_from_slice(&number.to_le_bytes());
    body[key.len() + 4..end].copy_from_slice(&(len as u32).to_le_bytes());
    Arc::from(&body[..end])
}

/// An item's value, where it lies.
#[derive(Clone, Copy, Debug)]
pub enum Content<'a> {
    /// On the heap.
    Heap(&'a [u8]),
    /// In memory that a NIC reads.
    Kept(&'a KeptValue),
}

impl Content<'_> {
    /// Bytes on the heap: those of the value, if it is there.
    pub fn heap_len(&self) -> usize {
        match self {
            Content::Heap(bytes) => bytes.len(),
            Content::Kept(_) => 0,
        }
    }

    /// Lends the bytes, piece by piece.
    pub fn lend(&self, mut f: impl FnMut(&[u8])) {
        match self {
            Content::Heap(bytes) => f(bytes),
            Content::Kept(value) => value.lend(f),
        }
    }
}

/// What `bytes` bytes of key, value and CRLF cost: the allocator rounds up to 16.
pub(crate) fn footprint(bytes: usize) -> usize {
    OVERHEAD + bytes.next_multiple_of(16)
}

/// The size that memcached counts for an item.
pub(crate) fn total(cas: bool, key: usize, flags: u32, value: usize) -> usize {
    MEMCACHED_HEADER + if cas { CAS } else { 0 } + key + if flags == 0 { 0 } else { 4 } + value + 2
}

/// An item's value, CRLF included, that a reply refers to. The item may be overwritten, deleted or evicted meanwhile: the bytes stay
/// until the last reply has let go of them.
#[derive(Clone, Debug)]
pub struct Value {
    body: Arc<[u8]>,
    start: u32,
}

impl Value {
    /// Of the bytes of an item on the heap, behind a key of this length.
    pub(super) fn new(body: Arc<[u8]>, key_len: u8) -> Value {
        Value { body, start: key_len.into() }
    }

    /// Value and CRLF.
    pub fn bytes(&self) -> &[u8] {
        &self.body[self.start as usize..]
    }
}
