//! Platforms: a machine in numbers, each with its unit and its source.
//!
//! A platform is a TOML file; `platforms/` at the repository root holds the built-in ones, and a user copies one of them
//! to describe his own machine. A number's unit is its key, so that nobody mistakes one for another:
//!
//! ```toml
//! [memory]
//! rate = { gbytes_per_s = 175.7, source = "mlc 3.10 on a Gold 6338, Code-optimization info/icelake_mlc.txt" }
//! ```
//!
//! `assumed = true` marks general knowledge that nobody has verified, `fitted = true` a value that was chosen so that a
//! calibration probe of `[targets]` comes out. A switch is `{ on = true, source = "..." }`.
//!
//! What a file leaves out, misspells, or gives in another unit is refused with its key and a remedy: a simulator that
//! quietly takes a default measures something else.

mod error;
mod read;
mod rules;
mod tables;
#[cfg(test)]
mod tests;
mod units;
mod values;

pub use error::PlatformError;
pub use tables::{
    Cache, Core, Curve, Device, Link, Memory, Path, Pcie, Prefetch, Prefetchers, Protocol, Software, Targets,
    Topology,
};
pub use units::{Bytes, Count, GbitPerS, GbytesPerS, GflitPerS, Ghz, Given, Kib, Ns, On, Ratio, Unit, unit};
pub use values::Entry;

use read::{Fault, field, only};
use std::fs::File;
use std::io::Read as _;
use toml::{Table, Value};

/// A machine: host cores, NIC cores, and what lies between them.
#[derive(Clone, Debug, PartialEq)]
pub struct Platform {
    /// Short name.
    pub name: String,
    /// What it describes, in a sentence or two.
    pub about: String,
    /// Who takes part.
    pub topology: Topology,
    /// What bounds how much a core overlaps.
    pub core: Core,
    /// First-level data cache, per core.
    pub l1: Cache,
    /// Second-level cache, per core.
    pub l2: Cache,
    /// Last-level cache, per socket.
    pub llc: Cache,
    /// The parts of a request's way.
    pub path: Path,
    /// Between the sockets; none when host and NIC share one.
    pub link: Option<Link>,
    /// Memory of a socket.
    pub memory: Memory,
    /// What the coherence protocol does where it has a choice.
    pub protocol: Protocol,
    /// Hardware prefetchers.
    pub prefetch: Prefetch,
    /// What instructions cost.
    pub software: Software,
    /// What calibration probes must show.
    pub targets: Targets,
    /// The link of a PCIe device.
    pub pcie: Option<Pcie>,
    /// A PCIe NIC.
    pub device: Option<Device>,
    /// The file's name, for errors.
    origin: String,
    /// What the above was read from, for [`Platform::overridden`].
    file: Table,
}

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
        const FILES: &[(&str, &str)] = &[$((
            concat!("platforms/", $name, ".toml"),
            include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../platforms/", $name, ".toml")),
        )),+];
    };
}
built_in!("icx", "spr", "spr-one-socket", "cxl", "icx-e810", "icx-cx6");

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

    /// Reads a file.
    pub fn load(path: impl AsRef<std::path::Path>) -> Result<Platform, PlatformError> {
        let path = path.as_ref();
        let file = path.display().to_string();
        let mut text = String::new();
        match File::open(path).and_then(|opened| opened.take(LARGEST + 1).read_to_string(&mut text)) {
            Ok(_) if text.len() as u64 > LARGEST => {
                Err(PlatformError::Syntax { file, reason: "it is larger than a MiB, no platform is".into() })
            }
            Ok(_) => Platform::parse(&text, &file),
            Err(error) => Err(PlatformError::Unreadable { file, error, names: NAMES.join(", ") }),
        }
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
    pub fn overridden(&self, key: &str, value: f64) -> Result<Platform, PlatformError> {
        let mut file = self.file.clone();
        replace(&mut file, key, value).map_err(|fault| located(fault, &self.origin))?;
        Platform::from_table(file, &self.origin)
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

    /// A load of a line that is modified in another L2 of the socket.
    pub fn local_hitm_ns(&self) -> f64 {
        let path = &self.path;
        self.there_and_back() + path.mesh.get() + path.snoop.get()
    }

    /// A load that hits the socket's LLC.
    pub fn llc_hit_ns(&self) -> f64 {
        self.there_and_back() + self.path.llc_data.get()
    }

    /// A load from the socket's own memory.
    pub fn local_memory_ns(&self) -> f64 {
        self.there_and_back() + self.memory.latency.get()
    }

    /// A load of a line that is modified in the other socket and homed there.
    pub fn remote_hitm_writer_homed_ns(&self) -> Option<f64> {
        let path = &self.path;
        Some(self.there_and_back() + self.across()? + 2.0 * path.mesh.get() + path.snoop.get())
    }

    /// A load of a line that is modified in the other socket and homed here.
    pub fn remote_hitm_reader_homed_ns(&self) -> Option<f64> {
        Some(self.remote_hitm_writer_homed_ns()? + self.path.home_extra.get())
    }

    /// A load from the other socket's memory.
    pub fn remote_memory_ns(&self) -> Option<f64> {
        Some(self.local_memory_ns() + self.across()?)
    }

    /// A device's write of a line that no cache has, from the root complex until cores can see it.
    pub fn dma_write_in_host_ns(&self) -> f64 {
        self.there_and_back()
    }

    /// From the core to the home agent's answer and back, what lies behind the directory left out.
    fn there_and_back(&self) -> f64 {
        let path = &self.path;
        path.miss.get() + path.mesh.get() + path.lookup.get() + path.mesh.get() + path.fill.get()
    }

    /// What the other socket's home agent adds.
    fn across(&self) -> Option<f64> {
        self.link.as_ref().map(|link| 2.0 * link.one_way.get() + self.path.lookup.get())
    }
}

fn located(fault: Fault, origin: &str) -> PlatformError {
    PlatformError::Value { file: origin.into(), key: fault.key, reason: fault.reason, remedy: fault.remedy }
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
