//! Base64 as memcached reads it: characters that are not of it are skipped, and the rest must be whole groups of four.

use crate::store::MAX_KEY;

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// A decoded key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Decoded {
    bytes: [u8; MAX_KEY],
    len: usize,
}

impl Decoded {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

fn digit(byte: u8) -> Option<u8> {
    Some(match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        b'=' => 0,
        _ => return None,
    })
}

/// A text of at most 250 bytes; what it stands for, if it stands for anything.
pub(crate) fn decode(text: &[u8]) -> Option<Decoded> {
    let digits = || text.iter().filter_map(|byte| digit(*byte).map(|value| (*byte, value)));
    let count = digits().count();
    if count == 0 || !count.is_multiple_of(4) {
        return None;
    }
    let mut decoded = Decoded { bytes: [0; MAX_KEY], len: 0 };
    let (mut group, mut held, mut pad) = (0u32, 0, 0);
    for (byte, value) in digits() {
        pad += usize::from(byte == b'=');
        group = group << 6 | u32::from(value);
        held += 1;
        if held < 4 {
            continue;
        }
        let [_, three @ ..] = group.to_be_bytes();
        decoded.bytes.get_mut(decoded.len..decoded.len + 3)?.copy_from_slice(&three);
        decoded.len += 3;
        if pad > 0 {
            decoded.len = decoded.len.checked_sub(pad).filter(|_| pad <= 2)?;
            break;
        }
        (group, held) = (0, 0);
    }
    Some(decoded).filter(|decoded| decoded.len > 0)
}

/// Appends the text of some bytes.
pub(crate) fn encode(bytes: &[u8], mut put: impl FnMut(&[u8])) {
    for group in bytes.chunks(3) {
        let mut three = [0; 4];
        three[1..=group.len()].copy_from_slice(group);
        let bits = u32::from_be_bytes(three);
        let mut text = [18, 12, 6, 0].map(|shift| ALPHABET[(bits >> shift & 63) as usize]);
        text[group.len() + 1..].fill(b'=');
        put(&text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_is_decoded() {
        for len in 1..=180 {
            let bytes: Vec<u8> = (0..len).map(|i| (i * 37 + len) as u8).collect();
            let mut text = Vec::new();
            encode(&bytes, |part| text.extend_from_slice(part));
            assert_eq!(decode(&text).unwrap().bytes(), bytes);
        }
        let mut text = Vec::new();
        encode(b"hello", |part| text.extend_from_slice(part));
        assert_eq!(text, b"aGVsbG8=");
        assert!(decode(b"abc").is_none() && decode(b"").is_none() && decode(b"a===").is_none());
    }
}
