//! Platforms, by question: are the built-in files sound, what do their values add up to, is a wrong value named, do values agree with each
//! other, can one be changed, and does each change anything.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

mod changes;
mod effects;
mod files;
mod native;
mod rules;
mod sums;
mod values;

use ccnic_sim::platform::{Platform, PlatformError};
use toml::{Table, Value};

pub(super) fn text(name: &str) -> String {
    std::fs::read_to_string(format!("{}/../../platforms/{name}.toml", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

/// The file with every table.
pub(super) fn full() -> Table {
    text("icx-e810").parse().unwrap()
}

pub(super) fn parse(file: &Table) -> Result<Platform, PlatformError> {
    Platform::parse(&toml::to_string(file).unwrap(), "mine.toml")
}

/// Every value of a file: dotted key and its entry.
pub(super) fn entries(table: &Table, at: &str, found: &mut Vec<(String, Table)>) {
    for (key, value) in table {
        let Value::Table(inner) = value else { continue };
        let at = if at.is_empty() { key.clone() } else { format!("{at}.{key}") };
        if inner.contains_key("source") {
            found.push((at, inner.clone()));
        } else {
            entries(inner, &at, found);
        }
    }
}

pub(super) fn all_entries(table: &Table) -> Vec<(String, Table)> {
    let mut found = Vec::new();
    entries(table, "", &mut found);
    found
}

/// The table that holds the last part of a dotted key, and that part.
pub(super) fn parent<'t, 'k>(file: &'t mut Table, key: &'k str) -> (&'t mut Table, &'k str) {
    let (way, last) = key.rsplit_once('.').unwrap_or(("", key));
    let parts = way.split('.').filter(|part| !part.is_empty());
    (parts.fold(file, |table, part| table[part].as_table_mut().unwrap()), last)
}

pub(super) fn set(file: &mut Table, key: &str, value: Value) {
    let (table, last) = parent(file, key);
    table.insert(last.into(), value);
}

pub(super) fn remove(file: &mut Table, key: &str) {
    let (table, last) = parent(file, key);
    table.remove(last).unwrap();
}

pub(super) fn unit(entry: &Table) -> &str {
    entry.keys().find(|key| !["source", "assumed", "fitted"].contains(&key.as_str())).unwrap()
}

/// Refused because of `key`; the message names the file, the key, a remedy and everything in `words`.
pub(super) fn complaint(error: PlatformError, key: &str, words: &[&str]) {
    let message = error.to_string();
    assert_eq!(error.key(), Some(key), "{message}");
    for word in [&["mine.toml", key, "; "], words].concat() {
        assert!(message.contains(word), "{message:?} does not say {word:?}");
    }
}

pub(super) fn refused(file: &Table, key: &str, words: &[&str]) {
    complaint(parse(file).expect_err(key), key, words);
}

/// The full file with one value changed is refused because of the value `at`.
pub(super) fn refused_with(key: &str, value: f64, at: &str, words: &[&str]) {
    let platform = parse(&full()).unwrap();
    complaint(platform.overridden(key, value).expect_err(at), at, words);
}
