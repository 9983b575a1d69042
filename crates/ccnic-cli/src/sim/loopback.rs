//! `ccnic sim loopback`: packets from simulated programs through the NIC and back.

use std::io::BufWriter;
use std::path::PathBuf;

use anyhow::Context;
use ccnic::Config;
use ccnic_load::Load;
use ccnic_sim::loopback::{Options, Plan, RunError, run_with};
use ccnic_sim::parallel;
use ccnic_sim::platform::Platform;
use ccnic_sim::summary::{Bound, Reason, Summary, summarise};
use ccnic_sim::trace::Trace;
use clap::Args;

use super::machine::MachineArgs;
use crate::options::{InterfaceArgs, SHARES, TrafficArgs};
use crate::print::{self, Column, Progress, Table, units};

/// Options of `sim loopback`.
#[derive(Debug, Args)]
pub struct LoopbackArgs {
    #[command(flatten)]
    machine: MachineArgs,
    #[command(flatten)]
    traffic: SimTraffic,
    #[command(flatten)]
    interface: InterfaceArgs,
    /// Simulate a throughput-latency curve: one packet in flight, then 10 to 90 % of the peak, then the peak
    #[arg(long, conflicts_with = "rate")]
    sweep: bool,
    /// Write a timeline of the measured time, for ui.perfetto.dev or chrome://tracing
    #[arg(long, value_name = "FILE", conflicts_with = "sweep")]
    trace: Option<PathBuf>,
    /// Abort after this many simulator events, e.g. to keep a --trace short
    #[arg(long, conflicts_with = "sweep")]
    events: Option<u64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The traffic. Times are simulated.
#[derive(Debug, Clone, Args)]
pub struct SimTraffic {
    /// Cores on each side, one queue pair per core
    #[arg(long, default_value_t = 1)]
    pub cores: u16,
    /// Bytes of each packet, 16 to 9600
    #[arg(long, default_value_t = 64, value_name = "BYTES")]
    pub size: u16,
    /// Packets in a transmit burst, 1 to 64
    #[arg(long, default_value_t = 32, value_name = "PACKETS")]
    pub burst: usize,
    /// Buffers in a receive burst, 1 to 64
    #[arg(long, default_value_t = 32, value_name = "BUFFERS")]
    pub rx_burst: usize,
    /// Packets in flight per core, at most
    #[arg(long, default_value_t = 256, value_name = "PACKETS")]
    pub inflight: usize,
    /// Packets per second to offer, in millions, over all cores [default: as many as possible]
    #[arg(long, value_name = "MPPS")]
    pub rate: Option<f64>,
    /// With --rate or --sweep, send full bursts when all their packets are due instead of each packet when it
    /// is due
    #[arg(long)]
    pub whole_bursts: bool,
    /// Microseconds of simulated time to measure
    #[arg(long, default_value_t = 200.0, value_name = "US")]
    pub micros: f64,
    /// Microseconds to simulate before measuring [default: half of --micros]
    #[arg(long, value_name = "US")]
    pub warmup: Option<f64>,
    /// End the measurement after this many packets of all cores, if that is before --micros
    #[arg(long)]
    pub packets: Option<u64>,
}

/// Buffers of 4 KiB in a region by default: for a ring of posted receive buffers, the packets in flight and
/// two magazines.
const BUFFERS: u32 = 2048;

impl SimTraffic {
    /// The plan for `platform`, checked.
    ///
    /// # Errors
    /// The first option that is out of range, with what it may be.
    pub fn plan(&self, platform: &Platform, interface: &InterfaceArgs) -> anyhow::Result<Plan> {
        self.check_cores(platform)?;
        let time = |name, micros: f64, least: f64| {
            let holds = (least..=1e6).contains(&micros);
            anyhow::ensure!(holds, "{name} is {micros}; choose {least} to 1000000");
            Ok(micros / 1e6)
        };
        let seconds = time("--micros", self.micros, 1.0)?;
        let warmup = time("--warmup", self.warmup.unwrap_or(self.micros / 2.0), 0.0)?;
        let buffers = interface.buffers.unwrap_or(BUFFERS);
        let config = Config { buffers, ..interface.config(self.cores) };
        let Self { size, burst, rx_burst, inflight, rate, whole_bursts, cores, .. } = *self;
        TrafficArgs { size, burst, rx_burst, inflight, queues: cores, seconds, rate, whole_bursts }
            .check(&config, "--cores")?;
        let rate = rate.map(|mpps| mpps * 1e6 / f64::from(cores));
        let packets = self.packets.map(|n| n.div_ceil(u64::from(cores)));
        Ok(Plan {
            config,
            load: Load {
                size,
                burst,
                rx_burst,
                inflight,
                rate,
                whole_bursts,
                phase: 0.0,
                seconds,
                warmup,
                packets,
            },
        })
    }

    fn check_cores(&self, platform: &Platform) -> anyhow::Result<()> {
        let topology = &platform.topology;
        let host = topology.host_cores.get();
        // A device serves as many queues as the host has cores.
        let nic = if platform.device.is_some() { host } else { topology.nic_cores.get() };
        let most = host.min(nic);
        let Self { cores, .. } = self;
        anyhow::ensure!(
            (1..=most).contains(&u32::from(*cores)),
            "--cores is {cores}, {} has {host} and {nic}; choose 1 to {most}",
            platform.name
        );
        Ok(())
    }
}

/// Simulates and prints.
pub fn run(args: &LoopbackArgs) -> anyhow::Result<()> {
    let platform = args.machine.platform()?;
    let plan = args.traffic.plan(&platform, &args.interface)?;
    if args.sweep {
        let progress = Progress::of_simulations("sweep", SHARES.len() + 2, args.json);
        let points = sweep(&platform, &plan, &progress)?;
        drop(progress);
        return print::result(args.json, &points, || text(&plan, &points));
    }
    let progress = Progress::of_simulations("loopback", 1, args.json);
    let options = Options { trace: args.timeline(&plan)?, events: args.events, ..Options::default() };
    let summary = point_with(&platform, &plan, options, &progress)?;
    drop(progress);
    print::result(args.json, &summary, || text(&plan, std::slice::from_ref(&summary)))
}

/// Open-loop load from one packet in flight to saturation (the method of CC-NIC figures 11 to 13).
fn sweep(platform: &Platform, plan: &Plan, progress: &Progress) -> anyhow::Result<Vec<Summary>> {
    let single = Load { inflight: 1, burst: 1, rate: None, ..plan.load };
    let with = |load| Plan { load, ..*plan };
    let mut ends =
        parallel::map(&[plan.load, single], |&load| point(platform, &with(load), progress)).into_iter();
    let peak = ends.next().context("no peak")??;
    let single = ends.next().context("no single packet")??;
    let each = peak.totals.mpps * 1e6 / f64::from(plan.config.queues);
    let steps = parallel::map(&SHARES, |share| {
        point(platform, &with(Load { rate: Some(each * share), ..plan.load }), progress)
    });
    let steps = steps.into_iter().collect::<Result<Vec<_>, _>>()?;
    Ok([vec![single], steps, vec![peak]].concat())
}

impl LoopbackArgs {
    /// The trace to write. It begins with the measured time.
    fn timeline(&self, plan: &Plan) -> anyhow::Result<Option<Trace>> {
        let Some(path) = &self.trace else { return Ok(None) };
        let name = path.display();
        let file = ccnic_control::files::create(path)
            .with_context(|| format!("--trace {name}: could not create it"))?;
        let start = (plan.load.warmup * 1e12) as u64;
        Ok(Some(Trace::new(BufWriter::new(file), start..u64::MAX)))
    }
}

/// Simulates one load.
pub fn point(platform: &Platform, plan: &Plan, progress: &Progress) -> anyhow::Result<Summary> {
    point_with(platform, plan, Options::default(), progress)
}

fn point_with(
    platform: &Platform,
    plan: &Plan,
    options: Options,
    progress: &Progress,
) -> anyhow::Result<Summary> {
    let run = run_with(platform, plan, options);
    let summary = run.and_then(|run| summarise(platform, plan, &run)).map_err(by_option)?;
    let totals = &summary.totals;
    progress.say(format!("{} Mpps, p50 {} ns", units::rate(totals.mpps), totals.rtt_ns.p50));
    progress.step();
    Ok(summary)
}

/// An error of a simulation with the option that sets the invalid value.
fn by_option(error: RunError) -> anyhow::Error {
    match error {
        RunError::Cores { asked, host, nic } => {
            let most = host.min(nic);
            anyhow::anyhow!("--cores is {asked}, the platform has {host} and {nic}; choose 1 to {most}")
        }
        error => error.into(),
    }
}

/// Two tables: rates and round trips, and what a packet costs on the link.
fn text(plan: &Plan, summaries: &[Summary]) -> String {
    let Some(first) = summaries.first() else { return String::new() };
    let title = format!(
        "{} on {}, simulated: {} on each side, {}-byte packets, bursts of {}",
        first.design,
        first.platform,
        units::count(first.cores.into(), "core"),
        first.size,
        plan.load.burst
    );
    [rates_table(title, plan, summaries).text(), costs_table(summaries).text()].join("\n\n\n")
}

/// The load that was offered: one packet, a rate, or as many as possible.
fn load(plan: &Plan, s: &Summary) -> String {
    match s.offered_mpps {
        Some(rate) => format!("{} Mpps", units::rate(rate)),
        None if s.inflight == 1 && plan.load.inflight > 1 => "1 packet".to_owned(),
        None => "maximum".to_owned(),
    }
}

fn rates_table(title: String, plan: &Plan, summaries: &[Summary]) -> Table {
    let columns = [
        Column::text("load"),
        Column::number("Mpps"),
        Column::number("Gb/s"),
        Column::number("p50\nns"),
        Column::number("p99\nns"),
        Column::text("limited by"),
        Column::number("utilised"),
        Column::number("lost"),
        Column::number("damaged"),
    ];
    let mut table = Table::new(title, columns);
    for s in summaries {
        table.row([
            load(plan, s),
            units::rate(s.totals.mpps),
            units::rate(s.totals.gbps),
            units::ns(s.totals.rtt_ns.p50 as f64),
            units::ns(s.totals.rtt_ns.p99 as f64),
            bound(&s.bound),
            units::percent(Some(s.bound.share)),
            s.totals.lost.to_string(),
            s.totals.corrupt.to_string(),
        ]);
    }
    table.note(format!(
        "load: what is offered, at most {} in flight per core. p50, p99: median and 99th percentile of the round trip.",
        units::count(plan.load.inflight, "packet")
    ));
    table.note(
        "limited by: the resource that bounds the rate, on the busier side. load: no more was offered; link, memory, \
         engine: that much of their capacity is used; software, buffers (line fill buffers), latency (waiting for cache lines or for the \
         other side): that share of the cores' time.",
    );
    table
}

/// What limited a run, short enough for a column.
fn bound(bound: &Bound) -> String {
    let side = if bound.side == "nic" { "NIC" } else { bound.side };
    let what = match bound.by {
        Reason::Offered => return "load".to_owned(),
        Reason::Link => "link",
        Reason::Engine => "engine",
        Reason::Memory => "memory",
        Reason::Software => "software",
        Reason::FillBuffers => "buffers",
        Reason::Waiting => "latency",
    };
    format!("{side} {what}")
}

/// The traffic over the link per packet: requests as CC-NIC figure 17 counts them, and data.
fn costs_table(summaries: &[Summary]) -> Table {
    let columns = [
        Column::number("Mpps"),
        Column::number("NIC\nreads"),
        Column::number("NIC\nRFOs"),
        Column::number("host\nreads"),
        Column::number("host\nRFOs"),
        Column::number("bytes\nto NIC"),
        Column::number("bytes\nto host"),
    ];
    let mut table = Table::new("Crossing the link for each packet", columns);
    for s in summaries {
        let (nic, host, link) = (&s.counters.nic, &s.counters.host, &s.counters.link);
        table.row([
            units::rate(s.totals.mpps),
            units::rate(nic.remote_reads),
            units::rate(nic.remote_owns),
            units::rate(host.remote_reads),
            units::rate(host.remote_owns),
            format!("{:.0}", link.host_to_nic.bytes),
            format!("{:.0}", link.nic_to_host.bytes),
        ]);
    }
    table.note(
        "reads, RFOs: requests of a side's cores to read a cache line of the other side, and to own it (request for ownership). bytes: \
         data of cache lines, in each direction.",
    );
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::print::longest_line;
    use ccnic::Design;

    fn traffic(cores: u16) -> SimTraffic {
        SimTraffic {
            cores,
            size: 64,
            burst: 32,
            rx_burst: 32,
            inflight: 256,
            rate: None,
            whole_bursts: false,
            micros: 5.0,
            warmup: Some(1.0),
            packets: None,
        }
    }

    #[test]
    fn too_many_cores_are_refused_as_cores() {
        let platform = Platform::named("icx").unwrap();
        let interface = InterfaceArgs::of(Design::GroupedEpoch);
        let refused = |cores| traffic(cores).plan(&platform, &interface).unwrap_err().to_string();
        assert_eq!(refused(0), "--cores is 0, icx has 16 and 16; choose 1 to 16");
        assert_eq!(refused(1000), "--cores is 1000, icx has 16 and 16; choose 1 to 16");
    }

    #[test]
    fn tables_fit_80_columns() {
        let platform = Platform::named("icx").unwrap();
        let plan = traffic(16).plan(&platform, &InterfaceArgs::of(Design::GroupedClear)).unwrap();
        let progress = Progress::of_simulations("test", 1, true);
        let summary = point(&platform, &plan, &progress).unwrap();
        assert_eq!(progress.done(), (1, 1));
        let mut crowded = summary.clone();
        crowded.offered_mpps = Some(1234.5);
        crowded.bound = Bound { by: Reason::Software, share: 1.0, side: "host" };
        crowded.totals.rtt_ns.p99 = 1_234_567;
        crowded.totals.lost = 123_456;
        for table in
            [rates_table("t".repeat(80), &plan, &[summary.clone(), crowded]), costs_table(&[summary])]
        {
            let text = table.in_width(80);
            assert!(longest_line(&text) <= 80, "{text}");
        }
    }
}
