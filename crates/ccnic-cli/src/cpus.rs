//! CPUs: which ones this process may use, which thread runs where, and whether a thread had its CPU for
//! itself.

use anyhow::Context;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};

use crate::print;

/// The CPUs that this process may use, in order.
pub fn usable() -> anyhow::Result<Vec<usize>> {
    let set = sched_getaffinity(None).context("could not ask which CPUs may be used")?;
    Ok((0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect())
}

/// Pins the current thread to `cpu`.
pub fn pin(cpu: usize) -> anyhow::Result<()> {
    pin_to(&[cpu])
}

/// Pins the current thread, and those that it starts, to some CPUs.
pub fn pin_to(cpus: &[usize]) -> anyhow::Result<()> {
    let mut set = CpuSet::new();
    cpus.iter().for_each(|cpu| set.set(*cpu));
    sched_setaffinity(None, &set).with_context(|| format!("could not pin a thread to CPUs {cpus:?}"))
}

/// The CPUs of each side: programs on the first half, the NIC on the second.
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

    /// With one CPU, both sides share it.
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

/// Warns when threads must share CPUs: the results then depend on the scheduler more than on the interface.
///
/// # Errors
/// When the kernel does not tell which CPUs may be used.
pub fn warn_if_crowded(queues: u16) -> anyhow::Result<()> {
    let split = Split::of_machine()?;
    let (host, nic) = (split.host.len(), split.nic.len());
    if split.host == split.nic {
        print::warn("there is one CPU only, which program and NIC must share: the figures will be low");
    } else if !split.alone(queues.into()) {
        print::warn(&format!(
            "{queues} queue pairs share {host} program and {nic} NIC CPUs: the figures will be low; choose at most \
             --queues {}",
            host.min(nic)
        ));
    }
    Ok(())
}

/// The time that passed, and how much of it the calling thread had a CPU.
#[derive(Debug, Clone, Copy, Default)]
pub struct CpuTime {
    /// Seconds of a clock that always runs.
    wall: f64,
    /// Seconds of the thread's own CPU time.
    cpu: f64,
}

impl CpuTime {
    /// Both clocks of the calling thread.
    pub fn now() -> CpuTime {
        let seconds = |clock| {
            let time = clock_gettime(clock);
            time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
        };
        CpuTime { wall: seconds(ClockId::Monotonic), cpu: seconds(ClockId::ThreadCPUTime) }
    }

    /// Seconds of the thread's own CPU time since `begun`.
    pub fn own_since(self, begun: CpuTime) -> f64 {
        self.cpu - begun.cpu
    }

    /// The share of the time since `begun` that the thread had a CPU: 0 to 1.
    pub fn share_since(self, begun: CpuTime) -> f64 {
        let wall = self.wall - begun.wall;
        if wall > 0.0 { ((self.cpu - begun.cpu) / wall).clamp(0.0, 1.0) } else { 1.0 }
    }
}

/// The least share of CPU time of a thread that does not share its CPU.
const UNDISTURBED: f64 = 0.97;

/// Warns when a load generator shared its CPU with other processes in some runs. `shares` has a value for each
/// run.
pub fn warn_if_disturbed(shares: impl IntoIterator<Item = f64>) {
    if let Some(text) = disturbed(shares) {
        print::warn(&text);
    }
}

fn disturbed(shares: impl IntoIterator<Item = f64>) -> Option<String> {
    let shares: Vec<f64> = shares.into_iter().collect();
    let short = shares.iter().filter(|share| **share < UNDISTURBED).count();
    let least = shares.iter().copied().fold(1.0, f64::min) * 100.0;
    (short > 0).then(|| {
        format!(
            "other processes ran too: in {short} of {} runs the load generator had its CPU for less than {:.0} % of the time (least: \
             {least:.0} %); repeat on an idle machine",
            shares.len(),
            UNDISTURBED * 100.0
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_sleeps_has_no_cpu() {
        let begun = CpuTime::now();
        std::thread::sleep(std::time::Duration::from_millis(50));
        let share = CpuTime::now().share_since(begun);
        assert!((0.0..0.5).contains(&share), "{share}");
        let (begun, ended) = (CpuTime { wall: 10.0, cpu: 1.0 }, CpuTime { wall: 12.0, cpu: 2.5 });
        assert_eq!(ended.share_since(begun), 0.75);
        assert_eq!(begun.share_since(begun), 1.0, "no time has passed");
    }

    #[test]
    fn a_generator_that_lost_its_cpu_is_reported() {
        assert_eq!(disturbed([1.0, 0.97]), None);
        assert_eq!(disturbed([]), None);
        let text = disturbed([0.99, 0.5, 0.9]).unwrap();
        assert!(text.contains("in 2 of 3 runs") && text.contains("least: 50 %"), "{text}");
    }

    #[test]
    fn one_cpu_serves_both_sides() {
        let one = Split::of(&[3]);
        assert_eq!((one.host(5), one.nic(), one.alone(1)), (3, 3, false));
        let four = Split::of(&[0, 1, 4, 5]);
        assert_eq!((four.host(1), four.nic(), four.alone(2), four.alone(3)), (1, 4, true, false));
    }
}
