//! Rounds: every load of every workload is measured for a short time in each of many rounds, one after the
//! other, and what counts are medians over the rounds.
//!
//! A virtual machine's CPUs may be moved, nearer to each other or farther apart, within seconds: single runs
//! then differ by a factor of four. Loads that are measured within one round have met the same machine. Each
//! round begins with the ping-pong round trip between the two CPUs, which tells how far apart they are.

use ccnic::Config;
use ccnic_load::{Rtt, Totals};
use serde::Serialize;

use super::{Bench, Run};
use crate::micro::limit::{Limit, Rates};
use crate::micro::pingpong::{self, Words};
use crate::options::TrafficArgs;
use crate::print::{Progress, units};
use crate::stats::{Spread, median};

/// Default number of rounds.
pub const ROUNDS: usize = 9;
/// Seconds of the ping-pong before each round.
const PINGPONG_SECONDS: f64 = 0.01;
/// Seconds of each of the two measurements of the limit in a round.
const LIMIT_SECONDS: f64 = 0.03;

/// The least rate that is offered as a share of a peak, in million packets per second.
const LEAST_MPPS: f64 = 0.001;

/// A load that is offered.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Offered {
    /// One packet in flight.
    One,
    /// A share of the rate of `Maximum` in the same round: 0.1 is 10 %.
    Share(f64),
    /// Million packets per second over all queues.
    Rate(f64),
    /// As many packets as possible.
    Maximum,
}

/// One design at one packet size, and the loads that it is measured at.
#[derive(Debug, Clone)]
pub struct Workload {
    /// The interface.
    pub config: Config,
    /// The traffic at the highest load.
    pub traffic: TrafficArgs,
    /// The loads, from the lowest to the highest.
    pub loads: Vec<Offered>,
}

impl Workload {
    /// One load, which `traffic` determines.
    pub fn point(config: Config, traffic: TrafficArgs) -> Workload {
        Workload { config, loads: vec![traffic.rate.map_or(Offered::Maximum, Offered::Rate)], traffic }
    }

    /// From one packet in flight over shares of the peak to saturation (the method of CC-NIC figures 11 to
    /// 13).
    pub fn sweep(config: Config, traffic: TrafficArgs, shares: &[f64]) -> Workload {
        let between = shares.iter().map(|share| Offered::Share(*share));
        let loads = [Offered::One].into_iter().chain(between).chain([Offered::Maximum]).collect();
        Workload { config, traffic, loads }
    }
}

/// What was measured of the machine in one round.
#[derive(Debug, Clone, Copy)]
struct RoundStart {
    pingpong_ns: f64,
    rates: Option<Rates>,
}

/// One load in one round, as `--json` prints it.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Round {
    /// The ping-pong round trip between the two CPUs before the round.
    pub pingpong_ns: f64,
    /// Million packets per second that the machine's limit allows, measured in this round.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_mpps: Option<f64>,
    /// Million packets per second offered; none for as many as possible.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offered_mpps: Option<f64>,
    /// The least share of the time that a thread of the generator had its CPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_share: Option<f64>,
    /// The packets that came back.
    #[serde(flatten)]
    pub totals: Totals,
}

/// The spread of the rounds.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct OutcomeSpread {
    /// Million packets per second.
    pub mpps: Spread,
    /// Gigabits of packet data per second, in each direction.
    pub gbps: Spread,
    /// Median round trips.
    pub p50_ns: Spread,
    /// 99th percentiles of the round trips.
    pub p99_ns: Spread,
    /// Ping-pong round trips between the CPUs.
    pub pingpong_ns: Spread,
}

/// The results of a load over all rounds, as `--json` prints them. Rates and quantiles are medians of those of
/// the rounds.
#[derive(Debug, Clone, Serialize)]
pub struct Outcomes {
    /// The ring design.
    pub design: &'static str,
    /// Bytes of each packet.
    pub size: u16,
    /// Packets in a transmit burst.
    pub burst: usize,
    /// Packets in flight, at most, per queue pair.
    pub inflight: usize,
    /// Queue pairs.
    pub queues: u16,
    /// Million packets per second offered; none for as many as possible.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offered_mpps: Option<f64>,
    /// Packets that came back within the measured time of all rounds.
    pub packets: u64,
    /// Million packets per second.
    pub mpps: f64,
    /// Gigabits of packet data per second, in each direction.
    pub gbps: f64,
    /// Packets of all rounds that never came back.
    pub lost: u64,
    /// Packets of all rounds that came back damaged, twice or out of order.
    pub corrupt: u64,
    /// Round trips.
    pub rtt_ns: Rtt,
    /// Million packets per second that the machine's limit allows, measured in the same rounds; null when it
    /// was not.
    pub limit_mpps: Option<f64>,
    /// The median of the rounds' shares, each of the limit of its own round: CPUs that are moved between rounds change both.
    pub limit_share: Option<f64>,
    /// The spread of the rounds.
    pub spread: OutcomeSpread,
    /// Each round.
    pub rounds: Vec<Round>,
}

/// How rounds are measured.
#[derive(Debug)]
pub struct Rounds<'a> {
    /// The NIC.
    pub bench: &'a Bench,
    /// Number of rounds.
    pub number: usize,
    /// The machine's limit, which each round measures again.
    pub limit: Option<&'a Limit>,
}

impl Rounds<'_> {
    /// Steps of a measurement, for its progress.
    pub fn steps(number: usize, workloads: &[Workload]) -> usize {
        number * (1 + workloads.iter().map(|workload| workload.loads.len()).sum::<usize>())
    }

    /// Measures all workloads; returns for each the outcomes of its loads, in their order.
    ///
    /// # Errors
    /// An option out of range, before anything is measured; otherwise what ended a run.
    pub fn measure(&self, workloads: &[Workload], progress: &Progress) -> anyhow::Result<Vec<Vec<Outcomes>>> {
        for workload in workloads {
            workload.traffic.check(&workload.config, "--queues")?;
        }
        let mut seen: Vec<Vec<Vec<Round>>> =
            workloads.iter().map(|workload| vec![Vec::new(); workload.loads.len()]).collect();
        for number in 1..=self.number {
            progress.say(format!("round {number}: ping-pong"));
            let machine = self.machine()?;
            progress.step();
            for (workload, seen) in workloads.iter().zip(&mut seen) {
                self.round(workload, &machine, seen, |run| {
                    let (mpps, ns) = (run.totals.mpps, run.totals.rtt_ns.p50);
                    let (name, size) = (workload.config.design.name(), workload.traffic.size);
                    progress.say(format!(
                        "round {number}: {name}, {size} B: {} Mpps, {ns} ns",
                        units::rate(mpps)
                    ));
                    progress.step();
                })?;
            }
        }
        let outcomes = |(workload, seen): (&Workload, Vec<Vec<Round>>)| {
            workload
                .loads
                .iter()
                .zip(seen)
                .map(|(load, rounds)| Outcomes::of(workload, *load, rounds))
                .collect()
        };
        Ok(workloads.iter().zip(seen).map(outcomes).collect())
    }

    fn machine(&self) -> anyhow::Result<RoundStart> {
        self.bench.nic.settle();
        let pingpong_ns = pingpong::round(Words::Shared, false, PINGPONG_SECONDS)?.p50_ns;
        let rates = self.limit.map(|limit| limit.again(LIMIT_SECONDS)).transpose()?;
        Ok(RoundStart { pingpong_ns, rates })
    }

    /// One round of a workload. The highest load comes first: others are shares of its rate.
    fn round(
        &self,
        workload: &Workload,
        machine: &RoundStart,
        seen: &mut [Vec<Round>],
        mut done: impl FnMut(&Run),
    ) -> anyhow::Result<()> {
        let mut peak = 0.0;
        for (load, rounds) in workload.loads.iter().zip(seen).rev() {
            let traffic = load.traffic(&workload.traffic, peak);
            let run = self.bench.run(&workload.config, &traffic)?;
            if *load == Offered::Maximum {
                peak = run.totals.mpps;
            }
            done(&run);
            rounds.push(Round {
                pingpong_ns: machine.pingpong_ns,
                limit_mpps: machine.rates.map(|rates| rates.packets(traffic.size)),
                offered_mpps: traffic.rate,
                cpu_share: run.cpu_share,
                totals: run.totals,
            });
        }
        Ok(())
    }
}

impl Offered {
    /// The traffic of this load where the highest load carries `peak` million packets per second.
    fn traffic(self, most: &TrafficArgs, peak: f64) -> TrafficArgs {
        match self {
            Offered::One => TrafficArgs { inflight: 1, burst: 1, rate: None, ..most.clone() },
            // Even a peak of zero, on a machine that is too busy, needs a rate.
            Offered::Share(share) => {
                TrafficArgs { rate: Some((peak * share).max(LEAST_MPPS)), ..most.clone() }
            }
            Offered::Rate(rate) => TrafficArgs { rate: Some(rate), ..most.clone() },
            Offered::Maximum => TrafficArgs { rate: None, ..most.clone() },
        }
    }

    /// The load in words.
    pub fn name(self) -> String {
        match self {
            Offered::One => "1 packet".to_owned(),
            Offered::Share(share) => units::percent(Some(share)),
            Offered::Rate(rate) => format!("{} Mpps", units::rate(rate)),
            Offered::Maximum => "maximum".to_owned(),
        }
    }
}

impl Outcomes {
    /// Sums up the rounds of a load.
    pub fn of(workload: &Workload, load: Offered, rounds: Vec<Round>) -> Outcomes {
        let traffic = load.traffic(&workload.traffic, 0.0);
        let spread = |f: fn(&Round) -> f64| Spread::of(rounds.iter().map(f));
        let quantile =
            |f: fn(&Rtt) -> u64| median(rounds.iter().map(|r| f(&r.totals.rtt_ns) as f64)).round() as u64;
        let measured = |f: fn(&Round) -> Option<f64>| {
            let values: Vec<f64> = rounds.iter().filter_map(f).collect();
            (!values.is_empty()).then(|| median(values))
        };
        let spreads = OutcomeSpread {
            mpps: spread(|r| r.totals.mpps),
            gbps: spread(|r| r.totals.gbps),
            p50_ns: spread(|r| r.totals.rtt_ns.p50 as f64),
            p99_ns: spread(|r| r.totals.rtt_ns.p99 as f64),
            pingpong_ns: spread(|r| r.pingpong_ns),
        };
        Outcomes {
            design: workload.config.design.name(),
            size: traffic.size,
            burst: traffic.burst,
            inflight: traffic.inflight,
            queues: workload.config.queues,
            offered_mpps: measured(|r| r.offered_mpps),
            packets: rounds.iter().map(|r| r.totals.packets).sum(),
            mpps: spreads.mpps.median,
            gbps: spreads.gbps.median,
            lost: rounds.iter().map(|r| r.totals.lost).sum(),
            corrupt: rounds.iter().map(|r| r.totals.corrupt).sum(),
            rtt_ns: Rtt {
                min: quantile(|r| r.min),
                p50: quantile(|r| r.p50),
                p90: quantile(|r| r.p90),
                p99: quantile(|r| r.p99),
                p999: quantile(|r| r.p999),
                max: quantile(|r| r.max),
            },
            limit_mpps: measured(|r| r.limit_mpps),
            limit_share: measured(|r| Some(r.totals.mpps / r.limit_mpps?)),
            spread: spreads,
            rounds,
        }
    }

    /// The least CPU shares of the generator's threads, of each round where threads need not share CPUs.
    pub fn cpu_shares(&self) -> impl Iterator<Item = f64> {
        self.rounds.iter().filter_map(|round| round.cpu_share)
    }
}

/// Rounds and workloads for tests.
#[cfg(test)]
pub mod samples {
    use super::*;
    use ccnic::Design;

    use crate::options::InterfaceArgs;

    /// A round of this throughput, median round trip and ping-pong round trip.
    pub fn round(mpps: f64, p50: u64, pingpong_ns: f64) -> Round {
        let rtt_ns = Rtt { min: 1, p50, p90: p50, p99: 2 * p50, p999: p50, max: p50 };
        Round {
            pingpong_ns,
            limit_mpps: Some(40.0),
            offered_mpps: None,
            cpu_share: Some(0.99),
            totals: Totals { packets: 100, mpps, gbps: mpps / 2.0, lost: 1, corrupt: 0, rtt_ns },
        }
    }

    /// A sweep of `shares` over packets of `size` bytes.
    pub fn workload(size: u16, shares: &[f64]) -> Workload {
        let traffic = TrafficArgs {
            size,
            burst: 32,
            rx_burst: 32,
            inflight: 512,
            queues: 1,
            seconds: 0.1,
            rate: None,
            whole_bursts: false,
        };
        Workload::sweep(InterfaceArgs::of(Design::GroupedEpoch).config(1), traffic, shares)
    }
}

#[cfg(test)]
mod tests {
    use super::samples::{round, workload};
    use super::*;

    #[test]
    fn a_sweep_goes_from_one_packet_to_the_peak() {
        let Workload { loads, traffic, .. } = workload(64, &[0.5]);
        assert_eq!(loads, [Offered::One, Offered::Share(0.5), Offered::Maximum]);
        let names: Vec<String> = loads.iter().map(|load| load.name()).collect();
        assert_eq!(names, ["1 packet", "50 %", "maximum"]);
        let traffics: Vec<_> = loads.iter().map(|load| load.traffic(&traffic, 20.0)).collect();
        assert_eq!(traffics.iter().map(|t| t.rate).collect::<Vec<_>>(), [None, Some(10.0), None]);
        assert_eq!(
            traffics.iter().map(|t| (t.inflight, t.burst)).collect::<Vec<_>>(),
            [(1, 1), (512, 32), (512, 32)]
        );
        assert_eq!(Offered::Share(0.5).traffic(&traffic, 0.0).rate, Some(LEAST_MPPS));
        assert_eq!(Rounds::steps(9, &[workload(64, &[0.5]), workload(64, &[0.5])]), 9 * 7);
    }

    /// Two rounds near, one far: what the medians of rate and limit say belongs to no round.
    #[test]
    fn shares_of_the_limit_are_those_of_rounds() {
        let of = |mpps, limit| Round { limit_mpps: Some(limit), ..round(mpps, 300, 100.0) };
        let rounds = vec![of(20.0, 40.0), of(4.0, 10.0), of(24.0, 30.0), of(30.0, 100.0)];
        let all = Outcomes::of(&workload(64, &[]), Offered::Maximum, rounds);
        assert_eq!(all.limit_share, Some(0.45));
        let without = Round { limit_mpps: None, ..round(20.0, 300, 100.0) };
        assert_eq!(Outcomes::of(&workload(64, &[]), Offered::Maximum, vec![without]).limit_share, None);
    }

    #[test]
    fn outcomes_are_medians_over_the_rounds_and_keep_all_of_them() {
        let rounds = vec![round(20.0, 300, 100.0), round(5.0, 900, 120.0), round(22.0, 310, 110.0)];
        let all = Outcomes::of(&workload(64, &[0.5]), Offered::Maximum, rounds);
        assert_eq!((all.mpps, all.gbps, all.rtt_ns.p50, all.rtt_ns.p99), (20.0, 10.0, 310, 620));
        assert_eq!((all.packets, all.lost, all.rounds.len()), (300, 3, 3));
        assert_eq!((all.limit_mpps, all.limit_share), (Some(40.0), Some(0.5)));
        assert_eq!((all.spread.mpps.min, all.spread.mpps.max), (5.0, 22.0));
        assert_eq!((all.offered_mpps, all.cpu_shares().count()), (None, 3));
        assert_eq!(serde_json::to_value(&all).unwrap()["rounds"][1]["mpps"], 5.0);
    }
}
