//! What measurements of several cases have in common: a round of each case, then the next round; and how round trips are shown.

use crate::micro::pingpong::RoundTrips;
use crate::print::{Column, Progress, units};

/// Measures `cases` in turn, in so many rounds; returns the rounds of each case.
///
/// # Errors
/// Those of `measure`.
pub fn in_rounds<C: Copy, R>(
    name: &'static str,
    rounds: usize,
    json: bool,
    cases: &[C],
    measure: impl Fn(C) -> anyhow::Result<R>,
) -> anyhow::Result<Vec<Vec<R>>> {
    let progress = Progress::of_measurements(name, rounds * cases.len(), json);
    let mut seen: Vec<Vec<R>> = cases.iter().map(|_| Vec::new()).collect();
    for _ in 0..rounds {
        for (case, seen) in cases.iter().zip(&mut seen) {
            seen.push(measure(*case)?);
            progress.step();
        }
    }
    Ok(seen)
}

/// The columns of a table of round trips: `what` was measured, its times, and `more`.
pub fn columns(what: &str, more: impl IntoIterator<Item = Column>) -> Vec<Column> {
    let times = [
        Column::text(what),
        Column::number("p50\nns"),
        Column::number("p50 ns\nmin\u{2013}max"),
        Column::number("p99\nns"),
    ];
    times.into_iter().chain(more).collect()
}

/// A row of such a table.
pub fn row(name: String, trips: &RoundTrips, more: impl IntoIterator<Item = String>) -> Vec<String> {
    let range = units::range(&trips.spread, units::ns);
    [name, units::ns(trips.p50_ns), range, units::ns(trips.p99_ns)].into_iter().chain(more).collect()
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;
    use crate::micro::pingpong::PingPongRound;

    #[test]
    fn every_case_is_measured_once_in_each_round() {
        let order = RefCell::new(Vec::new());
        let rounds = in_rounds("test", 3, true, &['a', 'b'], |case| {
            order.borrow_mut().push(case);
            anyhow::ensure!(order.borrow().len() < 7, "a seventh");
            Ok(case)
        });
        assert_eq!(rounds.unwrap(), [['a'; 3], ['b'; 3]]);
        assert_eq!(order.borrow()[..4], ['a', 'b', 'a', 'b']);
        let failed = in_rounds("test", 3, true, &['a'], |_| Err::<(), _>(anyhow::anyhow!("no memory")));
        assert_eq!(failed.unwrap_err().to_string(), "no memory");
    }

    #[test]
    fn a_row_has_what_its_columns_say() {
        let round = |p50_ns| PingPongRound { p50_ns, p99_ns: 1000.0 * p50_ns, round_trips: 16 };
        let trips = RoundTrips::of([200.0, 100.0, 300.0].map(round).to_vec());
        let row = row("a word".to_owned(), &trips, ["more".to_owned()]);
        assert_eq!(row, ["a word", "200", "100\u{2013}300", "200\u{b5}s", "more"]);
        assert_eq!(columns("by", [Column::number("last")]).len(), row.len());
    }
}
