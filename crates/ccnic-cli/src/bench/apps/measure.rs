//! Which rows are measured, one after another in each round, and which are left out and why.

use ccnic_load::Clock;
use serde::Serialize;

use super::programs::{self, Load, Measured, Programs};
use super::rows::{Protocol, Server, pairs};
use super::{AppsArgs, Round, Row, published_peak};
use crate::clock::MachineClock;
use crate::print::{self, Progress};

/// As many as tell how fast the time-stamp counter goes.
const TICKS: u64 = 1 << 40;

/// A row that was left out.
#[derive(Debug, Clone, Serialize)]
pub(super) struct LeftOut {
    workload: String,
    server: &'static str,
    protocol: Protocol,
    /// Why.
    skipped: String,
}

/// What was measured.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) rows: Vec<Row>,
    pub(super) missing: Vec<LeftOut>,
    /// What is to be known of the rows, and of those that are missing.
    pub(super) notes: Vec<String>,
    /// No row failed, and none is missing whose server was named.
    pub(super) good: bool,
}

/// The rounds of a row, or why it is left out.
type Rounds = Result<Vec<Round>, String>;

/// Measures all rows. Says at once which are left out.
pub(super) fn all(programs: &Programs, args: &AppsArgs) -> Outcome {
    let pairs = pairs(&args.servers);
    let lacks = |server: Server| programs.lacks(server);
    let mut notes: Vec<String> =
        pairs.iter().filter_map(|(server, _)| Some(left_out(server.name(), &lacks(*server)?))).collect();
    notes.dedup();
    notes.iter().for_each(|why| print::warn(why));
    // Nobody has asked for what is only one of all.
    let good = notes.is_empty() || args.servers.is_empty();
    let there: Vec<Server> =
        pairs.iter().map(|(server, _)| *server).filter(|server| lacks(*server).is_none()).collect();
    if programs.small_pages() && there.iter().any(|server| matches!(server, Server::Dpdk(_))) {
        notes.push("Programs of DPDK use pages of 4 KiB: too few of 2 MiB are free.".to_owned());
    }
    let steps = args.rounds * args.workloads.len() * there.len();
    let progress = Progress::of_measurements("apps", steps, args.json);
    let mut outcome = Outcome { notes, good, ..Outcome::default() };
    for workload in &args.workloads {
        let mut rounds: Vec<Rounds> =
            pairs.iter().map(|(server, _)| lacks(*server).map_or(Ok(Vec::new()), Err)).collect();
        for number in 1..=args.rounds {
            for ((server, protocol), rounds) in pairs.iter().zip(&mut rounds) {
                let Ok(done) = rounds else { continue };
                let row = format!("{workload}, {}, {}", server.name(), protocol.name());
                progress.say(format!("round {number}: {row}"));
                match round(programs, args, workload, *server, *protocol) {
                    Ok(round) => done.push(round),
                    Err(error) => *rounds = Err(outcome.failed(&row, &print::message(&error))),
                }
                progress.step();
            }
        }
        let ghz = TICKS as f64 / MachineClock::new(true).nanoseconds(TICKS).max(1) as f64;
        let peak = args.nic_peak.or(published_peak(workload));
        for (pair, rounds) in pairs.iter().zip(rounds) {
            match rounds {
                Ok(rounds) => outcome.rows.push(Row::of(workload, *pair, ghz, peak, rounds)),
                Err(skipped) => outcome.missing.push(LeftOut {
                    workload: workload.clone(),
                    server: pair.0.name(),
                    protocol: pair.1,
                    skipped,
                }),
            }
        }
    }
    outcome
}

impl Outcome {
    /// A row failed: says so at once; returns why it is left out.
    fn failed(&mut self, row: &str, why: &str) -> String {
        print::warn(&format!("{row} failed: {why}"));
        self.notes.push(left_out(row, "it failed, see above"));
        self.good = false;
        format!("failed: {why}")
    }
}

/// Why a server or a row is missing.
pub(super) fn left_out(name: &str, why: &str) -> String {
    format!("{name}: SKIPPED, {why}.")
}

/// The three loads of a row.
fn round(
    programs: &Programs,
    args: &AppsArgs,
    workload: &str,
    server: Server,
    protocol: Protocol,
) -> anyhow::Result<Round> {
    let load = Load {
        workload,
        objects: args.objects,
        inflight: args.inflight,
        rate: None,
        gets_only: false,
        frame: server.frame(args.frame),
        largest: server.largest(server.frame(args.frame)),
        seconds: args.seconds,
    };
    let peak = programs.measure(server, protocol, &load)?;
    let half_load = Load { rate: Some((peak.requests_per_s / 2.0).max(1.0)), ..load.clone() };
    let half = programs.measure(server, protocol, &half_load)?;
    let lone = programs.measure(server, protocol, &Load { inflight: 1, gets_only: true, ..load })?;
    let (server_ns, interface_ns) = server_time(server, &peak);
    let at = |measured: &Measured, get: fn(&programs::Latency) -> f64| {
        measured.latency_ns.as_ref().map_or(0.0, get)
    };
    let all = [&peak, &half, &lone];
    Ok(Round {
        peak: peak.requests_per_s,
        server_ns,
        interface_ns,
        half_p50_ns: at(&half, |latency| latency.p50),
        half_p99_ns: at(&half, |latency| latency.p99),
        lone: lone.requests_per_s,
        lone_server_ns: server_time(server, &lone).0,
        lone_p50_ns: at(&lone, |latency| latency.p50),
        lost: all.iter().map(|measured| measured.lost).sum(),
        refused: all.iter().map(|measured| measured.refused).sum(),
        unsent: half.unsent,
    })
}

/// Nanoseconds of the server for a request: in all, and in the interface where that is known.
fn server_time(server: Server, measured: &Measured) -> (f64, Option<f64>) {
    if !server.tells_time() {
        return (measured.stat("cpu_ns") / measured.answered.max(1) as f64, None);
    }
    let (requests, sampled) = (measured.stat("nic_requests").max(1.0), measured.stat("nic_sampled").max(1.0));
    let busy = measured.stat("nic_busy_ns") / requests;
    (busy, Some(busy - measured.stat("nic_sampled_store_ns") / sampled))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(stats: &[(&str, f64)]) -> Measured {
        Measured {
            requests_per_s: 1e6,
            answered: 1000,
            latency_ns: None,
            lost: 0,
            unsent: 0,
            refused: 0,
            server_stats: Some(stats.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()),
        }
    }

    #[test]
    fn the_store_s_time_is_not_the_interface_s() {
        let ccnic = Server::Ccnic(ccnic::Design::default());
        let stats = [
            ("nic_requests", 200.0),
            ("nic_busy_ns", 1e5),
            ("nic_sampled", 10.0),
            ("nic_sampled_store_ns", 3e3),
        ];
        assert_eq!(server_time(ccnic, &measured(&stats)), (500.0, Some(200.0)));
        assert_eq!(server_time(Server::Memcached, &measured(&[("cpu_ns", 7e6)])), (7000.0, None));
    }
}
