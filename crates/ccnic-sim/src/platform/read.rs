//! From a TOML value to a typed one, with the dotted key at hand for every complaint.
//!
//! Not by serde's derive: its errors know a line, or nothing once a value has been changed in memory, but not the key.

use toml::{Table, Value};

/// What is wrong with which key, and what to do about it. The file's name is added by the caller.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Fault {
    pub key: String,
    pub reason: String,
    pub remedy: String,
}

impl Fault {
    pub fn new(key: &str, reason: impl Into<String>, remedy: impl Into<String>) -> Fault {
        Fault { key: key.into(), reason: reason.into(), remedy: remedy.into() }
    }
}

/// What can stand under a key.
pub(super) trait Read: Sized {
    /// `at` is the dotted key, for errors.
    fn read(value: &Value, at: &str) -> Result<Self, Fault>;

    /// The key is not there.
    fn absent(at: &str) -> Result<Self, Fault> {
        Err(Fault::new(at, "is missing", "add it; the files in platforms/ show how"))
    }
}

impl<T: Read> Read for Option<T> {
    fn read(value: &Value, at: &str) -> Result<Self, Fault> {
        T::read(value, at).map(Some)
    }

    fn absent(_: &str) -> Result<Self, Fault> {
        Ok(None)
    }
}

impl Read for String {
    fn read(value: &Value, at: &str) -> Result<Self, Fault> {
        string(value, at)
    }
}

/// A text that says something.
pub(super) fn string(value: &Value, at: &str) -> Result<String, Fault> {
    match value {
        Value::String(text) if !text.trim().is_empty() => Ok(text.clone()),
        Value::String(_) => Err(Fault::new(at, "is empty", "write what a reader needs to check it")),
        _ => Err(Fault::new(at, "is not a text", "put it in quotes")),
    }
}

/// The table under `at`, with no other keys than `known`.
pub(super) fn table<'v>(value: &'v Value, at: &str, known: &[&str]) -> Result<&'v Table, Fault> {
    let table = value
        .as_table()
        .ok_or_else(|| Fault::new(at, "is not a table", format!("write [{at}] and its values below")))?;
    only(table, at, known)?;
    Ok(table)
}

/// Refuses unknown keys: a misspelt one would otherwise be ignored.
pub(super) fn only(table: &Table, at: &str, known: &[&str]) -> Result<(), Fault> {
    match table.keys().find(|key| !known.contains(&key.as_str())) {
        None => Ok(()),
        Some(key) => Err(Fault::new(
            &join(at, key),
            "is unknown",
            format!("remove it; known are {}", known.join(", ")),
        )),
    }
}

/// The value of one key.
pub(super) fn field<T: Read>(table: &Table, at: &str, key: &str) -> Result<T, Fault> {
    let at = join(at, key);
    match table.get(key) {
        Some(value) => T::read(value, &at),
        None => T::absent(&at),
    }
}

fn join(at: &str, key: &str) -> String {
    if at.is_empty() { key.to_string() } else { format!("{at}.{key}") }
}

/// Declares tables of a platform file: a struct each, and how to read it.
macro_rules! tables {
    ($($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $field:ident: $kind:ty,)+ })+) => {$(
        $(#[$about])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name {
            $($(#[$doc])* pub $field: $kind,)+
        }

        impl $crate::platform::read::Read for $name {
            fn read(value: &toml::Value, at: &str) -> Result<Self, $crate::platform::read::Fault> {
                use $crate::platform::read::{field, table};
                let table = table(value, at, &[$(stringify!($field)),+])?;
                Ok($name { $($field: field(table, at, stringify!($field))?,)+ })
            }
        }
    )+};
}
pub(super) use tables;
