//! The daemon that is attacked: a fresh one for each round, and what it has taken of the machine.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use ccnic_control::Connection;
use rustix::process::{getpriority_process, setpriority_process};
use serde::Serialize;

use super::good::{NAME, SENDING, Wire};
use super::lacked::Look;
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
    /// How long a good program has waited for a turn on the polling core because of others; null where the daemon does not say.
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
    /// Its configuration, if it has one.
    _config: Option<tempfile::NamedTempFile>,
    /// Resident before the first program came, in KiB.
    base: u64,
    /// The CPU that it polls on.
    core: usize,
}

impl Daemon {
    /// Starts `program` (by default the `ccnicd` beside this one), so that every user may connect.
    /// Each port may send so many packets to groups and unknown addresses in a second, if `storm` says so.
    pub fn start(
        program: Option<&Path>,
        (wire, storm): (Wire, Option<u32>),
        core: usize,
        nice: i32,
    ) -> anyhow::Result<Daemon> {
        let log = tempfile::NamedTempFile::new().context("could not make a file for the daemon's log")?;
        let file: File = log.reopen().context("could not open the daemon's log")?;
        let most = MEMORY_MAX.to_string();
        let wire = match wire {
            Wire::Loopback => "loopback",
            Wire::Switch => "switch",
        };
        let config = storm.map(limit).transpose().context("could not write a configuration")?;
        let mut args = vec!["--wire", wire, "--memory-max", &most, "--region-max", &most];
        let path = config.as_ref().map(|config| config.path().to_string_lossy().into_owned());
        path.iter().for_each(|path| args.extend(["--config", path.as_str()]));
        let options = NicOptions { program, cores: &[core], args: &args, log: Some(file) };
        let nic = with_nice(nice, || NicProcess::start_with(options))
            .with_context(|| std::fs::read_to_string(&log).unwrap_or_default())?;
        let socket = nic.socket();
        for (path, mode) in [(socket.parent().unwrap_or(socket), 0o755), (socket, 0o666)] {
            std::fs::set_permissions(path, PermissionsExt::from_mode(mode))
                .with_context(|| format!("could not let others use {}", path.display()))?;
        }
        let mut this = Daemon { nic, log, _config: config, base: 0, core };
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

    /// Of the good programs, since they were attached: nobody is in their way before the attack but they themselves.
    fn waits(&self) -> Option<Waits> {
        let status = Connection::open(self.socket()).and_then(|connection| connection.status()).ok()?;
        let good = status.programs.iter().filter(|program| [NAME, SENDING].contains(&program.name.as_str()));
        let queues = good.filter_map(|program| program.queues.first());
        queues
            .map(|queue| Waits { longest_us: queue.longest_wait_us, late: queue.late_turns })
            .reduce(|a, b| Waits { longest_us: a.longest_us.max(b.longest_us), late: a.late + b.late })
    }

    /// The folder in which the kernel tells of its polling thread.
    pub fn polling_thread(&self) -> Option<PathBuf> {
        let polls = |task: &PathBuf| {
            std::fs::read_to_string(task.join("comm")).is_ok_and(|comm| comm.starts_with("poll-"))
        };
        let tasks = std::fs::read_dir(self.proc("task")?).ok()?;
        tasks.filter_map(Result::ok).map(|entry| entry.path()).find(polls)
    }

    /// A look at what its polling thread has of its CPU; none where the kernel does not say.
    pub fn look(&self) -> Option<Look> {
        Look::at(&self.polling_thread()?, self.core)
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

/// A configuration in which each port may flood so many packets in a second.
fn limit(storm: u32) -> std::io::Result<tempfile::NamedTempFile> {
    let mut file = tempfile::Builder::new().suffix(".toml").tempfile()?;
    writeln!(file, "[defaults]\nstorm = {storm}")?;
    Ok(file)
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
