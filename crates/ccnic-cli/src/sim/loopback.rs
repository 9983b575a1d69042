//! `ccnic sim loopback`: packets from simulated programs through the NIC and back.

use std::fs::File;
use std::io::BufWriter;
use std::path::PathBuf;

use anyhow::Context;
use ccnic::Config;
use ccnic_load::Load;
use ccnic_sim::loopback::{Options, Plan, RunError, run_with};
use ccnic_sim::parallel;
use ccnic_sim::platform::Platform;
use ccnic_sim::summary::{Summary, summarise};
use ccnic_sim::trace::Trace;
use clap::Args;
use comfy_table::Table;
use indicatif::ProgressBar;

use super::{MachineArgs, bar};
use crate::bench::{long_table, print};
use crate::loopback::{InterfaceArgs, STEPS, TrafficArgs};

/// Options of `sim loopback`.
#[derive(Debug, Args)]
pub struct LoopbackArgs {
    #[command(flatten)]
    machine: MachineArgs,
    #[command(flatten)]
    traffic: SimTraffic,
    #[command(flatten)]
    interface: InterfaceArgs,
    /// Raise the offered load from one packet in flight to saturation
    #[arg(long, conflicts_with = "rate")]
    sweep: bool,
    /// Write a timeline of the measured time, for ui.perfetto.dev or chrome://tracing
    #[arg(long, value_name = "FILE", conflicts_with = "sweep")]
    trace: Option<PathBuf>,
    /// Cut the run after so many of the simulator's events, for its trace
    #[arg(long, conflicts_with = "sweep")]
    events: Option<u64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The traffic. Times are simulated.
#[derive(Debug, Clone, Args)]
pub struct SimTraffic {
    /// Cores on each side, a queue pair each
    #[arg(long, default_value_t = 1)]
    pub cores: u16,
    /// Bytes of each packet, 16 to 9600
    #[arg(long, default_value_t = 64)]
    pub size: u16,
    /// Packets per transmit burst, 1 to 64
    #[arg(long, default_value_t = 32)]
    pub burst: usize,
    /// Buffers per receive burst, 1 to 64
    #[arg(long, default_value_t = 32)]
    pub rx_burst: usize,
    /// Packets under way at once, per core
    #[arg(long, default_value_t = 256)]
    pub inflight: usize,
    /// Packets per second offered, in millions, by all cores [default: as many as go through]
    #[arg(long, value_name = "MPPS")]
    pub rate: Option<f64>,
    /// Send whole bursts when they are due, instead of each packet [default: each packet]
    #[arg(long)]
    pub whole_bursts: bool,
    /// Microseconds to simulate
    #[arg(long, default_value_t = 200.0, value_name = "US")]
    pub micros: f64,
    /// Microseconds to simulate before, unmeasured [default: half of --micros]
    #[arg(long, value_name = "US")]
    pub warmup: Option<f64>,
    /// Packets to measure, of all cores, if that is sooner than --micros
    #[arg(long)]
    pub packets: Option<u64>,
}

/// A region's large buffers when nobody says how many: a ring of blanks, a window and two stacks.
const BUFFERS: u32 = 2048;

impl SimTraffic {
    /// What is simulated, checked.
    pub fn plan(&self, interface: &InterfaceArgs) -> anyhow::Result<Plan> {
        anyhow::ensure!(self.cores > 0, "--cores is 0; choose at least 1");
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
            .check(&config)?;
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
}

/// Simulates and prints.
pub fn run(args: &LoopbackArgs) -> anyhow::Result<()> {
    let platform = args.machine.platform()?;
    let plan = args.traffic.plan(&args.interface)?;
    if args.sweep {
        let bar = bar(STEPS.len() + 2, "sweep");
        let points = sweep(&platform, &plan, &bar)?;
        bar.finish_and_clear();
        return print(args.json, &points, || summaries_table(&points));
    }
    let bar = bar(1, "loopback");
    let options = Options { trace: args.timeline(&plan)?, events: args.events, ..Options::default() };
    let summary = point_with(&platform, &plan, options, &bar)?;
    bar.finish_and_clear();
    print(args.json, &summary, || summaries_table(std::slice::from_ref(&summary)))
}

/// Open-loop load from one packet in flight to saturation (the method of CC-NIC figures 11 to 13).
fn sweep(platform: &Platform, plan: &Plan, bar: &ProgressBar) -> anyhow::Result<Vec<Summary>> {
    let single = Load { inflight: 1, burst: 1, rate: None, ..plan.load };
    let with = |load| Plan { load, ..*plan };
    let mut ends = parallel::map(&[plan.load, single], |&load| point(platform, &with(load), bar)).into_iter();
    let peak = ends.next().context("no peak")??;
    let single = ends.next().context("no single packet")??;
    let each = peak.totals.mpps * 1e6 / f64::from(plan.config.queues);
    let steps = parallel::map(&STEPS, |share| {
        point(platform, &with(Load { rate: Some(each * share), ..plan.load }), bar)
    });
    let steps = steps.into_iter().collect::<Result<Vec<_>, _>>()?;
    Ok([vec![single], steps, vec![peak]].concat())
}

impl LoopbackArgs {
    /// The trace to write. It begins with the measured time.
    fn timeline(&self, plan: &Plan) -> anyhow::Result<Option<Trace>> {
        let Some(path) = &self.trace else { return Ok(None) };
        let name = path.display();
        let file = File::create(path).with_context(|| format!("--trace {name}: could not create it"))?;
        let start = (plan.load.warmup * 1e12) as u64;
        Ok(Some(Trace::new(BufWriter::new(file), start..u64::MAX)))
    }
}

/// Simulates one load.
pub fn point(platform: &Platform, plan: &Plan, bar: &ProgressBar) -> anyhow::Result<Summary> {
    point_with(platform, plan, Options::default(), bar)
}

fn point_with(
    platform: &Platform,
    plan: &Plan,
    options: Options,
    bar: &ProgressBar,
) -> anyhow::Result<Summary> {
    let run = run_with(platform, plan, options);
    let summary = run.and_then(|run| summarise(platform, plan, &run)).map_err(|error| match error {
        RunError::Cores { asked, host, nic } => {
            let most = host.min(nic);
            anyhow::anyhow!("--cores is {asked}, {} has {host} and {nic}; choose 1 to {most}", platform.name)
        }
        error => error.into(),
    })?;
    bar.set_message(format!("{:.2} Mpps, p50 {} ns", summary.totals.mpps, summary.totals.rtt_ns.p50));
    bar.inc(1);
    Ok(summary)
}

/// Rates and round trips, what crosses the link for each packet (the NIC's requests, as CC-NIC figure 17 counts them; data from
/// host and NIC), and what bounded the run.
fn summaries_table(summaries: &[Summary]) -> Table {
    let header = [
        "design",
        "cores",
        "bytes",
        "Mpps",
        "Gb/s",
        "p50 ns",
        "p99 ns",
        "NIC reads",
        "owns",
        "bytes to NIC",
        "to host",
        "bound by",
        "lost",
        "corrupt",
    ];
    let mut table = long_table(&header);
    for s in summaries {
        let link = &s.counters.link;
        table.add_row(vec![
            s.design.to_owned(),
            s.cores.to_string(),
            s.size.to_string(),
            format!("{:.2}", s.totals.mpps),
            format!("{:.2}", s.totals.gbps),
            s.totals.rtt_ns.p50.to_string(),
            s.totals.rtt_ns.p99.to_string(),
            format!("{:.2}", s.counters.nic.remote_reads),
            format!("{:.2}", s.counters.nic.remote_owns),
            format!("{:.0}", link.host_to_nic.bytes),
            format!("{:.0}", link.nic_to_host.bytes),
            format!("{} {:.0} % ({})", s.bound.by.name(), s.bound.share * 100.0, s.bound.side),
            s.totals.lost.to_string(),
            s.totals.corrupt.to_string(),
        ]);
    }
    table
}
