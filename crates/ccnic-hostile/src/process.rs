//! The process of an attack: no longer root's, with all descriptors that it may have, and gone when its parent is.

use anyhow::Context;
use rustix::process::{Gid, Uid};
use rustix::process::{
    Resource, Rlimit, Signal, geteuid, getrlimit, set_parent_process_death_signal, setpriority_process,
    setrlimit,
};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

/// The user and the group without rights, on every Linux.
const NOBODY: u32 = 65534;

/// Makes the calling thread, and those that it starts, a stranger's.
pub fn prepare() -> anyhow::Result<()> {
    let files = getrlimit(Resource::Nofile);
    // With fewer descriptors an attack is weaker, and still one.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: files.maximum, ..files });
    if geteuid().is_root() {
        let (user, group) = (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY));
        set_thread_groups(&[]).context("could not leave root's groups")?;
        set_thread_res_gid(group, group, group).context("could not become nobody's group")?;
        set_thread_res_uid(user, user, user).context("could not become nobody")?;
    }
    // After the change of user, which forgets it.
    set_parent_process_death_signal(Some(Signal::KILL)).context("could not tie the process to its parent")
}

/// A number of `/proc/PID/status`, such as `Threads`, or `VmHWM` in KiB. `None` when the process has gone, or has no such figure.
pub fn figure(pid: u32, name: &str) -> Option<u64> {
    figure_in(&std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?, name)
}

fn figure_in(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Puts the calling thread behind all others.
pub fn last_in_line() {
    let _ = setpriority_process(None, 19); // always permitted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_a_process() {
        let text = "VmHWM:\t   12345 kB\nThreads:\t7\n";
        let figures = ["VmHWM", "Threads", "VmRSS", "VmHW"].map(|name| figure_in(text, name));
        assert_eq!(figures, [Some(12345), Some(7), None, None]);
        assert!(figure(std::process::id(), "Threads").is_some_and(|threads| threads > 0));
    }
}
