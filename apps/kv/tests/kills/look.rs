//! Descriptors and memory that a process holds, and its threads' states.

use std::fmt::Write;

use ccnic_hostile::figure;

/// Numbers that must be the same at every rest of a life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holdings {
    pub descriptors: usize,
    /// Mapped regions.
    pub regions: usize,
    pub threads: u64,
}

impl Holdings {
    pub fn of(pid: u32) -> Holdings {
        let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
        Holdings {
            descriptors: std::fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count),
            regions: maps.lines().filter(|line| line.contains("memfd:")).count(),
            threads: figure(pid, "Threads").unwrap_or(0),
        }
    }
}

/// Holdings of a life when it was first at rest, and after how many kills that was.
#[derive(Debug, Clone, Copy)]
pub struct First {
    pub held: Holdings,
    /// KiB.
    pub resident: u64,
    pub kills: u64,
}

/// Every thread of a process: its name, state, and stack in the kernel.
pub fn stacks(pid: u32) -> String {
    let mut text = String::new();
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return format!("{pid} has gone") };
    for task in tasks.flatten() {
        let read = |file: &str| std::fs::read_to_string(task.path().join(file)).unwrap_or_default();
        let status = read("status");
        let state = status.lines().find(|line| line.starts_with("State:")).unwrap_or_default();
        let (name, at, call) = (read("comm"), read("wchan"), read("syscall"));
        let stack = read("stack").replace('\n', " ");
        let _ = writeln!(text, "{pid} {} {state}, {at}, call {}: {stack}", name.trim(), call.trim());
    }
    text
}

/// Shared memory of the whole machine, in MiB.
pub fn shared_memory() -> u64 {
    let info = std::fs::read_to_string("/proc/meminfo").unwrap();
    let line = info.lines().find_map(|line| line.strip_prefix("Shmem:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() >> 10
}
