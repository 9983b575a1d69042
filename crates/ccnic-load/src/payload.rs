//! The payload of the load generator's packets: every byte of every packet is written, and checked when it
//! comes back.
//!
//! Word 0 is the time of sending, word 1 the sequence number, every other 8-byte word a value that depends on
//! the sequence number and the word's index, so that a lost, repeated, torn or misplaced line is detected.
//!
//! Where packets pass a switch, an Ethernet header comes first: two words, and the others follow it.
//!
//! A line is written and compared whole, in one vector register where there are such wide ones. Each packet can pass at
//! 150 million per second, so both take few instructions.

/// The least bytes of a packet: both words.
pub const MIN: u16 = 16;

/// The least bytes of a packet with an Ethernet header.
pub const MIN_ETHERNET: u16 = 32;

/// Words that a packet begins with, before the time: none, or two for an Ethernet header.
///
/// On a line of its own, because compilers read it in the register of a whole line: where the line has a word that was just written, such
/// as a counter, the read waits until that word has left the store queue (a fifth of the rate through the switch).
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
pub struct Header<const N: usize>([u64; N]);

/// Of packets without a header.
pub const NO_HEADER: Header<0> = Header([]);

/// An Ethernet header, and two bytes of zeros: destination, source, and the type for local experiments.
pub fn ethernet(to: [u8; 6], from: [u8; 6]) -> Header<2> {
    let ([a, b, c, d, e, f], [g, h, i, j, k, l]) = (to, from);
    Header([[a, b, c, d, e, f, g, h], [i, j, k, l, 0x88, 0xb5, 0, 0]].map(u64::from_le_bytes))
}

/// Words of a line.
const WORDS: usize = 8;
/// Bytes of a line.
pub const LINE: usize = 8 * WORDS;

/// A line of payload.
type Line = [u64; WORDS];

/// The base of a segment's first line; `at` bytes of packet `seq` lie before it.
#[inline(always)]
fn base(seq: u64, at: usize) -> u64 {
    seq.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(at as u64)
}

/// Bits that a base is rotated by from line to line: an odd number, so that it is another one in each of the 64 lines of a buffer.
const STEP: u32 = 7;

/// The base of the line that comes `lines` after the one with this base.
#[inline(always)]
fn later(base: u64, lines: usize) -> u64 {
    base.rotate_left((lines as u32).wrapping_mul(STEP))
}

/// The bases of several lines one after the other, each in every word: so that compilers keep them in a vector register.
#[inline(always)]
fn next(bases: Line) -> Line {
    bases.map(|base| base.rotate_left(STEP))
}

/// The line with this base in every word.
#[inline(always)]
fn line(mut bases: Line) -> Line {
    // Without a zero, which compilers would treat apart.
    const LANES: Line = [1, 2, 3, 4, 5, 6, 7, 8];
    bases.iter_mut().zip(LANES).for_each(|(word, lane)| *word ^= lane);
    bases
}

/// The first line of a segment: in a packet's first, the header, the time and the number come first.
#[inline(always)]
fn first_line<const N: usize>(header: &Header<N>, at: usize, seq: u64, time: u64) -> Line {
    let whole = line([base(seq, at); WORDS]);
    let [_, _, a, b, c, d, e, f] = whole;
    match *header.0.as_slice() {
        _ if at > 0 => whole,
        // Known when this is compiled.
        [first, second, ..] => [first, second, time, seq, c, d, e, f],
        _ => [time, seq, a, b, c, d, e, f],
    }
}

#[inline(always)]
fn bytes_of(line: Line) -> [u8; LINE] {
    let mut bytes = [0; LINE];
    bytes.as_chunks_mut::<8>().0.iter_mut().zip(line).for_each(|(to, word)| *to = word.to_le_bytes());
    bytes
}

/// True when a whole line is as it should be.
#[inline(always)]
fn same(found: &[u8; LINE], line: Line) -> bool {
    let pairs = found.as_chunks::<8>().0.iter().zip(line);
    pairs.fold(0, |differ, (found, word)| differ | (u64::from_le_bytes(*found) ^ word)) == 0
}

/// The bits in which a whole line differs from what it should be.
#[inline(always)]
fn difference(found: &[u8; LINE], mut line: Line) -> Line {
    let pairs = line.iter_mut().zip(found.as_chunks::<8>().0);
    pairs.for_each(|(word, found)| *word ^= u64::from_le_bytes(*found));
    line
}

/// Fills a segment that starts `at` bytes into its packet, which has no header.
#[inline(always)]
pub fn fill(bytes: &mut [u8], at: usize, seq: u64, time: u64) {
    fill_after(&NO_HEADER, bytes, at, seq, time);
}

/// As [`fill`], of a packet with this header.
#[inline(always)]
pub fn fill_after<const N: usize>(header: &Header<N>, bytes: &mut [u8], at: usize, seq: u64, time: u64) {
    let (lines, rest) = bytes.as_chunks_mut::<LINE>();
    let [to, lines @ ..] = lines else { return fill_short(header, rest, at, seq, time) };
    *to = bytes_of(first_line(header, at, seq, time));
    let base = base(seq, at);
    let (mut bases, count) = ([base; WORDS], lines.len());
    for to in lines {
        bases = next(bases);
        *to = bytes_of(line(bases));
    }
    if !rest.is_empty() {
        fill_part(rest, later(base, count + 1));
    }
}

// Parts of lines are kept out of the loops over bursts: a call of the C library in one would make each packet load the loop's
// constants again, and words that are also used one by one are not worked on as vectors.

/// Fills a segment of less than a line.
#[cold]
#[inline(never)]
fn fill_short<const N: usize>(header: &Header<N>, to: &mut [u8], at: usize, seq: u64, time: u64) {
    copy(to, first_line(header, at, seq, time));
}

/// Fills the part of a line with this base.
#[cold]
#[inline(never)]
fn fill_part(to: &mut [u8], base: u64) {
    copy(to, line([base; WORDS]));
}

/// Copies the first bytes of a line, fewer than all: in pieces of powers of two, since a call of the C library takes longer than they do.
#[inline(always)]
fn copy(mut to: &mut [u8], line: Line) {
    #[inline(always)]
    fn piece<const N: usize>(to: &mut &mut [u8], from: &mut &[u8]) {
        if to.len() & N > 0
            && let Some((bytes, left)) = from.split_first_chunk::<N>()
            && let Some((now, rest)) = core::mem::take(to).split_first_chunk_mut()
        {
            *now = *bytes;
            (*to, *from) = (rest, left);
        }
    }
    let bytes = bytes_of(line);
    let (to, from) = (&mut to, &mut bytes.as_slice());
    piece::<32>(to, from);
    piece::<16>(to, from);
    piece::<8>(to, from);
    piece::<4>(to, from);
    piece::<2>(to, from);
    piece::<1>(to, from);
}

/// The time of sending and the sequence number of the first segment of a packet without a header.
#[inline(always)]
pub fn header(bytes: &[u8]) -> Option<(u64, u64)> {
    stamps_after::<0>(bytes)
}

/// As [`header`], of a packet with a header of `N` words.
#[inline(always)]
pub fn stamps_after<const N: usize>(bytes: &[u8]) -> Option<(u64, u64)> {
    match bytes.as_chunks::<8>().0.get(N..)? {
        [time, seq, ..] => Some((u64::from_le_bytes(*time), u64::from_le_bytes(*seq))),
        _ => None,
    }
}

/// True when every byte of a segment is what [`fill_after`] wrote for this packet at this time. `at` bytes of the packet lie
/// before it.
#[inline(always)]
pub fn matches<const N: usize>(header: &Header<N>, bytes: &[u8], at: usize, seq: u64, time: u64) -> bool {
    let (lines, rest) = bytes.as_chunks::<LINE>();
    let [found, lines @ ..] = lines else { return matches_short(header, rest, at, seq, time) };
    if !same(found, first_line(header, at, seq, time)) {
        return false;
    }
    let base = base(seq, at);
    let (mut bases, mut differ, count) = ([base; WORDS], [0; WORDS], lines.len());
    for found in lines {
        bases = next(bases);
        let here = difference(found, line(bases));
        differ.iter_mut().zip(here).for_each(|(all, here)| *all |= here);
    }
    differ.iter().fold(0, |any, word| any | word) == 0
        && (rest.is_empty() || matches_part(rest, later(base, count + 1)))
}

/// `matches` for a segment of less than a line.
#[cold]
#[inline(never)]
fn matches_short<const N: usize>(header: &Header<N>, found: &[u8], at: usize, seq: u64, time: u64) -> bool {
    begins(found, first_line(header, at, seq, time))
}

/// True when the part of a line with this base is as it should be.
#[cold]
#[inline(never)]
fn matches_part(found: &[u8], base: u64) -> bool {
    begins(found, line([base; WORDS]))
}

/// True when a line begins with what was found, which is shorter: compared as [`copy`] copies.
#[inline(always)]
fn begins(mut found: &[u8], line: Line) -> bool {
    #[inline(always)]
    fn piece<const N: usize>(found: &mut &[u8], line: &mut &[u8]) -> bool {
        if found.len() & N == 0 {
            return true;
        }
        let (Some((now, rest)), Some((bytes, left))) =
            (found.split_first_chunk::<N>(), line.split_first_chunk())
        else {
            return false;
        };
        (*found, *line) = (rest, left);
        now == bytes
    }
    let bytes = bytes_of(line);
    let (found, line) = (&mut found, &mut bytes.as_slice());
    piece::<32>(found, line)
        & piece::<16>(found, line)
        & piece::<8>(found, line)
        & piece::<4>(found, line)
        & piece::<2>(found, line)
        & piece::<1>(found, line)
}

/// True when every byte of a segment is what [`fill`] wrote for this packet at any time.
#[inline(always)]
pub fn check(bytes: &[u8], at: usize, seq: u64) -> bool {
    check_after(&NO_HEADER, bytes, at, seq)
}

/// As [`check`], of a packet with this header.
#[inline(always)]
pub fn check_after<const N: usize>(header: &Header<N>, bytes: &[u8], at: usize, seq: u64) -> bool {
    match stamps_after::<N>(bytes) {
        _ if at > 0 => matches(header, bytes, at, seq, 0),
        Some((time, _)) => matches(header, bytes, 0, seq, time),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_changed_byte_is_detected() {
        for len in [16, 17, 63, 64, 67, 128, 256, 1500] {
            let mut packet = vec![0; len];
            fill(&mut packet, 0, 77, 5);
            assert_eq!(header(&packet), Some((5, 77)));
            assert!(matches(&NO_HEADER, &packet, 0, 77, 5) && check(&packet, 0, 77));
            assert!(!check(&packet, 0, 78) && !matches(&NO_HEADER, &packet, 0, 77, 6));
            for i in 0..len {
                packet[i] ^= 1;
                assert!(!matches(&NO_HEADER, &packet, 0, 77, 5), "byte {i} of {len}");
                assert_eq!(check(&packet, 0, 77), i < 8, "byte {i} of {len}: the time may be any");
                packet[i] ^= 1;
            }
        }
    }

    #[test]
    fn a_header_comes_first_and_is_checked() {
        let header = ethernet([1, 2, 3, 4, 5, 6], [7, 8, 9, 10, 11, 12]);
        for len in [32, 63, 64, 1500] {
            let mut packet = vec![0; len];
            fill_after(&header, &mut packet, 0, 77, 5);
            assert_eq!(packet[..16], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0x88, 0xb5, 0, 0]);
            assert_eq!(stamps_after::<2>(&packet), Some((5, 77)));
            for i in 0..len {
                assert!(check_after(&header, &packet, 0, 77) && matches(&header, &packet, 0, 77, 5));
                packet[i] ^= 1;
                assert!(!matches(&header, &packet, 0, 77, 5), "byte {i} of {len}");
                assert_eq!(check_after(&header, &packet, 0, 77), (16..24).contains(&i), "byte {i}: the time");
                packet[i] ^= 1;
            }
        }
    }

    #[test]
    fn segments_differ_by_their_place() {
        let mut whole = vec![0; 9000];
        fill(&mut whole, 0, 3, 1);
        fill(&mut whole[..4096], 0, 3, 1);
        fill(&mut whole[4096..], 4096, 3, 1);
        assert!(check(&whole[..4096], 0, 3) && check(&whole[4096..], 4096, 3));
        assert!(!check(&whole[4096..], 0, 3) && !check(&whole[4096..], 8192, 3));
        whole[8999] ^= 1;
        assert!(!check(&whole[4096..], 4096, 3));
    }

    #[test]
    fn lines_in_the_wrong_place_are_detected() {
        let mut packet = vec![0; 256];
        fill(&mut packet, 0, 3, 1);
        let (first, second) = packet.split_at_mut(128);
        first[64..].swap_with_slice(&mut second[..64]);
        assert!(!check(&packet, 0, 3));
    }
}
