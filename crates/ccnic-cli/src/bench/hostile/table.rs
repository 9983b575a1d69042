//! The table of `ccnic bench hostile`.

use super::daemon::MEMORY_MAX;
use super::flow::WINDOW;
use super::good::{SIZE, Wire};
use super::rows::Row;
use crate::print::{Column, Table, units};
use crate::stats::Spread;

/// What of the machine the reader must know to read the table.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    /// What the NIC does with packets.
    pub wire: Wire,
    /// The limit of floods at a switch, if there is one.
    pub storm: Option<u32>,
    /// Good programs.
    pub good: u8,
    /// The attacks have no CPU of their own.
    pub shared: bool,
    /// The good program has a higher priority than they.
    pub priority: bool,
    /// The attacks run as another user.
    pub other_user: bool,
}

pub fn table(rows: &[Row], rounds: usize, seconds: f64, setting: Setting) -> Table {
    // Of several programs, how they fare together and the one that fares worst, in place of round trips.
    let several = setting.good > 1;
    let two = if several { ["kept", "least\nshare"] } else { ["RTT \u{b5}s\nalone", "RTT \u{b5}s\nbeside"] };
    let [one, other] = two.map(Column::number);
    let columns = [
        Column::text("attack"),
        Column::number("busy"),
        Column::number("Mpps\nalone"),
        Column::number("Mpps\nbeside"),
        Column::number("fair\nshare"),
        one,
        other,
        Column::number("turn\n\u{b5}s"),
        Column::number("answer\nms"),
        Column::number("mem\nMiB"),
    ];
    let title = format!(
        "{} beside hostile ones on one polling core{}, {SIZE} B packets, {WINDOW} in flight{}: medians of {} of {seconds} s alone \
         and {seconds} s beside",
        if setting.good == 1 { "A program".to_owned() } else { units::count(setting.good.into(), "program") },
        if setting.wire == Wire::Switch { " of a switch" } else { "" },
        if setting.good == 1 { "" } else { " of each" },
        units::count(rounds, "round")
    );
    let mut table = Table::new(title, columns);
    for row in rows {
        let share = |share: &Spread| units::percent(Some(share.median));
        let two = match several {
            true => [share(&row.kept), share(&row.least_share)],
            false => [microseconds(row.alone_worst_ns), microseconds(row.beside_worst_ns)],
        };
        let [one, other] = two;
        table.row([
            row.attack.to_owned(),
            row.busy.to_string(),
            units::rate(row.alone_mpps),
            units::rate(row.beside_mpps),
            share(&row.fair_share),
            one,
            other,
            row.wait_us.map_or_else(|| "-".to_owned(), |us| us.to_string()),
            milliseconds(row),
            row.memory_mib.to_string(),
        ]);
    }
    legend(&mut table, setting);
    goals(&mut table, rows);
    sleep(&mut table, rows);
    findings(&mut table, rows);
    table
}

fn microseconds(ns: u64) -> String {
    units::rate(ns as f64 / 1e3)
}

/// The longest answer; with a mark when one has not come.
fn milliseconds(row: &Row) -> String {
    let mark = if row.answered { "" } else { ">" };
    format!("{mark}{}", units::rate(row.answer_ns as f64 / 1e6))
}

fn legend(table: &mut Table, setting: Setting) {
    let two = match setting.good {
        1 => "RTT: longest round trip of all rounds.",
        _ => {
            "kept: Mpps beside, of Mpps alone. least share: the fair share of the good program that has the least of it."
        }
    };
    table.note(format!(
        "busy: hostile programs that always have packets to be moved; each is due the same share of the polling core as a good one. \
         fair share: Mpps beside, of Mpps alone x good / (good + busy). {two} turn: longest time between two turns \
         of a good program on the polling core, while it was busy and others were there. answer: longest wait of a stranger who greets the NIC, asks for its status or attaches; >: no answer came. mem: peak resident memory of the daemon, or \
         what it allocated for regions that it refused; limit {MEMORY_MAX}."
    ));
    let shared = if setting.shared {
        "The good program and the attacks share a CPU. What the scheduler takes from the good program is not counted: "
    } else {
        "What the scheduler takes from the good program is not counted: "
    };
    let priority = if setting.priority {
        "Good program, daemon and stranger run at nice -10 to -15, the attacks at 0."
    } else {
        "All run at the same priority: a higher one is not permitted here."
    };
    let user = if setting.other_user {
        ""
    } else {
        " The attacks run as the same user: run as root to have them run as another."
    };
    if let Some(storm) = setting.storm {
        table.note(format!("Each port may flood {storm} packets a second (storm)."));
    }
    table.note(format!(
        "{shared}Mpps are per second of its own CPU time, round trips without the time in which it had no CPU. {priority}{user}"
    ));
}

/// Which goals were missed.
fn goals(table: &mut Table, rows: &[Row]) {
    let missed = rows.iter().filter(|row| !row.missed.is_empty());
    let missed: Vec<_> = missed.map(|row| format!("{}: {}", row.attack, row.missed.join(", "))).collect();
    let goals = "Goals: 90 % of the fair share, no turn later than 1 ms, no uninterruptible sleep over 1 ms, an answer within 100 ms";
    table.note(match missed.as_slice() {
        [] => format!("{goals}. All were reached."),
        some => format!("{goals}. Missed: {}.", some.join("; ")),
    });
}

/// Time that the polling thread slept where nothing wakes it.
fn sleep(table: &mut Table, rows: &[Row]) {
    let longest = rows.iter().filter_map(|row| Some((row.blocked_us?, row.attack))).max();
    table.note(match longest {
        None => return,
        Some((0, _)) => "The polling thread was never found in uninterruptible sleep twice in a row, half a millisecond apart.".to_owned(),
        Some((us, attack)) => format!(
            "Longest uninterruptible sleep of the polling thread: {} ms, beside {attack}.",
            units::rate(us as f64 / 1e3)
        ),
    });
}

/// What is not a figure.
fn findings(table: &mut Table, rows: &[Row]) {
    for row in rows {
        row.noise.iter().for_each(|noise| table.note(format!("Noise: {}: {noise}.", row.attack)));
        row.defects.iter().for_each(|defect| table.note(format!("DEFECT: {}: {defect}.", row.attack)));
        if row.rounds.iter().any(|round| !round.attack.has_begun()) {
            table.note(format!(
                "{}: the attack had not begun when its time was over: other processes ran too.",
                row.attack
            ));
        }
        if row.rounds.iter().any(|round| !round.stopped) {
            table.note(format!(
                "{}: the daemon did not end within 5 s of SIGTERM and was killed.",
                row.attack
            ));
        }
        if let Some(reason) = row.rounds.iter().find_map(|round| round.answers_beside.refused.as_ref()) {
            table.note(format!("{}: a stranger was refused: {reason}.", row.attack));
        }
        let log = row.rounds.iter().map(|round| round.daemon.log_bytes).max().unwrap_or(0);
        if log > 100 << 10 {
            table.note(format!("{}: the daemon logged {} kB in a round.", row.attack, log >> 10));
        }
    }
    for row in rows.iter().filter(|row| row.lost > row.unaccounted) {
        let came: u64 = row.rounds.iter().map(|round| round.good.received).sum();
        table.note(format!(
            "{}: {} of {} packets did not arrive: they were dropped, and counted, at the port that they were for, whose receive ring \
             was full of frames that were flooded.",
            row.attack,
            row.lost - row.unaccounted,
            came + row.lost
        ));
    }
    let rounds = || rows.iter().flat_map(|row| &row.rounds).map(|round| &round.good);
    if rounds().all(|good| good.unaccounted() + good.corrupt == 0) {
        let (lost, came) =
            rounds().fold((0, 0), |(lost, came), good| (lost + good.lost, came + good.received));
        let none =
            if lost == 0 { "none was lost or damaged" } else { "every other one was counted as dropped" };
        table.note(format!("{came} packets were read and checked; {none}."));
    }
}

#[cfg(test)]
mod tests {
    use super::super::account::Account;
    use super::super::rows::samples::round;
    use super::*;
    use crate::print::longest_line;

    #[test]
    fn the_table_fits_80_columns_and_names_defects() {
        let attack = ccnic_hostile::find("notify-requests").unwrap();
        let mut bad = round(24.3, 0.33);
        (bad.good.lost, bad.stopped, bad.daemon.log_bytes) = (3, false, 18 << 20);
        bad.attack.done = 0;
        (bad.answers_beside.refused, bad.answers_beside.unanswered) = (Some("no slot".to_owned()), 1);
        let rows = [
            Row::of(attack, Wire::Loopback, 1, vec![round(24.3, 23.9)]),
            Row::of(attack, Wire::Loopback, 1, vec![bad]),
        ];
        let (wire, storm) = (Wire::Loopback, None);
        let setting = Setting { wire, storm, good: 1, shared: true, priority: false, other_user: false };
        let text = table(&rows, 3, 0.5, setting).in_width(80);
        assert!(longest_line(&text) <= 80, "{text}");
        let row: Vec<&str> =
            text.lines().find(|l| l.starts_with("notify-requests")).unwrap().split_whitespace().collect();
        assert_eq!(
            row,
            ["notify-requests", "0", "24.3", "23.9", "98", "%", "20.0", "8123457", "40", "20123", "200"],
            "{text}"
        );
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for said in [
            "DEFECT: notify-requests: 3 packets",
            "Missed: notify-requests: an answer after 20123 ms; notify-requests: 1 % of its fair share, a question",
            "refused: no slot.",
            "had not begun",
            "logged 18432 kB",
            ">20123",
            "was killed",
        ] {
            assert!(words.contains(said), "{said}: {text}");
        }
        assert!(
            !words.contains("none was lost") && words.contains("share a CPU") && words.contains("same user")
        );
    }
    /// Of several good programs, and what a switch drops of theirs: it is counted, so it is no defect.
    #[test]
    fn several_programs_and_packets_that_were_dropped_and_counted() {
        let attack = ccnic_hostile::find("broadcast").unwrap();
        let mut dropped = round(20.0, 16.2);
        (dropped.good.alone.each_mpps, dropped.good.beside.each_mpps) = (vec![10.0; 2], vec![9.0, 7.2]);
        (dropped.good.lost, dropped.good.account) = (7, Some(Account { delivered: 200, dropped: 9 }));
        let row = Row::of(attack, Wire::Switch, 9, vec![dropped]);
        assert_eq!((row.lost, row.unaccounted, row.defects.len()), (7, 0, 0));
        let (wire, storm) = (Wire::Switch, Some(1000));
        let setting = Setting { wire, storm, good: 9, shared: true, priority: true, other_user: true };
        let text = table(&[row], 3, 0.5, setting).in_width(80);
        assert!(longest_line(&text) <= 80, "{text}");
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for said in [
            "9 programs beside hostile ones on one polling core of a switch",
            "broadcast 1 20.0 16.2 90 % 81 % 80 %",
            "7 of 207 packets did not arrive",
            "may flood 1000 packets",
            "200 packets were read and checked; every other one was counted",
        ] {
            assert!(words.contains(said), "{said}: {text}");
        }
    }
}
