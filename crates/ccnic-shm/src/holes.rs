//! Holes: what happens when a region loses a page while it is mapped.
//!
//! Seals keep a region from shrinking, but every process with its descriptor may punch holes into it. An
//! ordinary page is replaced by a zeroed one at the next access. A huge page is replaced only if the system
//! has a free one; if not, the access raises SIGBUS, by which a hostile program could kill a daemon.
//! [`survive`] installs a handler that maps private zeroed memory instead of the missing page: the program
//! has lost what it shared there.

use std::ffi::{c_int, c_void};
use std::ptr::NonNull;
use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};

/// The most mappings of one process: their reservations fill a quarter of its address space.
const MOST: usize = 4096;

/// A mapping in the table that the signal handler reads. The handler may take no lock, so the table has a
/// fixed size.
struct Entry {
    /// Address; 0: free; 1: being entered.
    base: AtomicUsize,
    /// Bytes of address space from `base` on.
    span: AtomicUsize,
    page: AtomicUsize,
}

static MAPPINGS: [Entry; MOST] =
    [const { Entry { base: AtomicUsize::new(0), span: AtomicUsize::new(0), page: AtomicUsize::new(0) } };
        MOST];

/// An entry of the table, removed when dropped.
#[derive(Debug)]
pub(crate) struct Entered(usize);

/// Enters a mapping of `span` bytes of address space at `base`, with pages of `page` bytes. `None` when the table
/// is full.
pub(crate) fn enter(base: NonNull<c_void>, span: usize, page: usize) -> Option<Entered> {
    let free = |e: &Entry| e.base.compare_exchange(0, 1, Ordering::Relaxed, Ordering::Relaxed).is_ok();
    let at = MAPPINGS.iter().position(free)?;
    let entry = MAPPINGS.get(at)?;
    entry.span.store(span, Ordering::Relaxed);
    entry.page.store(page, Ordering::Relaxed);
    entry.base.store(base.as_ptr().addr(), Ordering::Release);
    Some(Entered(at))
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

extern "C" fn on_bus_error(_: c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
    // SAFETY: the kernel passes a valid pointer to the information of a SIGBUS, which has an address.
    let fault = unsafe { (*info).si_addr() };
    if !fill(fault) {
        // Not in a region: with the default action the repeated access ends the process.
        // SAFETY: restores the default action; async-signal-safe.
        unsafe { libc::signal(libc::SIGBUS, libc::SIG_DFL) };
    }
}

/// Maps zeroed memory over the missing page at `fault`; false when it lies in no region.
fn fill(fault: *mut c_void) -> bool {
    let missing = MAPPINGS.iter().find_map(|entry| {
        let base = entry.base.load(Ordering::Acquire);
        let within = fault.addr().checked_sub(base)?;
        let page = entry.page.load(Ordering::Relaxed);
        (base > 1 && within < entry.span.load(Ordering::Relaxed)).then_some((within & (page - 1), page))
    });
    let Some((into, page)) = missing else { return false };
    // SAFETY: replaces one page of a mapping that this thread is just reading or writing, so it cannot go
    // away; what the page held is gone already.
    unsafe {
        let start = fault.byte_sub(into);
        mmap_anonymous(start, page, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::FIXED)
            .is_ok()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ccnic::SharedMemory;
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

    use crate::mapping::Mapping;
    use crate::memory::NativeMemory;

    /// Huge pages are rare on test machines; a file that shrinks ends in the same signal.
    #[test]
    fn a_page_that_went_away_reads_as_zeroes() {
        super::survive().unwrap();
        let fd = memfd_create("hole", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&fd, 3 * 4096).unwrap();
        let mem = NativeMemory::new(Arc::new(Mapping::new(&fd, 3 * 4096, 4096).unwrap()));
        (0..3).for_each(|page| mem.store(page * 4096 + 8, 7));
        ftruncate(&fd, 4096).unwrap();
        assert_eq!([8, 4104, 8200].map(|at| mem.load(at)), [7, 0, 0]);
        mem.store(4104, 9);
        assert_eq!([8, 4104, 8200].map(|at| mem.load(at)), [7, 9, 0]);
    }
}
