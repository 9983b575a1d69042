//! What was measured, as the table of `ccnicd --tune`.

use std::fmt::Write;

use ccnic::Tuning;

use super::rule::Rounds;
use super::trials::Load;

/// A measurement of a machine.
#[derive(Debug)]
pub(super) struct Report {
    /// What was chosen.
    pub(super) tuning: Tuning,
    pub(super) rows: Vec<Row>,
}

/// One variant against the incumbent.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) load: Load,
    /// The field and its value.
    pub(super) text: &'static str,
    pub(super) rounds: Rounds,
    pub(super) verdict: Verdict,
}

/// What came of a variant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Chosen,
    NotFaster,
    /// It won, and then did not.
    OnlyOnce,
    /// It won, and lost under the other load.
    SlowerOtherwise,
    AnotherIsFaster,
    NotMeasured,
}

impl Verdict {
    const fn text(self) -> &'static str {
        match self {
            Verdict::Chosen => "chosen",
            Verdict::NotFaster => "not clearly faster",
            Verdict::OnlyOnce => "faster only once",
            Verdict::SlowerOtherwise => "slower under other load",
            Verdict::AnotherIsFaster => "another is faster",
            Verdict::NotMeasured => "CPUs were busy",
        }
    }
}

/// A rate as people read it.
fn rate(load: Load, per_second: f64) -> String {
    match load {
        Load::Full | Load::Large => format!("{:.1} Mpps", per_second / 1e6),
        Load::Lone => format!("{:.0} ns", 1e9 / per_second),
    }
}

impl Report {
    /// Every variant was measured.
    pub(super) fn complete(&self) -> bool {
        self.rows.iter().all(|row| row.verdict != Verdict::NotMeasured)
    }

    /// Other processes took a CPU seldom enough for the result to be that of the machine: with them on both CPUs, what wins on an idle
    /// machine mostly does not.
    pub(super) fn calm(&self) -> bool {
        let sum = |count: fn(&Rounds) -> usize| self.rows.iter().map(|row| count(&row.rounds)).sum::<usize>();
        2 * sum(Rounds::disturbed) <= sum(Rounds::len)
    }

    /// The table: medians of rounds.
    pub(super) fn text(&self) -> String {
        let mut text = format!(
            "{:<16} {:>10} {:>10} {:>6} {:>9}  {}\n",
            "variant", "without", "with", "ratio", "faster in", "result"
        );
        for Row { load, text: variant, rounds, verdict } in &self.rows {
            let (incumbent, with) = rounds.rates();
            let cells = if rounds.len() == 0 {
                ["-"; 4].map(str::to_owned)
            } else {
                [
                    rate(*load, incumbent),
                    rate(*load, with),
                    format!("{:.3}", rounds.ratio()),
                    format!("{} of {}", rounds.faster(), rounds.len()),
                ]
            };
            let [incumbent, with, ratio, faster] = cells;
            let result = verdict.text();
            // Writing to a string cannot fail.
            let _ =
                writeln!(text, "{variant:<16} {incumbent:>10} {with:>10} {ratio:>6} {faster:>9}  {result}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_a_line_for_each_variant_in_80_columns() {
        let mut rounds = Rounds::new(1.03);
        (0..31).for_each(|_| rounds.add(22.5e6, 25.0e6));
        let row = |load, text, verdict| Row { load, text, rounds: rounds.clone(), verdict };
        let mut report = Report {
            tuning: Tuning::default(),
            rows: vec![
                row(Load::Full, "fetch=read", Verdict::Chosen),
                row(Load::Lone, "demote=off", Verdict::SlowerOtherwise),
            ],
        };
        assert!(report.complete());
        report.rows.push(Row {
            load: Load::Full,
            text: "ahead=1",
            rounds: Rounds::new(1.03),
            verdict: Verdict::NotMeasured,
        });
        assert!(!report.complete());
        let text = report.text();
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines.len(), 4, "{text}");
        assert_eq!(lines[1][..9], ["fetch=read", "22.5", "Mpps", "25.0", "Mpps", "1.111", "31", "of", "31"]);
        assert_eq!(lines[2][..5], ["demote=off", "44", "ns", "40", "ns"]);
        assert_eq!(lines[3], ["ahead=1", "-", "-", "-", "-", "CPUs", "were", "busy"]);
        assert!(text.lines().all(|line| line.len() <= 80), "{text}");
    }
}
