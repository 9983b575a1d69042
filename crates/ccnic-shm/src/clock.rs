//! Ordering for measurements.

/// Waits until every earlier load of this thread has its value (LFENCE). A clock read after a load may otherwise run ahead
/// of it, and make what is measured shorter than it was.
#[inline(always)]
pub fn wait_for_loads() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: LFENCE is part of SSE2, which every x86-64 processor has; it changes no architectural state.
    unsafe {
        std::arch::x86_64::_mm_lfence();
    }
    #[cfg(not(target_arch = "x86_64"))]
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
}
