//! Host and NIC on two threads, every ring and pool; caller and server of calls; the cachable queue of CNI. `make tsan` runs this under
//! ThreadSanitizer.

// The simulator's own source, so that ThreadSanitizer's build has few crates.
#[path = "../../ccnic-sim/src/systems/cni/header.rs"]
#[allow(unreachable_pub, reason = "a library's")]
mod header;
#[path = "../../ccnic-sim/src/systems/cni/queue.rs"]
#[allow(dead_code, unreachable_pub, reason = "a library's, and what only devices of the simulator use")]
mod queue;

use ccnic::ring::{Doorbell, GroupedClear, GroupedEpoch, Packed, Padded, Ring};
use ccnic_check::suite::{configs, wires};
use ccnic_check::{rig::Wire, threads};
use ccnic_shm::{Pages, Region};
use ccnic_testing::RegionMemory;

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

/// Messages of every length, through hundreds of laps of a queue of two places and of one of 128. A side that finds nothing yields.
#[test]
fn cachable_queues() {
    use header::{ENTRY, Header};
    use queue::{Publish, Receiver, Sender, Shape};
    let payload = |number: u32| -> Vec<u8> { (0..number * 37 % 245).map(|i| (i ^ number) as u8).collect() };
    for (entries, messages) in [(2, 1000u32), (128, 30_000)] {
        let shape = Shape { base: 64, head: 0, entries };
        let region = Region::create(64 + entries * ENTRY, Pages::Small).unwrap_or_else(|e| panic!("{e}"));
        let (from, to) = (region.memory(), region.memory());
        let receive = move || {
            let (mut receiver, mut bytes) = (Receiver::new(shape), Vec::new());
            for number in 0..messages {
                let header = loop {
                    match receiver.has(&to, 0) {
                        Some(header) => break receiver.take(&to, header, &mut bytes),
                        None => std::thread::yield_now(),
                    }
                };
                assert_eq!((header.tag, &bytes), (number, &payload(number)), "once and in order");
            }
        };
        std::thread::scope(|scope| {
            let receiving = scope.spawn(receive);
            let mut sender = Sender::new(shape);
            for number in 0..messages {
                while !sender.has_room(&from) {
                    assert!(!receiving.is_finished(), "the receiver's thread has ended");
                    std::thread::yield_now();
                }
                let bytes = payload(number);
                let header = Header { handler: 0, from: 0, to: 1, len: bytes.len(), tag: number };
                sender.send(&from, header, &bytes, Publish::ValidFirstBlockLast);
            }
            // ThreadSanitizer sees this end of a thread, and not the fence of an `Arc` that two threads drop.
            receiving.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        });
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
