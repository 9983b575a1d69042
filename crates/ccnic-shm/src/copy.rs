//! Copies of payload from region to region, through registers: whole lines, and a rest without a call to libc.

use ccnic::{LINE, SharedMemory};

use crate::memory::NativeMemory;

/// Copies `len` bytes. A program may change them meanwhile; the copy is then torn.
#[inline(always)]
pub(crate) fn copy<Q: SharedMemory>(src: &NativeMemory, from: u32, dst: &Q, to: u32, len: u32) {
    let whole = len & !(LINE - 1);
    let mut done = 0;
    while done < whole {
        piece::<{ LINE as usize }, Q>(src, from.wrapping_add(done), dst, to.wrapping_add(done));
        done += LINE;
    }
    if done < len {
        // The last bytes of a packet, and some of those before with them.
        if len > LINE {
            return end::<{ LINE as usize }, Q>(src, from, dst, to, len);
        }
        if len >= 32 {
            return ends::<32, Q>(src, from, dst, to, len);
        }
        copy_rest(src, from, dst, to, len);
    }
}

/// Copies fewer than 32 bytes, in one move or two. Out of line: inlined, it takes registers and time from packets of whole lines.
#[inline(never)]
fn copy_rest<Q: SharedMemory>(src: &NativeMemory, from: u32, dst: &Q, to: u32, len: u32) {
    match len {
        16.. => ends::<16, Q>(src, from, dst, to, len),
        8.. => ends::<8, Q>(src, from, dst, to, len),
        4.. => ends::<4, Q>(src, from, dst, to, len),
        2.. => ends::<2, Q>(src, from, dst, to, len),
        1 => piece::<1, Q>(src, from, dst, to),
        0 => {}
    }
}

/// Copies the first and the last `N` of `len` bytes, which may overlap.
#[inline(always)]
fn ends<const N: usize, Q: SharedMemory>(src: &NativeMemory, from: u32, dst: &Q, to: u32, len: u32) {
    piece::<N, Q>(src, from, dst, to);
    end::<N, Q>(src, from, dst, to, len);
}

/// Copies the last `N` of `len` bytes.
#[inline(always)]
fn end<const N: usize, Q: SharedMemory>(src: &NativeMemory, from: u32, dst: &Q, to: u32, len: u32) {
    let at = len - N as u32;
    piece::<N, Q>(src, from.wrapping_add(at), dst, to.wrapping_add(at));
}

/// Copies `N` bytes: in one move where there are registers as wide ([`Vectors`](crate::Vectors)).
#[inline(always)]
fn piece<const N: usize, Q: SharedMemory>(src: &NativeMemory, from: u32, dst: &Q, to: u32) {
    let mut bytes = [0; N];
    src.read(from, &mut bytes);
    dst.write(to, &bytes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Pages, Region, Vectors};

    /// The longest packet, and where its copy begins: every place within a line.
    const MOST: u32 = 9600;
    const TO: u32 = 16 << 10;

    /// Bytes that tell where they are from.
    fn pattern(len: u32) -> Vec<u8> {
        (0..len).map(|i| (i.wrapping_mul(0x9e37_79b1) >> 24) as u8).collect()
    }

    #[test]
    fn every_length_is_copied_with_all_registers_and_no_byte_more() {
        let region = Region::create(1 << 16, Pages::Small).unwrap();
        let (src, dst) = (region.memory(), region.memory());
        let data = pattern(MOST + 64);
        src.write(0, &data);
        let (empty, mut found) = (vec![0xee; MOST as usize + 256], vec![0; MOST as usize + 256]);
        for vectors in Vectors::available() {
            for len in 0..=MOST {
                let (from, shift) = (len * 7 % 64, len * 5 % 64);
                let (first, end) = ((64 + shift) as usize, (64 + shift + len) as usize);
                let around = end + 64;
                dst.write(TO, &empty[..around]);
                vectors.run(
                    #[inline(always)]
                    || src.copy_to(from, &dst, TO + 64 + shift, len),
                );
                dst.read(TO, &mut found[..around]);
                let sent = &data[from as usize..][..len as usize];
                assert!(found[first..end] == *sent, "{vectors:?}, {len} bytes from {from} to {shift}");
                let others = found[..first].iter().chain(&found[end..around]);
                assert!(
                    others.copied().all(|byte| byte == 0xee),
                    "{vectors:?}, {len} bytes from {from} to {shift}"
                );
            }
        }
    }

    #[test]
    fn a_packet_copied_onto_itself_stays() {
        let region = Region::create(1 << 16, Pages::Small).unwrap();
        let mem = region.memory();
        let data = pattern(300);
        for vectors in Vectors::available() {
            for len in 0..=300u32 {
                mem.write(5, &data);
                vectors.run(|| mem.copy_to(5, &mem, 5, len));
                let mut found = vec![0; 300];
                mem.read(5, &mut found);
                assert_eq!(found, data, "{vectors:?}, {len} bytes");
            }
        }
    }

    /// As a program may: what is copied is torn, but every byte is one of the two that were there.
    #[test]
    fn a_source_that_changes_meanwhile_gives_bytes_that_were_there() {
        use std::sync::atomic::{AtomicBool, Ordering};

        let region = Region::create(1 << 16, Pages::Small).unwrap();
        let (src, dst, program) = (region.memory(), region.memory(), region.memory());
        let stop = &AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    program.write(0, &[0x11; 1500]);
                    program.write(0, &[0x22; 1500]);
                }
            });
            src.write(0, &[0x11; 1500]);
            let intact = |vectors: Vectors, len: u32| {
                let mut found = vec![0; len as usize];
                vectors.run(|| src.copy_to(0, &dst, TO, len));
                dst.read(TO, &mut found);
                found.iter().all(|byte| [0x11, 0x22].contains(byte))
            };
            let lens = || Vectors::available().flat_map(|vectors| (1..1500).map(move |len| (vectors, len)));
            let damaged = lens().find(|(vectors, len)| !intact(*vectors, *len));
            stop.store(true, Ordering::Relaxed);
            assert_eq!(damaged, None);
        });
    }
}
