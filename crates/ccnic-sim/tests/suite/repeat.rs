//! A run repeats bit for bit, in this process and in another one, which has other addresses and hash seeds.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::hash::{DefaultHasher, Hash, Hasher};
use std::process::Command;

use crate::common::{named, plan};
use ccnic::Design;
use ccnic_sim::loopback::{self, Run};

/// All results of a run.
fn everything(run: &Run) -> String {
    let outcomes: Vec<_> = run
        .outcomes
        .iter()
        .map(|o| {
            let rtt: Vec<_> =
                o.rtt.iter_recorded().map(|v| (v.value_iterated_to(), v.count_at_value())).collect();
            (o.packets, o.seconds.to_bits(), o.lost, o.corrupt, rtt)
        })
        .collect();
    format!("{outcomes:?} {:?} {:?} {:?} {}", run.host, run.nic, run.traffic, run.measured)
}

fn all() -> Vec<String> {
    let mut all = Vec::new();
    for design in Design::ALL {
        for (platform, queues) in [("spr", 1), ("spr", 4), ("icx", 4)] {
            let run = loopback::run(&named(platform), &plan(design, queues, 200, 32, 20e-6)).unwrap();
            assert!(run.outcomes.iter().all(|o| o.packets > 20), "a run without packets repeats easily");
            all.push(everything(&run));
        }
    }
    all
}

fn digest(all: &[String]) -> u64 {
    let mut hasher = DefaultHasher::new(); // with fixed keys
    all.hash(&mut hasher);
    hasher.finish()
}

#[test]
fn a_run_repeats_bit_for_bit() {
    let (first, second) = (all(), all());
    for (a, b) in first.iter().zip(&second) {
        assert_eq!(a, b);
    }
    // Different loads must give different results.
    let other = loopback::run(&named("spr"), &plan(Design::GroupedEpoch, 1, 257, 32, 20e-6)).unwrap();
    assert!(!first.contains(&everything(&other)));

    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "repeat::prints_its_results", "--ignored", "--nocapture"]);
    let output = String::from_utf8(child.output().unwrap().stdout).unwrap();
    let said = output.lines().find_map(|line| line.split("digest: ").nth(1));
    assert_eq!(
        said,
        Some(digest(&first).to_string().as_str()),
        "the results differ in another process:\n{output}"
    );
}

#[test]
#[ignore = "run by the other test, in another process"]
fn prints_its_results() {
    println!("digest: {}", digest(&all()));
}
