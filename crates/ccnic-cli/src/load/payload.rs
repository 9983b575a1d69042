//! What the load generator puts into packets: every byte of every packet is written, and checked when it comes back.
//!
//! Word 0 is the time of sending, word 1 the sequence number, every other 8-byte word a value that depends on the sequence
//! number and the word's place, so that a lost, repeated, torn or misplaced line shows.

/// The least bytes of a packet: both words.
pub const MIN: u16 = 16;

/// Bytes written and checked at a time: a line, whose words the compiler handles as vectors.
const LINE: usize = 64;
const WORDS: usize = LINE / 8;

/// The word at place `index` of packet `seq`.
#[inline(always)]
fn word(seq: u64, index: u64) -> u64 {
    seq.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(index)
}

/// The words of a line that starts at place `index`.
#[inline(always)]
fn line(seq: u64, index: u64) -> [u64; WORDS] {
    std::array::from_fn(|i| word(seq, index + i as u64))
}

#[inline(always)]
fn bytes(words: [u64; WORDS]) -> [u8; LINE] {
    let mut bytes = [0; LINE];
    bytes.as_chunks_mut::<8>().0.iter_mut().zip(words).for_each(|(slot, word)| *slot = word.to_le_bytes());
    bytes
}

/// Fills a segment that starts `at` bytes into its packet (a multiple of 8).
#[inline(always)]
pub fn fill(data: &mut [u8], at: usize, seq: u64, time: u64) {
    let mut index = at as u64 / 8;
    let (lines, rest) = data.as_chunks_mut::<LINE>();
    for slot in lines {
        *slot = bytes(line(seq, index));
        index += WORDS as u64;
    }
    if !rest.is_empty() {
        rest.iter_mut().zip(bytes(line(seq, index))).for_each(|(to, from)| *to = from);
    }
    if at == 0
        && let [w0, w1, ..] = data.as_chunks_mut::<8>().0
    {
        (*w0, *w1) = (time.to_le_bytes(), seq.to_le_bytes());
    }
}

/// The time of sending and the sequence number of a packet's first segment.
#[inline(always)]
pub fn header(bytes: &[u8]) -> Option<(u64, u64)> {
    match bytes.as_chunks::<8>().0 {
        [time, seq, ..] => Some((u64::from_le_bytes(*time), u64::from_le_bytes(*seq))),
        _ => None,
    }
}

/// True when every byte of a segment is what [`fill`] wrote (the two words of the header apart).
#[inline(always)]
pub fn check(data: &[u8], at: usize, seq: u64) -> bool {
    let mut index = at as u64 / 8;
    let (mut lines, rest) = data.as_chunks::<LINE>();
    let mut header = at == 0;
    let mut differ = 0;
    if header && let Some((first, others)) = lines.split_first() {
        differ = differs::<2>(first, line(seq, index));
        (lines, header) = (others, false);
        index += WORDS as u64;
    }
    for found in lines {
        differ |= differs::<0>(found, line(seq, index));
        index += WORDS as u64;
    }
    differ == 0 && (rest.is_empty() || rest_is_right(rest, header, bytes(line(seq, index))))
}

/// Bits that are set where the words of a line, from place `FROM` on, are not the expected ones.
#[inline(always)]
fn differs<const FROM: usize>(found: &[u8; LINE], expected: [u64; WORDS]) -> u64 {
    let words = found.as_chunks::<8>().0.iter().zip(expected).skip(FROM);
    words.fold(0, |differ, (found, word)| differ | u64::from_le_bytes(*found) ^ word)
}

fn rest_is_right(rest: &[u8], header: bool, expected: [u8; LINE]) -> bool {
    let from = if header { usize::from(MIN).min(rest.len()) } else { 0 };
    rest.get(from..) == expected.get(from..rest.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_changed_byte_shows() {
        for len in [16, 64, 67, 1500] {
            let mut packet = vec![0; len];
            fill(&mut packet, 0, 77, 5);
            assert_eq!(header(&packet), Some((5, 77)));
            assert!(check(&packet, 0, 77) && (len == 16 || !check(&packet, 0, 78)));
            for i in 16..len {
                packet[i] ^= 1;
                assert!(!check(&packet, 0, 77), "byte {i} of {len}");
                packet[i] ^= 1;
            }
        }
    }

    #[test]
    fn segments_continue_the_pattern() {
        let mut whole = vec![0; 9000];
        fill(&mut whole, 0, 3, 1);
        let mut second = vec![0; 4096];
        fill(&mut second, 4096, 3, 1);
        assert_eq!(second, whole[4096..8192]);
        assert!(check(&whole[4096..8192], 4096, 3));
    }
}
