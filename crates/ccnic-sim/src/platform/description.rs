//! A platform: its tables, and the latencies that their values add up to.

use super::tables::{
    Cache, Core, Device, Link, Llc, Memory, Native, Path, Pcie, Prefetch, Protocol, SnoopFilter, Software,
    Targets, Topology,
};
use toml::Table;

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
    pub llc: Llc,
    /// What bounds the lines in private caches, per socket.
    pub snoop_filter: Option<SnoopFilter>,
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
    /// What was measured on the machine itself.
    pub native: Option<Native>,
    /// The link of a PCIe device.
    pub pcie: Option<Pcie>,
    /// A PCIe NIC.
    pub device: Option<Device>,
    /// The file's name, for errors.
    pub(super) origin: String,
    /// What the above was read from, for [`Platform::overridden`].
    pub(super) file: Table,
}

impl Platform {
    /// An instruction of a program whose lines are in its first-level cache, on average.
    pub fn instruction_ns(&self) -> f64 {
        let core = &self.core;
        1.0 / (core.frequency.get() * f64::from(core.width.get()) * self.software.dispatch.get())
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
        local_memory(&self.path, &self.memory)
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
        there_and_back(&self.path)
    }

    /// What the other socket's home agent adds.
    fn across(&self) -> Option<f64> {
        self.link.as_ref().map(|link| 2.0 * link.one_way.get() + self.path.lookup.get())
    }
}

fn there_and_back(path: &Path) -> f64 {
    path.miss.get() + path.mesh.get() + path.lookup.get() + path.mesh.get() + path.fill.get()
}

/// See [`Platform::local_memory_ns`].
pub(super) fn local_memory(path: &Path, memory: &Memory) -> f64 {
    there_and_back(path) + memory.latency.get()
}

impl Link {
    /// Data in each direction, in GB/s.
    pub fn data_rate(&self) -> f64 {
        self.rate.get() / f64::from(self.data_flits.get()) * 64.0
    }
}
