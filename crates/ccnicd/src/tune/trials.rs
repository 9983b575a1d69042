//! What is tried, in which order, under which load, and what of it is chosen.
//!
//! One field after the other, each with what has been chosen of the fields before it. A variant that has won its rounds must win
//! again, and must not lose under the other load: what helps a lone packet may cost packets per second, and the other way round. Of
//! several such variants the one with the highest ratio is chosen.

use std::time::Duration;

use ccnic::Tuning;

use super::report::{Report, Row, Verdict};
use super::rule::Rounds;

/// What a machine is asked to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Load {
    /// 64-byte packets, many in flight: packets per second.
    Full,
    /// One packet in flight: round trips per second.
    Lone,
}

impl Load {
    const fn other(self) -> Load {
        match self {
            Load::Full => Load::Lone,
            Load::Lone => Load::Full,
        }
    }
}

/// How much is measured.
#[derive(Debug, Clone, Copy)]
pub(super) struct Effort {
    /// Rounds of a set.
    pub(super) rounds: usize,
    /// How long each variant runs in a round.
    pub(super) slice: Duration,
    /// How long all of it may take. What has not been measured then stays at its default.
    pub(super) limit: Duration,
}

/// What runs the loads.
pub(super) trait Machine {
    /// The rate under a load with a tuning on both sides; `None` when something else took a CPU meanwhile.
    ///
    /// # Errors
    /// When the interface does not work, or does not go on.
    fn rate(&mut self, load: Load, tuning: Tuning, slice: Duration) -> anyhow::Result<Option<f64>>;

    /// The time for all of it is over.
    fn is_late(&self) -> bool;
}

/// The variants of each field and the load that they are made for.
const TRIALS: [(Load, &[&str]); 4] = [
    (Load::Full, &["fetch=read"]),
    (Load::Full, &["ahead=1", "ahead=2", "ahead=4"]),
    (Load::Lone, &["demote=off", "demote=on"]),
    (Load::Lone, &["idle=spin"]),
];

/// Tries all variants.
///
/// # Errors
/// When the machine fails.
pub(super) fn measure(machine: &mut impl Machine, effort: Effort) -> anyhow::Result<Report> {
    let (mut tuning, mut rows) = (Tuning::default(), Vec::new());
    for (load, variants) in TRIALS {
        let mut trials = Vec::new();
        for text in variants {
            let variant = tuning.with(text)?;
            trials.push((variant, try_one(machine, effort, load, text, (tuning, variant))?));
        }
        let best = trials.iter().enumerate().filter(|(_, (_, row))| row.verdict == Verdict::Chosen);
        let best = best.max_by(|a, b| a.1.1.rounds.ratio().total_cmp(&b.1.1.rounds.ratio())).map(|(i, _)| i);
        for (i, (variant, mut row)) in trials.into_iter().enumerate() {
            if best == Some(i) {
                tuning = variant;
            } else if row.verdict == Verdict::Chosen {
                row.verdict = Verdict::AnotherIsFaster;
            }
            rows.push(row);
        }
    }
    Ok(Report { tuning, rows })
}

/// One variant against the incumbent.
fn try_one(
    machine: &mut impl Machine,
    effort: Effort,
    load: Load,
    text: &'static str,
    pair: (Tuning, Tuning),
) -> anyhow::Result<Row> {
    let row = |rounds, verdict| Ok(Row { load, text, rounds, verdict });
    let first = set(machine, effort, load, pair)?;
    if first.len() < effort.rounds {
        return row(first, Verdict::NotMeasured);
    }
    if !first.won() {
        return row(first, Verdict::NotFaster);
    }
    let again = set(machine, effort, load, pair)?;
    let other = set(machine, effort, load.other(), pair)?;
    let verdict = if again.len().min(other.len()) < effort.rounds {
        Verdict::NotMeasured
    } else if !again.won() {
        Verdict::OnlyOnce
    } else if other.lost() {
        Verdict::SlowerOtherwise
    } else {
        Verdict::Chosen
    };
    row(first, verdict)
}

/// A set of rounds; fewer than there should be when time runs out.
fn set(
    machine: &mut impl Machine,
    effort: Effort,
    load: Load,
    (incumbent, variant): (Tuning, Tuning),
) -> anyhow::Result<Rounds> {
    let mut rounds = Rounds::default();
    while rounds.len() < effort.rounds && !machine.is_late() {
        let variant_first = rounds.len() % 2 == 1;
        let order = if variant_first { [variant, incumbent] } else { [incumbent, variant] };
        let mut rates = [0.0; 2];
        let mut undisturbed = true;
        for (rate, tuning) in rates.iter_mut().zip(order) {
            if undisturbed {
                let measured = machine.rate(load, tuning, effort.slice)?;
                undisturbed = measured.is_some();
                *rate = measured.unwrap_or_default();
            }
        }
        // A round in which something else ran counts for nothing, and is made again.
        if undisturbed {
            let [one, two] = rates;
            let (incumbent, variant) = if variant_first { (two, one) } else { (one, two) };
            rounds.add(incumbent, variant);
        }
    }
    Ok(rounds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ccnic::{Demote, FetchMode, IdleMode};

    const EFFORT: Effort =
        Effort { rounds: 9, slice: Duration::from_micros(200), limit: Duration::from_millis(300) };

    /// A machine with a rate of its own for each tuning. Its speed wanders; every few slices are disturbed.
    struct Fake<F> {
        rate: F,
        slices: usize,
        /// Late after so many.
        most: usize,
    }

    impl<F: FnMut(Load, Tuning) -> f64> Machine for Fake<F> {
        fn rate(&mut self, load: Load, tuning: Tuning, _: Duration) -> anyhow::Result<Option<f64>> {
            self.slices += 1;
            let wander = 1.0 + (self.slices / 64 % 5) as f64;
            let rate = wander * (self.rate)(load, tuning);
            Ok((!self.slices.is_multiple_of(7)).then_some(rate))
        }

        fn is_late(&self) -> bool {
            self.slices >= self.most
        }
    }

    fn measured(most: usize, rate: impl FnMut(Load, Tuning) -> f64) -> Report {
        measure(&mut Fake { rate, slices: 0, most }, EFFORT).unwrap()
    }

    fn verdict(report: &Report, text: &str) -> Verdict {
        report.rows.iter().find(|row| row.text == text).unwrap().verdict
    }

    #[test]
    fn a_machine_on_which_nothing_matters_keeps_the_default() {
        let report = measured(usize::MAX, |_, _| 10.0);
        assert_eq!(report.tuning, Tuning::default());
        assert!(report.complete() && report.rows.iter().all(|row| row.verdict == Verdict::NotFaster));
    }

    #[test]
    fn what_is_clearly_faster_is_chosen_and_of_several_the_fastest() {
        let rate = |load, tuning: Tuning| {
            let read = if tuning.fetch == FetchMode::Read && load == Load::Full { 1.1 } else { 1.0 };
            let ahead = [1.0, 1.1, 1.3, 1.2, 1.2][usize::from(tuning.ahead)];
            let spin = if tuning.idle == IdleMode::Spin { 1.02 } else { 1.0 };
            10.0 * read * ahead * spin
        };
        let report = measured(usize::MAX, rate);
        assert_eq!(report.tuning.to_string(), "fetch=read,ahead=2,demote=auto,idle=pause");
        assert_eq!(verdict(&report, "ahead=2"), Verdict::Chosen);
        assert_eq!(verdict(&report, "ahead=4"), Verdict::AnotherIsFaster);
        assert_eq!(verdict(&report, "idle=spin"), Verdict::NotFaster, "by 2 %");
    }

    #[test]
    fn what_helps_one_load_must_not_harm_the_other() {
        let rate = |load, tuning: Tuning| match (tuning.demote, load) {
            (Demote::On, Load::Lone) => 12.0,
            (Demote::On, Load::Full) => 5.0,
            _ => 10.0,
        };
        let report = measured(usize::MAX, rate);
        assert_eq!(report.tuning, Tuning::default());
        assert_eq!(verdict(&report, "demote=on"), Verdict::SlowerOtherwise);
    }

    #[test]
    fn what_wins_once_by_chance_is_not_chosen() {
        let mut slices = 0;
        let rate = |_, tuning: Tuning| {
            slices += usize::from(tuning.fetch == FetchMode::Read);
            if tuning.fetch == FetchMode::Read && slices <= 11 { 20.0 } else { 10.0 }
        };
        let report = measured(usize::MAX, rate);
        assert_eq!((report.tuning, verdict(&report, "fetch=read")), (Tuning::default(), Verdict::OnlyOnce));
    }

    #[test]
    fn what_there_is_no_time_for_stays_at_its_default() {
        let report = measured(80, |_, tuning| if tuning.fetch == FetchMode::Read { 12.0 } else { 10.0 });
        assert_eq!(report.tuning.to_string(), "fetch=read,ahead=0,demote=auto,idle=pause");
        assert!(!report.complete() && verdict(&report, "idle=spin") == Verdict::NotMeasured);
        assert_eq!(measured(0, |_, _| 10.0).tuning, Tuning::default());
    }

    #[test]
    fn a_machine_that_fails_is_an_error() {
        struct Broken;
        impl Machine for Broken {
            fn rate(&mut self, _: Load, _: Tuning, _: Duration) -> anyhow::Result<Option<f64>> {
                anyhow::bail!("broken")
            }
            fn is_late(&self) -> bool {
                false
            }
        }
        assert!(measure(&mut Broken, EFFORT).is_err());
    }
}
