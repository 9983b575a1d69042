//! Writers that wait while a region is copied.
//!
//! A program's threads may write into packets that they hold while another thread renews the region; what
//! they write into a page that has been copied already would be lost. Userfaultfd write-protects the pages:
//! whoever writes to one waits in the kernel until the protection ends, and then finds the copy.

use std::ffi::c_void;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;

use rustix::io::Result;
use rustix::ioctl::{Opcode, Updater, ioctl, opcode};
use rustix::mm::{UserfaultfdFlags, userfaultfd};

/// Pages that threads of this process can read and not write. Writers wait until this is dropped.
#[derive(Debug)]
pub(crate) struct Frozen(
    /// The kernel ends the protection and wakes the writers when this is closed.
    #[expect(dead_code, reason = "closed when dropped")]
    OwnedFd,
);

/// `struct uffdio_api` of linux/userfaultfd.h.
#[repr(C)]
struct Api {
    api: u64,
    features: u64,
    ioctls: u64,
}

/// `struct uffdio_register`.
#[repr(C)]
struct Register {
    start: u64,
    len: u64,
    mode: u64,
    ioctls: u64,
}

/// `struct uffdio_writeprotect`.
#[repr(C)]
struct WriteProtect {
    start: u64,
    len: u64,
    mode: u64,
}

const API: u64 = 0xaa;
/// UFFD_FEATURE_PAGEFAULT_FLAG_WP and UFFD_FEATURE_WP_HUGETLBFS_SHMEM.
const PROTECT_SHARED: u64 = 1 | 1 << 12;
const UFFDIO_REGISTER_MODE_WP: u64 = 2;
const UFFDIO_WRITEPROTECT_MODE_WP: u64 = 1;
/// UFFD_USER_MODE_ONLY: what a process may ask for without privileges. A system call that writes into a
/// protected page fails with EFAULT instead of waiting.
const USER_MODE_ONLY: UserfaultfdFlags = UserfaultfdFlags::from_bits_retain(1);

const UFFDIO_API: Opcode = opcode::read_write::<Api>(0xaa, 0x3f);
const UFFDIO_REGISTER: Opcode = opcode::read_write::<Register>(0xaa, 0x00);
const UFFDIO_WRITEPROTECT: Opcode = opcode::read_write::<WriteProtect>(0xaa, 0x06);

/// Protects the `size` bytes at `base`, whole pages of a shared mapping.
///
/// # Errors
/// When the kernel is older than 5.19, or the process may not use userfaultfd.
pub(crate) fn freeze(base: NonNull<c_void>, size: usize) -> Result<Frozen> {
    let (start, len) = (base.as_ptr().addr() as u64, size as u64);
    // SAFETY: the descriptor stays in this module, which protects pages of the caller's mapping only.
    let fd = unsafe { userfaultfd(UserfaultfdFlags::CLOEXEC | USER_MODE_ONLY)? };
    let mut api = Api { api: API, features: PROTECT_SHARED, ioctls: 0 };
    let mut register = Register { start, len, mode: UFFDIO_REGISTER_MODE_WP, ioctls: 0 };
    let mut protect = WriteProtect { start, len, mode: UFFDIO_WRITEPROTECT_MODE_WP };
    // SAFETY: each opcode takes the structure that it is paired with, which the kernel may write to. None
    // changes what memory holds: writers wait, and readers see what they saw before.
    unsafe {
        ioctl(&fd, Updater::<UFFDIO_API, Api>::new(&mut api))?;
        ioctl(&fd, Updater::<UFFDIO_REGISTER, Register>::new(&mut register))?;
        ioctl(&fd, Updater::<UFFDIO_WRITEPROTECT, WriteProtect>::new(&mut protect))?;
    }
    Ok(Frozen(fd))
}
