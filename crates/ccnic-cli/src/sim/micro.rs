//! `ccnic sim access | pingpong | stream | mmio`: the paper's microbenchmarks on a simulated machine.

use anyhow::Context;
use ccnic_sim::micro::{Held, Stores, Words};
use ccnic_sim::mmio::{self as probes, Target};
use ccnic_sim::{micro, parallel};
use clap::Args;
use serde::Serialize;

use super::machine::MachineArgs;
use crate::print::{self, Column, Progress, Table, units};

/// Options of `sim access`, `sim pingpong` and `sim mmio`.
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
    /// Pairs of a writing and a reading core [default: as many as the platform has]
    #[arg(long)]
    pairs: Option<u16>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct AccessResult {
    held: &'static str,
    median_ns: f64,
    local_memory_reads: f64,
}

/// Latency of a load.
pub fn access(args: &MicroArgs) -> anyhow::Result<()> {
    let platform = args.machine.platform()?;
    let progress = Progress::of_simulations("access", Held::ALL.len(), args.json);
    let mut seen = Vec::new();
    for held in Held::ALL {
        if let Some(a) = micro::access(&platform, held)? {
            let micro::AccessLatency { median_ns, local_memory_reads } = a;
            seen.push(AccessResult { held: held.name(), median_ns, local_memory_reads });
        }
        progress.step();
    }
    drop(progress);
    print::result(args.json, &seen, || {
        let columns = [
            Column::text("location of the line"),
            Column::number("latency\nns"),
            Column::number("reads of the\nreader's memory"),
        ];
        let mut table = Table::new(format!("Latency of a load on {}, simulated", platform.name), columns);
        for a in &seen {
            let (ns, reads) = (format!("{:.1}", a.median_ns), format!("{:.2}", a.local_memory_reads));
            table.row([a.held.to_owned(), ns, reads]);
        }
        table.note(
            "latency: the median. Local and remote: the reader's socket and the other one. Remote core: a core of the other socket \
             modified the line. Writer-homed, reader-homed: the line's memory is in the writer's or in the reader's socket. Reads of \
             the reader's memory: DRAM reads there per load.",
        );
        table.text()
    })
}

#[derive(Debug, Serialize)]
struct PingPongResult {
    words: &'static str,
    median_ns: f64,
    remote_requests: f64,
}

/// Ping-pong round trips.
pub fn pingpong(args: &MicroArgs) -> anyhow::Result<()> {
    let platform = args.machine.platform()?;
    let progress = Progress::of_simulations("ping-pong", Words::ALL.len(), args.json);
    let mut seen = Vec::new();
    for words in Words::ALL {
        let micro::PingPong { median_ns, remote_requests } = micro::pingpong(&platform, words)?;
        seen.push(PingPongResult { words: words.name(), median_ns, remote_requests });
        progress.step();
    }
    drop(progress);
    print::result(args.json, &seen, || {
        let columns = [
            Column::text("lines of the words, their home"),
            Column::number("round trip\nns"),
            Column::number("requests\nover the link"),
        ];
        let title = format!("Ping-pong between two cores of {}, simulated", platform.name);
        let mut table = Table::new(title, columns);
        for p in &seen {
            let (ns, requests) = (format!("{:.1}", p.median_ns), format!("{:.2}", p.remote_requests));
            table.row([p.words.to_owned(), ns, requests]);
        }
        table.note(
            "round trip: the median. Socket 0 has the core that begins, socket 1 the one that answers. Writer-homed, reader-homed: the \
             line's memory is in its writer's or in its reader's socket. Requests: per round trip.",
        );
        table.text()
    })
}

#[derive(Debug, Serialize)]
struct StreamResult {
    stores: &'static str,
    pairs: u16,
    gbps: f64,
}

/// Throughput of streams.
pub fn stream(args: &StreamArgs) -> anyhow::Result<()> {
    let platform = args.machine.platform()?;
    let cores = platform.topology.host_cores.get().min(platform.topology.nic_cores.get()) as u16;
    let pairs = args.pairs.unwrap_or(cores);
    anyhow::ensure!((1..=cores).contains(&pairs), "--pairs is {pairs}; choose 1 to {cores}");
    let progress = Progress::of_simulations("stream", Stores::ALL.len(), args.json);
    let seen = parallel::map(&Stores::ALL, |&stores| {
        let stream = micro::stream(&platform, stores, pairs)?;
        progress.step();
        anyhow::Ok(StreamResult { stores: stores.name(), pairs, gbps: stream.gbit_per_s })
    });
    drop(progress);
    let seen = seen.into_iter().collect::<Result<Vec<_>, _>>()?;
    print::result(args.json, &seen, || {
        let columns = [Column::text("stores"), Column::number("pairs of\ncores"), Column::number("Gb/s")];
        let title = format!("Streams from socket to socket on {}, simulated", platform.name);
        let mut table = Table::new(title, columns);
        for s in &seen {
            table.row([s.stores.to_owned(), s.pairs.to_string(), units::rate(s.gbps)]);
        }
        table.text()
    })
}

/// Bytes of a device that are read at once.
const READS: [u32; 2] = [8, 64];
/// Consecutive stores, each to another line of the device: below and above the number of write-combining buffers.
const STORES: [u32; 6] = [1, 8, 16, 24, 32, 64];
/// Bytes written between two barriers.
const BARRIERS: [u32; 5] = [64, 256, 1024, 4096, 16384];

#[derive(Debug, Serialize)]
struct MmioResult {
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
    let progress =
        Progress::of_simulations("mmio", READS.len() + STORES.len() + 3 * BARRIERS.len(), args.json);
    let mut seen = Vec::new();
    for size in READS {
        let ns = Some(probes::mmio_read(&platform, size)?.with_context(none)?);
        seen.push(MmioResult { access: "read", size, ns, gbytes_per_s: None });
        progress.step();
    }
    for size in STORES {
        let ns = Some(probes::store_burst(&platform, size)?.with_context(none)?);
        seen.push(MmioResult { access: "stores to lines of the device", size, ns, gbytes_per_s: None });
        progress.step();
    }
    let targets = [
        (Target::Device, "write to the device, write-combining"),
        (Target::WriteCombining, "write to memory, non-temporal"),
        (Target::WriteBack, "write to memory, caching"),
    ];
    for (target, access) in targets {
        for size in BARRIERS {
            let rate = probes::write_throughput(&platform, target, size)?.with_context(none)?;
            seen.push(MmioResult { access, size, ns: None, gbytes_per_s: Some(rate) });
            progress.step();
        }
    }
    drop(progress);
    print::result(args.json, &seen, || mmio_table(&platform.name, &seen).text())
}

fn mmio_table(platform: &str, seen: &[MmioResult]) -> Table {
    let columns =
        [Column::text("access"), Column::text("amount"), Column::number("ns"), Column::number("GB/s")];
    let mut table = Table::new(format!("Accesses to the PCIe device of {platform}, simulated"), columns);
    let cell = |value: Option<f64>| value.map_or_else(String::new, units::rate);
    for m in seen {
        let amount = match (m.access, m.ns) {
            ("read", _) => format!("{} bytes", m.size),
            (_, Some(_)) => units::count(m.size as usize, "line"),
            (_, None) => format!("fence every {} bytes", m.size),
        };
        table.row([m.access.to_owned(), amount, cell(m.ns), cell(m.gbytes_per_s)]);
    }
    table.note(
        "amount: bytes of one read; cache lines of consecutive stores, one store each; bytes written between two store fences \
         (SFENCE).",
    );
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::print::longest_line;

    #[test]
    fn accesses_to_a_device_say_what_their_amounts_are() {
        let one = |access, size, ns, gbytes_per_s| MmioResult { access, size, ns, gbytes_per_s };
        let seen = [
            one("read", 8, Some(982.0), None),
            one("stores to lines of the device", 1, Some(12_345.6), None),
            one("write to the device, write-combining", 16384, None, Some(5.7)),
        ];
        let text = mmio_table("icx-e810", &seen).in_width(80);
        assert!(longest_line(&text) <= 80, "{text}");
        for amount in ["8 bytes", "1 line ", "fence every 16384 bytes"] {
            assert!(text.contains(amount), "{text}");
        }
    }
}
