//! A platform's numbers as the machine uses them: picoseconds and counts. Those of links are in `topology.rs`.

use crate::kernel::time::{Ps, ps};
use crate::platform::{On, Platform, Prefetchers};

/// Everything that takes time, or bounds how much may be under way.
#[derive(Debug, Clone)]
pub struct Costs {
    pub miss: Ps,
    pub mesh: Ps,
    pub lookup: Ps,
    pub llc_data: Ps,
    pub snoop: Ps,
    pub fill: Ps,
    pub home_extra: Ps,
    pub l2: Ps,
    /// A non-temporal store of a line from another socket, at the home agent that takes it.
    pub non_temporal_line: Ps,
    pub memory: Ps,
    /// A line at the memory of a socket.
    pub memory_line: Ps,
    /// Latency of memory under load: the share of its rate that is used, and the time that it adds.
    pub curve: Vec<(f64, Ps)>,
    /// Instructions in the reorder buffer: taken to be a micro-operation each.
    pub rob: u64,
    pub load_queue: usize,
    pub store_queue: usize,
    pub fill_buffers: usize,
    pub super_queue: usize,
    pub wc_buffers: usize,
    /// A line on a core's own path; zero where it is not modelled.
    pub line: Ps,
    /// A store into a write-combining buffer: a cycle.
    pub wc_store: Ps,
    pub mispredict: Ps,
    pub machine_clear: Ps,
    /// An instruction, on average.
    pub instruction: Ps,
    pub exchange: Ps,
    pub migratory_local: bool,
    pub migratory_remote: bool,
    pub dataless: bool,
    pub speculative_read: bool,
    pub extra_for_reads_only: bool,
    pub demote: bool,
    /// Prefetchers of host cores and of NIC cores.
    pub prefetch: [Prefetch; 2],
}

/// Hardware prefetchers of a core.
#[derive(Debug, Clone, Copy, Default)]
pub struct Prefetch {
    /// The other line of an aligned pair.
    pub adjacent: bool,
    /// The next lines of a page, after two in a row.
    pub streamer: bool,
    /// The next address of one instruction, after equal strides.
    pub ip: bool,
    /// The first two follow stores, too.
    pub stores: bool,
    /// The first follows software prefetches, too.
    pub software: bool,
}

impl Prefetch {
    fn of(p: &Prefetchers) -> Prefetch {
        Prefetch {
            adjacent: p.adjacent.get(),
            streamer: p.streamer.get(),
            ip: p.ip.get(),
            stores: p.stores.get(),
            software: p.software.get(),
        }
    }
}

impl Costs {
    /// The numbers of a platform.
    pub fn of(p: &Platform) -> Costs {
        let cycle = 1.0 / p.core.frequency.get();
        let peak = p.memory.rate.get();
        let points = p.memory.curve.as_ref().map(|c| c.points()).unwrap_or_default();
        let idle = points.first().map_or(0.0, |p| p[1]);
        Costs {
            miss: ps(p.path.miss.get()),
            mesh: ps(p.path.mesh.get()),
            lookup: ps(p.path.lookup.get()),
            llc_data: ps(p.path.llc_data.get()),
            snoop: ps(p.path.snoop.get()),
            fill: ps(p.path.fill.get()),
            home_extra: ps(p.path.home_extra.get()),
            l2: ps(p.l2.latency.get() - p.l1.latency.get()),
            non_temporal_line: p.link.as_ref().map_or(0, |l| ps(64.0 / l.around_rate.get())),
            memory: ps(p.memory.latency.get()),
            memory_line: ps(64.0 / peak),
            curve: points.iter().map(|[gb, ns]| (gb / peak, ps(ns - idle))).collect(),
            rob: u64::from(p.core.rob.get()),
            load_queue: p.core.load_queue.get() as usize,
            store_queue: p.core.store_queue.get() as usize,
            fill_buffers: p.core.fill_buffers.get() as usize,
            super_queue: p.core.super_queue.get() as usize,
            wc_buffers: p.core.wc_buffers.get() as usize,
            line: p.core.line.as_ref().map_or(0, |line| ps(line.get())),
            wc_store: ps(cycle),
            mispredict: ps(p.core.mispredict.get()),
            machine_clear: ps(p.core.machine_clear.get()),
            instruction: ps(p.instruction_ns()).max(1),
            exchange: ps(20.0 * cycle),
            migratory_local: p.protocol.migratory_local.get(),
            migratory_remote: p.protocol.migratory_remote.get(),
            dataless: p.protocol.dataless_full_line.get(),
            speculative_read: p.protocol.speculative_memory_read.get(),
            extra_for_reads_only: p.protocol.extra_for_reads_only.as_ref().is_some_and(On::get),
            demote: p.protocol.demote.get(),
            prefetch: [Prefetch::of(&p.prefetch.host), Prefetch::of(&p.prefetch.nic)],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A key that is accepted and changes nothing would mislead.
    #[test]
    fn every_number_of_a_core_and_its_paths_has_an_effect() {
        let icx = Platform::named("icx").unwrap();
        let costs = |p: &Platform| format!("{:?}", Costs::of(p));
        let tables = ["core", "path", "memory", "protocol", "prefetch", "software"];
        let used = |key: &str| {
            tables.iter().any(|table| key.split('.').next() == Some(table)) || key.ends_with(".latency")
        };
        let mut seen = 0;
        for entry in icx.entries().iter().filter(|e| used(&e.key)) {
            let new = match entry.value.as_str() {
                "true" => 0.0,
                "false" => 1.0,
                value => match value.parse::<f64>() {
                    Ok(number) if entry.unit == "ratio" => number / 2.0,
                    Ok(number) => number * 2.0,
                    Err(_) => continue, // a curve
                },
            };
            // The L2's latency lies between those of the L1 and of the LLC.
            let new = if entry.key == "l2.latency" { 5.0 } else { new };
            let changed = icx.overridden(&entry.key, new).unwrap();
            assert_ne!(costs(&changed), costs(&icx), "{}", entry.key);
            seen += 1;
        }
        assert!(seen > 30, "{seen}");
    }
}
