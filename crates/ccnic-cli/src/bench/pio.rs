//! `ccnic bench pio`: one small request and its answer, by coherent programmed I/O and by a ring.

use anyhow::ensure;
use clap::Args;
use serde::Serialize;

use crate::cpus::warn_if_crowded;
use crate::loopback::rounds::ROUNDS;
use crate::micro::calls::{self, Way};
use crate::micro::pingpong::PingPongRound;
use crate::options;
use crate::print::{self, Column, Progress, Table, units};
use crate::stats::{Spread, median};

/// Options of `bench pio`.
#[derive(Debug, Args)]
pub struct PioArgs {
    /// Bytes of a request and of its answer, 1 to 9600; up to 56 are one line
    #[arg(long, default_value_t = 56, value_name = "BYTES")]
    size: u16,
    /// Rounds that each way is measured in; medians are shown
    #[arg(long, default_value_t = ROUNDS)]
    rounds: usize,
    /// Seconds to measure each way in each round
    #[arg(long, default_value_t = 0.05)]
    seconds: f64,
    /// Print JSON, with every round
    #[arg(long)]
    json: bool,
}

/// The round trips of one way, as `--json` prints them.
#[derive(Debug, Clone, Serialize)]
struct Answered {
    way: Way,
    /// Bytes of a request and of its answer; of a word, 8.
    size: u16,
    /// Median of the rounds' medians, each of means of a few round trips.
    p50_ns: f64,
    /// Median of the rounds' 99th percentiles.
    p99_ns: f64,
    round_trips: u64,
    /// Median, over the rounds, of the ring's round trip divided by this one's in the same round.
    of_ring: f64,
    spread: Spread,
    rounds: Vec<PingPongRound>,
}

/// Measures and prints.
pub fn run(args: &PioArgs) -> anyhow::Result<()> {
    options::seconds(args.seconds)?;
    options::rounds(args.rounds)?;
    ensure!((1..=9600).contains(&args.size), "--size is {}; choose 1 to 9600", args.size);
    warn_if_crowded(1)?;
    let progress = Progress::of_measurements("pio", args.rounds * Way::ALL.len(), args.json);
    let mut rounds: Vec<Vec<PingPongRound>> = Vec::new();
    for _ in 0..args.rounds {
        let round = Way::ALL.into_iter().map(|way| {
            let measured = calls::round(way, args.size, args.seconds);
            progress.step();
            measured
        });
        rounds.push(round.collect::<anyhow::Result<_>>()?);
    }
    drop(progress);
    let answered = sum_up(args.size, &rounds);
    print::result(args.json, &answered, || table(args, &answered).text())
}

/// `rounds` has a list with the ways in their order for each round; the ring is the last.
fn sum_up(size: u16, rounds: &[Vec<PingPongRound>]) -> Vec<Answered> {
    let of_way = |i: usize| rounds.iter().filter_map(move |round| round.get(i).copied());
    let ring = Way::ALL.len() - 1;
    let sum = |(i, way): (usize, Way)| {
        let spread = Spread::of(of_way(i).map(|round| round.p50_ns));
        Answered {
            way,
            size: if way == Way::Word { 8 } else { size },
            p50_ns: spread.median,
            p99_ns: median(of_way(i).map(|round| round.p99_ns)),
            round_trips: of_way(i).map(|round| round.round_trips).sum(),
            of_ring: median(of_way(ring).zip(of_way(i)).map(|(ring, way)| ring.p50_ns / way.p50_ns)),
            spread,
            rounds: of_way(i).collect(),
        }
    };
    Way::ALL.into_iter().enumerate().map(sum).collect()
}

fn name(way: Way) -> &'static str {
    match way {
        Way::Word => "one word (the least possible)",
        Way::Call => "call",
        Way::CallRead => "call, lines fetched to read",
        Way::CallUndemoted => "call, no CLDEMOTE",
        Way::Program => "ccnic_call",
        Way::Ring => "ring, loopback NIC",
    }
}

fn table(args: &PioArgs, answered: &[Answered]) -> Table {
    let title = format!(
        "A request of {} B and its answer between two cores: medians of {} of {} s",
        args.size,
        units::count(args.rounds, "round"),
        args.seconds
    );
    let columns = [
        Column::text("by"),
        Column::number("p50\nns"),
        Column::number("p50\nmin\u{2013}max"),
        Column::number("p99\nns"),
        Column::number("ring\n/ this"),
    ];
    let mut table = Table::new(title, columns);
    for a in answered {
        table.row([
            name(a.way).to_owned(),
            units::ns(a.p50_ns),
            units::range(&a.spread, units::ns),
            units::ns(a.p99_ns),
            format!("{:.2}", a.of_ring),
        ]);
    }
    table.note(
        "call: coherent programmed I/O, two slots that change their roles (ccnic::call). ccnic_call: the same as programs use it, with \
         timeout, sleep and the other side's death. ring: a packet to a NIC on the other core and back. ring / this: medians of the \
         ratios within each round.",
    );
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
        let rounds: Vec<Vec<_>> = [1.0, 10.0, 1.0]
            .iter()
            .map(|slow| [50.0, 100.0, 125.0, 160.0, 200.0, 400.0].map(|ns| of(ns * slow)).to_vec())
            .collect();
        let answered = sum_up(56, &rounds);
        assert_eq!(answered.iter().map(|a| a.of_ring).collect::<Vec<_>>(), [8.0, 4.0, 3.2, 2.5, 2.0, 1.0]);
        assert_eq!((answered[1].p50_ns, answered[1].spread.max, answered[0].size), (100.0, 1000.0, 8));
        let args = PioArgs { size: 56, rounds: 3, seconds: 0.05, json: false };
        let text = table(&args, &answered).in_width(80);
        assert!(longest_line(&text) <= 80, "{text}");
    }
}
