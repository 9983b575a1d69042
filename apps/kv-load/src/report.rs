//! What a run has shown, as text and as JSON.

use std::fmt::Write;

use serde::Serialize;

use crate::run::Outcome;
use crate::stats::Figures;

/// A run's figures.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// The store.
    pub server: String,
    /// What was asked for.
    pub workload: String,
    /// How requests were sent.
    pub load: String,
    /// Seconds that were measured.
    pub seconds: f64,
    /// Seconds of the preload.
    pub preload_seconds: Option<f64>,
    /// Requests a second that were answered.
    pub requests_per_s: f64,
    /// Gets that were answered.
    pub gets: u64,
    /// Sets that were answered.
    pub sets: u64,
    /// Requests that were answered in all, warm-up and end included.
    pub answered: u64,
    /// The part of the gets that found their object.
    pub hit_rate: Option<f64>,
    /// Of all answers, from the time when each request was due, in nanoseconds.
    pub latency_ns: Option<Latency>,
    /// Requests without an answer in time.
    pub lost: u64,
    /// Requests that were due and never sent.
    pub unsent: u64,
    /// Requests that the store refused.
    pub refused: u64,
    /// What it said, the first time.
    pub refusal: Option<String>,
    /// Values that are not what was written.
    pub corrupt: u64,
    /// Values that were overwritten before they were asked for.
    pub stale: u64,
    /// Datagrams that were no answer.
    pub strays: u64,
    /// What the server has added to its `stats` while it answered `answered` requests, with --stats.
    pub server_stats: Option<Figures>,
}

/// Percentiles in nanoseconds.
#[derive(Debug, Clone, Copy, Serialize)]
#[allow(missing_docs)]
pub struct Latency {
    pub mean: f64,
    pub min: u64,
    pub p50: u64,
    pub p90: u64,
    pub p99: u64,
    pub p99_9: u64,
    pub max: u64,
}

impl Report {
    /// The figures of an outcome.
    pub fn new(server: String, workload: String, load: String, outcome: &Outcome) -> Report {
        let tally = &outcome.tally;
        let ns = &tally.latencies;
        let at = |share| ns.value_at_quantile(share);
        let latency_ns = (!ns.is_empty()).then(|| Latency {
            mean: ns.mean(),
            min: ns.min(),
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p99_9: at(0.999),
            max: ns.max(),
        });
        Report {
            server,
            workload,
            load,
            seconds: outcome.seconds,
            preload_seconds: outcome.preload.map(|(seconds, _)| seconds),
            requests_per_s: (tally.gets + tally.sets) as f64 / outcome.seconds,
            gets: tally.gets,
            sets: tally.sets,
            answered: tally.answered,
            hit_rate: (tally.gets > 0).then(|| tally.hits as f64 / tally.gets as f64),
            latency_ns,
            lost: tally.lost,
            unsent: outcome.unsent,
            refused: tally.refused,
            refusal: tally.refusal.clone(),
            corrupt: tally.corrupt,
            stale: tally.stale,
            strays: outcome.strays,
            server_stats: None,
        }
    }

    /// True when no answer was wrong.
    pub fn is_right(&self) -> bool {
        self.corrupt + self.stale == 0
    }

    /// A table for people.
    pub fn text(&self) -> String {
        let mut text = format!("{}\n{}\n{}\n\n", self.server, self.workload, self.load);
        let mut row = |name: &str, value: String| {
            // Writing to a string does not fail.
            let _ = writeln!(text, "{name:<12}{value:>14}");
        };
        row("requests/s", grouped(self.requests_per_s.round() as u64));
        row("gets", grouped(self.gets));
        row("sets", grouped(self.sets));
        row("hit rate", self.hit_rate.map_or("-".to_owned(), |rate| format!("{:.2} %", rate * 100.0)));
        if let Some(ns) = &self.latency_ns {
            let all =
                [("p50", ns.p50), ("p90", ns.p90), ("p99", ns.p99), ("p99.9", ns.p99_9), ("longest", ns.max)];
            all.into_iter().for_each(|(name, value)| row(name, microseconds(value)));
        }
        row("lost", grouped(self.lost));
        row("refused", grouped(self.refused));
        if self.strays > 0 {
            row("strays", grouped(self.strays));
        }
        text.push('\n');
        text.push_str(&self.notes().join("\n"));
        text
    }

    /// What must be known to read the figures.
    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.unsent > 0 {
            let unsent = self.unsent;
            notes.push(format!(
                "{unsent} requests were due and never sent: this rate is more than was answered."
            ));
        }
        if let Some(refusal) = &self.refusal {
            notes.push(format!("The first refusal: {refusal}"));
        }
        notes.push(if self.is_right() {
            "Every value was verified.".to_owned()
        } else {
            format!(
                "DEFECT: {} answers were wrong, {} values were overwritten before.",
                self.corrupt, self.stale
            )
        });
        notes
    }
}

fn microseconds(ns: u64) -> String {
    format!("{:.1} \u{b5}s", ns as f64 / 1e3)
}

/// Digits in groups of three.
fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_grouped() {
        assert_eq!([0, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1 000", "1 234 567"]);
    }
}
