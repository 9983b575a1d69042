//! Cache colouring: at which byte of a buffer the data begin.

use crate::layout::LARGE_BUF;
use crate::memory::LINE;

use super::Class;

/// The offset of the first data byte of a segment of `len` bytes in the buffer at `at`.
///
/// Large buffers lie 4 KiB apart, so their first lines map to one set of a first-level cache, which holds a
/// dozen of them. In each of sixteen neighbouring buffers the data begin another two lines further in. The
/// bytes before them are headroom for headers that the receiver prepends.
#[inline(always)]
pub(crate) fn data_offset(at: u32, len: u32, class: Class) -> u32 {
    const STEP: u32 = 2 * LINE;
    let room = class.size().saturating_sub(len) & !(LINE - 1);
    match class {
        Class::Small => at,
        Class::Large => at + (STEP * (1 + at / LARGE_BUF % 16)).min(room),
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;

    #[test]
    fn data_lie_inside_their_buffer_with_room_in_front() {
        for at in (0..40).map(|i| i * LARGE_BUF) {
            for len in (0..=LARGE_BUF).chain([5000, 9600]) {
                let skip = data_offset(at, len, Class::Large) - at;
                assert!(
                    skip.is_multiple_of(LINE) && skip + len.min(LARGE_BUF) <= LARGE_BUF,
                    "{len} bytes at {at}: {skip}"
                );
                assert!(skip >= 128 || len > LARGE_BUF - 128, "{len} bytes at {at}: {skip}");
            }
            assert_eq!(data_offset(at, 64, Class::Small), at);
        }
        let mut begins: std::vec::Vec<u32> =
            (0..16).map(|i| data_offset(i * LARGE_BUF, 1500, Class::Large) % LARGE_BUF).collect();
        begins.sort_unstable();
        begins.dedup();
        assert_eq!(begins.len(), 16, "each of sixteen neighbours begins elsewhere");
    }
}
