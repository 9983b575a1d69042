//! How long the core was busy, as the scheduler shows it.

use super::*;

/// Runs so long; gives the time that it was busy, as shown and as it was, by the clients' own account.
fn run(schedule: &mut Schedule, ticks: u64, busy: &Rc<Cell<u64>>) -> (f64, f64) {
    let shown = Arc::<BusyTime>::default();
    shown.set_clock(1_000_000_000);
    schedule.scheduler.show_load(Arc::clone(&shown));
    schedule.run(ticks);
    (shown.ns() as f64, busy.get() as f64)
}

/// A client that has packets for so many of 100 ticks of each stretch of time `period`, which polls of 300 ticks move.
fn partly(percent: u64, period: u64, busy: &Rc<Cell<u64>>) -> impl FnMut(u64) -> (u64, bool) + 'static {
    let busy = Rc::clone(busy);
    move |now| {
        let found = now % period < period / 100 * percent;
        busy.set(busy.get() + if found { 300 } else { 0 });
        (if found { 300 } else { 20 }, found)
    }
}

#[test]
fn of_clients_that_share_the_core_it_is_exact() {
    let (mut schedule, busy) = (Schedule::new(), Rc::default());
    schedule.add(1, partly(30, 100_000, &busy));
    schedule.add(1, partly(50, 1_000_000, &busy));
    let (shown, was) = run(&mut schedule, 20_000_000, &busy);
    assert_eq!(shown, was);
    assert!(was > 1e6);
}

#[test]
fn of_a_client_alone_it_is_an_estimate() {
    for (percent, period) in [(0, 1000), (100, 1000), (10, 3_000), (25, 40_000), (50, 1_000_000), (90, 7_000)]
    {
        let (mut schedule, busy) = (Schedule::new(), Rc::default());
        schedule.add(1, partly(percent, period, &busy));
        let (shown, was) = run(&mut schedule, 200_000_000, &busy);
        let error = (shown - was).abs() / 2e8;
        assert!(error < 0.05, "{percent} % of {period}: {shown} instead of {was}");
    }
}

#[test]
fn a_client_alone_costs_one_stretch_of_clock_readings_in_64() {
    let mut schedule = Schedule::new();
    schedule.busy(300);
    let before = schedule.clock.readings.get();
    schedule.run(300 * 64 * 6_400);
    // Two for each of the 64 polls of a hundred stretches that are timed.
    let readings = schedule.clock.readings.get() - before;
    assert!((50 * 128..200 * 130).contains(&readings), "{readings}");
}

#[test]
fn a_core_that_slept_was_not_busy() {
    let (mut schedule, busy) = (Schedule::new(), Rc::default());
    schedule.clock.now.set(1 << 40);
    schedule.add(1, partly(100, 1000, &busy));
    let (shown, was) = run(&mut schedule, 10_000_000, &busy);
    assert!(shown > 0.0 && shown <= was, "{shown} of {was}");
}

#[test]
fn a_client_alone_was_not_busy_while_the_core_slept() {
    let (mut schedule, busy) = (Schedule::new(), Rc::default());
    schedule.add(1, partly(100, 1000, &busy));
    let shown = Arc::<BusyTime>::default();
    shown.set_clock(1_000_000_000);
    schedule.scheduler.show_load(Arc::clone(&shown));
    schedule.run(10_000_000);
    schedule.clock.now.set(schedule.clock.now.get() + (1 << 40));
    schedule.scheduler.awake(&mut ());
    schedule.run(10_000_000);
    let (shown, was) = (shown.ns() as f64, busy.get() as f64);
    assert!(shown > 0.8 * was && shown <= was, "{shown} of {was}");
}
