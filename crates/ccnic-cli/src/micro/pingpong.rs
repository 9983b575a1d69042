//! Ping-pong: one side increments a word, the other polls it and answers (CC-NIC section 3.2, figure 8).

use ccnic::{LINE, SharedMemory};
use hdrhistogram::Histogram;
use quanta::Clock;
use serde::Serialize;

use super::{Side, duet};
use crate::stats::{Spread, median};

/// The layout of the two words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Words {
    /// Both on one line.
    Shared,
    /// Each on its own line.
    Separate,
}

/// Round trips of one experiment.
#[derive(Debug, Clone, Serialize)]
pub struct PingPong {
    /// The layout of the words.
    pub words: Words,
    /// Whether each writer demoted its line after writing (CLDEMOTE).
    pub demote: bool,
    /// The round trips.
    #[serde(flatten)]
    pub trips: RoundTrips,
}

/// Round trips of several rounds, in nanoseconds.
#[derive(Debug, Clone, Serialize)]
pub struct RoundTrips {
    /// Median of the rounds' medians, each of means of a few round trips.
    pub p50_ns: f64,
    /// Median of the rounds' 99th percentiles.
    pub p99_ns: f64,
    /// Number of round trips.
    pub round_trips: u64,
    /// The spread of the rounds' medians.
    pub spread: Spread,
    /// Each round.
    pub rounds: Vec<PingPongRound>,
}

impl RoundTrips {
    /// Sums up rounds.
    pub fn of(rounds: Vec<PingPongRound>) -> RoundTrips {
        let spread = Spread::of(rounds.iter().map(|r| r.p50_ns));
        RoundTrips {
            p50_ns: spread.median,
            p99_ns: median(rounds.iter().map(|r| r.p99_ns)),
            round_trips: rounds.iter().map(|r| r.round_trips).sum(),
            spread,
            rounds,
        }
    }
}

/// One round of an experiment.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct PingPongRound {
    /// Median.
    pub p50_ns: f64,
    /// 99th percentile.
    pub p99_ns: f64,
    /// Number of round trips.
    pub round_trips: u64,
}

impl PingPongRound {
    /// From what [`time`] has measured, on the side that measures.
    pub(super) fn of(measured: Option<(Histogram<u64>, u64)>) -> anyhow::Result<PingPongRound> {
        let (picoseconds, round_trips) = measured.unwrap_or((Histogram::new(3)?, 0));
        let ns = |q| picoseconds.value_at_quantile(q) as f64 / 1e3;
        Ok(PingPongRound { p50_ns: ns(0.5), p99_ns: ns(0.99), round_trips })
    }
}

/// Round trips between two readings of the clock: few enough to show the spread, enough that the reading costs
/// little in comparison.
const BETWEEN: u64 = 16;

/// The last value, after which a side stops.
const STOP: u64 = u64::MAX;

/// Measures one round for `seconds`.
///
/// # Errors
/// When the region or the threads cannot be made.
pub fn round(words: Words, demote: bool, seconds: f64) -> anyhow::Result<PingPongRound> {
    let back = if words == Words::Shared { LINE + 8 } else { 2 * LINE };
    let [played, _] = duet(4 * LINE, |side| {
        if side.number == 0 {
            serve(&side, back, demote, seconds).map(Some)
        } else {
            answer(&side, back, demote).map(|()| None)
        }
    })?;
    PingPongRound::of(played?)
}

/// The first side: writes, waits for the answer, and measures the time.
fn serve(side: &Side, back: u32, demote: bool, seconds: f64) -> anyhow::Result<(Histogram<u64>, u64)> {
    let mut n = 0;
    let measured = time(seconds, || {
        n += 1;
        put(side, LINE, n, demote);
        side.await_word(back, n);
        Ok(())
    });
    put(side, LINE, STOP, false);
    measured
}

/// Times round trips for `seconds`: their histogram in picoseconds, and their number.
pub(super) fn time(
    seconds: f64,
    mut round_trip: impl FnMut() -> anyhow::Result<()>,
) -> anyhow::Result<(Histogram<u64>, u64)> {
    let clock = Clock::new();
    let mut picoseconds = Histogram::new(3)?;
    let start = clock.raw();
    let (mut last, mut n) = (start, 0);
    while clock.delta(start, last).as_secs_f64() < seconds {
        for _ in 0..BETWEEN {
            round_trip()?;
        }
        n += BETWEEN;
        let now = clock.raw();
        picoseconds.record(clock.delta_as_nanos(last, now) * 1000 / BETWEEN)?;
        last = now;
    }
    Ok((picoseconds, n))
}

/// The other side: writes back every value that it reads.
fn answer(side: &Side, back: u32, demote: bool) -> anyhow::Result<()> {
    let mut seen = 0;
    loop {
        let value = side.mem.load_acquire(LINE);
        if value == STOP {
            return Ok(());
        }
        if value == seen {
            side.wait();
            continue;
        }
        seen = value;
        put(side, back, value, demote);
    }
}

#[inline(always)]
fn put(side: &Side, at: u32, value: u64, demote: bool) {
    side.mem.store_release(at, value);
    if demote {
        side.mem.demote(at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_answered() {
        for words in [Words::Shared, Words::Separate] {
            let played = round(words, true, 0.002).unwrap();
            let n = played.round_trips;
            assert!(n >= BETWEEN && n.is_multiple_of(BETWEEN) && played.p50_ns > 0.0);
        }
    }

    #[test]
    fn rounds_are_summed_up_by_medians() {
        let round = |p50_ns| PingPongRound { p50_ns, p99_ns: 10.0 * p50_ns, round_trips: 16 };
        let all = RoundTrips::of(vec![round(5.0), round(1.0), round(2.0)]);
        assert_eq!((all.p50_ns, all.p99_ns, all.round_trips), (2.0, 20.0, 48));
        assert_eq!((all.spread.min, all.spread.max, all.rounds.len()), (1.0, 5.0, 3));
    }
}
