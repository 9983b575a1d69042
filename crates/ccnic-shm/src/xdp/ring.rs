//! The rings of an AF_XDP socket: memory that this process shares with the kernel.
//!
//! The diagram of net/xdp/xsk_queue.h, whose other half is in the kernel:
//!
//! ```text
//!   producer                              consumer
//!
//!   load.acquire consumer      (A)        load.acquire producer     (C)
//!   write entries                         read entries
//!   store.release producer     (B)        store.release consumer    (D)
//! ```
//!
//! C reads what B has stored, so the entries that are read are those that were written; A reads what D has stored, so an entry is written
//! again only after it was read. The kernel is believed what it writes into entries only as far as the caller checks it; its positions are
//! bounded here: whatever they are, no access leaves the ring.

use std::marker::PhantomData;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::net::xdp::XdpRingOffset;

/// The kernel asks to be woken (`XDP_RING_NEED_WAKEUP`).
const NEED_WAKEUP: u32 = 1;
/// A packet goes on in the next descriptor (`XDP_PKT_CONTD`).
const CONTINUES: u32 = 1;

/// A piece of a packet (`struct xdp_desc`).
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Descriptor {
    /// Where it lies in the UMEM.
    pub addr: u64,
    /// Bytes.
    pub len: u32,
    options: u32,
}

impl Descriptor {
    /// A piece; `more`: the packet goes on in the next one.
    #[inline(always)]
    pub fn new(addr: u64, len: u32, more: bool) -> Descriptor {
        Descriptor { addr, len, options: if more { CONTINUES } else { 0 } }
    }

    /// True when the packet goes on in the next descriptor.
    #[inline(always)]
    pub fn more(self) -> bool {
        self.options & CONTINUES != 0
    }
}

/// What rings consist of: plain old data.
pub trait Entry: Copy + Send + private::Sealed {}
impl Entry for u64 {}
impl Entry for Descriptor {}

mod private {
    pub trait Sealed {}
    impl Sealed for u64 {}
    impl Sealed for super::Descriptor {}
}

/// A ring that is mapped; unmapped when dropped.
#[derive(Debug)]
struct Shared<T> {
    base: NonNull<u8>,
    bytes: usize,
    /// Offsets in the mapping, which have been checked.
    producer: usize,
    consumer: usize,
    flags: Option<usize>,
    entries: usize,
    mask: u32,
    of: PhantomData<T>,
}

// SAFETY: plain memory without thread affinity. The positions are accessed as atomics; entries by one side at a time, by the protocol.
unsafe impl<T: Entry> Send for Shared<T> {}

impl<T: Entry> Shared<T> {
    /// Maps the ring of `len` entries, a power of two, that `fd` has at `page`.
    fn map(fd: BorrowedFd<'_>, page: u64, at: &XdpRingOffset, len: u32) -> rustix::io::Result<Shared<T>> {
        let place = |offset: u64, align: usize| {
            usize::try_from(offset)
                .ok()
                .filter(|at| at.is_multiple_of(align) && *at < 1 << 20)
                .ok_or(Errno::INVAL)
        };
        let entries = place(at.desc, align_of::<T>())?;
        let bytes = entries + len as usize * size_of::<T>();
        let word = |offset: u64| {
            place(offset, 4).and_then(|at| if at + 4 <= bytes { Ok(at) } else { Err(Errno::INVAL) })
        };
        let (producer, consumer) = (word(at.producer)?, word(at.consumer)?);
        let flags = at.flags.map(word).transpose()?;
        if !len.is_power_of_two() {
            return Err(Errno::INVAL);
        }
        let (protection, how) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::POPULATE);
        // SAFETY: a new mapping at an address of the kernel's choice aliases nothing.
        let base = unsafe { mmap(std::ptr::null_mut(), bytes, protection, how, fd, page)? };
        let base = NonNull::new(base.cast()).ok_or(Errno::NOMEM)?;
        Ok(Shared { base, bytes, producer, consumer, flags, entries, mask: len - 1, of: PhantomData })
    }

    #[inline(always)]
    fn word(&self, at: usize) -> &AtomicU32 {
        // SAFETY: `at` is one of the offsets that `map` has checked: four bytes aligned to four, inside the mapping, which lives as long as
        // self. Both sides access it as an atomic word only.
        unsafe { &*self.base.as_ptr().add(at).cast::<AtomicU32>() }
    }

    #[inline(always)]
    fn len(&self) -> u32 {
        self.mask + 1
    }

    /// The entry of a position.
    #[inline(always)]
    fn entry(&self, position: u32) -> *mut T {
        // SAFETY: masked, the position is less than the number of entries, all of which are inside the mapping (`map`).
        unsafe { self.base.as_ptr().add(self.entries).cast::<T>().add((position & self.mask) as usize) }
    }

    #[inline(always)]
    fn needs_wakeup(&self) -> bool {
        // Before 5.4 rings have no flags, and the kernel is to be woken always.
        self.flags.is_none_or(|at| self.word(at).load(Relaxed) & NEED_WAKEUP != 0)
    }
}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, and nothing borrows from it any more.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

/// A ring into which this process puts entries: `fill`, `tx`.
#[derive(Debug)]
pub struct Producer<T: Entry> {
    shared: Shared<T>,
    /// Written, and published.
    written: u32,
    published: u32,
    /// The consumer's position as it was seen last.
    consumed: u32,
}

impl<T: Entry> Producer<T> {
    pub(super) fn map(
        fd: BorrowedFd<'_>,
        page: u64,
        at: &XdpRingOffset,
        len: u32,
    ) -> rustix::io::Result<Producer<T>> {
        let shared = Shared::map(fd, page, at, len)?;
        let written = shared.word(shared.producer).load(Relaxed);
        let consumed = shared.word(shared.consumer).load(Relaxed);
        Ok(Producer { shared, written, published: written, consumed })
    }

    /// Entries that can be pushed, as far as is known; looks at the consumer when there are fewer than `wanted`.
    #[inline(always)]
    pub fn room(&mut self, wanted: u32) -> u32 {
        let known = self.shared.len().saturating_sub(self.written.wrapping_sub(self.consumed));
        if known >= wanted {
            return known;
        }
        self.consumed = self.shared.word(self.shared.consumer).load(Acquire); // (A)
        self.shared.len().saturating_sub(self.written.wrapping_sub(self.consumed))
    }

    /// Puts an entry in, which the kernel sees from [`publish`](Self::publish) on. False where there is no room.
    #[inline(always)]
    pub fn push(&mut self, entry: T) -> bool {
        if self.room(1) == 0 {
            return false;
        }
        // SAFETY: inside the mapping (`entry`). The kernel does not read entries beyond the producer's position, and has read this one
        // (A). It is written by this side only.
        unsafe { self.shared.entry(self.written).write(entry) };
        self.written = self.written.wrapping_add(1);
        true
    }

    /// Shows the kernel what was pushed.
    #[inline(always)]
    pub fn publish(&mut self) {
        if self.published != self.written {
            self.published = self.written;
            self.shared.word(self.shared.producer).store(self.written, Release); // (B)
        }
    }

    /// Takes back what was pushed since the last [`publish`](Self::publish), but for the first `keep` entries.
    pub fn forget(&mut self, keep: u32) {
        let pushed = self.written.wrapping_sub(self.published);
        self.written = self.published.wrapping_add(keep.min(pushed));
    }

    /// Takes back the last entry that was published, if the kernel has not consumed it. Only where the kernel consumes within calls
    /// of this thread: the `tx` ring of a socket that copies.
    pub fn unpublish(&mut self) -> Option<T> {
        self.forget(0);
        self.consumed = self.shared.word(self.shared.consumer).load(Acquire);
        let waiting = self.written.wrapping_sub(self.consumed);
        if waiting == 0 || waiting > self.shared.len() {
            return None;
        }
        self.written = self.written.wrapping_sub(1);
        self.published = self.written;
        self.shared.word(self.shared.producer).store(self.written, Release);
        // SAFETY: inside the mapping (`entry`); this side has written the entry.
        Some(unsafe { self.shared.entry(self.written).read() })
    }

    /// Entries published that the kernel has not consumed.
    #[inline(always)]
    pub fn waiting(&mut self) -> u32 {
        self.consumed = self.shared.word(self.shared.consumer).load(Acquire); // (A)
        self.published.wrapping_sub(self.consumed).min(self.shared.len())
    }

    /// True when the kernel has consumed all that was published. Remembers nothing.
    pub fn is_consumed(&self) -> bool {
        self.shared.word(self.shared.consumer).load(Acquire) == self.published
    }

    /// True when the kernel is to be woken before it looks at what was published.
    #[inline(always)]
    pub fn needs_wakeup(&self) -> bool {
        self.shared.needs_wakeup()
    }
}

/// A ring out of which this process takes entries: `rx`, completion.
#[derive(Debug)]
pub struct Consumer<T: Entry> {
    shared: Shared<T>,
    /// Our position.
    taken: u32,
    /// The producer's position as it was seen last.
    produced: u32,
}

impl<T: Entry> Consumer<T> {
    pub(super) fn map(
        fd: BorrowedFd<'_>,
        page: u64,
        at: &XdpRingOffset,
        len: u32,
    ) -> rustix::io::Result<Consumer<T>> {
        let shared = Shared::map(fd, page, at, len)?;
        let taken = shared.word(shared.consumer).load(Relaxed);
        Ok(Consumer { shared, taken, produced: taken })
    }

    /// Looks at the producer; returns the entries that can be read.
    #[inline(always)]
    pub fn available(&mut self) -> u32 {
        self.produced = self.shared.word(self.shared.producer).load(Acquire); // (C)
        self.produced.wrapping_sub(self.taken).min(self.shared.len())
    }

    /// True when there is an entry that was not released. Remembers nothing.
    pub fn has_more(&self) -> bool {
        self.shared.word(self.shared.producer).load(Acquire) != self.taken
    }

    /// The entry that lies so many behind the first; `None` where none is [available](Self::available).
    #[inline(always)]
    pub fn peek(&self, behind: u32) -> Option<T> {
        if behind >= self.produced.wrapping_sub(self.taken).min(self.shared.len()) {
            return None;
        }
        // SAFETY: inside the mapping (`entry`). The kernel has written the entry (C), and writes it again after it was released only. Were
        // it otherwise, the bytes would be torn, which is a value of every `Entry`.
        Some(unsafe { self.shared.entry(self.taken.wrapping_add(behind)).read_volatile() })
    }

    /// Hands the first `n` entries back, which have been read.
    #[inline(always)]
    pub fn release(&mut self, n: u32) {
        let n = n.min(self.produced.wrapping_sub(self.taken));
        if n > 0 {
            self.taken = self.taken.wrapping_add(n);
            self.shared.word(self.shared.consumer).store(self.taken, Release); // (D)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
    use std::os::fd::{AsFd, OwnedFd};

    const AT: XdpRingOffset = XdpRingOffset { producer: 0, consumer: 64, desc: 192, flags: Some(128) };

    /// A file in place of the kernel's rings.
    fn file() -> OwnedFd {
        let fd = memfd_create("ring", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&fd, 64 << 10).unwrap();
        fd
    }

    /// The two ends of one ring, in one process.
    fn ends(fd: &OwnedFd) -> (Producer<u64>, Consumer<u64>) {
        (Producer::map(fd.as_fd(), 0, &AT, 8).unwrap(), Consumer::map(fd.as_fd(), 0, &AT, 8).unwrap())
    }

    #[test]
    fn what_is_published_arrives_in_order_and_a_full_ring_takes_nothing() {
        let fd = file();
        let (mut ours, mut theirs) = ends(&fd);
        let (mut sent, mut got) = (0, 0);
        for round in 0..100u64 {
            let before = sent;
            while ours.push(sent) {
                sent += 1;
            }
            let pushed = (sent - before) as u32;
            assert_eq!(
                (ours.room(1), theirs.available()),
                (0, (sent - got) as u32 - pushed),
                "not published"
            );
            ours.publish();
            let n = theirs.available().min(1 + round as u32 % 7);
            for i in 0..n {
                assert_eq!(theirs.peek(i), Some(got));
                got += 1;
            }
            theirs.release(n);
        }
        assert_eq!(ours.waiting(), (sent - got) as u32);
        assert!(sent > 300);
    }

    #[test]
    fn pushes_are_forgotten_and_published_entries_taken_back() {
        let fd = file();
        let (mut ours, mut theirs) = ends(&fd);
        assert!((10..14).all(|n| ours.push(n)));
        ours.forget(1);
        ours.publish();
        assert!(ours.push(20));
        assert_eq!((theirs.available(), theirs.peek(0), theirs.peek(1)), (1, Some(10), None));
        assert_eq!(ours.unpublish(), Some(10), "and what was pushed after it is forgotten");
        assert_eq!((ours.unpublish(), ours.room(8)), (None, 8));
    }

    #[test]
    fn positions_that_make_no_sense_leave_no_ring() {
        let fd = file();
        let (mut ours, mut theirs) = ends(&fd);
        ours.shared.word(AT.consumer as usize).store(0x8000_0000, Relaxed);
        assert_eq!((ours.room(9), ours.push(1), ours.unpublish()), (0, false, None));
        assert!(ours.waiting() <= 8);
        ours.shared.word(AT.producer as usize).store(0x7654_3210, Relaxed);
        assert_eq!(theirs.available(), 8);
        assert_eq!((theirs.peek(7).is_some(), theirs.peek(8)), (true, None));
        theirs.release(u32::MAX);
        assert_eq!(theirs.available(), 0);
    }

    #[test]
    fn offsets_outside_the_mapping_are_refused() {
        let fd = file();
        for at in [
            XdpRingOffset { producer: 4096, ..AT },
            XdpRingOffset { consumer: 2, ..AT },
            XdpRingOffset { desc: 193, ..AT },
            XdpRingOffset { desc: u64::MAX, ..AT },
            XdpRingOffset { flags: Some(1 << 40), ..AT },
        ] {
            assert_eq!(Producer::<u64>::map(fd.as_fd(), 0, &at, 8).err(), Some(Errno::INVAL), "{at:?}");
        }
        assert_eq!(Producer::<u64>::map(fd.as_fd(), 0, &AT, 7).err(), Some(Errno::INVAL));
    }

    #[test]
    fn the_kernel_asks_to_be_woken() {
        let fd = file();
        let (ours, _) = ends(&fd);
        assert!(!ours.needs_wakeup());
        ours.shared.word(128).store(NEED_WAKEUP, Relaxed);
        assert!(ours.needs_wakeup());
    }

    #[test]
    fn a_descriptor_is_the_kernels() {
        assert_eq!(size_of::<Descriptor>(), size_of::<libc::xdp_desc>());
        assert_eq!(std::mem::offset_of!(Descriptor, len), std::mem::offset_of!(libc::xdp_desc, len));
        assert_eq!(std::mem::offset_of!(Descriptor, options), std::mem::offset_of!(libc::xdp_desc, options));
        assert!(Descriptor::new(1, 2, true).more() && !Descriptor::new(1, 2, false).more());
    }
}
