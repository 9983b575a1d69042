//! Where data begin in a buffer.

use crate::layout::LARGE;
use crate::port::LINE;

use super::Class;

/// Where a segment of `len` bytes begins in the buffer at `at`.
///
/// Large buffers lie 4 KiB apart, so their first lines share one set of a first-level cache, which holds a dozen of them. In each
/// of sixteen neighbours the data begins another two lines further in. What is before it is room for headers that the receiver
/// puts there.
#[inline(always)]
pub(crate) fn place(at: u32, len: u32, class: Class) -> u32 {
    const STEP: u32 = 2 * LINE;
    let room = class.size().saturating_sub(len) & !(LINE - 1);
    match class {
        Class::Small => at,
        Class::Large => at + (STEP * (1 + at / LARGE % 16)).min(room),
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;

    #[test]
    fn data_lie_inside_their_buffer_with_room_in_front() {
        for at in (0..40).map(|i| i * LARGE) {
            for len in (0..=LARGE).chain([5000, 9600]) {
                let skip = place(at, len, Class::Large) - at;
                assert!(
                    skip.is_multiple_of(LINE) && skip + len.min(LARGE) <= LARGE,
                    "{len} bytes at {at}: {skip}"
                );
                assert!(skip >= 128 || len > LARGE - 128, "{len} bytes at {at}: {skip}");
            }
            assert_eq!(place(at, 64, Class::Small), at);
        }
        let mut begins: std::vec::Vec<u32> =
            (0..16).map(|i| place(i * LARGE, 1500, Class::Large) % LARGE).collect();
        begins.sort_unstable();
        begins.dedup();
        assert_eq!(begins.len(), 16, "each of sixteen neighbours begins elsewhere");
    }
}
