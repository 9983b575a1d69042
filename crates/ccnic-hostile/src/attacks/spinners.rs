//! Threads that want the NIC's CPU: no program, no packet, only time that the kernel gives them instead of the polling thread.

use rustix::thread::{CpuSet, sched_setaffinity};

use ccnic_control::Connection;

use crate::stage::Stage;

const SPINNERS: usize = 4;
/// Pauses between two looks at the time.
pub const PAUSES: usize = 100_000;

/// Spins on the CPUs that the NIC's status names, in more threads than there is room for.
pub fn spinners(stage: &Stage<'_>) -> anyhow::Result<()> {
    let cpus = Connection::open(stage.socket)?.status()?.cores;
    std::thread::scope(|scope| {
        for cpu in cpus.iter().copied().cycle().take(SPINNERS) {
            scope.spawn(move || spin(stage, cpu));
        }
    });
    Ok(())
}

/// Spins on a CPU, if this process may use it.
fn spin(stage: &Stage<'_>, cpu: usize) {
    let mut set = CpuSet::new();
    set.set(cpu);
    let moved = sched_setaffinity(None, &set).map_err(|e| format!("using CPU {cpu}: {e}"));
    if stage.tried(moved).is_none() {
        return stage.linger(); // it is isolated, as docs/placement.md recommends
    }
    while stage.goes_on() {
        (0..PAUSES).for_each(|_| std::hint::spin_loop());
        stage.did(1);
    }
}
