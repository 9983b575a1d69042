//! The sandbox: what a running daemon has left, as root, as another user, as an ordinary user. (Every other test of the daemon runs in it,
//! too: it is on unless turned off. `sandbox_inside.rs` tries to get out.)

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

mod common;

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Output};

use ccnic::Design;
use ccnic_control::Listener;
use common::station::{BROADCAST, Station};
use common::{Daemon, alone, config, until};
use rustix::process::{Signal, geteuid};

/// A uid and a gid that nobody has.
const UID: u32 = 4242;
const GID: u32 = 4343;

/// The values of a field of `/proc/PID/status`, of each thread.
fn of_each_thread(daemon: &Daemon, field: &str) -> Vec<String> {
    let tasks = format!("/proc/{}/task", daemon.pid().as_raw_nonzero());
    let status = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("status")).ok();
    let statuses: Vec<_> = std::fs::read_dir(tasks).unwrap().filter_map(|task| status(task.ok()?)).collect();
    let value = |status: &String| {
        status
            .lines()
            .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))
            .map(|v| v.trim().to_owned())
    };
    statuses.iter().map(|status| value(status).unwrap()).collect()
}

#[track_caller]
fn all_threads_have(daemon: &Daemon, field: &str, expected: &str) {
    let values = of_each_thread(daemon, field);
    assert!(values.len() > 1 && values.iter().all(|value| value == expected), "{field}: {values:?}");
}

/// Two programs on the daemon's switch reach each other.
#[track_caller]
fn works(daemon: &mut Daemon, socket: &Path) {
    let mut stations = [0, 1].map(|n| Station::open(socket, n, &config(Design::GroupedEpoch)));
    assert!(stations[0].send(BROADCAST, 100));
    until("the frame", || !stations[1].receive().is_empty());
    daemon.status();
}

#[track_caller]
fn is_confined(daemon: &mut Daemon, uid: u32) {
    let status = daemon.status().sandbox.unwrap();
    // Where root may not raise the limit of locked memory, it keeps what locking takes.
    let locks = status.kept == ["cap_ipc_lock"];
    assert!(locks || status.kept.is_empty(), "{:?}", status.kept);
    for (set, may_lock) in [("CapInh", false), ("CapAmb", false), ("CapPrm", locks), ("CapEff", locks)] {
        all_threads_have(daemon, set, &format!("{:016x}", if may_lock { 1 << 14 } else { 0 }));
    }
    all_threads_have(daemon, "NoNewPrivs", "1");
    all_threads_have(daemon, "Seccomp", "2");
    assert_eq!((status.uid, status.capabilities.as_str(), status.seccomp.as_str()), (uid, "dropped", "on"));
    println!("Landlock here: {}", status.landlock);
}

#[test]
fn a_daemon_keeps_no_rights() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("nic.sock");
    let mut daemon = Daemon::start_with(&socket, &["--wire", "switch", "--log", "info"]);
    is_confined(&mut daemon, geteuid().as_raw());
    if geteuid().is_root() {
        all_threads_have(&daemon, "CapBnd", "0000000000000000");
    }
    works(&mut daemon, &socket);
    assert!(daemon.log().contains("ccnicd::sandbox: sandbox"), "{}", daemon.log());
    assert!(daemon.signal(Signal::TERM).success() && !Listener::is_taken(&socket));
}

#[test]
fn a_daemon_becomes_another_user() {
    if !geteuid().is_root() {
        return println!("skipped: that takes root");
    }
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    std::os::unix::fs::chown(directory.path(), Some(UID), None).unwrap();
    let socket = directory.path().join("nic.sock");
    let user = format!("{UID}:{GID}");
    let args = ["--wire", "switch", "--user", &user, "--socket-mode", "0660", "--socket-group", "4444"];
    let mut daemon = Daemon::start_with(&socket, &args);
    is_confined(&mut daemon, UID);
    all_threads_have(&daemon, "Uid", &vec![UID.to_string(); 4].join("\t"));
    all_threads_have(&daemon, "Gid", &vec![GID.to_string(); 4].join("\t"));
    all_threads_have(&daemon, "Groups", "");
    let meta = std::fs::metadata(&socket).unwrap();
    assert_eq!((meta.uid(), meta.gid(), meta.mode() & 0o777), (UID, 4444, 0o660));
    works(&mut daemon, &socket);
    assert!(daemon.signal(Signal::TERM).success());
    assert!(!Listener::is_taken(&socket));
    assert_eq!(daemon.log(), "", "nothing to complain of, whether or not it could remove its socket");
}

#[test]
fn an_ordinary_user_can_run_it() {
    if !geteuid().is_root() {
        return println!("skipped: a_daemon_keeps_no_rights has been it");
    }
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    std::os::unix::fs::chown(directory.path(), Some(UID), Some(GID)).unwrap();
    let (socket, uid, gid) =
        (directory.path().join("nic.sock"), format!("--reuid={UID}"), format!("--regid={GID}"));
    let program = env!("CARGO_BIN_EXE_ccnicd");
    let by = ["setpriv", &uid, &gid, "--clear-groups"];
    let probe = Command::new(by[0]).args(&by[1..]).args([program, "--version"]).output();
    if !probe.as_ref().is_ok_and(|output| output.status.success()) {
        return println!("skipped: another user cannot execute {program}, or there is no setpriv: {probe:?}");
    }
    let mut daemon = Daemon::start_by(&[&by[..], &[program]].concat(), &socket, &["--wire", "switch"]);
    is_confined(&mut daemon, UID);
    works(&mut daemon, &socket);
    drop(daemon);
    let socket = directory.path().join("other.sock");
    let refused = Command::new(by[0])
        .args(&by[1..])
        .args([program, "--tuning", "default", "--user", "0:0", "--socket"])
        .arg(&socket)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("CAP_"), "{said}");
    assert!(!socket.exists());
}

#[test]
fn parts_can_be_turned_off() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("nic.sock");
    let parts = |sandbox: &str| {
        let mut daemon = Daemon::start_with(&socket, &["--sandbox", sandbox]);
        let status = daemon.status().sandbox.unwrap();
        let privileges = of_each_thread(&daemon, "NoNewPrivs")[0].clone();
        assert!(daemon.signal(Signal::TERM).success());
        ([status.capabilities, status.landlock, status.seccomp], privileges)
    };
    let (off, privileges) = parts("off");
    assert_eq!((off, privileges.as_str()), (["off"; 3].map(String::from), "0"));
    let (some, privileges) = parts("on,landlock=off,seccomp=off");
    assert_eq!((some, privileges.as_str()), (["dropped", "off", "off"].map(String::from), "1"));
    let (some, _) = parts("on,capabilities=off,seccomp=off");
    assert_eq!((some[0].as_str(), some[2].as_str()), ("off", "off"));
    let ccnicd = |args: &[&str]| -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ccnicd"));
        command.args(["--tuning", "default", "--socket"]).arg(&socket).args(args).output().unwrap()
    };
    let (uid, gid) = (UID, GID);
    for (args, expected) in [
        (&["--sandbox", "on,files=off"][..], "there is no part \"files\""),
        (&["--sandbox", "off", "--user", &format!("{uid}:{gid}")], "leave one of them out"),
        (&["--user", "4242"], "write 4242:GROUP"),
        (&["--socket-mode", "rw"], "0660"),
        (&["--socket-group", "no-such-group"], "--socket-group"),
    ] {
        let output = ccnicd(args);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && said.contains(expected), "{args:?}: {said}");
        assert!(!Listener::is_taken(&socket));
    }
}
