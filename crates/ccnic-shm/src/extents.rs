//! Extents: the aligned 2 MiB of a memfd that the kernel may put into one huge page.
//!
//! To collapse an extent (MADV_COLLAPSE, khugepaged) the kernel takes its small pages away from every process that maps them, mlock or
//! not, and copies them under their locks. An access meanwhile sleeps until the copy is made: for seconds, when a thread of low priority
//! asked for it. Any process that has the descriptor may ask, also for the last, incomplete extent of a file.
//!
//! So a program makes its region of huge pages when it creates it ([`collapse_mapped`]), which are never collapsed again. And a NIC holds
//! a page of each extent ([`Pins`]): the kernel leaves an extent alone, before it takes anything away, if a page of it has more references
//! than mappings.

use std::ffi::c_void;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::NonNull;

use rustix::io::{Errno, Result};
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};

use crate::region::HUGE_PAGE;

/// Bytes of an extent.
pub(crate) const EXTENT: u64 = HUGE_PAGE as u64;
/// Pages that a pipe holds: a process without privileges may have so many (fs.pipe-max-size).
const SLOTS: u64 = 256;
/// Bytes by which the kernel counts the pages of a pipe.
const SLOT_BYTES: u64 = 4096;

/// References to a page of each extent of a file, until this is dropped.
///
/// A pipe refers to the page of a byte that was spliced into it and that nobody reads: for that a process needs neither privileges nor
/// locked memory, and the page stays charged to whom it was.
#[derive(Debug, Default)]
pub(crate) struct Pins(
    /// The ends to read from. An end for each 512 MiB, or more where the user has used up fs.pipe-user-pages-soft.
    #[cfg_attr(not(test), expect(dead_code, reason = "closed when dropped"))]
    Vec<OwnedFd>,
);

impl Pins {
    /// Takes a page of each extent of the first `size` bytes of `fd`, which has all its pages. Waits for whoever has locked one: once
    /// this returns, no extent is being collapsed, and none will be.
    pub(crate) fn take(fd: impl AsFd, size: u32) -> Result<Pins> {
        let (mut pipes, mut at, end) = (Vec::new(), 0, u64::from(size));
        while at < end {
            let (read, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
            let slots = (end - at).div_ceil(EXTENT).min(SLOTS);
            let _ = fcntl_setpipe_size(&write, (slots * SLOT_BYTES) as usize); // with fewer there are more pipes
            let first = at;
            while at < end {
                match splice(&fd, Some(&mut at.clone()), &write, None, 1, SpliceFlags::NONBLOCK) {
                    Ok(0) => return Err(Errno::NODATA), // the file is shorter
                    Ok(_) => at += EXTENT,
                    Err(Errno::INTR) => {}
                    Err(Errno::AGAIN) if at > first => break, // the pipe is full
                    Err(e) => return Err(e),
                }
            }
            pipes.push(read);
        }
        Ok(Pins(pipes))
    }
}

/// Has the kernel put the extents that are mapped at `base` into huge pages, all `len` bytes. Works with any setting of transparent huge
/// pages but `shmem_enabled=deny`.
///
/// # Safety
/// `base` is where an extent of a file is mapped, from its first page on, and whole extents of it are mapped from there.
pub(crate) unsafe fn collapse_mapped(base: NonNull<c_void>, len: usize) -> Result<()> {
    // By libc: rustix has no name for this advice.
    // SAFETY: the caller's mapping; collapsing changes no contents.
    match unsafe { libc::madvise(base.as_ptr(), len, libc::MADV_COLLAPSE) } {
        0 => Ok(()),
        _ => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)),
    }
}

/// Has the kernel put the extent of a memfd that begins at byte `at` into a huge page, by a mapping made for that, which may reach beyond
/// the end of the file. Succeeds if the extent is in one already.
///
/// # Errors
/// EAGAIN when a page of the extent is held by somebody (a NIC that has mapped the region), EINVAL when the kernel does not collapse
/// shared memory, ENOMEM when there is no huge page.
pub fn collapse(fd: impl AsFd, at: u64) -> Result<()> {
    let extent = EXTENT as usize;
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    // SAFETY: a fresh, inaccessible mapping at an address of the kernel's choice.
    let room = unsafe { mmap_anonymous(std::ptr::null_mut(), 2 * extent, ProtFlags::empty(), flags)? };
    let base = room.cast::<u8>().wrapping_add(room.cast::<u8>().align_offset(extent)).cast::<c_void>();
    // SAFETY: replaces a part of our own reservation, which nobody accesses.
    let mapped = unsafe { mmap(base, extent, ProtFlags::READ, MapFlags::SHARED | MapFlags::FIXED, fd, at) };
    let collapsed = mapped.and_then(|base| {
        let base = NonNull::new(base).ok_or(Errno::NOMEM)?;
        // SAFETY: mapped by the line above.
        unsafe { collapse_mapped(base, extent) }
    });
    // SAFETY: nobody else has the address of what was mapped here.
    unsafe { munmap(room, 2 * extent)? };
    collapsed
}

#[cfg(test)]
mod tests;
