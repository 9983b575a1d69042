//! The functions of `ccnic.h` that move packets; the header specifies them. Here pointers become slices, and small packets are
//! copied. Their hot paths contain no panic.

use std::ffi::c_int;

use super::queue::CcnicQueue;
use crate::abi::CcnicBuf;
use crate::errno::{NULL, burst};
use crate::handle::exclusive;
use crate::pointers::{array, copy_small, input, output};

/// # Safety
/// As `ccnic.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccnic_buf_alloc(
    queue: *mut CcnicQueue,
    len: u16,
    bufs: *mut CcnicBuf,
    n: u16,
) -> c_int {
    burst(|| {
        // SAFETY: the contract of the header.
        let (queue, out) = unsafe { output(queue, bufs, n)? };
        queue.alloc(len, out)
    })
}

/// # Safety
/// As `ccnic.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccnic_buf_free(queue: *mut CcnicQueue, bufs: *const CcnicBuf, n: u16) -> c_int {
    burst(|| {
        // SAFETY: the contract of the header.
        let (queue, bufs) = unsafe { input(queue, bufs, n)? };
        queue.free(bufs)
    })
}

/// # Safety
/// As `ccnic.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccnic_tx_burst(queue: *mut CcnicQueue, bufs: *const CcnicBuf, n: u16) -> c_int {
    burst(|| {
        // SAFETY: the contract of the header.
        let (queue, bufs) = unsafe { input(queue, bufs, n)? };
        queue.transmit(bufs)
    })
}

/// # Safety
/// As `ccnic.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccnic_rx_burst(queue: *mut CcnicQueue, bufs: *mut CcnicBuf, n: u16) -> c_int {
    burst(|| {
        // SAFETY: the contract of the header.
        let (queue, out) = unsafe { output(queue, bufs, n)? };
        queue.receive(out)
    })
}

/// # Safety
/// As `ccnic.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccnic_tx_small(
    queue: *mut CcnicQueue,
    data: *const *const u8,
    len: *const u16,
    n: u16,
) -> c_int {
    burst(|| {
        // SAFETY: the contract of the header.
        let (queue, data, lens) = unsafe { (exclusive(queue)?, array(data, n)?, array(len, n)?) };
        // SAFETY: each has as many bytes as its length says (the contract of the header).
        queue
            .transmit_small(data, lens, |at, len| unsafe { std::slice::from_raw_parts(at, usize::from(len)) })
    })
}

/// # Safety
/// As `ccnic.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccnic_rx_small(
    queue: *mut CcnicQueue,
    room: *const *mut u8,
    len: *mut u16,
    meta: *mut u64,
    n: u16,
) -> c_int {
    burst(|| {
        // SAFETY: the contract of the header.
        let (queue, rooms) = unsafe { (exclusive(queue)?, array(room, n)?) };
        if len.is_null() && n > 0 {
            return Err(NULL);
        }
        queue.receive_small(
            rooms.len(),
            #[inline(always)]
            move |i, bytes, word| {
                let Some(&to) = rooms.get(i) else { return };
                // SAFETY: `i` is below `n`, so `len` and, unless it is null, `meta` have an entry for it; the room has
                // CCNIC_SMALL_SIZE bytes, which no small packet exceeds (the contract of the header).
                unsafe {
                    copy_small(bytes.as_ptr(), to, bytes.len());
                    len.add(i).write(bytes.len() as u16);
                    if !meta.is_null() {
                        meta.add(i).write(word);
                    }
                }
            },
        )
    })
}

/// # Safety
/// As `ccnic.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccnic_tx_reserve(
    queue: *mut CcnicQueue,
    len: u16,
    data: *mut *mut u8,
    n: u16,
) -> c_int {
    burst(|| {
        // SAFETY: the contract of the header.
        let (queue, out) = unsafe { output(queue, data, n)? };
        queue.reserve(len, out)
    })
}

/// # Safety
/// As `ccnic.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccnic_tx_commit(
    queue: *mut CcnicQueue,
    len: *const u16,
    meta: *const u64,
    n: u16,
) -> c_int {
    burst(|| {
        // SAFETY: null, or arrays of `n` values (the contract of the header).
        let (queue, lens, metas) = unsafe { (exclusive(queue)?, array(len, n), array(meta, n)) };
        queue.commit(n.into(), lens.ok(), metas.ok())
    })
}

/// # Safety
/// As `ccnic.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccnic_tx_mixed(
    queue: *mut CcnicQueue,
    bufs: *const CcnicBuf,
    data: *const *const u8,
    n: u16,
) -> c_int {
    burst(|| {
        // SAFETY: the contract of the header.
        let (queue, bufs, data) = unsafe { (exclusive(queue)?, array(bufs, n)?, array(data, n)?) };
        queue.transmit_mixed(
            bufs,
            data,
            #[inline(always)]
            // SAFETY: each that is not null has as many bytes as its entry of `bufs` says (the contract of the header).
            |at, len| unsafe { std::slice::from_raw_parts(at, usize::from(len)) },
        )
    })
}
