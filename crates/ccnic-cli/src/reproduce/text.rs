//! The texts of statements.

use ccnic_sim::figures::run::Simulated;
use ccnic_sim::figures::statement::{Published, Tolerance, Verdict};

use crate::print::units::number;

/// A value with its unit.
fn value(value: f64, v: &Verdict) -> String {
    match (v.tolerance, v.unit.as_str()) {
        (Tolerance::Order, _) => (if value == 1.0 { "yes" } else { "no" }).to_owned(),
        (_, "%") => format!("{:.0} %", value * 100.0),
        (_, "x") => format!("{value:.2} x"),
        (_, "") => number(value),
        (_, unit) => format!("{} {unit}", number(value)),
    }
}

/// The published value; nobody has published a lead.
pub fn published(v: &Verdict) -> String {
    match (v.tolerance, v.published) {
        (Tolerance::Lead, _) => "-".to_owned(),
        (_, Published::Value(published)) => value(published, v),
        (_, Published::Range([low, high])) => format!("{} to {}", value(low, v), value(high, v)),
    }
}

/// The simulated value; the range of it where a path's length makes a difference that can be seen.
pub fn simulated(v: &Verdict) -> String {
    let Some(ours) = v.simulated.map(|ours| value(ours, v)) else { return "-".to_owned() };
    match v.range.map(|range| range.map(|end| value(end, v))) {
        Some([low, high]) if low != high => format!("{ours} ({low} to {high})"),
        _ => ours,
    }
}

/// The simulated value's relative error.
pub fn error(v: &Verdict) -> String {
    match (v.tolerance, v.error, v.simulated) {
        (Tolerance::Order | Tolerance::Lead, ..) | (_, None, _) => "-".to_owned(),
        // The published value is zero: there is no relative error.
        (_, Some(error), _) if !error.is_finite() => "-".to_owned(),
        (_, Some(error), _) => format!("{:+.1} %", error * 100.0),
    }
}

/// Within the tolerance, or not; a lead is ahead or behind.
pub fn verdict(v: &Verdict) -> &'static str {
    match (v.tolerance, v.within) {
        (_, Some(false)) if v.tie => "tie",
        (Tolerance::Lead, Some(true)) => "ahead",
        (Tolerance::Lead, Some(false)) => "BEHIND",
        (_, Some(true)) => "within",
        (_, Some(false)) => "OUT",
        (_, None) if v.simulated.is_some() => "not judged",
        (_, None) => "not simulated",
    }
}

/// How many values are within their tolerance.
pub fn count(verdicts: &[&Verdict]) -> String {
    let of = |calibration: &str| {
        let these = || verdicts.iter().filter(|v| v.calibration == calibration && v.within.is_some());
        (these().filter(|v| v.within == Some(true)).count(), these().count())
    };
    let ((predicted, all), (calibrated, inputs)) = (of("predicted"), of("calibrated"));
    let (ahead, leads) = of("own");
    let missing = verdicts.iter().filter(|v| v.simulated.is_none()).count();
    let brief = verdicts.iter().filter(|v| v.simulated.is_some() && v.within.is_none()).count();
    if brief > 0 {
        return format!("{brief} statements not judged, since they were simulated too briefly (`--quick`)");
    }
    let ties = verdicts.iter().filter(|v| v.tie).count();
    let mut text = format!("{predicted} of {all} predictions within tolerance");
    if inputs > 0 {
        text.push_str(&format!(", {calibrated} of {inputs} calibrated values"));
    }
    if leads > 0 {
        text.push_str(&format!(", the default design ahead of the paper's in {ahead} of {leads}"));
    }
    if ties > 0 {
        text.push_str(&format!(
            ", {ties} ties (on either side with paths 1 % longer or shorter) counted as out"
        ));
    }
    if missing > 0 {
        text.push_str(&format!(", {missing} statements not simulated"));
    }
    text
}

/// The loopbacks that have not converged; nothing where none was simulated.
pub fn drifting(figures: &[Simulated]) -> Option<Vec<String>> {
    figures.iter().any(Simulated::has_loopbacks).then(|| {
        figures
            .iter()
            .flat_map(|f| {
                f.drifting().map(move |(series, point, drift)| {
                    format!("figure {} {series} '{point}' {:+.0} %", f.figure.id, drift * 100.0)
                })
            })
            .collect()
    })
}

/// What is said where all have converged.
pub const CONVERGED: &str =
    "In all loopbacks both halves of the measured time have the same rate, within 5 %.";

/// Which loopbacks have not converged; nothing where none was simulated.
pub fn convergence(figures: &[Simulated]) -> Option<String> {
    let drifting = drifting(figures)?;
    Some(if drifting.is_empty() {
        CONVERGED.to_owned()
    } else {
        format!(
            "Not converged, the second half of the measured time has another rate than the first: {}.",
            drifting.join(", ")
        )
    })
}

/// A figure's number as part of a file's name.
pub fn file_name(id: &str) -> String {
    id.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
}
