//! The functions of `ccnic.h` that move packets. Their contracts stand there; here pointers become slices, and small packets are
//! copied. Their hot paths have nothing in them that panics (the assembly audit of `ccnic-check`).

use std::ffi::c_int;
use std::mem::MaybeUninit;

use crate::abi::CcnicBuf;
use crate::errno::{Failure, NULL, burst};
use crate::queue::Queue;

/// The queue and the caller's array, for a burst.
///
/// # Safety
/// `queue` is null, or a queue or pool of an open NIC, or of a program that has not been released, that no other thread uses; `bufs` is
/// null or has `n` places.
#[inline(always)]
pub(crate) unsafe fn places<'a, T>(
    queue: *mut T,
    bufs: *mut CcnicBuf,
    n: u16,
) -> Result<(&'a mut T, &'a mut [MaybeUninit<CcnicBuf>]), Failure> {
    // SAFETY: as the caller vouches.
    let queue = unsafe { queue.as_mut() }.ok_or(NULL)?;
    if bufs.is_null() {
        return if n == 0 { Ok((queue, &mut [])) } else { Err(NULL) };
    }
    // SAFETY: not null, `n` places, as the caller vouches; they need not hold anything yet.
    Ok((queue, unsafe { std::slice::from_raw_parts_mut(bufs.cast(), usize::from(n)) }))
}

/// As [`places`], with values in them: handles, or the segments that a NIC sends.
///
/// # Safety
/// As [`places`]; all places hold values, of a type that takes any bytes.
#[inline(always)]
pub(crate) unsafe fn given<'a, T, V>(
    queue: *mut T,
    values: *const V,
    n: u16,
) -> Result<(&'a mut T, &'a [V]), Failure> {
    // SAFETY: as the caller vouches; any bits make a value.
    unsafe { Ok((queue.as_mut().ok_or(NULL)?, array(values, n)?)) }
}

/// # Safety
/// As `ccnic.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccnic_buf_alloc(queue: *mut Queue, len: u16, bufs: *mut CcnicBuf, n: u16) -> c_int {
    burst(|| {
        // SAFETY: the contract of the header.
        let (queue, out) = unsafe { places(queue, bufs, n)? };
        queue.alloc(len, out)
    })
}

/// # Safety
/// As `ccnic.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccnic_buf_free(queue: *mut Queue, bufs: *const CcnicBuf, n: u16) -> c_int {
    burst(|| {
        // SAFETY: the contract of the header.
        let (queue, bufs) = unsafe { given(queue, bufs, n)? };
        queue.free(bufs)
    })
}

/// # Safety
/// As `ccnic.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccnic_tx_burst(queue: *mut Queue, bufs: *const CcnicBuf, n: u16) -> c_int {
    burst(|| {
        // SAFETY: the contract of the header.
        let (queue, bufs) = unsafe { given(queue, bufs, n)? };
        queue.transmit(bufs)
    })
}

/// # Safety
/// As `ccnic.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccnic_rx_burst(queue: *mut Queue, bufs: *mut CcnicBuf, n: u16) -> c_int {
    burst(|| {
        // SAFETY: the contract of the header.
        let (queue, out) = unsafe { places(queue, bufs, n)? };
        queue.receive(out)
    })
}

/// # Safety
/// As `ccnic.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccnic_tx_small(
    queue: *mut Queue,
    data: *const *const u8,
    len: *const u16,
    n: u16,
) -> c_int {
    burst(|| {
        // SAFETY: the contract of the header.
        let (queue, data, lens) = unsafe { (queue.as_mut().ok_or(NULL)?, array(data, n)?, array(len, n)?) };
        // SAFETY: each has as many bytes as its length says (the contract of the header).
        queue
            .transmit_small(data, lens, |at, len| unsafe { std::slice::from_raw_parts(at, usize::from(len)) })
    })
}

/// # Safety
/// As `ccnic.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccnic_rx_small(
    queue: *mut Queue,
    room: *const *mut u8,
    len: *mut u16,
    meta: *mut u64,
    n: u16,
) -> c_int {
    burst(|| {
        // SAFETY: the contract of the header.
        let (queue, rooms) = unsafe { (queue.as_mut().ok_or(NULL)?, array(room, n)?) };
        if len.is_null() && n > 0 {
            return Err(NULL);
        }
        queue.receive_small(rooms.len(), move |i, bytes, word| {
            let Some(&to) = rooms.get(i) else { return };
            // SAFETY: `i` is below `n`, so there are places for a length and, unless there are none, metadata; the room is for the
            // longest packet that comes here, CCNIC_SMALL bytes (the contract of the header).
            unsafe {
                copy_small(bytes.as_ptr(), to, bytes.len());
                len.add(i).write(bytes.len() as u16);
                if !meta.is_null() {
                    meta.add(i).write(word);
                }
            }
        })
    })
}

/// A caller's array of `n` values.
///
/// # Safety
/// `first` is null or the first of `n` values.
#[inline(always)]
unsafe fn array<'a, T>(first: *const T, n: u16) -> Result<&'a [T], Failure> {
    if first.is_null() {
        return if n == 0 { Ok(&[]) } else { Err(NULL) };
    }
    // SAFETY: not null, `n` values, as the caller vouches.
    Ok(unsafe { std::slice::from_raw_parts(first, usize::from(n)) })
}

/// Copies 0 to 128 bytes, in registers and without a call: with stores that may overlap and never touch a byte beyond.
///
/// # Safety
/// `from` has `len` bytes to read, `to` has as many to write, and they do not overlap.
#[inline(always)]
unsafe fn copy_small(from: *const u8, to: *mut u8, len: usize) {
    /// Copies `N` bytes at either end.
    ///
    /// # Safety
    /// As `copy_small`, and `len` is at least `N`.
    #[inline(always)]
    unsafe fn ends<const N: usize>(from: *const u8, to: *mut u8, len: usize) {
        // SAFETY: the caller vouches for it.
        unsafe {
            let first = from.cast::<[u8; N]>().read();
            let last = from.add(len - N).cast::<[u8; N]>().read();
            to.cast::<[u8; N]>().write(first);
            to.add(len - N).cast::<[u8; N]>().write(last);
        }
    }
    // SAFETY: the caller vouches for `len` bytes on either side.
    unsafe {
        match len {
            64 => to.cast::<[u8; 64]>().write(from.cast::<[u8; 64]>().read()),
            65.. => ends::<64>(from, to, len),
            32.. => ends::<32>(from, to, len),
            16.. => ends::<16>(from, to, len),
            8.. => ends::<8>(from, to, len),
            _ => std::ptr::copy_nonoverlapping(from, to, len),
        }
    }
}
