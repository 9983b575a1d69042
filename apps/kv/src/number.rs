//! Decimal numbers as memcached reads them, which is as C's `strtoull` and `strtol` do: white space before them, a sign, and white space
//! or nothing behind them. Clients send `+5` and ` 5`; what they are told about `-1` and `5x` must not depend on the server. A number that
//! does not fit is refused, where memcached cuts it to 32 bits: a proxy in front of a store must read the same number as the store.

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

/// 64 bits without a sign. A minus sign wraps around nothing here, as it does in C: only zero may have one.
pub(crate) fn unsigned(text: &[u8]) -> Option<u64> {
    let (negative, number) = parse(text)?;
    (!negative || number == 0).then_some(number)
}

/// 32 bits without a sign; no number with more is cut to them.
pub(crate) fn unsigned_32(text: &[u8]) -> Option<u32> {
    unsigned(text)?.try_into().ok()
}

/// 64 bits with a sign.
pub(crate) fn signed(text: &[u8]) -> Option<i64> {
    let (negative, number) = parse(text)?;
    let number = i128::from(number) * if negative { -1 } else { 1 };
    i64::try_from(number).ok()
}

/// True for a number that has no end but white space, however long.
pub(crate) fn is_digits(text: &[u8]) -> bool {
    let all = text.iter().all(|byte| byte.is_ascii_digit() || is_space(*byte) || *byte == b'+');
    all && text.iter().any(u8::is_ascii_digit)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

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
            (b"-0", Some(0)),
            (b"-1", None),
            (b"-18446744073709551615", None),
            (b"+-5", None),
            (b"5x", None),
            (b"", None),
            (b" ", None),
            (b"-", None),
        ] {
            assert_eq!(unsigned(text), number, "{}", text.escape_ascii());
        }
        assert_eq!((unsigned_32(b"4294967295"), unsigned_32(b"4294967297")), (Some(u32::MAX), None));
        assert_eq!(signed(b"-1"), Some(-1));
        assert_eq!(signed(b"-9223372036854775808"), Some(i64::MIN));
        assert_eq!(signed(b"9223372036854775808"), None);
        assert!(is_digits(b"99999999999999999999999") && !is_digits(b"-1") && !is_digits(b"1x"));
    }

    proptest! {
        /// Whatever is read is what 128 bits hold of it; what 128 bits do not read as this width is refused.
        #[test]
        fn no_number_is_cut(digits in "[0-9]{1,30}", sign in "[+-]?", space in "[ \t]{0,2}", end in "[ \r]{0,2}") {
            let text = format!("{space}{sign}{digits}{end}");
            let number: i128 = format!("{sign}{digits}").parse().unwrap();
            prop_assert_eq!(unsigned(text.as_bytes()), u64::try_from(number).ok());
            prop_assert_eq!(unsigned_32(text.as_bytes()), u32::try_from(number).ok());
            // A number of more than 64 bits before its sign is none, even where the sign would make it one.
            let fits = number.unsigned_abs() <= u128::from(u64::MAX);
            prop_assert_eq!(signed(text.as_bytes()), i64::try_from(number).ok().filter(|_| fits));
        }

        #[test]
        fn what_is_read_was_a_number(text in prop::collection::vec(any::<u8>(), 0..12)) {
            if let Some(number) = unsigned(&text) {
                let digits: Vec<u8> = text.iter().copied().filter(u8::is_ascii_digit).collect();
                prop_assert!(digits.starts_with(b"0") || digits.starts_with(number.to_string().as_bytes()));
            }
        }
    }
}
