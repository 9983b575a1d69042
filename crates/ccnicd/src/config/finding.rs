//! What is wrong with a configuration, for programs that read it: `--check-config --json`.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::Config;

/// One error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The file, unless a flag is wrong.
    pub file: Option<PathBuf>,
    /// The line in it, from 1.
    pub line: Option<usize>,
    /// The key, or the flag without its dashes.
    pub key: Option<String>,
    /// What is wrong, and what would be right.
    pub message: String,
}

impl Finding {
    /// An error of [`Config::read`], or of what a configuration from `file` and flags comes to: these begin with the place, as
    /// [`Config::said`] names it.
    pub fn of(error: &anyhow::Error, file: Option<&Path>) -> Finding {
        let text = format!("{error:#}");
        if let Some(file) = file {
            if let Some(error) = error.downcast_ref::<toml::de::Error>() {
                return Finding::of_toml(error, file);
            }
            let name = file.display().to_string();
            if let Some((line, message)) = in_line(&text, &name) {
                let (file, key) = (Some(file.to_owned()), first_word(message));
                return Finding { file, line: Some(line), key, message: message.to_owned() };
            }
            if let Some(message) = text.strip_prefix(&name).and_then(|rest| rest.strip_prefix(": ")) {
                let (file, key) = (Some(file.to_owned()), first_word(message));
                return Finding { file, line: None, key, message: message.to_owned() };
            }
            if text.contains(&name) {
                return Finding { file: Some(file.to_owned()), line: None, key: None, message: text };
            }
        }
        let key = text.strip_prefix("--").and_then(first_word);
        Finding { file: None, line: None, key, message: text }
    }

    /// What is no TOML, or no configuration.
    fn of_toml(error: &toml::de::Error, file: &Path) -> Finding {
        let place = error.span().and_then(|span| {
            let text = Config::text_of(file).ok()?;
            let before = text.get(..span.start)?;
            let (line, start) = (before.matches('\n').count() + 1, before.rfind('\n').map_or(0, |at| at + 1));
            let within = before.get(start..)?;
            let key = match within.trim_end().strip_suffix('=') {
                Some(key) => last_word(key),
                None => text.get(span).and_then(first_word),
            };
            Some((line, key))
        });
        let (line, key) = place.unzip();
        Finding { file: Some(file.to_owned()), line, key: key.flatten(), message: error.message().to_owned() }
    }
}

/// The line's number and what follows in "FILE, line N: ...".
fn in_line<'a>(text: &'a str, file: &str) -> Option<(usize, &'a str)> {
    let (number, message) = text.strip_prefix(file)?.strip_prefix(", line ")?.split_once(": ")?;
    Some((number.parse().ok()?, message))
}

fn is_of_key(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')
}

/// The key that a text begins with.
fn first_word(text: &str) -> Option<String> {
    let end = text.find(|c| !is_of_key(c)).unwrap_or(text.len());
    text.get(..end).filter(|word| !word.is_empty()).map(str::to_owned)
}

/// The key that a text ends with, before a sign of equality.
fn last_word(text: &str) -> Option<String> {
    let text = text.trim_end();
    let start = text.rfind(|c| !is_of_key(c)).map_or(0, |at| at + 1);
    text.get(start..).filter(|word| !word.is_empty()).map(str::to_owned)
}
