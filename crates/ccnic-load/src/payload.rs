//! The payload of the load generator's packets: every byte of every packet is written, and checked when it
//! comes back.
//!
//! Word 0 is the time of sending, word 1 the sequence number, every other 8-byte word a value that depends on
//! the sequence number and the word's index, so that a lost, repeated, torn or misplaced line is detected.

/// The least bytes of a packet: both words.
pub const MIN: u16 = 16;

/// Words of a line, which are written and checked together, in vector registers.
const WORDS: usize = 8;

/// Word 0 of packet `seq`; the others count up from it.
#[inline(always)]
fn word(seq: u64, index: u64) -> u64 {
    seq.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(index)
}

/// A line of words that count up from `first`.
#[inline(always)]
fn line(first: u64) -> [u64; WORDS] {
    const LANES: [u64; WORDS] = [0, 1, 2, 3, 4, 5, 6, 7];
    LANES.map(|lane| first.wrapping_add(lane))
}

#[inline(always)]
fn bytes_of(words: [u64; WORDS]) -> [u8; 8 * WORDS] {
    let mut bytes = [0; 8 * WORDS];
    bytes.as_chunks_mut::<8>().0.iter_mut().zip(words).for_each(|(to, word)| *to = word.to_le_bytes());
    bytes
}

/// Fills a segment that starts `at` bytes into its packet (a multiple of 8).
#[inline(always)]
pub fn fill(bytes: &mut [u8], at: usize, seq: u64, time: u64) {
    let mut first = word(seq, at as u64 / 8);
    let (lines, rest) = bytes.as_chunks_mut::<{ 8 * WORDS }>();
    for to in lines {
        *to = bytes_of(line(first));
        first = first.wrapping_add(WORDS as u64);
    }
    if !rest.is_empty() {
        rest.iter_mut().zip(bytes_of(line(first))).for_each(|(to, from)| *to = from);
    }
    if at == 0
        && let [to_time, to_seq, ..] = bytes.as_chunks_mut::<8>().0
    {
        (*to_time, *to_seq) = (time.to_le_bytes(), seq.to_le_bytes());
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

/// Bits that are set when a line differs from what [`fill`] wrote, from word `FROM` on.
#[inline(always)]
fn differs<const FROM: usize>(found: &[u8; 8 * WORDS], first: u64) -> u64 {
    let words = found.as_chunks::<8>().0.iter().zip(line(first)).skip(FROM);
    words.fold(0, |differ, (found, word)| differ | (u64::from_le_bytes(*found) ^ word))
}

/// True when every byte of a segment is what [`fill`] wrote (the header apart).
#[inline(always)]
pub fn check(bytes: &[u8], at: usize, seq: u64) -> bool {
    let mut first = word(seq, at as u64 / 8);
    let (mut lines, rest) = bytes.as_chunks::<{ 8 * WORDS }>();
    let (mut differ, mut header) = (0, if at == 0 { usize::from(MIN) } else { 0 });
    if at == 0
        && let [head, others @ ..] = lines
    {
        differ = differs::<2>(head, first);
        (lines, first, header) = (others, first.wrapping_add(WORDS as u64), 0);
    }
    for found in lines {
        differ |= differs::<0>(found, first);
        first = first.wrapping_add(WORDS as u64);
    }
    differ == 0
        && (rest.is_empty() || bytes_of(line(first)).iter().zip(rest).skip(header).all(|(a, b)| a == b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_changed_byte_is_detected() {
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
