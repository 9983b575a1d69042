//! A platform of any of the simulator's machines: which one, the tables of its file tell.

use toml::Table;

use super::bus::{self, BusPlatform};
use super::description::Platform;
use super::error::PlatformError;
use super::pio::{self, PioPlatform};
use super::values::{self, Entry};
use super::{built_in, load};

/// A platform of any machine.
#[derive(Debug, Clone, PartialEq)]
pub enum AnyPlatform {
    /// Sockets of out-of-order cores with caches, and links: `machine/`.
    Sockets(Box<Platform>),
    /// Nodes with snooping buses: `bus/`. Its file has a table `[memory_bus]`.
    Buses(Box<BusPlatform>),
    /// A processor and a device that holds answers back: `eci/`. Its file has a table `[dma]`.
    Device(Box<PioPlatform>),
}

impl AnyPlatform {
    /// The names of all built-in platforms.
    pub fn names() -> Vec<&'static str> {
        files().into_iter().map(|(name, _)| name).collect()
    }

    /// A built-in platform; a name with a '/' or ending in `.toml` is a file.
    ///
    /// # Errors
    /// When there is no such platform, or its file is refused.
    pub fn named(name: &str) -> Result<AnyPlatform, PlatformError> {
        let (text, origin) = built_in::text(name, &files())?;
        AnyPlatform::parse(&text, &origin)
    }

    /// Reads a file.
    ///
    /// # Errors
    /// When it cannot be read, or is refused.
    pub fn load(path: &str) -> Result<AnyPlatform, PlatformError> {
        AnyPlatform::parse(&built_in::read(path, &files())?, path)
    }

    /// Reads a text; `origin` names it in errors.
    ///
    /// # Errors
    /// When it is refused.
    pub fn parse(text: &str, origin: &str) -> Result<AnyPlatform, PlatformError> {
        let file = built_in::parse(text, origin)?;
        Ok(if file.contains_key("memory_bus") {
            AnyPlatform::Buses(Box::new(BusPlatform::parse(text, origin)?))
        } else if file.contains_key("dma") {
            AnyPlatform::Device(Box::new(PioPlatform::parse(text, origin)?))
        } else {
            AnyPlatform::Sockets(Box::new(Platform::parse(text, origin)?))
        })
    }

    /// The text of a platform, with its comments: a file to begin with.
    ///
    /// # Errors
    /// See [`named`](AnyPlatform::named).
    pub fn text(name: &str) -> Result<String, PlatformError> {
        let (text, origin) = built_in::text(name, &files())?;
        AnyPlatform::parse(&text, &origin).map(|_| text)
    }

    /// As a file that reads back as this platform, changed values included; without comments.
    pub fn to_toml(&self) -> String {
        values::written(self.file())
    }

    /// The same machine with one value changed. Everything is checked again.
    ///
    /// # Errors
    /// When there is no such value, or the machine cannot be.
    pub fn overridden(&self, key: &str, value: f64) -> Result<AnyPlatform, PlatformError> {
        Ok(match self {
            AnyPlatform::Sockets(p) => AnyPlatform::Sockets(Box::new(p.overridden(key, value)?)),
            AnyPlatform::Buses(p) => AnyPlatform::Buses(Box::new(p.overridden(key, value)?)),
            AnyPlatform::Device(p) => AnyPlatform::Device(Box::new(p.overridden(key, value)?)),
        })
    }

    /// Every value that has a unit and a source, in alphabetical order of its keys.
    pub fn entries(&self) -> Vec<Entry> {
        values::entries(self.file())
    }

    /// Its short name.
    pub fn name(&self) -> &str {
        match self {
            AnyPlatform::Sockets(p) => &p.name,
            AnyPlatform::Buses(p) => &p.name,
            AnyPlatform::Device(p) => &p.name,
        }
    }

    /// What it describes.
    pub fn about(&self) -> &str {
        match self {
            AnyPlatform::Sockets(p) => &p.about,
            AnyPlatform::Buses(p) => &p.about,
            AnyPlatform::Device(p) => &p.about,
        }
    }

    /// The machine that simulates it, in two words.
    pub fn machine(&self) -> &'static str {
        match self {
            AnyPlatform::Sockets(_) => "sockets",
            AnyPlatform::Buses(_) => "buses",
            AnyPlatform::Device(_) => "device link",
        }
    }

    fn file(&self) -> &Table {
        match self {
            AnyPlatform::Sockets(p) => &p.file,
            AnyPlatform::Buses(p) => &p.file,
            AnyPlatform::Device(p) => &p.file,
        }
    }
}

impl Platform {
    /// Every value that has a unit and a source, in alphabetical order of its keys.
    pub fn entries(&self) -> Vec<Entry> {
        values::entries(&self.file)
    }
}

fn files() -> Vec<(&'static str, &'static str)> {
    [load::FILES, bus::FILES, pio::FILES].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `sim platforms --show` prints is the platform, also with values changed.
    #[test]
    fn what_is_shown_reads_back_as_the_platform() {
        for name in AnyPlatform::names() {
            let (text, origin) = built_in::text(name, &files()).unwrap();
            let platform = AnyPlatform::named(name).unwrap();
            assert_eq!(AnyPlatform::parse(&text, &origin).unwrap(), platform);
            assert_eq!(AnyPlatform::parse(&platform.to_toml(), &origin).unwrap(), platform, "{name}");
            for entry in platform.entries() {
                let Ok(value) = entry.value.parse::<f64>() else { continue };
                let Ok(changed) = platform.overridden(&entry.key, value + 1.0) else { continue };
                assert_ne!(changed, platform, "{name}: {}", entry.key);
                let read = AnyPlatform::parse(&changed.to_toml(), &origin).unwrap();
                assert_eq!(read.entries(), changed.entries(), "{name}: {}", entry.key);
            }
        }
    }
}
