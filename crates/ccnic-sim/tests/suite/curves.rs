//! The shapes of rates and latencies: they rise with the load, saturate at the resource that bounds them, and never exceed it.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::cell::RefCell;
use std::rc::Rc;

use crate::common::{mpps, named, plan};
use ccnic::{Design, SharedMemory};
use ccnic_load::Load;
use ccnic_sim::loopback::{self, Plan, Run, Sweep, simulate, simulate_sweep};
use ccnic_sim::micro::{Stores, stream};
use ccnic_sim::platform::Platform;
use ccnic_sim::summary::Summary;
use ccnic_sim::time::{Ps, ns};
use ccnic_sim::{Machine, Sim};

/// A machine whose link is so slow that few cores fill it.
fn narrow(gflit_per_s: f64) -> Platform {
    named("icx").overridden("link.rate", gflit_per_s).unwrap()
}

/// Lines per microsecond that one direction of a link carries.
fn lines_per_us(platform: &Platform) -> f64 {
    let link = platform.link.as_ref().unwrap();
    link.rate.get() * 1000.0 / f64::from(link.data_flits.get())
}

fn rises(values: &[f64], slack: f64) {
    let falls = values.windows(2).find(|w| w[1] < w[0] * (1.0 - slack));
    assert_eq!(falls, None, "of {values:?}");
}

#[test]
fn streams_fill_the_link_and_no_more() {
    let platform = narrow(0.7);
    let limit = lines_per_us(&platform) * 512.0 / 1000.0; // Gbit/s
    for stores in [Stores::Caching, Stores::None] {
        let rates: Vec<f64> =
            [1, 2, 4, 6].iter().map(|n| stream(&platform, stores, *n).unwrap().gbit_per_s).collect();
        // Some control messages find no header with a spare slot; their number increases with the cores.
        rises(&rates, 0.02);
        let last = rates[3];
        assert!((0.97..=1.0).contains(&(last / limit)), "{stores:?}: {rates:?} of {limit}");
        assert!(rates[0] < 0.9 * limit, "{stores:?}: one pair alone fills it: {rates:?}");
    }
}

/// A loopback on a machine with few lines per second, over 1 to 8 pairs of cores; returns the rates of packets. `lines` of each packet must
/// cross in each direction; with all cores at least `share` of what the link carries of them is reached, and the link is full. What it
/// carries never falls as cores are added.
#[track_caller]
fn fills_the_link(platform: &Platform, (design, inline): (Design, bool), lines: f64, share: f64) -> [f64; 4] {
    let limit = lines_per_us(platform) / lines;
    let runs = [1, 2, 4, 8].map(|queues| {
        let mut plan = plan(design, queues, 64, 64, 100e-6);
        plan.config.inline = inline;
        loopback::run(platform, &plan).unwrap()
    });
    let rates = runs.each_ref().map(mpps);
    let carried = |run: &Run| run.traffic.iter().map(|t| t.lines).max().unwrap() as f64 / run.measured as f64;
    rises(&runs.each_ref().map(carried), 0.01);
    assert!(rates[3] <= limit, "{design:?}: {rates:?} Mpps of {limit}");
    assert!(rates[3] > share * limit, "{design:?}: {rates:?} Mpps of {limit}");
    let used = |run: &Run| {
        let busy = run.traffic.iter().map(|t| t.link_busy).max().unwrap();
        busy as f64 / run.measured as f64
    };
    // What is sent by the end of the measured time counts as used when it is put into the queue: half a microsecond of queue in 100.
    assert!((0.95..=1.006).contains(&used(&runs[3])), "{design:?}: {} of the link is used", used(&runs[3]));
    rates
}

/// A payload line and, four to a line, a descriptor.
const GROUPED: f64 = 1.25;

#[test]
fn a_loopback_never_exceeds_the_link() {
    let platform = narrow(0.35);
    // Eight pairs have more polls that find part of a group than four, and up to 4 % fewer packets.
    rises(&fills_the_link(&platform, (Design::GroupedEpoch, false), GROUPED, 0.8), 0.04);
    rises(&fills_the_link(&platform, (Design::GroupedClear, false), GROUPED, 0.7), 0.03);
    rises(&fills_the_link(&platform, (Design::Padded, false), 2.0, 0.5), 0.03);
}

/// Inline payload needs as many lines as payload in buffers, whether the host's hardware prefetchers are on or off. Four pairs of cores nearly
/// fill the link. With eight, sides that wait for it look more often at lines of the rings that are not full yet (0.12 reads per packet
/// more): the link carries more lines, and up to 10 % fewer packets.
#[test]
fn inline_payload_fills_the_link_with_the_same_lines() {
    let without = ["adjacent", "streamer", "ip"].iter().fold(narrow(0.35), |platform, kind| {
        platform.overridden(&format!("prefetch.host.{kind}"), 0.0).unwrap()
    });
    for platform in [narrow(0.35), without] {
        let rates = fills_the_link(&platform, (Design::GroupedEpoch, true), GROUPED, 0.75);
        rises(&rates, 0.1);
    }
}

#[test]
fn latency_rises_with_load() {
    let platform = narrow(0.7);
    let at = |rate: Option<f64>| {
        let mut plan = plan(Design::GroupedEpoch, 4, 64, 256, 150e-6);
        plan.load.rate = rate;
        let run = loopback::run(&platform, &plan).unwrap();
        let rtt = &run.outcomes[0].rtt;
        (mpps(&run), rtt.value_at_quantile(0.5) as f64, rtt.value_at_quantile(0.95) as f64)
    };
    let (most, ..) = at(None);
    let loads: Vec<_> = [0.05, 0.3, 0.6, 0.9].map(|share| at(Some(share * most * 1e6 / 4.0))).into();
    for (share, (rate, ..)) in [0.05, 0.3, 0.6, 0.9].iter().zip(&loads) {
        assert!((0.9..1.1).contains(&(rate / (share * most))), "offered {share} of {most}, carried {rate}");
    }
    let [median, tail] = [0, 1].map(|i| loads.iter().map(|l| [l.1, l.2][i]).collect::<Vec<f64>>());
    rises(&median, 0.03);
    rises(&tail, 0.03);
    assert!(tail[3] > 1.2 * tail[0], "{loads:?}");
}

/// Rates one after the other on a machine that stays warm are those of machines of their own, and round trips near them. Not near the highest
/// rate, where the load comes in smaller bursts than that of the highest rate and is not carried: what is carried there depends on how
/// it began.
#[test]
fn shares_are_measured_on_a_warm_machine_as_in_runs_of_their_own() {
    for platform in [named("icx"), narrow(0.7)] {
        let mut plan = plan(Design::GroupedEpoch, 4, 64, 256, 100e-6);
        plan.load.warmup = 300e-6;
        let sweep = Sweep { shares: vec![0.1, 0.3, 0.5], of: None };
        let found = simulate_sweep(&platform, &plan, sweep).unwrap();
        let alone = |rate: Option<f64>| {
            let load = Load { rate, ..plan.load };
            simulate(&platform, &Plan { load, ..plan }).unwrap()
        };
        let peak = found[0].totals.mpps;
        let runs = [None, Some(0.1), Some(0.3), Some(0.5)].map(|s| alone(s.map(|s| s * peak * 1e6 / 4.0)));
        assert_eq!(found.len(), runs.len());
        for (a, b) in found.iter().zip(&runs) {
            let near = |a: f64, b: f64, by: f64| (a / b - 1.0).abs() <= by;
            assert!(near(a.totals.mpps, b.totals.mpps, 0.01), "{:?} {:?}", a.totals, b.totals);
            let p50 = |s: &Summary| s.totals.rtt_ns.p50 as f64;
            assert!(near(p50(a), p50(b), 0.15), "{:?} {:?}", a.totals, b.totals);
            let offered = |s: &Summary| s.offered_mpps.unwrap_or_default();
            assert!((offered(a) - offered(b)).abs() < 1e-6);
            assert_eq!((a.totals.lost, a.totals.corrupt), (0, 0));
        }
    }
}

/// The first share is measured after the highest rate has left the queues full. So near that rate they would empty too slowly; programs pause
/// before. (Sixteen cores that fill a PCIe link with packets of 1500 bytes, one share only: without the pause 72 us in place of 3.)
#[test]
fn a_first_share_finds_the_queues_empty() {
    let mut plan = plan(Design::Doorbell, 16, 1500, 128, 50e-6);
    plan.load.warmup = 200e-6; // the highest rate decides what 80 % are
    plan.config.shared_pool = false;
    let sweep = Sweep { shares: vec![0.8], of: None };
    let [full, share] = &simulate_sweep(&named("icx-cx6"), &plan, sweep).unwrap()[..] else {
        panic!("the load and one share");
    };
    let (waited, passed) = (full.totals.rtt_ns.p50, share.totals.rtt_ns.p50);
    assert!(waited > 10 * passed, "{passed} ns after a queue of {waited}");
    assert_eq!((share.totals.lost, share.totals.corrupt), (0, 0));
}

/// Cores that sent at the same times would queue at any rate. They send one after the other, so with few packets a round trip
/// takes as long as with one core.
#[test]
fn cores_of_one_rate_send_one_after_the_other() {
    let platform = named("icx");
    let p50 = |rate: Option<f64>, queues, inflight| {
        let mut plan = plan(Design::GroupedEpoch, queues, 1500, inflight, 100e-6);
        plan.load.rate = rate;
        let run = loopback::run(&platform, &plan).unwrap();
        run.outcomes.iter().map(|o| o.rtt.value_at_quantile(0.5)).max().unwrap()
    };
    let (alone, many) = (p50(None, 1, 1), p50(Some(0.2e6), 16, 64));
    assert!(many < alone * 11 / 10, "{many} ns on 16 cores, {alone} ns on one");
}

/// Cores that read memory at given intervals, and one that measures the latency.
fn loaded_latency(platform: &Platform, cores: u8, pause: f64) -> (f64, f64) {
    const EACH: u32 = 1 << 20;
    const PROBES: u32 = 1500;
    let sides: Vec<(u8, usize)> = (0..=cores).map(|_| (0, 1)).collect();
    let mut sim = Sim::new(Machine::new(platform, EACH * (u32::from(cores) + 1), &sides).unwrap());
    let seen = Rc::new(RefCell::new(Vec::new()));
    let (results, done) = (Rc::clone(&seen), Rc::new(RefCell::new(false)));
    let stop = Rc::clone(&done);
    sim.spawn(0, move |agent| {
        agent.work(2000.0);
        for i in 0..PROBES {
            let start = agent.now();
            agent.load_acquire((i * 8256) % EACH / 64 * 64);
            results.borrow_mut().push(agent.now() - start);
            agent.work(20.0);
        }
        *stop.borrow_mut() = true;
    })
    .unwrap();
    for core in 1..=cores {
        let done = Rc::clone(&done);
        sim.spawn(core, move |agent| {
            agent.work(f64::from(core) * 7.0);
            for line in 0.. {
                agent.read_lines(EACH * u32::from(core) + line * 64 % EACH, 64);
                agent.work(pause);
                if *done.borrow() {
                    break;
                }
            }
        })
        .unwrap();
    }
    sim.run(Ps::MAX);
    let traffic = sim.machine().traffic(0);
    let gbytes_per_s = traffic.memory_reads as f64 * 64.0 / ns(sim.machine().now());
    let seen = seen.borrow();
    (gbytes_per_s, ns(seen.iter().sum::<Ps>()) / seen.len() as f64)
}

#[test]
fn memory_under_load_follows_its_curve() {
    let platform = named("icx");
    let points = platform.memory.curve.as_ref().unwrap().points();
    let mut rates = Vec::new();
    for (cores, pause) in [(1, 60.0), (6, 20.0), (10, 8.0), (12, 3.0), (14, 1.0)] {
        let (rate, latency) = loaded_latency(&platform, cores, pause);
        let i = points.iter().position(|p| p[0] > rate).unwrap_or(points.len() - 1).max(1);
        let ([x0, y0], [x1, y1]) = (points[i - 1], points[i]);
        let extra = y0 + (rate - x0) / (x1 - x0) * (y1 - y0) - points[0][1];
        let expected = platform.instruction_ns() + platform.local_memory_ns() + extra.max(0.0);
        assert!(
            (0.9..1.15).contains(&(latency / expected)),
            "{cores} cores read {rate} GB/s: {latency} ns, the curve says {expected}"
        );
        rates.push(rate);
    }
    assert!(rates[4] > 3.0 * rates[0], "no load: {rates:?}");
}

/// Whole lines: with 4 x 112 instructions of the NIC between two lines of four descriptors, a reorder buffer of 352 (icx) reaches none
/// beyond the first, as one of 447; one of 448 reaches one.
#[test]
fn lines_that_the_reorder_buffer_does_not_reach_are_waited_for() {
    let rate = |at_a_time: f64, rob: f64| {
        let set = [("software.packet_at_a_time", at_a_time), ("core.rob", rob)];
        let platform =
            set.into_iter().fold(named("icx"), |p, (key, value)| p.overridden(key, value).unwrap());
        mpps(&loopback::run(&platform, &plan(Design::GroupedClear, 1, 64, 256, 100e-6)).unwrap())
    };
    let rates = [(0.0, 352.0), (1.0, 448.0), (1.0, 447.0), (1.0, 352.0)].map(|(one, rob)| rate(one, rob));
    assert!(
        rates[0] > 1.1 * rates[1] && rates[1] > 1.1 * rates[2] && rates[2] > 0.95 * rates[3],
        "{rates:?}"
    );
}
