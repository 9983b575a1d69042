//! The rows of a workload as a picture: bars of what is answered at the peak, one at a time, and points of how long it takes at half load.

use std::path::Path;

use super::Row;
use super::rows::Protocol;
use crate::plot::{Axis, Bars, Chart, Content, Picture};

/// Writes `apps-WORKLOAD.svg` and `.png` into a folder.
pub fn save(rows: &[&Row], workload: &str, folder: &Path) -> anyhow::Result<()> {
    picture(rows, workload).save(&folder.join(format!("apps-{workload}"))).map(|_| ())
}

fn picture(rows: &[&Row], workload: &str) -> Picture {
    let mut servers: Vec<&str> = rows.iter().map(|row| row.server).collect();
    servers.dedup();
    let chart = |title: &str, label: &str, log: bool, value: fn(&Row) -> f64| {
        let of = |protocol: Protocol| {
            let find = |server: &&str| {
                rows.iter()
                    .find(|row| row.server == *server && row.protocol == protocol)
                    .map(|row| value(row))
            };
            servers.iter().map(find).collect()
        };
        let series = Protocol::ALL.into_iter().map(of).enumerate().collect();
        Chart {
            title: format!("{workload}: {title}"),
            x_label: "server".to_owned(),
            y: Axis::around(label, log, !log, rows.iter().map(|row| value(row))).with_room(0.06),
            content: Content::Bars(Bars {
                groups: servers.iter().map(|server| (*server).to_owned()).collect(),
                series,
                published: Vec::new(),
            }),
            note: None,
        }
    };
    Picture {
        charts: vec![
            chart("the most that is answered", "million requests/s", false, |row| row.median.peak / 1e6),
            chart("gets, one at a time", "million gets/s", false, |row| row.median.lone / 1e6),
            chart("99th percentile at half load", "\u{b5}s", true, |row| row.median.half_p99_ns / 1e3),
        ],
        legend: Protocol::ALL.map(|protocol| protocol.name().to_owned()).to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::apps::Round;
    use crate::bench::apps::rows::{NAMES, pairs};

    #[test]
    fn every_server_has_its_bars() {
        let names = NAMES.map(str::to_owned);
        let round = Round { peak: 1.5e6, lone: 4e5, half_p99_ns: 5e3, ..Round::default() };
        let rows: Vec<Row> =
            pairs(&names).into_iter().map(|pair| Row::of("geo", pair, 2.5, None, vec![round])).collect();
        let folder = tempfile::tempdir().unwrap();
        save(&rows.iter().collect::<Vec<_>>(), "geo", folder.path()).unwrap();
        let svg = std::fs::read_to_string(folder.path().join("apps-geo.svg")).unwrap();
        for text in NAMES.iter().chain(&["rpc", "udp", "tcp", "geo: gets, one at a time"]) {
            assert!(svg.contains(text), "{text}");
        }
        // A legend has one for each protocol; the third chart has points, whose axis is logarithmic.
        let bars = svg.matches("<rect").count();
        assert!(bars <= 2 * rows.len() + 8, "{bars} rectangles of {} rows", rows.len());
        assert!(svg.matches("1.5").count() >= rows.len(), "each bar has its value");
        assert!(folder.path().join("apps-geo.png").exists());
    }
}
