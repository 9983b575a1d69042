//! Host and NIC on two threads, every ring and pool; caller and server of calls. `make tsan` runs this under ThreadSanitizer.

use ccnic::ring::{Doorbell, GroupedClear, GroupedEpoch, Packed, Padded, Ring};
use ccnic_check::suite::{configs, wires};
use ccnic_check::{rig::Wire, threads};

/// Enough for hundreds of laps of the smallest ring.
const PACKETS: u64 = 3000;

fn all<R: Ring>() {
    for config in configs::<R>().into_iter().filter(|c| !c.sequential) {
        for &wire in wires(&config).iter().filter(|&&w| w != Wire::Sink) {
            threads::run::<_, R>(&config, wire, PACKETS, |mem| mem);
        }
    }
}

#[test]
fn grouped_epoch() {
    all::<GroupedEpoch>();
}

#[test]
fn grouped_clear() {
    all::<GroupedClear>();
}

#[test]
fn packed() {
    all::<Packed>();
}

#[test]
fn padded() {
    all::<Padded>();
}

#[test]
fn doorbell() {
    all::<Doorbell>();
}

#[test]
fn calls() {
    for tuning in ["fetch=own,demote=on", "fetch=read,demote=off"] {
        threads::calls(1000, PACKETS / 3, tuning.parse().unwrap_or_default(), |mem| mem);
    }
}

/// Under ThreadSanitizer this test must fail: `make tsan` runs it and checks that a race is reported.
#[test]
#[ignore = "has a data race on purpose, for ThreadSanitizer to find"]
fn a_weak_release_is_a_race() {
    let config = configs::<GroupedEpoch>().swap_remove(0);
    threads::run::<_, GroupedEpoch>(&config, Wire::Loopback, PACKETS, |mem| {
        ccnic_check::faulty::Faulty(mem, ccnic_check::faulty::WeakRelease)
    });
}
