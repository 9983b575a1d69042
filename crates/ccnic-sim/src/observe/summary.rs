//! The summary of a simulated loopback: rates and round trips as on a real machine, the cost of a packet on the interconnect, and
//! what bounded the rate.

use ccnic_load::{Load, Totals};
use serde::Serialize;

use super::counters::{Counters, PcieLane, Traffic};
use crate::kernel::time::{Ps, ns, ps};
use crate::platform::Platform;
use crate::systems::plan::{Plan, Run, RunError};

/// A simulated loopback, as `--json` prints it. The keys are those of `ccnic bench loopback`, and more.
#[derive(Debug, Clone, Serialize)]
pub struct Summary {
    /// The ring design.
    pub design: &'static str,
    /// Bytes of each packet.
    pub size: u16,
    /// Packets per transmit burst.
    pub burst: usize,
    /// Buffers per receive burst.
    pub rx_burst: usize,
    /// Packets in flight at most, per queue.
    pub inflight: usize,
    /// Queue pairs.
    pub queues: u16,
    /// Million packets per second offered; absent if as many were sent as the system can carry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offered_mpps: Option<f64>,
    /// Totals of the programs.
    #[serde(flatten)]
    pub totals: Totals,
    /// The machine.
    pub platform: String,
    /// Cores on each side.
    pub cores: u16,
    /// The cost of a packet.
    pub counters: PerPacket,
    /// What bounded the rate.
    pub bound: Bound,
    /// By how much the rate was higher in the second half of the measured time than in the first, as a share of the mean: next to nothing
    /// in a steady state.
    pub drift: f64,
}

/// Counters per packet that was sent and received.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct PerPacket {
    /// The host's cores.
    pub host: CorePerPacket,
    /// The NIC's cores.
    pub nic: CorePerPacket,
    /// The link between them.
    pub link: Links,
    /// Memory.
    pub memory: Memories,
    /// The link of a PCIe NIC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pcie: Option<PciePerPacket>,
}

/// The cost of a packet on the link of a PCIe NIC.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct PciePerPacket {
    /// From the host to the NIC.
    pub host_to_nic: LanePerPacket,
    /// From the NIC to the host.
    pub nic_to_host: LanePerPacket,
    /// Doorbells.
    pub doorbells: f64,
    /// Share of the time that the NIC's engine was busy.
    pub engine: f64,
}

/// The cost of a packet in one direction of a PCIe link.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct LanePerPacket {
    /// PCIe packets.
    pub packets: f64,
    /// Bytes, headers included.
    pub bytes: f64,
    /// Share of the direction's capacity that was used by all packets.
    pub used: f64,
}

/// Both directions of the link.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Links {
    /// From the host to the NIC.
    pub host_to_nic: LinkPerPacket,
    /// From the NIC to the host.
    pub nic_to_host: LinkPerPacket,
}

/// Both sockets' memory.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Memories {
    /// At the host.
    pub host: MemoryPerPacket,
    /// At the NIC.
    pub nic: MemoryPerPacket,
}

/// The work of a side's cores per packet. Times are those of a core.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct CorePerPacket {
    /// Accesses that the second-level cache answered.
    pub l2_hits: f64,
    /// Requests to read a line.
    pub reads: f64,
    /// Requests to own a line.
    pub owns: f64,
    /// Reads that crossed the link.
    pub remote_reads: f64,
    /// Requests to own that crossed the link.
    pub remote_owns: f64,
    /// Reads by hardware prefetchers.
    pub prefetches: f64,
    /// Snoops answered.
    pub snoops: f64,
    /// Lines lost because the snoop filter had no room for them.
    pub back_invalidations: f64,
    /// In software.
    pub software_ns: f64,
    /// Waiting for control-dependent loads.
    pub load_stall_ns: f64,
    /// Waiting because the reorder buffer or the load queue was full.
    pub window_stall_ns: f64,
    /// Waiting for room in the store buffer.
    pub store_stall_ns: f64,
    /// In empty polls.
    pub idle_ns: f64,
    /// With every fill buffer taken, waiting or not.
    pub buffers_full_ns: f64,
}

/// The cost of a packet in one direction of the link.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct LinkPerPacket {
    /// Lines.
    pub lines: f64,
    /// Bytes of data: 64 a line.
    pub bytes: f64,
    /// Messages without data.
    pub controls: f64,
    /// Share of the direction's capacity that was used by all packets.
    pub used: f64,
}

/// The cost of a packet in a socket's memory.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct MemoryPerPacket {
    /// Lines read.
    pub reads: f64,
    /// Lines written.
    pub writes: f64,
    /// Share of the rate that was used by all packets.
    pub used: f64,
}

/// What bounds a rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// The offered load.
    Offered,
    /// A direction of the link.
    Link,
    /// The engine of a PCIe NIC.
    Engine,
    /// A socket's memory.
    Memory,
    /// Instructions.
    Software,
    /// The number of lines that a core can request at once.
    FillBuffers,
    /// Latency: cores wait for lines, or for the other side.
    Waiting,
}

impl Reason {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Reason::Offered => "offered load",
            Reason::Link => "link",
            Reason::Engine => "NIC's engine",
            Reason::Memory => "memory",
            Reason::Software => "software",
            Reason::FillBuffers => "fill buffers",
            Reason::Waiting => "waiting",
        }
    }
}

/// What bounded a run.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Bound {
    /// What.
    pub by: Reason,
    /// Its share: of the capacity of link or memory, of the rate offered, of the time of the busier side's cores.
    pub share: f64,
    /// The side whose cores, memory or direction it is.
    pub side: &'static str,
}

/// Link and memory bound a run when so much of them is used.
const FULL: f64 = 0.9;
/// The offered load bounds a run when so much of it comes back.
const CARRIED: f64 = 0.98;

/// Sums a run up.
///
/// # Errors
/// When the round trips cannot be added up.
pub fn summarise(platform: &Platform, plan: &Plan, run: &Run) -> Result<Summary, RunError> {
    let Plan { config, load } = plan;
    let totals = Totals::of(load.size, &run.outcomes)?;
    // The counters' window is not quite each program's own.
    let packets = totals.mpps * ns(run.measured) / 1e3;
    let counters = PerPacket { pcie: pcie(platform, run, packets), ..per_packet(run, packets) };
    Ok(Summary {
        design: config.design.name(),
        size: load.size,
        burst: load.burst,
        rx_burst: load.rx_burst,
        inflight: load.inflight,
        queues: config.queues,
        offered_mpps: load.rate.map(|rate| rate * f64::from(config.queues) / 1e6),
        totals,
        platform: platform.name.clone(),
        cores: config.queues,
        counters,
        bound: bound(run, load, totals.mpps / f64::from(config.queues), &counters),
        drift: drift(run.halves, ps(load.seconds * 1e9 / 2.0), run.measured),
    })
}

/// The measured time ends with a burst, so that its second half is a little longer.
fn drift([first, second]: [u64; 2], half: Ps, measured: Ps) -> f64 {
    let rate = |packets: u64, time: Ps| packets as f64 / time.max(1) as f64;
    let (mean, first) = (rate(first + second, measured), rate(first, half));
    if mean == 0.0 { 0.0 } else { (rate(second, measured.saturating_sub(half)) - first) / mean }
}

fn per_packet(run: &Run, packets: f64) -> PerPacket {
    let link = |t: Traffic| LinkPerPacket {
        lines: t.lines as f64 / packets,
        bytes: t.lines as f64 * 64.0 / packets,
        controls: t.controls as f64 / packets,
        used: share(t.link_busy, run.measured),
    };
    let memory = |t: Traffic| MemoryPerPacket {
        reads: t.memory_reads as f64 / packets,
        writes: t.memory_writes as f64 / packets,
        used: share(t.memory_busy, run.measured),
    };
    let of = |socket: usize| run.traffic.get(socket).copied().unwrap_or_default();
    PerPacket {
        host: cores(&run.host, packets),
        nic: cores(&run.nic, packets),
        link: Links { host_to_nic: link(of(0)), nic_to_host: link(of(1)) },
        memory: Memories { host: memory(of(0)), nic: memory(of(1)) },
        pcie: None,
    }
}

fn pcie(platform: &Platform, run: &Run, packets: f64) -> Option<PciePerPacket> {
    let (nic, traffic) = run.pcie.as_ref()?;
    let lane = |lane: &PcieLane| LanePerPacket {
        packets: lane.packets as f64 / packets,
        bytes: lane.bytes as f64 / packets,
        used: share(lane.busy, run.measured),
    };
    let engine = platform.device.as_ref().map_or(0.0, |device| device.packet.get());
    Some(PciePerPacket {
        host_to_nic: lane(&traffic.down),
        nic_to_host: lane(&traffic.up),
        doorbells: nic.doorbells as f64 / packets,
        engine: engine * nic.packets as f64 / ns(run.measured),
    })
}

fn cores(cores: &[Counters], packets: f64) -> CorePerPacket {
    let count = |f: fn(&Counters) -> u64| cores.iter().map(f).sum::<u64>() as f64 / packets;
    let time = |f: fn(&Counters) -> Ps| ns(cores.iter().map(f).sum()) / packets;
    CorePerPacket {
        l2_hits: count(|c| c.l2_hits),
        reads: count(|c| c.reads),
        owns: count(|c| c.owns),
        remote_reads: count(|c| c.remote_reads),
        remote_owns: count(|c| c.remote_owns),
        prefetches: count(|c| c.prefetches),
        snoops: count(|c| c.snoops),
        back_invalidations: count(|c| c.back_invalidations),
        software_ns: time(|c| c.software),
        load_stall_ns: time(|c| c.load_stall),
        window_stall_ns: time(|c| c.window_stall),
        store_stall_ns: time(|c| c.store_stall),
        idle_ns: time(|c| c.idle),
        buffers_full_ns: time(|c| c.buffers_full),
    }
}

fn share(part: Ps, whole: Ps) -> f64 {
    part as f64 / whole.max(1) as f64
}

fn bound(run: &Run, load: &Load, each_mpps: f64, counters: &PerPacket) -> Bound {
    if let Some(rate) = load.rate.map(|rate| rate / 1e6)
        && each_mpps >= rate * CARRIED
    {
        return Bound { by: Reason::Offered, share: each_mpps / rate, side: "host" };
    }
    let PerPacket { link, memory, pcie, .. } = counters;
    let pcie = pcie.unwrap_or_default();
    let shared = [
        Bound { by: Reason::Link, share: pcie.host_to_nic.used, side: "host" },
        Bound { by: Reason::Link, share: pcie.nic_to_host.used, side: "nic" },
        Bound { by: Reason::Engine, share: pcie.engine, side: "nic" },
        Bound { by: Reason::Link, share: link.host_to_nic.used, side: "host" },
        Bound { by: Reason::Link, share: link.nic_to_host.used, side: "nic" },
        Bound { by: Reason::Memory, share: memory.host.used, side: "host" },
        Bound { by: Reason::Memory, share: memory.nic.used, side: "nic" },
    ];
    let largest = |bounds: Vec<Bound>| bounds.into_iter().max_by(|a, b| a.share.total_cmp(&b.share));
    if let Some(full) = largest(shared.into_iter().filter(|b| b.share > FULL).collect()) {
        return full;
    }
    let idle = |cores: &[Counters]| cores.iter().map(|c| c.idle).sum::<Ps>();
    let host = run.nic.is_empty() || idle(&run.host) <= idle(&run.nic);
    let (cores, side) = if host { (&run.host, "host") } else { (&run.nic, "nic") };
    largest(core_time(cores, side, run.measured)).unwrap_or(Bound { by: Reason::Waiting, share: 0.0, side })
}

/// Where the time of a side's cores went.
fn core_time(cores: &[Counters], side: &'static str, measured: Ps) -> Vec<Bound> {
    let all = measured * cores.len() as Ps;
    let sum = |f: fn(&Counters) -> Ps| cores.iter().map(f).sum::<Ps>();
    let stalled = sum(|c| c.load_stall + c.window_stall + c.store_stall);
    // A core that stands still while every fill buffer is taken would go on if there were more of them.
    let full = sum(|c| c.buffers_full).min(stalled);
    vec![
        Bound { by: Reason::Software, share: share(sum(|c| c.software), all), side },
        Bound { by: Reason::FillBuffers, share: share(full, all), side },
        Bound { by: Reason::Waiting, share: share(stalled - full + sum(|c| c.idle), all), side },
    ]
}

#[cfg(test)]
mod tests {
    use super::drift;

    #[test]
    fn a_run_drifts_by_the_difference_of_its_halves_rates() {
        let drift = |halves| drift(halves, 1024, 2048);
        assert_eq!([[0, 0], [128, 128], [96, 160], [160, 96]].map(drift), [0.0, 0.0, 0.5, -0.5]);
        assert_eq!(super::drift([128, 192], 1024, 2560), 0.0, "a second half that is longer");
    }
}
