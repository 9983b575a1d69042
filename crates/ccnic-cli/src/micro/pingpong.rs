//! Ping-pong: one side increments a word, the other polls it and answers (CC-NIC section 3.2, figure 8).

use ccnic::{LINE, SharedMemory};
use hdrhistogram::Histogram;
use quanta::Clock;
use serde::Serialize;

use super::{Side, duet};

/// Where the two words lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Words {
    /// Both on one line.
    Shared,
    /// Each on its own line.
    Separate,
}

/// Round trips of one experiment, in nanoseconds; each sample is the mean of a few round trips.
#[derive(Debug, Clone, Serialize)]
pub struct PingPong {
    /// Where the words lay.
    pub words: Words,
    /// Whether each writer demoted its line after writing (CLDEMOTE).
    pub demote: bool,
    /// Median.
    pub p50_ns: f64,
    /// 99th percentile.
    pub p99_ns: f64,
    /// Round trips made.
    pub rounds: u64,
}

/// Round trips between two looks at the clock: few enough to see the spread, enough to hide the clock's cost.
const ROUNDS: u64 = 16;

/// The last value: whoever reads it stops.
const STOP: u64 = u64::MAX;

/// Plays for `seconds`.
pub fn measure(words: Words, demote: bool, seconds: f64) -> anyhow::Result<PingPong> {
    let back = if words == Words::Shared { LINE + 8 } else { 2 * LINE };
    let [played, _] = duet(4 * LINE, |side| {
        if side.number == 0 {
            serve(&side, back, demote, seconds).map(Some)
        } else {
            answer(&side, back, demote).map(|()| None)
        }
    })?;
    let (picoseconds, rounds) = played?.unwrap_or((Histogram::new(3)?, 0));
    let ns = |q| picoseconds.value_at_quantile(q) as f64 / 1e3;
    Ok(PingPong { words, demote, p50_ns: ns(0.5), p99_ns: ns(0.99), rounds })
}

/// Serves: writes, waits for the answer, and times it.
fn serve(side: &Side, back: u32, demote: bool, seconds: f64) -> anyhow::Result<(Histogram<u64>, u64)> {
    let clock = Clock::new();
    let mut picoseconds = Histogram::new(3)?;
    let start = clock.raw();
    let mut last = start;
    let mut n = 0;
    while clock.delta(start, last).as_secs_f64() < seconds {
        for _ in 0..ROUNDS {
            n += 1;
            put(side, LINE, n, demote);
            side.await_word(back, n);
        }
        let now = clock.raw();
        picoseconds.record(clock.delta_as_nanos(last, now) * 1000 / ROUNDS)?;
        last = now;
    }
    put(side, LINE, STOP, false);
    Ok((picoseconds, n))
}

/// Answers whatever comes.
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
    fn every_serve_is_answered() {
        for words in [Words::Shared, Words::Separate] {
            let played = measure(words, true, 0.002).unwrap();
            assert!(played.rounds >= ROUNDS && played.rounds.is_multiple_of(ROUNDS) && played.p50_ns > 0.0);
        }
    }
}
