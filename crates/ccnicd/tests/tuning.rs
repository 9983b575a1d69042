//! The tuning of a daemon: what the operator says, what is kept, what programs are told and `status` shows.
//!
//! What a measurement finds is the machine's affair, and nothing here depends on it.

#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use ccnic::{Config, Tuning};
use ccnic_client::{Nic, Pages};
use ccnic_control::messages::TuningStatus;
use common::flow::Flow;
use common::{Daemon, alone, until};
use rustix::process::Signal;

fn tuning(text: &str) -> Tuning {
    text.parse().unwrap()
}

fn open(socket: &Path) -> Nic {
    Nic::options().name("tuned").config(&Config::default()).pages(Pages::Small).open(socket).unwrap()
}

/// What the daemon says it uses, and where it is from.
fn shown(daemon: &mut Daemon) -> TuningStatus {
    daemon.status().tuning.unwrap()
}

/// The file in which a daemon keeps what it measured, if it has.
fn kept(cache: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(cache).ok()?;
    let paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    assert!(paths.len() <= 1, "{paths:?}");
    paths.into_iter().next()
}

#[test]
fn the_operator_decides_and_programs_follow_also_to_a_successor() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("nic.sock");
    let mut daemon = Daemon::start_with(&socket, &["--tuning", "default,fetch=read,ahead=2,idle=spin"]);
    let first = tuning("fetch=read,ahead=2,idle=spin");
    assert_eq!(shown(&mut daemon), TuningStatus::new(first, "option"));
    let mut program = open(&socket);
    assert_eq!(program.tuning(), first);
    let own = tuning("demote=off");
    let other = Nic::options().tuning(own).pages(Pages::Small).open(&socket).unwrap();
    assert_eq!(other.tuning(), own, "a program's own goes before the NIC's");
    let mut flow = Flow::new(program.queue_pair(0).unwrap(), &[64, 1500], 64);
    flow.exchange(500);
    flow.drain();
    assert!(daemon.signal(Signal::TERM).success());
    until("the daemon's end", || !program.alive());
    let mut successor = Daemon::start_with(&socket, &["--tuning", "default"]);
    assert_eq!(shown(&mut successor), TuningStatus::new(Tuning::default(), "option"));
    program.reconnect([&mut flow.pair], []).unwrap();
    assert_eq!(program.tuning(), Tuning::default());
    flow.exchange(500);
}

/// `ccnicd --tune`, which keeps its result in `cache`.
fn tune(cache: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ccnicd"));
    command.args(["--tune", "--log", "warn,ccnicd::placement=off"]).env("CACHE_DIRECTORY", cache);
    command.output().unwrap()
}

#[test]
fn a_measurement_is_kept_only_as_a_whole_and_used_unless_it_is_damaged() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let (socket, cache) = (directory.path().join("nic.sock"), directory.path().join("cache"));
    let Output { status, stdout, stderr } = tune(&cache);
    let [out, err] = [stdout, stderr].map(|text| String::from_utf8(text).unwrap());
    if !status.success() {
        // One CPU only, or none that was idle for long enough: nothing may be kept then.
        assert!(err.contains("one only") || err.contains("other processes use"), "{err}");
        assert_eq!((status.code(), kept(&cache)), (Some(2), None));
        return;
    }
    let path = kept(&cache).unwrap();
    assert!(out.contains(&format!("kept in {}", path.display())), "{out}");
    for variant in ["fetch=read", "ahead=1", "ahead=2", "ahead=4", "demote=off", "demote=on", "idle=spin"] {
        assert_eq!(out.lines().filter(|line| line.starts_with(variant)).count(), 1, "{variant}: {out}");
    }
    let text = std::fs::read_to_string(&path).unwrap();
    let chosen = text.lines().last().unwrap().strip_prefix("tuning ").unwrap();
    assert!(out.contains(&format!("tuning: {chosen}")), "{out}");
    let mut daemon = Daemon::start_measuring(&socket, &cache);
    assert_eq!(shown(&mut daemon), TuningStatus::new(tuning(chosen), "cached"));
    assert_eq!(open(&socket).tuning(), tuning(chosen));
    assert!(daemon.signal(Signal::TERM).success());
    // A damaged file is reported, and the daemon starts without it.
    std::fs::write(&path, "tuning fetch=write\n").unwrap();
    let mut daemon = Daemon::start_measuring(&socket, &cache);
    let (source, log) = (shown(&mut daemon).source, daemon.log());
    assert!(["measured", "default"].contains(&source.as_str()), "{log}");
    assert!(log.contains(path.to_str().unwrap()) && log.contains("1 lines instead of 4"), "{log}");
    Flow::new(open(&socket).queue_pair(0).unwrap(), &[64], 64).exchange(100);
}
