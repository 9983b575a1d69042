//! The demo's page: a table and throughput-latency curves as inline SVG, as in CC-NIC figure 11. Fits screens
//! from a phone's on.

use std::fmt::Write;

use super::curves::plot;
use super::row::{DesignFigures, LARGE, SMALL};
use crate::loopback::notes;
use crate::loopback::rounds::Outcomes;
use crate::micro::limit::Limit;
use crate::print::html::{self, escape};
use crate::print::units;

/// Rules in addition to those of all pages. On a narrow screen the pictures' text is larger, because the pictures
/// are scaled down.
const STYLE: &str = "svg text{font:14px system-ui,sans-serif;fill:#333}\
@media(max-width:40rem){svg text{font-size:22px}}";

/// The whole page. `alone` is true when each side had a CPU of its own.
pub fn page(rows: &[DesignFigures], limit: &Limit, alone: bool) -> String {
    let mut body = String::new();
    let _ = write!(
        body,
        "<h1>ccnic: packets through coherent memory</h1>\
         <p class=\"sub\">One program core and one NIC core, two processes, on {}{}.</p>\n\
         <p>A ping-pong of one word between the two cores takes <b>{} ns</b> on one cache line, {} ns on two. <i>Of limit</i> is \
         the share of the packets that the cores could exchange without any protocol in the same round, in the median.</p>\n",
        escape(&machine()),
        if alone { "" } else { " (sharing one CPU)" },
        units::ns(limit.word_rtt_ns.shared),
        units::ns(limit.word_rtt_ns.separate)
    );
    body.push_str(&summary(rows));
    let first = |f: fn(&DesignFigures) -> &Vec<Outcomes>| rows.first().and_then(|row| f(row).last());
    for peak in [first(|row| &row.small), first(|row| &row.large)].into_iter().flatten() {
        if let Some(limit) = peak.limit_mpps {
            let _ = writeln!(body, "<p>{}</p>", escape(&capital(&notes::limit(peak.size, limit))));
        }
    }
    for note in first(|row| &row.small).map(notes::placement).unwrap_or_default() {
        let _ = writeln!(body, "<p>{}</p>", escape(&note));
    }
    for size in [SMALL, LARGE] {
        let curves: Vec<(&str, &[Outcomes])> = rows
            .iter()
            .map(|row| (row.name, if size == SMALL { row.small.as_slice() } else { &row.large }))
            .collect();
        let _ = writeln!(
            body,
            "<figure>{}<figcaption>{size}-byte packets: median round trip (line) and 99th percentile (dots) against \
             throughput, from one packet in flight to saturation, medians over the rounds. Every byte is written by the program, copied \
             by the NIC, read back and checked.</figcaption></figure>",
            plot(&curves)
        );
    }
    html::page("ccnic demo", STYLE, &body)
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn summary(rows: &[DesignFigures]) -> String {
    let heads =
        ["packet", "Mpps", "min\u{2013}max", "Gb/s", "of reference", "p50 ns", "p99 ns", "lost", "damaged"];
    let heads: Vec<String> = heads.iter().map(|head| format!("<th class=\"n\">{head}")).collect();
    let mut html = format!("<div class=\"scroll\"><table><tr><th>design{}</tr>\n", heads.concat());
    for row in rows {
        for points in [&row.small, &row.large] {
            let (Some(single), Some(peak)) = (points.first(), points.last()) else { continue };
            let sum = |f: fn(&Outcomes) -> u64| points.iter().map(f).sum::<u64>().to_string();
            let cells = [
                format!("{} B", peak.size),
                units::rate(peak.mpps),
                units::range(&peak.spread.mpps, units::rate),
                units::rate(peak.gbps),
                units::percent(peak.limit_share),
                units::ns(single.rtt_ns.p50 as f64),
                units::ns(single.rtt_ns.p99 as f64),
                sum(|o| o.lost),
                sum(|o| o.corrupt),
            ];
            let cells: Vec<String> = cells.iter().map(|cell| format!("<td class=\"n\">{cell}")).collect();
            let _ = writeln!(html, "<tr><td>{}{}</tr>", escape(row.name), cells.concat());
        }
    }
    html.push_str(
        "</table></div>\n<p class=\"sub\">p50, p99: round trip with one packet in flight. min\u{2013}max: of the rounds.</p>\n",
    );
    html
}

/// The processor's name, from the kernel.
fn machine() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = info.lines().find_map(|l| l.strip_prefix("model name")).and_then(|l| l.split_once(": "));
    name.map_or_else(|| "this machine".to_owned(), |(_, name)| name.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::row::samples;
    use crate::micro::limit::{LimitSpread, Rates, WordRtt};
    use crate::stats::Spread;

    #[test]
    fn the_page_fits_a_phone() {
        let none = Spread::default();
        let limit = Limit {
            rates: Rates { line_mlps: 50.0, run_mlps: 97.0 },
            word_rtt_ns: WordRtt { shared: 120.0, separate: 240.0 },
            line_best: (0, 0),
            run_best: (0, 0),
            spread: LimitSpread { line_mlps: none, run_mlps: none, shared_ns: none, separate_ns: none },
        };
        let page = page(&samples::rows(), &limit, true);
        assert!(page.contains("<meta name=\"viewport\" content=\"width=device-width"));
        assert!(page.contains("<div class=\"scroll\"><table>"));
        assert_eq!((page.matches("<svg viewBox").count(), page.matches("</tr>").count()), (2, 7));
        assert!(page.contains("Reference: 40.0 Mpps of 64 bytes"));
    }
}
