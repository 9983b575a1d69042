//! Memory of the region that the program keeps, and that is sent without a copy on this side: the values of a store.
//!
//! * A value is written once, after [`alloc`](KeptMemory::alloc), and may be part of any number of datagrams at once.
//! * [`free`](KeptMemory::free) may be called at any time: the memory is given to another value when no datagram waits that has the
//!   value, and the NIC has released the last one that it got (`ccnic::host::KeptBuf`: the position in the ring says so, nothing is
//!   counted per packet).
//! * When the NIC ends, values stay. What it held is released when the next one has taken over; a NIC that does not know such segments gets
//!   copies.
//!
//! ```no_run
//! use std::net::SocketAddr;
//!
//! use ccnic_tcp::{Datagrams, Kept, Options, Reply, Stack};
//!
//! /// A store of one value: an empty request asks for it, another one replaces it.
//! struct Store(Option<Kept>);
//!
//! impl Datagrams for Store {
//!     fn datagram(&mut self, _: SocketAddr, _: SocketAddr, payload: &[u8], reply: &mut Reply<'_>) {
//!         if payload.is_empty() {
//!             let Some(value) = &self.0 else { return };
//!             reply.put(b"VALUE ");
//!             reply.put_kept(value, 0..value.len()); // not copied
//!             reply.put(b"\r\n");
//!             return;
//!         }
//!         let memory = reply.kept();
//!         if let Some(mut new) = memory.alloc(payload.len()) {
//!             assert!(memory.write(&mut new, 0, payload));
//!             if let Some(old) = self.0.replace(new) {
//!                 memory.free(old); // used again when no answer with it is under way
//!             }
//!         }
//!     }
//! }
//!
//! let mut options = Options::new("10.9.0.2/24".parse()?);
//! options.kept = 64 << 20;
//! let mut stack = Stack::open("/tmp/nic.sock", &options)?;
//! stack.bind(11211)?;
//! let mut store = Store(None);
//! loop {
//!     stack.poll_datagrams(&mut store);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub(crate) mod runs;

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

use ccnic::SharedMemory;
use ccnic::desc::CHAIN_MAX;
use ccnic_client::{Burst, KeptBuf, KeptPart, QueuePair};
use ccnic_shm::NativeMemory;

use runs::{PAGE, Run, Runs, UNIT};

/// Parts of kept memory in one datagram at most: the rest of a chain behind its headers.
pub(crate) const PARTS: usize = CHAIN_MAX - 1;
/// Pieces that a value has for each page of its length at most: so that a datagram has room for all pieces of one.
const PIECES_PER_PAGE: usize = 2;
const NONE: u32 = u32::MAX;

/// Tells the values of one stack from those of another.
static STORES: AtomicU32 = AtomicU32::new(0);

/// A value in kept memory: what [`KeptMemory::alloc`] gives out. One that is dropped takes its memory along until the stack is closed:
/// give it to [`KeptMemory::free`]. Example: [the module](self).
#[derive(Debug)]
#[must_use = "the memory of a dropped value is lost to its stack: free it"]
pub struct Kept {
    store: u32,
    value: u32,
    len: u32,
}

impl Kept {
    /// Bytes of the value.
    pub const fn len(&self) -> usize {
        self.len as usize
    }

    /// True when there are none.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// Bytes that lie together in a page.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Part {
    value: u32,
    page: u32,
    at: u16,
    len: u16,
}

impl Part {
    pub(crate) fn len(&self) -> usize {
        self.len.into()
    }
}

/// What is known of a value.
#[derive(Debug, Clone, Copy)]
struct Value {
    first: u32,
    /// Parts of it in datagrams that wait to be sent.
    waiting: u32,
    /// The position in the ring after the last datagram with it; 0: there was none.
    mark: u64,
}

/// A piece of a value; the next one of the value, or of the free ones, is a number, too.
#[derive(Debug, Clone, Copy)]
struct Piece {
    run: Run,
    next: u32,
}

/// Entries by number, the free ones used again.
#[derive(Debug)]
struct Table<T> {
    entries: Vec<T>,
    free: Vec<u32>,
}

impl<T: Copy> Table<T> {
    fn add(&mut self, entry: T) -> u32 {
        match self.free.pop() {
            Some(at) => {
                self.entries[at as usize] = entry;
                at
            }
            None => {
                self.entries.push(entry);
                self.entries.len() as u32 - 1
            }
        }
    }

    fn get(&self, at: u32) -> Option<T> {
        self.entries.get(at as usize).copied()
    }
}

/// A value's place, for threads that have no part in its stack. Made by [`KeptMemory::places`], whose caller promises that the value
/// stays as it is.
#[derive(Debug)]
pub struct Places {
    mem: NativeMemory,
    parts: [(u32, u16); PARTS],
}

impl Places {
    /// Lends the bytes of the value, piece by piece: at most 4096 at once.
    pub fn read(&self, mut f: impl FnMut(&[u8])) {
        for (offset, len) in self.parts.iter().take_while(|(_, len)| *len > 0) {
            self.mem.with(*offset, (*len).into(), &mut f);
        }
    }
}

/// Memory for values, in the region of a stack: as much as [`Options::kept`](crate::Options::kept) says. Got by
/// [`Stack::kept`](crate::Stack::kept), and by [`Reply::kept`](crate::Reply::kept) while datagrams are handled. Values of one stack
/// cannot be used with another one. Example: [the module](self).
#[derive(Debug)]
pub struct KeptMemory {
    store: u32,
    mem: NativeMemory,
    pages: Vec<Page>,
    runs: Runs,
    values: Table<Value>,
    pieces: Table<Piece>,
    /// Freed values that may be under way, the oldest first.
    leaving: VecDeque<u32>,
    leaving_units: usize,
}

#[derive(Debug)]
struct Page {
    buf: KeptBuf,
    offset: u32,
}

impl KeptMemory {
    /// Takes so many bytes, rounded up to pages, of the pool.
    pub(crate) fn new(mem: NativeMemory, pair: &mut QueuePair, bytes: usize) -> KeptMemory {
        let (wanted, mut burst) = (bytes.div_ceil(PAGE), Burst::new());
        let mut pages = Vec::with_capacity(wanted);
        while pages.len() < wanted
            && pair.alloc(PAGE as u16, Burst::CAPACITY.min(wanted - pages.len()), &mut burst) > 0
        {
            while let Some(buf) = burst.pop() {
                pages.push(Page { offset: buf.desc().offset(), buf: pair.keep(buf) });
            }
        }
        let entries = pages.len() * (PAGE / UNIT);
        KeptMemory {
            store: STORES.fetch_add(1, Ordering::Relaxed),
            mem,
            runs: Runs::new(pages.len() as u32),
            pages,
            // A table grows to this only if all values are of one unit; the system gives memory that is written to.
            values: Table { entries: Vec::with_capacity(entries), free: Vec::with_capacity(entries) },
            pieces: Table { entries: Vec::with_capacity(entries), free: Vec::with_capacity(entries) },
            leaving: VecDeque::with_capacity(entries),
            leaving_units: 0,
        }
    }

    /// Bytes that [`alloc`](KeptMemory::alloc) can give out. A value takes a multiple of 256 bytes.
    pub fn available(&self) -> usize {
        self.runs.free() * UNIT
    }

    /// Bytes of freed values that may still be under way: they become available in later polls.
    pub fn leaving(&self) -> usize {
        self.leaving_units * UNIT
    }

    /// Memory for a value of so many bytes, to be [written](KeptMemory::write) before it is sent; what is in it is not defined. `None`
    /// when there is not enough, or it lies in too many places: free others, and poll if some are [leaving](KeptMemory::leaving).
    pub fn alloc(&mut self, len: usize) -> Option<Kept> {
        let (mut units, mut left) = (len.div_ceil(UNIT), PIECES_PER_PAGE * len.div_ceil(PAGE));
        let size = u32::try_from(len).ok()?;
        if units > self.runs.free() {
            return None;
        }
        let (mut first, mut last) = (NONE, NONE);
        while units > 0 {
            let run = if left > 0 { self.runs.take(units.min(PAGE / UNIT) as u32) } else { None };
            let Some(run) = run else {
                self.give_pieces(first);
                return None;
            };
            let piece = self.pieces.add(Piece { run, next: NONE });
            match self.pieces.entries.get_mut(last as usize) {
                Some(before) => before.next = piece,
                None => first = piece,
            }
            (last, left, units) = (piece, left - 1, units - usize::from(run.units));
        }
        let value = self.values.add(Value { first, waiting: 0, mark: 0 });
        Some(Kept { store: self.store, value, len: size })
    }

    fn give_pieces(&mut self, first: u32) -> usize {
        let (mut at, mut units) = (first, 0);
        while let Some(piece) = self.pieces.get(at) {
            self.runs.give(piece.run);
            self.pieces.free.push(at);
            (at, units) = (piece.next, units + usize::from(piece.run.units));
        }
        units
    }

    /// The value, if it is one of this stack.
    fn value(&self, kept: &Kept) -> Option<Value> {
        if kept.store == self.store { self.values.get(kept.value) } else { None }
    }

    /// Writes bytes of a value that has not been sent yet. False, and nothing is written, when it has been, when it is shorter, or when
    /// it is another stack's.
    #[must_use]
    pub fn write(&mut self, kept: &mut Kept, at: usize, bytes: &[u8]) -> bool {
        let fresh = self.value(kept).is_some_and(|value| value.mark == 0 && value.waiting == 0);
        let Some(end) = at.checked_add(bytes.len()).filter(|end| fresh && *end <= kept.len()) else {
            return false;
        };
        let mut rest = bytes;
        for part in self.parts(kept, at..end) {
            let (now, later) = rest.split_at(usize::from(part.len).min(rest.len()));
            self.mem.write(self.offset(&part), now);
            rest = later;
        }
        true
    }

    /// Lends bytes of a value, piece by piece: at most 4096 at once. Nothing when it has not so many, or is another stack's.
    pub fn read(&self, kept: &Kept, range: Range<usize>, mut f: impl FnMut(&[u8])) {
        for part in self.parts(kept, range) {
            self.mem.with(self.offset(&part), part.len.into(), &mut f);
        }
    }

    /// Whether a value is one of this stack.
    pub fn owns(&self, kept: &Kept) -> bool {
        kept.store == self.store
    }

    /// Where a value lies. `None` when that is in more places than a datagram can have, or when it is another stack's.
    ///
    /// # Safety
    /// The value is neither [written](KeptMemory::write) nor [freed](KeptMemory::free) while a [`Places::read`] of it runs, on whatever
    /// thread: its bytes are lent without a lock.
    #[expect(unsafe_code, reason = "another thread reads what this one may free")]
    pub unsafe fn places(&self, kept: &Kept) -> Option<Places> {
        let (mut parts, mut left, mut n) = ([(0, 0); PARTS], kept.len(), 0);
        for part in self.parts(kept, 0..kept.len()) {
            *parts.get_mut(n)? = (self.offset(&part), part.len);
            (left, n) = (left - part.len(), n + 1);
        }
        (left == 0).then(|| Places { mem: self.mem.clone(), parts })
    }

    /// Gives a value back, whether it is under way or not.
    pub fn free(&mut self, kept: Kept) {
        let Some(value) = self.value(&kept) else { return };
        if value.waiting == 0 && value.mark == 0 {
            self.forget(kept.value);
        } else {
            self.leaving_units += self.units(value);
            self.leaving.push_back(kept.value);
        }
    }

    fn units(&self, value: Value) -> usize {
        let pieces = std::iter::successors(self.pieces.get(value.first), |piece| self.pieces.get(piece.next));
        pieces.map(|piece| usize::from(piece.run.units)).sum()
    }

    fn forget(&mut self, value: u32) -> usize {
        let first = self.values.get(value).map_or(NONE, |value| value.first);
        self.values.free.push(value);
        self.give_pieces(first)
    }

    /// Freed values are under way.
    #[inline]
    pub(crate) fn is_leaving(&self) -> bool {
        !self.leaving.is_empty()
    }

    /// Makes freed values available that are no longer under way.
    #[inline]
    pub(crate) fn reclaim(&mut self, pair: &mut QueuePair) {
        while let Some(front) = self.leaving.front().copied() {
            let under_way = |value: Value| value.waiting > 0 || !pair.tx_released(value.mark);
            if self.values.get(front).is_some_and(under_way) {
                return;
            }
            self.leaving.pop_front();
            self.leaving_units -= self.forget(front);
        }
    }

    /// Where bytes of a value lie; nothing when it has not so many, or is another stack's.
    pub(crate) fn parts(&self, kept: &Kept, range: Range<usize>) -> impl Iterator<Item = Part> {
        let value = self.value(kept).filter(|_| range.start < range.end && range.end <= kept.len());
        let (mut skip, mut left) = (range.start, range.len());
        let mut next = value.map_or(NONE, |value| value.first);
        std::iter::from_fn(move || {
            while left > 0 {
                let piece = self.pieces.get(next)?;
                next = piece.next;
                let size = usize::from(piece.run.units) * UNIT;
                if skip >= size {
                    skip -= size;
                    continue;
                }
                let at = usize::from(piece.run.first) * UNIT + skip;
                let len = (size - skip).min(left);
                (skip, left) = (0, left - len);
                return Some(Part {
                    value: kept.value,
                    page: piece.run.page,
                    at: at as u16,
                    len: len as u16,
                });
            }
            None
        })
    }

    pub(crate) fn offset(&self, part: &Part) -> u32 {
        self.pages.get(part.page as usize).map_or(0, |page| page.offset + u32::from(part.at))
    }

    /// Writes behind a part, in units that are its value's.
    pub(crate) fn extend(&self, part: &mut Part, bytes: &[u8]) {
        self.mem.write(self.offset(part) + u32::from(part.len), bytes);
        part.len += bytes.len() as u16;
    }

    /// A part is in a datagram that will be sent.
    pub(crate) fn waits(&mut self, part: &Part) {
        if let Some(value) = self.values.entries.get_mut(part.value as usize) {
            value.waiting += 1;
        }
    }

    /// It is not, or it has been sent: the NIC releases it when it has released what is before `mark`; 0: it has got a copy.
    pub(crate) fn waits_no_longer(&mut self, part: &Part, mark: u64) {
        if let Some(value) = self.values.entries.get_mut(part.value as usize) {
            value.waiting -= 1;
            value.mark = if mark == 0 { value.mark } else { mark };
        }
    }

    /// A part as a segment.
    #[inline]
    pub(crate) fn segment(&self, part: &Part) -> Option<KeptPart<'_>> {
        self.pages.get(part.page as usize)?.buf.part(part.at..part.at + part.len)
    }

    /// Returns all memory to the pool, what the NIC has not released when it has.
    pub(crate) fn retire(&mut self, pair: &mut QueuePair) {
        for page in self.pages.drain(..) {
            let _ = pair.free_kept(page.buf); // the whole buffer, of this queue pair
        }
        self.runs = Runs::new(0);
    }
}
