//! The daemon that is attacked: a fresh one for each round, and what it has taken of the machine.

use std::fs::File;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use ccnic_control::Connection;
use rustix::process::{getpriority_process, setpriority_process};
use serde::Serialize;

use super::good::{NAME, Wire};
use crate::nic_process::{NicOptions, NicProcess};

/// What all regions together may take, in MiB.
pub const MEMORY_MAX: u64 = 512;

/// What a daemon took in a round.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Taken {
    /// The most memory that was resident at any moment, beyond what was before the first program came, in MiB.
    pub memory_mib: u64,
    /// Bytes that it logged.
    pub log_bytes: u64,
    /// Descriptors at the end of the attack.
    pub descriptors: usize,
    /// Threads at the end of the attack.
    pub threads: u64,
    /// How long the good program has waited for a turn on the polling core because of others; null where the daemon does not say.
    pub waits: Option<Waits>,
}

/// What the daemon says of a program's turns on the polling core, while it was busy.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Waits {
    /// The longest time between two turns, in microseconds in which the polling thread had its CPU.
    pub longest_us: u64,
    /// Turns that came more than a millisecond after the one before.
    pub late: u64,
}

/// A daemon of our own.
#[derive(Debug)]
pub struct Daemon {
    nic: NicProcess,
    log: tempfile::NamedTempFile,
    /// Resident before the first program came, in KiB.
    base: u64,
}

impl Daemon {
    /// Starts `program` (by default the `ccnicd` beside this one), so that every user may connect.
    pub fn start(program: Option<&Path>, wire: Wire, core: usize, nice: i32) -> anyhow::Result<Daemon> {
        let log = tempfile::NamedTempFile::new().context("could not make a file for the daemon's log")?;
        let file: File = log.reopen().context("could not open the daemon's log")?;
        let most = MEMORY_MAX.to_string();
        let wire = match wire {
            Wire::Loopback => "loopback",
            Wire::Switch => "switch",
        };
        let options = NicOptions {
            program,
            cores: &[core],
            args: &["--wire", wire, "--memory-max", &most, "--region-max", &most],
            log: Some(file),
        };
        let nic = with_nice(nice, || NicProcess::start_with(options))
            .with_context(|| std::fs::read_to_string(&log).unwrap_or_default())?;
        let socket = nic.socket();
        for (path, mode) in [(socket.parent().unwrap_or(socket), 0o755), (socket, 0o666)] {
            std::fs::set_permissions(path, PermissionsExt::from_mode(mode))
                .with_context(|| format!("could not let others use {}", path.display()))?;
        }
        let mut this = Daemon { nic, log, base: 0 };
        this.base = this.figure("VmRSS");
        Ok(this)
    }

    pub fn socket(&self) -> &Path {
        self.nic.socket()
    }

    pub fn is_running(&mut self) -> bool {
        self.nic.is_running()
    }

    /// What it has taken so far; zeroes when it has died.
    pub fn taken(&self) -> Taken {
        Taken {
            memory_mib: self.figure("VmHWM").saturating_sub(self.base) / 1024,
            log_bytes: self.log.as_file().metadata().map_or(0, |meta| meta.len()),
            descriptors: self
                .proc("fd")
                .and_then(|path| std::fs::read_dir(path).ok())
                .map_or(0, Iterator::count),
            threads: self.figure("Threads"),
            waits: self.waits(),
        }
    }

    /// Of the good program, since it was attached: it is in nobody's way before the attack.
    fn waits(&self) -> Option<Waits> {
        let status = Connection::open(self.socket()).and_then(|connection| connection.status()).ok()?;
        let program = status.programs.into_iter().find(|program| program.name == NAME)?;
        let queue = program.queues.first()?;
        Some(Waits { longest_us: queue.longest_wait_us, late: queue.late_turns })
    }

    /// Nanoseconds in which its polling thread had a CPU; none where the kernel does not say.
    pub fn polled_ns(&self) -> Option<u64> {
        let polls = |task: &Path| {
            std::fs::read_to_string(task.join("comm")).is_ok_and(|comm| comm.starts_with("poll-"))
        };
        let tasks = std::fs::read_dir(self.proc("task")?).ok()?;
        let task = tasks.filter_map(Result::ok).map(|entry| entry.path()).find(|task| polls(task))?;
        let text = std::fs::read_to_string(task.join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse().ok()
    }

    /// False when it had to be killed.
    pub fn stop(self) -> bool {
        self.nic.stop()
    }

    fn proc(&self, file: &str) -> Option<PathBuf> {
        Some(Path::new("/proc").join(self.nic.pid()?.to_string()).join(file))
    }

    /// A number of `/proc/PID/status`, in KiB if it is memory; 0 when the daemon has died.
    fn figure(&self, name: &str) -> u64 {
        self.nic.pid().and_then(|pid| ccnic_hostile::figure(pid, name)).unwrap_or(0)
    }
}

/// Calls `f` with this priority for the calling thread, and all that it starts; with the present one where that is not permitted.
fn with_nice<T>(nice: i32, f: impl FnOnce() -> T) -> T {
    let before = getpriority_process(None).unwrap_or(0);
    let changed = setpriority_process(None, nice).is_ok();
    let value = f();
    if changed {
        let _ = setpriority_process(None, before); // as permitted as the change was
    }
    value
}

/// True when threads may have a higher priority than usual.
pub fn may_raise_priority(nice: i32) -> bool {
    let before = getpriority_process(None).unwrap_or(0);
    with_nice(nice, || getpriority_process(None).unwrap_or(0) < before)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_priority_is_given_back() {
        let before = getpriority_process(None).unwrap();
        assert_eq!(with_nice(-1, || 7), 7);
        assert_eq!(getpriority_process(None).unwrap(), before);
    }
}
