//! What the exported functions do with pointers of C: arrays become slices, strings text, small packets are copied.
//! The only other unsafe code of this crate is the calls of these functions, and the handles (`handle.rs`).

use std::ffi::{CStr, OsStr, c_char};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::io::Errno;

use crate::errno::{Failure, NULL};
use crate::handle::exclusive;

/// The queue or pool, and the caller's array for `n` values that the call fills in: buffer handles, or addresses.
///
/// # Safety
/// `queue` is null, or a handle that no other thread uses, open or closed (see [`exclusive`]); `values` is null or points to an array of `n` elements.
#[inline(always)]
pub(crate) unsafe fn output<'a, T, V>(
    queue: *mut T,
    values: *mut V,
    n: u16,
) -> Result<(&'a mut T, &'a mut [MaybeUninit<V>]), Failure> {
    // SAFETY: guaranteed by the caller.
    let queue = unsafe { exclusive(queue)? };
    if values.is_null() {
        return if n == 0 { Ok((queue, &mut [])) } else { Err(NULL) };
    }
    // SAFETY: not null; the caller guarantees `n` elements, which may be uninitialised.
    Ok((queue, unsafe { std::slice::from_raw_parts_mut(values.cast(), usize::from(n)) }))
}

/// The queue or pool, and the caller's array of `n` values: buffer handles, or segments.
///
/// # Safety
/// As [`output`]; all elements are initialised, and any bit pattern is a valid `V`.
#[inline(always)]
pub(crate) unsafe fn input<'a, T, V>(
    queue: *mut T,
    values: *const V,
    n: u16,
) -> Result<(&'a mut T, &'a [V]), Failure> {
    // SAFETY: guaranteed by the caller.
    unsafe { Ok((exclusive(queue)?, array(values, n)?)) }
}

/// An array of `n` initialised values. A null pointer is an empty array if `n` is 0.
///
/// # Safety
/// `first` is null or points to `n` values.
#[inline(always)]
pub(crate) unsafe fn array<'a, T>(first: *const T, n: u16) -> Result<&'a [T], Failure> {
    if first.is_null() {
        return if n == 0 { Ok(&[]) } else { Err(NULL) };
    }
    // SAFETY: not null; the caller guarantees `n` values.
    Ok(unsafe { std::slice::from_raw_parts(first, usize::from(n)) })
}

/// Copies 0 to 128 bytes in registers, without a call. Two stores may overlap; no byte beyond `len` is written.
///
/// # Safety
/// `from` has `len` readable bytes, `to` has `len` writable bytes, and they do not overlap.
#[inline(always)]
pub(crate) unsafe fn copy_small(from: *const u8, to: *mut u8, len: usize) {
    /// Copies the first and the last `N` bytes.
    ///
    /// # Safety
    /// As `copy_small`, and `len` is at least `N`.
    #[inline(always)]
    unsafe fn both_ends<const N: usize>(from: *const u8, to: *mut u8, len: usize) {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let first = from.cast::<[u8; N]>().read();
            let last = from.add(len - N).cast::<[u8; N]>().read();
            to.cast::<[u8; N]>().write(first);
            to.add(len - N).cast::<[u8; N]>().write(last);
        }
    }
    // SAFETY: the caller guarantees `len` bytes on either side.
    unsafe {
        match len {
            64 => to.cast::<[u8; 64]>().write(from.cast::<[u8; 64]>().read()),
            65.. => both_ends::<64>(from, to, len),
            32.. => both_ends::<32>(from, to, len),
            16.. => both_ends::<16>(from, to, len),
            8.. => both_ends::<8>(from, to, len),
            _ => std::ptr::copy_nonoverlapping(from, to, len),
        }
    }
}

/// A file's path.
///
/// # Safety
/// `path` points to a string that lives as long as `'a`.
pub(crate) unsafe fn path<'a>(path: *const c_char) -> &'a Path {
    // SAFETY: guaranteed by the caller.
    OsStr::from_bytes(unsafe { CStr::from_ptr(path) }.to_bytes()).as_ref()
}

/// The name for the status display: the one given (bytes that are not UTF-8 are replaced), or that of the process's executable.
///
/// # Safety
/// `given` is null or points to a string.
pub(crate) unsafe fn status_name(given: *const c_char) -> Result<String, Failure> {
    if !given.is_null() {
        // SAFETY: not null; the caller guarantees a string.
        let name = unsafe { CStr::from_ptr(given) }.to_string_lossy().into_owned();
        let long = Failure::new(Errno::NAMETOOLONG, c"the name is longer than 255 bytes");
        return if name.len() > 255 { Err(long) } else { Ok(name) };
    }
    let name = std::fs::read_to_string("/proc/self/comm").unwrap_or_default();
    Ok(if name.trim().is_empty() { "program".to_owned() } else { name.trim().to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handle::{Owned, handles};

    struct Queue;

    handles!(Queue);

    #[test]
    fn a_null_array_is_empty_or_an_error() {
        // SAFETY: null is allowed.
        unsafe {
            assert!(array::<u64>(std::ptr::null(), 0).unwrap().is_empty());
            assert_eq!(array::<u64>(std::ptr::null(), 1).unwrap_err().code(), -Errno::INVAL.raw_os_error());
            let queue = Owned::new(Queue).into_handle();
            assert!(output(queue, std::ptr::null_mut::<u64>(), 0).unwrap().1.is_empty());
            assert!(output(queue, std::ptr::null_mut::<u64>(), 1).is_err());
            assert!(output(std::ptr::null_mut::<Queue>(), std::ptr::null_mut::<u64>(), 0).is_err());
            drop(Owned::take(queue));
        }
    }

    #[test]
    fn a_small_copy_writes_its_bytes_and_no_other() {
        let from: [u8; 128] = std::array::from_fn(|i| i as u8 ^ 0x5a);
        for len in 0..=128 {
            let mut to = [0xee; 160];
            // SAFETY: both arrays are longer than `16 + len` bytes and do not overlap.
            unsafe { copy_small(from.as_ptr(), to.as_mut_ptr().add(16), len) };
            assert_eq!(to[16..16 + len], from[..len], "{len}");
            assert!(to[..16].iter().chain(&to[16 + len..]).all(|&byte| byte == 0xee), "{len}");
        }
    }

    #[test]
    fn a_name_has_at_most_255_bytes() {
        let (longest, longer) = (format!("{}\0", "n".repeat(255)), format!("{}\0", "n".repeat(256)));
        // SAFETY: strings of C, or null.
        unsafe {
            assert_eq!(status_name(longest.as_ptr().cast()).unwrap().len(), 255);
            assert_eq!(
                status_name(longer.as_ptr().cast()).unwrap_err().code(),
                -Errno::NAMETOOLONG.raw_os_error()
            );
            assert_eq!(status_name(c"\xff!".as_ptr()).unwrap(), "\u{fffd}!");
            assert!(!status_name(std::ptr::null()).unwrap().is_empty());
        }
    }
}
