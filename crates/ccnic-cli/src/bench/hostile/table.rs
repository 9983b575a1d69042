//! The table of `ccnic bench hostile`.

use super::daemon::MEMORY_MAX;
use super::good::{SIZE, WINDOW, Wire};
use super::rows::Row;
use crate::print::{Column, Table, units};

/// What of the machine the reader must know to read the table.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    /// What the NIC does with packets.
    pub wire: Wire,
    /// The attacks have no CPU of their own.
    pub shared: bool,
    /// The good program has a higher priority than they.
    pub priority: bool,
    /// The attacks run as another user.
    pub other_user: bool,
}

pub fn table(rows: &[Row], rounds: usize, seconds: f64, setting: Setting) -> Table {
    let columns = [
        Column::text("attack"),
        Column::number("busy"),
        Column::number("Mpps\nalone"),
        Column::number("Mpps\nbeside"),
        Column::number("fair\nshare"),
        Column::number("RTT \u{b5}s\nalone"),
        Column::number("RTT \u{b5}s\nbeside"),
        Column::number("turn\n\u{b5}s"),
        Column::number("answer\nms"),
        Column::number("mem\nMiB"),
    ];
    let title = format!(
        "A program beside hostile ones on one polling core{}, {SIZE} B packets, {WINDOW} in flight: medians of {} of {seconds} s alone \
         and {seconds} s beside",
        if setting.wire == Wire::Switch { " of a switch" } else { "" },
        units::count(rounds, "round")
    );
    let mut table = Table::new(title, columns);
    for row in rows {
        table.row([
            row.attack.to_owned(),
            row.busy.to_string(),
            units::rate(row.alone_mpps),
            units::rate(row.beside_mpps),
            units::percent(Some(row.fair_share.median)),
            microseconds(row.alone_worst_ns),
            microseconds(row.beside_worst_ns),
            row.wait_us.map_or_else(|| "-".to_owned(), |us| us.to_string()),
            milliseconds(row),
            row.memory_mib.to_string(),
        ]);
    }
    legend(&mut table, setting);
    goals(&mut table, rows);
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
    table.note(format!(
        "busy: hostile programs that always have packets to be moved; each is due the same share of the polling core as the good one. \
         fair share: Mpps beside, of Mpps alone / (1 + busy). RTT: longest round trip of all rounds. turn: longest time between two turns \
         of the good program on the polling core, while it was busy and others were there. answer: longest wait of a stranger who greets the NIC, asks for its status or attaches; >: no answer came. mem: peak resident memory of the daemon, or \
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
    table.note(format!(
        "{shared}Mpps are per second of its own CPU time, round trips without the time in which it had no CPU. {priority}{user}"
    ));
}

/// Which goals were missed.
fn goals(table: &mut Table, rows: &[Row]) {
    let missed = rows.iter().filter(|row| !row.missed.is_empty());
    let missed: Vec<_> = missed.map(|row| format!("{}: {}", row.attack, row.missed.join(", "))).collect();
    let goals = "Goals: 90 % of the fair share, no turn later than 1 ms, an answer within 100 ms";
    table.note(match missed.as_slice() {
        [] => format!("{goals}. All were reached."),
        some => format!("{goals}. Missed: {}.", some.join("; ")),
    });
}

/// What is not a figure.
fn findings(table: &mut Table, rows: &[Row]) {
    for row in rows {
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
    let (lost, packets) = rows.iter().flat_map(|row| &row.rounds).fold((0, 0), |(lost, packets), round| {
        let good = &round.good;
        (lost + good.lost + good.corrupt, packets + good.alone.packets + good.beside.packets)
    });
    if lost == 0 {
        table.note(format!("{packets} packets were read and checked; none was lost or damaged."));
    }
}

#[cfg(test)]
mod tests {
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
        let rows = [Row::of(attack, vec![round(24.3, 23.9)]), Row::of(attack, vec![bad])];
        let setting = Setting { wire: Wire::Loopback, shared: true, priority: false, other_user: false };
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
}
