//! Stores around the cache, for measurements that compare them with stores through it (CC-NIC section 3.3,
//! figure 9).

use ccnic::LINE;
#[cfg(not(target_arch = "x86_64"))]
use ccnic::SharedMemory;

use crate::memory::NativeMemory;

impl NativeMemory {
    /// Writes a line around the cache (MOVNTDQ). Others see it in order only after [`wait_for_stores`].
    #[inline(always)]
    pub fn write_around(&self, at: u32, line: &[u8; LINE as usize]) {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::x86_64::{_mm_loadu_si128, _mm_stream_si128};
            for i in (0..LINE).step_by(16) {
                // SAFETY: the store is 16-byte aligned by the mask and inside the reservation of the mapping;
                // the load reads 16 of the 64 bytes of `line`.
                unsafe {
                    let value = _mm_loadu_si128(line.as_ptr().add(i as usize).cast());
                    _mm_stream_si128(self.at((at & !(LINE - 1)) + i).cast(), value);
                }
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        self.write(at, line);
    }
}

/// Makes earlier stores around the cache visible before later stores (SFENCE).
#[inline(always)]
pub fn wait_for_stores() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: SFENCE is part of SSE, which every x86-64 processor has; it changes no architectural state.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
    #[cfg(not(target_arch = "x86_64"))]
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
}
