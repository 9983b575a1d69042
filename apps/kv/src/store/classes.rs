//! Sizes by class, as memcached's slab allocator has them by default. Memory is not divided among them here; `me`, `stats items` and
//! `stats slabs` tell them, because tools that watch a cache ask for them.

/// As many as there are: 1 to 38 grow by a quarter each, 39 holds what is larger.
pub(crate) const CLASSES: usize = 40;

/// The largest size of each class. Class 0 has no items.
pub(crate) const SIZES: [u32; CLASSES] = sizes();

const LARGEST: u32 = 512 * 1024;

const fn sizes() -> [u32; CLASSES] {
    let mut sizes = [0; CLASSES];
    let mut size = 96u32;
    let mut class = 1;
    while class < CLASSES - 1 {
        size = size.next_multiple_of(8);
        sizes[class] = size;
        size = size * 5 / 4;
        class += 1;
    }
    sizes[CLASSES - 1] = LARGEST;
    sizes
}

/// The class of an item of this size.
pub(crate) fn class(total: usize) -> u8 {
    let found = SIZES[1..].partition_point(|size| (*size as usize) < total) + 1;
    found.min(CLASSES - 1) as u8
}

/// How many items of a class a page of a mebibyte holds.
pub(crate) fn per_page(class: usize) -> u32 {
    (1 << 20) / SIZES[class]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_that_memcached_prints() {
        assert_eq!(SIZES[1..6], [96, 120, 152, 192, 240]);
        assert_eq!(SIZES[37..], [315_872, 394_840, 524_288]);
        assert_eq!((class(96), class(97), class(600_000)), (1, 2, 39));
        assert_eq!(per_page(1), 10922);
    }
}
