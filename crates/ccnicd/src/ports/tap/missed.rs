//! Packets that the kernel has dropped because the port did not read them in time.

use std::cell::Cell;
use std::os::fd::OwnedFd;

use anyhow::Context;
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::pread;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};

/// The interface's counter of packets that the kernel has dropped on their way to the port, without those of before.
///
/// It is a file of sysfs that stays open. So the polling thread reads it without a lock of rtnetlink and without a capability, and it goes along
/// with the interface to another name and to another network namespace.
#[derive(Debug)]
pub(super) struct Missed {
    counter: Option<OwnedFd>,
    before: u64,
    /// The last that was read: there is nothing to read of an interface that was deleted.
    last: Cell<u64>,
}

impl Missed {
    /// Of an interface of this thread's network namespace. Where there is no sysfs of it, the log says so and nothing is counted.
    pub(super) fn open(name: &str, index: u32) -> Missed {
        let counter = of_namespace(name).or_else(|_| mounted(name, index));
        let counter = counter
            .inspect_err(|e| {
                tracing::warn!(
                    interface = name,
                    "packets that the kernel drops before the port has read them are not counted (missed): {e:#}"
                );
            })
            .ok();
        let before = counter.as_ref().and_then(read).unwrap_or(0);
        Missed { counter, before, last: Cell::new(before) }
    }

    /// Packets, since it was opened.
    pub(super) fn get(&self) -> u64 {
        self.counter.as_ref().and_then(read).into_iter().for_each(|now| self.last.set(now));
        self.last.get().saturating_sub(self.before)
    }
}

fn attribute(name: &str, what: &str) -> String {
    format!("class/net/{name}/{what}")
}

fn open(at: impl std::os::fd::AsFd, path: &str) -> rustix::io::Result<OwnedFd> {
    openat(at, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
}

/// By a sysfs of this thread's network namespace, which is mounted nowhere: one that is mounted may be another namespace's.
fn of_namespace(name: &str) -> rustix::io::Result<OwnedFd> {
    let sysfs = fsopen("sysfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&sysfs)?;
    let attributes = MountAttrFlags::MOUNT_ATTR_RDONLY;
    let root = fsmount(&sysfs, FsMountFlags::FSMOUNT_CLOEXEC, attributes)?;
    open(&root, &attribute(name, "statistics/tx_dropped"))
}

/// By the sysfs that is mounted, if the interface is there.
fn mounted(name: &str, index: u32) -> anyhow::Result<OwnedFd> {
    let file = |what| open(CWD, &format!("/sys/{}", attribute(name, what)));
    let there = file("ifindex").ok().and_then(|file| read(&file));
    anyhow::ensure!(there == Some(index.into()), "/sys is not that of its network namespace");
    file("statistics/tx_dropped").context("it cannot be read below /sys")
}

/// A number that is all that a file contains.
fn read(file: &OwnedFd) -> Option<u64> {
    let mut text = [0; 24];
    let len = pread(file, &mut text, 0).ok()?;
    std::str::from_utf8(text.get(..len)?).ok()?.trim().parse().ok()
}
