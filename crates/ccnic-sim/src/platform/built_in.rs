//! Platforms of other machines than the simulator's first: how a built-in file, a file on disk and a changed value become one.

use toml::Table;

use super::error::PlatformError;
use super::read::Fault;
use super::units;

/// The text of a built-in platform, or of a file: a name with a '/' or ending in `.toml`. With the name that errors have.
pub(super) fn text(name: &str, files: &[(&str, &str)]) -> Result<(String, String), PlatformError> {
    if let Some((name, text)) = files.iter().find(|(built_in, _)| *built_in == name) {
        return Ok(((*text).to_owned(), format!("platforms/{name}.toml")));
    }
    let names = || files.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    if !name.contains('/') && !name.ends_with(".toml") {
        return Err(PlatformError::Unknown { name: name.into(), names: names() });
    }
    let unreadable = |error| PlatformError::Unreadable { file: name.into(), error, names: names() };
    Ok((std::fs::read_to_string(name).map_err(unreadable)?, name.to_owned()))
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
    let entry = key
        .split_once('.')
        .and_then(|(at, key)| file.get_mut(at)?.as_table_mut()?.get_mut(key)?.as_table_mut());
    let unknown = Fault::new(
        key,
        "is no value of this platform",
        "name a table and a value that its file has, e.g. link.one_way",
    );
    units::replace(entry.ok_or(unknown)?, key, value)?;
    Ok(file)
}

/// What is wrong, with the file's name.
pub(super) fn located(fault: Fault, origin: &str) -> PlatformError {
    PlatformError::Value { file: origin.into(), key: fault.key, reason: fault.reason, remedy: fault.remedy }
}
