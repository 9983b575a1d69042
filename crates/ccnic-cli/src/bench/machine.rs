//! `ccnic bench limit | pingpong | stream`: what the machine itself can do, with no protocol.

use clap::Args;

use super::trips::{self, in_rounds};
use crate::micro::limit::{self, Limit};
use crate::micro::pingpong::{self, PingPong, RoundTrips, Words};
use crate::micro::stream::{self, Stores, Stream};
use crate::options;
use crate::print::{self, Column, Progress, Table, units};

/// Options of the measurements of the machine.
#[derive(Debug, Args)]
pub struct MicrobenchArgs {
    /// Seconds that the whole measurement takes
    #[arg(long, default_value_t = 4.0)]
    seconds: f64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// How often each case is measured, one after the other.
const ROUNDS: usize = 9;

impl MicrobenchArgs {
    /// Seconds of each of so many cases in each round.
    ///
    /// # Errors
    /// When the time is none that can be measured for.
    fn each(&self, cases: usize) -> anyhow::Result<f64> {
        options::seconds(self.seconds)?;
        Ok(self.seconds / (ROUNDS * cases) as f64)
    }
}

/// Measures the limit and shows it.
pub fn limit(args: &MicrobenchArgs) -> anyhow::Result<()> {
    options::seconds(args.seconds)?;
    let limit = measure_limit(args.seconds, args.json)?;
    print::result(args.json, &limit, || limit_table(&limit).text())
}

/// Measures the limit behind a progress bar.
pub fn measure_limit(seconds: f64, json: bool) -> anyhow::Result<Limit> {
    let progress = Progress::of_measurements("limit", limit::STEPS, json);
    limit::measure(seconds, |step| {
        progress.say(step);
        progress.step();
    })
}

/// Measures ping-pong round trips and shows them.
pub fn pingpong(args: &MicrobenchArgs) -> anyhow::Result<()> {
    let cases =
        [(Words::Shared, false), (Words::Shared, true), (Words::Separate, false), (Words::Separate, true)];
    let seconds = args.each(cases.len())?;
    let rounds = in_rounds("ping-pong", ROUNDS, args.json, &cases, |(words, demote)| {
        pingpong::round(words, demote, seconds)
    })?;
    let of = |(&(words, demote), rounds)| PingPong { words, demote, trips: RoundTrips::of(rounds) };
    let played: Vec<PingPong> = cases.iter().zip(rounds).map(of).collect();
    print::result(args.json, &played, || pingpong_table(&played).text())
}

/// Measures streams and shows them.
pub fn stream(args: &MicrobenchArgs) -> anyhow::Result<()> {
    let kinds = [Stores::Caching, Stores::NonTemporal];
    let seconds = args.each(kinds.len())?;
    let rounds = in_rounds("stream", ROUNDS, args.json, &kinds, |stores| stream::round(stores, seconds))?;
    let streams: Vec<Stream> =
        kinds.iter().zip(rounds).map(|(&stores, rounds)| Stream::of(stores, rounds)).collect();
    print::result(args.json, &streams, || stream_table(&streams).text())
}

fn limit_table(limit: &Limit) -> Table {
    let columns = [
        Column::text("measured"),
        Column::number("median"),
        Column::number("min\u{2013}max"),
        Column::text("unit"),
    ];
    let mut table = Table::new(
        "What two cores of this machine can exchange through coherent memory, with no protocol",
        columns,
    );
    let lines = "M lines/s";
    let rows = [
        ("single cache lines, 128 bytes apart", &limit.spread.line_mlps, lines),
        ("contiguous cache lines", &limit.spread.run_mlps, lines),
        ("ping-pong round trip, one shared line", &limit.spread.shared_ns, "ns"),
        ("ping-pong round trip, a line per direction", &limit.spread.separate_ns, "ns"),
    ];
    for (name, spread, unit) in rows {
        let number = if unit == "ns" { units::ns } else { units::rate };
        table.row([name.to_owned(), number(spread.median), units::range(spread, number), unit.to_owned()]);
    }
    table.note(format!(
        "M lines/s: million cache lines per second in each direction, both directions at once. A 64-byte \
         packet takes 1.25 single lines (payload and a quarter line of descriptor), so the limit is {} Mpps; a \
         1500-byte packet takes 24.25 contiguous lines: {} Mpps.",
        units::rate(limit.rates.packets(64)),
        units::rate(limit.rates.packets(1500))
    ));
    table
}

fn pingpong_table(played: &[PingPong]) -> Table {
    let title = format!("Round trip of one word between two cores: medians of {ROUNDS} rounds");
    let mut table = Table::new(title, trips::columns("words", [Column::number("round\ntrips")]));
    for p in played {
        let words = match p.words {
            Words::Shared => "on one line",
            Words::Separate => "a line per direction",
        };
        let name = if p.demote { format!("{words}, CLDEMOTE") } else { words.to_owned() };
        table.row(trips::row(name, &p.trips, [p.trips.round_trips.to_string()]));
    }
    table.note("CLDEMOTE: the writer demotes the line after each write.");
    table
}

fn stream_table(streams: &[Stream]) -> Table {
    let columns = [
        Column::text("stores"),
        Column::number("Gb/s"),
        Column::number("Gb/s\nmin\u{2013}max"),
        Column::number("MiB\nmoved"),
    ];
    let mut table = Table::new(format!("Data from one core to another: medians of {ROUNDS} rounds"), columns);
    for s in streams {
        let name = match s.stores {
            Stores::Caching => "caching",
            Stores::NonTemporal => "non-temporal",
        };
        let range = units::range(&s.spread, units::rate);
        table.row([name.to_owned(), units::rate(s.gbps), range, s.megabytes.to_string()]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::micro::limit::{LimitSpread, Rates, WordRtt};
    use crate::print::longest_line;
    use crate::stats::Spread;

    const WIDE: Spread = Spread { min: 100.5, median: 20_000.4, max: 123_456.7 };

    #[test]
    fn tables_fit_80_columns() {
        let limit = Limit {
            rates: Rates { line_mlps: 50.0, run_mlps: 97.0 },
            word_rtt_ns: WordRtt { shared: 1.0, separate: 1.0 },
            line_best: (0, 0),
            run_best: (0, 0),
            spread: LimitSpread {
                line_mlps: Spread { min: 12.3, median: 40.4, max: 120.0 },
                run_mlps: Spread { min: 50.1, median: 97.0, max: 165.2 },
                shared_ns: Spread { min: 110.0, median: 120.0, max: 430.0 },
                separate_ns: Spread { min: 110.0, median: 120.0, max: 1430.0 },
            },
        };
        let text = limit_table(&limit).in_width(80);
        assert!(text.contains("40.0 Mpps") && text.contains("4.00 Mpps"), "{text}");
        assert!(longest_line(&text) <= 80, "{text}");
        let round = pingpong::PingPongRound { p50_ns: 12_345.6, p99_ns: 123_456.7, round_trips: 123_456_789 };
        let trips = RoundTrips { spread: WIDE, ..RoundTrips::of(vec![round]) };
        let played = PingPong { words: Words::Separate, demote: true, trips };
        let text = pingpong_table(&[played]).in_width(80);
        assert!(longest_line(&text) <= 80, "{text}");
        let round = stream::StreamRound { gbps: 1234.5, megabytes: 1_234_567 };
        let text = stream_table(&[Stream { spread: WIDE, ..Stream::of(Stores::NonTemporal, vec![round]) }])
            .in_width(80);
        assert!(longest_line(&text) <= 80, "{text}");
    }
}
