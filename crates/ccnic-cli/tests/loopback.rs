//! `ccnic bench loopback` and `ccnic status` with a NIC that runs in a thread of the test: rounds in JSON and in the table.

#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ccnicd::DaemonOptions;
use ccnicd::dataplane::DataplaneKind;
use common::{TestNic, options};
use serde_json::Value;

/// A NIC on the last CPU that may be used: the programs of `bench loopback` run on the first.
struct LastCpu {
    socket: PathBuf,
    _nic: TestNic,
    _alone: MutexGuard<'static, ()>,
    _directory: tempfile::TempDir,
}

impl LastCpu {
    /// None on machines with one CPU, where program and NIC would starve each other.
    fn start() -> Option<LastCpu> {
        // One NIC at a time: it has a CPU that polls.
        static ALONE: Mutex<()> = Mutex::new(());
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("nic.sock");
        let cpus = ccnicd::control::placement::allowed_cpus().unwrap();
        if cpus.len() < 2 {
            println!("skipped: one CPU only");
            return None;
        }
        let cores = cpus.last().copied().into_iter().collect();
        let options = options(&socket, cores, DataplaneKind::Loopback);
        let nic = TestNic::start_with(DaemonOptions { dedicated_cores: true, ..options });
        Some(LastCpu { socket, _nic: nic, _alone: alone, _directory: directory })
    }
}

fn ccnic(args: &[&str], socket: &Path) -> Output {
    let output =
        Command::new(env!("CARGO_BIN_EXE_ccnic")).args(args).arg("--socket").arg(socket).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

const SHORT: [&str; 7] = ["bench", "loopback", "--no-limit", "--rounds", "3", "--seconds", "0.2"];

#[test]
fn every_round_is_in_the_json_and_medians_are_of_them() {
    let Some(nic) = LastCpu::start() else { return };
    let output = ccnic(&[&SHORT[..], &["--inflight", "64", "--json"]].concat(), &nic.socket);
    assert!(!String::from_utf8_lossy(&output.stderr).contains(" of 6"), "no progress bar with --json");
    let point: Value = serde_json::from_slice(&output.stdout).unwrap();
    for key in ["design", "size", "burst", "inflight", "queues", "packets", "mpps", "gbps", "lost", "corrupt"]
    {
        assert!(point.get(key).is_some(), "{key} in {point}");
    }
    assert_eq!((point["lost"].as_u64(), point["corrupt"].as_u64()), (Some(0), Some(0)));
    let rounds = point["rounds"].as_array().unwrap();
    assert_eq!(rounds.len(), 3);
    let mut mpps: Vec<f64> = rounds.iter().map(|round| round["mpps"].as_f64().unwrap()).collect();
    mpps.sort_by(f64::total_cmp);
    let spread = &point["spread"]["mpps"];
    assert_eq!(
        [&spread["min"], &spread["median"], &spread["max"]].map(Value::as_f64),
        [mpps[0], mpps[1], mpps[2]].map(Some)
    );
    assert_eq!(point["mpps"].as_f64(), Some(mpps[1]));
    let packets: u64 = rounds.iter().map(|round| round["packets"].as_u64().unwrap()).sum();
    assert_eq!(point["packets"].as_u64(), Some(packets));
    for round in rounds {
        assert!(round["pingpong_ns"].as_f64() > Some(0.0), "{round}");
    }
    assert!(point["limit_share"].is_null(), "--no-limit");
}

#[test]
fn tables_fit_80_columns_and_name_the_rounds() {
    let Some(nic) = LastCpu::start() else { return };
    let output = ccnic(&[&SHORT[..], &["--design", "paper"]].concat(), &nic.socket);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.starts_with("paper, 64 B packets, 1 queue pair, bursts of 32: medians of 3 rounds of 0.2 s"),
        "{text}"
    );
    assert!(text.contains("Ping-pong round trip between the two CPUs before each round"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let status = String::from_utf8(ccnic(&["status"], &nic.socket).stdout).unwrap();
    assert!(status.contains("No program is attached.") && !status.contains("queue  CPU"), "{status}");
    assert!(status.contains("fetch=own,ahead=0,demote=auto,idle=pause"), "{status}");
    let json = ccnic(&["status", "--json"], &nic.socket).stdout;
    let tuning = &serde_json::from_slice::<Value>(&json).unwrap()["tuning"];
    assert_eq!((tuning["fetch"].as_str(), tuning["source"].as_str()), (Some("own"), Some("default")));
}
