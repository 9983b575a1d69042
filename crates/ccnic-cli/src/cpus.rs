//! CPUs: which ones this process may use, who runs where, and pinning a thread.

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

/// Who runs where: programs on the first half of the CPUs, the NIC on the second.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Split {
    /// CPUs of programs.
    pub host: Vec<usize>,
    /// CPUs of the NIC.
    pub nic: Vec<usize>,
}

impl Split {
    /// The split of the CPUs that this process may use.
    pub fn of_machine() -> anyhow::Result<Split> {
        Ok(Split::of(&usable()?))
    }

    /// One CPU serves both sides, which then take turns.
    fn of(cpus: &[usize]) -> Split {
        match cpus {
            [only] => Split { host: vec![*only], nic: vec![*only] },
            _ => {
                let (host, nic) = cpus.split_at(cpus.len() / 2);
                Split { host: host.to_vec(), nic: nic.to_vec() }
            }
        }
    }

    /// The CPU of the program's thread `i`.
    pub fn host(&self, i: usize) -> usize {
        self.host.get(i % self.host.len().max(1)).copied().unwrap_or(0)
    }

    /// The first CPU of the NIC.
    pub fn nic(&self) -> usize {
        self.nic.first().copied().unwrap_or(0)
    }

    /// True when `threads` threads on each side have a CPU each.
    pub fn alone(&self, threads: usize) -> bool {
        self.host != self.nic && threads <= self.host.len() && threads <= self.nic.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_cpu_serves_both_sides() {
        let one = Split::of(&[3]);
        assert_eq!((one.host(5), one.nic(), one.alone(1)), (3, 3, false));
        let four = Split::of(&[0, 1, 4, 5]);
        assert_eq!((four.host(1), four.nic(), four.alone(2), four.alone(3)), (1, 4, true, false));
    }
}
