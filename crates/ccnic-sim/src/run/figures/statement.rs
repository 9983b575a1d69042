//! Statements: a published value or order, the simulated one, and the error; and leads of this project's default design, which nobody has
//! published.

use serde::{Deserialize, Serialize};

use super::expr::{Expr, NEIGHBOURS, Neighbour, Source};

/// What a paper says.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Statement {
    /// Its name, unique in the figure.
    pub id: String,
    /// What it says, in a sentence.
    pub text: String,
    /// Where in the paper; empty for a lead.
    #[serde(default)]
    pub section: String,
    /// The value; none for an order, which holds or does not, and for a lead.
    pub published: Option<Published>,
    /// What the value is in; `%` of a share, `x` of a factor, empty of a count.
    #[serde(default)]
    pub unit: String,
    /// The expression that computes ours.
    pub ours: String,
    /// The tolerance.
    pub tolerance: Tolerance,
    /// An input of the calibration: agreement is no evidence.
    #[serde(default)]
    pub calibrated: bool,
    /// If ours is out of tolerance: the cause, if it is known.
    #[serde(default)]
    pub cause: String,
    /// If it is not known: what it may be, which no experiment has tested.
    #[serde(default)]
    pub hypothesis: String,
}

/// A published value.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, Serialize)]
#[serde(untagged)]
pub enum Published {
    /// A number.
    Value(f64),
    /// A range: the paper gives several values, or a bound.
    Range([f64; 2]),
}

impl Published {
    /// The published value that is nearest to ours.
    pub fn nearest(self, ours: f64) -> f64 {
        match self {
            Published::Value(value) => value,
            Published::Range([low, high]) => ours.clamp(low, high.max(low)),
        }
    }
}

/// Classes of tolerance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tolerance {
    /// A count: 2 %, or 0.02.
    Exact,
    /// A calibrated input: 3 %.
    Calibrated,
    /// A latency or a rate: 10 %.
    Absolute,
    /// A ratio of two: 15 %.
    Ratio,
    /// A ratio of two that is told as an advantage, "37 % better": 15 % of the ratio, and 25 % of what it is above 1. A ratio of 1.03 is
    /// not far from one of 1.2, but most of the advantage is missing.
    Advantage,
    /// Where two curves cross: within a factor of 1.5.
    Crossover,
    /// `1 - a / b`, judged by its complement `a / b`: 15 % of that. 77 % below is nearly twice as much as 88 % below.
    Complement,
    /// What a feature is worth, the difference to no effect at all: 25 % of that.
    Ablation,
    /// A sensitivity: 0.05 up or down.
    Sensitivity,
    /// An order: it holds.
    Order,
    /// How many times better this project's default design is than the paper's: 1 or more, to 1 %.
    Lead,
}

impl Tolerance {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Tolerance::Exact => "exact",
            Tolerance::Calibrated => "3 %",
            Tolerance::Absolute => "10 %",
            Tolerance::Ratio => "15 %",
            Tolerance::Advantage => "15 %, and 25 % of the advantage",
            Tolerance::Crossover => "factor of 1.5",
            Tolerance::Complement => "15 % of the rest",
            Tolerance::Ablation => "25 % of the effect",
            Tolerance::Sensitivity => "0.05",
            Tolerance::Order => "holds",
            Tolerance::Lead => "1 or more",
        }
    }
}

/// A statement with its result.
#[derive(Debug, Clone, Serialize)]
pub struct Verdict {
    /// The figure.
    pub figure: String,
    /// The statement's name.
    pub statement: String,
    /// What it says.
    pub text: String,
    /// Where in the paper.
    pub section: String,
    /// What both values are in.
    pub unit: String,
    /// The published value; 1 for an order and for a lead.
    pub published: Published,
    /// Ours; none when it is not simulated.
    pub simulated: Option<f64>,
    /// The error, as a share of the published value; of its complement, or of the effect, if that is what is judged.
    pub error: Option<f64>,
    /// The least and the largest of ours and of those on machines whose paths are 1 % shorter and longer.
    pub range: Option<[f64; 2]>,
    /// Ours is within its tolerance, all over that range.
    pub within: Option<bool>,
    /// It is at one end of the range, and not at the other: counted as out.
    pub tie: bool,
    /// The tolerance.
    pub tolerance: Tolerance,
    /// `calibrated` or `predicted`; `own` for a lead.
    pub calibration: &'static str,
    /// Why it is out of tolerance, or not simulated.
    pub cause: String,
}

impl Verdict {
    /// The value stands, without a verdict: it was simulated too briefly.
    pub fn withdraw(&mut self) {
        (self.within, self.tie, self.cause) = (None, false, String::new());
    }
}

impl Statement {
    /// Compares.
    pub fn judge(&self, figure: &str, source: &dyn Source) -> Verdict {
        let published = self.published.unwrap_or(Published::Value(1.0));
        let ours = self.value(source);
        let nearest = ours.as_ref().ok().map(|x| published.nearest(*x));
        let others = (0..NEIGHBOURS).filter_map(|n| self.value(&Neighbour(source, n)).ok());
        let all: Vec<f64> = ours.iter().copied().chain(others).collect();
        let range = ours.as_ref().ok().map(|_| {
            [all.iter().copied().fold(f64::MAX, f64::min), all.iter().copied().fold(f64::MIN, f64::max)]
        });
        let good = all.iter().filter(|ours| self.within(**ours, published.nearest(**ours))).count();
        let within = ours.as_ref().ok().map(|_| good == all.len());
        let cause = match (&ours, within) {
            (Err(reason), _) => reason.clone(),
            (_, Some(false)) => self.explanation(),
            _ => String::new(),
        };
        Verdict {
            figure: figure.into(),
            statement: self.id.clone(),
            text: self.text.clone(),
            section: self.section.clone(),
            unit: self.unit.clone(),
            published,
            error: ours.as_ref().ok().zip(nearest).map(|(ours, wanted)| self.error(*ours, wanted)),
            simulated: ours.ok(),
            range,
            within,
            tie: good > 0 && good < all.len(),
            tolerance: self.tolerance,
            calibration: match self.tolerance {
                Tolerance::Lead => "own",
                _ if self.calibrated => "calibrated",
                _ => "predicted",
            },
            cause,
        }
    }

    /// The cause, and what is no more than a hypothesis, called so.
    fn explanation(&self) -> String {
        let hypothesis = match self.hypothesis.as_str() {
            "" => String::new(),
            text => format!("Hypothesis, not tested: {text}"),
        };
        [self.cause.as_str(), &hypothesis].join(" ").trim().to_owned()
    }

    fn value(&self, source: &dyn Source) -> Result<f64, String> {
        let ours = Expr::parse(&self.ours)?.value(source)?;
        if ours.is_finite() { Ok(ours) } else { Err("it has no value".into()) }
    }

    /// A feature that made no difference has this value.
    fn nothing(&self) -> f64 {
        if self.unit == "x" { 1.0 } else { 0.0 }
    }

    fn error(&self, ours: f64, wanted: f64) -> f64 {
        match self.tolerance {
            Tolerance::Complement => (1.0 - ours) / (1.0 - wanted) - 1.0,
            Tolerance::Ablation | Tolerance::Advantage => (ours - wanted) / (wanted - self.nothing()),
            _ => ours / wanted - 1.0,
        }
    }

    fn within(&self, ours: f64, wanted: f64) -> bool {
        let off = (ours - wanted).abs();
        let share = |most: f64| off <= most * wanted.abs();
        let nothing = self.nothing();
        match self.tolerance {
            Tolerance::Exact => share(0.02) || off <= 0.02,
            Tolerance::Calibrated => share(0.03),
            Tolerance::Absolute => share(0.10),
            Tolerance::Ratio => share(0.15),
            Tolerance::Crossover => (wanted / 1.5..=wanted * 1.5).contains(&ours),
            Tolerance::Complement => off <= 0.15 * (1.0 - wanted).abs(),
            Tolerance::Ablation => off <= 0.25 * (wanted - nothing).abs(),
            Tolerance::Advantage => share(0.15) && off <= 0.25 * (wanted - nothing).abs(),
            Tolerance::Sensitivity => off <= 0.05,
            Tolerance::Order => ours == 1.0,
            Tolerance::Lead => ours >= 0.99,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::expr::Place;
    use super::*;

    struct Nothing;

    impl Source for Nothing {
        fn values(&self, _: &str, _: &str) -> Result<Vec<(Place, f64)>, String> {
            Err("needs a PCIe device".into())
        }
    }

    fn statement(tolerance: Tolerance, unit: &str, published: Published, ours: &str) -> Statement {
        Statement {
            id: "one".into(),
            text: "a".into(),
            section: "5".into(),
            published: Some(published),
            unit: unit.into(),
            ours: ours.into(),
            tolerance,
            calibrated: false,
            cause: "because".into(),
            hypothesis: String::new(),
        }
    }

    #[track_caller]
    fn judge(tolerance: Tolerance, unit: &str, published: Published, ours: &str) -> Verdict {
        statement(tolerance, unit, published, ours).judge("1", &Nothing)
    }

    #[test]
    fn tolerances() {
        use Published::{Range, Value};
        let within = |t, unit, published, ours| judge(t, unit, published, ours).within;
        assert_eq!(within(Tolerance::Absolute, "ns", Value(490.0), "535"), Some(true));
        assert_eq!(within(Tolerance::Absolute, "ns", Value(490.0), "545"), Some(false));
        assert_eq!(within(Tolerance::Exact, "", Value(0.25), "0.265"), Some(true));
        assert_eq!(within(Tolerance::Exact, "", Value(0.25), "0.28"), Some(false));
        assert_eq!(within(Tolerance::Ablation, "x", Value(1.2), "1.16"), Some(true));
        assert_eq!(within(Tolerance::Ablation, "x", Value(1.2), "1.01"), Some(false));
        assert_eq!(within(Tolerance::Ablation, "%", Value(0.2), "0.16"), Some(true));
        assert_eq!(within(Tolerance::Complement, "%", Value(0.88), "0.77"), Some(false));
        assert_eq!(within(Tolerance::Complement, "%", Value(0.88), "0.87"), Some(true));
        assert_eq!(within(Tolerance::Ratio, "x", Range([3.3, 4.8]), "4"), Some(true));
        assert_eq!(within(Tolerance::Ratio, "x", Range([3.3, 4.8]), "5.4"), Some(true));
        assert_eq!(within(Tolerance::Ratio, "x", Range([3.3, 4.8]), "5.6"), Some(false));
        assert_eq!(within(Tolerance::Advantage, "x", Value(1.2), "1.16"), Some(true));
        assert_eq!(within(Tolerance::Advantage, "x", Value(1.2), "1.03"), Some(false));
        assert_eq!(within(Tolerance::Advantage, "x", Value(3.0), "2.6"), Some(true));
        assert_eq!(within(Tolerance::Advantage, "x", Value(3.0), "2.52"), Some(false));
        assert_eq!(within(Tolerance::Advantage, "x", Range([1.13, 1.21]), "1.06"), Some(false));
        assert_eq!(within(Tolerance::Crossover, "bytes", Value(1024.0), "700"), Some(true));
        assert_eq!(within(Tolerance::Crossover, "bytes", Value(1024.0), "650"), Some(false));
        assert_eq!(within(Tolerance::Sensitivity, "x", Value(1.13), "1.17"), Some(true));
        assert_eq!(within(Tolerance::Lead, "x", Value(1.0), "1.4"), Some(true));
        assert_eq!(within(Tolerance::Lead, "x", Value(1.0), "0.98"), Some(false));
    }

    /// A series whose values differ between machines.
    struct Jitter([f64; 3]);

    impl Source for Jitter {
        fn values(&self, _: &str, _: &str) -> Result<Vec<(Place, f64)>, String> {
            Ok(vec![(Place { name: String::new(), number: 0.0 }, self.0[0])])
        }

        fn neighbours(&self, _: &str, _: &str, which: usize) -> Result<Vec<(Place, f64)>, String> {
            Ok(vec![(Place { name: String::new(), number: 0.0 }, self.0[1 + which])])
        }
    }

    #[test]
    fn what_depends_on_a_nanosecond_is_a_tie_and_not_within() {
        let statement = statement(Tolerance::Absolute, "ns", Published::Value(100.0), "peak(a.b)");
        let judge = |values| statement.judge("1", &Jitter(values));
        let sure = judge([105.0, 95.0, 101.0]);
        assert_eq!((sure.within, sure.tie, sure.range), (Some(true), false, Some([95.0, 105.0])));
        let tie = judge([105.0, 95.0, 120.0]);
        assert_eq!((tie.within, tie.tie, tie.cause.as_str()), (Some(false), true, "because"));
        let out = judge([120.0, 115.0, 130.0]);
        assert_eq!((out.within, out.tie), (Some(false), false));
    }

    #[test]
    fn what_is_out_says_why() {
        let out = judge(Tolerance::Absolute, "ns", Published::Value(100.0), "150");
        assert_eq!((out.cause.as_str(), out.error), ("because", Some(0.5)));
        let mut guessed = statement(Tolerance::Absolute, "ns", Published::Value(100.0), "150");
        (guessed.cause, guessed.hypothesis) = (String::new(), "perhaps.".into());
        assert_eq!(guessed.judge("1", &Nothing).cause, "Hypothesis, not tested: perhaps.");
        let rest = judge(Tolerance::Complement, "%", Published::Value(0.75), "0.5");
        assert_eq!((rest.within, rest.error), (Some(false), Some(1.0)));
        let advantage = judge(Tolerance::Advantage, "x", Published::Value(1.5), "1.25");
        assert_eq!((advantage.within, advantage.error), (Some(false), Some(-0.5)));
        let within = judge(Tolerance::Absolute, "ns", Published::Value(100.0), "101");
        assert_eq!(within.cause, "");
        let missing = judge(Tolerance::Absolute, "ns", Published::Value(100.0), "peak(cx6.mpps)");
        assert_eq!((missing.within, missing.cause.as_str()), (None, "needs a PCIe device"));
    }
}
