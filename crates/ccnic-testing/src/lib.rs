//! What the tests of several crates share: one at a time, waiting, and network namespaces. For tests only.

#![allow(clippy::unwrap_used, reason = "for tests")]

use std::fs::File;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ccnic_shm::{NativeMemory, Region};

/// Longer than any machine needs; only a hang gets here.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// One test of a file at a time: each has a core that polls.
pub fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits until `ready`, looking again and again; `what` says what did not come.
///
/// # Panics
/// When it does not come within [`PATIENCE`].
#[track_caller]
pub fn until(what: &str, mut ready: impl FnMut() -> bool) {
    let start = Instant::now();
    while !ready() {
        assert!(start.elapsed() < PATIENCE, "timed out waiting for {what}");
        std::thread::yield_now();
    }
}

/// Runs the ignored test `inner` of this binary in a network namespace of its own. Skipped, with the reason, where there can be none.
///
/// # Panics
/// When that test fails.
#[track_caller]
pub fn in_namespace(inner: &str) {
    let _alone = alone();
    try_in_namespace(inner);
}

/// As [`in_namespace`], beside other tests. False, and the reason printed, where there can be none.
///
/// # Panics
/// When that test fails.
#[track_caller]
pub fn try_in_namespace(inner: &str) -> bool {
    let tries = [&["--net"][..], &["--user", "--map-root-user", "--net"]];
    let works = |flags: &&&[&str]| {
        let done = Command::new("unshare").args(**flags).args(["ip", "link", "set", "lo", "up"]).output();
        done.is_ok_and(|done| done.status.success())
    };
    let Some(flags) = tries.iter().find(works) else {
        println!(
            "skipped: no network namespace can be made here: that takes unshare and ip, and root or user namespaces"
        );
        return false;
    };
    if let Err(e) = File::options().read(true).write(true).open("/dev/net/tun") {
        println!("skipped: /dev/net/tun: {e}");
        return false;
    }
    let status = Command::new("unshare")
        .args(*flags)
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", inner, "--ignored", "--nocapture"])
        .status();
    assert!(status.unwrap().success(), "{inner} failed");
    true
}

/// A region that a test uses as [`Region::agent`] asks.
pub trait RegionMemory {
    /// Access for one agent.
    fn memory(&self) -> NativeMemory;
}

impl RegionMemory for Region {
    #[expect(unsafe_code, reason = "the promise of all tests")]
    fn memory(&self) -> NativeMemory {
        // SAFETY: a test uses the offsets of its layout or below its region's size, and has bytes lent that nobody else uses; what two
        // threads exchange they hand over by words.
        unsafe { self.agent() }
    }
}
