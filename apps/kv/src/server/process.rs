//! What the process becomes before it serves, by memcached's options: another user, a daemon, its memory locked.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, bail};
use nix::errno::Errno;
use nix::sys::resource::{RLIM_INFINITY, Resource, UsageWho, getrlimit, getrusage, setrlimit};
use nix::unistd::{User, daemon, geteuid, getuid, setgid, setgroups, setuid};
use rustix::mm::{MlockAllFlags, mlockall};

use super::Options;
use crate::file::{self, NewFile};

/// Files that the process has open beside its clients.
const OWN_FILES: u64 = 64;

/// -u: only root can, others stay who they are. It has no more groups than that one.
pub(crate) fn become_user(name: &str) -> anyhow::Result<()> {
    if !getuid().is_root() && !geteuid().is_root() {
        return Ok(());
    }
    let user = User::from_name(name)?.with_context(|| format!("-u {name}: there is no such user"))?;
    match setgroups(&[]) {
        // In a namespace of users there may be no right to it, and no groups to lose.
        Ok(()) | Err(Errno::EPERM) => {}
        Err(error) => bail!("-u {name}: its groups cannot be left: {error}"),
    }
    setgid(user.gid).and_then(|()| setuid(user.uid)).with_context(|| format!("-u {name}"))
}

/// -c: as many files as clients may be open at a time.
pub(crate) fn allow_files(clients: usize) -> anyhow::Result<()> {
    let wanted = clients as u64 + OWN_FILES;
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    if soft >= wanted {
        return Ok(());
    }
    let raised = setrlimit(Resource::RLIMIT_NOFILE, wanted, hard.max(wanted));
    if raised.is_err() && hard >= clients as u64 {
        // As memcached, which leaves nothing for itself: the last few clients may have to wait.
        return Ok(setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?);
    }
    raised.with_context(|| {
        format!("-c {clients}: {hard} files may be open here; start as root, raise `ulimit -n`, or say a smaller number")
    })
}

/// -d: the process that was started ends, and this one goes on in the background. With -v it still says what it does. Without threads.
pub(crate) fn become_daemon(options: &Options) -> anyhow::Result<()> {
    // A terminal that is closed does not end it.
    signal_hook::flag::register(signal_hook::consts::SIGHUP, Arc::new(AtomicBool::new(false)))?;
    daemon(false, options.verbose > 0).context("-d")
}

/// A daemon's folder is the root: paths must not depend on it.
pub(crate) fn absolute(options: &Options) -> io::Result<Options> {
    let absolute = |path: &Option<PathBuf>| path.as_ref().map(std::path::absolute).transpose();
    Ok(Options {
        unix_socket: absolute(&options.unix_socket)?,
        snapshot: absolute(&options.snapshot)?,
        pidfile: absolute(&options.pidfile)?,
        ccnic: absolute(&options.ccnic)?,
        ..options.clone()
    })
}

/// -k: root takes the limit on locked memory away, before it becomes another user.
pub(crate) fn allow_locking() {
    let _ = setrlimit(Resource::RLIMIT_MEMLOCK, RLIM_INFINITY, RLIM_INFINITY);
}

/// -k: as with memcached, a warning where it is not permitted. Under a limit it is not tried: what came above it would not be there.
pub(crate) fn lock_memory() {
    let limit = getrlimit(Resource::RLIMIT_MEMLOCK).map_or(0, |(soft, _)| soft);
    let locked = if limit == RLIM_INFINITY || geteuid().is_root() {
        mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE).map_err(|error| error.to_string())
    } else {
        Err(format!("{limit} bytes are allowed"))
    };
    if let Err(error) = locked {
        eprintln!("ccnic-kv: -k: memory is not locked ({error}); say `ulimit -l unlimited` or start as root");
    }
}

/// -P: it appears whole, by a rename, for all to read. A failure is told and no more, as with memcached.
pub(crate) fn write_pid(path: &Path) {
    let running = |text: &String| {
        text.trim().parse::<u32>().is_ok_and(|pid| Path::new("/proc").join(pid.to_string()).exists())
    };
    if let Some(other) = file::read_short(path).ok().filter(running) {
        eprintln!("ccnic-kv: -P {}: it names a process that runs: {}", path.display(), other.trim());
    }
    let write = || {
        let mut file = NewFile::create(path)?.readable()?;
        writeln!(file, "{}", std::process::id())?;
        file.finish()
    };
    if let Err(error) = write() {
        eprintln!("ccnic-kv: -P {}: {error}", path.display());
    }
}

/// The end of a daemon's pid file, if it still names this process.
pub(crate) fn remove_pid(path: &Path) {
    let own = |text: String| text.trim() == std::process::id().to_string();
    if file::read_short(path).is_ok_and(own)
        && let Err(error) = fs::remove_file(path)
    {
        eprintln!("ccnic-kv: -P {}: {error}", path.display());
    }
}

/// The processor time of the process so far: for itself, in the system.
pub(crate) fn processor_time() -> [Duration; 2] {
    let duration =
        |time: nix::sys::time::TimeVal| Duration::new(time.tv_sec() as u64, time.tv_usec() as u32 * 1000);
    getrusage(UsageWho::RUSAGE_SELF)
        .map_or([Duration::ZERO; 2], |usage| [duration(usage.user_time()), duration(usage.system_time())])
}
