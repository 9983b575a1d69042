//! The functions of `ccnic.h`. Their contracts stand there; here pointers become references and slices, and results errno.
//!
//! Whatever may be thrown is caught here and becomes -ENOTRECOVERABLE.

use std::ffi::{CStr, OsStr, c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use rustix::io::Errno;

use crate::abi::{CcnicBuf, CcnicOptions, CcnicRss, CcnicStats, View, write_sized};
use crate::bursts::{given, places};
use crate::errno::{Failure, NULL, burst, guard, last};
use crate::nic::Nic;
use crate::pool::Pool;
use crate::queue::Queue;
use crate::wait::wait;

/// A string of C as UTF-8, what is not UTF-8 replaced.
///
/// # Safety
/// `text` points to a string.
pub(crate) unsafe fn text(text: *const c_char) -> String {
    // SAFETY: the caller vouches for it.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// What the status display shows: the name that was given, or that of the process's executable.
///
/// # Safety
/// `given` is null or points to a string.
pub(crate) unsafe fn status_name(given: *const c_char) -> Result<String, Failure> {
    if !given.is_null() {
        // SAFETY: not null; the caller vouches for the rest.
        let name = unsafe { text(given) };
        let long = Failure::new(Errno::NAMETOOLONG, c"the name has more than 255 bytes");
        return if name.len() > 255 { Err(long) } else { Ok(name) };
    }
    let name = std::fs::read_to_string("/proc/self/comm").unwrap_or_default();
    Ok(if name.trim().is_empty() { "program".to_owned() } else { name.trim().to_owned() })
}

/// # Safety
/// As `ccnic.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccnic_open(
    socket: *const c_char,
    options: *const CcnicOptions,
    out: *mut *mut Nic,
) -> c_int {
    guard(|| {
        if socket.is_null() || out.is_null() {
            return Err(NULL);
        }
        let mut given = CcnicOptions::DEFAULT;
        if !options.is_null() {
            // SAFETY: not null, and as large as its first word says (the contract of the header).
            given = unsafe { CcnicOptions::read(options)? };
        }
        let (config, pages) = given.config()?;
        // SAFETY: null or the caller's string.
        let name = unsafe { status_name(given.name)? };
        // SAFETY: the caller's string, not null.
        let socket = OsStr::from_bytes(unsafe { CStr::from_ptr(socket) }.to_bytes());
        let nic = Nic::open(socket.as_ref(), &name, &config, pages, given.mac)?;
        // SAFETY: not null, the caller's place for a pointer.
        unsafe { out.write(Box::into_raw(Box::new(nic))) };
        Ok(0)
    })
}

/// # Safety
/// As `ccnic.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccnic_close(nic: *mut Nic) -> c_int {
    guard(|| {
        // SAFETY: null or a NIC that has not been closed.
        if unsafe { nic.as_ref() }.ok_or(NULL)?.busy() {
            return Err(Failure::new(Errno::BUSY, c"the NIC has open queues or pools; close them first"));
        }
        // SAFETY: made by `ccnic_open` from a box; the caller gives it up.
        drop(unsafe { Box::from_raw(nic) });
        Ok(0)
    })
}

/// # Safety
/// As `ccnic.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccnic_reconnect(nic: *mut Nic) -> c_int {
    guard(|| {
        // SAFETY: null or an open NIC.
        let nic = unsafe { nic.as_ref() }.ok_or(NULL)?;
        // SAFETY: no thread uses a queue meanwhile (the contract of the header).
        let reclaimed = unsafe { nic.reconnect()? };
        Ok(c_int::try_from(reclaimed).unwrap_or(c_int::MAX))
    })
}

/// # Safety
/// As `ccnic.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccnic_link_state(nic: *const Nic) -> c_int {
    // SAFETY: null or an open NIC.
    guard(|| Ok(c_int::from(unsafe { nic.as_ref() }.ok_or(NULL)?.alive())))
}

/// # Safety
/// As `ccnic.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccnic_mtu(nic: *const Nic) -> c_int {
    // SAFETY: null or an open NIC.
    guard(|| Ok(c_int::from(unsafe { nic.as_ref() }.ok_or(NULL)?.config().mtu)))
}

/// # Safety
/// As `ccnic.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccnic_queues(nic: *const Nic) -> c_int {
    // SAFETY: null or an open NIC.
    guard(|| Ok(c_int::from(unsafe { nic.as_ref() }.ok_or(NULL)?.config().queues)))
}

/// # Safety
/// As `ccnic.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccnic_mac(nic: *const Nic, mac: *mut u8) -> c_int {
    guard(|| {
        // SAFETY: null or an open NIC.
        let address = unsafe { nic.as_ref() }.ok_or(NULL)?.mac();
        if mac.is_null() {
            return Err(NULL);
        }
        // SAFETY: not null; the caller's place for six bytes.
        unsafe { mac.cast::<[u8; 6]>().write_unaligned(address) };
        Ok(0)
    })
}

/// # Safety
/// As `ccnic.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccnic_rss_set(nic: *mut Nic, rss: *const CcnicRss) -> c_int {
    guard(|| {
        // SAFETY: null or an open NIC.
        let nic = unsafe { nic.as_ref() }.ok_or(NULL)?;
        // SAFETY: not null, and as large as its first word says (the contract of the header).
        let rss = if rss.is_null() { None } else { Some(unsafe { CcnicRss::read(rss)? }) };
        nic.set_rss(rss.as_ref())?;
        Ok(0)
    })
}

/// # Safety
/// As `ccnic.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccnic_rss_active(nic: *const Nic) -> c_int {
    // SAFETY: null or an open NIC.
    guard(|| Ok(c_int::from(unsafe { nic.as_ref() }.ok_or(NULL)?.spreads())))
}

/// # Safety
/// As `ccnic.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccnic_memory(nic: *const Nic, out: *mut View) -> c_int {
    guard(|| {
        // SAFETY: null or an open NIC.
        let view = unsafe { nic.as_ref() }.ok_or(NULL)?.view();
        if out.is_null() {
            return Err(NULL);
        }
        // SAFETY: not null, the caller's place for the structure.
        unsafe { out.write(view) };
        Ok(0)
    })
}

/// # Safety
/// As `ccnic.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccnic_pool_open(nic: *mut Nic, out: *mut *mut Pool) -> c_int {
    guard(|| {
        // SAFETY: null or an open NIC.
        let nic = unsafe { nic.as_ref() }.ok_or(NULL)?;
        if out.is_null() {
            return Err(NULL);
        }
        // SAFETY: not null, the caller's place for a pointer.
        unsafe { out.write(nic.pool().as_ptr()) };
        Ok(0)
    })
}

/// # Safety
/// As `ccnic.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccnic_pool_close(pool: *mut Pool) -> c_int {
    guard(|| {
        // SAFETY: null or a pool of an open NIC that no other thread uses.
        unsafe { pool.as_mut() }.ok_or(NULL)?.close()?;
        Ok(0)
    })
}

/// # Safety
/// As `ccnic.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccnic_pool_alloc(pool: *mut Pool, bufs: *mut CcnicBuf, n: u16) -> c_int {
    burst(|| {
        // SAFETY: the contract of the header.
        let (pool, out) = unsafe { places(pool, bufs, n)? };
        pool.alloc(out)
    })
}

/// # Safety
/// As `ccnic.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccnic_pool_free(pool: *mut Pool, bufs: *const CcnicBuf, n: u16) -> c_int {
    burst(|| {
        // SAFETY: the contract of the header.
        let (pool, bufs) = unsafe { given(pool, bufs, n)? };
        pool.free(bufs)
    })
}

/// # Safety
/// As `ccnic.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccnic_rx_ready(queue: *const Queue) -> c_int {
    // SAFETY: null or a queue of an open NIC that no other thread uses.
    guard(|| Ok(unsafe { queue.as_ref() }.ok_or(NULL)?.rx_ready()? as c_int))
}

/// # Safety
/// As `ccnic.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccnic_tx_waiting(queue: *const Queue) -> c_int {
    // SAFETY: null or a queue of an open NIC that no other thread uses.
    guard(|| Ok(unsafe { queue.as_ref() }.ok_or(NULL)?.tx_waiting()? as c_int))
}

/// # Safety
/// As `ccnic.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccnic_queue_open(nic: *mut Nic, index: u16, out: *mut *mut Queue) -> c_int {
    guard(|| {
        // SAFETY: null or an open NIC.
        let nic = unsafe { nic.as_ref() }.ok_or(NULL)?;
        if out.is_null() {
            return Err(NULL);
        }
        let queue = nic.queue(index)?;
        // SAFETY: not null, the caller's place for a pointer.
        unsafe { out.write(queue.as_ptr()) };
        Ok(0)
    })
}

/// # Safety
/// As `ccnic.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccnic_queue_close(queue: *mut Queue) -> c_int {
    guard(|| {
        // SAFETY: null or a queue of an open NIC that no other thread uses.
        unsafe { queue.as_mut() }.ok_or(NULL)?.close()?;
        Ok(0)
    })
}

/// # Safety
/// As `ccnic.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccnic_queue_stats(queue: *const Queue, out: *mut CcnicStats, size: usize) -> c_int {
    guard(|| {
        // SAFETY: null or a queue of an open NIC that no other thread uses.
        let stats = unsafe { queue.as_ref() }.ok_or(NULL)?.stats()?;
        if out.is_null() {
            return Err(NULL);
        }
        // SAFETY: the caller's place has `size` bytes, as it says.
        unsafe { write_sized(&stats, out, size) };
        Ok(0)
    })
}

/// # Safety
/// As `ccnic.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccnic_wait(queue: *mut Queue, timeout_ns: i64) -> c_int {
    guard(|| {
        // SAFETY: null or a queue of an open NIC that no other thread uses.
        let queue = unsafe { queue.as_mut() }.ok_or(NULL)?;
        let n = wait(queue, u64::try_from(timeout_ns).ok().map(Duration::from_nanos))?;
        Ok(n as c_int)
    })
}

/// # Safety
/// As `ccnic.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccnic_rx_fd(queue: *mut Queue) -> c_int {
    // SAFETY: null or a queue of an open NIC that no other thread uses.
    guard(|| unsafe { queue.as_mut() }.ok_or(NULL)?.rx_fd())
}

/// # Safety
/// As `ccnic.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccnic_rx_arm(queue: *mut Queue) -> c_int {
    // SAFETY: null or a queue of an open NIC that no other thread uses.
    guard(|| Ok(unsafe { queue.as_mut() }.ok_or(NULL)?.arm()? as c_int))
}

/// # Safety
/// As `ccnic.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccnic_rx_disarm(queue: *mut Queue) -> c_int {
    // SAFETY: null or a queue of an open NIC that no other thread uses.
    guard(|| Ok(unsafe { queue.as_mut() }.ok_or(NULL)?.disarm()? as c_int))
}

/// # Safety
/// As `ccnic.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccnic_rx_wake(queue: *mut Queue) -> c_int {
    // SAFETY: null or a queue of an open NIC that no other thread uses.
    guard(|| Ok(unsafe { queue.as_mut() }.ok_or(NULL)?.wake()? as c_int))
}

/// The text of this thread's last failure.
#[unsafe(no_mangle)]
pub extern "C" fn ccnic_last_error() -> *const c_char {
    last()
}

/// The version of the library.
#[unsafe(no_mangle)]
pub extern "C" fn ccnic_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}
