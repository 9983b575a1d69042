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

/// Puts the calling thread behind all others.
pub fn last_in_line() {
    let _ = setpriority_process(None, 19); // always permitted
}
