//! `ccnic bench pio`: one small request and its answer, by coherent programmed I/O and by a ring.

use anyhow::ensure;
use clap::Args;
use serde::Serialize;

use super::trips::{self, in_rounds};
use crate::cpus::warn_if_crowded;
use crate::loopback::rounds::ROUNDS;
use crate::micro::calls::{self, Way};
use crate::micro::pingpong::{PingPongRound, RoundTrips};
use crate::options;
use crate::print::{self, Column, Table, units};
use crate::stats::median;

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
    /// Median, over the rounds, of the ring's round trip divided by this one's in the same round.
    of_ring: f64,
    #[serde(flatten)]
    trips: RoundTrips,
}

/// Measures and prints.
pub fn run(args: &PioArgs) -> anyhow::Result<()> {
    options::seconds(args.seconds)?;
    options::rounds(args.rounds)?;
    ensure!((1..=9600).contains(&args.size), "--size is {}; choose 1 to 9600", args.size);
    warn_if_crowded(1)?;
    let rounds = in_rounds("pio", args.rounds, args.json, &Way::ALL, |way| {
        calls::round(way, args.size, args.seconds)
    })?;
    let answered = sum_up(args.size, rounds);
    print::result(args.json, &answered, || table(args, &answered).text())
}

/// `rounds` has a list of rounds for each way, in their order; the ring is the last.
fn sum_up(size: u16, rounds: Vec<Vec<PingPongRound>>) -> Vec<Answered> {
    let ring = rounds.last().cloned().unwrap_or_default();
    let sum = |(way, rounds): (Way, Vec<PingPongRound>)| Answered {
        way,
        size: if way == Way::Word { 8 } else { size },
        of_ring: median(ring.iter().zip(&rounds).map(|(ring, way)| ring.p50_ns / way.p50_ns)),
        trips: RoundTrips::of(rounds),
    };
    Way::ALL.into_iter().zip(rounds).map(sum).collect()
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
    let mut table = Table::new(title, trips::columns("by", [Column::number("ring\n/ this")]));
    for a in answered {
        table.row(trips::row(name(a.way).to_owned(), &a.trips, [format!("{:.2}", a.of_ring)]));
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
        let rounds = [50.0, 100.0, 125.0, 160.0, 200.0, 400.0]
            .map(|ns| [1.0, 10.0, 1.0].map(|slow| of(ns * slow)).to_vec());
        let answered = sum_up(56, rounds.to_vec());
        assert_eq!(answered.iter().map(|a| a.of_ring).collect::<Vec<_>>(), [8.0, 4.0, 3.2, 2.5, 2.0, 1.0]);
        let call = &answered[1].trips;
        assert_eq!((call.p50_ns, call.spread.max, answered[0].size), (100.0, 1000.0, 8));
        let args = PioArgs { size: 56, rounds: 3, seconds: 0.05, json: false };
        let text = table(&args, &answered).in_width(80);
        assert!(longest_line(&text) <= 80, "{text}");
    }
}
