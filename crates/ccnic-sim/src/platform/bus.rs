//! A platform whose caches snoop a bus: nodes of one processor, a memory bus, an I/O bus behind a bridge, and a network between the
//! nodes. `platforms/cni-1996.toml` is the built-in one.

use toml::{Table, Value};

use super::built_in;
use super::error::PlatformError;
use super::read::{Fault, Read, field, only, table, tables};
use super::units::{Count, Cycles, Ghz, Kib};
use crate::protocols::{SNOOPING, snooping::Snooping};

built_in::files!("cni-1996");

/// Nodes that one simulation holds.
const NODES: u32 = 64;

/// A machine of nodes with snooping buses.
#[derive(Clone, Debug, PartialEq)]
pub struct BusPlatform {
    /// Short name.
    pub name: String,
    /// What it describes.
    pub about: String,
    /// Nodes.
    pub nodes: Count,
    /// What its caches follow.
    pub protocol: &'static Snooping,
    /// The processor.
    pub processor: Processor,
    /// Its cache.
    pub cache: DirectMapped,
    /// The bus between processor and second-level cache.
    pub cache_bus: CacheBus,
    /// The memory bus.
    pub memory_bus: MemoryBus,
    /// The I/O bus.
    pub io_bus: IoBus,
    /// The network.
    pub network: Network,
    /// The messaging layer.
    pub software: Messaging,
    pub(super) file: Table,
}

tables! {
    /// `[processor]`.
    Processor {
        /// Clock.
        frequency: Ghz,
        /// What a miss takes besides the bus.
        miss: Cycles,
        /// Uncached stores that can wait for the bus.
        store_buffer: Count,
    }

    /// `[cache]`: direct-mapped.
    DirectMapped {
        /// Capacity.
        size: Kib,
    }

    /// `[cache_bus]`.
    CacheBus {
        /// An uncached load.
        load: Cycles,
        /// An uncached store.
        store: Cycles,
    }

    /// `[memory_bus]`: how long a transaction occupies it.
    MemoryBus {
        /// An uncached load of a device's register.
        load: Cycles,
        /// An uncached store to one.
        store: Cycles,
        /// A block from a device to a processor's cache.
        from_ni: Cycles,
        /// A block from a processor's cache to a device.
        to_ni: Cycles,
        /// A block from memory.
        memory: Cycles,
        /// An invalidation.
        invalidate: Cycles,
        /// A block to memory.
        write_back: Cycles,
    }

    /// `[io_bus]`: how long a transaction across the bridge occupies both buses together.
    IoBus {
        /// An uncached load of a device's register.
        load: Cycles,
        /// An uncached store to one.
        store: Cycles,
        /// A block from a device to a processor's cache.
        from_ni: Cycles,
        /// A block from a processor's cache to a device.
        to_ni: Cycles,
        /// An invalidation.
        invalidate: Cycles,
        /// Stores and invalidations that the bridge holds.
        buffers: Count,
    }

    /// `[network]`.
    Network {
        /// From the last byte sent to the first received.
        latency: Cycles,
        /// Messages under way to one destination.
        window: Count,
        /// Messages that a device without a queue in memory holds in each direction.
        fifo: Count,
    }

    /// `[software]`: the messaging layer.
    Messaging {
        /// Of a message that is sent, without its copy.
        send: Cycles,
        /// Of a message that is received, without its copy.
        receive: Cycles,
        /// Of each double word that is copied.
        copy: Cycles,
        /// Of an empty poll, without its loads.
        poll: Cycles,
    }
}

/// `[machine]`.
struct Nodes {
    nodes: Count,
    protocol: &'static Snooping,
}

impl Read for Nodes {
    fn read(value: &Value, at: &str) -> Result<Self, Fault> {
        let table = table(value, at, &["nodes", "protocol"])?;
        let name: String = field(table, at, "protocol")?;
        let found = SNOOPING.iter().find(|p| p.name == name);
        let known = SNOOPING.iter().map(|p| p.name).collect::<Vec<_>>().join(", ");
        let unknown = || {
            Fault::new(
                "machine.protocol",
                format!("is {name:?}, which is not known"),
                format!("choose one of {known}"),
            )
        };
        Ok(Nodes { nodes: field(table, at, "nodes")?, protocol: found.copied().ok_or_else(unknown)? })
    }
}

const TOP: &[&str] = &[
    "name",
    "about",
    "machine",
    "processor",
    "cache",
    "cache_bus",
    "memory_bus",
    "io_bus",
    "network",
    "software",
];

impl BusPlatform {
    /// A built-in platform; a name with a '/' or ending in `.toml` is a file.
    pub fn named(name: &str) -> Result<BusPlatform, PlatformError> {
        let (text, origin) = built_in::text(name, FILES)?;
        BusPlatform::parse(&text, &origin)
    }

    /// Reads a text; `origin` names it in errors.
    pub fn parse(text: &str, origin: &str) -> Result<BusPlatform, PlatformError> {
        BusPlatform::from_table(built_in::parse(text, origin)?, origin)
    }

    /// The same machine with one value changed, e.g. `memory_bus.invalidate`.
    pub fn overridden(&self, key: &str, value: f64) -> Result<BusPlatform, PlatformError> {
        let file =
            built_in::overridden(&self.file, key, value).map_err(|f| built_in::located(f, &self.name))?;
        BusPlatform::from_table(file, &self.name)
    }

    fn from_table(file: Table, origin: &str) -> Result<BusPlatform, PlatformError> {
        BusPlatform::read(file).and_then(BusPlatform::checked).map_err(|f| built_in::located(f, origin))
    }

    fn read(file: Table) -> Result<BusPlatform, Fault> {
        only(&file, "", TOP)?;
        let Nodes { nodes, protocol } = field(&file, "", "machine")?;
        Ok(BusPlatform {
            name: field(&file, "", "name")?,
            about: field(&file, "", "about")?,
            nodes,
            protocol,
            processor: field(&file, "", "processor")?,
            cache: field(&file, "", "cache")?,
            cache_bus: field(&file, "", "cache_bus")?,
            memory_bus: field(&file, "", "memory_bus")?,
            io_bus: field(&file, "", "io_bus")?,
            network: field(&file, "", "network")?,
            software: field(&file, "", "software")?,
            file,
        })
    }

    /// Rules between values.
    fn checked(self) -> Result<BusPlatform, Fault> {
        let (io, memory) = (&self.io_bus, &self.memory_bus);
        let longer = [
            ("io_bus.load", io.load.get(), memory.load.get()),
            ("io_bus.store", io.store.get(), memory.store.get()),
            ("io_bus.from_ni", io.from_ni.get(), memory.from_ni.get()),
            ("io_bus.to_ni", io.to_ni.get(), memory.to_ni.get()),
            ("io_bus.invalidate", io.invalidate.get(), memory.invalidate.get()),
        ];
        if let Some((key, io, memory)) = longer.into_iter().find(|(_, io, memory)| io <= memory) {
            let reason =
                format!("is {io} cycles, not above the {memory} of the memory bus, which it includes");
            return Err(Fault::new(key, reason, "give the time of both buses together"));
        }
        if self.nodes.get() > NODES {
            let reason = format!("is {}, more than {NODES}", self.nodes.get());
            return Err(Fault::new("machine.nodes", reason, "simulate fewer nodes"));
        }
        if !self.cache.size.get().is_power_of_two() {
            let reason = format!("is {} KiB", self.cache.size.get());
            return Err(Fault::new("cache.size", reason, "a direct-mapped cache has a power of two"));
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_platform_has_table_2() {
        let p = BusPlatform::named("cni-1996").unwrap();
        let found =
            [p.cache_bus.load.get(), p.memory_bus.load.get(), p.io_bus.load.get(), p.io_bus.from_ni.get()];
        assert_eq!(found, [4, 28, 48, 76]);
        assert_eq!(p.nodes.get(), 16);
        assert_eq!(p.overridden("memory_bus.invalidate", 6.0).unwrap().memory_bus.invalidate.get(), 6);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let (_, file) = FILES[0];
        let wrong = |from: &str, to: &str, key: &str| {
            assert!(file.contains(from), "{from}");
            let error = BusPlatform::parse(&file.replacen(from, to, 1), "mine.toml").unwrap_err();
            assert_eq!(error.key(), Some(key), "{error}");
        };
        wrong("\"moesi\"", "\"mesif\"", "machine.protocol");
        wrong("load       = { cycles = 48", "load       = { cycles = 28", "io_bus.load");
        wrong("count = 16", "count = 65", "machine.nodes");
        wrong("kib = 256", "kib = 250", "cache.size");
        wrong("cycles = 100", "ns = 500", "network.latency");
        wrong("[software]", "[sofware]", "sofware");
        let p = BusPlatform::named("cni-1996").unwrap();
        assert!(p.overridden("memory_bus.speed", 1.0).is_err() && p.overridden("bus", 1.0).is_err());
        assert!(BusPlatform::named("icx").is_err());
    }
}
