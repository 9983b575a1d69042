//! What reaches the device when, in which order, and what the core waits for.

use std::cell::RefCell;
use std::rc::Rc;

use ccnic::SharedMemory;

use super::{Rig, costs, platform};
use crate::kernel::time::{Ps, ps};
use crate::machine::agent::Agent;
use crate::platform::Platform;
use crate::run::mmio::{Target, mmio_read, store_burst, write_throughput};

/// A machine whose first page is the device's registers.
fn machine() -> Rig {
    let mut sim = Rig::new(&platform(), 1 << 16, &[(0, 0)]);
    (0..4096).step_by(64).for_each(|at| sim.machine_mut().map_registers(at, 0));
    sim.device(|pcie, _| pcie.stores = Some(Vec::new()));
    sim
}

/// Runs a program on its core; returns what reached the device when.
fn run(program: impl FnOnce(Agent<'_>) + 'static) -> (Rig, Vec<(Ps, u32, u64)>) {
    let mut sim = machine();
    sim.spawn(0, program).unwrap();
    sim.run(Ps::MAX);
    assert!(sim.is_done(0));
    let stores = sim.device(|pcie, _| pcie.stores.take()).unwrap();
    (sim, stores)
}

/// Time of an access by the interface's code.
fn access() -> Ps {
    ps(platform().instruction_ns())
}

#[test]
fn reads_take_what_was_measured() {
    for (bytes, target) in [(8, 982.0), (64, 1026.0)] {
        let read = mmio_read(&platform(), bytes).unwrap().unwrap();
        assert!((read / target - 1.0).abs() < 1e-3, "{bytes} bytes: {read} of {target} ns");
    }
    assert_eq!(mmio_read(&Platform::named("icx").unwrap(), 8).unwrap(), None);
}

#[test]
fn a_posted_write_takes_its_time() {
    let (_, seen) = run(|agent| agent.mmio_store_uncached(64, 7));
    let expected = ps(platform().pcie.unwrap().posted_write.get()) + access();
    assert_eq!(seen, [(expected, 64, 7)]);
}

#[test]
fn uncached_stores_go_one_at_a_time_and_in_order() {
    let (_, seen) = run(|agent| (0..10).for_each(|i| agent.store_release(64 * (9 - i), u64::from(i))));
    assert_eq!(seen.iter().map(|s| s.2).collect::<Vec<_>>(), (0..10).collect::<Vec<_>>());
    let accept = costs().accept;
    for pair in seen.windows(2) {
        let gap = pair[1].0 - pair[0].0;
        assert!((accept..accept + 2000).contains(&gap), "{gap} ps, not {accept}");
    }
}

#[test]
fn later_stores_wait_for_an_uncached_one() {
    let times = Rc::new(RefCell::new(Vec::new()));
    let noted = Rc::clone(&times);
    run(move |agent| {
        agent.store(8192, 1);
        agent.fence();
        for with_device in [false, true] {
            let start = agent.now();
            if with_device {
                agent.store_release(0, 1);
            }
            agent.store(8192, 2);
            agent.fence();
            noted.borrow_mut().push(agent.now() - start);
        }
    });
    let times = times.borrow();
    let accept = costs().accept;
    assert!(times[0] < 10_000 && (accept..accept + 10_000).contains(&times[1]), "{times:?}");
}

/// A read sees what the same core has stored before it, whatever kind of store it was.
#[test]
fn a_read_does_not_pass_a_posted_write() {
    run(|agent| {
        agent.store_release(128, 5);
        agent.mmio_store(192, 4);
        let start = agent.now();
        assert_eq!((agent.load_acquire(128), agent.load(256)), (5, 0));
        let accept = costs().accept;
        assert!(agent.now() - start > 2 * ps(982.0) + accept, "{}", agent.now() - start);
    });
}

#[test]
fn stores_to_one_buffer_merge_into_one_packet() {
    for (stores, packets, bytes) in [
        (vec![(0, 64)], 1, 88),
        ((0..8).map(|i| (8 * i, 8)).collect(), 1, 88),
        (vec![(0, 4)], 1, 28),
        (vec![(0, 4), (8, 4), (12, 4), (60, 4)], 3, 3 * 24 + 16),
        (vec![(32, 64)], 2, 2 * (24 + 32)),
    ] {
        let (sim, _) = run(move |agent| {
            stores.iter().for_each(|(at, len)| agent.mmio_store(*at, *len));
            agent.store_fence();
        });
        let down = sim.traffic().down;
        assert_eq!((down.packets, down.bytes), (packets, bytes));
    }
}

#[test]
fn a_full_buffer_goes_without_a_fence_and_a_fence_waits() {
    let (sim, _) = run(|agent| agent.mmio_store(0, 256));
    assert_eq!(sim.traffic().down.packets, 4);
    let (sim, _) = run(|agent| agent.mmio_store(0, 32));
    assert_eq!(sim.traffic().down.packets, 0);
    run(|agent| {
        agent.mmio_store(0, 32);
        let start = agent.now();
        agent.store_fence();
        let took = agent.now() - start;
        assert!((costs().accept..costs().accept + 2000).contains(&took), "{took}");
        let start = agent.now();
        agent.store_fence();
        assert_eq!(agent.now() - start, access());
    });
}

/// CC-NIC figure 3: below 20 ns up to 24 stores; then at least 15 times more, and growing (SIMULATION N4).
#[test]
fn the_25th_store_to_another_line_stalls() {
    let p = platform();
    let burst = |n| store_burst(&p, n).unwrap().unwrap();
    let buffers = p.core.wc_buffers.get();
    assert_eq!(buffers, 24);
    let before = burst(24);
    assert!(burst(1) < before && before < 20.0, "{before}");
    let mut last = 15.0 * before;
    for n in 25..=64 {
        let now = burst(n);
        assert!(now > last, "{n} stores: {now} ns");
        last = now;
    }
    // As many buffers as the platform says.
    let fewer = p.overridden("core.wc_buffers", 10.0).unwrap();
    assert!(store_burst(&fewer, 10).unwrap().unwrap() < 20.0);
    assert!(store_burst(&fewer, 11).unwrap().unwrap() > 200.0);
}

/// CC-NIC figure 2 (SIMULATION N3).
#[test]
fn write_combining_needs_4_kib_between_fences() {
    let p = platform();
    let rate = |target, barrier| write_throughput(&p, target, barrier).unwrap().unwrap();
    let device = |barrier| rate(Target::Device, barrier);
    let most = device(65536);
    assert!(device(4096) > 0.85 * most && device(1024) < 0.7 * most && device(64) < 0.1 * most);
    let single = rate(Target::WriteBack, 64);
    for barrier in [1024, 4096, 65536] {
        assert!((rate(Target::WriteBack, barrier) / single - 1.0).abs() < 0.01, "write-back at {barrier}");
    }
    for batched in [device(4096), most] {
        let share = batched / single;
        assert!((0.76 * 0.85..0.76 * 1.15).contains(&share), "{batched} of {single} GB/s: {share}");
    }
    let around = |barrier| rate(Target::WriteCombining, barrier);
    assert!(around(64) < 0.5 * around(4096));
}
