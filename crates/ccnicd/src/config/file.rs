//! The configuration as a file: read, and written.

use std::path::{Path, PathBuf};

use anyhow::Context;
use ccnic_control::files;
use ccnic_control::messages::CONFIG_MAX;
use toml::de::{DeTable, DeValue};

use super::Config;

/// A file that was read.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Source {
    path: PathBuf,
    text: String,
    /// Keys whose value is a flag's.
    by_flags: Vec<String>,
}

impl Source {
    /// The same file, where `flags` come before it.
    pub(super) fn behind(self, flags: &Config) -> Source {
        let keys = toml::Table::try_from(flags).unwrap_or_default();
        Source { by_flags: keys.keys().cloned().collect(), ..self }
    }

    /// The bytes of what stands at `path`: a key, or keys and places in lists with dots between them.
    fn find(&self, path: &str) -> Option<std::ops::Range<usize>> {
        let document = DeTable::parse(&self.text).ok()?.into_inner();
        let (mut within, mut found) = (&DeValue::Table(document), None);
        for part in path.split('.') {
            let (from, value) = match within {
                DeValue::Table(table) => {
                    let (key, value) = table.iter().find(|(key, _)| key.get_ref() == part)?;
                    (key.span().start, value)
                }
                DeValue::Array(list) => {
                    let value = list.get(part.parse::<usize>().ok()?)?;
                    (value.span().start, value)
                }
                _ => return None,
            };
            within = value.get_ref();
            found = Some(from..value.span().end);
        }
        found
    }

    /// Where each entry of a list begins.
    fn starts(&self, list: &str) -> Vec<usize> {
        let Ok(document) = DeTable::parse(&self.text) else { return Vec::new() };
        let value = document.get_ref().iter().find(|(key, _)| key.get_ref() == list);
        match value.map(|(_, value)| value.get_ref()) {
            Some(DeValue::Array(entries)) => entries.iter().map(|entry| entry.span().start).collect(),
            _ => Vec::new(),
        }
    }

    fn line(&self, at: usize) -> usize {
        1 + self.text.bytes().take(at).filter(|byte| *byte == b'\n').count()
    }
}

impl Config {
    /// Reads a file.
    ///
    /// # Errors
    /// Where in it what is wrong, and what would be right. Nothing of such a file is used.
    pub fn read(path: &Path) -> anyhow::Result<Config> {
        Config::parse(path, Config::text_of(path)?)
    }

    /// The contents of a regular file, as they are.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn text_of(path: &Path) -> anyhow::Result<String> {
        files::read_text(path, CONFIG_MAX as u64)
            .with_context(|| format!("could not read {}", path.display()))
    }

    /// What the contents of a file say.
    ///
    /// # Errors
    /// As [`read`](Config::read).
    pub fn parse(path: &Path, text: String) -> anyhow::Result<Config> {
        let config: Config =
            toml::from_str(&text).with_context(|| format!("{} is not used", path.display()))?;
        let source = Source { path: path.to_owned(), text, by_flags: Vec::new() };
        Ok(Config { source: Some(source), ..config })
    }

    /// A file that says the same, without what is left to its default.
    ///
    /// # Errors
    /// When something cannot be said in TOML: a path that is no UTF-8.
    pub fn to_toml(&self) -> anyhow::Result<String> {
        toml::to_string(self).context("the configuration cannot be written as TOML")
    }

    /// Where in the file that is: "FILE, line N: ", or nothing.
    pub(super) fn place(&self, at: usize) -> String {
        let place = |source: &Source| format!("{}, line {}: ", source.path.display(), source.line(at));
        self.source.as_ref().map_or_else(String::new, place)
    }

    /// How the operator has said a key, for what is wrong with it: "FILE, line N: KEY = VALUE" where the file has it, otherwise "--KEY".
    pub fn said(&self, key: &str) -> String {
        let by_flag = format!("--{key}");
        let Some(source) = &self.source else { return by_flag };
        if source.by_flags.iter().any(|flag| flag == key) {
            return by_flag;
        }
        match source.find(key) {
            Some(span) => {
                let text = source.text.get(span.clone()).unwrap_or_default();
                let first = text.lines().next().unwrap_or_default();
                format!("{}{first}", self.place(span.start))
            }
            None => format!("{}: {key}, which it leaves out", source.path.display()),
        }
    }

    /// How the operator has said an entry of a list, such as `port`: "FILE, line N: port NAME", or as by a flag.
    pub(super) fn said_entry(&self, list: &str, at: usize, name: &str) -> String {
        self.said_at(list, self.starts(list).get(at), name)
    }

    /// As [`said_entry`](Config::said_entry), of all entries: the file is looked through once.
    pub(super) fn said_entries(&self, list: &str, names: impl Iterator<Item = String>) -> Vec<String> {
        let starts = self.starts(list);
        names.enumerate().map(|(at, name)| self.said_at(list, starts.get(at), &name)).collect()
    }

    /// Where the entries of a list begin in the file.
    fn starts(&self, list: &str) -> Vec<usize> {
        self.source.as_ref().map(|source| source.starts(list)).unwrap_or_default()
    }

    fn said_at(&self, list: &str, start: Option<&usize>, name: &str) -> String {
        match start {
            Some(start) => format!("{}{list} {name}", self.place(*start)),
            None => format!("--{list} {name}"),
        }
    }

    /// How the operator would say a key, as a remedy: as in a file, or as a flag.
    pub(super) fn would_say(&self, key: &str, value: &str) -> String {
        match self.source {
            Some(_) => format!("{key} = {value:?}"),
            None => format!("--{key} {value}"),
        }
    }
}
