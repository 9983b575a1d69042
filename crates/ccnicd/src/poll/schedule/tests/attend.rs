//! Commands to the core between polls: they get their share, and no more.

use super::*;

#[test]
fn commands_take_a_sixteenth_and_always_get_it() {
    for costs in [&[200][..], &[3_000], &[90_000], &[100, 50_000, 300]] {
        let mut schedule = Schedule::new();
        [700, 100_000].iter().for_each(|cost| _ = schedule.busy(*cost));
        (0..20).for_each(|_| _ = schedule.idle(256, 200));
        let (done, spent) = commands(&mut schedule, costs, 100_000_000);
        let most = schedule.now() / SHARE + costs.iter().max().unwrap() + TIMES.batch;
        assert!(spent <= most, "{costs:?}: {spent} of {}", schedule.now());
        assert!(done >= 50, "{costs:?}: {done} executed");
    }
}

#[test]
fn many_small_commands_go_together() {
    let mut schedule = Schedule::new();
    [700, 900].iter().for_each(|cost| _ = schedule.busy(*cost));
    let (done, _) = commands(&mut schedule, &[100], 100_000_000);
    assert!(done > 50_000, "{done} in 100 ms");
}
