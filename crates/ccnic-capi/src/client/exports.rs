//! The functions of `ccnic.h` that are no bursts; the header specifies them. Here pointers become references, results become
//! errno values, and a panic becomes -ENOTRECOVERABLE.

use std::ffi::{c_char, c_int};
use std::time::Duration;

use rustix::io::Errno;

use super::attachment::Ccnic;
use super::pool::CcnicPool;
use super::queue::CcnicQueue;
use super::wait::wait;
use crate::abi::{CcnicBuf, CcnicOptions, CcnicRss, CcnicStats, CcnicView, write_sized};
use crate::errno::{Failure, NULL, burst, guard, last};
use crate::handle::{Owned, exclusive, shared, shut};
use crate::pointers::{input, output, path, status_name};

/// # Safety
/// As `ccnic.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccnic_open(
    socket: *const c_char,
    options: *const CcnicOptions,
    out: *mut *mut Ccnic,
) -> c_int {
    guard(|| {
        if out.is_null() {
            return Err(NULL);
        }
        let default = socket.is_null().then(ccnic_client::default_socket);
        let mut given = CcnicOptions::DEFAULT;
        if !options.is_null() {
            // SAFETY: not null, and as large as its first word says (the contract of the header).
            given = unsafe { CcnicOptions::read(options)? };
        }
        let (config, pages) = given.config()?;
        // SAFETY: null or the caller's string.
        let name = unsafe { status_name(given.name)? };
        let socket = match &default {
            Some(socket) => socket.as_path(),
            // SAFETY: the caller's string, not null.
            None => unsafe { path(socket) },
        };
        let nic = Ccnic::open(socket, &name, &config, pages, given.mac, given.later())?;
        // SAFETY: not null, the caller's memory for a pointer.
        unsafe { out.write(Owned::new(nic).into_handle()) };
        Ok(0)
    })
}

/// # Safety
/// As `ccnic.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccnic_close(nic: *mut Ccnic) -> c_int {
    guard(|| {
        // SAFETY: null or a NIC, open or closed.
        if unsafe { shared(nic)? }.busy() {
            return Err(Failure::new(Errno::BUSY, c"the NIC has open queues or pools; close them first"));
        }
        // SAFETY: as above; the caller no longer uses it.
        drop(unsafe { Owned::take(nic)? });
        Ok(0)
    })
}

/// # Safety
/// As `ccnic.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccnic_reconnect(nic: *mut Ccnic) -> c_int {
    guard(|| {
        // SAFETY: null or a NIC, open or closed.
        let nic = unsafe { shared(nic)? };
        // SAFETY: no thread uses a queue meanwhile (the contract of the header).
        let reclaimed = unsafe { nic.reconnect()? };
        Ok(c_int::try_from(reclaimed).unwrap_or(c_int::MAX))
    })
}

/// # Safety
/// As `ccnic.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccnic_link_state(nic: *const Ccnic) -> c_int {
    // SAFETY: null or a NIC, open or closed.
    guard(|| Ok(c_int::from(unsafe { shared(nic)? }.alive())))
}

/// # Safety
/// As `ccnic.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccnic_mtu(nic: *const Ccnic) -> c_int {
    // SAFETY: null or a NIC, open or closed.
    guard(|| Ok(c_int::from(unsafe { shared(nic)? }.config().mtu)))
}

/// # Safety
/// As `ccnic.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccnic_queues(nic: *const Ccnic) -> c_int {
    // SAFETY: null or a NIC, open or closed.
    guard(|| Ok(c_int::from(unsafe { shared(nic)? }.config().queues)))
}

/// # Safety
/// As `ccnic.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccnic_mac(nic: *const Ccnic, mac: *mut u8) -> c_int {
    guard(|| {
        // SAFETY: null or a NIC, open or closed.
        let address = unsafe { shared(nic)? }.mac();
        if mac.is_null() {
            return Err(NULL);
        }
        // SAFETY: not null; the caller's memory for six bytes.
        unsafe { mac.cast::<[u8; 6]>().write_unaligned(address) };
        Ok(0)
    })
}

/// # Safety
/// As `ccnic.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccnic_rss_set(nic: *mut Ccnic, rss: *const CcnicRss) -> c_int {
    guard(|| {
        // SAFETY: null or a NIC, open or closed.
        let nic = unsafe { shared(nic)? };
        // SAFETY: not null, and as large as its first word says (the contract of the header).
        let rss = if rss.is_null() { None } else { Some(unsafe { CcnicRss::read(rss)? }) };
        nic.set_rss(rss.as_ref())?;
        Ok(0)
    })
}

/// # Safety
/// As `ccnic.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccnic_rss_active(nic: *const Ccnic) -> c_int {
    // SAFETY: null or a NIC, open or closed.
    guard(|| Ok(c_int::from(unsafe { shared(nic)? }.rss_active())))
}

/// # Safety
/// As `ccnic.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccnic_memory(nic: *const Ccnic, out: *mut CcnicView) -> c_int {
    guard(|| {
        // SAFETY: null or a NIC, open or closed.
        let view = unsafe { shared(nic)? }.view();
        if out.is_null() {
            return Err(NULL);
        }
        // SAFETY: not null, the caller's memory for the structure.
        unsafe { out.write(view) };
        Ok(0)
    })
}

/// # Safety
/// As `ccnic.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccnic_pool_open(nic: *mut Ccnic, out: *mut *mut CcnicPool) -> c_int {
    guard(|| {
        // SAFETY: null or a NIC, open or closed.
        let nic = unsafe { shared(nic)? };
        if out.is_null() {
            return Err(NULL);
        }
        // SAFETY: not null, the caller's memory for a pointer.
        unsafe { out.write(nic.pool().as_ptr()) };
        Ok(0)
    })
}

/// # Safety
/// As `ccnic.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccnic_pool_close(pool: *mut CcnicPool) -> c_int {
    guard(|| {
        // SAFETY: null or a pool, open or closed, that no other thread uses.
        unsafe { shut(pool, CcnicPool::close)? };
        Ok(0)
    })
}

/// # Safety
/// As `ccnic.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccnic_pool_alloc(pool: *mut CcnicPool, bufs: *mut CcnicBuf, n: u16) -> c_int {
    burst(|| {
        // SAFETY: the contract of the header.
        let (pool, out) = unsafe { output(pool, bufs, n)? };
        Ok(pool.alloc(out))
    })
}

/// # Safety
/// As `ccnic.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccnic_pool_free(pool: *mut CcnicPool, bufs: *const CcnicBuf, n: u16) -> c_int {
    burst(|| {
        // SAFETY: the contract of the header.
        let (pool, bufs) = unsafe { input(pool, bufs, n)? };
        pool.free(bufs)
    })
}

/// # Safety
/// As `ccnic.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccnic_rx_monitor(
    queue: *const CcnicQueue,
    word: *mut *const u64,
    value: *mut u64,
) -> c_int {
    guard(|| {
        // SAFETY: null or a queue, open or closed, that no other thread uses.
        let watched = unsafe { shared(queue)? }.monitor();
        if word.is_null() || value.is_null() {
            return Err(NULL);
        }
        let Some((at, holds)) = watched else { return Ok(1) };
        // SAFETY: not null, the caller's memory for a pointer and for a word.
        unsafe {
            word.write(at);
            value.write(holds);
        }
        Ok(0)
    })
}

/// # Safety
/// As `ccnic.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccnic_rx_ready(queue: *const CcnicQueue) -> c_int {
    // SAFETY: null or a queue, open or closed, that no other thread uses.
    guard(|| Ok(unsafe { shared(queue)? }.rx_ready() as c_int))
}

/// # Safety
/// As `ccnic.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccnic_tx_waiting(queue: *const CcnicQueue) -> c_int {
    // SAFETY: null or a queue, open or closed, that no other thread uses.
    guard(|| Ok(unsafe { shared(queue)? }.tx_waiting() as c_int))
}

/// # Safety
/// As `ccnic.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccnic_queue_open(nic: *mut Ccnic, index: u16, out: *mut *mut CcnicQueue) -> c_int {
    guard(|| {
        // SAFETY: null or a NIC, open or closed.
        let nic = unsafe { shared(nic)? };
        if out.is_null() {
            return Err(NULL);
        }
        let queue = nic.queue(index)?;
        // SAFETY: not null, the caller's memory for a pointer.
        unsafe { out.write(queue.as_ptr()) };
        Ok(0)
    })
}

/// # Safety
/// As `ccnic.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccnic_queue_close(queue: *mut CcnicQueue) -> c_int {
    guard(|| {
        // SAFETY: null or a queue, open or closed, that no other thread uses.
        unsafe { shut(queue, CcnicQueue::close)? };
        Ok(0)
    })
}

/// # Safety
/// As `ccnic.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccnic_queue_stats(
    queue: *const CcnicQueue,
    out: *mut CcnicStats,
    size: usize,
) -> c_int {
    guard(|| {
        // SAFETY: null or a queue, open or closed, that no other thread uses.
        let stats = unsafe { shared(queue)? }.stats();
        if out.is_null() {
            return Err(NULL);
        }
        // SAFETY: the caller guarantees `size` bytes.
        unsafe { write_sized(&stats, out, size) };
        Ok(0)
    })
}

/// # Safety
/// As `ccnic.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccnic_wait(queue: *mut CcnicQueue, timeout_ns: i64) -> c_int {
    guard(|| {
        // SAFETY: null or a queue, open or closed, that no other thread uses.
        let queue = unsafe { exclusive(queue)? };
        let n = wait(queue, u64::try_from(timeout_ns).ok().map(Duration::from_nanos))?;
        Ok(n as c_int)
    })
}

/// # Safety
/// As `ccnic.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccnic_rx_fd(queue: *mut CcnicQueue) -> c_int {
    // SAFETY: null or a queue, open or closed, that no other thread uses.
    guard(|| unsafe { exclusive(queue)? }.rx_fd())
}

/// # Safety
/// As `ccnic.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccnic_rx_arm(queue: *mut CcnicQueue) -> c_int {
    // SAFETY: null or a queue, open or closed, that no other thread uses.
    guard(|| Ok(unsafe { exclusive(queue)? }.arm()? as c_int))
}

/// # Safety
/// As `ccnic.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccnic_rx_disarm(queue: *mut CcnicQueue) -> c_int {
    guard(|| {
        // SAFETY: null or a queue that no other thread uses.
        unsafe { exclusive(queue)? }.disarm();
        Ok(0)
    })
}

/// # Safety
/// As `ccnic.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccnic_rx_notify(queue: *mut CcnicQueue) -> c_int {
    guard(|| {
        // SAFETY: null or a queue that no other thread uses.
        unsafe { exclusive(queue)? }.notify()?;
        Ok(0)
    })
}

/// The text of this thread's last failure: valid until its next one.
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
