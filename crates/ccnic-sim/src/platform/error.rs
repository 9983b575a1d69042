//! Why a platform was refused.

use std::io;
use thiserror::Error;

/// Why a platform was refused: which file, which key, what is wrong, what to do.
#[derive(Debug, Error)]
pub enum PlatformError {
    /// The file cannot be read.
    #[error("{file}: {error}; name a readable file, or one of the built-in platforms {names}")]
    Unreadable {
        /// As it was named.
        file: String,
        /// From the system.
        error: io::Error,
        /// The built-in platforms.
        names: String,
    },
    /// The text is not TOML.
    #[error("{file}: not TOML: {reason}")]
    Syntax {
        /// As it was named.
        file: String,
        /// Line and column, from the parser.
        reason: String,
    },
    /// A value is missing, unknown, or makes no sense.
    #[error("{file}: {key} {reason}; {remedy}")]
    Value {
        /// As it was named.
        file: String,
        /// Dotted, e.g. `link.rate`.
        key: String,
        /// What is wrong.
        reason: String,
        /// What to do.
        remedy: String,
    },
    /// No such built-in platform.
    #[error("no platform {name:?}; built in are {names}, a name with '/' or ending in .toml is a file")]
    Unknown {
        /// As it was given.
        name: String,
        /// The built-in platforms.
        names: String,
    },
}

impl PlatformError {
    /// The dotted key that is at fault, if it is one key.
    pub fn key(&self) -> Option<&str> {
        match self {
            PlatformError::Value { key, .. } => Some(key),
            _ => None,
        }
    }
}
