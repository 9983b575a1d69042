//! Network namespaces: something is done in another one, and interfaces are looked for in all.

use std::collections::BTreeSet;
use std::fs::{File, metadata, read_dir};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use rustix::fs::fstat;
use rustix::io::Errno;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::link::Link;

/// Runs `f` in the network namespace that a path names, on a thread of its own, and waits for it. Sockets and TAP devices that it opens belong
/// to that namespace wherever they are used.
///
/// # Errors
/// Those of `f`; or why the namespace cannot be entered, and what to do.
pub(super) fn within<T: Send>(
    namespace: &Path,
    f: impl FnOnce() -> anyhow::Result<T> + Send,
) -> anyhow::Result<T> {
    let path = namespace.display();
    let there = File::open(namespace).with_context(|| {
        format!("could not open the network namespace {path}: write the path of one that exists (ls /run/netns; /proc/PID/ns/net)")
    })?;
    inside(there.as_fd(), &path.to_string(), f)
}

/// The same in a namespace that is open; in this thread's own, here.
///
/// # Errors
/// As [`within`].
pub(super) fn inside<T: Send>(
    there: BorrowedFd<'_>,
    path: &str,
    f: impl FnOnce() -> anyhow::Result<T> + Send,
) -> anyhow::Result<T> {
    let ours = metadata("/proc/thread-self/ns/net").map(|ours| ours.ino());
    if let (Ok(ours), Ok(theirs)) = (ours, fstat(there))
        && ours == theirs.st_ino
    {
        return f();
    }
    std::thread::scope(|scope| {
        let enter = || {
            let entered = move_into_link_name_space(there, Some(LinkNameSpaceType::Network));
            entered.with_context(|| format!("could not enter {path}: {}", remedy(entered.err())))?;
            f()
        };
        let thread = std::thread::Builder::new().name("ccnicd-netns".to_owned());
        let thread = thread.spawn_scoped(scope, enter).context("could not start a thread")?;
        thread.join().unwrap_or_else(|_| anyhow::bail!("the thread in {path} has panicked"))
    })
}

/// What to do when a namespace cannot be entered.
fn remedy(errno: Option<Errno>) -> &'static str {
    match errno {
        Some(Errno::PERM) => {
            "that takes CAP_SYS_ADMIN when the port is opened; give it to ccnicd, which drops it afterwards"
        }
        Some(Errno::INVAL) => "it is no network namespace",
        _ => "see the kernel's log",
    }
}

/// The path of another network namespace that has a persistent TAP interface of this name which no process uses. `None` also where this
/// process may not look into others.
pub(super) fn of_unused_tap(name: &str) -> Option<PathBuf> {
    let mut seen = BTreeSet::from([metadata("/proc/thread-self/ns/net").ok()?.ino()]);
    let named = read_dir("/run/netns").into_iter().flatten().flatten().map(|entry| entry.path());
    let of_processes = read_dir("/proc").into_iter().flatten().flatten().filter_map(|entry| {
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        Some(PathBuf::from(format!("/proc/{pid}/ns/net")))
    });
    named.chain(of_processes).find(|path| {
        let new = metadata(path).is_ok_and(|this| seen.insert(this.ino()));
        new && within(path, || Ok(Link::open(name)?.is_unused_tap())).unwrap_or(false)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_have_remedies() {
        for (path, expected) in [
            (
                "/nonexistent/pod",
                "could not open the network namespace /nonexistent/pod: write the path of one",
            ),
            ("/dev/null", "could not enter /dev/null: "),
        ] {
            let why = format!("{:#}", within(Path::new(path), || Ok(())).unwrap_err());
            assert!(why.contains(expected), "{why}");
        }
        assert!(remedy(Some(Errno::PERM)).contains("CAP_SYS_ADMIN"));
        assert!(remedy(Some(Errno::INVAL)).contains("no network namespace"));
    }
}
