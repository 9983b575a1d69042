//! Clocks, and the order of loads around them.

/// Waits until every earlier load of this thread has its value (LFENCE). Otherwise the processor may read a
/// clock before an earlier load has finished, and the measured time is too short.
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

/// CPU time of this thread in nanoseconds.
pub fn thread_time() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // By libc: rustix looks for the vDSO itself, and valgrind hides it.
    // SAFETY: the kernel writes a timespec to where one is.
    let failed = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) } != 0;
    if failed { 0 } else { time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned() }
}

/// The processor's time stamp counter: some ten nanoseconds to read. Ticks of unknown length, to be compared on one CPU; not ordered
/// with loads and stores around it.
#[inline(always)]
pub fn timestamp() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has RDTSC; it reads a counter.
    return unsafe { std::arch::x86_64::_rdtsc() };
    #[cfg(target_arch = "aarch64")]
    {
        let ticks: u64;
        // SAFETY: Linux lets user space read the virtual counter; nothing else changes.
        unsafe { std::arch::asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack)) };
        return ticks;
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        static START: std::sync::LazyLock<std::time::Instant> =
            std::sync::LazyLock::new(std::time::Instant::now);
        START.elapsed().as_nanos() as u64
    }
}
