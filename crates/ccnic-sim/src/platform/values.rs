//! A platform's values, to show them one by one or as a file.

use std::fmt::Write as _;

use toml::{Table, Value};

/// A number of a platform, with its unit and where it comes from.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Its dotted key.
    pub key: String,
    /// Its value as the file writes it.
    pub value: String,
    /// What it is in, by the file's key.
    pub unit: String,
    /// Where it comes from.
    pub source: String,
    /// General knowledge that has not been verified.
    pub assumed: bool,
    /// Chosen so that a calibration probe comes out.
    pub fitted: bool,
}

/// Every value that has a unit and a source, in alphabetical order of its keys.
pub(super) fn entries(file: &Table) -> Vec<Entry> {
    let mut found = Vec::new();
    collect(file, "", &mut found);
    found
}

/// The file as TOML that reads back as the same, a value in a line as the built-in files have it.
pub(super) fn written(file: &Table) -> String {
    let mut text = String::new();
    for (key, value) in file.iter().filter(|(_, value)| !value.is_table()) {
        let _ = writeln!(text, "{key} = {value}");
    }
    write_tables(&mut text, file, "");
    text
}

fn write_tables(text: &mut String, file: &Table, at: &str) {
    for (key, value) in file {
        let Value::Table(table) = value else { continue };
        if table.contains_key("source") {
            continue; // a value, written with its table
        }
        let key = if at.is_empty() { key.clone() } else { format!("{at}.{key}") };
        let is_value = |value: &Value| value.as_table().is_none_or(|table| table.contains_key("source"));
        if table.values().any(is_value) {
            let _ = writeln!(text, "\n[{key}]");
        }
        for (name, value) in table.iter().filter(|(_, value)| is_value(value)) {
            let _ = writeln!(text, "{name} = {value}");
        }
        write_tables(text, table, &key);
    }
}

fn collect(table: &Table, at: &str, found: &mut Vec<Entry>) {
    for (key, value) in table {
        let Value::Table(inner) = value else { continue };
        let key = if at.is_empty() { key.clone() } else { format!("{at}.{key}") };
        let Some(source) = inner.get("source").and_then(Value::as_str) else {
            collect(inner, &key, found);
            continue;
        };
        let mark = |name| inner.get(name).and_then(Value::as_bool).unwrap_or_default();
        let unit = inner.iter().find(|(key, _)| !["source", "assumed", "fitted"].contains(&key.as_str()));
        let (unit, value) = unit.map_or_else(Default::default, |(unit, value)| (unit.clone(), text(value)));
        found.push(Entry {
            key,
            value,
            unit,
            source: source.to_owned(),
            assumed: mark("assumed"),
            fitted: mark("fitted"),
        });
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::Array(points) => format!("{} points", points.len()),
        value => value.to_string(),
    }
}
