//! `ccnic sim access | pingpong | stream | mmio`: the paper's microbenchmarks on a simulated machine.

use anyhow::Context;
use ccnic_sim::micro::{Held, Stores, Words};
use ccnic_sim::mmio::{self as probes, Target};
use ccnic_sim::{micro, parallel};
use clap::Args;
use serde::Serialize;

use super::{MachineArgs, bar};
use crate::bench::{long_table, print};

/// Options of `sim access` and `sim pingpong`.
#[derive(Debug, Args)]
pub struct MicroArgs {
    #[command(flatten)]
    machine: MachineArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Options of `sim stream`.
#[derive(Debug, Args)]
pub struct StreamArgs {
    #[command(flatten)]
    machine: MachineArgs,
    /// Pairs of a writing and a reading core [default: as many as there are]
    #[arg(long)]
    pairs: Option<u16>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Access {
    held: &'static str,
    median_ns: f64,
    local_memory_reads: f64,
}

/// What a load costs.
pub fn access(args: &MicroArgs) -> anyhow::Result<()> {
    let platform = args.machine.platform()?;
    let bar = bar(Held::ALL.len(), "access");
    let mut seen = Vec::new();
    for held in Held::ALL {
        if let Some(a) = micro::access(&platform, held)? {
            let micro::Access { median_ns, local_memory_reads } = a;
            seen.push(Access { held: held.name(), median_ns, local_memory_reads });
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    print(args.json, &seen, || {
        let mut table = long_table(&["where the line is", "median ns", "reads of the reader's memory"]);
        for a in &seen {
            let (ns, reads) = (format!("{:.1}", a.median_ns), format!("{:.2}", a.local_memory_reads));
            table.add_row([a.held.to_owned(), ns, reads]);
        }
        table
    })
}

#[derive(Debug, Serialize)]
struct PingPong {
    words: &'static str,
    median_ns: f64,
    remote_requests: f64,
}

/// A word there and back.
pub fn pingpong(args: &MicroArgs) -> anyhow::Result<()> {
    let platform = args.machine.platform()?;
    let bar = bar(Words::ALL.len(), "ping-pong");
    let mut seen = Vec::new();
    for words in Words::ALL {
        let micro::PingPong { median_ns, remote_requests } = micro::pingpong(&platform, words)?;
        seen.push(PingPong { words: words.name(), median_ns, remote_requests });
        bar.inc(1);
    }
    bar.finish_and_clear();
    print(args.json, &seen, || {
        let mut table = long_table(&["where the words lie", "median ns", "requests over the link"]);
        for p in &seen {
            let (ns, requests) = (format!("{:.1}", p.median_ns), format!("{:.2}", p.remote_requests));
            table.add_row([p.words.to_owned(), ns, requests]);
        }
        table
    })
}

#[derive(Debug, Serialize)]
struct Stream {
    stores: &'static str,
    pairs: u16,
    gbps: f64,
}

/// Streams of data.
pub fn stream(args: &StreamArgs) -> anyhow::Result<()> {
    let platform = args.machine.platform()?;
    let cores = platform.topology.host_cores.get().min(platform.topology.nic_cores.get()) as u16;
    let pairs = args.pairs.unwrap_or(cores);
    anyhow::ensure!((1..=cores).contains(&pairs), "--pairs is {pairs}; choose 1 to {cores}");
    let bar = bar(Stores::ALL.len(), "stream");
    let seen = parallel::map(&Stores::ALL, |&stores| {
        let stream = micro::stream(&platform, stores, pairs)?;
        bar.inc(1);
        anyhow::Ok(Stream { stores: stores.name(), pairs, gbps: stream.gbit_per_s })
    });
    bar.finish_and_clear();
    let seen = seen.into_iter().collect::<Result<Vec<_>, _>>()?;
    print(args.json, &seen, || {
        let mut table = long_table(&["stores", "pairs", "Gb/s"]);
        for s in &seen {
            table.add_row([s.stores.to_owned(), s.pairs.to_string(), format!("{:.1}", s.gbps)]);
        }
        table
    })
}

/// Bytes of a device that are read at once.
const READS: [u32; 2] = [8, 64];
/// Stores in a row, each to another line of the device: around the number of write-combining buffers.
const STORES: [u32; 6] = [1, 8, 16, 24, 32, 64];
/// Bytes written between two barriers.
const BARRIERS: [u32; 5] = [64, 256, 1024, 4096, 16384];

#[derive(Debug, Serialize)]
struct Mmio {
    access: &'static str,
    /// Bytes read, lines stored to, or bytes between barriers.
    size: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    ns: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gbytes_per_s: Option<f64>,
}

/// Accesses to a PCIe device (CC-NIC figures 2 and 3).
pub fn mmio(args: &MicroArgs) -> anyhow::Result<()> {
    let platform = args.machine.platform()?;
    let none = || {
        let name = &platform.name;
        format!("{name} has no PCIe link; choose a platform that has one, e.g. --platform icx-e810")
    };
    let bar = bar(READS.len() + STORES.len() + 3 * BARRIERS.len(), "mmio");
    let mut seen = Vec::new();
    for size in READS {
        let ns = Some(probes::mmio_read(&platform, size)?.with_context(none)?);
        seen.push(Mmio { access: "read", size, ns, gbytes_per_s: None });
        bar.inc(1);
    }
    for size in STORES {
        let ns = Some(probes::store_burst(&platform, size)?.with_context(none)?);
        seen.push(Mmio { access: "stores to lines of the device", size, ns, gbytes_per_s: None });
        bar.inc(1);
    }
    let targets = [
        (Target::Device, "write to the device, write-combining"),
        (Target::WriteCombining, "write to memory, around the caches"),
        (Target::WriteBack, "write to memory, through the caches"),
    ];
    for (target, access) in targets {
        for size in BARRIERS {
            let rate = probes::write_throughput(&platform, target, size)?.with_context(none)?;
            seen.push(Mmio { access, size, ns: None, gbytes_per_s: Some(rate) });
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    print(args.json, &seen, || {
        let mut table = long_table(&["access", "bytes, lines, bytes a barrier", "ns", "GB/s"]);
        let cell = |value: Option<f64>| value.map_or_else(String::new, |v| format!("{v:.1}"));
        for m in &seen {
            table.add_row([m.access.to_owned(), m.size.to_string(), cell(m.ns), cell(m.gbytes_per_s)]);
        }
        table
    })
}
