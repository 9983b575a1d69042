//! A region in this process's address space, built so that no offset can leave it.
//!
//! Each mapping sits at the start of [`SPAN`] bytes of reserved, inaccessible address space: every 32-bit
//! offset plus every 32-bit length stays inside the reservation. An access beyond the region's bytes faults
//! instead of reaching other memory, without a check in the hot path (the way WebAssembly engines bound their
//! memories).

use std::ffi::c_void;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::NonNull;
use std::sync::Once;
use std::sync::atomic::{AtomicU8, Ordering};

use rustix::io::Errno;
use rustix::mm::{
    Advice, MapFlags, MlockFlags, ProtFlags, madvise, mlock_with, mmap, mmap_anonymous, munmap,
};

use crate::extents::{Pins, collapse_mapped};
use crate::freeze::{Frozen, freeze};
use crate::holes::{self, Entered};
use crate::region::HUGE_PAGE;

/// Address space that one mapping reserves: any `u32` offset plus any `u32` length, plus a line.
pub(crate) const SPAN: usize = (2 << 32) + (64 << 10);

/// Memory mapped from a file descriptor; unmapped when dropped.
#[derive(Debug)]
pub(crate) struct Mapping {
    base: NonNull<u8>,
    size: u32,
    /// The entry for the handler of `holes.rs`; taken out before the memory is unmapped.
    entered: Option<Entered>,
    /// Keep the kernel from moving its pages, if [`pin`](Mapping::pin) was called.
    pins: Pins,
}

/// The distance at which every page is touched: that of the smallest pages there are.
const PAGE: usize = 4096;

// SAFETY: the mapping is plain memory without thread affinity; all access goes through atomics or by the
// ownership rules of `SharedMemory`.
unsafe impl Send for Mapping {}
// SAFETY: as above; `Mapping` itself has no interior state.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `size` bytes of `fd` for reading and writing.
    ///
    /// `page` is the page size of the file. What holds an extent is aligned to one, so that the kernel can map it by one entry.
    pub(crate) fn new(fd: impl AsFd, size: u32, page: usize) -> rustix::io::Result<Mapping> {
        let align = if size < HUGE_PAGE { page } else { HUGE_PAGE as usize };
        let reserved = SPAN + align;
        // SAFETY: a fresh, inaccessible, anonymous mapping at an address of the kernel's choice aliases
        // nothing.
        let start = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                reserved,
                ProtFlags::empty(),
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )?
        };
        let skip = start.cast::<u8>().align_offset(align);
        // Unmap the parts around the aligned span, so that `drop` unmaps exactly SPAN bytes.
        // SAFETY: both ranges lie inside the reservation made above, which no other code has an address of.
        let base = unsafe {
            let base = start.cast::<u8>().add(skip).cast::<c_void>();
            if skip > 0 {
                munmap(start, skip)?;
            }
            munmap(base.cast::<u8>().add(SPAN).cast(), align - skip)?;
            base
        };
        // SAFETY: replaces the first pages of our own reservation, which holds no object.
        let mapped = unsafe { map_at(base, size, fd) };
        let base = NonNull::new(base).ok_or(Errno::NOMEM)?;
        let entered = holes::enter(base, size as usize).ok_or(Errno::MFILE);
        match mapped.and(entered) {
            Ok(entered) => {
                Ok(Mapping { base: base.cast(), size, entered: Some(entered), pins: Pins::default() })
            }
            Err(e) => {
                // SAFETY: no other code has an address of the reservation yet.
                unsafe { munmap(base.as_ptr(), SPAN)? };
                Err(e)
            }
        }
    }

    /// Keeps the kernel from moving the pages of `fd`, which is mapped here and has all its pages, for as long as they are mapped.
    pub(crate) fn pin(&mut self, fd: impl AsFd) -> rustix::io::Result<()> {
        self.pins = Pins::take(fd, self.size)?;
        Ok(())
    }

    /// Puts the whole extents of these bytes of a region, which nobody has touched yet, into huge pages, as far as the system has any.
    pub(crate) fn collapse(&self, bytes: &Range<u32>) {
        let end = bytes.end.min(self.size) / HUGE_PAGE * HUGE_PAGE;
        let Some(start) = bytes.start.checked_next_multiple_of(HUGE_PAGE).filter(|start| *start < end) else {
            return;
        };
        // SAFETY: the extents lie in our mapping, and no other process has it. One without any page is not collapsed. All by one call: for
        // each call the kernel waits for every CPU.
        let collapsed = unsafe {
            let first = self.base.add(start as usize);
            (0..end - start)
                .step_by(HUGE_PAGE as usize)
                .for_each(|at| first.add(at as usize).write_volatile(0));
            collapse_mapped(first.cast(), (end - start) as usize)
        };
        if let Err(e) = collapsed {
            tracing::debug!("the region is on small pages, some of it at least: {e}");
        }
    }

    /// Has this thread touch every page, so that no other one meets a fault. It waits for pages that other processes have locked, without
    /// a lock that other threads of this process need (as MADV_POPULATE_WRITE holds one).
    pub(crate) fn touch(&self) {
        for at in (0..self.size as usize).step_by(PAGE) {
            // SAFETY: the byte lies in our mapping; it is shared with other processes, and accessed atomically.
            let byte = unsafe { AtomicU8::from_ptr(self.base.as_ptr().add(at)) };
            let value = byte.load(Ordering::Relaxed);
            // A write that changes nothing. If it fails, another process is writing there.
            let _ = byte.compare_exchange(value, value, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Faults every page in, so that a packet never waits for one, and a lack of memory is an error here and
    /// not a fault later.
    pub(crate) fn populate(&self) -> rustix::io::Result<()> {
        // SAFETY: populating changes no contents; the range is our mapping.
        unsafe { madvise(self.base.as_ptr().cast(), self.size as usize, Advice::LinuxPopulateWrite) }
    }

    /// Locks the pages in memory from when they are touched, so that they are not swapped out. Where this process
    /// may not, that is logged once. Pages of a file on huge pages are never swapped out.
    pub(crate) fn lock_pages(&self) {
        static WARN: Once = Once::new();
        // SAFETY: locking changes no contents; the range is our mapping.
        let locked =
            unsafe { mlock_with(self.base.as_ptr().cast(), self.size as usize, MlockFlags::ONFAULT) };
        if let Err(e) = locked {
            WARN.call_once(|| {
                tracing::warn!(
                    "regions may be swapped out, which delays packets ({e}): raise the limit of locked memory \
                     (RLIMIT_MEMLOCK, LimitMEMLOCK= of systemd), or use huge pages"
                );
            });
        }
    }

    /// Has threads that write to the mapping wait until the result is dropped; `None` (logged) where that cannot be had.
    pub(crate) fn freeze(&self) -> Option<Frozen> {
        freeze(self.base.cast(), self.size as usize)
            .inspect_err(|e| tracing::debug!("writers are not held up while the region is copied: {e}"))
            .ok()
    }

    /// Copies the bytes of another mapping into this one, which nobody else uses. Both have the same size.
    pub(crate) fn copy_from(&self, other: &Mapping) {
        // SAFETY: both ranges are mapped, and do not overlap. A hostile process may write the source
        // meanwhile: the copy may then be torn, which is a possible value of bytes.
        unsafe {
            std::ptr::copy_nonoverlapping(
                other.base.as_ptr(),
                self.base.as_ptr(),
                self.size.min(other.size) as usize,
            );
        }
    }

    /// Writes the bytes of the mapping to a file.
    pub(crate) fn write_to(&self, fd: impl AsFd) -> rustix::io::Result<()> {
        let mut done = 0;
        while done < self.size as usize {
            // By libc: rustix takes a slice, and a hostile process may write these bytes meanwhile.
            // SAFETY: the range is mapped; the kernel copies it, whatever it holds.
            let wrote = unsafe {
                let from = self.base.as_ptr().add(done).cast();
                libc::pwrite(fd.as_fd().as_raw_fd(), from, self.size as usize - done, done as i64)
            };
            match usize::try_from(wrote) {
                Ok(0) => return Err(Errno::NOSPC),
                Ok(wrote) => done += wrote,
                Err(_) => match Errno::from_io_error(&std::io::Error::last_os_error()) {
                    Some(Errno::INTR) => {}
                    errno => return Err(errno.unwrap_or(Errno::IO)),
                },
            }
        }
        Ok(())
    }

    /// Maps `fd` in the place of what was mapped, in one step. It has the same size, and at least as large
    /// pages as its place is aligned for.
    pub(crate) fn replace(&self, fd: impl AsFd) -> rustix::io::Result<()> {
        // SAFETY: memory of the same size and the same content takes the place of what was mapped; both are
        // shared memory, which is accessed as such.
        unsafe { map_at(self.base.as_ptr().cast(), self.size, fd)? };
        // Otherwise each page at its first access: late, but no failure.
        let _ = self.populate();
        Ok(())
    }

    /// True when the region has lost a page (`holes.rs`).
    pub(crate) fn is_lost(&self) -> bool {
        self.entered.as_ref().is_some_and(Entered::is_lost)
    }

    pub(crate) fn base(&self) -> NonNull<u8> {
        self.base
    }

    pub(crate) fn size(&self) -> u32 {
        self.size
    }
}

/// Maps the first `size` bytes of `fd` at `base`, instead of what is mapped there.
///
/// # Safety
/// The address space from `base` on is the caller's, and holds no object that the bytes of `fd` are not valid
/// for.
unsafe fn map_at(base: *mut c_void, size: u32, fd: impl AsFd) -> rustix::io::Result<()> {
    let flags = MapFlags::SHARED | MapFlags::FIXED;
    // SAFETY: as required of the caller.
    unsafe { mmap(base, size as usize, ProtFlags::READ | ProtFlags::WRITE, flags, fd, 0) }.map(drop)
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // First: the address may be another mapping's as soon as it is unmapped.
        drop(self.entered.take());
        // SAFETY: only this mapping uses the reservation, and every NativeMemory into it holds an Arc of this
        // mapping.
        if let Err(e) = unsafe { munmap(self.base.as_ptr().cast(), SPAN) } {
            // At vm.max_map_count, where the reservation has become one with a neighbour's.
            tracing::error!("a region of {} bytes stays mapped: {e}", self.size);
        }
    }
}
