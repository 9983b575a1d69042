//! A platform's values one by one, to show them.

use toml::{Table, Value};

use super::description::Platform;

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

impl Platform {
    /// Every value that has a unit and a source, in alphabetical order of its keys.
    pub fn entries(&self) -> Vec<Entry> {
        let mut found = Vec::new();
        collect(&self.file, "", &mut found);
        found
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
