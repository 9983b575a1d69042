//! What is tried, in which order, under which load, and what of it is chosen.
//!
//! One field after the other, each with what has been chosen of the fields before it; fields that help only together are tried
//! together. A variant that has won its rounds must win again, and must not lose under the other loads: what helps a lone packet may
//! cost packets per second, and the other way round. Of several such variants the one with the highest ratio is chosen.

use std::time::Duration;

use ccnic::Tuning;

use super::report::{Report, Row, Verdict};
use super::rule::{MARGIN, Rounds};

/// What a machine is asked to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Load {
    /// 64-byte packets, many in flight: packets per second.
    Full,
    /// 1472-byte packets, many in flight: packets per second.
    Large,
    /// One packet in flight: round trips per second.
    Lone,
}

impl Load {
    pub(super) const ALL: [Load; 3] = [Load::Full, Load::Large, Load::Lone];

    fn others(self) -> impl Iterator<Item = Load> {
        Load::ALL.into_iter().filter(move |load| *load != self)
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
    /// The threads go before all others on their CPUs, if the system lets them.
    pub(super) priority: bool,
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

/// The variants of a field, or of two.
struct Trial {
    /// What they are made for.
    load: Load,
    variants: &'static [&'static str],
    /// By how much they must be faster.
    margin: f64,
}

/// All that is tried. Polling without a pause takes time of the other thread of a core, and energy, which is not measured.
const TRIALS: [Trial; 6] = [
    // Payload of many lines shows best how it should be requested.
    Trial { load: Load::Large, variants: &["fetch=read"], margin: MARGIN },
    // Inline payload alone waits for the lines of the areas: where requesting them ahead hides that, it wins, elsewhere it loses.
    Trial {
        load: Load::Full,
        variants: &["loaded=1", "loaded=1,ahead=2", "loaded=1,ahead=4"],
        margin: MARGIN,
    },
    Trial { load: Load::Full, variants: &["ahead=1", "ahead=2", "ahead=4"], margin: MARGIN },
    Trial { load: Load::Lone, variants: &["demote=off", "demote=on"], margin: MARGIN },
    // Where CLDEMOTE works, a buffer that its last user still has in its cache may be faster than the line beside the ring.
    Trial { load: Load::Lone, variants: &["inline=0"], margin: MARGIN },
    Trial { load: Load::Lone, variants: &["idle=spin"], margin: 1.1 },
];

/// Tries all variants.
///
/// # Errors
/// When the machine fails.
pub(super) fn measure(machine: &mut impl Machine, effort: Effort) -> anyhow::Result<Report> {
    let (mut tuning, mut rows) = (Tuning::default(), Vec::new());
    for trial in TRIALS {
        let first = rows.len();
        for text in trial.variants {
            rows.push(try_one(machine, effort, &trial, text, tuning)?);
        }
        let tried = rows.get_mut(first..).unwrap_or_default();
        let won = tried.iter().filter(|row| row.verdict == Verdict::Chosen);
        let best = won.max_by(|a, b| a.rounds.ratio().total_cmp(&b.rounds.ratio())).map(|row| row.text);
        if let Some(text) = best {
            tuning = tuning.with(text)?;
        }
        for row in tried.iter_mut().filter(|row| row.verdict == Verdict::Chosen && Some(row.text) != best) {
            row.verdict = Verdict::AnotherIsFaster;
        }
    }
    Ok(Report { tuning, rows })
}

/// One variant against the incumbent.
fn try_one(
    machine: &mut impl Machine,
    effort: Effort,
    trial: &Trial,
    text: &'static str,
    incumbent: Tuning,
) -> anyhow::Result<Row> {
    let Trial { load, margin, .. } = *trial;
    let row = |rounds, verdict| Ok(Row { load, text, rounds, verdict });
    let pair = (incumbent, incumbent.with(text)?);
    let mut set = |load| set(machine, effort, load, pair, Rounds::new(margin));
    let first = set(load)?;
    if first.len() < effort.rounds {
        return row(first, Verdict::NotMeasured);
    }
    if !first.won() {
        return row(first, Verdict::NotFaster);
    }
    let again = set(load)?;
    let others = load.others().map(set).collect::<anyhow::Result<Vec<_>>>()?;
    let verdict = if again.len() < effort.rounds || others.iter().any(|set| set.len() < effort.rounds) {
        Verdict::NotMeasured
    } else if !again.won() {
        Verdict::OnlyOnce
    } else if others.iter().any(Rounds::lost) {
        Verdict::SlowerOtherwise
    } else {
        Verdict::Chosen
    };
    row(first, verdict)
}

/// Fills a set of rounds; fewer than there should be when time runs out.
fn set(
    machine: &mut impl Machine,
    effort: Effort,
    load: Load,
    (incumbent, variant): (Tuning, Tuning),
    mut rounds: Rounds,
) -> anyhow::Result<Rounds> {
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
        } else {
            rounds.add_disturbed();
        }
    }
    Ok(rounds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ccnic::{Demote, FetchMode, IdleMode};

    const EFFORT: Effort = Effort {
        rounds: 9,
        slice: Duration::from_micros(200),
        limit: Duration::from_millis(300),
        priority: false,
    };

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

    #[test]
    fn a_machine_that_is_mostly_busy_is_not_calm() {
        assert!(measured(usize::MAX, |_, _| 10.0).calm());
        let mut busy = Fake { rate: |_, _| 10.0, slices: 0, most: usize::MAX };
        let report = measure(&mut Busy(&mut busy), EFFORT).unwrap();
        assert!(report.complete() && !report.calm());
    }

    /// Something else takes a CPU in most slices.
    struct Busy<'a, M>(&'a mut M);

    impl<F: FnMut(Load, Tuning) -> f64> Machine for Busy<'_, Fake<F>> {
        fn rate(&mut self, load: Load, tuning: Tuning, slice: Duration) -> anyhow::Result<Option<f64>> {
            let rate = self.0.rate(load, tuning, slice)?;
            Ok(rate.filter(|_| self.0.slices % 5 < 2))
        }

        fn is_late(&self) -> bool {
            self.0.is_late()
        }
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
            let read = if tuning.fetch == FetchMode::Read && load == Load::Large { 1.1 } else { 1.0 };
            let ahead = [1.0, 1.1, 1.3, 1.2, 1.2][usize::from(tuning.ahead)];
            let spin = if tuning.idle == IdleMode::Spin { 1.08 } else { 1.0 };
            let inline = if tuning.loaded > 0 { 0.5 } else { 1.0 };
            10.0 * read * ahead * spin * inline
        };
        let report = measured(usize::MAX, rate);
        assert_eq!(report.tuning.to_string(), "fetch=read,ahead=2,demote=auto,idle=pause,inline=1,loaded=0");
        assert_eq!(verdict(&report, "ahead=2"), Verdict::Chosen);
        assert_eq!(verdict(&report, "ahead=4"), Verdict::AnotherIsFaster);
        assert_eq!(verdict(&report, "idle=spin"), Verdict::NotFaster, "by 8 %");
    }

    #[test]
    fn fields_that_win_only_together_are_chosen_together() {
        let rate = |load, tuning: Tuning| match (tuning.loaded, tuning.ahead, load) {
            (1, 0, Load::Full) => 7.0,
            (1, ahead, Load::Full) => 11.0 + f64::from(ahead),
            _ => 10.0,
        };
        let report = measured(usize::MAX, rate);
        assert_eq!(report.tuning.to_string(), "fetch=own,ahead=4,demote=auto,idle=pause,inline=1,loaded=1");
        assert_eq!(verdict(&report, "loaded=1"), Verdict::NotFaster);
        assert_eq!(verdict(&report, "loaded=1,ahead=2"), Verdict::AnotherIsFaster);
    }

    #[test]
    fn what_helps_one_load_must_not_harm_another() {
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
        let report = measured(110, |_, tuning| if tuning.fetch == FetchMode::Read { 12.0 } else { 10.0 });
        assert_eq!(report.tuning.to_string(), "fetch=read,ahead=0,demote=auto,idle=pause,inline=1,loaded=0");
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
