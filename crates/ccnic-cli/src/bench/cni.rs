//! `ccnic bench cni`: messages to a NIC on another core and back, over the cachable queues of 1996 and over this project's rings.

use anyhow::ensure;
use clap::Args;
use serde::Serialize;

use crate::cpus::warn_if_crowded;
use crate::loopback::rounds::ROUNDS;
use crate::micro::pingpong::{self, PingPongRound, Words};
use crate::micro::queues::{self, IN_FLIGHT, Over, QueueRound};
use crate::options;
use crate::print::{self, Column, Progress, Table, units};
use crate::stats::{Spread, median};

/// Options of `bench cni`.
#[derive(Debug, Args)]
pub struct CniArgs {
    /// Bytes of a message, 16 to 4096; more than 244 take several messages of a CNI queue
    #[arg(long, default_value_t = 64, value_name = "BYTES")]
    size: u16,
    /// Rounds that each queue is measured in; medians are shown
    #[arg(long, default_value_t = ROUNDS)]
    rounds: usize,
    /// Seconds to measure in each round: with one message under way, and as long with many
    #[arg(long, default_value_t = 0.05)]
    seconds: f64,
    /// Print JSON, with every round
    #[arg(long)]
    json: bool,
}

/// One queue, as `--json` prints it.
#[derive(Debug, Clone, Serialize)]
struct Measured {
    over: Over,
    size: u16,
    /// Median of the rounds' median round trips, one message under way.
    p50_ns: f64,
    /// Median of the rounds' 99th percentiles.
    p99_ns: f64,
    /// Median, over the rounds, of the round trip in round trips of one word in the same round.
    pingpongs: f64,
    /// Median of the rounds' rates, in millions of messages per second, many under way.
    mmps: f64,
    /// Of the round trips.
    spread: Spread,
    /// Of the rates.
    spread_mmps: Spread,
    rounds: Vec<QueueRound>,
}

/// A round: the word's round trips, and those of all queues in their order.
type Round = (PingPongRound, Vec<QueueRound>);

/// Measures and prints.
pub fn run(args: &CniArgs) -> anyhow::Result<()> {
    options::seconds(args.seconds)?;
    options::rounds(args.rounds)?;
    ensure!((16..=4096).contains(&args.size), "--size is {}; choose 16 to 4096", args.size);
    warn_if_crowded(1)?;
    let progress = Progress::of_measurements("cni", args.rounds * (Over::ALL.len() + 1), args.json);
    let mut rounds: Vec<Round> = Vec::new();
    for _ in 0..args.rounds {
        let word = pingpong::round(Words::Separate, false, args.seconds)?;
        progress.step();
        let queues = Over::ALL.into_iter().map(|over| {
            let measured = queues::round(over, args.size, args.seconds);
            progress.step();
            measured
        });
        rounds.push((word, queues.collect::<anyhow::Result<_>>()?));
    }
    drop(progress);
    let measured = sum_up(args.size, &rounds);
    print::result(args.json, &measured, || table(args, &rounds, &measured).text())
}

fn sum_up(size: u16, rounds: &[Round]) -> Vec<Measured> {
    let sum = |(i, over): (usize, Over)| {
        let all: Vec<QueueRound> = rounds.iter().filter_map(|(_, queues)| queues.get(i).copied()).collect();
        let words = rounds.iter().map(|(word, _)| word.p50_ns);
        let spread = Spread::of(all.iter().map(|round| round.lone.p50_ns));
        let spread_mmps = Spread::of(all.iter().map(|round| round.mmps));
        Measured {
            over,
            size,
            p50_ns: spread.median,
            p99_ns: median(all.iter().map(|round| round.lone.p99_ns)),
            pingpongs: median(all.iter().zip(words).map(|(round, word)| round.lone.p50_ns / word)),
            mmps: spread_mmps.median,
            spread,
            spread_mmps,
            rounds: all,
        }
    };
    Over::ALL.into_iter().enumerate().map(sum).collect()
}

fn name(over: Over) -> &'static str {
    match over {
        Over::Cni16q => "CNI16Q (4 messages)",
        Over::Cni512q => "CNI512Q (128 messages)",
        Over::Ccnic => "ccnic's rings",
    }
}

fn table(args: &CniArgs, rounds: &[Round], measured: &[Measured]) -> Table {
    let title = format!(
        "Messages of {} B to a NIC on another core and back: medians of {} of {} s",
        args.size,
        units::count(args.rounds, "round"),
        args.seconds
    );
    let columns = [
        Column::text("over"),
        Column::number("p50\nns"),
        Column::number("p50 ns\nmin\u{2013}max"),
        Column::number("p99\nns"),
        Column::number("ping-\npongs"),
        Column::number("M/s"),
        Column::number("M/s\nmin\u{2013}max"),
    ];
    let mut table = Table::new(title, columns);
    for m in measured {
        table.row([
            name(m.over).to_owned(),
            units::ns(m.p50_ns),
            units::range(&m.spread, units::ns),
            units::ns(m.p99_ns),
            format!("{:.2}", m.pingpongs),
            units::rate(m.mmps),
            units::range(&m.spread_mmps, units::rate),
        ]);
    }
    let word = median(rounds.iter().map(|(word, _)| word.p50_ns));
    table.note(format!(
        "p50, p99: round trips, one message under way. ping-pongs: the same in round trips of one word on two lines in the same round \
         ({word:.0} ns in the median). M/s: millions of messages per second, {IN_FLIGHT} under way at most or as many as the queue holds. \
         The queues are those that the simulator runs (CNI, ISCA '96)."
    ));
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::print::longest_line;

    #[test]
    fn ratios_are_those_of_the_same_round_and_the_table_fits_80_columns() {
        let of = |p50_ns| PingPongRound { p50_ns, p99_ns: 123_456.7, round_trips: 16 };
        // The second round met a machine that was ten times slower: the ratios do not feel it.
        let round = |slow: f64| {
            let queues =
                [300.0, 250.0, 400.0].map(|ns| QueueRound { lone: of(ns * slow), mmps: 40.0 / slow });
            (of(200.0 * slow), queues.to_vec())
        };
        let rounds = [1.0, 10.0, 1.0].map(round);
        let measured = sum_up(64, &rounds);
        assert_eq!(measured.iter().map(|m| m.pingpongs).collect::<Vec<_>>(), [1.5, 1.25, 2.0]);
        assert_eq!((measured[0].p50_ns, measured[0].spread.max, measured[2].mmps), (300.0, 3000.0, 40.0));
        let args = CniArgs { size: 64, rounds: 3, seconds: 0.05, json: false };
        let text = table(&args, &rounds, &measured).in_width(80);
        assert!(longest_line(&text) <= 80, "{text}");
    }
}
