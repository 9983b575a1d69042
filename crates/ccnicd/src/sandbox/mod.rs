//! The sandbox: what the daemon's process may do once it is set up.
//!
//! | file | contents |
//! |---|---|
//! | `options.rs` | [`SandboxOptions`]: `--sandbox` |
//! | `needs.rs` | [`Needs`]: capabilities, paths and calls that a configuration needs at run time |
//! | `account.rs` | becomes another user |
//! | `capabilities.rs` | drops capabilities |
//! | `paths.rs` | Landlock: files and TCP |
//! | `calls.rs` | seccomp: system calls |
//!
//! Credentials, Landlock and no_new_privs belong to a thread, and new threads inherit them. So the sandbox is [entered](enter) while the
//! process has one thread: after what takes more than is kept (the socket, TAP interfaces), before all else. It cannot be left.
//! `docs/security.md` has the tables; tests compare them with these files.

mod account;
mod calls;
mod capabilities;
mod needs;
mod options;
mod paths;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

use anyhow::{Context, bail, ensure};
use ccnic_control::messages::SandboxStatus;

pub use account::Account;
pub use needs::{LaterPort, Needs};
pub use options::{Level, SandboxOptions};

use crate::ports::PortOptions;
use crate::ports::tap::TapOptions;
use crate::ports::xdp::XdpOptions;
use needs::Grants;

/// How far a part of the sandbox is in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum InForce {
    Fully,
    /// The kernel knows only some of it.
    Partly,
    /// The kernel has none of it.
    Nothing,
    /// The operator has turned it off.
    Off,
}

/// The sandbox that this process is in.
#[derive(Debug, Clone)]
pub struct Sandbox {
    status: SandboxStatus,
    /// What it lets the process do; `None`: anything.
    grants: Option<Grants>,
}

/// Confines this process for good: it becomes `account`, if there is one, and keeps what it `needs`. To be called while it has one thread.
///
/// Says in the log what was applied.
///
/// # Errors
/// What cannot be done, and what to do. The process may have lost some rights then, and should end.
pub fn enter(options: &SandboxOptions, account: Option<Account>, needs: &Needs) -> anyhow::Result<Sandbox> {
    check(options, account)?;
    let SandboxOptions { capabilities, landlock, seccomp, level } = *options;
    let account = account.filter(|account| !account.is_ours());
    let grants = needs.grants();
    let mut status = SandboxStatus { capabilities: "off".to_owned(), ..SandboxStatus::default() };
    if capabilities || landlock || seccomp {
        check_threads()?;
        rustix::thread::set_no_new_privs(true).context("the kernel refuses no_new_privs")?;
    }
    let landlock = if landlock { paths::restrict(&grants.paths)? } else { InForce::Off };
    if capabilities {
        status.kept = drop_rights(account, &grants)?;
        status.capabilities = "dropped".to_owned();
    }
    let seccomp = if seccomp { calls::restrict(grants.calls)? } else { InForce::Off };
    status.uid = rustix::process::geteuid().as_raw();
    status.landlock = landlock.of_landlock().to_owned();
    status.seccomp = seccomp.of_seccomp().to_owned();
    judge(level, landlock, seccomp)?;
    let SandboxStatus { uid, capabilities, kept, landlock, seccomp } = &status;
    tracing::info!(uid, capabilities, kept = kept.join(","), landlock, seccomp, "sandbox");
    let confined = capabilities != "off" || landlock != "off" || seccomp != "off";
    Ok(Sandbox { status, grants: confined.then_some(grants) })
}

/// Whether a process can become `account` in such a sandbox.
///
/// # Errors
/// What does not go together.
pub fn check(options: &SandboxOptions, account: Option<Account>) -> anyhow::Result<()> {
    let other = account.is_some_and(|account| !account.is_ours());
    ensure!(
        !other || options.capabilities,
        "becoming another user drops capabilities, which the sandbox is told not to do: leave one of them out"
    );
    Ok(())
}

/// Becomes the user and drops capabilities; returns the names of those that are left.
fn drop_rights(account: Option<Account>, grants: &Grants) -> anyhow::Result<Vec<String>> {
    let wanted = grants.capabilities | capabilities::to_lock_memory();
    capabilities::empty_bounding_set().context("could not empty the bounding set of capabilities")?;
    if let Some(account) = account {
        account.become_it()?;
    }
    let kept = capabilities::keep(wanted).context("could not drop capabilities")?;
    Ok(capabilities::names(kept))
}

/// Says what the kernel could not do, or refuses to go on without it.
fn judge(level: Level, landlock: InForce, seccomp: InForce) -> anyhow::Result<()> {
    let lacks = [
        (
            landlock,
            InForce::Nothing,
            "no Landlock (CONFIG_SECURITY_LANDLOCK, and landlock in the lsm= of its command line): the daemon may \
                                      open what its user may",
        ),
        (
            landlock,
            InForce::Partly,
            "an older Landlock: some of what it could forbid stays allowed (Linux 6.12 has all)",
        ),
        (
            seccomp,
            InForce::Nothing,
            "no seccomp filters (CONFIG_SECCOMP_FILTER) that are known here: the daemon may make every system call",
        ),
    ];
    for (part, lack, what) in lacks {
        if part == lack {
            ensure!(
                level != Level::Require,
                "sandbox = require: the kernel has {what}; say on in place of require, or have another kernel"
            );
            tracing::warn!("the kernel has {what}");
        }
    }
    Ok(())
}

/// Another thread would keep all that it has.
fn check_threads() -> anyhow::Result<()> {
    let threads = || std::fs::read_dir("/proc/self/task").map(Iterator::count);
    // One that has been joined may be seen for a moment.
    for _ in 0..100 {
        match threads() {
            Ok(0..=1) => return Ok(()),
            Ok(_) => std::thread::sleep(std::time::Duration::from_millis(10)),
            Err(e) => return Err(e).context("could not count threads: the sandbox needs /proc"),
        }
    }
    anyhow::bail!("the sandbox is entered by one thread only, and there are {}", threads().unwrap_or(0))
}

impl InForce {
    fn of_landlock(self) -> &'static str {
        match self {
            InForce::Fully => "full",
            InForce::Partly => "partial",
            InForce::Nothing => "none",
            InForce::Off => "off",
        }
    }

    fn of_seccomp(self) -> &'static str {
        match self {
            InForce::Fully | InForce::Partly => "on",
            InForce::Nothing => "none",
            InForce::Off => "off",
        }
    }
}

impl Sandbox {
    /// What was applied.
    pub fn status(&self) -> &SandboxStatus {
        &self.status
    }

    /// Whether a port can be opened now.
    ///
    /// # Errors
    /// What was given away, and which option keeps it.
    pub fn check(&self, port: &PortOptions) -> anyhow::Result<()> {
        let Some(grants) = &self.grants else { return Ok(()) };
        match port {
            // Landlock keeps what is another process's in /proc from this one.
            PortOptions::Tap(TapOptions { netns: Some(netns), .. }) => ensure!(
                grants.calls.netns && grants.may_read(netns) && !netns.starts_with("/proc"),
                "ccnicd has given away what entering {} takes: to add TAP ports there while it runs, or to change their mtu, start it with \
                 --later-ports netns, and name the namespace in /run/netns (ip netns), or below a directory of --later-paths",
                netns.display()
            ),
            PortOptions::Tap(_) => ensure!(
                grants.calls.tap,
                "ccnicd has given away what making TAP ports takes: to add some while it runs, or to change their mtu, start it with --later-ports tap"
            ),
            PortOptions::Xdp(XdpOptions { helper: Some(_), .. }) => bail!(
                "ccnicd has given away what connecting to a helper takes: have the port in its configuration when it starts"
            ),
            PortOptions::Xdp(_) => ensure!(
                grants.calls.xdp,
                "ccnicd has given away what making AF_XDP ports takes: to add some while it runs, start it with --later-ports xdp"
            ),
            PortOptions::Pcap(options) => {
                let replay = options.replay.iter().map(|file| (file, grants.may_read(file)));
                let record = options.record.iter().map(|file| (file, grants.may_record(file)));
                for (file, may) in replay.chain(record) {
                    let (file, place) = (file.display(), needs::directory_of(file));
                    ensure!(
                        may,
                        "ccnicd has given away the files below {}: to use {file} while it runs, start it with --later-paths {0}",
                        place.display()
                    );
                }
            }
        }
        Ok(())
    }
}

/// A path as the kernel sees it, or as it is written where there is nothing.
fn resolved(path: &std::path::Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}
