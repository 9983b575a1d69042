//! Holes: what happens when a region loses a page while it is mapped.
//!
//! Seals keep a region from shrinking, and a NIC seals the regions of users that it does not trust against
//! holes. A region of a trusted user may still get holes, and memory may fail. An ordinary page is replaced by
//! a zeroed one at the next access. A huge page is replaced only if the system has a free one; if not, the
//! access raises SIGBUS, by which a program could kill a daemon.
//!
//! [`survive`] installs a handler that maps private zeroed memory instead of the *whole* region, and marks
//! the region as lost: the program has lost what it shared. One mapping takes the place of one mapping, so
//! the number of mappings does not grow, however many pages are missing (vm.max_map_count).

use std::ffi::{c_int, c_void};
use std::ptr::NonNull;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// The most mappings of one process: their reservations fill a quarter of its address space.
const MOST: usize = 4096;

/// A mapping in the table that the signal handler reads. The handler may take no lock, so the table has a
/// fixed size.
struct Entry {
    /// Address; 0: free; 1: being entered.
    base: AtomicUsize,
    /// Bytes mapped from `base` on.
    size: AtomicUsize,
    /// The memory there is no longer the region.
    lost: AtomicBool,
}

static MAPPINGS: [Entry; MOST] =
    [const { Entry { base: AtomicUsize::new(0), size: AtomicUsize::new(0), lost: AtomicBool::new(false) } };
        MOST];

/// A mapping without use. A process at vm.max_map_count may have one mapping too many to make another, even
/// in the place of an old one: then the handler unmaps this one.
static SPARE: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
const SPARE_BYTES: usize = 4096;

/// An entry of the table, removed when dropped.
#[derive(Debug)]
pub(crate) struct Entered(usize);

/// Enters a mapping of `size` bytes at `base`. `None` when the table is full.
pub(crate) fn enter(base: NonNull<c_void>, size: usize) -> Option<Entered> {
    let free = |e: &Entry| e.base.compare_exchange(0, 1, Ordering::Relaxed, Ordering::Relaxed).is_ok();
    let at = MAPPINGS.iter().position(free)?;
    let entry = MAPPINGS.get(at)?;
    entry.size.store(size, Ordering::Relaxed);
    entry.lost.store(false, Ordering::Relaxed);
    entry.base.store(base.as_ptr().addr(), Ordering::Release);
    Some(Entered(at))
}

impl Entered {
    /// True when the handler has replaced the mapping.
    pub(crate) fn is_lost(&self) -> bool {
        MAPPINGS.get(self.0).is_some_and(|entry| entry.lost.load(Ordering::Relaxed))
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        if let Some(entry) = MAPPINGS.get(self.0) {
            entry.base.store(0, Ordering::Release);
        }
    }
}

/// Installs the handler: from now on this process survives holes in its regions. For daemons; it takes over
/// SIGBUS.
///
/// # Errors
/// When the system refuses the signal handler.
pub fn survive() -> std::io::Result<()> {
    static ONCE: Once = Once::new();
    let mut done = Ok(());
    ONCE.call_once(|| {
        keep_a_spare();
        // SAFETY: all zeroes are a valid `sigaction`; the handler calls only what a signal handler may
        // (atomics, system calls).
        let refused = unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_bus_error as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO;
            libc::sigaction(libc::SIGBUS, &raw const action, std::ptr::null_mut())
        };
        if refused != 0 {
            done = Err(std::io::Error::last_os_error());
        }
    });
    done
}

fn keep_a_spare() {
    // Shared, so that the kernel does not make it one with a neighbour.
    // SAFETY: a fresh mapping at an address of the kernel's choice; nobody accesses it.
    let spare =
        unsafe { mmap_anonymous(std::ptr::null_mut(), SPARE_BYTES, ProtFlags::empty(), MapFlags::SHARED) };
    SPARE.store(spare.unwrap_or(std::ptr::null_mut()), Ordering::Relaxed);
}

/// Unmaps the spare mapping; false when it is gone.
fn use_the_spare() -> bool {
    let spare = SPARE.swap(std::ptr::null_mut(), Ordering::Relaxed);
    // SAFETY: mapped by `keep_a_spare`, and nobody else has its address any more.
    !spare.is_null() && unsafe { munmap(spare, SPARE_BYTES) }.is_ok()
}

extern "C" fn on_bus_error(_: c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
    // SAFETY: errno belongs to this thread; system calls change it, and the interrupted code may rely on it.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let saved = unsafe { *errno };
    // SAFETY: the kernel passes a valid pointer to the information of a SIGBUS, which has an address.
    let fault = unsafe { (*info).si_addr() };
    if !replace(fault) {
        // Not in a region: with the default action the repeated access ends the process.
        // SAFETY: restores the default action; async-signal-safe.
        unsafe { libc::signal(libc::SIGBUS, libc::SIG_DFL) };
    }
    // SAFETY: as above.
    unsafe { *errno = saved };
}

/// Maps zeroed memory in the place of the region around `fault`; false when it lies in no region.
///
/// Threads that fault at the same time replace it one after the other: what the first has written since is
/// lost, as the region is.
fn replace(fault: *mut c_void) -> bool {
    let around = |entry: &&Entry| {
        let base = entry.base.load(Ordering::Acquire);
        let within = fault.addr().checked_sub(base);
        base > 1 && within.is_some_and(|within| within < entry.size.load(Ordering::Relaxed))
    };
    let Some(entry) = MAPPINGS.iter().find(around) else { return false };
    entry.lost.store(true, Ordering::Relaxed);
    let base = fault.with_addr(entry.base.load(Ordering::Relaxed));
    let size = entry.size.load(Ordering::Relaxed);
    map_zeroes(base, size) || (use_the_spare() && map_zeroes(base, size))
}

fn map_zeroes(base: *mut c_void, size: usize) -> bool {
    let access = ProtFlags::READ | ProtFlags::WRITE;
    let flags = MapFlags::PRIVATE | MapFlags::FIXED | MapFlags::NORESERVE;
    // SAFETY: replaces a mapping that this thread is just reading or writing, so it is neither unmapped nor
    // leaves the table meanwhile. Its bytes are shared with another process, so any value is possible.
    unsafe { mmap_anonymous(base, size, access, flags) }.is_ok()
}

#[cfg(test)]
mod tests;
