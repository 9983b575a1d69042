//! Where platforms come from: built in, files, texts, and others with a value changed.

use toml::{Table, Value};

use super::description::Platform;
use super::error::PlatformError;
use super::read::{Fault, field, only};
use super::{built_in, data_sheet, rules};

/// The tables and values at the top of a file.
const TOP: &[&str] = &[
    "name",
    "about",
    "topology",
    "core",
    "l1",
    "l2",
    "llc",
    "snoop_filter",
    "path",
    "link",
    "memory",
    "protocol",
    "prefetch",
    "software",
    "targets",
    "native",
    "pcie",
    "device",
];

macro_rules! names {
    ($($name:literal),+) => {
        const NAMES: &[&str] = &[$($name),+];
        built_in::files!($($name),+);
    };
}
names!(
    "icx",
    "spr",
    "spr-same-socket",
    "spr-one-socket",
    "emr-one-socket",
    "zen4-one-socket",
    "cxl",
    "icx-e810",
    "icx-cx6",
    "spr-cx6",
    "spr-filter"
);

impl Platform {
    /// The built-in platforms.
    pub fn names() -> &'static [&'static str] {
        NAMES
    }

    /// A built-in platform; a name with a '/' or ending in `.toml` is a file.
    pub fn named(name: &str) -> Result<Platform, PlatformError> {
        let (text, origin) = built_in::text(name, FILES)?;
        Platform::parse(&text, &origin)
    }

    /// Reads a file.
    pub fn load(path: impl AsRef<std::path::Path>) -> Result<Platform, PlatformError> {
        let path = path.as_ref().display().to_string();
        Platform::parse(&built_in::read(&path, FILES)?, &path)
    }

    /// Reads a text; `origin` names it in errors.
    pub fn parse(text: &str, origin: &str) -> Result<Platform, PlatformError> {
        Platform::from_table(built_in::parse(text, origin)?, origin)
    }

    /// The same machine with one value changed, e.g. `link.one_way`; a switch takes 0 and 1. Everything is checked again.
    ///
    /// A device on a link is told by what a data sheet says, too: `link.remote_memory` and `link.data_rate`, see `data_sheet.rs`.
    /// Software is ours, and lines pass a core's path in no time (`core.line`), where the file does not have them.
    pub fn overridden(&self, key: &str, value: f64) -> Result<Platform, PlatformError> {
        let key = data_sheet::key(key);
        let mut file = data_sheet::told_by(self.file.clone(), self, key);
        add_absent(&mut file, key);
        let changed = built_in::overridden(&file, key, value);
        Platform::from_table(changed.map_err(|fault| built_in::located(fault, &self.origin))?, &self.origin)
    }

    fn from_table(file: Table, origin: &str) -> Result<Platform, PlatformError> {
        Platform::read(file, origin)
            .and_then(|platform| rules::check(&platform).map(|()| platform))
            .map_err(|fault| built_in::located(fault, origin))
    }

    fn read(given: Table, origin: &str) -> Result<Platform, Fault> {
        only(&given, "", TOP)?;
        let file = data_sheet::resolved(&given)?;
        Ok(Platform {
            name: field(&file, "", "name")?,
            about: field(&file, "", "about")?,
            topology: field(&file, "", "topology")?,
            core: field(&file, "", "core")?,
            l1: field(&file, "", "l1")?,
            l2: field(&file, "", "l2")?,
            llc: field(&file, "", "llc")?,
            snoop_filter: field(&file, "", "snoop_filter")?,
            path: field(&file, "", "path")?,
            link: field(&file, "", "link")?,
            memory: field(&file, "", "memory")?,
            protocol: field(&file, "", "protocol")?,
            prefetch: field(&file, "", "prefetch")?,
            software: field(&file, "", "software")?,
            targets: field(&file, "", "targets")?,
            native: field(&file, "", "native")?,
            pcie: field(&file, "", "pcie")?,
            device: field(&file, "", "device")?,
            origin: origin.into(),
            file: given,
        })
    }
}

/// What a file may leave out: table, key, unit, and what it is then.
const ABSENT: [(&str, &str, &str, Value); 6] = [
    ("software", "packet", "times", Value::Float(1.0)),
    ("software", "call", "times", Value::Float(1.0)),
    ("software", "packet_at_a_time", "on", Value::Boolean(false)),
    ("software", "prefetch", "on", Value::Boolean(true)),
    ("core", "line", "ns", Value::Float(0.0)),
    ("protocol", "extra_for_reads_only", "on", Value::Boolean(false)),
];

/// Gives such an entry what it is if it is left out.
fn add_absent(file: &mut Table, key: &str) {
    let Some((table, name, unit, value)) =
        ABSENT.into_iter().find(|(table, name, ..)| key.split_once('.') == Some((*table, *name)))
    else {
        return;
    };
    if let Some(Value::Table(table)) = file.get_mut(table) {
        let entry = [(unit, value), ("source", Value::String("left out".into()))]
            .map(|(key, value)| (key.to_owned(), value))
            .into_iter()
            .collect();
        table.entry(name).or_insert(Value::Table(entry));
    }
}
