//! What `ccnic bench hostile` shows of an attack.

use ccnic_hostile::{Attack, Report};
use serde::Serialize;

use super::blocked::Blocked;
use super::daemon::{MEMORY_MAX, Taken};
use super::good::{Experience, Wire};
use super::lacked::Lacked;
use super::stranger::Answers;
use crate::print::units;
use crate::stats::Spread;

/// The goals: the least part of the fair share,
const SHARE: f64 = 0.9;
/// the longest wait for a turn on the polling core, in microseconds,
const WAIT_US: u64 = 1000;
/// the longest uninterruptible sleep of the polling thread, in microseconds,
const BLOCKED_US: u64 = 1000;
/// and the longest time until a stranger has an answer, in nanoseconds.
const ANSWER_NS: u64 = 100_000_000;

/// One round of an attack.
#[derive(Debug, Clone, Serialize)]
pub struct Round {
    /// The good programs.
    #[serde(flatten)]
    pub good: Experience,
    /// A stranger's questions before the attack.
    pub answers_alone: Answers,
    /// A stranger's questions beside the attack.
    pub answers_beside: Answers,
    /// CPU time that the polling thread lacked before the attack, and beside it; null where the kernel does not say.
    pub polling_alone: Option<Lacked>,
    pub polling_beside: Option<Lacked>,
    /// Sleeps that kept the polling thread beside the attack; null where the kernel does not say.
    pub blocked: Option<Blocked>,
    /// What the daemon took.
    pub daemon: Taken,
    /// The daemon ended in order when it was told to, right after the attack.
    pub stopped: bool,
    /// The daemon was alive until then.
    pub alive: bool,
    /// How far the attack got.
    pub attack: Report,
}

impl Round {
    /// The lesser share of the time before the attack that the good program or the polling thread had its CPU.
    pub fn undisturbed(&self) -> f64 {
        self.polling_alone.map_or(1.0, |lacked| lacked.share).min(self.good.alone.cpu_share)
    }

    /// Ratio of the CPU time that the polling thread had before the attack to what it had beside it: 1 where it had as much, or nobody
    /// knows. An attack that takes the CPU itself, as `spinners` does, is seen in this, too.
    fn lacked_more(&self) -> f64 {
        let shares = self.polling_alone.zip(self.polling_beside).filter(|(_, beside)| beside.share > 0.0);
        shares.map_or(1.0, |(alone, beside)| (alone.share / beside.share).max(1.0))
    }

    /// MiB that the daemon had resident at most, or has had allocated for regions that it refused: whichever is more.
    pub fn memory_mib(&self) -> u64 {
        self.daemon.memory_mib.max(self.attack.filled as u64 >> 20)
    }
}

/// All rounds of an attack. Worst cases are those of all rounds, everything else is a median.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// The attack.
    pub attack: &'static str,
    /// Programs of it that always have packets to be moved.
    pub busy: u32,
    /// Good programs.
    pub good: u8,
    /// Million packets per second of the good programs' CPU time, all together, before the attack.
    pub alone_mpps: f64,
    /// Beside the attack.
    pub beside_mpps: f64,
    /// `beside_mpps` as a share of what is due to the good programs: of `alone_mpps` times the share that they are of all busy programs.
    pub fair_share: Spread,
    /// The same of the good program that has the least of it, in each round.
    pub least_share: Spread,
    /// `beside_mpps` as a share of `alone_mpps`: what the good programs keep.
    pub kept: Spread,
    /// Packets that did not arrive, and those of them that the NIC has not counted as dropped at the good programs' ports.
    pub lost: u64,
    pub unaccounted: u64,
    /// The longest round trips, in nanoseconds.
    pub alone_worst_ns: u64,
    pub beside_worst_ns: u64,
    /// The longest time that the good program waited for a turn on the polling core because of others, in microseconds; null where the
    /// daemon does not say.
    pub wait_us: Option<u64>,
    /// The longest uninterruptible sleep of the polling thread, in microseconds; null where the kernel does not say.
    pub blocked_us: Option<u64>,
    /// The longest time that a stranger waited for an answer, in nanoseconds.
    pub answer_ns: u64,
    /// False when a question had no answer.
    pub answered: bool,
    /// The most memory, in MiB.
    pub memory_mib: u64,
    /// Packets damaged or lost without being counted, a dead daemon, a memory limit exceeded; empty when there is none.
    pub defects: Vec<String>,
    /// The goals that were not reached, with what was measured.
    pub missed: Vec<String>,
    /// CPU time that the polling thread lacked in the worst round, where that may be why a goal was missed.
    pub noise: Option<String>,
    /// The fair share as it would have been, had the polling thread had as much of its CPU as before the attack.
    pub share_of_polling: f64,
    /// Each round.
    pub rounds: Vec<Round>,
}

impl Row {
    /// Sums up the rounds of an attack.
    pub fn of(attack: &Attack, wire: Wire, good: u8, rounds: Vec<Round>) -> Row {
        let most = |f: fn(&Round) -> u64| rounds.iter().map(f).max().unwrap_or(0);
        let median = |f: fn(&Round) -> f64| Spread::of(rounds.iter().map(f)).median;
        let busy = if wire == Wire::Switch { attack.busy_switched } else { attack.busy };
        let part = f64::from(good) / (f64::from(good) + f64::from(busy));
        let of = |beside: f64, alone: f64| if alone > 0.0 { beside / alone } else { 0.0 };
        let kept = |round: &Round| of(round.good.beside.mpps, round.good.alone.mpps);
        let least = |round: &Round| {
            let each = round.good.beside.each_mpps.iter().zip(&round.good.alone.each_mpps);
            each.map(|(beside, alone)| of(*beside, *alone) / part).fold(f64::INFINITY, f64::min)
        };
        let sum = |f: fn(&Experience) -> u64| rounds.iter().map(|round| f(&round.good)).sum();
        let mut row = Row {
            attack: attack.name,
            busy,
            good,
            alone_mpps: median(|r| r.good.alone.mpps),
            beside_mpps: median(|r| r.good.beside.mpps),
            fair_share: Spread::of(rounds.iter().map(|round| kept(round) / part)),
            least_share: Spread::of(rounds.iter().map(least)),
            kept: Spread::of(rounds.iter().map(kept)),
            lost: sum(|good| good.lost),
            unaccounted: sum(Experience::unaccounted),
            alone_worst_ns: most(|r| r.good.alone.worst_ns),
            beside_worst_ns: most(|r| r.good.beside.worst_ns),
            wait_us: rounds.iter().filter_map(|r| Some(r.daemon.waits?.longest_us)).max(),
            blocked_us: rounds.iter().filter_map(|r| Some(r.blocked.as_ref()?.longest_us)).max(),
            answer_ns: most(|r| r.answers_beside.worst_ns),
            answered: rounds.iter().all(|r| r.answers_beside.unanswered == 0),
            memory_mib: most(Round::memory_mib),
            defects: defects(&rounds),
            missed: Vec::new(),
            noise: None,
            share_of_polling: Spread::of(rounds.iter().map(|r| kept(r) / part * r.lacked_more())).median,
            rounds,
        };
        row.missed = row.missed();
        row.noise = row.noise();
        row
    }

    fn missed(&self) -> Vec<String> {
        let mut missed = Vec::new();
        let share = self.fair_share.median;
        if share < SHARE {
            let polled = self.share_of_polling;
            missed.push(match polled >= SHARE {
                true => format!(
                    "{:.0} % of its fair share ({:.0} % of that of the time that the polling thread had its CPU)",
                    share * 100.0,
                    polled * 100.0
                ),
                false => format!("{:.0} % of its fair share", share * 100.0),
            });
        }
        let late: u64 = self.rounds.iter().filter_map(|r| Some(r.daemon.waits?.late)).sum();
        if let Some(us) = self.wait_us.filter(|us| *us > WAIT_US) {
            missed.push(format!(
                "{} later than 1 ms, one of them {us} \u{b5}s",
                units::count(late as usize, "turn")
            ));
        }
        if let Some(us) = self.blocked_us.filter(|us| *us > BLOCKED_US) {
            let longest = self.rounds.iter().filter_map(|r| r.blocked.as_ref()).find(|b| b.longest_us == us);
            let place = longest.map_or("", |blocked| &blocked.place);
            missed.push(format!("an uninterruptible sleep of {} ms ({place})", us / 1000));
        }
        if !self.answered {
            missed.push("a question without an answer".to_owned());
        } else if self.answer_ns > ANSWER_NS {
            missed.push(format!("an answer after {} ms", self.answer_ns / 1_000_000));
        }
        missed
    }
}

impl Row {
    /// CPU time that the machine took from the polling thread, if a goal was missed by the good programs' packets.
    fn noise(&self) -> Option<String> {
        let late = self.wait_us.is_some_and(|us| us > WAIT_US);
        if self.fair_share.median >= SHARE && !late {
            return None;
        }
        let lacked = self.rounds.iter().filter_map(|round| round.polling_beside);
        lacked.max_by(|a, b| b.share.total_cmp(&a.share)).and_then(|worst| worst.noise())
    }
}

/// What must never be, whatever the speed of the machine.
fn defects(rounds: &[Round]) -> Vec<String> {
    let mut defects = Vec::new();
    let sum = |f: fn(&Round) -> u64| rounds.iter().map(f).sum::<u64>();
    let (lost, corrupt) = (sum(|r| r.good.unaccounted()), sum(|r| r.good.corrupt));
    if lost + corrupt > 0 {
        defects.push(format!("{lost} packets were lost and not counted as dropped, {corrupt} damaged"));
    }
    if rounds.iter().any(|round| !round.alive) {
        defects.push("the daemon died".to_owned());
    }
    let memory = rounds.iter().map(Round::memory_mib).max().unwrap_or(0);
    if memory > MEMORY_MAX {
        defects.push(format!("{memory} MiB of memory were taken, the limit is {MEMORY_MAX} MiB"));
    }
    defects
}

/// Rounds for tests.
#[cfg(test)]
pub mod samples {
    use super::super::account::Account;
    use super::super::daemon::Waits;
    use super::super::good::Seen;
    use super::*;

    /// A round in which the good program had so many million packets per second.
    pub fn round(alone: f64, beside: f64) -> Round {
        let seen = |mpps: f64, worst_ns| {
            let each_mpps = vec![mpps];
            Seen { packets: 100, mpps, each_mpps, worst_ns, stalls: 0, cpu_share: 1.0 }
        };
        let answers = |worst_ns| Answers { answered: 9, worst_ns, ..Answers::default() };
        Round {
            good: Experience {
                alone: seen(alone, 20_000),
                beside: seen(beside, 8_123_456_789),
                received: 200,
                account: Some(Account { delivered: 200, dropped: 0 }),
                ..Experience::default()
            },
            answers_alone: answers(100_000),
            answers_beside: answers(20_123_456_789),
            polling_alone: Some(Lacked { share: 0.98, ..Lacked::default() }),
            polling_beside: Some(Lacked { share: 0.98, ..Lacked::default() }),
            blocked: Some(Blocked { longest_us: 0, place: String::new(), faults: 3 }),
            daemon: Taken {
                memory_mib: 200,
                log_bytes: 0,
                descriptors: 10,
                threads: 4,
                waits: Some(Waits { longest_us: 40, late: 0 }),
            },
            stopped: true,
            alive: true,
            attack: Report { done: 5, ..Report::default() },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::daemon::Waits;
    use super::samples::round;
    use super::*;

    #[test]
    fn the_fair_share_is_of_what_was_measured_alone_in_the_same_round() {
        let greedy = ccnic_hostile::find("greedy").unwrap();
        let row =
            Row::of(greedy, Wire::Loopback, 1, vec![round(20.0, 9.0), round(10.0, 5.0), round(30.0, 18.0)]);
        assert_eq!((row.busy, row.alone_mpps, row.beside_mpps), (1, 20.0, 9.0));
        let Spread { min, median, max } = row.fair_share;
        assert_eq!((min, median, max), (0.9, 1.0, 1.2));
        assert!(row.defects.is_empty() && row.answered && row.rounds[0].undisturbed() == 0.98);
        let punch = ccnic_hostile::find("punch").unwrap();
        assert_eq!(Row::of(punch, Wire::Loopback, 1, vec![round(20.0, 9.0)]).fair_share.median, 0.45);
        assert_eq!(Row::of(punch, Wire::Loopback, 1, vec![round(0.0, 9.0)]).fair_share.median, 0.0);
    }

    #[test]
    fn what_a_loopback_cannot_move_a_switch_moves() {
        let full = ccnic_hostile::find("full-rings").unwrap();
        let of = |wire| Row::of(full, wire, 1, vec![round(20.0, 12.0)]);
        let (loopback, switch) = (of(Wire::Loopback), of(Wire::Switch));
        assert_eq!((loopback.busy, loopback.fair_share.median), (0, 0.6));
        assert_eq!((switch.busy, switch.fair_share.median), (1, 1.2));
    }

    #[test]
    fn what_a_goal_is_missed_by_is_said() {
        let scribble = ccnic_hostile::find("scribble").unwrap();
        let mut good = round(20.0, 9.0);
        good.answers_beside.worst_ns = 99_999_999;
        assert_eq!(Row::of(scribble, Wire::Loopback, 1, vec![good.clone()]).missed, [""; 0]);
        let mut bad = round(20.0, 8.9);
        bad.daemon.waits = Some(Waits { longest_us: 1001, late: 2 });
        let row = Row::of(scribble, Wire::Loopback, 1, vec![bad.clone(), bad.clone(), good]);
        let late = "4 turns later than 1 ms, one of them 1001 \u{b5}s";
        assert_eq!(row.missed, ["89 % of its fair share", late, "an answer after 20123 ms"]);
        let mut asleep = round(20.0, 20.0);
        asleep.blocked = Some(Blocked { longest_us: 5_371_000, place: "__folio_lock".to_owned(), faults: 4 });
        let row = Row::of(scribble, Wire::Loopback, 1, vec![round(20.0, 20.0), asleep]);
        assert_eq!(row.missed[0], "an uninterruptible sleep of 5371 ms (__folio_lock)");
        (bad.daemon.waits, bad.answers_beside.unanswered) = (None, 1);
        let row = Row::of(scribble, Wire::Loopback, 1, vec![bad]);
        assert_eq!((row.wait_us, row.missed[1].as_str()), (None, "a question without an answer"));
    }

    #[test]
    fn what_the_machine_took_is_told_apart_from_what_an_attack_did() {
        let scribble = ccnic_hostile::find("scribble").unwrap();
        let mut noisy = round(20.0, 4.9);
        let lacked = Lacked { share: 0.49, waited_ns: 250_000_000, preempted: 40, stolen_ns: 0 };
        noisy.polling_beside = Some(lacked);
        let row = Row::of(scribble, Wire::Loopback, 1, vec![noisy.clone()]);
        let percent = [row.fair_share.median, row.share_of_polling].map(|share| (100.0 * share).round());
        assert_eq!(percent, [49.0, 98.0]);
        assert!(
            row.missed[0].contains("49 % of its fair share (98 % of that of the time"),
            "{:?}",
            row.missed
        );
        assert!(row.noise.as_ref().unwrap().contains("waited 250 ms"), "{:?}", row.noise);
        // The same without noise is a fault, and noise without a fault is not worth a word.
        let row = Row::of(scribble, Wire::Loopback, 1, vec![round(20.0, 4.9)]);
        assert_eq!((row.missed[0].as_str(), row.noise), ("49 % of its fair share", None));
        noisy.good.beside.mpps = 10.0;
        assert_eq!(Row::of(scribble, Wire::Loopback, 1, vec![noisy]).noise, None);
    }

    #[test]
    fn what_must_never_be_is_a_defect() {
        let mut bad = round(1.0, 1.0);
        (bad.good.lost, bad.alive, bad.attack.filled) = (3, false, 800 << 20);
        let row =
            Row::of(ccnic_hostile::find("sparse").unwrap(), Wire::Loopback, 1, vec![round(1.0, 1.0), bad]);
        assert_eq!(row.defects.len(), 3, "{row:?}");
        assert_eq!(row.memory_mib, 800);
        assert!(
            row.defects[0].contains("3 packets were lost") && row.defects[2].contains("limit is 512 MiB")
        );
    }
}
