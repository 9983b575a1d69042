//! Keys and values: a value's bytes follow from its key and its version, so that every value that comes back can be verified.
//!
//! The first eight bytes of a value are its version, masked; the others follow from key and version. A version names the run that wrote it
//! and counts the writes of the object within the run: 0 is what the preload wrote. Values of less than eight bytes have no room for a
//! version: they are the same in all versions.

/// A key: 16 hexadecimal digits, the same ones for all protocols.
pub type Key = [u8; 16];

/// Spreads an object's number over 64 bits: no two numbers have the same result, and neighbours nothing in common (splitmix64's
/// finalizer).
#[inline]
fn spread(number: u64) -> u64 {
    let x = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

/// The key of an object. Objects that are asked for often are no neighbours in any order.
#[inline]
pub fn key(object: u32) -> Key {
    let number = spread(u64::from(object)).to_be_bytes();
    let mut key = [0; 16];
    for (digits, byte) in key.chunks_exact_mut(2).zip(number) {
        digits[0] = digit(byte >> 4);
        digits[1] = digit(byte & 15);
    }
    key
}

#[inline]
fn digit(nibble: u8) -> u8 {
    if nibble < 10 { b'0' + nibble } else { b'a' - 10 + nibble }
}

/// The version of a value: which run wrote it, and which of the run's writes of this object it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version {
    /// A number that runs of the generator hardly share.
    pub run: u32,
    /// 0 is the preload.
    pub write: u32,
}

impl Version {
    fn word(self) -> u64 {
        u64::from(self.run) << 32 | u64::from(self.write)
    }
}

/// The words of a value behind its first one.
#[inline]
fn words(object: u32, version: u64) -> impl Iterator<Item = [u8; 8]> {
    let mut word = spread(u64::from(object) ^ version.rotate_left(17));
    std::iter::from_fn(move || {
        word = word.wrapping_mul(0xD129_0D3F_EB6B_87AD).wrapping_add(0x9E37_79B9_7F4A_7C15);
        Some((word ^ (word >> 29)).to_le_bytes())
    })
}

/// Hides a version, so that a store that returns another object's value is found out by its first word.
#[inline]
fn mask(object: u32) -> u64 {
    spread(u64::from(object) | 1 << 40)
}

/// Writes an object's value.
pub fn fill(object: u32, version: Version, value: &mut [u8]) {
    let first = mask(object) ^ if value.len() < 8 { 0 } else { version.word() };
    let all = std::iter::once(first.to_le_bytes()).chain(words(object, version.word()));
    for (part, word) in value.chunks_mut(8).zip(all) {
        part.copy_from_slice(&word[..part.len()]);
    }
}

/// Reads back the version of an object's value of at least eight bytes; of shorter ones nothing. `Err` when the bytes are no version of
/// this object.
#[allow(clippy::result_unit_err)] // Whoever asks counts them.
pub fn verify(object: u32, value: &[u8]) -> Result<Option<Version>, ()> {
    let Some((first, rest)) = value.split_first_chunk::<8>() else {
        let expected = mask(object).to_le_bytes();
        return if value == &expected[..value.len()] { Ok(None) } else { Err(()) };
    };
    let word = u64::from_le_bytes(*first) ^ mask(object);
    let (whole, last) = rest.as_chunks::<8>();
    let mut words = words(object, word);
    let same = whole.iter().zip(&mut words).fold(true, |same, (part, word)| same & (*part == word));
    let end = words.next().unwrap_or_default();
    if same && *last == end[..last.len()] {
        Ok(Some(Version { run: (word >> 32) as u32, write: word as u32 }))
    } else {
        Err(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_differ() {
        let keys: std::collections::HashSet<Key> = (0..100_000).map(key).collect();
        assert_eq!(keys.len(), 100_000);
        assert!(keys.iter().flatten().all(u8::is_ascii_hexdigit));
    }

    #[test]
    fn every_byte_is_verified() {
        let version = Version { run: 77, write: 3 };
        for size in [1, 7, 8, 9, 15, 16, 17, 100, 9600] {
            let mut value = vec![0; size];
            fill(5, version, &mut value);
            assert_eq!(verify(5, &value), Ok((size >= 8).then_some(version)));
            let not_this = |verified| {
                // In a value of eight bytes every word is a version, though none of this run.
                verified == Err(()) || size == 8 && verified != Ok(Some(version))
            };
            assert!(not_this(verify(6, &value)), "{size}: another object");
            for at in 0..size {
                value[at] ^= 1;
                assert!(not_this(verify(5, &value)), "{size}: byte {at}");
                value[at] ^= 1;
            }
        }
    }

    #[test]
    fn versions_differ() {
        let value = |write| {
            let mut value = [0; 64];
            fill(1, Version { run: 1, write }, &mut value);
            value
        };
        assert!(value(1)[8..] != value(2)[8..], "no mixture of two versions is taken for one");
        let mut mixed = value(1);
        mixed[32..].copy_from_slice(&value(2)[32..]);
        assert_eq!(verify(1, &mixed), Err(()));
    }
}
