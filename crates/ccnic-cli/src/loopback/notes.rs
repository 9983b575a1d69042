//! The legend of measured packets: the limit, the placement of the CPUs, and whether a packet was damaged.

use super::rounds::Outcomes;
use crate::micro::limit::Rates;
use crate::print::units;

/// The CPUs were moved when the longest ping-pong round trip is so many times the shortest.
const MOVED: f64 = 1.5;

/// How the limit of a packet size follows from lines per second.
pub fn limit(size: u16, mpps: f64) -> String {
    let kind = if Rates::single(size) { "single" } else { "contiguous" };
    format!(
        "reference: {} Mpps of {size} bytes. In the same rounds two cores exchanged {} M {kind} cache lines per second in each \
         direction, with no protocol at all, and such a packet takes {} lines. It is the fastest exchange that is known, not a bound: lines \
         in another order, or more of them at once, may go faster, and then a share is above 100 %.",
        units::rate(mpps),
        units::rate(mpps * Rates::lines(size)),
        Rates::lines(size)
    )
}

/// The ping-pong round trip of each round, and whether the CPUs were moved.
pub fn placement(outcomes: &Outcomes) -> Vec<String> {
    let each: Vec<String> = outcomes.rounds.iter().map(|round| units::ns(round.pingpong_ns)).collect();
    let spread = &outcomes.spread.pingpong_ns;
    let mut notes = vec![format!(
        "Ping-pong round trip between the two CPUs before each round [ns]: {}.",
        each.join(" ")
    )];
    if spread.max > MOVED * spread.min {
        notes.push(format!(
            "The ping-pong round trip changed while this ran, from {} to {}: virtual CPUs were moved, or other processes ran on them. Rounds \
             differ for that reason, and medians mix near and far placement; --json shows each round.",
            units::time(spread.min),
            units::time(spread.max)
        ));
    }
    notes
}

/// Whether every packet came back as it was sent.
pub fn damage(points: &[Outcomes]) -> String {
    let sum = |f: fn(&Outcomes) -> u64| points.iter().map(f).sum::<u64>();
    let (packets, lost, corrupt) = (sum(|o| o.packets), sum(|o| o.lost), sum(|o| o.corrupt));
    if lost + corrupt == 0 {
        format!("{packets} packets were read and checked; none was lost or damaged.")
    } else {
        format!(
            "DEFECT: of {packets} packets {lost} were lost and {corrupt} came back damaged, twice or out of order."
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::rounds::{Offered, samples};
    use super::*;

    fn outcomes(far: f64) -> Outcomes {
        let rounds = vec![samples::round(20.0, 300, 100.0), samples::round(20.0, 300, far)];
        Outcomes::of(&samples::workload(64, &[]), Offered::Maximum, rounds)
    }

    #[test]
    fn cpus_that_were_moved_are_named() {
        let near = placement(&outcomes(140.0));
        assert_eq!(near, ["Ping-pong round trip between the two CPUs before each round [ns]: 100 140."]);
        assert!(placement(&outcomes(400.0))[1].contains("from 100 ns to 400 ns"));
    }

    #[test]
    fn the_limit_says_how_it_follows_from_lines() {
        assert!(
            limit(64, 40.0).contains("40.0 Mpps of 64 bytes") && limit(64, 40.0).contains("50.0 M single")
        );
        assert!(limit(1500, 4.0).contains("97.0 M contiguous"));
    }

    #[test]
    fn losses_are_a_defect() {
        let good = Outcomes { lost: 0, ..outcomes(100.0) };
        assert!(damage(std::slice::from_ref(&good)).contains("none was lost"));
        assert!(damage(&[good, outcomes(100.0)]).starts_with("DEFECT: of 400 packets 2 were lost and 0"));
    }
}
