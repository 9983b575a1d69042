//! Where platforms come from: built in, files, texts, and others with a value changed.

use super::description::Platform;
use super::error::PlatformError;
use super::read::{Fault, field, only};
use super::{rules, units};
use std::fs::File;
use std::io::Read as _;
use toml::{Table, Value};

/// The tables and values at the top of a file.
const TOP: &[&str] = &[
    "name", "about", "topology", "core", "l1", "l2", "llc", "path", "link", "memory", "protocol", "prefetch",
    "software", "targets", "pcie", "device",
];

/// A platform file has some hundred lines; a device file or a video is not one.
const LARGEST: u64 = 1 << 20;

macro_rules! built_in {
    ($($name:literal),+) => {
        const NAMES: &[&str] = &[$($name),+];
        pub(super) const FILES: &[(&str, &str)] = &[$((
            concat!("platforms/", $name, ".toml"),
            include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../platforms/", $name, ".toml")),
        )),+];
    };
}
built_in!("icx", "spr", "spr-same-socket", "spr-one-socket", "cxl", "icx-e810", "icx-cx6");

impl Platform {
    /// The built-in platforms.
    pub fn names() -> &'static [&'static str] {
        NAMES
    }

    /// A built-in platform; a name with a '/' or ending in `.toml` is a file.
    pub fn named(name: &str) -> Result<Platform, PlatformError> {
        if name.contains('/') || name.ends_with(".toml") {
            return Platform::load(name);
        }
        match NAMES.iter().zip(FILES).find(|(built_in, _)| **built_in == name) {
            Some((_, (file, text))) => Platform::parse(text, file),
            None => Err(PlatformError::Unknown { name: name.into(), names: NAMES.join(", ") }),
        }
    }

    /// The text of a platform, with its comments: a file to begin with.
    pub fn text(name: &str) -> Result<String, PlatformError> {
        if name.contains('/') || name.ends_with(".toml") {
            let text = read_file(std::path::Path::new(name))?;
            return Platform::parse(&text, name).map(|_| text);
        }
        match NAMES.iter().zip(FILES).find(|(built_in, _)| **built_in == name) {
            Some((_, (_, text))) => Ok((*text).to_owned()),
            None => Err(PlatformError::Unknown { name: name.into(), names: NAMES.join(", ") }),
        }
    }

    /// Reads a file.
    pub fn load(path: impl AsRef<std::path::Path>) -> Result<Platform, PlatformError> {
        let path = path.as_ref();
        Platform::parse(&read_file(path)?, &path.display().to_string())
    }

    /// Reads a text; `origin` names it in errors.
    pub fn parse(text: &str, origin: &str) -> Result<Platform, PlatformError> {
        match text.parse::<Table>() {
            Ok(table) => Platform::from_table(table, origin),
            Err(error) => Err(PlatformError::Syntax {
                file: origin.into(),
                reason: error.to_string().trim_end().into(),
            }),
        }
    }

    /// The same machine with one value changed, e.g. `link.one_way`; a switch takes 0 and 1. Everything is checked again.
    ///
    /// Two keys say what a data sheet says of a device on a link: `link.remote_memory_ns`, what a core's load of the device's memory
    /// takes, sets `link.one_way`; `link.gbytes_per_s`, the data that go through it in each direction, `link.rate`. `software.packet` and
    /// `software.call` are 1 where the file does not have them.
    pub fn overridden(&self, key: &str, value: f64) -> Result<Platform, PlatformError> {
        let (key, value) = self.data_sheet(key, value);
        let mut file = self.file.clone();
        add_absent(&mut file, key);
        replace(&mut file, key, value).map_err(|fault| located(fault, &self.origin))?;
        Platform::from_table(file, &self.origin)
    }

    /// A key and value of this file for those of a data sheet.
    fn data_sheet<'k>(&self, key: &'k str, value: f64) -> (&'k str, f64) {
        let Some(link) = &self.link else { return (key, value) };
        match key {
            "link.remote_memory_ns" => {
                let lookup = self.path.lookup.get();
                ("link.one_way", (value - self.local_memory_ns() - lookup) / 2.0)
            }
            "link.gbytes_per_s" => ("link.rate", value / 64.0 * f64::from(link.data_flits.get())),
            _ => (key, value),
        }
    }

    fn from_table(file: Table, origin: &str) -> Result<Platform, PlatformError> {
        Platform::read(file, origin)
            .and_then(|platform| rules::check(&platform).map(|()| platform))
            .map_err(|fault| located(fault, origin))
    }

    fn read(file: Table, origin: &str) -> Result<Platform, Fault> {
        only(&file, "", TOP)?;
        Ok(Platform {
            name: field(&file, "", "name")?,
            about: field(&file, "", "about")?,
            topology: field(&file, "", "topology")?,
            core: field(&file, "", "core")?,
            l1: field(&file, "", "l1")?,
            l2: field(&file, "", "l2")?,
            llc: field(&file, "", "llc")?,
            path: field(&file, "", "path")?,
            link: field(&file, "", "link")?,
            memory: field(&file, "", "memory")?,
            protocol: field(&file, "", "protocol")?,
            prefetch: field(&file, "", "prefetch")?,
            software: field(&file, "", "software")?,
            targets: field(&file, "", "targets")?,
            pcie: field(&file, "", "pcie")?,
            device: field(&file, "", "device")?,
            origin: origin.into(),
            file,
        })
    }
}

fn read_file(path: &std::path::Path) -> Result<String, PlatformError> {
    let file = path.display().to_string();
    let mut text = String::new();
    match File::open(path).and_then(|opened| opened.take(LARGEST + 1).read_to_string(&mut text)) {
        Ok(_) if text.len() as u64 > LARGEST => {
            Err(PlatformError::Syntax { file, reason: "it is larger than a MiB, no platform is".into() })
        }
        Ok(_) => Ok(text),
        Err(error) => Err(PlatformError::Unreadable { file, error, names: NAMES.join(", ") }),
    }
}

fn located(fault: Fault, origin: &str) -> PlatformError {
    PlatformError::Value { file: origin.into(), key: fault.key, reason: fault.reason, remedy: fault.remedy }
}

/// Gives a multiple that a file may leave out the value that it has then.
fn add_absent(file: &mut Table, key: &str) {
    let Some(name @ ("packet" | "call")) = key.strip_prefix("software.") else { return };
    if let Some(Value::Table(software)) = file.get_mut("software") {
        let as_counted = [("times", Value::Float(1.0)), ("source", Value::String("as counted".into()))];
        let entry = as_counted.map(|(key, value)| (key.to_owned(), value)).into_iter().collect();
        software.entry(name).or_insert(Value::Table(entry));
    }
}

/// Changes the number under a dotted key.
fn replace(file: &mut Table, key: &str, value: f64) -> Result<(), Fault> {
    let mut table = file;
    for part in key.split('.') {
        let here: Vec<String> =
            table.iter().filter(|(_, v)| v.is_table()).map(|(key, _)| key.clone()).collect();
        match table.get_mut(part) {
            Some(Value::Table(next)) => table = next,
            _ if here.is_empty() => {
                return Err(Fault::new(
                    key,
                    "is no value of this platform",
                    "name a value, without its unit",
                ));
            }
            _ => {
                let remedy = format!("instead of {part:?} there are {}", here.join(", "));
                return Err(Fault::new(key, "is no value of this platform", remedy));
            }
        }
    }
    units::replace(table, key, value)
}
