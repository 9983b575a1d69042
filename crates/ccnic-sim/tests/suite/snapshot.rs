//! The exact results of a grid of loopbacks: runs repeat bit for bit, so the test detects every change of a result. `CCNIC_BLESS=1`
//! rewrites the file.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::fmt::Write as _;

use crate::common::{mpps, named, plan};
use ccnic::Design;
use ccnic_sim::counters::Counters;
use ccnic_sim::loopback::{self, Run};

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/suite/snapshots/loopback.txt");

const HEADER: &str = "\
One queue pair; per packet: requests of host and NIC across the link (reads, ownership), lines and control messages sent
by each, lines that all sockets read from memory.

platform design        size  in | packets    Mpps   p50 ns   p99 ns | host  r,o       NIC  r,o | lines h>n n>h   controls h>n n>h  memory
";

fn line(platform: &str, design: Design, size: u16, inflight: usize) -> String {
    let run = loopback::run(&named(platform), &plan(design, 1, size, inflight, 150e-6)).unwrap();
    let outcome = &run.outcomes[0];
    assert_eq!((outcome.lost, outcome.corrupt), (0, 0));
    let per = |n: u64| n as f64 / outcome.packets as f64;
    let asked = |c: &Counters| format!("{:6.3} {:6.3}", per(c.remote_reads), per(c.remote_owns));
    let [host, nic] = [&run.traffic[0], &run.traffic[1]];
    let quantile = |q| outcome.rtt.value_at_quantile(q);
    let mut line = String::new();
    write!(line, "{platform:8} {design:13} {size:4} {inflight:3} | ", design = format!("{design:?}"))
        .unwrap();
    write!(line, "{:7} {:7.3} {:8} {:8} | ", outcome.packets, mpps(&run), quantile(0.5), quantile(0.99))
        .unwrap();
    write!(line, "{} {} | ", asked(&run.host[0]), asked(&run.nic[0])).unwrap();
    write!(line, "{:7.3} {:7.3} ", per(host.lines), per(nic.lines)).unwrap();
    write!(line, "{:9.3} {:7.3} {:7.3}", per(host.controls), per(nic.controls), memory(&run)).unwrap();
    line
}

fn memory(run: &Run) -> f64 {
    run.traffic.iter().map(|t| t.memory_reads).sum::<u64>() as f64 / run.outcomes[0].packets as f64
}

#[test]
fn results_are_those_of_the_snapshot() {
    let mut found = String::from(HEADER);
    for platform in ["icx", "spr"] {
        for design in Design::ALL {
            for size in [64, 1500] {
                for inflight in [1, 64] {
                    found += &line(platform, design, size, inflight);
                    found.push('\n');
                }
            }
        }
    }
    if std::env::var_os("CCNIC_BLESS").is_some() {
        std::fs::write(FILE, &found).unwrap();
        return;
    }
    let expected = std::fs::read_to_string(FILE).unwrap_or_default();
    let mut differences = String::new();
    for (was, is) in expected.lines().zip(found.lines()).filter(|(was, is)| was != is) {
        writeln!(differences, "- {was}\n+ {is}").unwrap();
    }
    assert!(
        expected == found,
        "results have changed. If that is intended: CCNIC_BLESS=1 cargo test -p ccnic-sim --test suite snapshot\n{differences}"
    );
}
