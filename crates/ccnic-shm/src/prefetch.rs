//! Prefetches of a program's own memory. Those of a region are [`SharedMemory`](ccnic::SharedMemory)'s.

/// Requests the lines of a value, to read it soon: a hint. It returns at once, so that the misses of several values overlap.
#[inline(always)]
pub fn prefetch<T: ?Sized>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let start = std::ptr::from_ref(value).cast::<i8>();
        let into_line = start.addr() % 64;
        for at in (0..into_line + size_of_val(value)).step_by(64) {
            // SAFETY: a prefetch never faults and changes no architectural state.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(start.wrapping_sub(into_line).wrapping_add(at)) };
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}
