//! When a variant has won: the rule, apart from everything that is measured.
//!
//! A *round* measures the incumbent and a variant one after the other, now this one first, now that one, and gives the ratio of their
//! rates: what slows the machine down for longer than a round slows both. A variant that is faster by its margin ([`MARGIN`]) or more in
//! two thirds of a set of rounds has won the set; one that is slower by [`MARGIN`] in more than half of the rounds has lost it. Chance wins a set
//! seldom; to be chosen, a variant must win twice (`trials.rs`).

/// By so much a variant must be faster for its round to count, unless it costs something that is not measured.
pub(super) const MARGIN: f64 = 1.03;

/// A set of rounds.
#[derive(Debug, Clone)]
pub(super) struct Rounds {
    margin: f64,
    /// The rates of the incumbent and of the variant.
    rates: Vec<(f64, f64)>,
    disturbed: usize,
}

impl Rounds {
    /// None yet, of a variant that has to be faster by this margin.
    pub(super) fn new(margin: f64) -> Rounds {
        Rounds { margin, rates: Vec::new(), disturbed: 0 }
    }

    pub(super) fn add(&mut self, incumbent: f64, variant: f64) {
        self.rates.push((incumbent, variant));
    }

    /// Something else took a CPU during a round, which counts for nothing.
    pub(super) fn add_disturbed(&mut self) {
        self.disturbed += 1;
    }

    /// How many rounds were disturbed.
    pub(super) fn disturbed(&self) -> usize {
        self.disturbed
    }

    pub(super) fn len(&self) -> usize {
        self.rates.len()
    }

    fn ratios(&self) -> impl Iterator<Item = f64> {
        self.rates.iter().map(|(incumbent, variant)| variant / incumbent)
    }

    /// Rounds in which the variant was faster by the margin.
    pub(super) fn faster(&self) -> usize {
        self.ratios().filter(|ratio| *ratio >= self.margin).count()
    }

    /// The variant is clearly faster.
    pub(super) fn won(&self) -> bool {
        self.len() > 0 && 3 * self.faster() >= 2 * self.len()
    }

    /// The variant is clearly slower.
    pub(super) fn lost(&self) -> bool {
        2 * self.ratios().filter(|ratio| *ratio <= 1.0 / MARGIN).count() > self.len()
    }

    /// The median ratio of the variant's rate to the incumbent's.
    pub(super) fn ratio(&self) -> f64 {
        median(self.ratios())
    }

    /// The median rates of the incumbent and of the variant.
    pub(super) fn rates(&self) -> (f64, f64) {
        (median(self.rates.iter().map(|rates| rates.0)), median(self.rates.iter().map(|rates| rates.1)))
    }
}

/// The middle one, or the mean of the two in the middle; 0 of none.
fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    let at = |i: usize| values.get(i).copied().unwrap_or_default();
    let half = values.len() / 2;
    if values.len().is_multiple_of(2) { (at(half.saturating_sub(1)) + at(half)) / 2.0 } else { at(half) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rounds with these ratios, on a machine whose speed changes from round to round.
    fn rounds(ratios: &[f64]) -> Rounds {
        let mut rounds = Rounds::new(MARGIN);
        ratios.iter().enumerate().for_each(|(i, ratio)| {
            let speed = 10.0 + (i % 3) as f64 * 20.0;
            rounds.add(speed, speed * ratio);
        });
        rounds
    }

    #[test]
    fn three_percent_in_two_thirds_of_the_rounds_win() {
        for (ratios, won, lost) in [
            (&[1.04; 9][..], true, false),
            (&[1.02; 9], false, false),
            (&[1.04, 1.04, 1.04, 1.04, 1.04, 1.04, 0.1, 0.1, 0.1], true, false),
            (&[1.04, 1.04, 1.04, 1.04, 1.04, 1.0, 1.0, 1.0, 9.0], true, false),
            (&[1.04, 1.04, 1.04, 1.04, 1.0, 1.0, 1.0, 1.0, 9.0], false, false),
            (&[90.0, 90.0, 0.9, 0.9, 0.9, 0.9, 1.0, 1.0, 1.0], false, false),
            (&[0.9, 0.9, 0.9, 0.9, 0.9, 90.0, 1.0, 1.0, 1.0], false, true),
            (&[0.98; 9], false, false),
            (&[1.0], false, false),
            (&[], false, false),
        ] {
            let rounds = rounds(ratios);
            assert_eq!((rounds.won(), rounds.lost()), (won, lost), "{ratios:?}");
        }
    }

    #[test]
    fn a_higher_margin_takes_more_to_win_and_no_more_to_lose() {
        for (ratio, won, lost) in [(1.08, false, false), (1.12, true, false), (0.96, false, true)] {
            let mut rounds = Rounds::new(1.1);
            (0..9).for_each(|_| rounds.add(10.0, 10.0 * ratio));
            assert_eq!((rounds.won(), rounds.lost()), (won, lost), "{ratio}");
        }
    }

    #[test]
    fn medians() {
        let even = rounds(&[1.0, 1.5, 2.0, 8.0]);
        assert_eq!((even.len(), even.faster(), even.ratio()), (4, 3, 1.75));
        let odd = rounds(&[3.0, 1.0, 2.0]);
        assert_eq!((odd.ratio(), odd.rates()), (2.0, (30.0, 30.0)));
        assert_eq!(rounds(&[]).ratio(), 0.0);
    }
}
