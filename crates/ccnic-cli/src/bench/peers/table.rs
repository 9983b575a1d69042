//! The table of `ccnic bench peers`: a row per size, packets in flight and driver, so that rows to be
//! compared are neighbours.

use super::Through;
use super::rows::{Measured, PeerRow};
use crate::print::{Column, Table, units};

pub fn table(rows: &[PeerRow], repeat: usize, through: Through) -> Table {
    let columns = [
        Column::number("size\nbytes"),
        Column::number("in\nflight"),
        Column::text("driver"),
        Column::number("Mpps"),
        Column::number("best"),
        Column::number("Gb/s"),
        Column::number("p50\nns"),
        Column::number("p99\nns"),
        Column::number("lost"),
        Column::number("damaged"),
    ];
    let what = match through {
        Through::Nic => "Packets through software NICs and back",
        Through::Switch => "Packets between two programs through software switches, both directions together",
    };
    let title = format!("{what}: medians of {}", units::count(repeat, "run"));
    let mut table = Table::new(title, columns);
    let mut reasons: Vec<(&str, &str, Vec<u16>)> = Vec::new();
    let mut loads: Vec<(u16, usize)> = Vec::new();
    for row in rows {
        if !loads.contains(&(row.size, row.inflight)) {
            loads.push((row.size, row.inflight));
        }
    }
    for (size, inflight) in loads {
        for row in rows.iter().filter(|row| (row.size, row.inflight) == (size, inflight)) {
            table.row(cells(row));
            if let Measured::Not { skipped } = &row.result {
                match reasons.iter_mut().find(|(driver, why, _)| (*driver, *why) == (row.driver, skipped)) {
                    Some((.., sizes)) if sizes.contains(&size) => {}
                    Some((.., sizes)) => sizes.push(size),
                    None => reasons.push((row.driver, skipped, vec![size])),
                }
            }
        }
    }
    table.note("p50, p99: median and 99th percentile of the round trip. lost, damaged: packets of all runs.");
    if through == Through::Switch {
        table.note(
            "The switch has one CPU, the two programs share another one. ccnic: ccnicd --wire switch; others: testpmd, which passes all that \
             comes from one port to the other. The second program returns each packet with the addresses exchanged.",
        );
    }
    for (driver, why, sizes) in reasons {
        let sizes: Vec<String> = sizes.iter().map(u16::to_string).collect();
        table.note(format!("{driver} at {} bytes: {why}.", sizes.join(", ")));
    }
    table
}

/// The cells of one driver at one load.
fn cells(row: &PeerRow) -> Vec<String> {
    let load = [row.size.to_string(), row.inflight.to_string(), row.driver.to_owned()];
    let figures = match &row.result {
        Measured::Median(m) => [
            units::rate(m.mpps),
            units::rate(m.best_mpps),
            units::rate(m.gbps),
            units::ns(m.rtt_p50_ns as f64),
            units::ns(m.rtt_p99_ns as f64),
            m.lost.to_string(),
            m.corrupt.to_string(),
        ],
        Measured::Not { .. } => ["-"; 7].map(str::to_owned),
    };
    [load.to_vec(), figures.to_vec()].concat()
}

#[cfg(test)]
mod tests {
    use super::super::rows::Median;
    use super::*;
    use crate::print::longest_line;

    #[test]
    fn a_driver_that_cannot_shows_why_and_no_figure() {
        let median = |mpps, lost| {
            Measured::Median(Median {
                mpps,
                best_mpps: 2.0 * mpps,
                gbps: 1.0,
                rtt_p50_ns: 500,
                rtt_p99_ns: 900,
                lost,
                corrupt: 0,
                runs: 3,
                cpu_share: None,
            })
        };
        let row = |driver, inflight, result| PeerRow { driver, size: 9000, inflight, result };
        let not = || Measured::Not { skipped: "too long".to_owned() };
        let rows = [
            row("virtio-packed", 1, median(1.0, 2)),
            row("virtio-packed", 64, median(20.0, 3)),
            row("memif", 1, not()),
            row("memif", 64, not()),
        ];
        let expected = ["9000", "64", "virtio-packed", "20.0", "40.0", "1.00", "500", "900", "3", "0"];
        assert_eq!(cells(&rows[1]), expected);
        assert_eq!(cells(&rows[2]), ["9000", "1", "memif", "-", "-", "-", "-", "-", "-", "-"]);
        let text = table(&rows, 3, Through::Switch).in_width(80);
        assert!(longest_line(&text) <= 80, "{text}");
        assert!(text.contains("both directions") && text.contains("testpmd"), "{text}");
        let text = table(&rows, 3, Through::Nic).in_width(80);
        assert!(longest_line(&text) <= 80 && !text.contains("testpmd"), "{text}");
        let order: Vec<&str> = text.lines().filter_map(|line| line.split_whitespace().nth(2)).collect();
        let drivers: Vec<&str> =
            order.into_iter().filter(|w| ["virtio-packed", "memif"].contains(w)).collect();
        assert_eq!(drivers, ["virtio-packed", "memif", "virtio-packed", "memif"], "by load: {text}");
        assert_eq!(text.matches("memif at 9000 bytes: too long.").count(), 1, "{text}");
    }
}
