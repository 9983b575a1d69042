//! CPUs: which ones this process may use, and pinning a thread to one.

use anyhow::Context;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The CPUs that this process may use, in order.
pub fn usable() -> anyhow::Result<Vec<usize>> {
    let set = sched_getaffinity(None).context("could not ask which CPUs may be used")?;
    Ok((0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect())
}

/// Pins the current thread to `cpu`.
pub fn pin(cpu: usize) -> anyhow::Result<()> {
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set).with_context(|| format!("could not pin a thread to CPU {cpu}"))
}
