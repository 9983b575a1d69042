//! How fast the simulator is: simulated packets per second of wall time.
#![allow(clippy::unwrap_used, reason = "a benchmark")]

use std::time::Duration;

use ccnic::{Config, Design};
use ccnic_load::Load;
use ccnic_sim::loopback::{Plan, run};
use ccnic_sim::platform::Platform;
use criterion::{Criterion, Throughput};

fn plan(queues: u16, seconds: f64) -> Plan {
    let config = Config { design: Design::GroupedEpoch, queues, ..Config::default() };
    let load = Load {
        size: 64,
        burst: 32,
        rx_burst: 32,
        inflight: 64,
        rate: None,
        seconds,
        warmup: seconds / 10.0,
        packets: None,
        whole_bursts: false,
        phase: 0.0,
    };
    Plan { config, load }
}

fn main() {
    let spr = Platform::named("spr").unwrap();
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_secs(1))
        .measurement_time(Duration::from_secs(8))
        .sample_size(10)
        .configure_from_args();
    let mut group = criterion.benchmark_group("loopback");
    for (pairs, seconds) in [(1, 4e-3), (16, 1e-3), (56, 1e-3)] {
        let plan = plan(pairs, seconds);
        // Those of the measured time, and of the time around it.
        let packets = run(&spr, &plan).unwrap().outcomes.iter().map(|o| o.packets).sum::<u64>() * 11 / 10;
        group.throughput(Throughput::Elements(packets));
        group.bench_function(format!("{pairs} pairs"), |b| b.iter(|| run(&spr, &plan).unwrap()));
    }
    group.finish();
    criterion.final_summary();
}
