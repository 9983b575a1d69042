//! What the load generator puts into packets: every byte of every packet is written, and checked when it comes back.
//!
//! Word 0 is the time of sending, word 1 the sequence number, every other 8-byte word a value that depends on the sequence
//! number and the word's place, so that a lost, repeated, torn or misplaced line shows.

/// The least bytes of a packet: both words.
pub const MIN: u16 = 16;

/// Bytes written and checked at a time: two words, which also are the header's bytes.
const PAIR: usize = 16;

/// The word at place `index` of packet `seq`.
#[inline(always)]
fn word(seq: u64, index: u64) -> u64 {
    seq.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(index)
}

/// The two words of a pair at place `index`, as bytes.
#[inline(always)]
fn pair(seq: u64, index: u64) -> [u8; PAIR] {
    (u128::from(word(seq, index)) | u128::from(word(seq, index + 1)) << 64).to_le_bytes()
}

/// Fills a segment that starts `at` bytes into its packet (a multiple of 16).
#[inline(always)]
pub fn fill(bytes: &mut [u8], at: usize, seq: u64, time: u64) {
    let (pairs, rest) = bytes.as_chunks_mut::<PAIR>();
    let mut index = at as u64 / 8;
    for slot in pairs.iter_mut() {
        *slot = pair(seq, index);
        index += 2;
    }
    if !rest.is_empty() {
        rest.iter_mut().zip(pair(seq, index)).for_each(|(to, from)| *to = from);
    }
    if at == 0
        && let [header, ..] = pairs
    {
        *header = (u128::from(time) | u128::from(seq) << 64).to_le_bytes();
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

/// True when every byte of a segment is what [`fill`] wrote (the header apart).
#[inline(always)]
pub fn check(bytes: &[u8], at: usize, seq: u64) -> bool {
    let (pairs, rest) = bytes.as_chunks::<PAIR>();
    let header = usize::from(at == 0);
    let mut index = at as u64 / 8 + 2 * header as u64;
    let mut differ = 0;
    for found in pairs.get(header..).unwrap_or_default() {
        differ |= u128::from_le_bytes(*found) ^ u128::from_le_bytes(pair(seq, index));
        index += 2;
    }
    differ == 0 && (rest.is_empty() || pair(seq, index).starts_with(rest))
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
