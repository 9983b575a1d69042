//! The table of `ccnic bench peers`: a line per driver and size, three columns for each number of packets in flight.

use comfy_table::{CellAlignment, Table};

use super::{Measured, Row};
use crate::bench::long_table;

pub fn table(rows: &[Row], inflight: &[usize]) -> Table {
    let mut header = vec!["driver".to_owned(), "bytes".to_owned()];
    for n in inflight {
        header.extend([format!("{n}: Mpps"), "p50 ns".to_owned(), "p99 ns".to_owned()]);
    }
    header.extend(["lost", "corrupt", "note"].map(str::to_owned));
    let mut table = long_table(&header.iter().map(String::as_str).collect::<Vec<_>>());
    if let Some(note) = table.column_iter_mut().last() {
        note.set_cell_alignment(CellAlignment::Left);
    }
    for line in rows.chunks(inflight.len().max(1)) {
        table.add_row(cells(line));
    }
    table
}

/// The cells of one driver at one size.
fn cells(line: &[Row]) -> Vec<String> {
    let Some(first) = line.first() else { return Vec::new() };
    let mut cells = vec![first.driver.to_owned(), first.size.to_string()];
    let (mut lost, mut corrupt, mut note) = (0, 0, "");
    for row in line {
        match &row.result {
            Measured::Median(m) => {
                cells.extend([format!("{:.2}", m.mpps), m.rtt_p50_ns.to_string(), m.rtt_p99_ns.to_string()]);
                lost += m.lost;
                corrupt += m.corrupt;
            }
            Measured::Not { skipped } => {
                cells.extend(["-", "-", "-"].map(str::to_owned));
                note = skipped;
            }
        }
    }
    let count = |n: u64| if note.is_empty() { n.to_string() } else { "-".to_owned() };
    cells.extend([count(lost), count(corrupt), note.to_owned()]);
    cells
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::Median;

    #[test]
    fn a_driver_that_cannot_shows_why_and_no_figure() {
        let median = |mpps, lost| {
            Measured::Median(Median {
                mpps,
                gbps: 1.0,
                rtt_p50_ns: 500,
                rtt_p99_ns: 900,
                lost,
                corrupt: 0,
                runs: 3,
                cpu_share: None,
            })
        };
        let row = |driver, inflight, result| Row { driver, size: 9000, inflight, result };
        let not = || Measured::Not { skipped: "too long".to_owned() };
        let rows = [
            row("ring", 1, median(1.0, 2)),
            row("ring", 64, median(20.0, 3)),
            row("memif", 1, not()),
            row("memif", 64, not()),
        ];
        assert_eq!(
            cells(&rows[..2]),
            ["ring", "9000", "1.00", "500", "900", "20.00", "500", "900", "5", "0", ""]
        );
        assert_eq!(cells(&rows[2..]), ["memif", "9000", "-", "-", "-", "-", "-", "-", "-", "-", "too long"]);
        assert_eq!(table(&rows, &[1, 64]).row_count(), 2);
    }
}
