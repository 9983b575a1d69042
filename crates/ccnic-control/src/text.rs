//! Text of others, made fit to print: names, reasons and whatever else the other side of a connection has chosen.

use std::fmt::Write;

/// `text` with all characters escaped that a terminal acts on or does not show: control characters (escape sequences begin with one),
/// line ends, and characters that turn the direction of writing around.
pub fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if matches!(c, '"' | '\'') {
            shown.push(c);
        } else {
            let _ = write!(shown, "{}", c.escape_debug()); // writing to a String does not fail
        }
    }
    shown
}

/// The same of a text of several lines, which keep their line feeds: a reason that shows a place in a file.
pub fn printable_lines(text: &str) -> String {
    text.split('\n').map(printable).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::{printable, printable_lines};

    #[test]
    fn lines_stay_lines() {
        assert_eq!(printable_lines("line 1\n  |\n\u{1b}[2J\r\n"), "line 1\n  |\n\\u{1b}[2J\\r\n");
    }

    #[test]
    fn what_a_terminal_acts_on_is_escaped() {
        assert_eq!(printable("dpdk: 'a \"b\"' \u{e9}\u{4e16}"), "dpdk: 'a \"b\"' \u{e9}\u{4e16}");
        assert_eq!(printable("a\u{1b}[2Jb"), "a\\u{1b}[2Jb");
        assert_eq!(printable("a\nb\r\t\0\u{7f}"), "a\\nb\\r\\t\\0\\u{7f}");
        assert_eq!(printable("\u{9b}31m"), "\\u{9b}31m", "the one-byte introducer of sequences");
        for bidi in ['\u{202a}', '\u{202e}', '\u{2066}', '\u{2069}', '\u{200f}', '\u{61c}'] {
            assert!(printable(&bidi.to_string()).starts_with("\\u{"), "{}", bidi.escape_unicode());
        }
    }
}
