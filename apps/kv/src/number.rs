//! Decimal numbers as memcached reads them, which is as C's `strtoull` and `strtol` do: white space before them, a sign, and white space
//! or nothing behind them. Clients send `+5` and ` 5`; what they are told about `-1` and `5x` must not depend on the server.

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

/// Sign and magnitude, if the text is a number of 64 bits that nothing but white space or a zero byte follows.
fn parse(text: &[u8]) -> Option<(bool, u64)> {
    let start = text.iter().position(|byte| !is_space(*byte))?;
    let text = &text[start..];
    let (negative, digits) = match text[0] {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let len = digits.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(digits.len());
    if len == 0 || digits.get(len).is_some_and(|byte| *byte != 0 && !is_space(*byte)) {
        return None;
    }
    let mut number = 0u64;
    for digit in &digits[..len] {
        number = number.checked_mul(10)?.checked_add(u64::from(digit - b'0'))?;
    }
    Some((negative, number))
}

/// 64 bits without a sign. As in C a minus sign wraps around; what is beyond 63 bits then is refused.
pub(crate) fn unsigned(text: &[u8]) -> Option<u64> {
    let (negative, number) = parse(text)?;
    let number = if negative { number.wrapping_neg() } else { number };
    if number > i64::MAX as u64 && text.contains(&b'-') { None } else { Some(number) }
}

/// 32 bits without a sign; higher ones are dropped.
pub(crate) fn unsigned_32(text: &[u8]) -> Option<u32> {
    unsigned(text).map(|number| number as u32)
}

/// 32 bits with a sign, of 64 that are read.
pub(crate) fn signed_32(text: &[u8]) -> Option<i32> {
    let (negative, number) = parse(text)?;
    let number = i128::from(number) * if negative { -1 } else { 1 };
    i64::try_from(number).ok().map(|number| number as i32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_c_reads_them() {
        for (text, number) in [
            (&b"0"[..], Some(0)),
            (b"007", Some(7)),
            (b" \t+5", Some(5)),
            (b"5 \r\n", Some(5)),
            (b"5\0x", Some(5)),
            (b"18446744073709551615", Some(u64::MAX)),
            (b"18446744073709551616", None),
            (b"-1", None),
            (b"-18446744073709551615", Some(1)),
            (b"5x", None),
            (b"", None),
            (b" ", None),
            (b"-", None),
        ] {
            assert_eq!(unsigned(text), number, "{}", text.escape_ascii());
        }
        assert_eq!(unsigned_32(b"4294967297"), Some(1));
        assert_eq!(signed_32(b"-1"), Some(-1));
        assert_eq!(signed_32(b"9223372036854775807"), Some(-1));
        assert_eq!(signed_32(b"9223372036854775808"), None);
    }
}
