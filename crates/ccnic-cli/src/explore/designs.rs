//! Designs on one machine, with any load.

use anyhow::Context;
use ccnic::Design;
use ccnic_sim::loopback::Plan;
use ccnic_sim::parallel;
use ccnic_sim::platform::Platform;
use ccnic_sim::summary::Summary;

use super::sweep::Sweep;
use super::{Compared, ExploreArgs, Metric, Seen};
use crate::options::InterfaceArgs;
use crate::print::Progress;
use crate::sim::loopback::point;

/// Simulates every design at every point.
///
/// # Errors
/// When a value is not possible, or a simulation fails.
pub fn compare(args: &ExploreArgs, sweeps: &[Sweep], points: &[Vec<f64>]) -> anyhow::Result<Compared> {
    let jobs = points.iter().flat_map(|values| args.designs.iter().map(move |design| (values, *design)));
    // Invalid values are reported before anything is simulated.
    let prepared =
        jobs.map(|(values, design)| prepare(args, sweeps, values, design)).collect::<Result<Vec<_>, _>>()?;
    let entries = prepared.first().map(|(platform, _)| platform.entries()).unwrap_or_default();
    let progress = Progress::of_simulations("explore", prepared.len(), args.json);
    let shown = parallel::map(&prepared, |(platform, plan)| point(platform, plan, &progress));
    drop(progress);
    let seen =
        shown.into_iter().map(|summary| seen(args.metric, &summary?)).collect::<anyhow::Result<_>>()?;
    Ok(Compared {
        names: args.designs.iter().map(|design| design.to_string()).collect(),
        csv: "design,mpps,gbps,p50_ns,p99_ns,lost,corrupt,bound",
        entries,
        seen,
    })
}

fn seen(metric: Metric, summary: &Summary) -> anyhow::Result<Seen> {
    let totals = &summary.totals;
    let (p50, p99) = (totals.rtt_ns.p50, totals.rtt_ns.p99);
    let value = match metric {
        Metric::Mpps => totals.mpps,
        Metric::P50 => p50 as f64,
        Metric::P99 => p99 as f64,
    };
    let csv = format!(
        "{},{},{},{p50},{p99},{},{},{}",
        summary.design,
        totals.mpps,
        totals.gbps,
        totals.lost,
        totals.corrupt,
        summary.bound.by.name()
    );
    Ok(Seen { value, csv, json: serde_json::to_value(summary)? })
}

/// The whole number next to a value of a sweep.
pub(super) fn whole(key: &str, value: f64) -> anyhow::Result<u16> {
    let (whole, most) = (value.round(), f64::from(u16::MAX));
    anyhow::ensure!((0.0..=most).contains(&whole), "--sweep {key}: {value} is not in 0..={most}");
    Ok(whole as u16)
}

/// A machine and a load with some of their values changed.
fn prepare(
    args: &ExploreArgs,
    sweeps: &[Sweep],
    values: &[f64],
    design: Design,
) -> anyhow::Result<(Platform, Plan)> {
    let (mut platform, mut traffic) = (args.machine.platform()?, args.traffic.clone());
    for (Sweep { key, .. }, value) in sweeps.iter().zip(values) {
        let whole = || whole(key, *value);
        match key.as_str() {
            "cores" => traffic.cores = whole()?,
            "size" => traffic.size = whole()?,
            "burst" => traffic.burst = whole()?.into(),
            "rx-burst" => traffic.rx_burst = whole()?.into(),
            "inflight" => traffic.inflight = whole()?.into(),
            key => {
                let fault = || format!("--sweep {key}");
                platform = platform.overridden(key, *value).with_context(fault)?;
            }
        }
    }
    let interface = InterfaceArgs { demote: args.demote, ..InterfaceArgs::of(design) };
    let plan = traffic.plan(&platform, &interface)?;
    Ok((platform, plan))
}
