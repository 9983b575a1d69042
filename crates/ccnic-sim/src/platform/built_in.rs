//! How a built-in file, a file on disk and a changed value become the TOML of a platform, of whatever machine.

use std::fs::File;
use std::io::Read as _;

use toml::Table;

use super::error::PlatformError;
use super::read::Fault;
use super::units;

/// A platform file has some hundred lines; a device file or a video is not one.
const LARGEST: u64 = 1 << 20;

/// Built-in files: the name of each, and its text.
pub(super) type Files = [(&'static str, &'static str)];

/// Built-in files by their names.
macro_rules! files {
    ($($name:literal),+) => {
        pub(super) const FILES: &$crate::platform::built_in::Files = &[$((
            $name,
            include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../platforms/", $name, ".toml")),
        )),+];
    };
}
pub(super) use files;

/// The text of a built-in platform, or of a file: a name with a '/' or ending in `.toml`. With the name that errors have.
pub(super) fn text(name: &str, files: &Files) -> Result<(String, String), PlatformError> {
    if let Some((name, text)) = files.iter().find(|(built_in, _)| *built_in == name) {
        return Ok(((*text).to_owned(), format!("platforms/{name}.toml")));
    }
    if !name.contains('/') && !name.ends_with(".toml") {
        return Err(PlatformError::Unknown { name: name.into(), names: names(files) });
    }
    read(name, files).map(|text| (text, name.to_owned()))
}

/// The text of a file; errors name the built-in ones.
pub(super) fn read(name: &str, files: &Files) -> Result<String, PlatformError> {
    let mut text = String::new();
    match File::open(name).and_then(|opened| opened.take(LARGEST + 1).read_to_string(&mut text)) {
        Ok(_) if text.len() as u64 > LARGEST => {
            let reason = "it is larger than a MiB, no platform is".into();
            Err(PlatformError::Syntax { file: name.into(), reason })
        }
        Ok(_) => Ok(text),
        Err(error) => Err(PlatformError::Unreadable { file: name.into(), error, names: names(files) }),
    }
}

fn names(files: &Files) -> String {
    files.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

/// A text as TOML.
pub(super) fn parse(text: &str, origin: &str) -> Result<Table, PlatformError> {
    text.parse().map_err(|error: toml::de::Error| PlatformError::Syntax {
        file: origin.into(),
        reason: error.to_string().trim_end().into(),
    })
}

/// The same file with one value changed, e.g. `link.one_way`.
pub(super) fn overridden(file: &Table, key: &str, value: f64) -> Result<Table, Fault> {
    let mut file = file.clone();
    replace(&mut file, key, value)?;
    Ok(file)
}

/// Changes the number under a dotted key.
fn replace(file: &mut Table, key: &str, value: f64) -> Result<(), Fault> {
    let mut table = file;
    for part in key.split('.') {
        let here: Vec<String> =
            table.iter().filter(|(_, v)| v.is_table()).map(|(key, _)| key.clone()).collect();
        let Some(next) = table.get_mut(part).and_then(|v| v.as_table_mut()) else {
            let remedy = match here.as_slice() {
                [] => "name a value, without its unit".to_owned(),
                here => format!("instead of {part:?} there are {}", here.join(", ")),
            };
            return Err(Fault::new(key, "is no value of this platform", remedy));
        };
        table = next;
    }
    units::replace(table, key, value)
}

/// What is wrong, with the file's name.
pub(super) fn located(fault: Fault, origin: &str) -> PlatformError {
    PlatformError::Value { file: origin.into(), key: fault.key, reason: fault.reason, remedy: fault.remedy }
}
