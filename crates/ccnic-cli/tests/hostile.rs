//! `ccnic bench hostile`: the list, a short measurement of a few attacks, and what it says of a daemon that dies.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use ccnic_testing::alone;
use serde_json::Value;

fn hostile(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ccnic"));
    // Its daemons measure nothing at their start.
    command.args(["bench", "hostile"]).args(args).env("CCNIC_TUNING", "default").output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The daemon that lies beside the command; `None` where it has not been built, or on one CPU.
fn daemon() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_BIN_EXE_ccnic")).with_file_name("ccnicd");
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    if !beside.exists() || cpus < 2 {
        println!("skipped: no ccnicd beside this ccnic, or one CPU only");
        return None;
    }
    Some(beside)
}

#[test]
fn the_list_names_every_attack_in_80_columns() {
    let output = hostile(&["--list"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let list = text(&output.stdout);
    for attack in ccnic_hostile::ATTACKS {
        assert!(list.lines().any(|line| line.starts_with(attack.name)), "{} in {list}", attack.name);
    }
    assert!(list.lines().all(|line| line.chars().count() <= 80), "{list}");
}

#[test]
fn what_is_no_attack_or_out_of_range_is_refused() {
    for (args, why) in [
        (["--attacks", "punch,teapot"], "no such attack; --list"),
        (["--attack", "punch"], "--socket"),
        (["--rounds", "0"], "--rounds is 0"),
        (["--seconds", "0"], "--seconds is 0"),
        (["--daemon", "/nonexistent/ccnicd"], "could not start ccnicd"),
        (["--storm", "1000"], "add --wire switch"),
    ] {
        let output = hostile(&args);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains(why), "{args:?}: {}", text(&output.stderr));
    }
}

#[test]
fn every_round_is_in_the_json_and_the_table_fits() {
    let _alone = alone();
    if daemon().is_none() {
        return;
    }
    let short = ["--attacks", "greedy,log-flood", "--rounds", "2", "--seconds", "0.05"];
    let output = hostile(&[&short[..], &["--json"]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let rows: Value = serde_json::from_slice(&output.stdout).unwrap();
    for (row, (attack, busy)) in rows.as_array().unwrap().iter().zip([("greedy", 1), ("log-flood", 0)]) {
        assert_eq!((row["attack"].as_str(), row["busy"].as_u64()), (Some(attack), Some(busy)));
        let rounds = row["rounds"].as_array().unwrap();
        assert_eq!(rounds.len(), 2);
        for round in rounds {
            // On a crowded machine the polling thread may have had no CPU in one of these short phases.
            let packets = ["alone", "beside"].map(|phase| round[phase]["packets"].as_u64().unwrap());
            assert!(packets[0] + packets[1] > 0, "{round}");
            assert!(round["daemon"]["waits"]["longest_us"].is_u64(), "{round}");
            assert!(round["attack"]["done"].as_u64() > Some(0), "the attack did nothing: {round}");
            assert_eq!((round["lost"].as_u64(), round["corrupt"].as_u64()), (Some(0), Some(0)));
            assert_eq!((round["alive"].as_bool(), round["stopped"].as_bool()), (Some(true), Some(true)));
        }
        assert_eq!(row["defects"].as_array().map(Vec::len), Some(0), "{row}");
    }
    // The same table of a switch.
    let output = hostile(&[&short[..], &["--wire", "switch"]].concat());
    let table = text(&output.stdout);
    assert!(output.status.success() && table.contains("core of a switch"), "{table}");
    // A receiver that stood still for long may have lost some: then they were counted.
    let accounted = ["none was lost or damaged", "every other one was counted as dropped"];
    let words = table.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(accounted.iter().any(|said| words.contains(said)), "{table}");
    let output = hostile(&short);
    let table = text(&output.stdout);
    assert!(table.contains("greedy") && table.contains("none was lost or damaged"), "{table}");
    assert!(table.lines().all(|line| line.chars().count() <= 80), "{table}");
}

/// Ten programs of which one is hostile: it floods a switch without end, or fills its rings. Each of the nine goes on, and every packet of
/// theirs arrives or is counted where it was dropped; with a storm limit all arrive.
#[test]
fn nine_good_programs_beside_a_hostile_one() {
    let _alone = alone();
    if daemon().is_none() {
        return;
    }
    let nine =
        ["--good", "9", "--rounds", "1", "--seconds", "0.1", "--json", "--attacks", "broadcast,flood-9000"];
    let limited = ["--wire", "switch", "--storm", "100"];
    for wire in [&[][..], &limited[..2], &limited] {
        let output = hostile(&[&nine[..], wire].concat());
        assert!(output.status.success(), "{wire:?}: {}{}", text(&output.stdout), text(&output.stderr));
        let rows: Value = serde_json::from_slice(&output.stdout).unwrap();
        for row in rows.as_array().unwrap() {
            assert_eq!((row["good"].as_u64(), row["busy"].as_u64()), (Some(9), Some(1)));
            let (round, unaccounted) = (&row["rounds"][0], &row["unaccounted"]);
            assert_eq!((unaccounted.as_u64(), round["corrupt"].as_u64()), (Some(0), Some(0)), "{row}");
            assert!(round["attack"]["done"].as_u64() > Some(0), "the attack did nothing: {round}");
            // In one of these short phases the polling thread may have had no CPU.
            let each = |phase: &str| round[phase]["each_mpps"].as_array().unwrap().clone();
            let both = each("alone").into_iter().zip(each("beside"));
            let served = both.filter(|(a, b)| a.as_f64() > Some(0.0) || b.as_f64() > Some(0.0)).count();
            assert_eq!(served, 9, "{wire:?}: {round}");
            if wire.len() != 2 {
                assert_eq!(row["lost"].as_u64(), Some(0), "{wire:?}: {row}");
            }
        }
    }
}

/// A daemon that is killed beside an attack: the report says so, and the command fails.
#[test]
fn a_daemon_that_dies_is_a_defect() {
    let _alone = alone();
    let Some(daemon) = daemon() else { return };
    let directory = tempfile::tempdir().unwrap();
    let mortal = directory.path().join("ccnicd");
    let script = format!("#!/bin/sh\n{} \"$@\" & nic=$!\nsleep 1; kill -9 $nic\n", daemon.display());
    std::fs::write(&mortal, script).unwrap();
    std::fs::set_permissions(&mortal, PermissionsExt::from_mode(0o755)).unwrap();
    let mortal = mortal.to_str().unwrap();
    let output =
        hostile(&["--attacks", "log-flood", "--rounds", "1", "--seconds", "2", "--json", "--daemon", mortal]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let rows: Value = serde_json::from_slice(&output.stdout).unwrap();
    let defects = rows[0]["defects"].as_array().unwrap();
    assert!(defects.iter().any(|defect| defect == "the daemon died"), "{defects:?}");
}
