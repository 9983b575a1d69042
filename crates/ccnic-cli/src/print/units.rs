//! Numbers as texts: how many digits, and which unit.

use crate::stats::Spread;

/// A rate with three significant digits: 8.05, 24.3, 101.
pub fn rate(value: f64) -> String {
    let digits = match value.abs() {
        v if v >= 99.95 => 0,
        v if v >= 9.995 => 1,
        _ => 2,
    };
    format!("{value:.digits$}")
}

/// Whole nanoseconds. Long times, as on a busy machine, are given in larger units: at most seven characters.
pub fn ns(value: f64) -> String {
    match value {
        v if v >= 1e7 => format!("{:.0}ms", v / 1e6),
        v if v >= 99_999.5 => format!("{:.0}\u{b5}s", v / 1e3),
        v => format!("{v:.0}"),
    }
}

/// A time with its unit.
pub fn time(nanoseconds: f64) -> String {
    let text = ns(nanoseconds);
    if text.ends_with('s') { text } else { text + " ns" }
}

/// A share in per cent; a dash when it was not measured.
pub fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "-".to_owned(), |share| format!("{:.0} %", share * 100.0))
}

/// The least and the largest of some values.
pub fn range(spread: &Spread, number: fn(f64) -> String) -> String {
    format!("{}\u{2013}{}", number(spread.min), number(spread.max))
}

/// A number as short as it can be written.
pub fn number(value: f64) -> String {
    let digits = match value.abs() {
        v if v >= 100.0 || v == 0.0 => 0,
        v if v >= 10.0 => 1,
        v if v >= 1.0 => 2,
        _ => 3,
    };
    let text = format!("{value:.digits$}");
    if value >= 1e4 {
        return grouped(&text);
    }
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// Digits in groups of three.
fn grouped(digits: &str) -> String {
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push('\u{a0}');
        }
        text.push(digit);
    }
    text
}

/// A noun with its number: "1 core", "2 cores".
pub fn count(n: usize, noun: &str) -> String {
    if n == 1 { format!("1 {noun}") } else { format!("{n} {noun}s") }
}

/// The unit of a platform's value as it is written after a number; empty for counts, ratios and switches.
pub fn of_platform(key: &str) -> &str {
    match key {
        "count" | "ratio" | "on" | "points" => "",
        "ghz" => "GHz",
        "kib" => "KiB",
        "gbit_per_s" => "Gb/s",
        "gbytes_per_s" => "GB/s",
        "gflit_per_s" => "Gflit/s",
        "mpps" => "Mpps",
        "mlps" => "M lines/s",
        unit => unit,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_have_three_digits() {
        assert_eq!(
            [0.004, 8.049, 9.996, 24.34, 99.96, 330.4].map(rate),
            ["0.00", "8.05", "10.0", "24.3", "100", "330"]
        );
        assert_eq!(range(&Spread { min: 9.0, median: 9.5, max: 24.26 }, rate), "9.00\u{2013}24.3");
    }

    #[test]
    fn numbers_are_short() {
        let texts = [0.0, 0.25, 1.5, 2.0, 16.25, 330.4, 20_000.0].map(number);
        assert_eq!(texts, ["0", "0.25", "1.5", "2", "16.2", "330", "20\u{a0}000"]);
    }

    #[test]
    fn long_times_are_short_texts() {
        let texts = [0.4, 99_999.0, 100_000.0, 5_481_955.0, 27_983_871.0, 1e10].map(ns);
        assert_eq!([431.0, 27_983_871.0].map(time), ["431 ns", "28ms"]);
        assert_eq!(texts, ["0", "99999", "100\u{b5}s", "5482\u{b5}s", "28ms", "10000ms"]);
    }

    #[test]
    fn shares_and_counts() {
        assert_eq!((percent(Some(0.666)), percent(None)), ("67 %".to_owned(), "-".to_owned()));
        assert_eq!((count(1, "core"), count(56, "core")), ("1 core".to_owned(), "56 cores".to_owned()));
    }
}
