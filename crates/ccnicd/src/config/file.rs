//! The configuration as a file: read, and written.

use std::path::{Path, PathBuf};

use anyhow::Context;
use ccnic_control::files;
use ccnic_control::messages::CONFIG_MAX;

use super::Config;

/// A file that was read.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Source {
    path: PathBuf,
    text: String,
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
        Ok(Config { source: Some(Source { path: path.to_owned(), text }), ..config })
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
        let line = |source: &Source| 1 + source.text.bytes().take(at).filter(|byte| *byte == b'\n').count();
        self.source
            .as_ref()
            .map_or_else(String::new, |source| format!("{}, line {}: ", source.path.display(), line(source)))
    }
}
