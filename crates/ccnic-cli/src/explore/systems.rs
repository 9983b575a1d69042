//! Published systems, each on a machine that it can be on: by the size of messages, and by values of the machines.

use anyhow::Context;
use ccnic_sim::parallel;
use ccnic_sim::platform::AnyPlatform;
use ccnic_sim::published::System;
use serde_json::json;

use super::sweep::Sweep;
use super::{Compared, ExploreArgs, Metric, Seen};
use crate::print::Progress;

/// A simulation.
struct Job {
    system: System,
    platform: AnyPlatform,
    size: usize,
}

/// Simulates every system at every point.
///
/// # Errors
/// When a system cannot be on its platform, a value is not possible, or a simulation fails.
pub fn compare(args: &ExploreArgs, sweeps: &[Sweep], points: &[Vec<f64>]) -> anyhow::Result<Compared> {
    anyhow::ensure!(args.metric != Metric::P99, "--metric p99 is of packets; choose mpps or p50 of systems");
    let systems = args.systems.iter().map(|text| named(args, text)).collect::<anyhow::Result<Vec<_>>>()?;
    // What cannot be is reported before anything is simulated.
    let jobs = points
        .iter()
        .flat_map(|values| systems.iter().map(move |system| job(args, sweeps, values, system)))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let entries = jobs.first().map(|job| job.platform.entries()).unwrap_or_default();
    let progress = Progress::of_simulations("explore", jobs.len(), args.json);
    let shown = parallel::map(&jobs, |job| {
        let seen = job.system.run(&job.platform, job.size);
        progress.step();
        seen
    });
    drop(progress);
    let mut seen = Vec::with_capacity(jobs.len());
    for (job, found) in jobs.iter().zip(shown) {
        let (found, platform) = (found?, job.platform.name());
        let (rtt, mpps, name) = (found.round_trip_ns, found.mpps, job.system.name);
        seen.push(Seen {
            value: if args.metric == Metric::Mpps { mpps } else { rtt },
            csv: format!("{name},{platform},{},{rtt},{mpps}", job.size),
            json: json!({ "system": name, "platform": platform, "size": job.size, "round_trip_ns": rtt, "mpps": mpps }),
        });
    }
    let names = systems.iter().map(|(name, ..)| (*name).to_owned()).collect();
    Ok(Compared { names, csv: "system,platform,bytes,round_trip_ns,mpps", entries, seen })
}

/// A system of the command line, with its platform.
type Named<'a> = (&'a str, System, AnyPlatform);

fn named<'a>(args: &ExploreArgs, text: &'a str) -> anyhow::Result<Named<'a>> {
    let (system, platform) = match text.split_once('@') {
        Some((system, platform)) => (system, AnyPlatform::named(platform)?),
        None => (text, args.machine.any_platform()?),
    };
    Ok((text, System::named(system).with_context(|| format!("--systems {text}"))?, platform))
}

/// A system at a point.
fn job(
    args: &ExploreArgs,
    sweeps: &[Sweep],
    values: &[f64],
    (_, system, platform): &Named<'_>,
) -> anyhow::Result<Job> {
    let (mut platform, mut size) = (platform.clone(), usize::from(args.traffic.size));
    for (Sweep { key, .. }, value) in sweeps.iter().zip(values) {
        match key.as_str() {
            "size" => size = super::designs::whole(key, *value)?.into(),
            "cores" | "burst" | "rx-burst" | "inflight" => {
                anyhow::bail!(
                    "--sweep {key}: systems are compared with one program each; vary size or a platform's value"
                )
            }
            key => {
                let fault = || format!("--sweep {key}: {}", platform.name());
                platform = platform.overridden(key, *value).with_context(fault)?;
            }
        }
    }
    system.check(&platform, size)?;
    Ok(Job { system: *system, platform, size })
}
