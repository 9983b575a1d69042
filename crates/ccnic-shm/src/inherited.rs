//! Descriptors that a service manager passes to a program that it starts (sd_listen_fds(3)).

use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

/// The first of them.
const FIRST: RawFd = 3;
/// More are not looked at.
const MOST: i32 = 4096;

/// The descriptors that the environment says this process was started with (`LISTEN_PID`, `LISTEN_FDS`, `LISTEN_FDNAMES`), with their names. Once:
/// they are the caller's from then on, and none later.
pub fn inherited() -> Vec<(String, OwnedFd)> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    let said = |name| std::env::var(name).ok();
    let ours = said("LISTEN_PID").is_some_and(|pid| pid == std::process::id().to_string());
    let number = said("LISTEN_FDS").and_then(|number| number.parse().ok()).filter(|n| (1..=MOST).contains(n));
    let Some(number) = number.filter(|_| ours && !TAKEN.swap(true, Ordering::Relaxed)) else {
        return Vec::new();
    };
    let names = said("LISTEN_FDNAMES").unwrap_or_default();
    let names = names.split(':').map(str::to_owned).chain(std::iter::repeat(String::new()));
    (FIRST..FIRST + number).zip(names).filter_map(|(fd, name)| Some((name, own(fd).ok()?))).collect()
}

/// Takes a descriptor that is open, which no program that this one starts is to have.
fn own(fd: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: F_SETFD takes a number, and fails where nothing is open.
    if unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it is open, and was when the process was started: by the protocol it is for whoever reads the environment, which is done once.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
