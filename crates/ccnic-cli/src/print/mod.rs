//! Everything that the command prints: results, messages, tables, numbers with their units, progress, and the
//! frame of its pages.

pub mod html;
mod progress;
mod table;
pub mod units;

use std::io::Write;

use rustix::termios::tcgetwinsize;
use serde::Serialize;

pub use progress::Progress;
#[cfg(test)]
pub use table::longest_line;
pub use table::{Column, Table};

/// Columns of a terminal of unknown width, and of output that is no terminal.
const USUAL_WIDTH: usize = 80;
/// Text in longer lines is hard to read.
const LONGEST_LINE: usize = 160;

/// Prints a result: as JSON in ASCII, or as the text that `text` makes of it.
///
/// # Errors
/// When the result cannot be written as JSON.
pub fn result<T: Serialize>(json: bool, value: &T, text: impl FnOnce() -> String) -> anyhow::Result<()> {
    line(&if json { ascii(&serde_json::to_string_pretty(value)?) } else { text() });
    Ok(())
}

/// A value as JSON in ASCII, in one line.
///
/// # Errors
/// When the value cannot be written as JSON.
pub fn json_line<T: Serialize>(value: &T) -> anyhow::Result<String> {
    Ok(ascii(&serde_json::to_string(value)?))
}

/// JSON with everything but printable ASCII escaped: what others have called themselves cannot reach a terminal.
fn ascii(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        if c == '\n' || c == ' ' || c.is_ascii_graphic() {
            text.push(c);
        } else {
            // Only strings have such characters.
            c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| text.push_str(&format!("\\u{unit:04x}")));
        }
    }
    text
}

/// Prints a text and an end of line on standard output.
pub fn line(text: &str) {
    // A closed pipe (`| head`) is no failure.
    let _ = writeln!(std::io::stdout(), "{text}");
}

/// As [`line`], for output that goes on: false when nobody reads it any more.
pub fn line_is_read(text: &str) -> bool {
    let mut out = std::io::stdout();
    writeln!(out, "{text}").and_then(|()| out.flush()).is_ok()
}

/// Prints a message on standard error, after the command's name.
pub fn warn(text: &str) {
    let _ = writeln!(std::io::stderr(), "ccnic: {text}");
}

/// Columns that a text may have: those of the terminal, or 80.
pub fn width() -> usize {
    let columns = tcgetwinsize(std::io::stdout()).map_or(0, |size| usize::from(size.ws_col));
    if columns == 0 { USUAL_WIDTH } else { columns.clamp(USUAL_WIDTH, LONGEST_LINE) }
}

/// An error and its causes in one line. A cause that the message before it has named already is left out.
pub fn message(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

/// A text in lines of at most `width` characters, broken between words. A longer word gets a line of its own.
pub fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use anyhow::Context;

    use super::*;

    #[test]
    fn a_cause_is_named_once() {
        let io = || std::io::Error::from(std::io::ErrorKind::NotFound);
        let cause = io().to_string();
        let names_it = anyhow::Error::new(io()).context(format!("no NIC answers: {cause}; start one"));
        assert_eq!(message(&names_it), format!("no NIC answers: {cause}; start one"));
        let does_not = Err::<(), _>(io()).context("could not open it").unwrap_err();
        assert_eq!(message(&does_not), format!("could not open it: {cause}"));
    }

    #[test]
    fn json_is_ascii_and_means_the_same() {
        let value = vec!["a\u{1b}[2J", "\u{9b}\u{202e}\u{7f}", "\u{e9}\u{1f600} \"quoted\" \\"];
        let text = ascii(&serde_json::to_string_pretty(&value).unwrap());
        assert!(text.chars().all(|c| c == '\n' || c == ' ' || c.is_ascii_graphic()), "{text}");
        assert_eq!(serde_json::from_str::<Vec<String>>(&text).unwrap(), value);
    }

    #[test]
    fn words_stay_whole() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("incomprehensible it is", 5), ["incomprehensible", "it is"]);
        assert_eq!(wrapped("", 5), [""]);
    }
}
