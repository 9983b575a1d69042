//! `ccnic bench cni`: messages to a NIC on another core and back, over the cachable queues of 1996 and over this project's rings.

use anyhow::ensure;
use clap::Args;
use serde::Serialize;

use super::trips::{self, in_rounds};
use crate::cpus::warn_if_crowded;
use crate::loopback::rounds::ROUNDS;
use crate::micro::pingpong::RoundTrips;
use crate::micro::queues::{self, IN_FLIGHT, Over, QueueRound};
use crate::options;
use crate::print::{self, Column, Table, units};
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

/// What was measured over one kind of queue, as `--json` prints it.
#[derive(Debug, Clone, Serialize)]
struct Measured {
    over: Over,
    /// Bytes of a message; over lines, 8.
    size: u16,
    /// Round trips, one message under way.
    #[serde(flatten)]
    trips: RoundTrips,
    /// Median, over the rounds, of the round trip in those of a word over two lines in the same round.
    pingpongs: f64,
    /// Millions of messages per second of the rounds, many under way; none over lines.
    mmps: Option<Spread>,
    /// Median, over the rounds, of the rate as a part of that of the rings in the same round.
    of_rings: Option<f64>,
}

/// Measures and prints.
pub fn run(args: &CniArgs) -> anyhow::Result<()> {
    options::seconds(args.seconds)?;
    options::rounds(args.rounds)?;
    ensure!((16..=4096).contains(&args.size), "--size is {}; choose 16 to 4096", args.size);
    warn_if_crowded(1)?;
    let rounds = in_rounds("cni", args.rounds, args.json, &Over::ALL, |over| {
        queues::round(over, args.size, args.seconds)
    })?;
    let measured = sum_up(args.size, &rounds);
    print::result(args.json, &measured, || table(args, &measured).text())
}

/// `rounds` has a list of rounds for each kind of queue, in their order: lines are the first, rings the last.
fn sum_up(size: u16, rounds: &[Vec<QueueRound>]) -> Vec<Measured> {
    let all = |of: Option<&Vec<QueueRound>>| of.cloned().unwrap_or_default();
    let (lines, rings) = (all(rounds.first()), all(rounds.last()));
    let sum = |(over, rounds): (Over, &Vec<QueueRound>)| {
        let rates = || rounds.iter().filter_map(|round| round.mmps);
        let of_rings =
            rates().zip(rings.iter().filter_map(|round| round.mmps)).map(|(this, rings)| this / rings);
        let measured = rates().next().is_some();
        Measured {
            over,
            size: if over == Over::Lines { 8 } else { size },
            trips: RoundTrips::of(rounds.iter().map(|round| round.lone).collect()),
            pingpongs: median(
                rounds.iter().zip(&lines).map(|(this, word)| this.lone.p50_ns / word.lone.p50_ns),
            ),
            mmps: measured.then(|| Spread::of(rates())),
            of_rings: measured.then(|| median(of_rings)),
        }
    };
    Over::ALL.into_iter().zip(rounds).map(sum).collect()
}

fn name(over: Over) -> &'static str {
    match over {
        Over::Lines => "a word, two lines",
        Over::Cni16q => "CNI16Q, 4 messages",
        Over::Cni512q => "CNI512Q, 128",
        Over::Rings => "rings",
    }
}

fn table(args: &CniArgs, measured: &[Measured]) -> Table {
    let title = format!(
        "Messages of {} B to a NIC on another core and back: medians of {} of {} s",
        args.size,
        units::count(args.rounds, "round"),
        args.seconds
    );
    let more = ["ping-\npongs", "M/s", "M/s\nmin\u{2013}max", "/ rings"].map(Column::number);
    let mut table = Table::new(title, trips::columns("over", more));
    for m in measured {
        let rate = |text: fn(&Spread) -> String| m.mmps.as_ref().map_or("-".to_owned(), text);
        let more = [
            format!("{:.2}", m.pingpongs),
            rate(|mmps| units::rate(mmps.median)),
            rate(|mmps| units::range(mmps, units::rate)),
            m.of_rings.map_or("-".to_owned(), |part| format!("{part:.2}")),
        ];
        table.row(trips::row(name(m.over).to_owned(), &m.trips, more));
    }
    table.note(format!(
        "p50, p99: round trips, one message under way. ping-pongs: the same in round trips of the word. M/s: millions of messages per \
         second, {IN_FLIGHT} under way at most, or as many as the queue holds. ping-pongs and / rings: medians of the ratios within each \
         round. The NIC sends back what it receives; every message is checked. The queues are those that the simulator runs (CNI, ISCA '96)."
    ));
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::micro::pingpong::PingPongRound;
    use crate::print::longest_line;

    /// The second of three rounds met a machine that was ten times slower.
    fn rounds() -> Vec<Vec<QueueRound>> {
        let round = |p50_ns, mmps: Option<f64>| {
            [1.0, 10.0, 1.0].map(|slow| QueueRound {
                lone: PingPongRound { p50_ns: p50_ns * slow, p99_ns: 123_456.7, round_trips: 16 },
                mmps: mmps.map(|mmps| mmps / slow),
            })
        };
        [(200.0, None), (300.0, Some(4.0)), (250.0, Some(8.0)), (400.0, Some(40.0))]
            .map(|(ns, mmps)| round(ns, mmps).to_vec())
            .to_vec()
    }

    #[test]
    fn ratios_are_those_of_the_same_round() {
        let measured = sum_up(64, &rounds());
        assert_eq!(measured.iter().map(|m| m.pingpongs).collect::<Vec<_>>(), [1.0, 1.5, 1.25, 2.0]);
        let parts: Vec<_> = measured.iter().map(|m| m.of_rings).collect();
        assert_eq!(parts, [None, Some(0.1), Some(0.2), Some(1.0)]);
        let [lines, small, ..] = &measured[..] else { panic!("{measured:?}") };
        assert_eq!((lines.size, lines.mmps), (8, None));
        assert_eq!((small.trips.p50_ns, small.trips.spread.max), (300.0, 3000.0));
        assert_eq!(small.mmps, Some(Spread { min: 0.4, median: 4.0, max: 4.0 }));
    }

    #[test]
    fn the_table_fits_80_columns() {
        let args = CniArgs { size: 64, rounds: 3, seconds: 0.05, json: false };
        let text = table(&args, &sum_up(64, &rounds())).in_width(80);
        assert!(longest_line(&text) <= 80, "{text}");
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let row = "CNI512Q, 128 250 250\u{2013}2500 123\u{b5}s 1.25 8.00 0.80\u{2013}8.00 0.20";
        assert!(words.contains(row), "{text}");
    }
}
